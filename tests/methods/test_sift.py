"""Sifting: the walk and its bisection, and the method built on it."""

import warnings
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

import goldstein as gs
from goldstein.compiled.sift import random_order
from goldstein.estimate import sift
from goldstein.methods.method import Unsupported
from goldstein.methods.sift import SiftState
from goldstein.problems import ridge
from goldstein.run.snapshot import read_snapshot
from goldstein.testing import check_method
from studies.problems import capped_ridge, l1


def units(rng, k, d):
    """Draw the steps of k walks."""
    return sift.draw_units(rng, k, d)[0]


def sifted(F, walk, **settings):
    """Sift to the end; F takes points and the number of the walk of each. Return the bisection and the values asked."""
    bisection = sift.Sift.of(walk, np.arange(len(walk.top)), **settings)
    asked = 0
    while not bisection.over:
        query = bisection.query()
        asked += len(query)
        bisection.tell(np.asarray(F(query.points, query.samples), float))
    assert asked == bisection.n_values.sum()
    return bisection


def slowly(F, y, top):
    """The walk and its bisection once more, in plain Python: depth first, one value at a time."""
    known = {}

    def v(k):
        if k not in known:
            known[k] = float(F(np.array([[top[j] if j < k else y[j] for j in range(len(y))]]))[0])
        return known[k]

    g = [0.0] * len(y)

    def split(low, high):
        difference = v(high) - v(low)
        if abs(difference) <= 1e-14 * abs(v(0)):
            return
        if high - low == 1:
            g[low] = difference / (top[low] - y[low])
            return
        split(low, (low + high) // 2)
        split((low + high) // 2, high)

    split(0, len(y))
    return g, len(known)


def bound(d, s):
    """Values that s coordinates of d take at most, and 2 without any."""
    return min(d + 1, 2 + sum(min(2**level, s) for level in range(ceil(log2(d)))))


@st.composite
def components(draw):
    """Piecewise linear components max(c, a·x) + b·x of a few coordinates, as (slopes, slopes, offsets, point, seed)."""
    d = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    k = draw(st.integers(1, 5))
    sparse = rng.random((k, d)) < draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    a = np.where(sparse, rng.normal(size=(k, d)), 0.0)
    b = np.where(sparse & (rng.random((k, 1)) < 0.5), rng.normal(size=(k, d)), 0.0)
    return a, b, rng.normal(size=k), rng.normal(size=d), rng


@settings(max_examples=100, deadline=None)
@given(components())
def test_the_bisection_of_a_batch_is_the_walk_done_slowly_to_the_last_bit(case):
    a, b, c, x, rng = case
    k, d = a.shape
    walk = sift.walk(x[None], units(rng, k, d), 1e-4)

    def F(X, i):  # sums one after the other, so that a batch and a single row round alike
        return np.maximum(np.add.accumulate(a[i] * X, axis=1)[:, -1], c[i]) + np.add.accumulate(b[i] * X, axis=1)[:, -1]

    found = sifted(F, walk)
    for i in range(k):
        g, asked = slowly(lambda X, i=i: F(X, np.array([i])), x, walk.top[i])
        np.testing.assert_array_equal(found.gradients()[i], g)
        assert found.n_values[i] == asked


@settings(max_examples=100, deadline=None)
@given(components())
def test_cost_and_exactness_on_linear_pieces(case):
    a, b, _, x, rng = case
    k, d = a.shape
    on = rng.random(k) < 0.5
    away = np.where(on, -10.0, 10.0)  # so far from the kink that the walk stays on one side

    def F(X, i):
        return np.maximum((a[i] * (X - x)).sum(axis=1), away[i]) + (b[i] * X).sum(axis=1)

    truth = np.where(on[:, None], a, 0.0) + b
    found = sifted(F, sift.walk(x[None], units(rng, k, d), 1e-3))
    np.testing.assert_allclose(found.gradients(), truth, atol=1e-9)
    for i in range(k):
        active = int((truth[i] != 0).sum())
        assert found.n_values[i] <= bound(d, active) <= d + 1
        if not active:
            assert found.n_values[i] == 2


@pytest.mark.parametrize("s", [1, 2, 4, 8, 32])
def test_the_sparse_bound_is_attained(s):
    d = 32
    a = np.zeros(d)
    a[:: d // s] = 1.0
    found = sifted(lambda X, i: X @ a, sift.walk(np.zeros((1, d)), np.ones((1, d)), 1.0))
    assert found.n_values[0] == bound(d, s)


def test_a_level_that_is_too_large_for_a_query_comes_in_parts(monkeypatch):
    a = np.random.default_rng(0).normal(size=(3, 50))
    walk = sift.walk(np.ones((1, 50)), units(np.random.default_rng(1), 3, 50), 1e-3)

    def F(X, i):
        return np.add.accumulate(a[i] * X, axis=1)[:, -1]

    whole = sifted(F, walk)
    monkeypatch.setattr(sift, "AT_ONCE", 200)
    bisection = sift.Sift.of(walk, np.arange(3))
    assert len(bisection.query()) == 4
    np.testing.assert_array_equal(sifted(F, walk).g, whole.g)


def test_a_tolerance_closes_intervals_and_the_random_signs_keep_the_mean():
    """A dense term of slope 1e-3 beside a slope of 1: the term costs little and is right on average.

    Its 63 coordinates are each within 4 standard errors of 1e-3, but with probability 63 · 6e-5 = 0.4 %.
    """
    d, k, h = 64, 4000, 1e-3
    rng = np.random.default_rng(0)
    a = np.full(d, 1e-3)
    a[17] = 1.0
    walk = sift.walk(np.zeros((1, d)), units(rng, k, d), h)
    closed = sifted(lambda X, i: X @ a, walk, tolerance=0.1 * h)
    assert closed.n_values.mean() < 12
    assert sifted(lambda X, i: X @ a, walk).n_values.mean() == d + 1
    g = closed.gradients()
    np.testing.assert_allclose(g[:, 17], 1.0, atol=1e-9)
    others = np.delete(np.arange(d), 17)
    error = g.std(axis=0) / np.sqrt(k)
    assert (np.abs(g.mean(axis=0) - a)[others] < 4 * error[others] + 1e-9).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 30), st.integers(2, 12), st.integers(0, 1000))
def test_a_cap_is_kept_and_what_is_left_keeps_the_random_sign_estimate(d, cap, seed):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(4, d))
    walk = sift.walk(np.zeros((1, d)), units(rng, 4, d), 1.0)
    found = sifted(lambda X, i: (a[i] * X).sum(axis=1), walk, max_evals_per_sample=cap)
    assert (found.n_values <= cap).all()
    assert (found.n_values == min(cap, d + 1)).all()
    differences = (found.g * found.steps).round(9)
    for i in range(4):
        total = (a[i] * found.steps[i]).sum()
        seen = differences[i]
        edges = np.flatnonzero(np.diff(seen) != 0)  # an interval has one difference
        assert seen[np.concatenate([[0], edges + 1])].sum() == pytest.approx(total, abs=1e-6)


def test_the_interval_that_differs_most_is_opened_first():
    a = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 50.0])
    found = sifted(lambda X, i: X @ a, sift.walk(np.zeros((1, 8)), np.ones((1, 8)), 1.0), max_evals_per_sample=4)
    np.testing.assert_array_equal(found.gradients()[0], [1, 1, 1, 1, 0, 0, 50, 50])


def test_a_failed_value_ends_its_walk_and_no_other():
    a = np.ones((3, 16))
    walk = sift.walk(np.zeros((1, 16)), np.ones((3, 16)), 1.0)

    def F(X, i):
        values = (a[i] * X).sum(axis=1)
        return np.where((i == 1) & (values == 8), np.nan, values)

    found = sifted(F, walk)
    np.testing.assert_array_equal(found.failed, [False, True, False])
    np.testing.assert_array_equal(found.n_values, [17, 3, 17])
    np.testing.assert_array_equal(found.gradients()[[0, 2]], a[[0, 2]])
    ends = sifted(lambda X, i: np.full(len(X), np.inf), walk)
    assert ends.failed.all()
    assert (ends.n_values == 2).all()


def test_values_that_are_equal_to_rounding_are_equal():
    walk = sift.walk(np.zeros((1, 4)), np.ones((1, 4)), 1.0)
    assert sifted(lambda X, i: 1e3 + 1e-12 * X.sum(axis=1), walk).n_values[0] == 2
    assert sifted(lambda X, i: 1e3 + 1e-9 * X.sum(axis=1), walk).n_values[0] == 5
    assert sifted(lambda X, i: 1e3 + 1e-9 * X.sum(axis=1), walk, roundoff=2.0**-24).n_values[0] == 2


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 12), st.integers(0, 10_000), st.sampled_from([1e-6, 0.1, 3.0]))
def test_a_walk_stays_in_its_box_and_what_it_could_not_choose_is_opened(d, seed, length):
    rng = np.random.default_rng(seed)
    lower = rng.normal(size=d)
    upper = lower + np.where(rng.random(d) < 0.2, 0.0, rng.exponential(size=d))
    at = rng.choice([0.0, 1.0, 0.5], size=d)
    y = np.clip(lower + at * (upper - lower), lower, upper)
    walk = sift.walk(y[None], units(rng, 3, d), length, (lower, upper))
    free = lower < upper
    np.testing.assert_array_equal(walk.coordinates, np.flatnonzero(free))
    assert (walk.top >= lower).all()
    assert (walk.top <= upper).all()
    assert (walk.top[:, free] != y[free]).all()
    a = rng.normal(size=d)
    seen = []

    def F(X, i):
        seen.append(X)
        return X @ a

    found = sifted(F, walk, tolerance=1e9)
    points = np.concatenate(seen)
    assert (points >= lower).all()
    assert (points <= upper).all()
    size = np.abs(length * 1.5)
    both = free & (y - size >= lower) & (y + size <= upper)  # had a choice of the sign, whatever the length of the step
    corner = free & ((y == lower) | (y == upper))
    if not both.any():
        np.testing.assert_allclose(found.gradients()[:, corner], np.tile(a, (3, 1))[:, corner], rtol=1e-6, atol=1e-6)
    assert not found.gradients()[:, ~free].any()


def test_a_step_that_would_be_lost_in_rounding_is_made_longer():
    y = np.array([[1e20, 1.0, -1e300]])
    walk = sift.walk(y, units(np.random.default_rng(0), 50, 3), 1e-10)
    assert (walk.top != y).all()


@pytest.mark.parametrize("problem", [l1(3), capped_ridge(4), ridge(4, [1, 2, 0, 0])], ids=lambda problem: problem.name)
def test_with_rho_the_estimate_is_that_of_the_smoothed_gradient(problem):
    """Coordinates within 4 standard errors and the bias of h: it fails by chance with probability 4 · 6e-5 at most.

    The second moment is at most L², which no single ‖g‖² exceeds by more than rounding.
    """
    rho, k = 0.4, 20_000
    d = problem.x0.size
    rng = np.random.default_rng(7)
    x = problem.x0 + rng.normal(scale=0.2, size=d)
    y = x + rho * gs.smoothing.ball(rng, k, d)
    found = sifted(lambda X, i: problem.oracle.fun(X), sift.walk(y, units(rng, k, d), 1e-7))
    g = found.gradients()
    truth = problem.smoothed_gradient(x, rho)
    error = g.std(axis=0) / np.sqrt(k)
    assert (np.abs(g.mean(axis=0) - truth) <= 4 * error + 1e-6).all()
    assert (g**2).sum(axis=1).mean() <= problem.lipschitz**2 * (1 + 1e-6)


def test_the_tolerance_of_the_method_adds_little_to_the_second_moment():
    """With the default tolerance dense components of d = 400 equal slopes keep E‖g‖² ≤ 1.1·L²."""
    d, k, h = 400, 50, 1e-3
    a = np.ones(d)
    a[1:] *= 1e-3
    scale = np.linalg.norm(a)
    rng = np.random.default_rng(0)
    tolerance = gs.Sift(1.0)._tolerance(d) * h * scale
    found = sifted(lambda X, i: X @ a, sift.walk(np.zeros((1, d)), units(rng, k, d), h), tolerance=tolerance)
    assert (found.n_values < d).all()
    assert (found.gradients() ** 2).sum(axis=1).mean() <= 1.1 * scale**2


X0 = np.array([1.0, -0.5, 0.25, 2.0, 1.5])
CENTRES = np.random.default_rng(3).normal(scale=0.1, size=(20, X0.size))


class Counted:
    """Σ_j |x_j − c_ij| over half of the coordinates; counts its calls, keeps its points, and may stop the program."""

    def __init__(self, breaks_at=np.inf, fails=False):
        self.calls = 0
        self.points = []
        self.breaks_at = breaks_at
        self.fails = fails

    def __call__(self, X, i):
        self.points.append(X.copy())
        self.calls += len(X)
        if self.calls > self.breaks_at:
            raise KeyboardInterrupt
        used = (np.arange(X0.size) + i[:, None]) % 2 == 0
        values = np.where(used, np.abs(X - CENTRES[i]), 0.0).sum(axis=1)
        return np.where((i % 5 == 0) & (X[:, 1] > -0.4), np.nan, values) if self.fails else values

    @property
    def oracle(self):
        return gs.FiniteSum(self, len(CENTRES), vectorized=True)


def value(x):
    return Counted()(np.tile(x, (len(CENTRES), 1)), np.arange(len(CENTRES))).mean()


@pytest.mark.parametrize(
    "method",
    [gs.Sift(0.5), gs.Sift(0.5, batch_size=7, rho=0.01), gs.Sift(0.5, decay=0.0, max_evals_per_sample=3)],
    ids=repr,
)
def test_conformance(method):
    check_method(method)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("batch", [1, 6])
def test_every_budget_is_kept_to_the_last_value(batch, fails):
    for budget in [*range(1, 90), 333]:
        function = Counted(fails=fails)
        res = gs.minimize(function.oracle, X0, gs.Sift(0.5, batch_size=batch), max_evals=budget, rng=budget)
        assert function.calls == res.nfev <= budget
        assert np.isfinite(res.x).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 400), st.integers(1, 30), st.sampled_from([None, 2, 3, 5]), st.booleans(), st.integers(0, 99))
def test_calls_are_counted_and_bounded_whatever_the_settings(budget, batch, cap, bounded, seed):
    function = Counted(fails=seed % 2 == 0)
    method = gs.Sift(0.5, batch_size=batch, max_evals_per_sample=cap, rho=0.05 * (seed % 3))
    bounds = [(-1.0, 2.0)] * 4 + [(1.5, 1.5)] if bounded else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        res = gs.minimize(function.oracle, X0, method, max_evals=budget, bounds=bounds, rng=seed)
    assert function.calls == res.nfev <= budget
    if bounded and not method.rho:
        points = np.concatenate(function.points)
        assert (points >= [-1, -1, -1, -1, 1.5]).all()
        assert (points <= [2, 2, 2, 2, 1.5]).all()


def test_a_start_in_the_corner_of_the_box_is_an_ordinary_start():
    function = Counted()
    res = gs.minimize(function.oracle, np.full(5, -3.0), gs.Sift(0.5), max_evals=4000, bounds=[(-3, 0.5)] * 5, rng=0)
    assert value(res.x) < 0.5
    points = np.concatenate(function.points)
    assert points.min() == -3.0
    assert points.max() <= 0.5


def test_a_point_without_free_coordinates_ends_the_run():
    res = gs.minimize(Counted().oracle, X0, gs.Sift(0.5), max_evals=100, bounds=[(v, v) for v in X0], rng=0)
    np.testing.assert_array_equal(res.x, X0)
    assert res.nit == 0


def test_queries_that_must_leave_a_set_are_said_to():
    function = Counted()
    ball = gs.projection.L2Ball(np.zeros(5), 1.0)
    res = gs.minimize(function.oracle, X0, gs.Sift(0.5), max_evals=500, projection=ball, rng=0)
    assert max(np.linalg.norm(points, axis=1).max() for points in function.points) <= 1 + 1e-12
    assert "leave" not in res.message
    simplex = gs.projection.Simplex()
    res = gs.minimize(Counted().oracle, X0, gs.Sift(0.5), max_evals=500, projection=simplex, rng=0)
    assert "Queries may leave the allowed set" in res.message


def test_scaled_coordinates_make_the_same_run():
    """Powers of two, so that scaling does not round."""
    scale = np.array([0.25, 8.0, 2.0, 0.5, 1.0])
    plain = gs.minimize(Counted().oracle, X0, gs.Sift(0.5), max_evals=600, rng=1)
    oracle = gs.FiniteSum(lambda X, i: Counted()(X / scale, i), len(CENTRES), vectorized=True)
    scaled = gs.minimize(oracle, X0 * scale, gs.Sift(0.5), x_scale=scale, max_evals=600, rng=1)
    np.testing.assert_array_equal(scaled.x / scale, plain.x)


def component(x, i):
    return float(np.abs(x - CENTRES[i]).sum())


def test_workers_make_the_same_run():
    oracle = gs.FiniteSum(component, len(CENTRES))
    alone = gs.minimize(oracle, X0, gs.Sift(0.5, batch_size=4), max_evals=400, rng=2)
    helped = gs.minimize(oracle, X0, gs.Sift(0.5, batch_size=4), max_evals=400, rng=2, workers=2)
    np.testing.assert_array_equal(alone.x, helped.x)
    assert alone.nfev == helped.nfev


@pytest.mark.parametrize("batch", [1, 4])
def test_a_run_that_was_broken_off_inside_a_bisection_goes_on_bit_for_bit(batch, tmp_path):
    method = gs.Sift(0.5, batch_size=batch)
    whole = gs.minimize(Counted().oracle, X0, method, max_evals=500, rng=4)
    inside = 0
    for breaks_at in range(40, 80, 3):
        path = tmp_path / str(breaks_at)
        journal = gs.Journal(path, snapshots=0)
        part = gs.minimize(Counted(breaks_at).oracle, X0, method, max_evals=500, rng=4, journal=journal)
        assert part.status is gs.Status.INTERRUPTED
        state = read_snapshot(journal.snapshot_path).state
        assert isinstance(state, SiftState)
        inside += state.bisection is not None
        rest = gs.minimize(Counted().oracle, X0, method, max_evals=500, journal=path)
        np.testing.assert_array_equal(rest.x, whole.x)
        assert (rest.fun, rest.nfev, rest.nit) == (whole.fun, whole.nfev, whole.nit)
    assert inside >= 5


def test_a_finite_sum_is_sampled_without_replacement():
    run = gs.Sift(0.5, batch_size=6).start(X0, rng=0, n=20, max_evals=10_000)
    function = Counted()
    drawn = []
    while len(drawn) < 60:
        query = run.ask()
        before = run.nit
        if run.state.bisection is None:
            drawn += list(query.samples[:6])
        run.tell(query, function(query.points, query.samples))
        assert run.nit - before in (0, 1)
    for start in (0, 20, 40):
        assert sorted(drawn[start : start + 20]) == list(range(20))


def test_levels_are_parts_of_an_iteration():
    run = gs.Sift(0.5).start(X0, rng=0, max_evals=1000)
    completed = []
    for _ in range(4):
        query = run.ask()
        assert query.samples is None
        completed.append(run.tell(query, np.abs(query.points).sum(axis=1)).completed)
    assert completed == [0, 0, 0, 1]  # 2 ends, then 1, 2 and 1 values for five coordinates
    assert run.nfev == 6


def test_steps_of_flat_components_are_used_again():
    run = gs.Sift(0.5, batch_size=2).start(X0, rng=0, n=9, max_evals=1000)
    first = run.ask()
    run.tell(first, np.array([1.0, 1.0, 1.0, 2.0]))  # the first is flat, the second is not
    kept = run.state.units.copy()
    while run.state.bisection is not None:
        query = run.ask()
        run.tell(query, np.full(len(query), 1.0))
    second = run.ask()
    assert run.nit == 1
    length = (second.points[2] - second.points[0]) / kept[0]
    np.testing.assert_allclose(length, length[0], rtol=1e-6)
    assert not np.allclose((second.points[3] - second.points[1]) / kept[1], length[0], rtol=1e-2)


def test_steps_grow_with_the_rounding_errors_of_the_values():
    """In single precision 1e-5·R is lost in |F| = 1,000, which the run notices by itself."""

    def single(X):
        return (np.float32(1000.0) + np.abs(X - 3).sum(axis=1)).astype(np.float32)

    lengths = {}
    for name, fun in (("single", single), ("double", lambda X: 1000.0 + np.abs(X - 3).sum(axis=1))):
        run = gs.Sift(1.0, fd_step=None).start(np.zeros(4), rng=0, max_evals=2000)
        for _ in range(300):
            query = run.ask()
            run.tell(query, fun(query.points).astype(float))
        lengths[name] = run.method._fd_step(run.state, run.context)
    assert lengths["double"] == 1e-5
    assert lengths["single"] == pytest.approx(0.1) or lengths["single"] > 1e-3


def test_differences_that_drown_in_rounding_are_warned_of():
    oracle = gs.FiniteSum(lambda X, i: 1e14 + np.abs(X).sum(axis=1), 5, vectorized=True)
    with pytest.warns(RuntimeWarning, match="Rounding errors of F"):
        gs.minimize(oracle, X0, gs.Sift(1.0, fd_step=0.1), max_evals=600, rng=0)


@pytest.mark.parametrize("unit", [1e-170, 1e-300, 1e140, 1e160])
def test_slopes_without_squares_do_not_throw_x_away(unit):
    oracle = gs.FiniteSum(lambda X, i: unit * np.abs(X).sum(axis=1), 5, vectorized=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        res = gs.minimize(oracle, X0, gs.Sift(0.5), max_evals=600, rng=0)
    assert np.isfinite(res.x).all()
    assert np.abs(res.x).sum() <= np.abs(X0).sum()


def test_it_goes_down_on_a_function_without_noise():
    res = gs.minimize(lambda x: abs(x - 1).sum(), X0, "sift", max_evals=3000, rng=0)
    assert res.fun < 0.2 * abs(X0 - 1).sum()
    assert f"probe evaluations: {res.method!r}" in res.message


def test_noise_that_cannot_be_replayed_is_refused():
    with pytest.raises(ValueError, match="sift evaluates the same ξ at several points"):
        gs.minimize(gs.Unreplayable(lambda x: 0.0), X0, gs.Sift(1.0), max_evals=100)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ({"radius": 0}, "radius must be a positive number"),
        ({"radius": 1, "fd_step": -1}, "fd_step must be a positive number or None"),
        ({"radius": 1, "batch_size": 0}, "batch_size must be"),
        ({"radius": 1, "decay": -1}, "decay must be"),
        ({"radius": 1, "tolerance": -1}, "tolerance must be"),
        ({"radius": 1, "rho": -1}, "rho must be"),
        ({"radius": 1, "max_evals_per_sample": 1}, "max_evals_per_sample must be"),
    ],
)
def test_bad_settings_are_refused(bad, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        gs.Sift(**bad)


def test_steps_that_are_planned_for_a_budget_need_one():
    with pytest.raises(ValueError, match="max_evals or max_iter, or decay=0"):
        gs.Sift(1.0).start(X0)
    gs.Sift(1.0, decay=0).start(X0)


@njit
def jitted(x, i, a, calls, edge, single):
    calls[0] += 1
    total = 0.0
    for j in range(x.size):
        total += a[i, j] * (x[j] - 1)
    if i % 7 == 0 and x[0] > edge:
        return np.nan
    return np.float64(np.float32(1 + abs(total))) if single else max(abs(total), 0.3)


@njit
def jitted_exact(x, a, calls, edge, single):
    return jitted(x, 1, a, calls, edge, single)


@pytest.mark.parametrize("exact", [False, True], ids=["sum", "exact"])
@pytest.mark.parametrize(("edge", "single"), [(np.inf, False), (0.2, False), (np.inf, True)])
@pytest.mark.parametrize(
    "method",
    [
        gs.Sift(0.5),
        gs.Sift(0.01, growth=2.0),
        gs.Sift(0.5, batch_size=4, tolerance=0.3),
        gs.Sift(0.5, batch_size=7, max_evals_per_sample=4, decay=0.0),
    ],
    ids=repr,
)
def test_machine_code_makes_the_same_run_to_the_last_bit(method, edge, single, exact):
    n, d = 30, 9
    rng = np.random.default_rng(0)
    a = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0.0)
    for budget in (7, 100, 1234):
        runs = []
        for compiled in (True, False):
            calls = np.zeros(1, np.int64)
            args = (a, calls, edge, single)
            oracle = gs.Deterministic(jitted_exact, args) if exact else gs.FiniteSum(jitted, n, args)
            res = gs.minimize(oracle, np.zeros(d), method, max_evals=budget, rng=budget, compiled=compiled)
            assert calls[0] == res.nfev <= budget
            runs.append(res)
        fast, plain = runs
        np.testing.assert_array_equal(fast.x, plain.x)
        assert (fast.nfev, fast.nit, fast.nfail) == (plain.nfev, plain.nit, plain.nfail)


def test_a_smoothing_radius_has_no_machine_code():
    oracle = gs.FiniteSum(jitted, 3, (np.ones((3, 5)), np.zeros(1, np.int64), np.inf, False))
    with pytest.raises(Unsupported, match=r"The compiled loop of sift walks from x itself, with rho = 0."):
        gs.Sift(0.5, rho=0.1).kernel(oracle)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000, 30_000])
def test_the_random_order_of_the_loop_is_the_stable_one_of_the_plain_path(n):
    for seed in range(5):
        order = np.empty(n, np.int64)
        random_order(np.random.default_rng(seed), order)
        np.testing.assert_array_equal(order, np.argsort(np.random.default_rng(seed).random(n), kind="stable"))
