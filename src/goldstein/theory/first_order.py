"""Plans of the methods that ask for gradients: SINGD, PSINGD, O2NC, and those that also need exact values.

With E L(ξ)² ≤ L², gradients satisfy E‖∇F(x; ξ)‖² ≤ L² =: G², noise included. Where ε > L every point is stationary,
and plans whose formulas need ε ≤ L aim at L.
"""

from __future__ import annotations

import math
from typing import Any

from goldstein.methods.cutting_plane import MOST_VARIABLES, CuttingPlane
from goldstein.methods.ingd import INGD, PINGD
from goldstein.methods.o2nc import O2NC
from goldstein.methods.singd import PSINGD, SINGD
from goldstein.theory.plans import Goal, Plan, ceil

REGRET = {"ogd": 1.0, "adagrad": 2 * math.sqrt(2)}  # regret of a learner on a ball of radius D, in units of D G √M
SHARE = 0.01  # of ε for the bias of sifted gradients, and for rounding
DIFFERENCE = 1.03e-14  # in |F|: what passes for no difference of two values, and their rounding
BLOCK_CLAIM = "E dist(0, ∂_δ f(x_out)) ≤ ε, by the mean gradient of a block"


def singd(p: Goal) -> Plan:
    """Plan SINGD by its theorem (Zhang et al. 2020), which bounds the mean of ‖m_t‖.

    Its proof uses G only in E‖g‖² ≤ G²: "sharp" takes G = L, "paper" its authors' G² = L² + s². In short: the integral
    of 1/(p√u + q) is concave in u, so that the steps telescope to avg E h(‖m‖) ≤ pΔ/T + G/(8αβT) + αG/(8β) with
    α = 1 − β and h(r) = r²/(r + 4G) convex, and the parameters make avg E‖m‖ < ε/8. What m holds from more than K
    steps ago weighs β^K < ε/(15G), and the noise of the rest is below ε/11: less than ε/3 in all.
    """
    return _singd(p, SINGD, "the gradient must satisfy ⟨g(x; ξ), v⟩ = F'(x; v; ξ) along the steps taken")


def psingd(p: Goal) -> Plan:
    """Plan PSINGD with the parameters of SINGD."""
    return _singd(p, PSINGD, "parameters of singd; the constants of Tian, Zhou and So (2022) are not verified")


def _singd(p: Goal, method: Any, note: str) -> Plan:
    epsilon = min(p.epsilon, p.L)
    G = p.L if p.constants.kind == "sharp" else math.hypot(p.L, p.gradient_noise)
    log = math.log(16 * G / epsilon)
    P = 64 * G**2 * log / (p.delta * epsilon**2)
    least = 2**13 * (G / epsilon) ** 4 * log  # so that the first gradient, ‖m_1‖² ≤ G² in the mean, is forgotten
    T = ceil(max(2**16 * G**3 * p.gap * log / (epsilon**4 * p.delta), least))
    settings = {"delta": p.delta, "p": P, "q": 4 * G * P, "beta": 1 - epsilon**2 / (64 * G**2)}
    if settings["beta"] == 1:
        raise OverflowError
    planned = method(**settings)
    far = max(T - planned.lookback - 1, 0)  # most iterations after which the answer may stand
    mean = (far * (far + 1) // 2 + far) / T  # n iterations take n + 1 gradients; none at all take none
    more = {"gradients": T + 1, "oracle": "gradients", "claim": "E dist(0, ∂_δ f(x_out)) ≤ ε", "note": note}
    return p.plan(method.name, planned, settings | {"lookback": planned.lookback}, T, T + 1, mean, **more)


def o2nc(p: Goal) -> Plan:
    """Plan O2NC with restarts: avg E‖block mean of ∇f(z)‖ ≤ Δ/(DMK) + (c G + s)/√M, c the learner's regret.

    With `gradients="sift"` see `sifted_o2nc`.

    In a block, f changes by Σ⟨∇f(z), Δ⟩ in the mean, which is regret + Σ⟨g, u⟩ for every u of length D; take u against
    the mean of ∇f(z), and Σ⟨g − ∇f(z), u⟩ ≤ D s √M in the mean. OGD from 0 has regret D²/(2η) + ηMG²/2 = D G √M,
    AdaGrad-norm 2√2 D √(Σ‖g‖²). With D = δ/M, ε/3 goes to the first term and 2ε/3 to the second.
    """
    if p.gradients == "sift":
        return sifted_o2nc(p)
    G = p.L
    M = ceil((1.5 * (REGRET[p.learner] * G + p.gradient_noise) / p.epsilon) ** 2)
    K = ceil(3 * p.gap / (p.delta * p.epsilon))
    settings = {"delta": p.delta, "block_length": M} | learner_settings(p.learner, p.delta / (M * G * math.sqrt(M)))
    more = {"gradients": M * K, "oracle": "gradients", "claim": BLOCK_CLAIM}
    return p.plan("o2nc", O2NC(**settings), settings | {"blocks": K}, M * K, M * K, M * (K + 1) / 2, **more)


def learner_settings(learner: str, eta: float) -> dict[str, Any]:
    """Return the settings of a learner; "adagrad" finds its own step."""
    if learner == "ogd":
        return {"learner": learner, "step_size": eta}
    return {"learner": learner}


def sifted_o2nc(p: Goal) -> Plan:
    """Plan O2NC on f_ρ with gradients that are sifted from values; docs/sifting.md has the proofs.

    The walk begins at z + ρ'u, ρ' = ρ − 3h√d/2, so that all values lie within ρ of z. With L_ρ' = κ_d L/ρ', its mean
    is within β = √(13/24)·hd·L_ρ' of ∇f_ρ'(z), and E‖g‖² ≤ G² = L² + √d·βL/2, for any F. A bias of β adds 2β to the
    bound of `o2nc`, once for Δ and once for u: Δ_ρ/(DMK) + (c G + s)/√M + 2(β + rounding), with s ≤ G and
    D = (δ − ρ)/M. Of ε, one hundredth goes to 2β, another to rounding, and of the rest a third to the first term and
    two thirds to the second; h is as large as that and one hundredth of L² in G² allow. What rounding K up leaves over
    makes M smaller. One gradient takes d + 1 values at most, and fewer if no component has more than `sparsity` active
    coordinates.

    Rounding: a leaf is off by 2τ/h at most, where τ = 1e-14·|F| is the difference that passes for none, √d·2τ/h in all;
    the note says how large |F| may be for that. Intervals that are closed by mistake are not in the bound.
    """
    rho = 0.05 * p.delta
    nu = p.delta - rho
    root = math.sqrt(p.d)
    kappa = p.constants.smoothness * p.delta / p.L
    beta = min(0.5 * SHARE * p.epsilon, 2 * SHARE * p.L / root)
    h = beta * rho / (math.sqrt(13 / 24) * p.d * kappa * p.L + 1.5 * root * beta)  # β at ρ' = ρ − 3h√d/2
    G = p.L * math.sqrt(1 + root * beta / (2 * p.L))
    rest = (1 - SHARE) * p.epsilon - 2 * beta
    gap = p.gap + rho * p.L  # Δ_ρ
    K = ceil(3 * gap / (nu * rest))
    M = ceil(((REGRET[p.learner] + 1) * G / (rest - gap / (nu * K))) ** 2)
    each = sift_cost(p.d, p.sparsity)
    settings = {"delta": p.delta, "block_length": M} | learner_settings(p.learner, nu / (M * G * math.sqrt(M)))
    settings |= {"gradients": "sift", "rho": rho, "fd_step": h}
    largest = SHARE * p.epsilon * h / (4 * root * DIFFERENCE)
    note = (
        f"for values up to |F| = {largest:.2g} in double precision; without intervals closed by mistake, of which "
        "docs/sifting.md says how rare they are"
    )
    numbers = settings | {"blocks": K, "values_each": each}
    more = {"claim": BLOCK_CLAIM, "exact": False, "note": note}
    return p.plan("o2nc", O2NC(**settings), numbers, M * K, each * M * K, None, **more)


def sift_cost(d: int, sparsity: int | None) -> int:
    """Return how many values a sifted gradient takes at most: 2, and one for every interval that is opened.

    Level l of the bisection has 2^l intervals at most, and as many that hold one of the s coordinates that matter.
    """
    if sparsity is None:
        return d + 1
    levels = (d - 1).bit_length()  # ⌈log₂ d⌉
    return min(d + 1, 2 + sum(min(1 << level, sparsity) for level in range(levels)))


def ingd(p: Goal) -> Plan:
    """Plan INGD: fewer than 4Δ/(δε) moves; between two of them E‖m_k‖² ≤ 8L²/(3k + 8), begun anew every 48L²/ε²."""
    epsilon = min(p.epsilon, p.L)
    places = ceil(4 * p.gap / (p.delta * epsilon))  # a move lowers f by more than δε/4, and the last x has none
    segments = ceil(math.log(places / p.failure_probability))  # one fails with probability 1/18 < 1/e
    inner = ceil(48 * p.L**2 / epsilon**2) * segments
    settings: dict[str, Any] = {"delta": p.delta, "epsilon": p.epsilon, "lipschitz": p.L}
    note = "the gradient must satisfy ⟨∇f(x), v⟩ = f'(x; v) along the steps taken"
    gradients = places * (1 + inner)
    return _certifying(p, INGD(**settings), settings, places, gradients, 1 + gradients, note)  # f(x0), and the tests


def pingd(p: Goal) -> Plan:
    """Plan PINGD: fewer than 4Δ/(δε) moves, ⌈64L²/ε²⌉ ⌈2 ln(1/γ')⌉ gradients between two, γ' = γ/places."""
    epsilon = min(p.epsilon, p.L)
    places = ceil(4 * p.gap / (p.delta * epsilon))
    inner = ceil(64 * p.L**2 / epsilon**2) * ceil(2 * math.log(places / p.failure_probability))
    t = epsilon**2 / (128 * p.L**2)
    perturbed = min(1e-8, math.sqrt(t * (2 - t)) / 2)
    settings: dict[str, Any] = {"delta": p.delta, "epsilon": p.epsilon, "perturb_radius": perturbed}
    gradients = places * (1 + inner)
    return _certifying(p, PINGD(**settings), settings, places, gradients, 1 + gradients)


def cutting_plane(p: Goal) -> Plan:
    """Plan the cutting-plane method: at most 3Δ/(δε) moves, ⌈8d ln(8L/ε)⌉ cuts between two, a few draws for a cut.

    A draw gives a cut with probability s ≥ (ε/6)/(L + ε/2): the slopes along the segment have mean below ε/3 and are
    nowhere below −L, so that a share of them at least as large lies below ε/2. By Chernoff's bound, N cuts take at
    most μ/s draws with probability 1 − γ if (μ − N)² = 2μ ln(1/γ).
    """
    if p.d > MOST_VARIABLES:
        raise ValueError(f'"cutting-plane" is for at most {MOST_VARIABLES} variables, got d = {p.d}; use "pingd".')
    epsilon = min(p.epsilon, p.L)
    places = ceil(3 * p.gap / (p.delta * epsilon)) + 1
    cuts = ceil(8 * p.d * math.log(8 * p.L / epsilon))
    share = epsilon / (6 * p.L + 3 * epsilon)
    N = places * cuts
    log = -math.log(p.failure_probability)
    draws = ceil((N + log + math.sqrt(log**2 + 2 * N * log)) / share)
    settings: dict[str, Any] = {"delta": p.delta, "epsilon": p.epsilon}
    return _certifying(p, CuttingPlane(**settings), settings, places, places + draws, 1 + places + N)


def _certifying(
    p: Goal, method: Any, settings: dict[str, float], places: int, gradients: int, values: int, note: str = ""
) -> Plan:
    """Plan a method that ends by itself, at one of at most `places` points; an iteration of it is one gradient."""
    numbers: dict[str, Any] = settings | {"places": places, "failure_probability": p.failure_probability}
    more: dict[str, Any] = {"gradients": gradients, "exact": False, "oracle": "exact values and gradients"}
    more |= {"claim": f"dist(0, ∂_δ f(x_out)) ≤ ε with probability {1 - p.failure_probability:g}", "note": note}
    return p.plan(method.name, method, numbers, gradients, gradients + values, None, output="last", **more)
