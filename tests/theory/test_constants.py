"""Constants against closed forms, and what the theorems need of the parameters."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import betainc, betaln
from theory_arguments import SMALL, accuracies, dimensions, kappa, kinds, patient, plan, scales

from goldstein import theory

# Constants


@pytest.mark.parametrize(("d", "value"), [(1, 1), (2, 4 / math.pi), (3, 1.5), (123, 8.867), (784, 22.348)])
def test_kappa_has_its_known_values(d, value):
    assert kappa(d) == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize("d", [1, 2, 7, 100, 10**4, 10**6, 10**9])
def test_kappa_follows_the_recursion_of_ball_volumes(d):
    # V_k = V_{k−2}·2π/k turns κ_d = 2 V_{d−1}/V_d into κ_{d+2} = κ_d (d + 2)/(d + 1)
    assert kappa(d + 2) == pytest.approx(kappa(d) * (d + 2) / (d + 1), rel=1e-9)


def test_kappa_over_root_d_falls_from_one_to_its_limit():
    ratios = [kappa(d) / math.sqrt(d) for d in (1, 2, 3, 10, 100, 10**4, 10**6)]
    assert ratios[0] == pytest.approx(1)
    assert all(a > b for a, b in itertools.pairwise(ratios))
    assert ratios[-1] == pytest.approx(math.sqrt(2 / math.pi), rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 3, 20, 500])
def test_smoothness_is_attained_at_a_kink_and_never_exceeded(d):
    # f = L|e·x| has ∇f_δ = L sign(s) I_{(s/δ)²}(1/2, (d + 1)/2) e at s = e·x, so the slope from the kink is ∇f_δ/s
    L, delta = 3.0, 0.2
    s = delta * np.array([1e-5, 1e-3, 0.1, 0.5, 1.0])
    slopes = L * betainc(0.5, (d + 1) / 2, (s / delta) ** 2) / s
    bound = theory.constants(d, L, delta).smoothness
    assert slopes[0] == pytest.approx(bound, rel=1e-6)
    assert (slopes <= bound * (1 + 1e-12)).all()


@pytest.mark.parametrize("d", [1, 2, 3, 20, 500])
def test_second_moment_covers_linear_functions_within_the_poincare_factor(d):
    # F = L e·x has g = L d (e·w) w and E(e·w)² = 1/d, so E‖g‖² = d L²
    found = theory.constants(d, 3.0, 0.2).second_moment
    assert d * 9.0 <= found <= d * 9.0 * (d / (d - 1) if d > 1 else 1) * (1 + 1e-12)


def test_second_moment_is_nearly_attained_by_the_geodesic_distance():
    d = 20
    mean = quad(lambda u: math.asin(u) ** 2 * (1 - u * u) ** ((d - 3) / 2), -1, 1)[0] / math.exp(
        betaln(0.5, (d - 1) / 2)
    )
    assert 0.999 < d**2 * mean / theory.constants(d, 1, 1).second_moment < 1


def test_mean_square_is_attained_by_a_short_step_across_a_kink():
    d, L, delta, h = 6, 3.0, 0.2, 1e-6
    w = np.random.default_rng(0).standard_normal((100, d))
    w /= np.linalg.norm(w, axis=1)[:, None]
    assert (delta * abs(w[:, 0]) > h).all()

    def g(s):  # the estimate for L|e·x| at e·x = s
        return d / (2 * delta) * L * (abs(s + delta * w[:, :1]) - abs(s - delta * w[:, :1])) * w

    change = np.linalg.norm(g(h / 2) - g(-h / 2), axis=1)
    assert change == pytest.approx(theory.constants(d, L, delta).mean_square * h, rel=1e-6)


@pytest.mark.parametrize("d", [1, 2, 50])
def test_bias_is_attained_by_the_norm_at_its_minimum(d):
    radius = quad(lambda r: r * d * r ** (d - 1), 0, 1)[0]  # E‖u‖ in the unit ball
    assert theory.constants(d, 3.0, 0.2).bias == pytest.approx(3.0 * 0.2 * radius)


@patient
@given(d=dimensions, L=scales, delta=scales)
def test_sharp_constants_never_exceed_the_papers(d, L, delta):
    sharp, paper = theory.constants(d, L, delta), theory.constants(d, L, delta, kind="paper")
    assert sharp.smoothness <= paper.smoothness
    assert sharp.second_moment <= paper.second_moment
    assert sharp.bias <= paper.bias
    assert sharp.mean_square == paper.mean_square


def test_paper_constants_are_those_of_equation_4():
    c = theory.constants(4, 3, 0.5, kind="paper")
    assert c.second_moment == pytest.approx(40.106 * 4 * 9, rel=1e-4)
    assert (c.smoothness, c.mean_square, c.bias) == (12, 24, 1.5)


# What the theorems need of the parameters


@patient
@given(d=dimensions, L=scales, delta=scales, share=accuracies, gap=scales, kind=kinds)
def test_star_is_negative_as_printed_and_nonnegative_as_repaired(d, L, delta, share, gap, kind):
    arguments = {"d": d, "L": L, "delta": delta, "epsilon": share * L, "gap": gap, "constants": kind}
    printed, repaired = plan("gfm+", parameters="printed", **arguments), plan("gfm+", **arguments)
    assert printed.star < 0
    assert repaired.star >= 0
    for p in (printed, repaired):
        c, eta, m, b = p.constants, *(p.parameters[k] for k in ("step_size", "epoch_length", "batch_size"))
        assert p.star == pytest.approx(1 - c.smoothness * eta - m * (eta * c.mean_square) ** 2 / b, abs=1e-9)
    assert "none proved" in printed.target
    assert "none proved" not in repaired.target


@patient
@given(d=dimensions, L=scales, delta=scales, share=accuracies, gap=scales, kind=kinds)
def test_gfm_plus_meets_the_bound_of_equation_7(d, L, delta, share, gap, kind):
    p = plan("gfm+", d=d, L=L, delta=delta, epsilon=share * L, gap=gap, constants=kind)
    first = 2 * (gap + L * delta) / (p.parameters["step_size"] * p.iterations)
    second = p.constants.second_moment / p.parameters["large_batch_size"]
    assert first + second <= (share * L) ** 2 * (1 + 1e-12)


@patient
@given(d=dimensions, L=scales, delta=scales, share=accuracies, gap=scales, kind=kinds, B=st.integers(1, 10**4))
def test_gfm_meets_the_bound_of_gradient_descent_with_noise(d, L, delta, share, gap, kind, B):
    p = plan("gfm", d=d, L=L, delta=delta, epsilon=share * L, gap=gap, constants=kind, batch_size=B)
    c, eta, T = p.constants, p.parameters["step_size"], p.iterations
    # f_δ(x⁺) ≤ f_δ(x) − η⟨∇f_δ, g⟩ + L_δη²/2 ‖g‖² with E‖g‖² ≤ σ² alone, or ≤ ‖∇f_δ‖² + σ²/B and η ≤ 1/L_δ
    rate, noise = (1, 0.5) if B == 1 else (2, 1)
    bound = rate * (gap + L * delta) / (eta * T) + noise * c.smoothness * eta * c.second_moment / B
    assert bound <= (share * L) ** 2 * (1 + 1e-12)
    if B > 1:
        assert eta * c.smoothness <= 1 + 1e-12


def test_a_large_batch_saves_rounds_of_gfm():
    single, batch = plan("gfm", **SMALL), plan("gfm", **SMALL, batch_size=500)
    assert batch.iterations < single.iterations / 50
    assert batch.method.batch_size == 500
    assert batch.evaluations == 2 * 500 * batch.iterations
    assert batch.parameters["step_size"] == 1 / batch.constants.smoothness


@patient
@given(d=dimensions, L=scales, delta=scales, share=accuracies, R=scales, kind=kinds)
def test_one_phase_meets_the_bound_on_the_value_gap(d, L, delta, share, R, kind):
    p = plan("one-phase", d=d, L=L, delta=delta, epsilon=share * L, radius=R, constants=kind)
    eta, T, variance = p.parameters["step_size"], p.iterations, p.constants.second_moment
    gap = R**2 / (2 * eta * T) + eta * variance / 2 + L * p.parameters["delta"]
    assert gap / delta <= share * L * (1 + 1e-12)
    assert p.output == "average"


def test_printed_theorem_2_misses_its_own_bound():
    p = plan("one-phase", d=20, L=1, delta=0.4, epsilon=0.5, radius=1, parameters="printed")
    eta, T = p.parameters["step_size"], p.iterations
    gap = 1 / (2 * eta * T) + eta * p.constants.second_moment / 2 + 2 * p.parameters["delta"]
    assert gap > 3 * 0.4 * 0.5
