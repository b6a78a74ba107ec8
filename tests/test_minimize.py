"""What `minimize` takes, what it refuses, and what comes back."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.optimize
from scipy.stats import chisquare

import goldstein as gs
from goldstein import Deterministic, FiniteSum, Status, Unreplayable
from goldstein.methods import resolve
from goldstein.projection import Box, Knapsack, L2Ball, Simplex, linf_ball
from goldstein.run.history import RECORDS

METHODS = {
    "gfm": gs.GFM(0.1, 0.02, 3),
    "gfm-loo": gs.GFM(0.1, 0.02, 4, estimator="loo", directions="orthogonal"),
    "gfm+": gs.GFMPlus(0.1, 0.005, 4, 3),
    "ws-gfm": gs.WarmStart(gs.GFM(0.05, 0.02), gs.GFM(0.1, 0.02, 3)),
    "ws-gfm+": gs.WarmStart(gs.GFM(0.05, 0.02), gs.GFMPlus(0.1, 0.005, 4, 3)),
    "zo-o2nc": gs.ZOO2NC(0.5, block_length=5, batch_size=3, rho=0.1),
}
BY_NAME = {f"{name} by name": resolve(name, {}) for name in ("auto", "gfm", "ws-gfm+")}  # settings from probes
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
even_by_name = pytest.mark.parametrize("method", [*METHODS.values(), *BY_NAME.values()], ids=[*METHODS, *BY_NAME])
forks = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # by pytest's own
X0 = np.array([1.0, -0.5, 0.25])


def value(x, *shift) -> float:
    return float(np.abs(x - sum(shift)).sum())


def component(x, i) -> float:
    return value(x, 0.1 * np.sin(i))


class Asked:
    """A function that remembers where it was asked."""

    def __init__(self, fun=value) -> None:
        self.fun, self.points = fun, []

    def __call__(self, x, *args):
        self.points.extend(np.atleast_2d(x).copy())
        return self.fun(x, *args)


GFM_OPTIONS = {"delta": 0.1, "step_size": 0.02}
BAD = {  # what is given : what the sentence must speak of
    "x0 2-D": ({"x0": np.ones((3, 1))}, "x0 must be a vector"),
    "x0 empty": ({"x0": []}, "x0 must be a vector"),
    "x0 complex": ({"x0": np.array([1j, 1, 1])}, "x0 must be a vector of real numbers"),
    "x0 NaN": ({"x0": [1, np.nan]}, "x0 must be finite"),
    "fun": ({"fun": 3.0}, "fun must be a callable or an oracle"),
    "delta zero": ({"options": {"delta": 0, "step_size": 1}}, "delta must be a positive number"),
    "delta negative": ({"options": {"delta": -0.1, "step_size": 1}}, "delta must be a positive number"),
    "delta NaN": ({"options": {"delta": np.nan, "step_size": 1}}, "delta must be a positive number"),
    "step_size": ({"options": {"delta": 1, "step_size": -1}}, "step_size must be a positive number"),
    "batch_size": ({"options": GFM_OPTIONS | {"batch_size": 1.5}}, "batch_size must be a whole number"),
    "estimator": ({"options": GFM_OPTIONS | {"estimator": "best"}}, "estimator must be one of central, loo"),
    "directions": ({"options": GFM_OPTIONS | {"directions": "up"}}, "directions must be one of iid, orthogonal"),
    "unknown method": ({"method": "newton", "options": None}, "Unknown method 'newton'; known are"),
    "method class": ({"method": gs.GFM, "options": None}, "method must be a name or a method object"),
    "unknown option": ({"options": GFM_OPTIONS | {"momentum": 0.9}}, "gfm has no option 'momentum'"),
    "options no mapping": ({"options": 5}, "options"),
    "options and object": ({"method": METHODS["gfm"]}, "options belong to a method given by name"),
    "GFM+ on Unreplayable": (
        {"fun": Unreplayable(value), "method": METHODS["gfm+"], "options": None},
        "cannot replay; use gfm, or Seeded",
    ),
    "max_evals zero": ({"max_evals": 0}, "max_evals must be a whole number of at least 1"),
    "max_evals fraction": ({"max_evals": 1.5}, "max_evals must be a whole number of at least 1"),
    "max_evals bool": ({"max_evals": True}, "max_evals must be a whole number of at least 1"),
    "max_iter": ({"max_iter": -3}, "max_iter must be a whole number of at least 1"),
    "stop number": ({"stop": 0.1}, "stop takes criteria from goldstein.stop"),
    "stop class": ({"stop": gs.stop.Target}, "stop takes criteria from goldstein.stop"),
    "bounds crossed": ({"bounds": [(0, 1), (2, 1), (0, 1)]}, "Bounds are crossed: lower 2.0 above upper 1.0"),
    "bounds short": ({"bounds": [(0, 1)] * 2}, r"bounds must be .* 3 pairs"),
    "bounds long": ({"bounds": scipy.optimize.Bounds([0] * 4, [1] * 4)}, "bounds have 4 entries for 3 coordinates"),
    "bounds NaN": ({"bounds": [(0, 1), (np.nan, 1), (0, 1)]}, "Bounds must not be NaN"),
    "bounds number": ({"bounds": 5}, "bounds must be"),
    "bounds and projection": ({"bounds": [(0, 1)] * 3, "projection": abs}, "bounds or projection, not both"),
    "projection": ({"projection": 1.0}, "projection must be a callable"),
    "projection length": ({"projection": Box(np.zeros(4), np.ones(4))}, "4.* 3"),
    "x_scale zero": ({"x_scale": [1, 0, 1]}, "x_scale must be a positive number or 3 of them"),
    "x_scale text": ({"x_scale": "big"}, "x_scale must be a positive number or 3 of them"),
    "output": ({"output": "median"}, "output must be one of last, random, average, best"),
    "rng negative": ({"rng": -1}, "rng must be a seed"),
    "rng legacy": ({"rng": np.random.RandomState(0)}, "rng must be a seed"),
    "workers zero": ({"workers": 0}, "workers must be a positive number"),
    "workers text": ({"workers": "all"}, "workers must be a number, an executor"),
    "callback": ({"callback": 1}, "callback must be a callable or None"),
    "monitor": ({"monitor": "plot"}, "monitor must be a callable or None"),
    "catch None": ({"catch": None}, "catch must be exception types"),
    "catch text": ({"catch": ["ValueError"]}, "catch must be exception types"),
    "catch Ctrl-C": ({"catch": KeyboardInterrupt}, "catch must be exception types"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_answered_in_one_sentence_before_the_function_is_called(name):
    change, sentence = BAD[name]
    fun = Asked()
    call = {"fun": fun, "x0": X0, "method": "gfm", "options": GFM_OPTIONS, "max_evals": 100} | change
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=sentence) as caught:
        gs.minimize(**call)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert not fun.points


@pytest.mark.parametrize(
    ("oracle", "sentence"),
    [
        (lambda x: None, "returned None where one real number"),
        (lambda x: x, "where one real number was expected"),
        (lambda x: 1j, "returned 1j where one real number"),
        (Deterministic(lambda X: X, vectorized=True), r"returned shape \(6, 3\) where \(6,\) was expected"),
        (Deterministic(lambda X: X[:, 0] * 1j, vectorized=True), "real numbers are needed"),
        (gs.Expectation(component, lambda rng, k: rng.normal()), "must return 3 draws along its first axis"),
    ],
)
def test_what_only_a_call_can_show_is_answered_in_one_sentence_too(oracle, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        gs.minimize(oracle, X0, METHODS["gfm"], max_evals=100, rng=0)


@pytest.mark.parametrize("answer", [1, np.float32(1), np.array(1.0), np.array([[1.0]]), True], ids=repr)
def test_anything_that_is_one_real_number_will_do(answer):
    assert gs.minimize(lambda x: answer, X0, METHODS["gfm"], max_evals=20, rng=0).fun == 1


def test_without_any_limit_there_is_one_and_it_is_said():
    res = gs.minimize(value, X0, METHODS["gfm"], stop=gs.stop.Target(-1), rng=0)
    assert res.status is Status.MAX_EVALS
    assert not res.success
    assert "max_evals was set to 1000·(d + 1) = 4000" in res.message


@even_by_name
@pytest.mark.parametrize("bare", [False, True], ids=["oracle", "bare"])
def test_no_query_ever_leaves_the_box(method, bare):
    rng = np.random.default_rng(0)
    for seed in range(10):
        lower = rng.normal(size=3)
        upper = lower + 0.2 + rng.random(3)
        bounds = scipy.optimize.Bounds(lower, upper)
        fun = Asked(lambda x: float(x @ [1.0, -1.0, 0.5]))  # runs into a corner
        x0 = X0 if seed % 2 else (lower + upper) / 2
        res = gs.minimize(fun if bare else Deterministic(fun), x0, method, bounds=bounds, max_evals=300, rng=seed)
        assert (np.array(fun.points) >= lower).all()
        assert (np.array(fun.points) <= upper).all()
        assert (res.x >= lower + method.needs.query_radius - 1e-12).all()
        assert (res.x <= upper - method.needs.query_radius + 1e-12).all()
        assert "leave" not in res.message


@pytest.mark.parametrize("scale", [None, 0.7])
@pytest.mark.parametrize("slope", [1.0, -1.0])
def test_no_query_leaves_the_box_by_rounding_either(slope, scale):
    for seed, (lower, delta) in enumerate(np.random.default_rng(0).random((50, 2))):
        fun = Asked(lambda x: slope * x[0])  # in one dimension x ± δw lies on the edge itself
        bounds = [(lower, lower + 2)]
        gs.minimize(fun, [lower + 1], gs.GFM(delta, 0.5), bounds=bounds, x_scale=scale, max_evals=30, rng=seed)
        assert lower <= np.min(fun.points) <= np.max(fun.points) <= lower + 2


def test_bounds_come_in_the_forms_that_scipy_takes():
    forms = [
        [(0, 2), (-1, None), (None, None)],
        scipy.optimize.Bounds([0, -1, -np.inf], [2, np.inf, np.inf]),
        np.array([[0, 2], [-1, np.inf], [-np.inf, np.inf]]),
    ]
    answers = [gs.minimize(value, X0, METHODS["gfm"], bounds=form, max_evals=200, rng=0).x for form in forms]
    assert (answers[0] == answers[1]).all()
    assert (answers[0] == answers[2]).all()


@pytest.mark.parametrize("rest", [(-5, 5), (0, None), (None, None)])
def test_a_box_too_small_for_delta_is_refused(rest):
    with pytest.raises(ValueError, match=r"the bounds of coordinate 0 leave only 0\.05 to each side"):
        gs.minimize(value, X0, METHODS["gfm"], bounds=[(0.4, 0.5), rest, rest], max_evals=300, rng=0)


def test_whether_the_box_is_too_small_is_judged_in_the_scaled_coordinates():
    scale = np.array([10.0, 1.0, 1.0])  # the first side is 0.05 long there
    with pytest.raises(ValueError, match=r"leave only 0\.025 to each side of their middle in x / x_scale"):
        gs.minimize(value, X0, METHODS["gfm"], bounds=[(0, 0.5)] * 3, x_scale=scale, max_evals=300, rng=0)


@pytest.mark.parametrize(
    ("projection", "inside"),
    [
        (L2Ball([2, 0, 0], 0.5), lambda x: np.linalg.norm(x - [2, 0, 0]) <= 0.5 + 1e-12),
        (linf_ball(np.ones(3), 0.3, upper=1.2), lambda x: (x >= 0.7).all() and (x <= 1.2).all()),
        (Simplex(2.0), lambda x: (x >= 0).all() and np.isclose(x.sum(), 2)),
        (Knapsack([1, 2, 3], 3.0), lambda x: (x >= -1e-12).all() and np.dot([1, 2, 3], x) <= 3 + 1e-12),
        (lambda x: np.maximum(x, 0.5), lambda x: (x >= 0.5).all()),
    ],
    ids=["ball", "linf", "simplex", "knapsack", "callable"],
)
@pytest.mark.parametrize("scale", [None, [0.5, 2, 1]])
@pytest.mark.parametrize("method", ["gfm", "auto by name"])
def test_the_answer_lies_in_the_allowed_set_and_so_do_queries_unless_it_is_said(projection, inside, scale, method):
    for output in (None, "average", "best"):
        fun = Asked()
        keys = {"projection": projection, "x_scale": scale, "output": output}
        res = gs.minimize(Deterministic(fun), X0, (METHODS | BY_NAME)[method], max_evals=600, rng=0, **keys)
        assert inside(res.x)
        assert all(map(inside, fun.points)) is ("Queries may leave" not in res.message)


@pytest.mark.parametrize("margin", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_point_of_a_knapsack_is_found_with_a_margin_that_is_kept(seed, margin):
    """No point of the shrunk set lies beyond the plane through the answer that is at right angles to the way there."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 3, size=5)
    total = rng.uniform(1, 2) * margin * (weights.sum() + np.linalg.norm(weights)) + 0.01
    knapsack = Knapsack(weights, total)
    assert knapsack.holds(margin)
    x = rng.normal(0, total, size=5)
    nearest = knapsack(x, margin)
    assert (nearest >= margin).all()
    assert weights @ nearest <= total - margin * np.linalg.norm(weights)
    room = total - margin * (weights.sum() + np.linalg.norm(weights))
    corners = margin + np.vstack([np.zeros(5), np.diag(room / weights)])
    assert ((corners - nearest) @ (x - nearest) <= 1e-12 * total**2).all()
    assert knapsack(nearest, margin) == pytest.approx(nearest, abs=1e-14 * total)


def test_a_knapsack_too_small_for_a_margin_keeps_the_largest_that_fits():
    knapsack = Knapsack([3, 4], 6.0)
    assert not knapsack.holds(0.51)
    assert knapsack(np.array([9.0, -9.0]), 5.0) == pytest.approx([0.5, 0.5])


def test_a_projection_that_changes_the_shape_is_answered_in_one_sentence():
    fun = Asked()
    with pytest.raises(ValueError, match=r"projection returned shape \(2,\) for a point of shape \(3,\)"):
        gs.minimize(Deterministic(fun), X0, METHODS["gfm"], projection=lambda x: x[:2], max_evals=100)
    assert not fun.points


@even_by_name
@pytest.mark.parametrize("bounds", [None, [(-2, 2), (0, 7), (-400, 400)]])
def test_x_scale_is_a_change_of_variables_and_nothing_else(method, bounds):
    s = np.array([0.5, 3.0, 100.0])
    inner = None if bounds is None else [tuple(side) for side in np.array(bounds) / s[:, None]]
    outer = gs.minimize(value, X0, method, x_scale=s, bounds=bounds, max_evals=400, output="average", rng=0)
    same = gs.minimize(lambda z: value(z * s), X0 / s, method, bounds=inner, max_evals=400, output="average", rng=0)
    assert (outer.x == same.x * s).all()
    assert (outer.fun, outer.nfev) == (same.fun, same.nfev)


def descend(seed: int, **limits) -> int:
    """Return which of x_0, x_1, … is the answer on f(x) = x, where every step is exactly −0.5."""
    res = gs.minimize(Deterministic(lambda x: x[0]), [0.0], gs.GFM(0.25, 0.5), output="random", rng=seed, **limits)
    return round(-2 * res.x[0])


@pytest.mark.parametrize(
    "limits",
    [{"max_iter": 5}, {"max_evals": 11}, {"max_iter": 1000, "max_evals": 11}, {"max_iter": 5, "max_evals": 1000}],
    ids=str,
)
def test_random_output_is_uniform_over_the_iterates_that_steps_were_taken_from(limits):
    counts = np.bincount([descend(seed, **limits) for seed in range(500)], minlength=5)
    assert len(counts) == 5
    assert chisquare(counts).pvalue > 1e-6  # the chance to fail for another set of seeds


def test_random_output_of_a_warm_start_comes_from_its_second_phase():
    method = gs.WarmStart(METHODS["gfm"], METHODS["gfm"], iterations=8)
    answers = {gs.minimize(value, X0, method, output="random", max_iter=12, rng=k).nit for k in range(100)}
    assert answers == {8, 9, 10, 11}  # each is missing with probability 0.75^100 < 1e-12


def test_last_average_and_best_output_are_what_they_say():
    method, T, path, fun = METHODS["gfm"], 40, [], Asked()

    def answer(output, fun=value, **keys):
        return gs.minimize(Deterministic(fun), X0, method, max_iter=T, output=output, rng=0, **keys).x

    last = answer("last", fun, callback=lambda r: path.append(r.x))  # x_0, …, x_T
    values = [value(x) for x in fun.points[: 6 * T]]  # six in each batch
    assert len(path) == T + 1
    assert (last == path[-1]).all()
    assert (answer(None) == path[-1]).all()
    assert answer("average") == pytest.approx(np.mean(path[:-1], axis=0), rel=1e-12)
    assert (answer("best") == path[np.reshape(values, (T, 6)).mean(axis=1).argmin()]).all()


@even_by_name
@pytest.mark.parametrize("fun", [Deterministic(value), FiniteSum(component, 50)], ids=["exact", "noisy"])
def test_a_target_that_is_reached_is_success(method, fun):
    res = gs.minimize(fun, X0, method, max_evals=20_000, stop=gs.stop.Target(1.2, samples=50), rng=0)
    assert res.success
    assert res.status is Status.CRITERION == 0
    assert res.message.startswith("The target value 1.2 is reached.")
    assert res.fun < 1.2 + 4 * res.fun_stderr
    assert res.nfev < 20_000
    assert res.nfev_diagnostic >= (51 if fun.stochastic else 2)


def test_a_callback_sees_the_run_and_may_stop_it():
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result)
        intermediate_result.x[:] = 77  # a copy
        if intermediate_result.nit == 7:
            raise StopIteration

    res = gs.minimize(value, X0, METHODS["gfm"], max_iter=100, callback=callback, rng=0)
    assert res.status is Status.CALLBACK
    assert not res.success
    assert [(r.nit, r.status) for r in seen] == [(nit, Status.RUNNING) for nit in range(8)]
    assert res.nit == 7
    assert res.fun == value(res.x) < value(X0)


def test_history_holds_the_course_of_the_run_and_the_monitor_curve():
    res = gs.minimize(value, X0, METHODS["gfm"], max_evals=6000, monitor=value, rng=0)
    history = res.history
    assert list(history) == ["nfev", "ngev", "nit", "fun", "gradient_norm", "step", "nfail", "monitor"]
    assert {column.shape for column in history.values()} == {history.nfev.shape}
    assert 0.8 * RECORDS <= len(history.nfev) <= RECORDS + 10
    assert (history.nfev[0], history.nit[0]) == (2, 0)
    assert (history.nfev[-1], history.nit[-1]) == (res.nfev - 1, res.nit)
    assert (np.diff(history.nit) > 0).all()
    assert (history.step[1:] == 0.02).all()
    assert (history["monitor"][0], history.monitor[-1]) == (value(X0), res.fun)
    assert history.fun[1:20].mean() > 2 * history.fun[-20:].mean()


@pytest.mark.parametrize("oracle", [Deterministic(value), FiniteSum(component, 50)], ids=["exact", "noisy"])
@pytest.mark.parametrize("catch", [(), ValueError])
@even_by_name
@forks
def test_the_same_seed_gives_the_same_run_for_any_workers(method, oracle, catch):
    def run(workers):
        res = gs.minimize(oracle, X0, method, max_evals=200, output="random", workers=workers, catch=catch, rng=4)
        return res.x.tolist(), res.fun, res.nfev, res.history.fun[1:].tolist()

    plain = run(None)
    assert run(1) == plain
    assert run(map) == plain
    assert run(2) == plain
    with ThreadPoolExecutor(3) as threads:
        assert run(threads) == plain
        assert run(threads.map) == plain


def test_the_same_seed_gives_the_same_run_and_another_seed_another():
    seeds = (3, np.random.default_rng(3), 4)
    first, same, other = (gs.minimize(value, X0, METHODS["gfm"], max_evals=200, rng=seed).x for seed in seeds)
    assert (first == same).all()
    assert (first != other).any()


def plug(method="gfm+", fun=value, x0=X0, options=None, **kwargs):
    settings = {"delta": 0.1, "step_size": 0.005, "rng": 0, "maxfev": 500} | (options or {})
    settings |= {"epoch_length": 4, "batch_size": 3} if method == "gfm+" else {}
    return scipy.optimize.minimize(fun, x0, method=gs.scipy_method(method), options=settings, **kwargs)


def test_scipy_runs_the_same_thing():
    method = gs.GFMPlus(0.1, 0.005, 4, 3)
    ours = gs.minimize(lambda x: value(x, 0.3), X0, method, max_evals=500, bounds=[(0, 2)] * 3, rng=0)
    theirs = plug(args=(0.3,), bounds=[(0, 2)] * 3)
    assert (theirs.x == ours.x).all()
    assert (theirs.fun, theirs.nfev) == (ours.fun, ours.nfev)
    assert plug("gfm", options={"maxiter": 9}).nit == 9


def test_scipy_gives_the_gradient_and_asks_for_stationarity():
    solve, options = gs.scipy_method("pingd"), {"delta": 0.1, "epsilon": 0.2, "maxfev": 3000, "rng": 0}
    res = scipy.optimize.minimize(
        lambda x, c: abs(x - c).sum(), X0, (0.3,), solve, lambda x, c: np.sign(x - c), options=options
    )
    assert res.success
    assert res.ngev > 0
    assert plug("gfm", options={"stationarity": (0.5, 3.0), "compiled": False}).stationarity.epsilon == 3.0


def test_scipy_callbacks_of_both_kinds_are_served():
    results, points = [], []

    def new_style(*, intermediate_result):
        results.append(intermediate_result)
        if len(results) == 3:
            raise StopIteration

    assert plug(callback=new_style).status is Status.CALLBACK
    plug(callback=lambda xk: points.append(xk + 0.0))
    assert all(isinstance(xk, np.ndarray) and xk.shape == (3,) for xk in points)


def test_scipy_options_that_are_not_understood_are_refused():
    with pytest.raises(ValueError, match="gfm has no option 'simplex'"):
        plug("gfm", options={"simplex": 1e-3})
    with pytest.raises(ValueError, match="takes no constraints"):
        plug("gfm", constraints=[{"type": "eq", "fun": lambda x: x[0]}])


def single(x):
    return np.float32(value(x))


def far_from_zero(x):
    return 1e12 + value(x)


@pytest.mark.parametrize(
    ("fun", "delta", "warns"),
    [(value, 1e-2, 0), (value, 1e-15, 1), (single, 1e-2, 0), (single, 1e-6, 1), (far_from_zero, 1e-3, 1)],
)
@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize(
    "method",
    [lambda delta: gs.GFM(delta, 1e-3, 5), lambda delta: gs.WarmStart(gs.GFM(delta, 1e-3), gs.GFM(delta, 1e-3, 5))],
    ids=["gfm", "ws-gfm"],
)
@forks
def test_a_delta_that_drowns_in_rounding_is_warned_about_once(fun, delta, warns, workers, method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gs.minimize(Deterministic(fun), X0, method(delta), max_evals=500, workers=workers, rng=0)
    assert [str(w.message).startswith("Rounding errors of F") for w in caught] == [True] * warns
