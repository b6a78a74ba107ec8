"""The propositions of docs/sifting.md, one by one, against closed forms.

Claims about means are tested on fixed seeds at 4 standard errors: each comparison fails by chance with probability
6e-5, two-sided. Numbers in the names of tests are those of the propositions.
"""

import math
from math import ceil, log2, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

import goldstein as gs
from goldstein.estimate import sift
from goldstein.estimate.smoothing import ball, sphere
from goldstein.theory import constants, plan
from goldstein.theory.first_order import sift_cost
from studies.problems import capped_ridge, cone, ridge, shell

CLOSED_FORMS = (ridge, capped_ridge, cone, shell)  # all with L = 1
D = 4
RHO = 0.5
BIAS = sqrt(13 / 24)
patient = settings(deadline=None, max_examples=100)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)


def units(rng, k, d):
    """Draw the steps of k walks."""
    return sift.draw_units(rng, k, d)[0]


def smoothness(d, rho):
    """L_ρ = κ_d L/ρ for L = 1."""
    return constants(d, 1.0, rho).smoothness


def walked(F, y, h):
    """Return v at every k of the walks from the rows of y with the steps h, shape (k, d), and the differences g."""
    k, d = y.shape
    points = np.repeat(y[:, None], d + 1, axis=1)
    for j in range(d):
        points[:, j + 1 :, j] += h[:, j, None]
    v = F(points.reshape(-1, d)).reshape(k, d + 1)
    return v, np.diff(v, axis=1) / h


def sifted(F, y, h):
    """Return the bisection of the same walks, whose steps are those of the walk after rounding."""
    bisection = sift.Sift.of(sift.walk(y, h, 1.0))
    while not bisection.over:
        bisection.tell(F(bisection.query().points))
    return bisection


def segment_means(problem, x, h, rho):
    """Return the mean of ∂_j f_ρ over [x + b_j, x + b_j + h_j e_j] for every j, by quadrature of the closed form."""
    means = np.empty(x.size)
    base = x.copy()
    for j in range(x.size):
        on = []
        for node in NODES:
            place = base.copy()
            place[j] += (node + 1) / 2 * h[j]
            on.append(problem.smoothed_gradient(place, rho)[j])
        means[j] = WEIGHTS @ on / 2
        base[j] += h[j]
    return means


def place(make, seed=0):
    """Return a closed form and a point from which a ball of radius ρ meets its kink."""
    problem = make(D)
    rng = np.random.default_rng(seed)
    kink = {"ridge": 0.0, "capped_ridge": 0.0, "cone": 0.0, "shell": 1.0}[problem.name]
    e = problem.x0 / np.linalg.norm(problem.x0)
    return problem, (kink + 0.2) * e + 0.05 * rng.normal(size=D)


# Proposition 1: the mean of the walk


@pytest.mark.parametrize("make", CLOSED_FORMS)
def test_1_given_h_the_mean_of_the_walk_is_the_mean_slope_of_f_rho_on_each_segment(make):
    """With steps so long that ∇f_ρ(x) itself would be rejected. 16 comparisons: wrong with probability 1e-3."""
    problem, x = place(make)
    rng = np.random.default_rng(1)
    h = 0.4 * RHO * units(rng, 1, D)
    y = x + RHO * ball(rng, 40_000, D)
    _, g = walked(problem.oracle.fun, y, np.tile(h, (len(y), 1)))
    error = g.std(axis=0) / sqrt(len(g))
    mean = g.mean(axis=0)
    assert (np.abs(mean - segment_means(problem, x, h[0], RHO)) <= 4 * error + 1e-9).all()
    assert (np.abs(mean - problem.smoothed_gradient(x, RHO)) > 6 * error).any()


@patient
@given(
    make=st.sampled_from(CLOSED_FORMS),
    d=st.integers(2, 8),
    share=st.floats(-4, 0).map(lambda e: 10.0**e),
    seed=st.integers(0, 2**32),
)
def test_1_the_bias_is_below_its_bounds(make, d, share, seed):
    problem = make(d)
    rng = np.random.default_rng(seed)
    e = problem.x0 / np.linalg.norm(problem.x0)
    x = (problem.name == "shell") * e + RHO * ball(rng, 1, d)[0]
    h = share * RHO
    steps = h * units(rng, 1, d)[0]
    bias = segment_means(problem, x, steps, RHO) - problem.smoothed_gradient(x, RHO)
    each = smoothness(d, RHO) * 1.5 * h * np.sqrt(np.arange(d) + 1 / 3)
    slack = 1e-6 * (1 + share)  # of the quadratures
    assert (np.abs(bias) <= each + slack).all()
    assert np.linalg.norm(bias) <= smoothness(d, RHO) * 1.5 * h * d / sqrt(2) + slack


@pytest.mark.parametrize("make", CLOSED_FORMS)
def test_1_over_random_h_the_bias_is_below_its_bound(make):
    """The mean over the walks, within 4 standard errors: 16 comparisons, wrong with probability 1e-3."""
    problem, x = place(make)
    rng = np.random.default_rng(2)
    h = 0.02 * RHO
    k = 40_000
    _, g = walked(problem.oracle.fun, x + RHO * ball(rng, k, D), h * units(rng, k, D))
    error = g.std(axis=0) / sqrt(k)
    off = np.abs(g.mean(axis=0) - problem.smoothed_gradient(x, RHO))
    assert np.linalg.norm(np.maximum(off - 4 * error, 0)) <= BIAS * h * D * smoothness(D, RHO)


# Proposition 2: the sift against the walk


@st.composite
def piecewise(draw):
    """A maximum of affine functions of a few coordinates, a place and steps."""
    d = draw(st.integers(1, 33))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    pieces = draw(st.integers(1, 4))
    sparse = rng.random(d) < draw(st.sampled_from([0.0, 0.1, 0.4, 1.0]))
    a = np.where(sparse, rng.normal(size=(pieces, d)), 0.0)
    c = 0.1 * rng.normal(size=pieces)
    h = draw(st.sampled_from([1e-3, 0.1, 1.0])) * units(rng, 5, d)
    return (lambda X: (X @ a.T + c).max(axis=1)), rng.normal(size=(5, d)), h


@patient
@given(piecewise())
def test_2_the_sift_is_the_walk_with_some_coordinates_at_zero(case):
    F, y, h = case
    walk = sift.walk(y, h, 1.0)
    _, g = walked(F, y, walk.top - y)
    found = sifted(F, y, h).gradients()
    np.testing.assert_allclose(found, np.where(found == 0, 0.0, g), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("h", [0.1, 0.01])
def test_2_mistakes_are_as_rare_as_said_and_cost_no_more_than_that(h):
    """max(0, Σy), d = 8, ρ = 1, one kink. Nine comparisons at 4 standard errors: wrong with probability 6e-4."""
    d, rho, k = 8, 1.0, 40_000
    rng = np.random.default_rng(3)
    y = rho * ball(rng, k, d)
    steps = h * units(rng, k, d)

    def F(X):
        return np.maximum(0.0, X.sum(axis=1))

    walk = sift.walk(y, steps, 1.0)
    _, g = walked(F, y, walk.top - y)
    found = sifted(F, y, steps).gradients()
    mistaken = (np.abs(found - g) > 1e-6).any(axis=1)
    share = mistaken.mean()
    kappa = smoothness(d, 1.0)
    assert 0 < share <= 0.75 * sqrt(d) * kappa * h / rho + 4 * sqrt(share / k)
    assert share == pytest.approx(0.47 * h, rel=0.25)  # as measured elsewhere
    apart = np.linalg.norm((found - g).mean(axis=0))
    assert apart <= share * sqrt(d) * sqrt(d)  # L = √d
    truth = np.full(d, 0.5)  # ∇f_ρ(0): half of the ball is on either side
    error = found.std(axis=0) / sqrt(k)
    bound = (BIAS + 0.75) * d * h * kappa * sqrt(d) / rho
    assert np.linalg.norm(np.maximum(np.abs(found.mean(axis=0) - truth) - 4 * error, 0)) <= bound


@pytest.mark.parametrize("make", CLOSED_FORMS)
def test_2_the_sift_is_unbiased_within_its_bias(make):
    """At a tiny h, within 4 standard errors: 16 comparisons, wrong with probability 1e-3."""
    problem, x = place(make, seed=5)
    rng = np.random.default_rng(4)
    k = 40_000
    h = 1e-6 * RHO
    g = sifted(problem.oracle.fun, x + RHO * ball(rng, k, D), h * units(rng, k, D)).gradients()
    error = g.std(axis=0) / sqrt(k)
    bias = (BIAS + 2 * 0.75) * h * D * smoothness(D, RHO)  # two kinks at most in reach
    assert (np.abs(g.mean(axis=0) - problem.smoothed_gradient(x, RHO)) <= 4 * error + bias + 1e-7).all()


# Proposition 3: the second moment


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.3])
@pytest.mark.parametrize("make", CLOSED_FORMS)
def test_3_the_second_moment_is_at_most_that_of_gradients_and_a_little(make, share):
    """One-sided at 4 standard errors: 24 comparisons, wrong with probability 8e-4."""
    problem, x = place(make)
    rng = np.random.default_rng(6)
    k = 20_000
    h = share * RHO
    y = x + RHO * ball(rng, k, D)
    steps = h * units(rng, k, D)
    most = 1 + BIAS * h * D**1.5 * smoothness(D, RHO) / 2
    walk = sift.walk(y, steps, 1.0)
    for g in (walked(problem.oracle.fun, y, walk.top - y)[1], sifted(problem.oracle.fun, y, steps).gradients()):
        squares = (g**2).sum(axis=1)
        assert squares.mean() - 4 * squares.std() / sqrt(k) <= most
        assert np.abs(g).max() <= 1 + 1e-6  # |g_j| ≤ L(ξ)


def test_3_the_term_in_h_is_needed():
    """max_j x_j at 0: the walk has g_j = 1 whenever it sets a new record, and more than one of them at a large h."""
    rng = np.random.default_rng(7)
    h = np.abs(units(rng, 2000, D))
    _, g = walked(lambda X: X.max(axis=1), 1e-9 * ball(rng, 2000, D), h)
    assert (g**2).sum(axis=1).mean() > 1.05


# Proposition 4: the cost


def sparse_bound(d, s):
    return min(d + 1, 2 + sum(min(2**level, s) for level in range(ceil(log2(d)))))


@patient
@given(piecewise())
def test_4_the_cost_is_at_most_d_plus_one_and_the_sparse_bound(case):
    """Also when the walk meets kinks; s counts the coordinates that change v."""
    F, y, h = case
    d = y.shape[1]
    walk = sift.walk(y, h, 1.0)
    v, _ = walked(F, y, walk.top - y)
    asked = sifted(F, y, h).n_values
    for i in range(len(y)):
        s = int((np.abs(np.diff(v[i])) > 0).sum())
        assert asked[i] <= sparse_bound(d, s) <= d + 1


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 9, 100, 128, 600])
def test_4_the_bounds_are_in_order_and_the_plan_uses_the_first(d):
    for s in range(1, d + 1):
        exact = sparse_bound(d, s)
        assert exact == sift_cost(d, s)
        assert exact <= 1 + s * (ceil(log2(d)) - log2(s) + 1) + 1e-9
        if log2(s).is_integer() and exact < d + 1:
            assert exact == pytest.approx(1 + s * (ceil(log2(d)) - log2(s) + 1))
    assert sift_cost(d, None) == d + 1


@pytest.mark.parametrize("d", [2, 8, 64, 256])
def test_4_the_bound_is_attained(d):
    for s in (2**level for level in range(int(log2(d)) + 1)):
        a = np.zeros(d)
        a[:: d // s] = 1.0
        found = sifted(lambda X, a=a: X @ a, np.zeros((1, d)), np.ones((1, d)))
        assert found.n_values[0] == sparse_bound(d, s) == pytest.approx(1 + s * (log2(d) - log2(s) + 1))


def test_4_a_flat_component_takes_two_values():
    assert sifted(lambda X: np.ones(len(X)), np.zeros((3, 40)), np.ones((3, 40))).n_values.tolist() == [2, 2, 2]


# Proposition 5: bounds


@patient
@given(d=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_5_coordinates_whose_sign_was_forced_are_split_to_the_leaf(d, seed):
    """However large the tolerance; those that had a choice may keep the random-sign estimate."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=d)
    lower = np.zeros(d)
    upper = np.ones(d)
    y = np.where(rng.random(d) < 0.5, rng.integers(0, 2, d), 0.5)
    walk = sift.walk(y[None], units(rng, 1, d), 1e-3, (lower, upper))
    bisection = sift.Sift.of(walk, tolerance=10.0)
    while not bisection.over:
        bisection.tell(bisection.query().points @ a)
    forced = (y == 0) | (y == 1)
    np.testing.assert_allclose(bisection.gradients()[0, forced], a[forced], rtol=1e-6)


# Proposition 6: the consequence


@settings(deadline=None)
@given(
    d=st.integers(2, 10**4),
    delta=st.floats(-2, 0.5).map(lambda e: 10.0**e),
    share=st.floats(-3, log2(0.5) / log2(10)).map(lambda e: 10.0**e),
    gap=st.floats(-1, 2).map(lambda e: 10.0**e),
    L=st.floats(-1, 1).map(lambda e: 10.0**e),
    learner=st.sampled_from(["ogd", "adagrad"]),
)
def test_6_dense_plans_cost_at_most_055_of_those_from_pairs(d, delta, share, gap, L, learner):
    """For ε ≤ L/2 and more than a few blocks; the share is (1 − 1/d²)/2 before anything is taken off or rounded up."""
    goal = {"d": d, "L": L, "gap": gap, "delta": delta, "epsilon": share * L, "learner": learner}
    made = plan("o2nc", **goal, gradients="sift")
    pairs = plan("zo-o2nc", **goal)
    if pairs.parameters["blocks"] >= 5:
        assert made.evaluations <= 0.55 * pairs.evaluations
    assert made.evaluations == (d + 1) * made.iterations


@settings(deadline=None)
@given(d=st.integers(1, 10**5), share=st.floats(-3, 0.5), delta=st.floats(-3, 3), s=st.integers(1, 10**5))
def test_6_the_plan_adds_up_to_epsilon(d, share, delta, s):
    """The three terms of the theorem, computed from the settings of the plan alone."""
    L, gap, epsilon, delta = 2.0, 3.0, 2.0 * 10.0**share, 10.0**delta
    made = plan("o2nc", d=d, L=L, gap=gap, delta=delta, epsilon=epsilon, gradients="sift", sparsity=s)
    method = made.method
    M, K = method.block_length, made.parameters["blocks"]
    smaller = method.rho - 1.5 * sqrt(d) * method.fd_step
    assert 0.5 * method.rho < smaller
    beta = BIAS * method.fd_step * d * smoothness(d, smaller) * L
    G = L * sqrt(1 + sqrt(d) * beta / (2 * L))
    radius = method.play_radius
    assert radius == pytest.approx((delta - method.rho) / M)
    assert method.step_size == pytest.approx(radius / (G * sqrt(M)))
    bound = (gap + method.rho * L) / (radius * M * K) + 2 * G / sqrt(M) + 2 * beta
    assert bound <= 0.99 * epsilon * (1 + 1e-9)  # the rest is for rounding
    assert made.evaluations == M * K * sparse_bound(d, s)
    assert (method.gradients, method.needs.gradients, made.exact) == ("sift", False, False)


def test_6_the_formulas_of_the_plan():
    """M = ⌈9L²/ε²⌉, K = ⌈3(Δ + ρL)/((δ − ρ)ε)⌉ up to the two hundredths of ε for bias and rounding, and one of L²."""
    made = plan("o2nc", d=50, L=2.0, gap=3.0, delta=1e-2, epsilon=1e-2, gradients="sift")
    assert made.parameters["rho"] == pytest.approx(5e-4)
    assert made.parameters["block_length"] == pytest.approx(9 * 4 / (0.98e-2) ** 2, rel=0.011)
    assert made.parameters["blocks"] == pytest.approx(3 * (3 + 5e-4 * 2) / (9.5e-3 * 0.98e-2), rel=1e-3)
    assert made.values == made.evaluations
    assert made.oracle == "replayed values"


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("zo-o2nc", {"gradients": "sift"}, 'gradients can be chosen for o2nc only, not for "zo-o2nc"'),
        ("o2nc", {"gradients": "values"}, "gradients must be one of oracle, sift"),
        ("o2nc", {"gradients": "sift", "noise": 0.0}, "noise is about the oracle's own gradients"),
        ("o2nc", {"sparsity": 3}, 'sparsity is for gradients="sift" only'),
        ("o2nc", {"gradients": "sift", "sparsity": 0}, "sparsity must be a whole number of at least 1"),
    ],
)
def test_6_plans_check_their_arguments(name, change, words):
    with pytest.raises(ValueError, match=words):
        plan(name, d=3, L=1, gap=1, delta=0.5, epsilon=0.3, **change)


def played(made, oracle, x0, seed):
    """Return the mean of every block of a planned run, and the values that it took."""
    run = made.method.start(x0, rng=seed, sample=oracle.sample)
    means = []
    while run.nit < made.iterations:
        query = run.ask()
        step = run.tell(query, oracle.evaluate(query).values)
        if step.iterate is not None:
            means.append(step.iterate)
    assert len(means) == made.parameters["blocks"]
    return np.array(means), run.nfev


def assert_mean_at_most(values, bound):
    """The mean of the law of `values` is at most `bound`: by Student's test, wrong with probability 1e-3."""
    n = len(values)
    assert np.mean(values) + student.ppf(1 - 1e-3, n - 1) * np.std(values, ddof=1) / sqrt(n) <= bound


@pytest.mark.parametrize("make", CLOSED_FORMS)
def test_6_planned_runs_reach_their_target_where_pairs_do_at_half_the_cost(make):
    """E dist(0, ∂_δ f(x_out)) ≤ ε by the exact distance, dense components. Error probability 2e-3 each."""
    d, delta, epsilon = 5, 0.3, 0.5
    problem = make(d)
    e = problem.x0 / np.linalg.norm(problem.x0)
    x0 = {"ridge": 0.5, "cone": 0.5, "capped_ridge": 0.5, "shell": 1.5}[problem.name] * e
    goal = {"d": d, "L": 1.0, "gap": 0.5, "delta": delta, "epsilon": epsilon}
    made = plan("o2nc", **goal, gradients="sift")
    pairs = plan("zo-o2nc", **goal)
    spent = {}
    for it in (made, pairs):
        runs = [played(it, problem.oracle, x0, seed) for seed in range(4)]
        distances = [np.mean([problem.distance(x, delta) for x in means]) for means, _ in runs]
        assert_mean_at_most(distances, epsilon)
        assert np.mean(distances) > 0.02  # there was a way to go
        spent[it.name] = np.mean([nfev for _, nfev in runs])
        assert spent[it.name] <= it.evaluations
    assert spent["o2nc"] <= 0.55 * spent["zo-o2nc"]


def test_6_planned_runs_reach_their_target_at_the_sparse_ratio():
    """f = |x_1|, and E⟨ξ, x⟩ with ξ = ±0.6·e_j at random, d = 64: two coordinates matter. Error probability 2e-3."""
    d, delta, epsilon = 64, 0.3, 0.6
    problem = ridge(d, np.eye(d)[0])
    goal = {"d": d, "L": math.hypot(1, 0.6), "gap": 0.4, "delta": delta, "epsilon": epsilon}

    def draw(rng, k):
        return 0.6 * np.eye(d)[rng.integers(0, d, k)] * rng.choice([-1.0, 1.0], size=(k, 1))

    oracle = gs.Expectation(lambda X, xi: np.abs(X[:, 0]) + (xi * X).sum(axis=1), draw, vectorized=True)
    made = plan("o2nc", **goal, gradients="sift", sparsity=2)
    dense = plan("o2nc", **goal, gradients="sift")
    pairs = plan("zo-o2nc", **goal)
    runs = [played(made, oracle, 0.4 * np.eye(d)[0], seed) for seed in range(6)]
    assert_mean_at_most([np.mean([problem.distance(x, delta) for x in means]) for means, _ in runs], epsilon)
    each = np.mean([nfev for _, nfev in runs]) / made.iterations
    assert each <= made.parameters["values_each"] == 13 < 0.21 * dense.parameters["values_each"]
    assert each > 10
    predicted = 2 * log2(d / 2) / (2 * d)
    assert each * made.iterations / pairs.evaluations == pytest.approx(predicted, rel=0.4)


def test_6_a_planned_run_takes_no_more_than_it_says_and_answers_with_a_block():
    problem = shell(D)
    made = plan("o2nc", d=D, L=1.0, gap=0.5, delta=0.3, epsilon=0.8, gradients="sift")
    means, _ = played(made, problem.oracle, 1.5 * problem.minimiser, 1)
    res = made.run(problem.oracle, 1.5 * problem.minimiser, rng=1)
    np.testing.assert_array_equal(res.x, means[res.nit // made.parameters["block_length"] - 1])
    assert res.nfev - res.nfev_diagnostic <= made.evaluations
    assert res.ngev == 0


def test_a_part_of_the_coordinates_is_no_better():
    """k of d coordinates at random, scaled by d/k: k + 1 values of second moment (d/k)·‖a‖², for linear F exactly."""
    rng = np.random.default_rng(8)
    a = sphere(rng, 1, 12)[0]
    for k in (1, 3, 12):
        squares = [((12 / k * a[rng.permutation(12)[:k]]) ** 2).sum() for _ in range(4000)]
        error = np.std(squares) / sqrt(len(squares))
        assert abs(np.mean(squares) - 12 / k) <= 4 * error + 1e-12
        assert (k + 1) * 12 / k >= 13
