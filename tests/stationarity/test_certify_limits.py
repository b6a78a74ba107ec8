"""No false certificates at the limits: scaled coordinates, rounding of x, cancellation, slopes that few ξ carry.

Randomised claims run on fixed seeds. "Error probability" is the chance, over seeds, that correct code would fail.
"""

import numpy as np
import pytest

import goldstein as gs
from goldstein.criterion import Criterion
from goldstein.oracle import Query
from goldstein.run.session import Session
from goldstein.run.spec import RunSpec
from goldstein.stationarity import certify, min_norm_hull, norm, smoothed_gradient_norm
from goldstein.stop import Stationary, Target

STILL = gs.GFM(delta=0.01, step_size=1e-12)  # leaves x where it is
L1 = {"fun": lambda X: np.abs(X).sum(axis=1), "vectorized": True}


def l1(gradient=True):
    return gs.Deterministic(**L1, grad=np.sign if gradient else None)


def ramp(kink, kind=np.float64):
    """f(x) = x − kink as relu(x − kink) − relu(kink − x); its gradient is 1, but comes out as 0 at the kink."""

    def fun(X):
        s = X[:, 0].astype(kind) - kind(kink)
        return np.maximum(s, 0) - np.maximum(-s, 0)

    def grad(X):
        s = X.astype(kind) - kind(kink)
        return ((s > 0) + 1.0 * (s < 0)).astype(kind)

    return gs.Deterministic(fun, vectorized=True, grad=grad)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize(("delta", "near"), [(1.0, False), (8.0, True)])
def test_stationarity_is_told_in_the_coordinates_of_x(gradient, delta, near):
    """In x / 10 the kinks are 0.5 away: within 1 of x / 10, but not of x, where the distance is √2."""
    run = {"x_scale": 10.0, "max_evals": 6_000, "rng": 0}
    res = gs.minimize(l1(gradient), [5.0, 5.0], STILL, stationarity=(delta, 1.2), **run)
    assert (res.stationarity.answer != "not shown") == near
    assert res.stationarity.delta == delta
    stop = gs.minimize(l1(gradient), [5.0, 5.0], STILL, stop=Stationary(delta, 1.2), **run)
    assert stop.success == near


def test_diagnostic_queries_reach_the_function_in_the_coordinates_of_x():
    seen = []
    oracle = gs.Deterministic(lambda x: seen.append(x) or abs(x).sum(), grad=lambda x: seen.append(x) or np.sign(x))
    scale, x0 = np.array([10.0, 1e-3]), np.array([5.0, 7.0])
    gs.minimize(oracle, x0, STILL, x_scale=scale, max_evals=1_000, rng=0, stationarity=(0.5, 0.1))
    away = np.linalg.norm(np.array(seen) - x0, axis=1)
    assert 0.45 < away.max() <= 0.5  # GFM itself goes 0.1 far
    assert gs.minimize(oracle, x0, STILL, x_scale=scale, max_evals=500, stop=Target(12.01), rng=0).fun <= 12.01


def test_certificates_of_methods_say_in_which_coordinates_they_hold():
    res = gs.minimize(l1(), np.ones(2), gs.PINGD(delta=0.3, epsilon=0.5), x_scale=2.0, max_evals=3_000, rng=0)
    assert res.success
    assert "in the coordinates x / x_scale" in res.message


def test_a_radius_below_the_rounding_of_x_shows_nothing():
    kink = 1e8 + 2 * np.spacing(1e8)
    near = gs.Deterministic(lambda X: np.abs(X[:, 0] - kink), vectorized=True, grad=lambda X: np.sign(X - kink))
    with pytest.warns(RuntimeWarning, match="exactly 0"):
        res = gs.minimize(near, [1e8], gs.GFM(1e-9, 1e-30), max_evals=2_000, rng=0, stationarity=(1e-9, 0.1))
    assert res.stationarity.answer == "not shown"
    assert res.stationarity.nfev + res.stationarity.ngev == 0
    assert "lost in the rounding of x" in res.stationarity.message
    waves = gs.Deterministic(lambda X: np.abs(np.mod(X[:, 0], 2) - 1), vectorized=True)
    x = [1e8 + 0.5, 1e8]
    assert not gs.minimize(
        waves, x, gs.GFM(1e-3, 1e-30), stop=Stationary(1e-9, 0.1, max_evals=400), max_evals=1_500, rng=0
    ).success
    assert gs.minimize(
        waves, x, gs.GFM(1e-3, 1e-30), stop=Stationary(3.0, 2.0, max_evals=400), max_evals=1_500, rng=0
    ).success


@pytest.mark.parametrize("delta", [1e-7, 1e-6, 1e-5, 1e-3, 1e-2])
def test_single_precision_is_not_mistaken_for_flatness(delta):
    """The distance is 1, but single precision puts random points on the kink. Error probability 2⁻¹² a seed."""
    for seed in range(3):
        assert certify(ramp(1.0, np.float32), [1.0], delta, 0.1, max_evals=3_000, rng=seed).answer == "not shown"
    if delta < 1e-5:
        for method in (gs.PINGD(delta, 0.1), gs.CuttingPlane(delta, 0.1)):
            assert not gs.minimize(ramp(1.0, np.float32), [1.0], method, max_evals=200, rng=0).success
    assert min_norm_hull(ramp(1.0, np.float32), [1.0], delta, 1000, rng=0).bound >= 1


def test_single_precision_methods_that_end_by_rounding_are_not_successful():
    flat = gs.Deterministic(lambda X: np.zeros(len(X), np.float32), vectorized=True, grad=lambda X: 0 * np.float32(X))
    lost = gs.minimize(flat, [1.0], gs.PINGD(1e-5, 0.1), max_evals=100, rng=0)
    assert not lost.success
    assert "lost in the rounding" in lost.message
    assert gs.minimize(flat, [1.0], gs.PINGD(1e-2, 0.1), max_evals=100, rng=0).success


def test_single_precision_values_round_x_too():
    """|x − 1000| at a distance of 2δ from its kink: rounding x to single precision takes all of it to the kink."""
    fun = gs.Deterministic(lambda X: np.abs(X[:, 0].astype(np.float32) - np.float32(1000)), vectorized=True)
    gap = certify(fun, [1000.00002], 1e-5, 0.1, f_lower=0.0, rng=0)
    assert gap.answer == "not shown"
    with pytest.warns(RuntimeWarning, match="exactly 0"):  # both values of a pair are equal
        assert not gs.minimize(
            fun, [1000.00002], STILL, stop=Stationary(1e-5, 0.1, max_evals=400), max_evals=1_500, rng=0
        ).success
    assert certify(fun, [1000.0], 1.0, 0.1, f_lower=0.0, rng=0).answer == "certified"


def test_single_precision_leaves_a_smoothed_gradient_when_a_hull_has_no_room():
    oracle = gs.Deterministic(
        lambda X: np.abs(X.astype(np.float32)).sum(axis=1),
        vectorized=True,
        grad=lambda X: np.sign(X).astype(np.float32),
    )
    result = certify(oracle, [0.0, 1e-4, 20.0], 0.01, 1.5, rng=0)  # room for one gradient
    assert (result.answer, result.method) == ("supported", "smoothed gradient")


@pytest.mark.parametrize("seed", range(16))
def test_floats_near_the_limit_are_a_grid_that_meets_kinks(seed):
    """17,000 floats in the ball: 10,000 random ones meet the kink almost every second time. Error probability 2⁻¹²."""
    assert certify(ramp(1e6), [1e6], 1e-6, 0.1, rng=seed).answer == "not shown"
    with pytest.raises(ValueError, match="lost in the rounding"):
        min_norm_hull(ramp(1e6), [1e6], 1e-6, 10_000, rng=seed)


@pytest.mark.parametrize("big", [1e14, 1e16])
def test_value_gaps_of_sums_that_cancel(big):
    oracle = gs.FiniteSum(lambda x, i: (big if i == 0 else -big) + abs(x[0]), 2)
    for s in (0.0, 0.005, 0.5):  # rounding makes f(x) 0 or a multiple of 1/64
        assert certify(oracle, [s], 1e-3, 0.2, f_lower=0.0, max_evals=20, rng=0).answer == "not shown"


def rare(p, gradient, d=3, n=2_000):
    """x_1 as a mean of n components, of which a share p has slope 1/p and the others none."""
    slope = np.where(np.arange(n) < p * n, 1 / p, 0.0)
    return gs.FiniteSum(
        lambda X, i: slope[i] * X[:, 0],
        n,
        vectorized=True,
        grad=(lambda X, i: slope[i][:, None] * np.eye(d)[0]) if gradient else None,
    )


@pytest.mark.filterwarnings("ignore:All .* differences:RuntimeWarning")
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("p", [0.05, 0.01, 0.001])
def test_slopes_that_few_components_carry_are_not_missed(p, gradient):
    """f is x_1 and ε = 0.5: 20 draws that share a sum half as large as it should be are a Poisson(58) below 20.

    That has probability 1e-9; over 20 certificates the error probability is below 1e-7.
    """
    for seed in range(10):
        for max_evals in (300, 2_000):
            assert (
                certify(rare(p, gradient), np.zeros(3), 0.1, 0.5, max_evals=max_evals, rng=seed).answer == "not shown"
            )
    for seed in range(3):
        res = gs.minimize(
            rare(p, gradient), np.zeros(3), STILL, stop=Stationary(0.1, 0.5, max_evals=400), max_evals=1_500, rng=seed
        )
        assert not res.success
    if gradient:
        none = smoothed_gradient_norm(rare(p, True), np.zeros(3), 0.1, 30, rng=0, use="gradients")
        assert none.upper == none.interval[1] == np.inf


@pytest.mark.parametrize("p", [0.05, 0.01, 0.001])
def test_values_that_few_components_carry_are_not_missed(p):
    """f(x) is 1 and f_lower/δ + ε is 0.6. Error probability as above."""
    x = np.array([1.0, 0.0, 0.0])
    for seed in range(10):
        result = certify(rare(p, False), x, 1.0, 0.5, f_lower=-0.1, max_evals=1_000, rng=seed)
        assert result.answer == "not shown"


def test_draws_that_share_a_sum_of_squares():
    for g, carriers in (([0.0] * 50, 0), ([3.0] * 50, 50), ([0.0] * 45 + [7.0] * 5, 5), ([1e-3] * 45 + [7.0] * 5, 5)):
        moments = norm.Moments(1)
        moments.add(np.array(g)[:, None])
        assert moments.sharing == pytest.approx(carriers, rel=1e-5)


def test_noise_below_the_lower_bound_is_no_contradiction():
    oracle = gs.Expectation(
        lambda X, xi: np.abs(X).sum(axis=1) + xi, lambda rng, k: rng.normal(size=k), vectorized=True
    )
    for seed in range(20):  # f(x) is f_lower itself: every second mean is below
        assert certify(oracle, np.zeros(2), 0.5, 0.5, f_lower=0.0, max_evals=400, rng=seed).bound > 0


BOX = {"bounds": [(0, 1)] * 2, "max_evals": 1_000, "rng": 0}


def test_queries_that_may_leave_the_bounds_are_announced():
    method, leave = gs.GFM(0.1, 0.01), "Queries may leave the allowed set by delta = 0.3."
    for extra in ({"stationarity": (0.3, 0.1)}, {"stop": Stationary(0.3, 0.1)}):
        assert leave in gs.minimize(l1(), [0.5, 0.5], method, **BOX, **extra).message
    for extra in ({"stationarity": (0.1, 0.1)}, {"stop": [Stationary(0.1, 0.1), Target(-1.0)]}, {}):
        assert "leave" not in gs.minimize(l1(), [0.5, 0.5], method, **BOX, **extra).message
    small = gs.minimize(l1(), [0.5, 0.5], method, **BOX, stationarity=(0.1, 0.1), x_scale=0.5)
    assert "by delta = 0.1." in small.message  # iterates stay 0.1 inside of x / 0.5, which is 0.05


class Listening(Criterion):
    """Asks for a value and a gradient at (1, −2) before the first iteration, and keeps what comes back."""

    message = ""
    each_step = True

    def met_at_start(self, x, oracle, rng):
        self.x = x
        value = yield Query(np.array([[1.0, -2.0]]))
        gradient = yield Query(np.array([[1.0, -2.0]]), order=1)
        self.heard = value.values, gradient.values
        return False

    def screen(self, fun, lowest, noisy):
        return False

    def confirm(self, x, oracle, rng):
        return False
        yield


@pytest.mark.parametrize("method", [gs.GFM(0.1, 1e-12), gs.O2NC(delta=0.1, block_length=5)], ids=lambda m: m.name)
def test_queries_outside_are_not_scaled(method):
    """Points and gradients of a criterion are in the coordinates of x, those of the method in x / 10."""
    oracle, x, criterion = l1(), np.array([10.0, -20.0]), Listening()
    spec = RunSpec(fun=oracle, x0=x, method=method, max_evals=50, stop=[criterion], x_scale=[10.0, 10.0])
    session = Session(spec, np.random.default_rng(0))
    play, asked = session.play(), []
    query = next(play)
    while len(asked) < 4:
        if query is not None:
            asked.append(query)
        query = play.send(None if query is None else oracle.evaluate(query))
    np.testing.assert_array_equal(criterion.x, [10, -20])
    np.testing.assert_array_equal([query.points for query in asked[:2]], [[[1, -2]]] * 2)
    np.testing.assert_array_equal(criterion.heard[0], [3])
    np.testing.assert_array_equal(criterion.heard[1], [[1, -1]])
    own = asked[2]
    if method.name == "gfm":
        assert own.order == 0
        np.testing.assert_allclose(np.linalg.norm(own.points - [10, -20], axis=1), 1)  # 10 δ
        assert oracle.evaluate(own).values.mean() == pytest.approx(30)
        assert session.step.value == pytest.approx(30)
    else:
        assert own.order == 1
        np.testing.assert_array_equal(own.points, [[10, -20]])
        assert session.step.grad_norm == pytest.approx(np.hypot(10, 10))  # the gradient is (10, −10) in x / 10
    play.close()


def _rounded(x):
    """A slope of 0.3564, told to three decimals."""
    return round(0.3564 * float(np.sum(x)), 3)


def _rounded_by_hand(x):
    """The same with the rounding errors of a product, so that equal values may differ in the last bit."""
    return 0.001 * round(356.4 * float(np.sum(x))) + 0.1 - 0.1


@pytest.mark.parametrize("f", [_rounded, _rounded_by_hand])
@pytest.mark.parametrize("seed", range(5))
def test_values_with_few_decimals_support_nothing_below_their_step(f, seed):
    """Differences over 0.1·δ are all exactly 0: they say nothing about a slope."""
    certificate = certify(gs.Deterministic(f), [130.5], delta=0.006, epsilon=0.005, rng=seed)
    assert certificate.answer == "not shown"
    assert "steps of 0.001" in certificate.message
    assert certificate.bound > 0.3


def test_a_hull_of_differences_knows_the_step_of_its_values():
    assert min_norm_hull(gs.Deterministic(_rounded), [130.5], 0.006, 20, use="values", rng=0).bound > 0.3


def test_a_radius_far_above_the_step_of_the_values_supports_as_before():
    f = gs.Deterministic(lambda x: round(float(abs(x[0] - 1.0) + abs(x[1])), 4))
    certificate = certify(f, [1.0, 0.0], delta=0.5, epsilon=0.2, rng=0)
    assert certificate.answer == "supported"
    assert certificate.bound < 0.2


@pytest.mark.parametrize(
    "f",
    [lambda x: 2.5, lambda x: max(0.0, float(x[0]) - 0.08), lambda x: float(abs(x[0]) + abs(x[1]))],
    ids=["constant", "plateau", "kink"],
)
def test_flat_functions_are_not_mistaken_for_rounded_ones(f):
    assert certify(gs.Deterministic(f), [0.0, 0.0], delta=0.1, epsilon=0.2, rng=0).answer == "supported"
