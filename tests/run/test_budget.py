"""Every value that is asked for is counted, and `max_evals` is a promise about all of them."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import goldstein as gs
from goldstein.methods import resolve
from goldstein.run.history import RECORDS
from goldstein.stop import Criterion

DELTA, STEP = 0.1, 0.02


class Counted:
    """A nonsmooth F(x; noise) that counts the rows it is asked for; some points may fail."""

    def __init__(self, kind: str, vectorized: bool = False, holes: bool = False) -> None:
        self.rows, self.points = 0, []
        self.kind, self.vectorized, self.holes = kind, vectorized, holes
        self._noise = np.random.default_rng(1)

    def __call__(self, x, xi=None):
        X = np.atleast_2d(x)
        self.rows += len(X)
        self.points.extend(X.copy())
        values = np.abs(X - 0.5).sum(axis=1) + self.shift(xi, len(X))
        if self.holes:
            values[X[:, 0] > 0.9] = np.nan
        return values if self.vectorized else values[0]

    def shift(self, xi, k: int):
        if self.kind == "Unreplayable":
            return self._noise.normal(size=k)
        return np.zeros(k) if xi is None else np.sin(np.atleast_1d(xi))

    def oracle(self):
        if self.kind == "bare":
            return self
        extra = {"FiniteSum": (13,), "Expectation": (lambda rng, k: rng.normal(size=k),)}.get(self.kind, ())
        return getattr(gs, self.kind)(self, *extra, vectorized=self.vectorized)


KINDS = ["bare", "Deterministic", "FiniteSum", "Expectation", "Seeded"]


@dataclass
class Case:
    """A method, and what it costs by the formulas: `cost(T, stochastic)` values for T iterations."""

    method: gs.Method
    cost: Callable[[int, bool], int] | None = None
    needs_replay: bool = True
    batches: list[int] = field(default_factory=list)


def _per_direction(estimator: str, b: int, stochastic: bool) -> int:
    """Values for a batch of b: 2b, or with leave-one-out b, in pairs when each ξ needs a group."""
    if estimator == "central":
        return 2 * b
    return b - b % 2 if stochastic else b


@st.composite
def gfm(draw) -> Case:
    estimator, directions = draw(st.sampled_from(["central", "loo"])), draw(st.sampled_from(["iid", "orthogonal"]))
    b = draw(st.integers(1 if estimator == "central" else 2, 7))
    return Case(
        gs.GFM(DELTA, STEP, b, estimator=estimator, directions=directions),
        lambda T, noisy: T * _per_direction(estimator, b, noisy),
        needs_replay=estimator == "loo",
        batches=[2 * b],
    )


@st.composite
def gfm_plus(draw) -> Case:
    estimator, directions = draw(st.sampled_from(["central", "loo"])), draw(st.sampled_from(["iid", "orthogonal"]))
    least = 1 if estimator == "central" else 2
    m, b = draw(st.integers(1, 6)), draw(st.integers(least, 6))
    large = draw(st.none() | st.integers(least, 25))
    method = gs.GFMPlus(DELTA, STEP, m, b, large, estimator=estimator, directions=directions)

    def cost(T: int, noisy: bool) -> int:  # 2 [q b' + 2b (T − q)], with q large batches among T iterations
        q = ceil(T / m)
        bs = m * b if large is None else large
        return q * _per_direction(estimator, bs, noisy) + 2 * (T - q) * _per_direction(estimator, b, noisy)

    return Case(method, cost, batches=[2 * (large or m * b), 4 * b])


@st.composite
def warm_start(draw, second) -> Case:
    first, then = draw(gfm()), draw(second())
    T0 = draw(st.none() | st.integers(1, 12))

    def cost(T: int, noisy: bool) -> int:
        ahead = min(T, (T // 2 or T) if T0 is None else T0)
        return first.cost(ahead, noisy) + then.cost(T - ahead, noisy)

    return Case(gs.WarmStart(first.method, then.method, T0), cost, needs_replay=first.needs_replay or then.needs_replay)


@st.composite
def zo_o2nc(draw) -> Case:
    estimator = draw(st.sampled_from(["central", "loo"]))
    b = draw(st.integers(1 if estimator == "central" else 2, 7))
    return Case(
        gs.ZOO2NC(0.5, block_length=draw(st.integers(1, 7)), batch_size=b, estimator=estimator),
        lambda T, noisy: T * _per_direction(estimator, b, noisy),
        needs_replay=estimator == "loo",
        batches=[2 * b],
    )


METHODS = {
    "gfm": gfm(),
    "gfm+": gfm_plus(),
    "ws-gfm": warm_start(gfm),
    "ws-gfm+": warm_start(gfm_plus),
    "zo-o2nc": zo_o2nc(),
}
CHOSEN = {  # with settings from probes, and without a formula
    f"{name} by name": st.just(Case(resolve(name, {}), needs_replay=name.endswith("gfm+")))
    for name in ("auto", "cma", *METHODS)
}


def minimize(fun, x0, method, **kwargs) -> gs.Result:
    """Run without the warnings that are true but not the matter here."""
    with warnings.catch_warnings():
        for sentence in ("The two values", "The corrections of gfm", "Rounding errors", "The first phase"):
            warnings.filterwarnings("ignore", sentence, RuntimeWarning)
        return gs.minimize(fun, x0, method, **kwargs)


every_method = pytest.mark.parametrize("name", METHODS)
even_by_name = pytest.mark.parametrize("name", METHODS | CHOSEN)
thorough = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@even_by_name
@thorough
@given(data=st.data())
def test_what_the_function_saw_is_nfev_and_never_more_than_max_evals(name, data):
    case = data.draw((METHODS | CHOSEN)[name])
    kind = data.draw(st.sampled_from(KINDS if case.needs_replay else [*KINDS, "Unreplayable"]))
    fun = Counted(kind, data.draw(st.booleans()) and kind != "bare", holes=data.draw(st.booleans()))
    max_evals = data.draw(st.integers(1, 20) | st.integers(1, 400))
    max_iter = data.draw(st.none() | st.integers(1, 40))
    res = minimize(
        fun.oracle(),
        np.full(data.draw(st.integers(1, 5)), 0.8),
        case.method,
        max_evals=max_evals,
        max_iter=max_iter,
        output=data.draw(st.sampled_from([None, "last", "random", "average", "best"])),
        stop=data.draw(st.sampled_from([None, gs.stop.Target(0.3), gs.stop.Target(1.0, samples=5)])),
        rng=data.draw(st.integers(0, 1000)),
    )
    assert fun.rows == res.nfev <= max_evals
    assert 0 <= res.nfev_diagnostic <= res.nfev
    assert max_iter is None or res.nit <= max_iter
    assert (np.diff(res.history.nfev) >= 0).all()
    assert res.history.nfev[-1] <= res.nfev


@even_by_name
@thorough
@given(data=st.data())
def test_the_final_estimate_of_fun_is_always_left_room_for(name, data):
    case = data.draw((METHODS | CHOSEN)[name])
    kind = data.draw(st.sampled_from(KINDS))
    least = 3 if kind == "bare" else 1  # a bare callable is asked twice beforehand
    fun = Counted(kind)
    res = minimize(fun.oracle(), np.ones(2), case.method, max_evals=data.draw(st.integers(least, 300)), rng=0)
    assert np.isfinite(res.fun)
    assert res.nfev_diagnostic >= 1
    assert any((point == res.x).all() for point in fun.points[-res.nfev_diagnostic :])


@every_method
@thorough
@given(data=st.data(), T=st.integers(1, 30))
def test_iterations_cost_exactly_what_the_formulas_say(name, data, T):
    case = data.draw(METHODS[name])
    fun = Counted(data.draw(st.sampled_from(KINDS)))
    res = minimize(fun.oracle(), np.ones(3), case.method, max_iter=T, rng=0)
    asked_before = 2 if fun.kind == "bare" else 0
    stochastic = fun.kind not in ("bare", "Deterministic")
    assert res.nit == T
    assert fun.rows == res.nfev
    if stochastic:
        assert res.nfev - res.nfev_diagnostic == case.cost(T, stochastic)
    else:
        assert res.nfev == asked_before + case.cost(T, stochastic) + 1


@pytest.mark.parametrize("T", [1, 9, 10, 11, 47])
def test_gfm_plus_costs_two_times_q_large_plus_two_b_the_rest(T):
    m, b, large = 5, 3, 20
    res = minimize(gs.Deterministic(Counted("bare")), np.ones(4), gs.GFMPlus(DELTA, STEP, m, b, large), max_iter=T)
    q = len(range(0, T, m))
    assert res.nfev - 1 == 2 * (q * large + 2 * b * (T - q))


@thorough
@given(case=gfm() | gfm_plus(), max_evals=st.integers(60, 600))
def test_what_is_left_over_is_less_than_half_a_batch(case, max_evals):
    fun = Counted("Deterministic")
    res = minimize(fun.oracle(), np.ones(3), case.method, max_evals=max_evals, rng=0)
    assert res.status is gs.Status.MAX_EVALS
    assert max_evals - res.nfev < max(case.batches) / 2 + 6  # four are kept in case f fails at the answer


def test_a_bare_callable_is_asked_twice_at_x0_and_that_is_counted():
    fun, wrapped = Counted("bare"), Counted("bare")
    x0 = np.array([0.3, -1.0])
    res = minimize(fun, x0, gs.GFM(DELTA, STEP), max_iter=10, rng=0)
    same = minimize(gs.Deterministic(wrapped), x0, gs.GFM(DELTA, STEP), max_iter=10, rng=0)
    assert (np.array(fun.points[:2]) == x0).all()
    assert res.nfev == same.nfev + 2 == fun.rows
    assert (res.x == same.x).all()


@thorough
@given(
    max_evals=st.integers(1, 400),
    max_iter=st.none() | st.integers(1, 40),
    output=st.sampled_from([None, "random", "average"]),
    M=st.integers(1, 9),
)
def test_gradients_are_counted_apart_and_share_the_budget(max_evals, max_iter, output, M):
    fun, grad = Counted("FiniteSum"), Counted("FiniteSum", vectorized=True)
    oracle = gs.FiniteSum(fun, 13, grad=lambda x, i: np.sign(x - 0.5) * np.isfinite(grad(x, i)))
    limits = {"max_evals": max_evals, "max_iter": max_iter}
    res = minimize(oracle, np.ones(2), gs.O2NC(0.5, M), output=output, rng=0, **limits)
    assert (fun.rows, grad.rows) == (res.nfev, res.ngev)
    assert res.nfev + res.ngev <= max_evals
    assert max_iter is None or res.nit <= max_iter
    assert res.history.nit[-1] == res.nit


def test_gradients_do_not_crowd_the_history():
    oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    res = minimize(oracle, np.ones(2), gs.O2NC(0.5, 10), max_evals=3000, rng=0)
    assert 0.8 * RECORDS <= len(res.history.nit) <= RECORDS + 10


def test_monitor_is_called_at_every_record_and_not_counted():
    fun, monitor = Counted("bare"), Counted("bare")
    res = minimize(fun, np.ones(3), gs.GFM(DELTA, STEP), max_evals=200, monitor=monitor, rng=0)
    assert fun.rows == res.nfev <= 200
    assert monitor.rows == len(res.history.nfev) > 10


class Nosy(Criterion):
    """Asks for `k` values at every record and is never content."""

    message = "never"

    def __init__(self, k: int) -> None:
        self.k, self.asked = k, 0

    def screen(self, fun, lowest, noisy):
        return True

    def confirm(self, x, oracle, rng):
        self.asked += self.k
        yield gs.Query(np.tile(x, (self.k, 1)), None if oracle.sample is None else oracle.sample(rng, self.k))
        return False


@every_method
@settings(thorough, max_examples=15)
@given(data=st.data())
def test_diagnostic_values_are_counted_apart_and_do_not_move_x(name, data):
    case = data.draw(METHODS[name])
    fun, quiet = Counted("FiniteSum"), Counted("FiniteSum")
    nosy = Nosy(data.draw(st.integers(1, 9)))
    closing = 13  # n = 13 components are summed exactly once the run is long enough
    res = minimize(fun.oracle(), np.ones(2), case.method, max_iter=20, stop=nosy, output="last", rng=3)
    without = minimize(quiet.oracle(), np.ones(2), case.method, max_iter=20, output="last", rng=3)
    assert (res.x == without.x).all()
    assert fun.rows == res.nfev
    assert nosy.asked <= res.nfev_diagnostic <= nosy.asked + closing
    assert res.nfev - res.nfev_diagnostic == without.nfev - without.nfev_diagnostic


def test_a_criterion_that_the_budget_cannot_pay_is_not_asked():
    fun = Counted("Deterministic")
    res = minimize(fun.oracle(), np.ones(2), gs.GFM(DELTA, STEP), max_evals=50, stop=Nosy(1000), rng=0)
    assert fun.rows == res.nfev <= 50
    assert res.nfev_diagnostic == 1


@pytest.mark.parametrize("rows_at_once", [1, 7, 1000])
def test_a_final_sum_in_several_parts_is_counted_once(monkeypatch, rows_at_once):
    monkeypatch.setattr("goldstein.run.final_estimate.ROWS_AT_ONCE", rows_at_once)
    fun = Counted("FiniteSum", vectorized=True)
    res = minimize(fun.oracle(), np.ones(2), gs.GFM(DELTA, STEP, 50), max_evals=20_000, rng=0)
    assert fun.rows == res.nfev <= 20_000
    assert res.nfev_diagnostic == 13
    assert res.fun_stderr == 0
    assert res.fun == pytest.approx(np.abs(res.x - 0.5).sum() + np.sin(np.arange(13)).mean(), abs=1e-12)
