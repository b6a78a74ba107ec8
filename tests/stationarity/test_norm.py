"""Bounds on dist(0, ∂_δ f(x)): U is unbiased, its intervals cover, hulls are exact, noise is not mistaken for slope.

Randomised claims run on fixed seeds. "Error probability" is the chance, over seeds, that correct code would fail.
"""

import itertools
import re

import numpy as np
import pytest
from scipy.stats import binom, t

import goldstein as gs
from goldstein.facts import Facts
from goldstein.oracle import Query
from goldstein.stationarity import Stationary, draws, hull, min_norm_hull, norm, smoothed_gradient_norm, value_gap_bound
from studies import problems

DELTA = 0.5
ERROR = 1e-4  # error probability of one randomised check; about 50 of them: below 1 % for the file


def tilted(X, xi, e):
    """F(x; ξ) = |e·x| + ξ·x, with mean |e·x| for ξ of mean 0."""
    return np.abs(X @ e) + np.einsum("kd,kd->k", X, xi)


def tilted_grad(X, xi, e):
    return np.sign(X @ e)[:, None] * e + xi


def ridge_oracle(kind, d):
    """|e·x| as the kinds of oracle and options that estimate the same smoothed gradient."""
    problem = problems.ridge(d)
    if kind == "noise":
        sample = lambda rng, k: rng.standard_normal((k, d))  # noqa: E731
        oracle = gs.Expectation(tilted, sample, args=(problem.x0,), vectorized=True, grad=tilted_grad)
        return problem, oracle, {}
    options = {"gradients": {"use": "gradients"}, "orthogonal": {"directions": "orthogonal"}}.get(kind, {})
    return problem, problem.oracle, options


class Watched(gs.Deterministic):
    """A deterministic oracle that keeps its queries."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.queries = []

    def evaluate(self, query, catch=(), counter=None):
        self.queries.append(query)
        return super().evaluate(query, catch, counter)


def never(*args):
    raise AssertionError("evaluated before the arguments were checked")


@pytest.mark.parametrize("kind", ["values", "noise", "gradients", "orthogonal"])
@pytest.mark.parametrize("distance", [0.0, 0.2])
def test_squared_norm_is_unbiased_where_the_plug_in_is_not(kind, distance):
    """Error probability 1e-4, by a t-test over 600 repetitions of n = 20."""
    problem, oracle, options = ridge_oracle(kind, 5)
    x, rng = distance * DELTA * problem.x0, np.random.default_rng(1)
    truth = float(np.sum(problem.smoothed_gradient(x, DELTA) ** 2))
    results = [smoothed_gradient_norm(oracle, x, DELTA, 20, rng=rng, **options) for _ in range(600)]
    errors = np.array([r.squared for r in results]) - truth
    allowed = t.ppf(1 - ERROR / 2, 599) * errors.std(ddof=1) / np.sqrt(600) + 1e-12
    assert abs(errors.mean()) <= allowed
    if kind == "noise":  # ‖mean‖² − U is tr(Σ)/n and far outside
        assert 5 * allowed < 5 * 5 / 20


@pytest.mark.parametrize(("dense", "block"), [(1024, 1024), (0, 1024), (0, 3)], ids=["matrix", "gram", "blocks"])
def test_variance_terms_are_averages_over_distinct_draws(monkeypatch, dense, block):
    monkeypatch.setattr(norm, "DENSE", dense)
    monkeypatch.setattr(norm, "BLOCK", block)
    g = np.random.default_rng(2).normal(1.0, 2.0, size=(7, 3))
    moments = norm.Moments(3)
    for part in (g[:2], np.full((1, 3), np.nan), g[2:]):
        moments.add(part)
    K = g @ g.T
    mean = lambda f, k: np.mean([f(*index) for index in itertools.permutations(range(7), k)])  # noqa: E731
    two = mean(lambda i, j: K[i, j] ** 2, 2)
    if block == 3:  # pairs within blocks of three
        pairs = [(i, j) for i, j in itertools.permutations(range(7), 2) if i // 3 == j // 3]
        two = np.mean([K[i, j] ** 2 for i, j in pairs])
    rows = K.sum(axis=1) - np.diag(K)
    three = (np.sum(rows**2) - 42 * two) / 210
    four = mean(lambda i, j, k, m: K[i, j] * K[k, m], 4)
    if block != 3:
        assert three == pytest.approx(mean(lambda i, j, k: K[i, j] * K[j, k], 3))
    else:
        four = ((K.sum() - np.trace(K)) ** 2 - 4 * np.sum(rows**2) + 2 * 42 * two) / 840
    trace = np.trace(np.cov(g.T))
    u, along, square_trace, top = np.array(moments.spread()) * [1, 1, 1, 1] * moments.unit ** np.array([2, 4, 4, 2])
    assert u == pytest.approx(mean(lambda i, j: K[i, j], 2))
    assert along == pytest.approx(three - four)
    assert square_trace == pytest.approx(max(two - 2 * three + four, trace**2 / 3))
    if block != 3:
        assert top == pytest.approx(min(np.linalg.eigvalsh(np.cov(g.T))[-1], square_trace**0.5))


def test_variance_formula_is_exact():
    """Var U = 4 μ'Σμ/N + 2 tr(Σ²)/(N(N−1)), by enumeration of all samples of four from three atoms."""
    atoms, p = np.array([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]]), np.array([0.5, 0.2, 0.3])
    mu = p @ atoms
    sigma = (atoms - mu).T @ np.diag(p) @ (atoms - mu)
    values, weights = [], []
    for index in itertools.product(range(3), repeat=4):
        moments = norm.Moments(2)
        moments.add(atoms[list(index)])
        values.append(moments.spread()[0] * moments.unit**2)
        weights.append(np.prod(p[list(index)]))
    mean = np.dot(weights, values)
    assert mean == pytest.approx(mu @ mu)
    assert np.dot(weights, (values - mean) ** 2) == pytest.approx(mu @ sigma @ mu + np.trace(sigma @ sigma) / 6)


CELLS = [
    *(("values", d, s) for d in (2, 10, 100) for s in (0.5, 2.0)),
    *(("noise", d, s) for d in (2, 10, 100) for s in (0.0, 0.5)),
    ("gradients", 2, 0.09),  # ‖μ‖ of two standard errors: U ± 1.96 se covers 78 %
    ("orthogonal", 10, 0.5),
]


@pytest.mark.parametrize(("kind", "d", "distance"), CELLS)
def test_intervals_cover(kind, d, distance):
    """With N = 300, over 250 repetitions (full table: benchmarks/coverage.py).

    Fails with probability at most 1e-4 if the true coverage is 90 % and the true miss of the upper bound 5 %.
    """
    problem, oracle, options = ridge_oracle(kind, d)
    x, rng, repetitions = distance * DELTA * problem.x0, np.random.default_rng(3), 250
    truth = float(np.sum(problem.smoothed_gradient(x, DELTA) ** 2))
    inside = missed = 0
    for _ in range(repetitions):
        result = smoothed_gradient_norm(oracle, x, DELTA, 300, rng=rng, **options)
        low, high = result.interval
        assert low <= result.squared <= high
        inside += low <= truth <= high
        missed += result.upper**2 < truth
    assert inside >= binom.ppf(ERROR, repetitions, 0.90)
    assert missed <= binom.ppf(1 - ERROR, repetitions, 0.05)
    assert missed + repetitions - inside > 0 or d == 100  # an interval that never misses is too wide


def test_no_spread_means_no_error():
    at_kink = smoothed_gradient_norm(problems.ridge(4).oracle, np.zeros(4), DELTA, 50, rng=0)
    assert at_kink.squared == at_kink.stderr == at_kink.norm == 0
    assert 0 <= at_kink.upper < 1e-14
    one_dimension = smoothed_gradient_norm(problems.ridge(1).oracle, [0.2], DELTA, 50, rng=0)
    assert one_dimension.squared == pytest.approx(0.4**2)
    assert one_dimension.stderr < 1e-7
    assert one_dimension.upper == pytest.approx(0.4)


def test_negative_estimates_are_reported_raw():
    _, oracle, _ = ridge_oracle("noise", 10)
    results = [smoothed_gradient_norm(oracle, np.zeros(10), DELTA, 30, rng=seed) for seed in range(40)]
    negative = [r for r in results if r.squared < 0]
    assert negative
    assert all(r.norm == 0 and r.upper > 0 and r.interval[1] > 0 for r in negative)


@pytest.mark.parametrize("options", [{}, {"use": "gradients"}, {"directions": "orthogonal"}])
def test_rigorous_bound_holds_for_small_samples(options):
    """Error probability of each repetition is 5 %; of more than 25 misses in 200, below 1e-4."""
    problem, rng = problems.ridge(3), np.random.default_rng(4)
    x = 0.3 * DELTA * problem.x0
    truth = np.linalg.norm(problem.smoothed_gradient(x, DELTA))
    results = [
        smoothed_gradient_norm(problem.oracle, x, DELTA, 12, rng=rng, lipschitz=1.0, **options) for _ in range(200)
    ]
    assert sum(r.rigorous_upper < truth for r in results) <= binom.ppf(1 - ERROR, 200, 0.05)
    many = smoothed_gradient_norm(problem.oracle, x, DELTA, 20_000, rng=rng, lipschitz=1.0, **options)
    assert truth <= many.rigorous_upper < truth + 0.1


def test_evaluations_are_counted_paired_and_cut_into_bounded_queries(monkeypatch):
    monkeypatch.setattr(draws, "NUMBERS_AT_ONCE", 100)
    oracle = Watched(lambda X: np.abs(X).sum(axis=1), vectorized=True, grad=np.sign)
    x = np.array([0.3, -0.2, 1.0])
    result = smoothed_gradient_norm(oracle, x, DELTA, 50, rng=0)
    assert result.nfev == sum(map(len, oracle.queries)) == 100
    assert max(q.points.size for q in oracle.queries) <= 100
    for query in oracle.queries:
        plus, minus = np.split(query.points, 2)
        assert np.allclose(plus + minus, 2 * x)
        assert np.allclose(np.linalg.norm(plus - x, axis=1), DELTA)
    oracle.queries.clear()
    assert smoothed_gradient_norm(oracle, x, DELTA, 50, rng=0, use="gradients").ngev == 50
    assert all((np.linalg.norm(q.points - x, axis=1) <= DELTA).all() for q in oracle.queries)
    frames = smoothed_gradient_norm(oracle, x, DELTA, 50, rng=0, directions="orthogonal")
    assert (frames.n, frames.nfev) == (16, 96)


def test_the_same_noise_is_used_at_both_ends():
    seen = []
    oracle = gs.Seeded(lambda x, seed: seen.append(seed) or 0.0)
    smoothed_gradient_norm(oracle, np.zeros(2), DELTA, 8, rng=0)
    assert seen[:8] == seen[8:]
    assert len(set(seen)) == 8


@pytest.mark.parametrize("scale", [1e-140, 1e-60, 1e60, 1e140])
def test_estimates_scale_with_the_function(scale):
    problem = problems.ridge(3)
    x = 0.3 * DELTA * problem.x0
    scaled = gs.Deterministic(lambda X: scale * problem.oracle.fun(X), vectorized=True)
    one, other = (smoothed_gradient_norm(o, x, DELTA, 100, rng=0) for o in (problem.oracle, scaled))
    assert other.upper / scale == pytest.approx(one.upper)
    assert other.squared / scale**2 == pytest.approx(one.squared)
    assert other.stderr / scale**2 == pytest.approx(one.stderr)
    assert one.stderr > 0.01


def test_failed_values_are_left_out_and_counted():
    def sometimes(X):
        return np.where(X[:, 0] > 0.4, np.nan, X[:, 1])

    result = smoothed_gradient_norm(
        gs.Deterministic(sometimes, vectorized=True), np.zeros(2), 0.5, 400, rng=0, lipschitz=1
    )
    assert 0 < result.nfail == 400 - result.n < 200
    assert np.isfinite(result.upper)
    assert result.rigorous_upper == np.inf
    nothing = smoothed_gradient_norm(gs.Deterministic(lambda x: np.inf), np.zeros(2), 0.5, 10, rng=0)
    assert (nothing.n, nothing.nfail, nothing.upper) == (0, 20, np.inf)
    assert np.isnan(nothing.squared)
    assert nothing.interval == (-np.inf, np.inf)


def test_equal_seeds_give_equal_estimates():
    oracle = problems.cone(4).oracle
    one, two, other = (smoothed_gradient_norm(oracle, np.ones(4), DELTA, 30, rng=seed) for seed in (5, 5, 6))
    assert one == two != other


def brute_force(g):
    """The shortest element of a hull of a few points: the best of the affine solutions with nonnegative weights."""
    best, scale = None, np.abs(g).max()
    g = g / scale
    for size in range(1, len(g) + 1):
        for subset in itertools.combinations(range(len(g)), size):
            rows = g[list(subset)]
            system = np.block([[rows @ rows.T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            weights = np.linalg.lstsq(system, np.r_[np.zeros(size), 1.0], rcond=None)[0][:size]
            if (weights >= -1e-12).all() and abs(weights.sum() - 1) < 1e-9:
                element = weights @ rows
                if best is None or np.linalg.norm(element) < np.linalg.norm(best):
                    best = element
    return scale * best


def test_shortest_element_agrees_with_brute_force():
    rng = np.random.default_rng(6)
    for trial in range(150):
        k, d = rng.integers(1, 7), rng.integers(1, 5)
        g = (rng.normal(size=(k, d)) + rng.choice([0, 1, 3])) * 10.0 ** rng.integers(-8, 8)
        g[rng.random(k) < 0.1] = g[0]
        weights = hull.shortest(g)
        assert (weights >= 0).all()
        assert weights.sum() == pytest.approx(1)
        np.testing.assert_allclose(weights @ g, brute_force(g), atol=1e-11 * np.abs(g).max(), err_msg=f"trial {trial}")


@pytest.mark.parametrize(("k", "d"), [(5, 3), (300, 30), (1500, 5), (3000, 40)])
def test_frank_wolfe_gap_is_rounding(k, d):
    rng = np.random.default_rng(7)
    for shift in (0.0, 0.5, 2.0):
        g = rng.normal(size=(k, d)) + shift
        weights = hull.shortest(g)
        element = weights @ g
        gap = element @ element - (g @ element).min()
        assert gap <= 1e-12 * (g * g).sum(axis=1).max()
        assert weights.sum() == pytest.approx(1)


def test_shortest_element_of_odd_hulls():
    assert (hull.shortest(np.zeros((3, 2))) @ np.zeros((3, 2)) == 0).all()
    np.testing.assert_array_equal(hull.shortest(np.array([[np.nan, 1.0], [3.0, 4.0]])), [0, 1])
    assert not hull.shortest(np.full((2, 2), np.nan)).any()
    tiny = hull.shortest(np.array([[1e-200, 0.0], [-1e-200, 0.0]]))
    np.testing.assert_allclose(tiny, [0.5, 0.5])


DISTANCE_PROBLEMS = [
    *(
        (make(d), d)
        for make in (problems.ridge, problems.cone, problems.shell, problems.capped_ridge)
        for d in (1, 2, 5)
    ),
    *((problems.max_coordinate(d), d) for d in (2, 5)),
    (problems.negative_abs(), 1),
]


@pytest.mark.parametrize(("problem", "d"), DISTANCE_PROBLEMS, ids=lambda p: getattr(p, "name", p))
def test_exact_hull_bounds_the_distance_from_above(problem, d):
    rng = np.random.default_rng(8)
    for delta in (0.05, 0.3, 0.8):
        for _ in range(10):
            x = rng.normal(size=d) * rng.choice([0.1, 0.5, 1.0])
            result = min_norm_hull(problem.oracle, x, delta, 60, rng=rng)
            assert result.bound >= problem.distance(x, delta) - 1e-12
            low, high = result.bracket
            assert low <= high == result.bound
            assert high - low <= 1e-12
            np.testing.assert_allclose(result.weights @ result.gradients, result.element, atol=1e-12)


def test_exact_hull_comes_close_to_the_distance():
    cone = problems.cone(2)
    assert min_norm_hull(cone.oracle, [0.125, 0], 0.1, 2000, rng=0).bound == pytest.approx(0.6, abs=0.01)
    assert min_norm_hull(problems.max_coordinate(3).oracle, np.zeros(3), 0.1, 50, rng=0).bound == pytest.approx(3**-0.5)
    assert min_norm_hull(problems.ridge(3).oracle, 0.01 * np.ones(3), 0.5, 50, rng=0).bound < 1e-15


def test_hull_takes_x_and_given_points_and_gradients_alone():
    asked = []

    def grad(x):
        asked.append(x.copy())
        return np.sign(x)

    given = [[1.0, 0.9], [0.6, 1.0]]
    result = min_norm_hull(grad, [1.0, 1.0], 0.5, 20, rng=0, points=given)
    np.testing.assert_array_equal(asked, result.points)
    np.testing.assert_array_equal(result.points[20:], [[1.0, 1.0], *given])
    assert (np.linalg.norm(result.points - 1, axis=1) <= 0.5).all()
    assert (result.ngev, result.nfev, result.bound) == (23, 0, pytest.approx(2**0.5))
    alone = min_norm_hull(lambda x: np.full(1, np.nan), [0.0], 0.1, 5, rng=0)
    assert (alone.bound, alone.nfail) == (np.inf, 6)


@pytest.mark.parametrize("use", ["gradients", "values"])
def test_noisy_hull_is_not_short_by_fitting_noise(use):
    """F = a·x + ξ·x: every combination of gradients has norm 1. Error probability 1e-4 for each of two tests."""
    a, rng = np.array([0.6, 0.8]), np.random.default_rng(9)
    oracle = gs.Expectation(
        lambda X, xi: X @ a + (X * xi).sum(axis=1),
        lambda r, k: r.standard_normal((k, 2)),
        vectorized=True,
        grad=lambda X, xi: a + xi,
    )
    results = [min_norm_hull(oracle, np.zeros(2), DELTA, 15, rng=rng, batch=30, use=use) for _ in range(150)]
    naive = np.array([np.linalg.norm(r.element) for r in results])
    assert naive.mean() < 0.75
    squared = np.array([r.estimate.squared for r in results])
    assert abs(squared.mean() - 1) <= t.ppf(1 - ERROR / 2, 149) * squared.std(ddof=1) / np.sqrt(150)
    assert sum(r.bound < 1 for r in results) <= binom.ppf(1 - ERROR, 150, 0.05)
    cost = 1 if use == "gradients" else 2
    for r in results:
        assert r.bracket is None
        assert r.nfev + r.ngev == cost * 30 * (16 + (r.weights > 0).sum())


def test_hull_of_smoothed_gradients_stays_in_the_ball_and_finds_the_kink():
    oracle = Watched(problems.ridge(3).oracle.fun, vectorized=True)
    x = np.full(3, 0.2)  # s = 0.35, the kink is within 0.5 but the smoothed gradient is large
    result = min_norm_hull(oracle, x, 0.5, 40, rng=0, batch=200, rho=0.05)
    assert (np.linalg.norm(result.points - x, axis=1) <= 0.45).all()
    reach = np.concatenate([np.linalg.norm(q.points - x, axis=1) for q in oracle.queries])
    assert reach.max() <= 0.5 + 1e-12
    assert smoothed_gradient_norm(oracle, x, 0.5, 4000, rng=0).interval[0] > 0.6
    assert result.bound < 0.3


def test_value_gap():
    assert value_gap_bound(3.0, 1.0, 0.5) == 4.0
    assert value_gap_bound(1.0, -np.inf, 0.5) == np.inf
    assert value_gap_bound(1.0 - 1e-16, 1.0, 0.5) == 0.0  # rounding, not a contradiction
    with pytest.raises(ValueError, match="no lower bound"):
        value_gap_bound(1.0, 1.1, 0.5)


SQUARE = gs.Deterministic(never)
WITH_GRADIENT = gs.Deterministic(never, grad=never)
NORM = {"oracle": SQUARE, "x": np.zeros(2), "delta": 0.1, "n": 10}
HULL = {"oracle": WITH_GRADIENT, "x": np.zeros(2), "delta": 0.1, "n": 10}
BAD = [
    (smoothed_gradient_norm, NORM, {"oracle": 3}, "oracle such as"),
    (smoothed_gradient_norm, NORM, {"x": [[1.0]]}, "x must be a vector with at least one entry, got shape (1, 1)"),
    (smoothed_gradient_norm, NORM, {"x": [np.nan]}, "x must be finite"),
    (smoothed_gradient_norm, NORM, {"x": "here"}, "vector of real"),
    (smoothed_gradient_norm, NORM, {"x": [1e20]}, "lost in the rounding"),
    (smoothed_gradient_norm, NORM, {"delta": 0.0}, "delta must be a positive number"),
    (smoothed_gradient_norm, NORM, {"delta": "wide"}, "delta must be a positive number"),
    (smoothed_gradient_norm, NORM, {"n": 3}, "n must be a whole number of at least 4"),
    (smoothed_gradient_norm, NORM, {"n": 10.0}, "n must be a whole number"),
    (smoothed_gradient_norm, NORM, {"confidence": 95}, "confidence must be"),
    (smoothed_gradient_norm, NORM, {"confidence": 1.0}, "confidence must be"),
    (smoothed_gradient_norm, NORM, {"directions": "all"}, "directions must be one of iid, orthogonal"),
    (smoothed_gradient_norm, NORM, {"use": "hessians"}, "use must be one of"),
    (smoothed_gradient_norm, NORM, {"use": "gradients"}, "needs gradients"),
    (
        smoothed_gradient_norm,
        NORM,
        {"oracle": WITH_GRADIENT, "use": "gradients", "directions": "orthogonal"},
        "belongs",
    ),
    (smoothed_gradient_norm, NORM, {"lipschitz": -1.0}, "lipschitz must be a positive number"),
    (smoothed_gradient_norm, NORM, {"oracle": gs.Unreplayable(never), "lipschitz": 1.0}, "cannot replay"),
    (smoothed_gradient_norm, NORM, {"rng": "seed"}, "rng must be"),
    (min_norm_hull, HULL, {"oracle": 3}, "oracle such as"),
    (min_norm_hull, HULL, {"n": 0}, "n must be a whole number of at least 1"),
    (min_norm_hull, HULL, {"batch": 2}, "batch must be a whole number of at least 4"),
    (min_norm_hull, HULL, {"points": [[1.0, 1.0]]}, "must lie within 0.1 of x"),
    (min_norm_hull, HULL, {"points": [1.0, 1.0, 1.0]}, "points must be an array of shape"),
    (min_norm_hull, HULL, {"use": "both"}, "use must be one of"),
    (min_norm_hull, HULL, {"rho": 0.01}, "rho belongs to"),
    (min_norm_hull, HULL, {"oracle": SQUARE, "rho": 0.1}, "rho must be a number between 0 and delta = 0.1"),
    (min_norm_hull, HULL, {"oracle": SQUARE, "use": "gradients"}, "needs gradients"),
    (min_norm_hull, HULL, {"oracle": never, "use": "values"}, "no values"),
    (value_gap_bound, {"fx": 1.0, "f_lower": 0.0, "delta": 1.0}, {"fx": np.nan}, "fx must be a number"),
    (value_gap_bound, {"fx": 1.0, "f_lower": 0.0, "delta": 1.0}, {"fx": np.inf}, "must be finite"),
    (value_gap_bound, {"fx": 1.0, "f_lower": 0.0, "delta": 1.0}, {"delta": -1.0}, "delta must be a positive number"),
    (Stationary, {"delta": 0.1, "epsilon": 0.1}, {"delta": 0.0}, "delta must be a positive number"),
    (Stationary, {"delta": 0.1, "epsilon": 0.1}, {"epsilon": np.inf}, "epsilon must be a positive number"),
    (
        Stationary,
        {"delta": 0.1, "epsilon": 0.1},
        {"max_evals": 100},
        "max_evals must be a whole number of at least 120",
    ),
    (Stationary, {"delta": 0.1, "epsilon": 0.1}, {"every": 0}, "every must be a whole number"),
]


@pytest.mark.parametrize(("call", "good", "bad", "sentence"), BAD)
def test_bad_arguments_are_answered_with_one_sentence_before_any_evaluation(call, good, bad, sentence):
    with pytest.raises((ValueError, TypeError), match=re.escape(sentence)) as caught:
        call(**{**good, **bad})
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message


def play(criterion, fun, x, seed):
    """Answer a criterion's check; return its verdict and the queries it asked."""
    oracle, rng = gs.Deterministic(fun, vectorized=True), np.random.default_rng(seed)
    check, queries, answer = criterion.confirm(np.asarray(x), oracle, rng), [], None
    while True:
        try:
            queries.append(check.send(answer))
        except StopIteration as done:
            return done.value, queries
        answer = oracle.evaluate(queries[-1])


def test_criterion_checks_twice_on_fresh_samples_and_gives_up_early():
    criterion = Stationary(delta=0.5, epsilon=0.5, max_evals=400)
    far, queries = play(criterion, problems.ridge(3).oracle.fun, 2 * np.ones(3), 0)
    assert not far
    assert sum(map(len, queries)) <= 50
    near, queries = play(criterion, problems.ridge(3).oracle.fun, np.zeros(3), 0)
    assert near
    points = np.concatenate([q.points for q in queries])
    assert len(points) == len(np.unique(points, axis=0)) == 400
    assert all(isinstance(q, Query) and q.order == 0 for q in queries)
    failed, _ = play(criterion, lambda X: np.full(len(X), np.nan), np.zeros(3), 0)
    assert not failed
    assert criterion == Stationary(delta=0.5, epsilon=0.5, max_evals=400)


def test_criterion_rarely_passes_above_epsilon():
    """‖∇f_δ‖ is 1 and ε is 0.99: a pass has probability (1 − 0.8)² at most. Error probability 1e-4."""
    criterion, fun = Stationary(0.5, 0.99, confidence=0.8, max_evals=400), problems.ridge(2).oracle.fun
    passed = sum(play(criterion, fun, 3 * np.ones(2), seed)[0] for seed in range(400))
    assert passed <= binom.ppf(1 - ERROR, 400, 0.04)


def test_criterion_checks_one_record_in_every_so_many():
    """Binomial with probability 1/4. Error probability 1e-4."""
    criterion, fun = Stationary(0.5, 0.5, max_evals=120, every=4), problems.ridge(2).oracle.fun
    checked = sum(bool(play(criterion, fun, np.zeros(2), seed)[1]) for seed in range(400))
    assert binom.ppf(ERROR / 2, 400, 0.25) <= checked <= binom.ppf(1 - ERROR / 2, 400, 0.25)


@pytest.mark.parametrize("max_evals", [3_000, 30_000])
def test_checks_of_the_criterion_take_a_fifth_of_the_run_but_for_the_last(max_evals):
    """‖∇f_δ‖ is near ε all along, so that each look but the first takes a whole sample of 500."""
    problem, still = problems.ridge(3), gs.GFM(delta=0.1, step_size=1e-9)
    criterion = Stationary(delta=0.3, epsilon=0.98, max_evals=1_000)
    res = gs.minimize(problem.oracle, problem.x0, still, stop=criterion, max_evals=max_evals, rng=0)
    assert not res.success
    assert max_evals // 10 < res.nfev_diagnostic <= max_evals // 5 + 1_000


def test_criterion_stops_a_run_and_leaves_its_trajectory_alone():
    problem, method = problems.ridge(3), gs.GFM(delta=0.1, step_size=0.01)
    criterion = Stationary(delta=0.3, epsilon=0.3, max_evals=800)
    stopped = gs.minimize(problem.oracle, problem.x0, method, stop=criterion, max_evals=60_000, rng=0, compiled=False)
    assert stopped.success
    assert stopped.nfev < 60_000
    assert stopped.nfev_diagnostic > 800
    assert "∇f_δ" in stopped.message
    assert "minim" not in stopped.message
    exact = np.linalg.norm(problem.smoothed_gradient(stopped.x, 0.3))
    assert exact <= 0.3
    free = gs.minimize(problem.oracle, problem.x0, method, max_iter=stopped.nit, rng=0, compiled=False)
    np.testing.assert_array_equal(free.x, stopped.x)
    slow = gs.GFM(delta=0.1, step_size=1e-9)
    never_there = gs.minimize(problem.oracle, problem.x0, slow, stop=criterion, max_evals=5_000, rng=0, compiled=False)
    assert not never_there.success
    assert never_there.nfev <= 5_000


def test_counting_sees_every_answer_once():
    count = Facts()
    check = draws.counted(draws.Values(np.zeros((2, 3)), 0.1, None).each(np.random.default_rng(0), 4), count)
    answer = draws.drive(check, gs.Deterministic(lambda x: x[0]))
    assert answer.shape == (4, 2, 3)
    assert count.nfev == 16


# What is found, in words


def test_what_is_found_is_printed_in_a_few_lines():
    problem = problems.ridge(3)
    found = smoothed_gradient_norm(problem.oracle, problem.x0, DELTA, 100, rng=0, lipschitz=1.0)
    assert str(found).startswith(f"‖∇f_δ(x)‖ is about {found.norm:.4g}, at most {found.upper:.4g} at confidence 0.95\n")
    assert f"at most {found.rigorous_upper:.4g} for every sample size" in str(found)
    assert str(found).endswith("100 independent draws; 200 values asked for")
    exact = min_norm_hull(problem.oracle, problem.x0, DELTA, 20, rng=0)
    assert str(exact).startswith(f"dist(0, ∂_δ f(x)) ≤ {exact.bound:.4g}\n")
    assert str(exact).endswith("21 gradients asked for")
    noisy = min_norm_hull(problem.oracle, problem.x0, DELTA, 20, rng=0, use="values")
    assert str(noisy).startswith(f"dist(0, ∂_δ f(x)) ≤ {noisy.bound:.4g}, at confidence 0.95\n")
    certificate = gs.certify(problem.oracle, 0.05 * problem.x0, DELTA, 0.01, rng=0)
    shown = str(certificate).splitlines()
    assert shown == [certificate.message, f"12 values and {certificate.ngev} gradients asked for"]
    assert repr(certificate).startswith("Certificate(answer='certified'")
    assert draws.asked(1, 0, 1) == "1 value asked for, 1 of them failed"
