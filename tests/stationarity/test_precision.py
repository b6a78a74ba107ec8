"""Precision: it is measured on the values seen and not read from their type, and slopes may be of any size.

Ten or more values of more than 12 significant bits that all survive a round trip through float32 are single precision.
Whole numbers are no evidence, and what too few values cannot tell is not certified.
"""

import itertools
import warnings

import numpy as np
import pytest
from numba import njit

import goldstein as gs

X0 = np.array([3.0, -2.0, 0.5, 4.0])
PRECISION = r"(?i)rounding|precision"
BY_VALUES = ["auto", "gfm", "gfm+", "ws-gfm", "ws-gfm+", "one-phase", "zo-o2nc"]
BY_GRADIENTS = ["ingd", "pingd", "cutting-plane", "singd", "psingd", "o2nc"]


def warned(call):
    """Return what a call returns, and the sentences that it warned with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, [str(warning.message) for warning in caught]


def single(function):
    """The same function worked out in single precision, whose answers are Python's own floats."""
    return lambda x: float(np.float32(function(x)))


def test_a_value_gap_below_the_rounding_of_single_precision_is_not_certified():
    """|x| at 0.02 has slope 1; float32 cannot tell 10⁶ + 0.02 from 10⁶, whatever type it is returned as."""
    oracle = gs.Deterministic(lambda x: float(np.float32(1e6 + abs(x[0]))))
    for seed in range(5):
        assert gs.certify(oracle, [0.02], 1e-3, 0.5, f_lower=1e6, rng=seed).answer == "not shown"


@pytest.mark.parametrize("max_evals", [1, 2, 5, 9])
def test_what_too_few_values_cannot_tell_is_not_certified(max_evals):
    """Fewer than ten values do not show their precision, so a gap that single precision could hide is not believed."""
    oracle = gs.Deterministic(lambda x: float(np.float32(1e6 + abs(x[0]))))
    answer = gs.certify(oracle, [0.02], 1e-3, 0.5, f_lower=1e6, max_evals=max_evals, rng=0).answer
    assert answer == "not shown"


@pytest.mark.parametrize("delta", [1e-7, 1e-6, 1e-5, 1e-4])
def test_torch_values_taken_out_by_item_are_single_precision(delta):
    """Differences that single precision rounds to 0 are no flatness: here the slope is 2."""
    torch = pytest.importorskip("torch")

    def f(x):
        return (1e3 + torch.as_tensor(x, dtype=torch.float32).abs().sum()).item()

    for seed in range(3):
        assert gs.certify(gs.Deterministic(f), [1.01, 1.0, 0.3, 2.0], delta, 0.5, rng=seed).answer == "not shown"


def test_torch_values_without_an_offset_are_single_precision():
    torch = pytest.importorskip("torch")

    def f(x):
        return (2 * torch.as_tensor(x, dtype=torch.float32).abs().sum()).item()

    for delta in (1e-8, 1e-7):
        assert gs.certify(gs.Deterministic(f), [1.01], delta, 0.5, rng=0).answer == "not shown"


HUNDRED = single(lambda x: 100.0 + abs(x).sum() / 7)
COARSE = {
    "plain": gs.Deterministic(HUNDRED),
    "vectorised": gs.Deterministic(lambda X: np.array([HUNDRED(x) for x in X]), vectorized=True),
    "sum": gs.FiniteSum(lambda x, i: HUNDRED(x), 20),
}


@pytest.mark.parametrize("form", COARSE)
def test_single_precision_supports_nothing_where_rounding_hides_the_slope(form):
    """Whatever the form of the function and the bound that is tried; the slope is √3/7."""
    x = [1.01, 1.0, 0.3]
    assert gs.certify(COARSE[form], x, 1e-7, 0.05, rng=0, max_evals=4_000).answer == "not shown"
    assert not gs.smoothed_gradient_norm(COARSE[form], x, 1e-7, 200, rng=0).upper < 0.05
    assert not gs.min_norm_hull(COARSE[form], x, 1e-7, 5, rng=0).bound < 0.05


def test_honest_double_precision_is_still_certified():
    """A gap that double precision can tell is certified: dist(0, ∂_δ f) = 0 here, since the kink is in reach."""
    oracle = gs.Deterministic(lambda x: 1e6 + abs(x[0]))
    certificate = gs.certify(oracle, [1e-4], 1e-3, 0.5, f_lower=1e6, rng=0)
    assert (certificate.answer, certificate.method) == ("certified", "value gap")
    assert 0.1 <= certificate.bound < 0.11


def test_honest_double_precision_of_few_bits_is_no_single_precision():
    """Values of at most 12 significant bits survive float32 by nature, so they are no evidence against a function."""

    def f(x):
        return 512.0 + np.round(8 * abs(x).sum()) / 8

    _, sentences = warned(lambda: gs.minimize(gs.Deterministic(f), X0, gs.GFM(0.5, 0.01), max_evals=2_000, rng=0))
    assert not sentences


def test_whole_numbers_are_no_evidence_of_single_precision():
    """Costs that are whole numbers below 2²⁴ survive float32, but their differences are exact: no alarm."""

    def cost(x):
        return float(2**23 + np.floor(30 * abs(x - 1).sum()))

    for method in (gs.GFM(0.1, 1e-4), gs.GFMPlus(0.1, 1e-4, 2, 10)):
        res, sentences = warned(
            lambda: gs.minimize(gs.Deterministic(cost), np.tile(X0, 3), method, max_evals=4_000, rng=0)  # noqa: B023
        )
        assert not [sentence for sentence in sentences if "ounding" in sentence]
        assert res.fun < cost(np.tile(X0, 3))


def test_whole_numbers_do_not_spoil_a_run_that_also_sees_fractions():
    """Single precision is shown by the values that have fractions, also if whole numbers come among them."""
    f = single(lambda x: 1e6 + np.floor(x[0]) + (abs(x[1]) / 3 if x[0] > 0 else 0.0))
    with pytest.warns(RuntimeWarning, match=PRECISION):
        gs.minimize(gs.Deterministic(f), np.array([0.3, 1.0]), gs.GFM(1e-3, 1e-4), max_evals=2_000, rng=0)


@pytest.mark.parametrize("vectorized", [False, True])
def test_single_precision_returned_as_double_warns(vectorized):
    """A run whose estimates are mostly rounding says so, also if the values come as float64."""

    def f(X):
        return (1e4 + np.abs(X).sum(axis=-1) / 3).astype(np.float32).astype(np.float64)

    oracle = gs.Deterministic(f if vectorized else lambda x: float(f(x)), vectorized=vectorized)
    with pytest.warns(RuntimeWarning, match=PRECISION):
        gs.minimize(oracle, X0, gs.GFM(1e-4, 1e-4), max_evals=2_000, rng=0)


def test_a_stationary_criterion_does_not_believe_single_precision():
    """`stop.Stationary` passes nothing where single precision rounds every difference to 0."""
    f = single(lambda x: 1e3 + abs(x).sum())
    method = gs.GFM(0.5, 1e-9)  # x stays where the slope is 2
    res = gs.minimize(gs.Deterministic(f), X0, method, stop=gs.stop.Stationary(1e-6, 0.5), max_evals=4_000, rng=0)
    assert not res.success


def test_a_certificate_asked_for_with_the_run_does_not_believe_single_precision():
    f = single(lambda x: 1e3 + abs(x).sum())
    res = gs.minimize(gs.Deterministic(f), X0, gs.GFM(0.5, 1e-9), stationarity=(1e-6, 0.5), max_evals=4_000, rng=0)
    assert res.stationarity.answer == "not shown"


@njit
def high_up(x):
    total = 1e10
    for j in range(x.size):
        total += abs(x[j])
    return total


ZERO_DIFFERENCES = {
    "plain": (gs.Deterministic(lambda x: 1e10 + abs(x).sum()), {}),
    "vectorised": (gs.Deterministic(lambda X: 1e10 + np.abs(X).sum(axis=1), vectorized=True), {}),
    "compiled": (gs.Deterministic(high_up), {"compiled": True}),
    "sum": (gs.FiniteSum(lambda x, i: 1e10 + abs(x[i]), 4), {}),
}


@pytest.mark.parametrize("path", ZERO_DIFFERENCES)
@pytest.mark.parametrize(
    "method",
    [gs.GFM(1e-7, 1e-3), gs.GFMPlus(1e-7, 1e-3, 5, 2), gs.ZOO2NC(1e-6, 10, rho=1e-7), gs.OnePhase(1e-7, 1e-3)],
    ids=lambda method: method.name,
)
def test_a_run_whose_differences_are_all_zero_warns(path, method):
    """10¹⁰ + Σ|x_i| in float64 at δ = 10⁻⁷: the budget is spent and x never moves, which must not happen in silence."""
    oracle, more = ZERO_DIFFERENCES[path]
    with pytest.warns(RuntimeWarning, match=PRECISION):
        gs.minimize(oracle, np.ones(4), method, max_evals=2_000, rng=0, **more)


@pytest.mark.parametrize("method", BY_VALUES)
def test_far_probes_raise_no_false_alarm(method):
    """Values far away, where only probes look, say nothing about rounding near x: |F| there is about 8."""

    def f(x):
        return abs(x - 1).sum() + 1e16 * max(np.linalg.norm(x - X0) - 5, 0.0)

    _, sentences = warned(lambda: gs.minimize(gs.Deterministic(f), X0, method, max_evals=4_000, rng=0))
    assert not [sentence for sentence in sentences if "ounding" in sentence]


@pytest.mark.parametrize("slope", [1e-165, 1e-200, 1e-300])
def test_bounds_from_tiny_gradients_are_not_zero(slope):
    """A gradient of norm √2·10⁻¹⁶⁵ squares to 0, but its norm is not 0."""
    oracle = gs.Deterministic(lambda x: slope * x.sum(), grad=lambda x: np.full(x.size, slope))
    truth = np.sqrt(2) * slope
    assert gs.min_norm_hull(oracle, [1.0, 2.0], 0.1, 20, rng=0).bound == pytest.approx(truth, rel=1e-6)
    certificate = gs.certify(oracle, [1.0, 2.0], 0.1, slope / 10, rng=0, max_evals=500)
    assert certificate.answer == "not shown"
    assert certificate.bound >= truth * (1 - 1e-9)


@pytest.mark.parametrize("kind", [gs.INGD, gs.PINGD, gs.CuttingPlane])
def test_methods_do_not_end_with_a_false_certificate_on_tiny_gradients(kind):
    slope = 1e-165
    oracle = gs.Deterministic(lambda x: slope * x.sum(), grad=lambda x: np.full(x.size, slope))
    res = gs.minimize(oracle, X0, kind(0.1, slope / 10), max_evals=500, rng=0)
    assert not res.success, res.message


@pytest.mark.parametrize("slope", [1e155, 1e160, 1e300])
def test_bounds_from_huge_slopes_are_right(slope):
    """Norms of 10¹⁶⁰ are numbers, though their squares are not."""
    truth = np.sqrt(2) * slope
    with_gradients = gs.Deterministic(lambda x: slope * x.sum(), grad=lambda x: np.full(x.size, slope))
    assert gs.min_norm_hull(with_gradients, [1.0, 2.0], 0.1, 20, rng=0).bound == pytest.approx(truth, rel=1e-6)
    certificate = gs.certify(with_gradients, [1.0, 2.0], 0.1, slope / 10, rng=0, max_evals=500)
    assert certificate.answer == "not shown"
    assert certificate.bound >= truth * (1 - 1e-9)


@pytest.mark.parametrize("slope", [1e155, 1e160, 1e300])
def test_values_of_huge_slopes_raise_no_overflow(slope):
    oracle = gs.Deterministic(lambda x: slope * x.sum())
    assert gs.certify(oracle, [1.0, 2.0], 0.1, slope / 10, rng=0, max_evals=500).answer == "not shown"
    estimate = gs.smoothed_gradient_norm(oracle, [1.0, 2.0], 0.1, 400, rng=0)
    assert estimate.upper >= 1.2 * slope


@pytest.mark.parametrize("method", BY_VALUES + BY_GRADIENTS)
@pytest.mark.parametrize("slope", [1e160, 1e-165])
def test_runs_on_extreme_slopes_neither_break_nor_succeed_falsely(method, slope):
    """No arithmetic warning, no complaint about a setting that the user never gave, no point that is not finite."""
    oracle = gs.Deterministic(lambda x: slope * abs(x - 1).sum(), grad=lambda x: slope * np.sign(x - 1))
    res, sentences = warned(lambda: gs.minimize(oracle, X0, method, max_evals=1_000, rng=0))
    assert not [sentence for sentence in sentences if "encountered" in sentence]
    assert np.isfinite(res.x).all()
    if res.success:  # a method that ends with a certificate: true at its point, a minimiser to within δ
        assert abs(res.x - 1).max() <= res.stationarity.delta


def steep(x):
    """Values whose difference is beyond the largest float."""
    return float(1.5e308 * np.sign(x[0] - 1))


@pytest.mark.parametrize(
    "method",
    [
        *BY_VALUES,
        gs.GFM(0.1, 0.01),
        gs.GFM(0.1, 0.01, 4, estimator="loo"),
        gs.GFMPlus(0.1, 0.01, 4, 2),
        gs.ZOO2NC(0.5, 5),
    ],
    ids=lambda method: method if isinstance(method, str) else f"{method.name}-{method.batch_size}",
)
def test_values_whose_difference_overflows_are_dropped(method):
    """Such a pair is no estimate: x stays finite, and no arithmetic warning or NaN reaches the user."""
    x0 = np.array([1.01, -2.0, 0.5, 4.0])
    res, sentences = warned(lambda: gs.minimize(gs.Deterministic(steep), x0, method, max_evals=600, rng=0))
    assert np.isfinite(res.x).all()
    assert not [sentence for sentence in sentences if "encountered" in sentence or "nan" in sentence]
    assert not res.success


def test_checks_of_values_whose_difference_overflows_show_nothing():
    oracle, x = gs.Deterministic(steep), [1.01, 2.0]
    calls = [
        lambda: gs.certify(oracle, x, 0.1, 0.1, rng=0, max_evals=500).answer == "not shown",
        lambda: gs.certify(oracle, x, 0.1, 0.1, rng=0, max_evals=500, f_lower=-1.5e308).answer == "not shown",
        lambda: not gs.smoothed_gradient_norm(oracle, x, 0.1, 100, rng=0).upper < np.inf,
        lambda: not gs.min_norm_hull(oracle, x, 0.1, 10, rng=0).bound < 1e280,  # rounding of values of 1.5e308
    ]
    for call in calls:
        shown, sentences = warned(call)
        assert shown
        assert not sentences


def test_calls_that_differ_in_the_last_bit_are_no_noise():
    """The verdict of `certify` is that of a run."""
    factors = itertools.cycle([1.0, 1.0 + 2.0**-52])

    def f(x):
        return float(np.abs(x).sum()) * next(factors)

    assert gs.minimize(f, np.full(2, 0.3), max_evals=100, rng=0).fun_stderr == 0
    assert gs.certify(f, np.full(2, 0.3), 0.2, 10.0, f_lower=0.0, rng=0).answer == "certified"
