"""Resume: a run that goes on with a larger budget equals the one that had it from the start."""

import numpy as np
import pytest

import goldstein as gs

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([1.0, -0.5, 0.25, 2.0])


def component(x, i):
    return float(np.abs(x - 0.1 * np.sin(i + np.arange(x.size))).sum() + np.sin(7 * i))


def smooth(x):
    return float(np.abs(x - 0.3).sum())


METHODS = {
    "zo-o2nc": gs.ZOO2NC(0.5, 7),
    "zo-o2nc, batches of 3": gs.ZOO2NC(0.5, 7, batch_size=3),
    "gfm+ coin": gs.GFMPlus(0.1, 0.01, 4, 2, restart="coin"),
    "gfm+ coin, large": gs.GFMPlus(0.1, 0.01, 10, 1, 30, restart="coin"),
    "gfm+ clock": gs.GFMPlus(0.1, 0.01, 4, 3),
    "gfm": gs.GFM(0.1, 0.01, 5),
}
BUDGETS = (301, 517, 998)


def assert_same_run(resumed: gs.Result, straight: gs.Result, what: str) -> None:
    np.testing.assert_array_equal(resumed.x, straight.x, err_msg=what)
    assert (resumed.fun, resumed.nfev, resumed.nit, resumed.nfail) == (
        straight.fun,
        straight.nfev,
        straight.nit,
        straight.nfail,
    ), what
    assert (resumed.status, resumed.success) == (straight.status, straight.success), what


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("output", [None, "random", "average", "best"])
def test_a_larger_budget_continues_as_if_it_had_been_given_at_once(name, output, tmp_path):
    """Asking draws nothing that is lost when the budget has no room for the answer."""
    oracle = gs.FiniteSum(component, 30)
    for seed in range(5):
        for first in BUDGETS:
            file = tmp_path / f"{seed}-{first}.npz"
            settings = {"rng": seed, "output": output}
            gs.minimize(oracle, X0, METHODS[name], max_evals=first, journal=file, **settings)
            resumed = gs.minimize(oracle, X0, METHODS[name], max_evals=1_503, journal=file, **settings)
            straight = gs.minimize(oracle, X0, METHODS[name], max_evals=1_503, **settings)
            assert_same_run(resumed, straight, f"seed {seed}, {first} evaluations first")


CRITERION = gs.stop.Stationary(0.5, 1e-6, max_evals=200, every=2)


@pytest.mark.parametrize("output", [None, "random", "average"])
@pytest.mark.parametrize("name", ["gfm", "gfm+ clock", "zo-o2nc"])
def test_criteria_draw_nothing_that_more_iterations_would_miss(name, output, tmp_path):
    """The checks of `stop.Stationary` draw random numbers, and so does a random output: neither disturbs the other."""
    for seed in range(5):
        file = tmp_path / f"{seed}.npz"
        settings = {"rng": seed, "output": output, "stop": CRITERION, "max_evals": 10_000}
        gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_iter=60, journal=file, **settings)
        resumed = gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_iter=160, journal=file, **settings)
        straight = gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_iter=160, **settings)
        assert_same_run(resumed, straight, f"seed {seed}")


@pytest.mark.parametrize("output", [None, "random", "average"])
@pytest.mark.parametrize("name", ["gfm", "gfm+ clock", "zo-o2nc"])
def test_criteria_are_checked_where_a_larger_budget_would_check_them(name, output, tmp_path):
    """The same with more evaluations, which needs records at places that do not depend on the budget."""
    for seed in range(5):
        file = tmp_path / f"{seed}.npz"
        settings = {"rng": seed, "output": output, "stop": CRITERION}
        gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_evals=2_003, journal=file, **settings)
        resumed = gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_evals=8_001, journal=file, **settings)
        straight = gs.minimize(gs.Deterministic(smooth), X0, METHODS[name], max_evals=8_001, **settings)
        assert_same_run(resumed, straight, f"seed {seed}")


@pytest.mark.parametrize("first", [1_000, 100])
def test_a_resumed_run_keeps_about_a_hundred_records(first, tmp_path):
    """The history of a run with a larger budget is as long as that of any other."""
    file = tmp_path / "run.npz"
    for budget in (first, 10_000):
        res = gs.minimize(gs.Deterministic(smooth), X0, gs.GFM(0.1, 0.001), max_evals=budget, rng=0, journal=file)
    assert 90 <= len(res.history.nfev) <= 210
    assert (np.diff(res.history.nfev) > 0).all()


def test_a_run_resumed_many_times_keeps_about_a_hundred_records(tmp_path):
    file = tmp_path / "run.npz"
    for budget in range(1_000, 20_001, 1_000):
        res = gs.minimize(gs.Deterministic(smooth), X0, gs.GFM(0.1, 0.001), max_evals=budget, rng=0, journal=file)
    straight = gs.minimize(gs.Deterministic(smooth), X0, gs.GFM(0.1, 0.001), max_evals=20_000, rng=0)
    assert 90 <= len(res.history.nfev) <= 210
    assert_same_run(res, straight, "twenty stages")
