"""Counting and kernels: compiled runs ask for what they count, and nothing that they return depends on the clock."""

import itertools
import time

import numpy as np
import pytest
from numba import njit

import goldstein as gs
from goldstein import Status

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")


@njit
def counted_sum(x, i, calls):
    """|x_j| of one coordinate; one component in five fails. Every call is counted in an array of the caller's."""
    calls[0] += 1
    return np.nan if i % 5 == 0 else abs(x[i % x.size])


@njit
def deviations(x, i, rows):
    total = 0.3
    for j in range(x.size):
        total += rows[i, j] * x[j]
    return abs(total)


SETTINGS = [(3, 1, 1), (2, 1, 2), (5, 2, 3), (20, 1, 100), (10, 1, 2), (4, 3, None)]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("max_evals", [30_000, 2_200])
def test_compiled_gfm_plus_counts_every_call_when_whole_batches_fail(settings, max_evals):
    """Calls == nfev ≤ max_evals, and a fifth of failures is no majority of them."""
    for seed in range(4):
        calls = np.zeros(1, np.int64)
        oracle = gs.FiniteSum(counted_sum, 10, args=(calls,))
        method = gs.GFMPlus(0.05, 0.01, *settings)
        res = gs.minimize(oracle, np.ones(3), method, max_evals=max_evals, rng=seed, compiled=True)
        assert calls[0] == res.nfev, f"seed {seed}: {calls[0]} calls, nfev {res.nfev}"
        assert calls[0] <= max_evals, f"seed {seed}"
        assert res.status is Status.MAX_EVALS, f"seed {seed}: {res.status!r}"


@pytest.mark.parametrize("settings", SETTINGS)
def test_compiled_and_plain_gfm_plus_agree_when_whole_batches_fail(settings):
    """Compiled and plain runs take the same course, with the same counts."""
    for seed in range(4):
        runs = []
        for compiled in (False, True):
            oracle = gs.FiniteSum(counted_sum, 10, args=(np.zeros(1, np.int64),))
            method = gs.GFMPlus(0.05, 0.01, *settings)
            runs.append(gs.minimize(oracle, np.ones(3), method, max_evals=3_000, rng=seed, compiled=compiled))
        plain, fast = runs
        assert (fast.nfev, fast.nfail, fast.nit) == (plain.nfev, plain.nfail, plain.nit), f"seed {seed}"
        np.testing.assert_allclose(fast.x, plain.x, atol=1e-4)  # rounding of the two paths differs


METHODS = {
    "gfm": gs.GFM(0.01, 0.001),
    "gfm+": gs.GFMPlus(0.01, 0.001, 10, 5),
    "zo-o2nc": gs.ZOO2NC(0.5, 20),
    "ws-gfm": gs.WarmStart(gs.GFM(0.01, 0.001), gs.GFM(0.02, 0.001, 2)),
    "auto": "auto",
}


@pytest.mark.parametrize("name", METHODS)
def test_nothing_that_a_compiled_run_returns_depends_on_the_clock(name, monkeypatch):
    """The same seed gives the same history bit for bit, whether time flies or stands still."""
    rows = np.random.default_rng(0).normal(size=(50, 4))
    oracle = gs.FiniteSum(deviations, 50, args=(rows,))

    def run(seconds_between_two_looks: float) -> gs.Result:
        ticks = itertools.count()
        with monkeypatch.context() as patch:
            for clock in ("perf_counter", "monotonic", "process_time", "time"):
                patch.setattr(time, clock, lambda: seconds_between_two_looks * next(ticks))
            return gs.minimize(oracle, np.ones(4), METHODS[name], max_evals=40_000, rng=3, compiled=True)

    still, flying = run(0.0001), run(7.0)
    assert len(still.history.nfev) == len(flying.history.nfev)
    for column in still.history:
        np.testing.assert_array_equal(still.history[column], flying.history[column], err_msg=column)
    np.testing.assert_array_equal(still.x, flying.x)
    assert still.fun == flying.fun


@pytest.mark.parametrize("compiled", [False, True])
def test_nfev_equals_the_calls_for_every_compiled_method(compiled):
    """What kernels count is what they ask for, in the methods that have one."""
    for name, method in METHODS.items():
        calls = np.zeros(1, np.int64)
        oracle = gs.FiniteSum(counted_sum, 10, args=(calls,))
        res = gs.minimize(oracle, np.ones(3), method, max_evals=3_001, rng=1, compiled=compiled)
        assert calls[0] == res.nfev <= 3_001, name
