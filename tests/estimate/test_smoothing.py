"""Directions and estimators: ĝ is unbiased for ∇f_δ, its second moment is below σ², failed values drop out cleanly.

Randomised claims run on fixed seeds. "Error probability" is the chance, over seeds, that correct code would fail.
"""

import numpy as np
import pytest
from scipy.special import betainc
from scipy.stats import beta, binomtest, kstest, t

import goldstein as gs
from goldstein.estimate.smoothing import DIRECTIONS, Central, LeaveOneOut, ball, mean_estimate, orthogonal, sphere
from goldstein.oracle import Query

DELTA = 0.3
ERROR = 1e-4  # error probability of one randomised test; about 60 of them: below 1 % for the file


def ridge_gradient(e, s, delta=DELTA):
    """∇f_δ of |e·x| where e·x = s: sign(s) I_{(s/δ)²}(1/2, (d+1)/2) e (theory 4.1)."""
    return np.sign(s) * betainc(0.5, (e.size + 1) / 2, min(1.0, (s / delta) ** 2)) * e


class Ridges:
    """f = mean over i of L_i |e_i·x − c_i|, at a point x where the kinks lie in the thick of the ball.

    One ridge is a deterministic oracle, several are a finite sum. The e_i lean to one side, so that ∇f_δ is not small.
    """

    def __init__(self, d, count, seed=7):
        rng = np.random.default_rng(seed)
        leaning = rng.normal(size=d) + rng.normal(size=(count, d))
        self.e = leaning / np.linalg.norm(leaning, axis=1, keepdims=True)
        self.L = rng.uniform(0.5, 1.5, count)
        self.x = rng.normal(size=d)
        self.s = DELTA * rng.uniform(0.3, 1.5, count) / np.sqrt(d)
        self.s[-1] *= -1
        self.c = self.e @ self.x - self.s
        if count == 1:
            self.oracle = gs.Deterministic(lambda X: self.component(X, np.zeros(len(X), int)), vectorized=True)
        else:
            self.oracle = gs.FiniteSum(self.component, count, vectorized=True)

    def component(self, X, i):
        return self.L[i] * np.abs((self.e[i] * X).sum(axis=1) - self.c[i])

    @property
    def smoothed_gradient(self):
        return np.mean([L * ridge_gradient(e, s) for L, e, s in zip(self.L, self.e, self.s, strict=True)], axis=0)

    @property
    def lipschitz(self):
        return np.sqrt(np.mean(self.L**2))


def estimate(estimator, directions, oracle, x, b, rng):
    """One mini-batch estimate of b directions, drawn, evaluated and put together as the methods do."""
    noisy = oracle.sample is not None
    xi = estimator.draw(oracle.sample, rng, b)
    w = directions(rng, b, x.size)
    values = oracle.evaluate(Query(estimator.points(x, w, DELTA), xi)).values.reshape(estimator.evaluations, b)
    usable = estimator.usable(values[None], noisy)
    return mean_estimate(w, estimator.coefficients(values, usable, x.size, DELTA, noisy), usable)


def estimates(estimator, directions, problem, b, count, seed):
    """Independent mini-batches: with orthogonal directions only whole batches are independent of each other."""
    rng = np.random.default_rng(seed)
    return np.array([estimate(estimator, directions, problem.oracle, problem.x, b, rng) for _ in range(count)])


def agrees(draws, truth, error=ERROR):
    """Whether the mean of independent draws is the truth in every coordinate, at family-wise error `error`.

    Student's t, Bonferroni over coordinates: 4.1 standard errors for d = 2, 5.0 for d = 100. 1e-12 is for rounding.
    """
    z = t.isf(error / (2 * truth.size), len(draws) - 1)
    standard_error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return bool((np.abs(draws.mean(axis=0) - truth) <= z * standard_error + 1e-12).all())


@pytest.mark.parametrize("components", [1, 6], ids=["deterministic", "finite-sum"])
@pytest.mark.parametrize("estimator", [Central(), LeaveOneOut(), LeaveOneOut(4)], ids=["central", "loo", "loo-of-4"])
@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("d", [2, 10, 100])
def test_estimator_is_unbiased(d, directions, estimator, components):
    """Error probability 1e-4 each."""
    problem = Ridges(d, components)
    draws = estimates(estimator, DIRECTIONS[directions], problem, b=32, count=400, seed=d)
    assert agrees(draws, problem.smoothed_gradient)


@pytest.mark.parametrize("estimator", [Central(), LeaveOneOut()])
def test_estimator_is_unbiased_over_several_frames(estimator):
    """A batch of 7 in d = 3 is two whole frames and one direction. Error probability 1e-4 each."""
    problem = Ridges(3, 1)
    draws = estimates(estimator, orthogonal, problem, b=7, count=1000, seed=3)
    assert agrees(draws, problem.smoothed_gradient)


class DoubleScale(Central):
    """d/δ where the two-point estimator has d/2δ."""

    def coefficients(self, *args):
        return 2 * super().coefficients(*args)


class NoDimension(Central):
    """1/2δ: the factor d forgotten."""

    def coefficients(self, values, usable, d, delta, stochastic):
        return super().coefficients(values, usable, 1, delta, stochastic)


class PlainGroupMean(LeaveOneOut):
    """The group's mean subtracted without the factor k/(k−1) that leaving one out needs."""

    def coefficients(self, *args):
        return super().coefficients(*args) / 2  # groups of 2


class FreshNoise(Central):
    """A new ξ for each of the two values."""

    def draw(self, sample, rng, b):
        return sample(rng, 2 * b)


def gaussian(rng, k, d):
    """Directions that nobody normalised."""
    return rng.standard_normal((k, d))


@pytest.mark.parametrize("d", [2, 10, 100])
@pytest.mark.parametrize(
    ("wrong", "directions"),
    [(DoubleScale(), sphere), (NoDimension(), sphere), (PlainGroupMean(), sphere), (Central(), gaussian)],
    ids=["double-scale", "no-dimension", "plain-group-mean", "gaussian-directions"],
)
def test_the_same_check_rejects_a_wrong_estimator(d, wrong, directions):
    """The check of `test_estimator_is_unbiased`, same sizes, has the power to see the classical mistakes."""
    problem = Ridges(d, 6)
    draws = estimates(wrong, directions, problem, b=32, count=400, seed=d)
    assert not agrees(draws, problem.smoothed_gradient)


@pytest.mark.parametrize("directions", DIRECTIONS)
def test_in_one_dimension_the_central_estimate_is_exact(directions):
    problem = Ridges(1, 1)
    for seed in range(20):
        got = estimate(Central(), DIRECTIONS[directions], problem.oracle, problem.x, 1, np.random.default_rng(seed))
        np.testing.assert_allclose(got, problem.smoothed_gradient, rtol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_in_one_dimension_the_mean_over_all_signs_is_exact(k):
    """The 2^k sign patterns are all there is, so the expectation is a finite sum: no sampling error."""
    problem, estimator = Ridges(1, 1), LeaveOneOut()
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * k)).reshape(k, -1).T
    total = np.zeros(1)
    for pattern in signs:
        w, every = pattern[:, None], np.ones(k, bool)
        values = problem.oracle.evaluate(Query(estimator.points(problem.x, w, DELTA))).values[None]
        total += mean_estimate(w, estimator.coefficients(values, every, 1, DELTA, False), every)
    np.testing.assert_allclose(total / len(signs), problem.smoothed_gradient, rtol=1e-12)


@pytest.mark.parametrize("estimator", [Central(), LeaveOneOut(), LeaveOneOut(4)])
def test_noise_in_xi_alone_cancels(estimator):
    """The values of one comparison share one ξ: an additive noise far above the signal leaves no trace."""
    noise = np.random.default_rng(0).integers(-(10**6), 10**6, 50)
    slope = np.array([1.0, -2.0, 4.0])
    noisy = gs.FiniteSum(lambda X, i: noise[i] + X @ slope, 50, vectorized=True)
    silent = gs.FiniteSum(lambda X, i: X @ slope, 50, vectorized=True)
    got, want = (estimate(estimator, sphere, f, np.zeros(3), 8, np.random.default_rng(1)) for f in (noisy, silent))
    np.testing.assert_allclose(got, want, rtol=1e-7)
    fresh = estimate(FreshNoise(), sphere, noisy, np.zeros(3), 8, np.random.default_rng(1))
    assert np.linalg.norm(fresh) > 1e4  # and it would leave one otherwise


def test_a_whole_frame_is_exact_on_a_linear_function():
    slope = np.random.default_rng(0).normal(size=6)
    f = gs.Deterministic(lambda X: X @ slope, vectorized=True)
    got = estimate(Central(), orthogonal, f, np.ones(6), 6, np.random.default_rng(1))
    np.testing.assert_allclose(got, slope, atol=1e-13)


@pytest.mark.parametrize("components", [1, 6], ids=["deterministic", "finite-sum"])
@pytest.mark.parametrize("d", [1, 2, 10, 100])
def test_second_moment_is_below_the_sharp_constant(d, components):
    """E‖g(x; w, ξ)‖² ≤ σ² = d²/(d−1) L², at the kinks and far from them. Error probability 6e-5 each."""
    problem = Ridges(d, components)
    bound = gs.theory.constants(d, problem.lipschitz, DELTA).second_moment
    for x in (problem.x, problem.x + 10 * problem.e[0]):
        power = coefficients(problem, x, 20_000, np.random.default_rng(1)) ** 2
        assert power.mean() - 4 * power.std() / np.sqrt(len(power)) <= bound * (1 + 1e-12)


def coefficients(problem, x, b, rng):
    """The c_i of b independent central estimates c_i w_i; ‖g(x; w_i, ξ_i)‖ = |c_i|."""
    xi = Central().draw(problem.oracle.sample, rng, b)
    values = problem.oracle.evaluate(Query(Central().points(x, sphere(rng, b, x.size), DELTA), xi)).values.reshape(2, b)
    return Central().coefficients(values, np.ones(b, bool), x.size, DELTA, True)


@pytest.mark.parametrize("d", [2, 10, 100])
def test_second_moment_on_a_linear_function_is_d(d):
    """So σ² is sharp to a factor d/(d−1), and 16√(2π)d is forty times too large. Error probability 1e-4 each."""
    slope = np.eye(d)[0]
    w = sphere(np.random.default_rng(2), 20_000, d)
    points = Central().points(np.zeros(d), w, DELTA)
    c = Central().coefficients((points @ slope).reshape(2, -1), np.ones(len(w), bool), d, DELTA, False)
    assert agrees(c[:, None] ** 2, np.array([float(d)]))
    assert gs.theory.constants(d, 1.0, DELTA).second_moment == pytest.approx(d * d / (d - 1))


@pytest.mark.parametrize("d", [2, 3, 50])
def test_sphere_is_uniform(d):
    """The squared component along any axis is Beta(1/2, (d−1)/2) with either sign. Error probability 1e-4 each."""
    w = sphere(np.random.default_rng(d), 5000, d)
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, rtol=1e-14)
    assert uniform_on_sphere(w)


def test_sphere_in_one_dimension_is_a_fair_coin():
    """Error probability 1e-4."""
    w = sphere(np.random.default_rng(0), 2000, 1)
    assert set(w.ravel()) == {-1.0, 1.0}
    assert binomtest(int((w > 0).sum()), len(w)).pvalue > ERROR


@pytest.mark.parametrize("d", [1, 2, 50])
def test_ball_is_uniform(d):
    """‖u‖^d is uniform on [0, 1] and u/‖u‖ uniform on the sphere. Error probability 1e-4 each."""
    u = ball(np.random.default_rng(d), 5000, d)
    r = np.linalg.norm(u, axis=1)
    assert kstest(r**d, "uniform").pvalue > ERROR / 3
    assert d == 1 or uniform_on_sphere(u / r[:, None], ERROR * 2 / 3)


@pytest.mark.parametrize(("k", "d"), [(4, 4), (3, 10), (11, 4), (1, 5)])
def test_orthogonal_directions_come_in_orthonormal_frames(k, d):
    w = orthogonal(np.random.default_rng(0), k, d)
    assert w.shape == (k, d)
    for start in range(0, k, d):
        frame = w[start : start + d]
        np.testing.assert_allclose(frame @ frame.T, np.eye(len(frame)), atol=1e-13)


@pytest.mark.parametrize("row", [0, 2, 5])
def test_each_orthogonal_direction_is_uniform(row):
    """First, last of a whole frame (4 of 4) and a row of the next one. Error probability 1e-4 each."""
    rng = np.random.default_rng(row)
    assert uniform_on_sphere(np.array([orthogonal(rng, 6, 4)[row] for _ in range(3000)]))


def test_frames_are_haar_distributed_and_independent():
    """Both orientations equally often (a plain QR has one), and frames unrelated. Error probability 2e-4."""
    rng = np.random.default_rng(0)
    frames = np.array([orthogonal(rng, 6, 3).reshape(2, 3, 3) for _ in range(2000)])
    right_handed = int((np.linalg.det(frames[:, 0]) > 0).sum())
    assert binomtest(right_handed, len(frames)).pvalue > ERROR
    products = np.einsum("nij,nkj->nik", frames[:, 0], frames[:, 1]).reshape(len(frames), -1)
    assert agrees(products, np.zeros(9))


def uniform_on_sphere(w, error=ERROR):
    """Kolmogorov-Smirnov for the component along three axes, at family-wise error `error`."""
    d = w.shape[1]
    law = beta(0.5, (d - 1) / 2)
    axes = (np.eye(d)[0], np.eye(d)[-1], np.ones(d) / np.sqrt(d))

    def distribution(t):
        return 0.5 + 0.5 * np.sign(t) * law.cdf(np.square(t))

    return all(kstest(w @ axis, distribution).pvalue > error / len(axes) for axis in axes)


def from_values(estimator, w, values, stochastic):
    """The estimate that the code makes of given values, shape (evaluations, b)."""
    usable = estimator.usable(values[None], stochastic)
    coefficients = estimator.coefficients(values, usable, w.shape[1], DELTA, stochastic)
    return usable, mean_estimate(w, coefficients, usable)


def loo_by_hand(w, values):
    """d/(δ(k−1)) Σ (F_i − F̄) w_i over one group."""
    k, d = w.shape
    return d / (DELTA * (k - 1)) * sum((values[i] - sum(values) / k) * w[i] for i in range(k))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_a_failed_value_removes_exactly_its_direction(side, bad):
    rng = np.random.default_rng(0)
    w, values = sphere(rng, 5, 3), rng.normal(size=(2, 5))
    values[side, 2] = bad
    usable, got = from_values(Central(), w, values, True)
    kept = [0, 1, 3, 4]
    assert usable.tolist() == [True, True, False, True, True]
    want = sum(3 / (2 * DELTA) * (values[0, i] - values[1, i]) * w[i] for i in kept) / 4
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_loo_without_noise_compares_with_those_that_are_left():
    rng = np.random.default_rng(0)
    w, values = sphere(rng, 5, 3), rng.normal(size=(1, 5))
    values[0, 1] = np.nan
    usable, got = from_values(LeaveOneOut(), w, values, False)
    assert usable.tolist() == [True, False, True, True, True]
    np.testing.assert_allclose(got, loo_by_hand(w[usable], values[0, usable]), rtol=1e-13)


def test_loo_group_left_with_one_value_drops_out():
    rng = np.random.default_rng(0)
    w, values = sphere(rng, 9, 3), rng.normal(size=(1, 9))
    values[0, [1, 3, 5]] = np.nan  # groups of 3 left with 2, 1 and 3 members
    usable, got = from_values(LeaveOneOut(3), w, values, True)
    assert usable.tolist() == [True, False, True, False, False, False, True, True, True]
    pair, trio = [0, 2], [6, 7, 8]
    want = (2 * loo_by_hand(w[pair], values[0, pair]) + 3 * loo_by_hand(w[trio], values[0, trio])) / 5
    np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("estimator", [Central(), LeaveOneOut(2)])
def test_nothing_is_usable_when_everything_failed(estimator):
    values = np.full((1, estimator.evaluations, 4), np.nan)
    assert not estimator.usable(values, True).any()


@pytest.mark.parametrize("estimator", [Central(), LeaveOneOut(2)])
def test_a_failure_at_either_iterate_removes_the_direction_at_both(estimator):
    values = np.zeros((2, estimator.evaluations, 6))
    values[1, 0, 3] = np.nan
    lost = [3] if isinstance(estimator, Central) else [2, 3]
    assert np.flatnonzero(~estimator.usable(values, True)).tolist() == lost


def test_one_direction_alone_cannot_be_compared():
    assert not LeaveOneOut().usable(np.ones((1, 1, 1)), stochastic=False).any()
