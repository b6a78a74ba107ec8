"""What new users ran into, and how it is answered: scipy's habits, bounds, arguments, callbacks."""

import functools
import re
import time
import warnings
from unittest import mock

import numpy as np
import pytest
import scipy.optimize

import goldstein as gs
from goldstein.methods import METHODS
from goldstein.oracle import Query
from goldstein.oracle.evaluate import Evaluator
from goldstein.run import stages

X0 = np.array([0.3, -0.2, 2.0])


def value(x, shift=0.0, scale=1.0):
    return float(scale * np.abs(x - shift).sum())


def same(one, other):
    np.testing.assert_array_equal(one.x, other.x)
    assert one.fun == other.fun
    assert one.nfev == other.nfev


# scipy


def test_scipy_method_works_with_and_without_brackets():
    options = {"max_evals": 300, "rng": 0}
    bare = scipy.optimize.minimize(value, X0, method=gs.scipy_method, args=(0.5,), options=options)
    called = scipy.optimize.minimize(value, X0, method=gs.scipy_method(), args=(0.5,), options=options)
    same(bare, called)
    same(bare, gs.minimize(value, X0, args=(0.5,), max_evals=300, rng=0))
    bare = scipy.optimize.minimize(value, X0, method=gs.scipy_method, bounds=[(0, 1)] * 3, options=options)
    same(bare, gs.minimize(value, X0, bounds=[(0, 1)] * 3, max_evals=300, rng=0))


def test_scipys_names_are_understood():
    ours = gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=100, max_iter=30, rng=0)
    theirs = {"maxfev": 100, "maxiter": 30, "disp": False, "rng": 0}
    same(ours, scipy.optimize.minimize(value, X0, method=gs.scipy_method(gs.GFM(0.1, 0.01)), options=theirs))


def test_disp_shows_progress(monkeypatch):
    bar = mock.Mock(wraps=stages.Bar)
    monkeypatch.setattr(stages, "Bar", bar)
    scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"maxfev": 20, "disp": False, "rng": 0})
    assert bar.call_count == 0
    scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"maxfev": 20, "disp": True, "rng": 0})
    assert bar.call_count == 1


def test_tolerances_are_refused_with_what_to_do_instead():
    sentence = "goldstein takes no tol: a run ends with max_evals, or with a criterion given as stop"
    with pytest.raises(ValueError, match=sentence):
        scipy.optimize.minimize(value, X0, method=gs.scipy_method("gfm"), tol=1e-6)
    with pytest.raises(ValueError, match="goldstein takes no xatol"):
        scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"xatol": 1e-3})
    with pytest.raises(ValueError, match="auto has no option 'tolerance'; it takes kind"):
        scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"tolerance": 1e-3})


def test_scipys_settings_come_in_scipys_forms():
    many = scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"maxfev": 1e2, "disp": 0, "rng": 0})
    assert many.nfev <= 100
    with pytest.raises(ValueError, match="maxfev and max_evals are the same: give one of them"):
        scipy.optimize.minimize(value, X0, method=gs.scipy_method, options={"maxfev": 100, "max_evals": 200})
    with pytest.raises(ValueError, match="The budget is an argument of minimize: max_evals= or max_iter="):
        gs.minimize(value, X0, options={"maxfev": 100})


def test_derivatives_that_a_method_ignores_are_named():
    def slope(x):
        return np.sign(x)

    with pytest.warns(RuntimeWarning, match="^auto ignores jac.$") as caught:
        scipy.optimize.minimize(value, X0, jac=slope, method=gs.scipy_method, options={"maxfev": 50, "rng": 0})
    assert caught[0].filename == __file__  # and not a line of scipy
    with pytest.warns(RuntimeWarning, match="^auto ignores hess.$"):
        scipy.optimize.minimize(value, X0, hess=slope, method=gs.scipy_method, options={"maxfev": 50, "rng": 0})
    both = scipy.optimize.minimize(
        lambda x: (value(x), slope(x)), X0, jac=True, method=gs.scipy_method("pingd"), options={"delta": 0.1, "rng": 0}
    )
    assert both.ngev > 0
    assert both.fun == value(both.x)


def test_noise_is_noticed_though_scipy_remembers_values():
    noise = np.random.default_rng(0)
    with pytest.warns(RuntimeWarning, match="ignores jac"):
        res = scipy.optimize.minimize(
            lambda x: (value(x) + noise.normal(), np.sign(x)), X0, jac=True, method=gs.scipy_method, options={"rng": 0}
        )
    assert res.fun_stderr > 0


def test_a_method_is_known_whatever_its_case_and_the_nearest_name_is_offered():
    same(gs.minimize(value, X0, "BFGS", max_evals=100, rng=0), gs.minimize(value, X0, "bfgs", max_evals=100, rng=0))
    for wrong, right in {"GFMPlus": "gfm+", "zoo2nc": "zo-o2nc", "cma-es": "cma", "ws gfm": "ws-gfm"}.items():
        with pytest.raises(
            ValueError, match=rf"Unknown method '.*'; known are auto, .* Is '{re.escape(right)}' meant\?"
        ):
            gs.minimize(value, X0, wrong)
    with pytest.raises(TypeError, match="GFM is a class, so give it settings"):
        gs.minimize(value, X0, gs.GFM)


# how a function is called


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: gs.minimize(lambda x, seed: 0.0, X0),
            r"calls F\(x\), which <lambda>\(x, seed\) cannot be; use gs.Seeded",
        ),
        (lambda: gs.minimize(lambda x: 0.0, X0, args=(1,)), r"calls F\(x, \*args\), which <lambda>\(x\) cannot be"),
        (lambda: gs.certify(lambda x, seed: 0.0, X0, 0.1, 0.1), "use gs.Seeded if a seed comes after x"),
        (lambda: gs.Seeded(lambda x: 0.0), r"Seeded calls F\(x, seed\), which <lambda>\(x\) cannot be"),
        (lambda: gs.FiniteSum(lambda x, i, a: 0.0, 3), r"FiniteSum calls F\(x, i\), which .* needs goes into args="),
        (
            lambda: gs.Deterministic(value, grad=lambda: 0),
            r"Deterministic calls grad\(x\), which <lambda>\(\) cannot be",
        ),
        (lambda: gs.Expectation(lambda x, xi: 0.0, lambda rng: 0), r"sample is called as sample\(rng, k\)"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_before_it_is(make, sentence):
    with pytest.raises(TypeError, match=sentence):
        make()


def test_a_function_behind_a_decorator_is_taken_as_it_is_called():
    def with_seed(fun):
        @functools.wraps(fun)
        def seeded(x):
            return fun(x, 0)

        return seeded

    @with_seed
    def cost(x, seed):
        return value(x)

    same(gs.minimize(cost, X0, max_evals=50, rng=0), gs.minimize(value, X0, max_evals=50, rng=0))


def test_a_function_that_returns_more_than_a_number_is_told_so():
    with pytest.raises(ValueError, match="returned a tuple of 2 where one real number was expected"):
        gs.minimize(lambda x: (0.0, x), X0)


@pytest.mark.parametrize("workers", [None, 2])
def test_why_evaluations_failed_is_in_the_message(workers):
    def fun(x):
        raise RuntimeError("the licence server is down")

    res = gs.minimize(fun, X0, max_evals=60, rng=0, catch=RuntimeError, workers=workers)
    assert "The first error: RuntimeError: the licence server is down" in res.message
    assert "every evaluation failed" in str(res)


def test_workers_draw_different_numbers():
    """Forked processes have copies of the state of numpy.random; with those each number would come twice."""
    with Evaluator(gs.Unreplayable(drawing), 2) as evaluate:
        values = evaluate(Query(np.zeros((60, 2)))).values
    assert len(set(values)) == 60


def drawing(x):
    time.sleep(0.01)  # so that both have something to do
    return np.random.normal()  # noqa: NPY002


def test_a_simulator_that_ignores_its_seed_is_told_so():
    noise = np.random.default_rng(0)
    for evals in (100, 500, 1001, 5000):
        with pytest.warns(RuntimeWarning, match="The same seed gave two different values at the same point"):
            res = gs.minimize(gs.Seeded(lambda x, seed: value(x) + noise.normal()), X0, max_evals=evals, rng=0)
        assert res.message.endswith("draw all of it from the seed, or use Unreplayable.")
        assert res.nfev <= evals
    honest = gs.minimize(
        gs.Seeded(lambda x, seed: value(x) + np.random.default_rng(seed).normal()), X0, max_evals=500, rng=0
    )
    assert "same seed" not in honest.message


@pytest.mark.parametrize(
    ("oracle", "ran"),
    [
        (value, 'auto ran BFGS, raced against CMA-ES. Kind "exact": no jumps found; '),
        (gs.Seeded(lambda x, seed: value(x, 1 + seed % 3)), 'auto ran sifting. Kind "replayed": no jumps'),
        (gs.Unreplayable(value), 'auto ran CMA-ES in blocks. Kind "fresh": its noise cannot be replayed.'),
    ],
    ids=["exact", "replayed", "fresh"],
)
def test_the_message_says_what_ran_and_why(oracle, ran):
    res = gs.minimize(oracle, X0, max_evals=1000, rng=0)
    assert ran in res.message
    if oracle is value:
        assert "The lowest point is that of bfgs (evaluations: bfgs " in res.message
    told = gs.minimize(oracle, X0, max_evals=1000, rng=0, options={"kind": "jumps"}).message
    assert 'Kind "jumps": as requested' in told


# args


def test_args_reach_the_function():
    given = gs.minimize(value, X0, args=(0.5, 3.0), max_evals=300, rng=0)
    same(given, gs.minimize(lambda x: value(x, 0.5, 3.0), X0, max_evals=300, rng=0))
    one = gs.minimize(value, X0, args=0.5, max_evals=300, rng=0)  # as scipy takes it
    same(one, gs.minimize(value, X0, args=(0.5,), max_evals=300, rng=0))


def test_args_belong_to_a_callable():
    with pytest.raises(ValueError, match="args belong to a callable; an oracle has its own"):
        gs.minimize(gs.Deterministic(value), X0, args=(1.0,))


def test_args_are_in_the_journal(tmp_path):
    from goldstein.run.inspection import stages_in
    from goldstein.run.spec import RunSpec

    path = tmp_path / "run.journal"
    res = gs.minimize(value, X0, args=(0.5,), max_evals=100, rng=0, journal=path)
    again = RunSpec.arguments_of(stages_in(path)[0].header["call"], value)
    assert again["args"] == (0.5,)
    same(res, gs.minimize(**again, max_evals=100, journal=path))
    with pytest.raises(ValueError, match="another run"):
        gs.minimize(value, X0, args=(0.6,), max_evals=100, rng=0, journal=path)


# callbacks


@pytest.mark.parametrize("answer", [True, np.True_])
def test_a_callback_stops_the_run_by_returning_true(answer):
    seen = []

    def callback(intermediate_result):
        seen.append(intermediate_result.nfev)
        return answer if len(seen) == 3 else None

    res = gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=1000, rng=0, callback=callback)
    assert res.status is gs.Status.CALLBACK
    assert len(seen) == 3
    assert res.nfev < 100


@pytest.mark.parametrize("answer", [None, False, 1, "yes", np.ones(3)])
def test_anything_else_that_a_callback_returns_means_nothing(answer):
    res = gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=100, rng=0, callback=lambda res: answer)
    assert res.status is gs.Status.MAX_EVALS


def test_a_callback_of_xk_is_given_the_point():
    points = []
    gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=100, rng=0, callback=lambda xk: points.append(xk))
    assert all(isinstance(point, np.ndarray) and point.shape == (3,) for point in points)
    results = []
    gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=100, rng=0, callback=lambda res: results.append(res))
    assert all(isinstance(res, gs.Result) for res in results)
    assert len(points) == len(results) > 5


def test_a_callback_whose_signature_is_secret_is_given_the_result():
    seen = []
    gs.minimize(value, X0, gs.GFM(0.1, 0.01), max_evals=50, rng=0, callback=seen.append)
    assert isinstance(seen[0], gs.Result)


# bounds


def watched(lower, upper):
    """Return a function, and the largest distance by which it was asked outside the bounds."""
    outside = [0.0]

    def fun(x, *_):
        outside[0] = max(outside[0], float((lower - x).max()), float((x - upper).max()))
        return value(x, 0.35)

    return fun, outside


def test_a_delta_that_the_box_has_no_room_for_is_refused_before_the_first_evaluation():
    calls = []
    sentence = (
        r"gfm asks for values up to delta = 1 from its points, but the bounds of coordinate 1 leave only 0.5 to each "
        r"side of their middle: give it a smaller delta, or use \"auto\", which keeps to any bounds\.$"
    )
    with pytest.raises(ValueError, match=sentence):
        gs.minimize(calls.append, [0.5, 0.5], gs.GFM(delta=1, step_size=0.1), bounds=[(0, 9), (0, 1)])
    with pytest.raises(ValueError, match=r"leave only 0\.05 to each side of their middle in x / x_scale"):
        gs.minimize(calls.append, [0.5], gs.GFM(delta=0.1, step_size=0.1), bounds=[(0, 1)], x_scale=10.0)
    assert calls == []
    fun, outside = watched(np.zeros(1), np.ones(1))
    res = gs.minimize(fun, [0.9], gs.GFM(delta=0.4, step_size=0.02), bounds=[(0, 1)], max_evals=300, rng=0)
    assert outside == [0.0]
    assert abs(res.x[0] - 0.4) < 0.05  # as near as δ lets it come


EXACT = {"ingd", "pingd", "cutting-plane", "bfgs"}  # the first three take no bounds
GRADIENTS = {"singd", "psingd", "o2nc"}


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("scale", [None, 0.1])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in EXACT - {"bfgs"}])
def test_no_query_of_any_method_leaves_the_box_and_a_fixed_variable_stays(name, scale, noisy):
    if noisy and name == "bfgs":
        pytest.skip("bfgs is for functions without noise")
    lower = np.array([0.2, 0.0, 2.0])
    upper = np.array([0.2 + 1e-3, 1.0, 2.0])
    fun, outside = watched(lower, upper)
    res = gs.minimize(
        gs.Seeded(fun) if noisy else fun,
        [0.2, 0.9, 5.0],
        name,
        bounds=scipy.optimize.Bounds(lower, upper),
        options={"gradients": "sift"} if name in GRADIENTS else None,
        x_scale=scale,
        max_evals=600,
        rng=0,
    )
    assert outside == [0.0]
    assert res.x[2] == 2.0
    assert lower[0] <= res.x[0] <= upper[0]


def test_a_fixed_variable_does_not_keep_the_others_from_moving():
    for method in ("auto", gs.GFM(0.05, 0.01), gs.Sift(0.3)):
        fun, outside = watched(np.array([0.0, 7.0]), np.array([1.0, 7.0]))
        res = gs.minimize(fun, [0.9, 7.0], method, bounds=[(0, 1), (7, 7)], max_evals=1000, rng=0)
        assert outside == [0.0]
        assert abs(res.x[0] - 0.35) < 0.06
        assert res.x[1] == 7.0


@pytest.mark.parametrize("method", ["auto", "bfgs", "gfm", gs.GFM(0.1, 0.1)])
def test_all_variables_may_be_fixed(method):
    calls = []
    bounds = [(1, 1), (2, 2)]
    res = gs.minimize(lambda x: calls.append(x) or value(x), [0.0, 0.0], method, bounds=bounds, max_evals=200, rng=0)
    np.testing.assert_array_equal(res.x, [1.0, 2.0])
    assert res.fun == 3.0
    assert res.status is gs.Status.FINISHED
    assert "All variables are fixed by their bounds" in res.message
    assert len(calls) == res.nfev <= 5


@pytest.mark.parametrize("scale", [None, [1.0, 5.0, 2.0, 3.0]])
@pytest.mark.parametrize(
    "method", ["auto", "bfgs", "cma", "gfm", "gfm+", "two-point", "zo-o2nc", gs.PINGD(0.1, 0.1, gradients="sift")]
)
def test_a_run_with_fixed_variables_is_the_run_without_them(method, scale):
    """To the last bit: they cost nothing."""
    held = np.array([7.0, -3.0])

    def fewer(x):
        return value(x, 0.35)

    def all_of_them(x):
        np.testing.assert_array_equal(x[[1, 3]], held)
        return fewer(x[[0, 2]])

    bounds = [(None, None), (7, 7), (None, None), (-3, -3)]
    res = gs.minimize(all_of_them, [0.9, 0.0, 0.2, 9.0], method, bounds=bounds, x_scale=scale, max_evals=600, rng=0)
    scale = None if scale is None else scale[::2]
    alone = gs.minimize(fewer, [0.9, 0.2], method, x_scale=scale, max_evals=600, rng=0)
    np.testing.assert_array_equal(res.x[[0, 2]], alone.x)
    np.testing.assert_array_equal(res.x[[1, 3]], held)
    assert (res.fun, res.nfev, res.nit) == (alone.fun, alone.nfev, alone.nit)


def test_a_fixed_variable_costs_nothing_without_a_limit_either():
    held = gs.minimize(lambda x: value(x[:2], 0.35), [0.9, 0.2, 7.0], bounds=[(None, None)] * 2 + [(7, 7)], rng=0)
    same_without = gs.minimize(value, [0.9, 0.2], args=(0.35,), rng=0)
    np.testing.assert_array_equal(held.x[:2], same_without.x)
    assert held.nfev == same_without.nfev


def test_a_criterion_is_looked_at_though_all_variables_are_fixed():
    bounds = [(1, 1), (2, 2)]
    assert gs.minimize(value, [1.0, 2.0], bounds=bounds, stop=gs.stop.Target(5.0), rng=0).success
    assert not gs.minimize(value, [1.0, 2.0], bounds=bounds, stop=gs.stop.Target(2.0), rng=0).success


def test_what_is_shown_in_the_free_variables_is_said_to_be():
    oracle = gs.Deterministic(lambda x: value(x), grad=lambda x: np.sign(x))
    res = gs.minimize(oracle, [0.3, 0.0], gs.INGD(delta=0.1, epsilon=0.2), bounds=[(None, None), (0.5, 0.5)], rng=0)
    assert res.success
    assert "That is in the variables that are not fixed." in res.message


@pytest.mark.parametrize("grad", [None, np.sign], ids=["values", "gradients"])
def test_stationarity_is_asked_about_in_the_free_variables(grad):
    """A fixed variable is not moved for it, and its slope does not count."""
    points = []

    def watched(x):
        points.append(x[1])
        return value(x)

    oracle = gs.Deterministic(watched, grad=grad)
    bounds = [(None, None), (1, 1)]
    res = gs.minimize(oracle, [0.9, 1.0], bounds=bounds, max_evals=2000, rng=0, stationarity=(0.1, 0.3))
    assert set(points) == {1.0}
    assert res.stationarity.answer in ("supported", "certified")
    assert "leave the allowed set" not in res.message


def test_gradients_of_fixed_variables_are_left_out():
    def slope(x):
        return np.sign(x - 0.35)

    oracle = gs.Deterministic(lambda x: value(x, 0.35), grad=slope)
    res = gs.minimize(oracle, [0.9, 0.2, 5.0], gs.PINGD(0.05, 0.1), bounds=[(None, None)] * 2 + [(4, 4)], rng=0)
    assert res.success
    assert res.x[2] == 4.0
    assert np.abs(res.x[:2] - 0.35).max() < 0.06


@pytest.mark.parametrize("name", ["gfm", "zo-o2nc", "two-point"])
def test_a_start_at_a_bound_does_not_look_like_a_kink(name):
    """Probes to both sides of x0 would be cut there, however near, and steps of 1e-9 be chosen."""
    res = gs.minimize(value, [0.0, 0.0, 0.0], name, args=(0.35,), bounds=[(0, 1)] * 3, max_evals=3000, rng=0)
    assert res.fun < 0.2 * value(np.zeros(3), 0.35)


def test_a_run_with_a_fixed_variable_goes_on_from_its_journal(tmp_path):
    path = tmp_path / "run.journal"
    keys = {"bounds": [(0, 1), (7, 7)], "rng": 0, "journal": path}
    gs.minimize(value, [0.9, 7.0], gs.GFM(0.05, 0.01), max_evals=100, **keys)
    longer = gs.minimize(value, [0.9, 7.0], gs.GFM(0.05, 0.01), max_evals=200, **keys)
    whole = gs.minimize(value, [0.9, 7.0], gs.GFM(0.05, 0.01), max_evals=200, bounds=[(0, 1), (7, 7)], rng=0)
    np.testing.assert_array_equal(longer.x, whole.x)
    with pytest.raises(ValueError, match="another run"):
        gs.minimize(value, [0.9, 7.0], gs.GFM(0.05, 0.01), max_evals=200, **{**keys, "bounds": [(0, 1), (8, 8)]})


@pytest.mark.parametrize("method", ["auto", gs.GFM(0.1, 0.01)])
def test_a_start_outside_the_bounds_is_mentioned(method):
    res = gs.minimize(value, [50.0, 0.5], method, bounds=[(2, 3), (0, 1)], max_evals=100, rng=0)
    assert "x0 is outside the bounds, so the run started at the nearest point inside." in res.message
    inside = gs.minimize(value, [2.5, 0.5], method, bounds=[(2, 3), (0, 1)], max_evals=100, rng=0)
    assert "outside" not in inside.message


# how far it goes


def test_a_function_without_a_minimum_is_asked_about():
    res = gs.minimize(lambda x: -value(x), X0, max_evals=600, rng=0)
    assert "f may be unbounded below: check its sign or add bounds" in res.message
    assert "bounds missing" not in gs.minimize(value, X0, max_evals=600, rng=0).message


@pytest.mark.parametrize("name", [name for name in METHODS if name not in {"two-point", "auto", *GRADIENTS, *EXACT}])
def test_no_method_by_name_asks_far_beyond_where_the_function_still_looks_linear(name):
    """A simulator may die there. "two-point" is kept as the paper's study had it."""
    points = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the settings of gfm+
        gs.minimize(lambda x: points.append(x) or value(x, 1.0), np.zeros(5), name, max_evals=1000, rng=0)
    assert np.linalg.norm(points, axis=1).max() < 25  # ten times the norm of the minimum, and half a step


# what is known when a run is stopped


def rosenbrock(x):
    return float(100 * ((x[1:] - x[:-1] ** 2) ** 2).sum() + ((1 - x[:-1]) ** 2).sum())


@pytest.mark.parametrize("method", ["auto", "bfgs", "cma"])
@pytest.mark.parametrize("after", [5, 60, 200, 700])
def test_a_run_that_is_interrupted_knows_the_value_of_its_answer(method, after):
    seen = []

    def f(x):
        if len(seen) == after:
            raise KeyboardInterrupt
        seen.append(rosenbrock(x))
        return seen[-1]

    res = gs.minimize(f, np.zeros(4), method, max_evals=1000, rng=0)
    assert res.status is gs.Status.INTERRUPTED
    if method == "auto":
        assert res.fun <= min(seen[: max(after - 20, 2)])  # but for those of the last query, which was not told
    if res.fun_stderr == 0:
        assert res.fun == rosenbrock(res.x)
    else:
        assert method == "cma"  # whose answer is a mean of points
        assert np.isnan(res.fun_stderr)


def test_it_is_still_known_when_the_run_goes_on_from_a_snapshot_and_is_interrupted_again(tmp_path):
    kept = gs.Journal(tmp_path / "run.journal", snapshots=0.0)
    seen = []
    for most in (300, 302):

        def f(x, most=most):
            if len(seen) == most:
                raise KeyboardInterrupt
            seen.append(rosenbrock(x))
            return seen[-1]

        res = gs.minimize(f, np.zeros(4), max_evals=1000, rng=0, journal=kept)
        assert res.fun == rosenbrock(res.x) <= min(seen[:280])


def test_an_interrupted_run_in_machine_code_returns_where_it_stands():
    numba = pytest.importorskip("numba")

    @numba.njit
    def f(x):
        return np.abs(x - 1.0).sum()

    seen = []

    def stop(res):
        seen.append(res)
        if len(seen) == 60:
            raise KeyboardInterrupt

    res = gs.minimize(f, np.full(5, 5.0), gs.GFM(0.01, 0.01), max_evals=20_000, rng=0, compiled=True, callback=stop)
    assert res.status is gs.Status.INTERRUPTED
    assert f(res.x) < 1
    assert np.isnan(res.fun_stderr)


@pytest.mark.parametrize("evals", [1, 2, 3, 4])
def test_few_evaluations_give_a_value_all_the_same(evals):
    res = gs.minimize(value, X0, max_evals=evals, rng=0)
    assert res.fun == value(res.x)
    assert res.nfev <= evals
    assert np.isnan(res.fun_stderr) == (evals == 1)  # one value does not show whether there is noise
    assert "exact" in repr(res) or evals == 1


@pytest.mark.parametrize("oracle", [gs.Seeded(lambda x, seed: 3.0), gs.Unreplayable(lambda x: 3.0)])
def test_a_function_that_is_flat_leaves_the_start(oracle):
    res = gs.minimize(oracle, X0, max_evals=1000, rng=0)
    np.testing.assert_array_equal(res.x, X0)
    assert "No point lower than the start was found" in res.message


# stationarity of what minimize takes


def test_certify_takes_the_callable_that_minimize_takes():
    x = np.full(3, 0.01)
    bare = gs.certify(value, x, 0.1, 0.5, rng=0)
    wrapped = gs.certify(gs.Deterministic(value), x, 0.1, 0.5, rng=0)
    assert (bare.answer, bare.bound, bare.message) == (wrapped.answer, wrapped.bound, wrapped.message)
    assert bare.nfev == wrapped.nfev + 2
    norm = gs.smoothed_gradient_norm(value, x, 0.1, 200, rng=0)
    assert norm.nfev == 402
    assert norm.squared == gs.smoothed_gradient_norm(gs.Deterministic(value), x, 0.1, 200, rng=0).squared


def test_a_noisy_callable_is_recognised_and_certifies_nothing_for_sure():
    calls = []
    rng = np.random.default_rng(0)

    def noisy(x):
        calls.append(1)
        return value(x) + 1e-3 * rng.normal()

    found = gs.certify(noisy, np.full(3, 0.01), 0.1, 3.0, f_lower=0.0, max_evals=500, rng=0)
    assert found.answer != "certified"
    assert found.nfev == len(calls) <= 500


def test_what_certify_cannot_take_is_refused_before_it_is_called():
    calls = []
    with pytest.raises(TypeError, match=r"An oracle such as gs\.Deterministic\(f\) is needed, got str"):
        gs.certify("f", X0, 0.1, 0.1)
    with pytest.raises(ValueError, match="max_evals must be a whole number of at least 3, got 2"):
        gs.certify(calls.append, X0, 0.1, 0.1, max_evals=2)
    with pytest.raises(ValueError, match="use must be one of values, gradients"):
        gs.smoothed_gradient_norm(calls.append, X0, 0.1, 100, use="slopes")
    assert calls == []
