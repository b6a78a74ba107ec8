"""The user's function is a stranger: it may write into its argument, keep it, and return its own buffer.

Points handed out are never views of the library's own state, and answers are copied at the border, so a run with such
a function equals the run with a well-mannered one.
"""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import goldstein as gs
from goldstein.attack import attack

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")

X0 = np.array([3.0, -2.0, 0.5, 4.0])
BY_VALUES = ["auto", "gfm", "gfm+", "ws-gfm", "ws-gfm+", "one-phase", "zo-o2nc"]
BY_GRADIENTS = ["ingd", "pingd", "cutting-plane", "singd", "psingd", "o2nc"]


def value(x):
    return abs(x - 1).sum()


def values(X):
    return np.abs(X - 1).sum(axis=1)


def gradients(X):
    return np.sign(X - 1)


def scribbles(function):
    """The same function, which destroys its first argument once it has its answer."""

    def rude(x, *rest):
        answer = function(x, *rest)
        x[...] = 99.0
        return answer

    return rude


def reuses(function):
    """The same function of many points, which returns a view of one buffer of its own, whatever it is asked."""
    buffers = {}

    def rude(X, *rest):
        answer = np.asarray(function(X, *rest))
        buffer = buffers.setdefault(answer.shape[1:], np.empty((100_000, *answer.shape[1:])))
        buffer[: len(answer)] = answer
        return buffer[: len(answer)]

    return rude


def assert_equal_runs(rude: gs.Result, polite: gs.Result) -> None:
    np.testing.assert_array_equal(rude.x, polite.x)
    assert (rude.fun, rude.nfev, rude.ngev, rude.nit) == (polite.fun, polite.nfev, polite.ngev, polite.nit)
    assert rude.message == polite.message


def run(oracle, method, **more) -> gs.Result:
    return gs.minimize(oracle, X0, method, **{"max_evals": 2_000, "rng": 0, **more})


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
def test_a_vectorised_function_may_return_its_own_buffer(method):
    polite = run(gs.Deterministic(values, vectorized=True, grad=gradients), method)
    rude = run(gs.Deterministic(reuses(values), vectorized=True, grad=reuses(gradients)), method)
    assert_equal_runs(rude, polite)


@pytest.mark.parametrize("method", BY_GRADIENTS)
def test_a_gradient_may_return_its_own_buffer(method):
    """One array for all gradients of a function of one point."""
    buffer = np.empty(X0.size)

    def own(x):
        buffer[:] = np.sign(x - 1)
        return buffer

    polite = run(gs.Deterministic(value, grad=lambda x: np.sign(x - 1)), method)
    rude = run(gs.Deterministic(value, grad=own), method)
    assert_equal_runs(rude, polite)


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
@pytest.mark.parametrize("vectorized", [False, True])
def test_a_function_and_its_gradient_may_work_in_place(method, vectorized):
    f = values if vectorized else value
    polite = run(gs.Deterministic(f, vectorized=vectorized, grad=gradients), method)
    rude = run(gs.Deterministic(scribbles(f), vectorized=vectorized, grad=scribbles(gradients)), method)
    assert_equal_runs(rude, polite)


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
@pytest.mark.parametrize("settings", ["workers", "x_scale", "bounds"])
def test_a_function_may_work_in_place_on_every_path(method, settings):
    """Also with threads as workers, with x_scale and within bounds, for the methods that take bounds."""
    if settings == "bounds" and method in ("ingd", "pingd", "cutting-plane"):
        with pytest.raises(ValueError, match="without constraints"):
            run(gs.Deterministic(value, grad=gradients), method, bounds=[(-5, 5)] * 4)
        return
    more = {"x_scale": {"x_scale": [1.0, 2.0, 3.0, 4.0]}, "bounds": {"bounds": [(-5, 5)] * 4}}.get(settings, {})
    polite = run(gs.Deterministic(value, grad=gradients), method, **more)
    with ThreadPoolExecutor(2) as pool:
        if settings == "workers":
            more = {"workers": pool}
        rude = run(gs.Deterministic(scribbles(value), grad=scribbles(gradients)), method, **more)
    assert_equal_runs(rude, polite)


@pytest.mark.parametrize("method", ["gfm", "gfm+", "singd", "psingd", "o2nc", "auto"])
@pytest.mark.parametrize("manner", [scribbles, reuses])
def test_components_of_a_sum_may_be_rude_too(method, manner):
    """A vectorised FiniteSum, whose components and indices both come as arrays."""
    centres = np.random.default_rng(0).normal(size=(20, X0.size))

    def F(X, i):
        return np.abs(X - centres[i]).sum(axis=1)

    def G(X, i):
        return np.sign(X - centres[i])

    polite = run(gs.FiniteSum(F, 20, vectorized=True, grad=G), method)
    rude = run(gs.FiniteSum(manner(F), 20, vectorized=True, grad=manner(G)), method)
    assert_equal_runs(rude, polite)


@pytest.mark.parametrize("method", ["gfm", "gfm+", "auto"])
def test_a_function_may_write_into_its_samples(method):
    """The ξ of a correction are evaluated at two points, so a function that spoils them must not be believed twice."""

    def F(x, xi):
        return abs(x - xi).sum()

    def rude(x, xi):
        answer = F(x, xi)
        xi[...] = 99.0
        return answer

    def sample(rng, k):
        return rng.normal(size=(k, X0.size))

    assert_equal_runs(run(gs.Expectation(rude, sample), method), run(gs.Expectation(F, sample), method))


@pytest.mark.parametrize("method", ["gfm", "gfm+", "auto"])
def test_a_sampler_may_return_its_own_buffer(method):
    buffer = np.empty((100_000, X0.size))

    def sample(rng, k):
        return rng.normal(size=(k, X0.size))

    def own(rng, k):
        buffer[:k] = sample(rng, k)
        return buffer[:k]

    def F(x, xi):
        return abs(x - xi).sum()

    assert_equal_runs(run(gs.Expectation(F, own), method), run(gs.Expectation(F, sample), method))


@pytest.mark.parametrize("method", ["auto", "gfm", "gfm+", "ws-gfm", "zo-o2nc", "singd", "o2nc"])
@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_projection_may_work_in_place(method, scale):
    def polite(x):
        return np.clip(x, -1.5, 3.5)

    oracle = gs.Deterministic(value, grad=gradients)
    runs = [run(oracle, method, projection=set_, x_scale=scale) for set_ in (scribbles(polite), polite)]
    assert_equal_runs(*runs)


@pytest.mark.parametrize("method", ["auto", "gfm", "gfm+", "singd", "o2nc"])
def test_a_projection_may_return_its_own_buffer(method):
    buffer = np.empty(X0.size)

    def own(x):
        return np.clip(x, -1.5, 3.5, out=buffer)

    oracle = gs.Deterministic(value, grad=gradients)
    assert_equal_runs(
        run(oracle, method, projection=own), run(oracle, method, projection=lambda x: np.clip(x, -1.5, 3.5))
    )


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
def test_what_a_function_keeps_does_not_change_afterwards(method):
    """A function that logs its arguments finds them as they were."""
    kept = []

    def keeping(function):
        def keeper(x):
            kept.append((x, x.copy()))
            return function(x)

        return keeper

    run(gs.Deterministic(keeping(value), grad=keeping(gradients)), method, max_evals=300)
    assert len(kept) >= 100
    for x, before in kept:
        np.testing.assert_array_equal(x, before)


def test_a_monitor_and_a_callback_may_write_into_what_they_see():
    def monitor(x):
        x[...] = 99.0
        return 0.0

    def callback(intermediate_result):
        intermediate_result.x[...] = 99.0
        intermediate_result.history.nfev[...] = 0

    oracle = gs.Deterministic(value, grad=gradients)
    for method in BY_VALUES + BY_GRADIENTS:
        rude = run(oracle, method, monitor=monitor, callback=callback)
        assert_equal_runs(rude, run(oracle, method))


@pytest.mark.parametrize("manner", [scribbles, reuses])
def test_the_points_of_a_hull_stay_in_the_ball(manner):
    """`min_norm_hull` reports where the gradients were taken, however the gradient treats its argument."""
    x = np.array([0.05, 2.0, -0.03])
    polite = gs.min_norm_hull(gs.Deterministic(values, vectorized=True, grad=np.sign), x, 0.1, 50, rng=0)
    oracle = gs.Deterministic(manner(values), vectorized=True, grad=manner(np.sign))
    rude = gs.min_norm_hull(oracle, x, 0.1, 50, rng=0)
    assert (np.linalg.norm(rude.points - x, axis=1) <= 0.1).all()
    np.testing.assert_array_equal(rude.points, polite.points)
    np.testing.assert_array_equal(rude.gradients, polite.gradients)


def test_the_points_of_a_hull_stay_in_the_ball_for_a_bare_gradient():
    x = np.array([0.05, 2.0, -0.03])
    hull = gs.min_norm_hull(scribbles(np.sign), x, 0.1, 50, rng=0)
    assert (np.linalg.norm(hull.points - x, axis=1) <= 0.1).all()


@pytest.mark.parametrize("manner", [scribbles, reuses])
@pytest.mark.parametrize("gradient", [False, True])
def test_certificates_do_not_depend_on_the_manners_of_a_function(manner, gradient):
    x = np.array([1.04, 2.0, 0.97])

    def certificate(f, g):
        oracle = gs.Deterministic(f, vectorized=True, grad=g if gradient else None)
        return gs.certify(oracle, x, 0.1, 1.2, rng=0, max_evals=4_000)

    assert certificate(manner(values), manner(gradients)) == certificate(values, gradients)


@pytest.mark.parametrize("manner", [scribbles, reuses])
def test_the_smoothed_gradient_does_not_depend_on_the_manners_of_a_function(manner):
    x = np.array([1.04, 2.0, 0.97])
    rude, polite = (
        gs.smoothed_gradient_norm(gs.Deterministic(f, vectorized=True), x, 0.1, 400, rng=0)
        for f in (manner(values), values)
    )
    assert (rude.norm, rude.upper) == (polite.norm, polite.upper)


def dark_or_light(x):
    light = x.reshape(len(x), -1).mean(axis=1)
    return np.stack([0.5 - light, light - 0.5], axis=1)


@pytest.mark.parametrize("manner", [scribbles, reuses])
@pytest.mark.parametrize("method", [None, gs.GFM(0.01, 0.05)])
@pytest.mark.parametrize("chunk", [1, 256])
def test_a_model_under_attack_may_be_rude(manner, method, chunk):
    images = np.random.default_rng(0).uniform(0.3, 0.55, size=(6, 4, 4)).astype(np.float32)
    rude, polite = (
        attack(model, images, None, method=method, radius=0.1, max_queries=400, chunk=chunk)
        for model in (manner(dark_or_light), dark_or_light)
    )
    np.testing.assert_array_equal(rude.x, polite.x)
    np.testing.assert_array_equal(rude.success, polite.success)
    np.testing.assert_array_equal(rude.queries, polite.queries)


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
def test_a_run_leaves_the_oracle_as_it_was(method):
    """Oracles remember nothing of a run: not the precision of the answers, nor anything else."""

    def single(x):
        return np.float32(value(x))

    oracle = gs.Deterministic(single, grad=lambda x: np.sign(x - 1).astype(np.float32))
    before = dict(vars(oracle))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # single precision may be too coarse for the radius chosen
        run(oracle, method, max_evals=500)
    assert vars(oracle) == before
    assert "roundoff" not in vars(oracle)


def test_checks_leave_the_oracle_as_it_was():
    oracle = gs.Deterministic(lambda X: values(X).astype(np.float32), vectorized=True)
    before = dict(vars(oracle))
    gs.certify(oracle, X0, 0.1, 1.0, rng=0, max_evals=500)
    gs.min_norm_hull(oracle, X0, 0.1, 5, rng=0)
    gs.smoothed_gradient_norm(oracle, X0, 0.1, 100, rng=0)
    assert vars(oracle) == before


OBJECTS = {
    "gfm": gs.GFM(0.01, 0.005),
    "gfm+": gs.GFMPlus(0.1, 0.01, 4, 2),
    "zo-o2nc": gs.ZOO2NC(0.5, 5),
    "o2nc": gs.O2NC(0.5, 5),
    "singd": gs.SINGD(0.5, p=2.0, q=2.0, beta=0.5),
    "psingd": gs.PSINGD(0.5, p=2.0, q=2.0, beta=0.5),
    "ingd": gs.INGD(0.5, 0.1),
    "pingd": gs.PINGD(0.5, 0.1),
    "cutting-plane": gs.CuttingPlane(0.5, 0.1),
    "ws-gfm": gs.WarmStart(gs.GFM(0.01, 0.005), gs.GFM(0.01, 0.005), iterations=20),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_whoever_asks_and_tells_may_be_rude(name):
    """A caller of `ask` may write into the points, and may tell all answers in one buffer of his own."""
    buffers = {0: np.empty(1000), 1: np.empty((1000, X0.size))}

    def rude(query):
        answer = values(query.points) if query.order == 0 else gradients(query.points)
        buffer = buffers[query.order]
        buffer[: len(answer)] = answer
        query.points[...] = 99.0
        return buffer[: len(answer)]

    def polite(query):
        return values(query.points) if query.order == 0 else gradients(query.points)

    ends = []
    for answer in (rude, polite):
        course = OBJECTS[name].start(X0, rng=0, max_evals=200)
        for _ in range(40):
            query = course.ask()
            if query is None:
                break
            course.tell(query, answer(query))
        ends.append(course.x.copy())
    np.testing.assert_array_equal(*ends)
