"""Failed evaluations are dropped and counted, exceptions carry what is known, and garbage is never success."""

import os
import warnings

import numpy as np
import pytest

import goldstein as gs
from goldstein import Status
from goldstein.methods import resolve

METHODS = {
    "gfm": gs.GFM(0.1, 0.02, batch_size=4),
    "gfm-loo": gs.GFM(0.1, 0.02, batch_size=8, estimator="loo", directions="orthogonal"),
    "gfm+": gs.GFMPlus(0.1, 0.002, epoch_length=3, batch_size=4),
    "ws-gfm": gs.WarmStart(gs.GFM(0.1, 0.02, 2), gs.GFM(0.2, 0.02, 4)),
    "ws-gfm+": gs.WarmStart(gs.GFM(0.1, 0.02, 2), gs.GFMPlus(0.2, 0.002, 3, 4)),
    "zo-o2nc": gs.ZOO2NC(0.5, block_length=5, batch_size=4),
}
BY_NAME = {f"{name} by name": resolve(name, {}) for name in ("auto", "gfm", "ws-gfm+")}  # settings from probes
every_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
even_by_name = pytest.mark.parametrize("method", [*METHODS.values(), *BY_NAME.values()], ids=[*METHODS, *BY_NAME])
X0 = np.array([1.0, -0.5, 0.25])


class Broken(Exception):
    """What the simulators of these tests raise."""


def value(x) -> float:
    return float(np.abs(x - 0.1).sum())


class Hole:
    """Fails where x[0] > `edge` in the way it is told, and counts."""

    def __init__(self, how, edge: float = 1.0) -> None:
        self.how, self.edge, self.calls, self.failed = how, edge, 0, 0

    def __call__(self, x):
        self.calls += 1
        if x[0] <= self.edge:
            return value(x)
        self.failed += 1
        if isinstance(self.how, type):
            raise self.how("no answer here")
        return self.how


@even_by_name
def test_nan_infinity_and_a_caught_exception_are_one_and_the_same_failure(method):
    runs = []
    for how in (np.nan, np.inf, -np.inf, Broken):
        fun = Hole(how)
        res = gs.minimize(gs.Deterministic(fun), X0, method, max_evals=600, catch=Broken, rng=1)
        assert res.nfail == fun.failed > 0
        assert res.nfev == fun.calls
        assert f"{fun.failed / fun.calls:.1%} of the evaluations failed" in res.message
        assert np.isfinite(res.x).all()
        assert np.isfinite(res.fun)
        runs.append(res)
    for res in runs[1:]:
        assert (res.x == runs[0].x).all()
        assert (res.nfev, res.nit, res.nfail) == (runs[0].nfev, runs[0].nit, runs[0].nfail)


@even_by_name
def test_a_run_without_failures_says_nothing_about_them(method):
    res = gs.minimize(value, X0, method, max_evals=300, rng=0)
    assert res.nfail == 0
    assert "failed" not in res.message


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_failed_value_takes_its_direction_away_and_the_rest_is_reweighted(bad):
    delta, eta, b, d = 0.1, 0.02, 5, 3
    run = gs.GFM(delta, eta, b).start(X0, rng=0)
    query = run.ask()
    values = np.array([value(x) for x in query.points])
    w = (query.points[:b] - query.points[b:]) / (2 * delta)
    values[1] = values[b + 3] = bad  # F(x + δw_1) and F(x − δw_3)
    run.tell(query, values)
    c = d / (2 * delta) * (values[:b] - values[b:])
    keep = [0, 2, 4]
    assert run.x == pytest.approx(X0 - eta * (c[keep, None] * w[keep]).mean(axis=0), rel=1e-12)


def test_gfm_plus_drops_a_direction_at_both_points_when_it_fails_at_one():
    delta, eta, b, d = 0.1, 0.02, 4, 3
    run = gs.GFMPlus(delta, eta, epoch_length=5, batch_size=b, large_batch_size=6).start(X0, rng=0)
    query = run.ask()
    run.tell(query, [value(x) for x in query.points])
    x1, v = run.x.copy(), (X0 - run.x) / eta
    query = run.ask()
    here, before = query.points[: 2 * b], query.points[2 * b :]
    w = (here[:b] - here[b:]) / (2 * delta)
    assert before == pytest.approx(np.concatenate([X0 + delta * w, X0 - delta * w]))
    values = np.array([value(x) for x in query.points])
    values[2 * b + 1] = np.nan  # F(x_{t−1} + δw_1) only
    run.tell(query, values)
    plus, minus, plus_before, minus_before = values.reshape(4, b)
    c = d / (2 * delta) * ((plus - minus) - (plus_before - minus_before))
    keep = [0, 2, 3]
    assert run.x == pytest.approx(x1 - eta * (v + (c[keep, None] * w[keep]).mean(axis=0)), rel=1e-9)


@every_method
def test_an_iteration_without_any_value_is_skipped(method):
    run = method.start(X0, rng=0, max_iter=100)
    query = run.ask()
    run.tell(query, np.full(len(query), np.nan))
    assert (run.x == X0).all()
    assert run.nit == 1
    for _ in range(5):
        query = run.ask()
        run.tell(query, [value(x) for x in query.points])
    assert np.isfinite(run.x).all()
    assert not (run.x == X0).all()


@even_by_name
@pytest.mark.parametrize("bare", [False, True], ids=["oracle", "bare"])
def test_a_function_that_always_fails_ends_the_run_early(method, bare):
    fun = Hole(np.nan, edge=-np.inf)
    res = gs.minimize(
        fun if bare else gs.Deterministic(fun), X0, method, max_evals=100_000, stop=gs.stop.Target(5.0), rng=0
    )
    assert res.status is Status.FAILING
    assert not res.success
    assert res.nfev == fun.calls == res.nfail < 500
    assert f"All {res.nfev} evaluations failed." in res.message
    assert (res.x == X0).all()
    assert np.isnan(res.fun)


def test_a_function_that_breaks_for_good_in_the_middle_ends_the_run_soon_after():
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        return value(x) if calls < 5000 else np.nan

    res = gs.minimize(gs.Deterministic(fun), X0, METHODS["gfm"], max_evals=100_000, rng=0)
    assert res.status is Status.FAILING
    assert 5000 < res.nfev < 6500
    assert np.isfinite(res.x).all()


@pytest.mark.parametrize(("share", "status"), [(0.3, Status.MAX_EVALS), (0.9, Status.FAILING)])
def test_only_a_majority_of_failures_stops_a_run(share, status):
    # Seven standard errors from either side of the rule: the chance of a wrong answer is below 1e-9 for any seed.
    noise = np.random.default_rng(5)
    fun = gs.Deterministic(lambda x: np.nan if noise.random() < share else value(x))
    res = gs.minimize(fun, X0, METHODS["gfm"], max_evals=3000, rng=0)
    assert res.status is status
    assert not res.success
    assert np.isfinite(res.x).all()


@pytest.mark.parametrize("scale", [None, np.array([10.0, 0.5, 3.0])], ids=["plain", "x_scale"])
@even_by_name
def test_other_exceptions_propagate_at_once_with_the_point_and_the_run_so_far(method, scale):
    seen = []

    def fun(x):
        seen.append(x.copy())
        if len(seen) == 37:
            raise Broken("licence lost")
        return value(x)

    with pytest.raises(Broken, match="licence lost") as caught:
        gs.minimize(gs.Deterministic(fun), X0, method, max_evals=500, x_scale=scale, catch=ValueError, rng=0)
    error = caught.value
    assert len(seen) == 37
    assert (error.point == seen[-1]).all()
    assert error.result.nfev == 37
    assert error.result.nit > 0 or "evaluation" in error.result.message  # which has looked around first
    assert np.isfinite(error.result.x).all()
    assert not error.result.success
    assert any("at evaluation 37" in note for note in error.__notes__)
    assert error.result.status is gs.Status.RAISED


def test_an_exception_at_the_very_first_value_of_a_bare_callable_carries_the_same():
    def fun(x):
        raise Broken("not even once")

    with pytest.raises(Broken) as caught:
        gs.minimize(fun, X0, METHODS["gfm"], max_evals=500, rng=0)
    assert (caught.value.point == X0).all()
    assert caught.value.result.nfev == 1
    assert (caught.value.result.x == X0).all()


def test_the_rows_of_a_vectorised_call_that_raised_are_counted():
    rows = 0

    def fun(X):
        nonlocal rows
        rows += len(X)
        if rows > 40:
            raise Broken
        return np.abs(X).sum(axis=1)

    with pytest.raises(Broken) as caught:
        gs.minimize(gs.Deterministic(fun, vectorized=True), X0, METHODS["gfm"], max_evals=500, rng=0)
    assert caught.value.result.nfev == rows
    assert caught.value.point.shape == X0.shape


def test_an_exception_among_several_workers_does_not_hide_values_that_were_asked_for(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)  # parts that a map gets
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == 15:
            raise Broken
        return value(x)

    with pytest.raises(Broken) as caught:
        gs.minimize(gs.Deterministic(fun), X0, gs.GFM(0.1, 0.001, 12), max_evals=5000, workers=map, rng=0)
    assert caught.value.result.nfev >= calls == 15
    assert caught.value.point.shape == X0.shape


@pytest.mark.parametrize("answer", [None, "text", 1j, [1.0, 2.0]], ids=repr)
def test_an_answer_that_is_no_number_propagates_like_an_exception(answer):
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        return answer if calls == 11 else value(x)

    with pytest.raises(ValueError, match="one real number was expected") as caught:
        gs.minimize(gs.Deterministic(fun), X0, METHODS["gfm"], max_evals=500, rng=0)
    assert calls == 11
    assert caught.value.result.nfev == 11
    assert caught.value.point.shape == X0.shape


def test_stop_iteration_from_the_function_is_no_silent_end():
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == 20:
            raise StopIteration
        return value(x)

    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        gs.minimize(fun, X0, METHODS["gfm"], max_evals=500, rng=0)
    assert caught.value.result.nfev == 20


def test_a_caught_exception_of_a_vectorised_function_fails_all_its_rows():
    def fun(X):
        if (X[:, 0] > 1.05).any():
            raise Broken
        return np.abs(X).sum(axis=1)

    oracle = gs.Deterministic(fun, vectorized=True)
    res = gs.minimize(oracle, X0, METHODS["gfm"], max_iter=5, catch=[Broken, ValueError], rng=0)
    assert res.nfail > 0
    assert res.nfail % 8 == 0


def test_a_bare_callable_that_is_noisy_is_recognised_and_that_is_said():
    noise = np.random.default_rng(0)

    def fun(x):
        return value(x) + 0.01 * noise.normal()

    with pytest.warns(RuntimeWarning, match="carry different noise"):
        res = gs.minimize(fun, X0, METHODS["gfm"], max_evals=200, rng=0)
    assert "Unreplayable" in res.message
    assert res.fun_stderr > 0
    with pytest.raises(ValueError, match="cannot replay"):
        gs.minimize(fun, X0, METHODS["gfm+"], max_evals=200, rng=0)


@even_by_name
def test_a_bare_callable_without_noise_is_taken_as_it_is(method):
    res = gs.minimize(value, X0, method, max_evals=200, rng=0)
    assert "Unreplayable" not in res.message
    assert res.fun == value(res.x)
    assert res.fun_stderr == 0


@pytest.mark.parametrize("garbage", [np.nan, -np.inf, np.inf])
@even_by_name
def test_garbage_never_reaches_a_target(method, garbage):
    fun = Hole(garbage, edge=0.99)  # half of the values at X0 are fine, but far above the target
    res = gs.minimize(gs.Deterministic(fun), X0, method, max_evals=400, stop=gs.stop.Target(-1e6), rng=0)
    assert not res.success
    assert res.status is not Status.CRITERION
    assert np.isfinite(res.x).all()


def test_a_target_that_was_reached_where_f_then_fails_is_no_success():
    visited = set()

    def once(x):
        key = x.tobytes()
        first = key not in visited
        visited.add(key)
        return value(x) if first else np.nan

    res = gs.minimize(gs.Deterministic(once), X0, gs.GFM(0.1, 0.02), max_evals=3000, stop=gs.stop.Target(0.6), rng=0)
    assert np.isnan(res.fun)
    assert not res.success
    assert np.isfinite(res.x).all()


def test_a_function_that_works_in_place_does_not_disturb_the_run():
    def in_place(x):
        x -= 0.1
        return np.abs(x, out=x).sum()

    keys = {"max_evals": 300, "stop": gs.stop.Target(0.9), "rng": 0}
    res = gs.minimize(in_place, X0, METHODS["gfm"], **keys)
    same = gs.minimize(value, X0, METHODS["gfm"], **keys)
    assert (res.x == same.x).all()
    assert res.fun == same.fun < 0.9


def test_gfm_on_noise_that_cannot_be_replayed_warns_and_runs():
    with pytest.warns(RuntimeWarning, match=r"choose δ \(here 0.1\) large enough"):
        res = gs.minimize(gs.Unreplayable(value), X0, METHODS["gfm"], max_evals=200, rng=0)
    assert res.nit > 20


EXTREME = {
    "steep": lambda x: 1e160 * float(x[0]),
    "shallow": lambda x: 1e-170 * float(x[0]),
    "flat": lambda x: 1.0,
}


@pytest.mark.parametrize("fun", EXTREME)
@pytest.mark.parametrize("x0", [1e300, -1.7e308, 1e-300])
@pytest.mark.parametrize("method", ["gfm", "gfm+", "zo-o2nc", "sift", "o2nc", "singd", "bfgs", "one-phase"])
def test_extreme_numbers_neither_raise_nor_warn_in_numpys_words(method, x0, fun):
    options = {"gradients": "sift"} if method in ("o2nc", "singd") else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gs.minimize(gs.Deterministic(EXTREME[fun]), np.full(3, x0), method, options=options, max_evals=120, rng=0)
    assert not [str(w.message) for w in caught if "encountered in" in str(w.message)]
