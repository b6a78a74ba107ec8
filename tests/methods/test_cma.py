"""CMA-ES in blocks: what it does not depend on, what it learns, and what it sees."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import differential_evolution
from scipy.stats import binom

import goldstein as gs
from goldstein.facts import Facts
from goldstein.methods.cma import MAX_FULL_D, Constants, majority_tie, mean_scores, share_weights, subtract_block_means
from goldstein.methods.initial_sigma import InitialSigma
from goldstein.methods.method import Context

D = 4


def l1(X):
    return np.abs(X - 1).sum(axis=1)


def steps(X):
    return np.abs(np.floor(X) - 7).sum(axis=1)


class Spy:
    """A vectorised function that remembers what it was asked."""

    def __init__(self, fun):
        self.fun = fun
        self.points = []
        self.samples = []

    def __call__(self, X, *samples):
        self.points.append(X.copy())
        self.samples.extend(sample.copy() for sample in samples)
        return self.fun(X, *samples)

    @property
    def every(self):
        return np.concatenate(self.points)


def run(fun, x0, method=None, **keys):
    keys = {"rng": 0, "max_evals": 1500, **keys}
    return gs.minimize(fun, x0, method or gs.BlockCMA(), **keys)


def deterministic(fun):
    return gs.Deterministic(fun, vectorized=True)


@pytest.mark.parametrize("method", [gs.BlockCMA(scale=0.5), gs.BlockCMA(sigma=0.5, scale=0.5)])
def test_moving_the_problem_and_its_start_moves_the_run(method):
    """By a power of two and around 0, so that rounding has little to say: to 1e-9 over 300 evaluations."""
    shift = 64.0
    one = Spy(l1)
    two = Spy(lambda X: l1(X - shift))
    run(deterministic(one), np.zeros(D), method, max_evals=300)
    run(deterministic(two), np.full(D, shift), method, max_evals=300)
    np.testing.assert_allclose(two.every - shift, one.every, atol=1e-9)


@pytest.mark.parametrize("kind", ["deterministic", "seeded", "fresh"])
def test_the_scale_of_the_values_does_not_matter(kind):
    """Powers of two scale without rounding, so the runs agree to the last bit."""

    def answer(scale):
        rng = np.random.default_rng(5)

        def fun(X, seeds=None):
            if kind == "deterministic":
                return scale * l1(X)
            noise = rng.normal(size=len(X)) if seeds is None else np.sin(seeds % 1000)
            return scale * (l1(X) + 0.3 * noise)

        oracles = {"deterministic": gs.Deterministic, "seeded": gs.Seeded, "fresh": gs.Unreplayable}
        return run(oracles[kind](fun, vectorized=True), np.zeros(D)).x

    np.testing.assert_array_equal(answer(2.0**-30), answer(1.0))
    np.testing.assert_array_equal(answer(2.0**40), answer(1.0))


def test_the_scale_of_the_coordinates_does_not_matter_from_a_start_that_has_one():
    x0 = np.array([3.0, -1.0, 2.0, 0.5])
    one = run(deterministic(l1), x0)
    two = run(deterministic(lambda X: l1(X / 1024)), 1024 * x0)
    np.testing.assert_array_equal(two.x, 1024 * one.x)


def test_without_noise_only_the_order_of_the_values_counts():
    """Cubes of different floating-point numbers differ, so that the order survives rounding."""
    one = Spy(l1)
    two = Spy(lambda X: 7 * l1(X) ** 3)
    run(deterministic(one), np.zeros(D))
    run(deterministic(two), np.zeros(D))
    np.testing.assert_array_equal(one.every, two.every)


def test_coordinates_in_x_scale_are_the_run_in_those_coordinates():
    scale = np.array([1.0, 4.0, 0.25, 2.0])
    one = run(deterministic(lambda X: l1(X / scale)), np.zeros(D), x_scale=scale)
    np.testing.assert_array_equal(one.x / scale, run(deterministic(l1), np.zeros(D)).x)


@pytest.mark.parametrize("seed", range(3))
def test_the_covariance_of_a_rotated_ellipsoid_is_learnt(seed):
    """Condition 10⁶ in d = 10: CMA-ES without adaptation would need millions of values."""
    d = 10
    turned = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    axes = 10.0 ** np.linspace(0, 6, d)

    def ellipsoid(X):
        return (axes * ((X - 1) @ turned) ** 2).sum(axis=1)

    res = run(deterministic(ellipsoid), np.zeros(d), max_evals=8000, rng=seed)
    assert res.fun < 1e-12 * ellipsoid(np.zeros((1, d)))[0]
    np.testing.assert_allclose(res.x, 1.0, atol=1e-6)


def test_a_diagonal_is_learnt_in_many_variables():
    d = MAX_FULL_D + 20
    axes = 10.0 ** np.linspace(0, 4, d)

    def ellipsoid(X):
        return (axes * (X - 1) ** 2).sum(axis=1)

    res = run(deterministic(ellipsoid), np.zeros(d), max_evals=400 * d)
    assert res.fun < 1e-6 * ellipsoid(np.zeros((1, d)))[0]


def test_equal_values_share_their_weights():
    weights = Constants(5, 8).weights
    np.testing.assert_allclose(share_weights(weights, np.full(8, 3.0)), 1 / 8)
    mixed = share_weights(weights, np.array([2.0, 1.0, 2.0, 2.0, 9.0, np.inf, np.inf, 8.0]))
    assert mixed[1] == weights[0]
    np.testing.assert_allclose(mixed[[0, 2, 3]], weights[1:4].mean())
    np.testing.assert_allclose(mixed.sum(), 1)
    np.testing.assert_array_equal(share_weights(weights, np.arange(8)[::-1]), weights[::-1])


@pytest.mark.parametrize(("d", "size"), [(1, 4), (2, 6), (10, 10), (10, 300), (60, 16), (80, 17)])
def test_the_weights_are_those_of_the_tutorial(d, size):
    constants = Constants(d, size)
    assert constants.weights.sum() == pytest.approx(1)
    assert (np.diff(constants.weights) <= 0).all()
    assert 0 < constants.c_1 + constants.c_mu <= 1
    decay = 1 - constants.c_1 - constants.c_mu * (1 + constants.negative_weights.sum())
    assert (
        decay >= constants.c_mu * d * -constants.negative_weights.sum() - 1e-12
    )  # C stays positive definite, eq. (52)


def test_a_block_is_compared_with_itself():
    scores = np.array([1e9, 1e9 + 2.0, 5.0, 3.0, np.inf, 4.0])
    residuals = subtract_block_means(scores, np.array([0, 0, 1, 1, 1, 1]))
    np.testing.assert_array_equal(residuals, [-1, 1, 1, -1, np.inf, 0])
    assert (subtract_block_means(np.full(6, 0.1), np.array([0, 0, 0, 1, 1, 1])) == 0).all()


def test_each_block_sees_one_seed_of_its_own():
    spy = Spy(lambda X, seeds: steps(X) + np.sin(seeds % 1000))
    run(gs.Seeded(spy, vectorized=True), np.zeros(D), gs.BlockCMA(sigma=1.0), max_evals=600)
    generations = spy.samples[:-3]  # the last three choose the answer
    assert len(generations) > 20
    met = set()
    for seeds in generations:
        starts = np.flatnonzero(np.diff(seeds, prepend=-1))
        lengths = np.diff(np.append(starts, len(seeds)))
        assert len(set(seeds)) == starts.size >= 2  # blocks are contiguous
        assert lengths.max() - lengths.min() <= 1
        assert not met & set(seeds)
        met |= set(seeds)


def test_the_levels_of_sigma_see_the_same_directions_and_seeds():
    spy = Spy(lambda X, seeds: l1(X) + np.sin(seeds % 1000))
    run(gs.Seeded(spy, vectorized=True), np.zeros(D), max_evals=2000)
    levels = 8
    points = spy.points[0].reshape(levels, 2, -1, D)
    seeds = spy.samples[0].reshape(levels, 2, -1)
    assert (seeds == seeds[0, 0]).all()
    assert len(set(seeds[0, 0])) == seeds.shape[2]
    np.testing.assert_array_equal(points[:, 0], -points[:, 1])
    for level in range(1, levels):
        np.testing.assert_allclose(points[level], 3 * points[level - 1])
    assert np.abs(points).max() < 1 / 3 * 5


@pytest.mark.parametrize("fresh", [False, True])
def test_sigma_goes_up_to_a_minimum_that_is_far_and_not_beyond(fresh):
    """The minimum is 100 units away; nothing is asked ten times as far."""
    noise = np.random.default_rng(1)
    spy = Spy(lambda X: np.abs(X - 50).sum(axis=1) + fresh * noise.normal(size=len(X)))
    oracle = gs.Unreplayable(spy, vectorized=True) if fresh else deterministic(spy)
    res = run(oracle, np.zeros(D), max_evals=3000)
    assert np.abs(res.x - 50).max() < 2
    assert np.linalg.norm(spy.every, axis=1).max() < 10 * np.linalg.norm(np.full(D, 50.0))


def test_the_usual_level_is_taken_in_doubt():
    """Values that do not depend on the point: with probability 0.95 or more each, and 200 pairs decide nothing else."""
    usual = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        context = Context(rng, sample=lambda r, k: r.integers(2**31, size=k), max_evals=2000, facts=Facts(noisy=True))
        levels = InitialSigma.plan(context, 2000)
        query = levels.ask(np.zeros(D), np.ones(D), context)
        sigma = levels.tell(context, query, rng.normal(size=len(query)))
        usual += sigma == levels.default
    # The best of eight levels beats the usual one with probability 7 · 0.025 at most; it goes on with 0.025.
    assert usual >= binom.ppf(1e-6, 200, 1 - 8 * 0.025)


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 13, 77, 211, 997, 1501])
@pytest.mark.parametrize("kind", ["bare", "deterministic", "seeded", "fresh"])
def test_odd_budgets_are_exact(budget, kind):
    calls = []

    def fun(x, seed=0):
        calls.append(x)
        noise = {"seeded": np.sin(seed), "fresh": np.sin(len(calls))}
        return float(l1(x[None])[0] + noise.get(kind, 0.0))

    oracles = {"bare": lambda f: f, "deterministic": gs.Deterministic, "seeded": gs.Seeded, "fresh": gs.Unreplayable}
    oracle = oracles[kind](fun)
    res = run(oracle, np.zeros(D), max_evals=budget)
    assert res.nfev == len(calls) <= budget
    if budget > 100:
        assert len(calls) >= budget - 10  # no more is left than a generation needs and what failures would take


@pytest.mark.parametrize("kind", ["deterministic", "seeded", "fresh"])
@pytest.mark.parametrize("share", [0.001, 0.05, 0.3, 0.9])
def test_a_run_goes_on_bit_for_bit_from_every_phase(kind, share, tmp_path):
    """Stopped by an exception among the levels of σ, while they go up, among generations, and in the averaged third."""

    def fun(x, seed=0):
        made[0] += 1
        if made[0] == limit:
            raise KeyError
        noise = np.sin(seed % 1000) if kind == "seeded" else np.sin(1e6 * x.sum())
        return float(np.abs(np.floor(x) - 30).sum() + (kind != "deterministic") * noise)

    oracle = {"deterministic": gs.Deterministic, "seeded": gs.Seeded, "fresh": gs.Unreplayable}[kind](fun)
    made, limit = [0], -1
    whole = run(oracle, np.zeros(D))
    made, limit = [0], int(share * 1500) + 1
    path = tmp_path / "run.npz"
    with pytest.raises(KeyError):
        run(oracle, np.zeros(D), journal=path)
    made, limit = [0], -1
    rest = run(oracle, np.zeros(D), journal=path, rng=None)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert (rest.fun, rest.nit, rest.message) == (whole.fun, whole.nit, whole.message)


@pytest.mark.parametrize("failed", [np.nan, np.inf, -np.inf])
def test_failures_rank_last_and_never_enter_the_mean(failed):
    """Half of the space fails, the lower half of f among it; −inf is a failure, not a minimum."""
    spy = Spy(lambda X: np.where(X[:, 0] > 0.5, failed, l1(X)))
    res = run(deterministic(spy), np.zeros(D))
    assert res.nfail > 0
    assert np.isfinite(res.fun)
    assert res.x[0] <= 0.5
    np.testing.assert_allclose(res.x[1:], 1, atol=1e-3)


def test_a_generation_of_which_one_point_is_left_moves_to_that_point():
    run_ = gs.BlockCMA(sigma=1.0).start(np.zeros(D), rng=0, max_evals=1000)
    query = run_.ask()
    run_.tell(query, np.ones(1))
    query = run_.ask()
    values = np.full(len(query), np.nan)
    values[3] = 5.0
    points = query.points.copy()
    run_.tell(query, values)
    np.testing.assert_allclose(run_.state.mean, points[3], atol=1e-12)
    before = run_.state.mean
    query = run_.ask()
    run_.tell(query, np.full(len(query), np.nan))
    np.testing.assert_array_equal(run_.state.mean, before)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(data=st.data())
def test_no_query_leaves_the_box(data):
    d = data.draw(st.integers(1, 5))
    ends = st.floats(-1e6, 1e6) | st.sampled_from([-np.inf, np.inf, 0.0])
    lower, upper = [], []
    for _ in range(d):
        low, high = sorted((data.draw(ends), data.draw(ends)))
        lower.append(-1.0 if low == np.inf else low)
        upper.append(1.0 if high == -np.inf else high)
    x0 = np.array(data.draw(st.lists(st.floats(-1e6, 1e6), min_size=d, max_size=d)))
    noise = data.draw(st.booleans())
    rng = np.random.default_rng(0)
    spy = Spy(lambda X: np.abs(X - 3).sum(axis=1) + noise * rng.normal(size=len(X)))
    oracle = gs.Unreplayable(spy, vectorized=True) if noise else deterministic(spy)
    budget = data.draw(st.integers(10, 700))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        res = run(oracle, x0, bounds=list(zip(lower, upper, strict=True)), max_evals=budget)
    assert (spy.every >= lower).all()
    assert (spy.every <= upper).all()
    assert len(spy.every) == res.nfev <= budget


def test_a_minimum_in_a_corner_of_the_box_is_reached():
    res = run(deterministic(lambda X: X.sum(axis=1)), np.full(D, 0.7), bounds=[(0, 1)] * D)
    np.testing.assert_array_equal(res.x, 0)


def test_pure_noise_makes_the_population_grow_and_a_slope_does_not():
    """In 60 other runs of each kind the largest generation had 84 points or more, and 24 or less.

    So a run is on the wrong side of 50 with probability below 0.05 (at a confidence of 95 %), and three runs of five,
    which would move the median, with probability below 2e-3.
    """
    d = 5

    def largest(seed, noise):
        rng = np.random.default_rng(seed)
        spy = Spy(lambda X: rng.normal(size=len(X)) if noise else X.sum(axis=1))
        method = gs.BlockCMA(sigma=0.1)
        run(gs.Unreplayable(spy, vectorized=True), np.zeros(d), method, max_evals=3000, rng=seed)
        return max(map(len, spy.points[:-3]))

    assert np.median([largest(seed, noise=True) for seed in range(5)]) > 50
    assert np.median([largest(seed, noise=False) for seed in range(5)]) < 50


def test_the_halves_of_a_generation_have_nothing_in_common_under_noise():
    """Mean agreement over 2,000 generations of pure noise: 0 within 4.5 standard errors (probability 7e-6)."""
    d, size = 5, 16
    rng = np.random.default_rng(3)
    weights = Constants(d, size).weights
    products = []
    for _ in range(2000):
        z = rng.normal(size=(size, d))
        w = share_weights(weights, rng.normal(size=size))
        products.append((2 * w[::2] @ z[::2]) @ (2 * w[1::2] @ z[1::2]))
    products = np.array(products)
    assert abs(products.mean()) < 4.5 * products.std() / np.sqrt(products.size)


@pytest.mark.parametrize(("setting", "bad"), [("sigma", 0), ("sigma", "1"), ("population", 3), ("scale", -1.0)])
def test_bad_settings_are_refused(setting, bad):
    with pytest.raises((TypeError, ValueError), match=f"^{setting} must be"):
        gs.BlockCMA(**{setting: bad})


def test_a_population_that_was_given_is_kept():
    spy = Spy(l1)
    run(deterministic(spy), np.zeros(D), gs.BlockCMA(sigma=0.5, population=11), max_evals=500)
    assert {len(points) for points in spy.points[1:-4]} == {11}


@pytest.mark.parametrize("bare", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_staircase_is_climbed(bare, seed):
    """From 28 to 2 at most: 0 on all of 30 other seeds."""
    oracle = (lambda x: float(steps(x[None])[0])) if bare else deterministic(steps)
    res = run(oracle, np.zeros(4), max_evals=5000, rng=seed)
    assert res.fun <= 2


def test_fresh_noise_of_a_tenth_of_the_gap_leaves_little():
    """‖x − 1‖₁ + 0.4·N(0, 1), d = 10, 4,000 values: at most 6 % left (30 other seeds: median 1.6 %, worst 3.7 %)."""
    rng = np.random.default_rng(8)
    oracle = gs.Unreplayable(lambda X: l1(X) + 0.4 * rng.normal(size=len(X)), vectorized=True)
    res = run(oracle, np.zeros(10), max_evals=4000)
    assert l1(res.x[None])[0] < 0.06 * 10


PERIODS = 100


def inventory(x, seed):
    """Mean cost of a period under an (s, S) rule with Poisson demand: orders, units, storage and shortage."""
    demand = np.random.default_rng(int(seed)).poisson(25, PERIODS)
    reorder, full = min(x), max(x)
    stock = full
    cost = 0.0
    for sold in demand:
        if stock < reorder:
            cost += 100 + 2 * (full - stock)
            stock = full
        stock -= sold
        cost += stock if stock > 0 else -9 * stock
    return cost / PERIODS


def test_an_inventory_is_run_as_well_as_by_differential_evolution():
    """At equal numbers of simulations, within 1 %, judged on 200 common seeds that neither has seen."""
    bounds = [(0, 300)] * 2
    seeds = np.random.default_rng(5)
    other = differential_evolution(
        lambda x: inventory(x, seeds.integers(2**31)), bounds, maxiter=65, popsize=15, polish=False, tol=0, rng=5
    )
    assert other.nfev <= 2000
    res = run(gs.Seeded(inventory), np.array([10.0, 20.0]), bounds=bounds, max_evals=2000, rng=5)

    def judged(x):
        return np.mean([inventory(x, seed) for seed in range(10**6, 10**6 + 200)])

    assert judged(res.x) <= 1.01 * judged(other.x)


def test_noise_that_a_block_shares_does_not_disturb():
    """An additive noise a hundred times the gap; blocks that were not centred would rank nothing but seeds."""

    def fun(X, seeds):
        return steps(X) + 3000 * np.sin(seeds % 1000)

    res = run(gs.Seeded(fun, vectorized=True), np.zeros(D), max_evals=4000)
    assert steps(res.x[None])[0] <= 2


def test_a_run_that_has_arrived_goes_on_quietly():
    """Points that rounding puts on the mean have no direction; a warning is an error here."""
    res = run(deterministic(l1), np.zeros(10), max_evals=10_000)
    assert res.fun < 1e-12


def test_a_score_of_most_points_is_the_background():
    np.testing.assert_array_equal(majority_tie(np.array([0.0, 0.0, 1.0, 0.0, -1.0])), [True, True, False, True, False])
    assert majority_tie(np.array([0.0, 0.0, 1.0, 2.0])) is None
    assert majority_tie(np.array([np.inf, np.inf, np.inf, 2.0])) is None


def test_a_point_that_failed_for_most_seeds_has_failed():
    turns = [np.array([1.0, np.inf, 3.0]), np.array([3.0, np.inf, np.inf]), np.array([2.0, 5.0, 5.0])]
    np.testing.assert_array_equal(mean_scores(turns), [2.0, np.inf, 4.0])


@pytest.mark.parametrize("seed", range(3))
def test_zeros_and_ones_from_seeds_are_minimised(seed):
    """The chance of a 1 is 0.88 at the start and 0.018 at best; without several seeds for a block it stayed 0.88.

    In 48 other runs one stayed there and the others ended below 0.04: a failure has a probability of about 2 % for a
    seed that had no part in it; these three are fixed.
    """

    def chance(x):
        return 1 / (1 + np.exp(4 - np.abs(x - 1).sum()))

    def fun(x, xi):
        return float(np.random.default_rng(xi).random() < chance(x))

    res = gs.minimize(gs.Seeded(fun), np.zeros(6), max_evals=10_000, rng=seed)
    assert '"jumps"' in res.message
    assert chance(res.x) < 0.2


@pytest.mark.parametrize("replayed", [False, True])
def test_noise_without_any_difference_moves_nothing(replayed):
    sample = (lambda rng, k: rng.integers(2**31, size=k)) if replayed else None
    context = Context(np.random.default_rng(0), sample=sample, max_evals=1000, facts=Facts(noisy=True))
    method = gs.BlockCMA(sigma=1.0)
    state = method.init(np.zeros(D), context)
    for _ in range(20):
        query = method.ask(state, context, None)
        method.tell(state, context, query, np.full(len(query), 3.0))
    np.testing.assert_array_equal(state.mean, 0)


@pytest.mark.parametrize("seed", range(3))
def test_a_start_that_fails_is_left(seed):
    def fun(x):
        return float(np.abs(x - 1).sum()) if np.linalg.norm(x) > 0.1 else np.nan

    res = gs.minimize(fun, np.zeros(D), max_evals=3000, rng=seed)
    assert res.fun < 1e-3


@pytest.mark.parametrize("factor", [1e150, 1e200, 1e307, -1e307])
@pytest.mark.parametrize("kind", [gs.Deterministic, gs.Seeded, gs.Unreplayable])
@pytest.mark.parametrize("method", ["cma", "auto"])
def test_values_near_the_largest_float_are_values(method, kind, factor):
    """No overflow, and no warning of NumPy, which is an error here."""
    noise = np.random.default_rng(1)

    def f(x, seed=None):
        value = min(np.abs(np.floor(x)).sum() / D, 8.0)
        if kind is gs.Deterministic:
            return factor * value
        return factor * (value + 0.1 * (noise.normal() if seed is None else np.random.default_rng(seed).normal()))

    fun = {gs.Seeded: lambda x, seed: f(x, seed)}.get(kind, lambda x: f(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        res = gs.minimize(kind(fun), np.full(D, 3.5), method, max_evals=1000, rng=0)
    assert res.nfev <= 1000


def test_the_message_gives_the_spread_of_the_points_in_their_own_units():
    res = gs.minimize(gs.Deterministic(lambda x: np.abs(x).sum()), np.full(D, 200.0), "cma", max_evals=2000, rng=0)
    assert "of |x0|" not in res.message
    assert re.search(
        r"CMA-ES: \d+ generations, the last of about \d+ points, standard deviation [\d.e-]+\.", res.message
    )
