"""Plans of the methods that ask for values: GFM, GFM+, their warm starts, the one-phase method and ZO-O2NC.

"The paper" is Chen, Xu, Luo (ICML 2023); the docstring of `goldstein.theory` says where these plans depart from it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.o2nc import ZOO2NC
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.warm_start import WarmStart
from goldstein.theory.first_order import BLOCK_CLAIM, REGRET, learner_settings
from goldstein.theory.plans import Goal, Plan, ceil, written

SLACK = 0.9  # share of ζ that phase 1 leaves to the optimisation error; smoothing takes the rest


def gfm(p: Goal) -> Plan:
    """Plan Algorithm 1, SGD on f_δ."""
    c = p.constants
    B = p.batch_size
    gap = p.gap + p.L * p.delta  # Δ_δ, eq. (4)
    if B == 1:  # theory: E‖∇f_δ(x_R)‖² ≤ Δ_δ/(ηT) + L_δ η σ²/2, each half of ε²
        eta = p.epsilon**2 / (c.smoothness * c.second_moment)
        T = ceil(2 * gap / (eta * p.epsilon**2))
    else:  # theory: for η ≤ 1/L_δ, E‖∇f_δ(x_R)‖² ≤ 2Δ_δ/(ηT) + L_δ η σ²/B
        eta = min(1 / c.smoothness, B * p.epsilon**2 / (2 * c.smoothness * c.second_moment))
        T = ceil(4 * gap / (eta * p.epsilon**2))
    settings: dict[str, Any] = {"delta": p.delta, "step_size": eta, "batch_size": B}
    mean = float(B * (T - 1))  # Alg. 1: 2B values a step; E R = (T − 1)/2 steps
    return p.plan("gfm", GFM(**settings), settings, T, 2 * T * B, mean)


def gfm_plus(p: Goal) -> Plan:
    """Plan Algorithm 2 by Theorem 1; with the coin of PAGE, m more iterations do.

    With probability 1/m of a restart the error e_t = E‖v_t − ∇f_δ(x_t)‖² obeys e_{t+1} ≤ (1 − 1/m)(e_t + M_δ² s_t/b) +
    σ²/(m b'), s_t = E‖x_{t+1} − x_t‖², whence Σ e_t ≤ m σ²/b' + (m − 1) Σ M_δ² s_t/b + T σ²/b'. The middle term is what
    (*) takes care of, as with the clock. The first one is new, and adds m ε²/(2T) to the bound.
    """
    c = p.constants
    gap = p.gap + p.L * p.delta  # Δ_δ, eq. (4)
    large = ceil(2 * c.second_moment / p.epsilon**2)  # b', Thm. 1
    r = c.smoothness / c.mean_square * math.sqrt(large)
    m = math.ceil(r if p.printed else 2 * r)  # Thm. 1 prints ⌈r⌉; nothing but ⌈·⌉, so that (*) ≥ 0 to the last bit
    b = -(-2 * large // m)  # Thm. 1
    eta = math.sqrt(large) / (m * c.mean_square)  # Thm. 1
    T = ceil(4 * gap / (eta * p.epsilon**2))  # Thm. 1
    star = 1 - r / m - large / (m * b)  # Cor. 3: r/m = L_δ η, b'/(mb) = m η² M_δ²/b
    defects = (
        f"Theorem 1's printed parameters make the term (*) of its proof negative, (*)·2/η = {star:.3g}, so the proof "
        "does not cover them.",
    )
    settings: dict[str, Any] = {"delta": p.delta, "step_size": eta, "epoch_length": m, "batch_size": b}
    settings["large_batch_size"] = large
    if p.restart == "coin":
        settings["restart"] = "coin"
        T += m
        most = T * max(2 * large, 4 * b)
        mean = _tossed_mean_cost(T, m, b, large)
        return p.plan("gfm+", GFMPlus(**settings), settings, T, most, mean, star=star, exact=False)
    cost = recursive_cost(T, m, b, large)
    mean = recursive_mean_cost(T, m, b, large)
    flaws = defects if star < 0 else ()
    return p.plan("gfm+", GFMPlus(**settings), settings, T, cost, mean, star=star, defects=flaws)


def recursive_cost(steps: int, m: int, b: int, large: int) -> int:
    """Return the values of F in `steps` iterations of Algorithm 2: 2b' at a restart, 4b at any other."""
    restarts = -(-steps // m)
    return 2 * (restarts * large + 2 * b * (steps - restarts))


def recursive_mean_cost(T: int, m: int, b: int, large: int) -> float:
    """Return the mean of `recursive_cost(R, ...)` over R uniform on 0..T−1."""
    epochs, rest = divmod(T - 1, m)
    restarts = m * epochs * (epochs + 1) // 2 + rest * (epochs + 1)  # Σ ⌈R/m⌉
    steps = T * (T - 1) // 2  # Σ R
    return 2 * (restarts * large + 2 * b * (steps - restarts)) / T


def _tossed_mean_cost(T: int, m: int, b: int, large: int) -> float:
    """Return the mean cost of R iterations, R uniform on 0..T−1: the first restarts, others with probability 1/m."""
    later = (2 * large + 4 * b * (m - 1)) / m
    return (T - 1) * (2 * large + later * (T - 2) / 2) / T


def one_phase(p: Goal) -> Plan:
    """Plan for E f(x̄) − inf f ≤ δε: then dist(0, ∂_δ f(x̄)) ≤ (f(x̄) − inf f)/δ does the rest."""
    return value_gap(p, p.delta * p.epsilon)


def value_gap(p: Goal, zeta: float) -> Plan:
    """Plan GFM on convex f for E f(x̄) − inf f ≤ ζ, x̄ the average iterate."""
    R = p.radius
    variance = p.constants.second_moment
    defects: tuple[str, ...] = ()
    if p.printed:
        T = ceil(2 * math.sqrt(variance) * R**2 / zeta)  # Thm. 2
        delta = zeta / (4 * p.L)  # Thm. 2
        defects = (
            f"Theorem 2's printed T = ⌈2σR²/ζ⌉ = {written(T)} has the unit of a length and does not follow from its "
            f"proof, which needs ⌈4σ²R²/ζ²⌉ = {written(ceil(4 * variance * (R / zeta) ** 2))}.",
        )
    else:
        T = ceil(variance * (R / (SLACK * zeta)) ** 2)  # theory: Rσ/√T ≤ 0.9 ζ
        delta = zeta / (10 * p.L)  # theory: L δ0 ≤ 0.1 ζ
    eta = R / math.sqrt(variance * T)  # Thm. 2
    settings: dict[str, Any] = {"delta": delta, "step_size": eta, "batch_size": 1}
    more = {"claim": "E dist(0, ∂_δ f(x_out)) ≤ ε", "output": "average", "defects": defects}
    return p.plan("one-phase", OnePhase(**settings), {"zeta": zeta} | settings, T, 2 * T, float(2 * T), **more)


def ws_gfm(p: Goal) -> Plan:
    """Plan Algorithm 4: GFM after a first phase."""
    # theory: phase 2 costs a = 4 L_δ σ²/ε⁴ for each unit of ζ
    zeta = math.cbrt(p.radius**2 * p.epsilon**4 / (SLACK**2 * p.constants.smoothness))
    skipped = replace(p, printed=False)
    return _warm_start(p, gfm(skipped) if zeta >= p.gap else gfm(replace(skipped, gap=zeta)), zeta)


def ws_gfm_plus(p: Goal) -> Plan:
    """Plan Algorithm 3: GFM+ after a first phase."""
    # theory: phase 2 costs a = 40√2 M_δ σ/ε³ for each unit of ζ, for any m
    root = math.sqrt(p.constants.second_moment / 2)
    zeta = math.cbrt(root * p.radius**2 * p.epsilon**3 / (10 * SLACK**2 * p.constants.mean_square))
    return _warm_start(p, gfm_plus(p if zeta >= p.gap else replace(p, gap=zeta)), zeta)


def _warm_start(p: Goal, two: Plan, zeta: float) -> Plan:
    """Put a first phase that aims at ζ before `two`, which starts from a gap of ζ; or none if x0 is that good."""
    name = f"ws-{two.name}"
    if zeta >= p.gap:
        note = f"phase 1 is skipped: its target ζ* = {zeta:.3g} is no better than the gap {p.gap:.3g} at x0"
        return replace(two, name=name, note=note)
    one = value_gap(p, zeta)
    settings: dict[str, Any] = {key: value for key, value in one.parameters.items() if key != "zeta"}
    first = {f"first_{key}": value for key, value in settings.items()}
    counts = {"first_iterations": one.iterations, "second_iterations": two.iterations}
    assert one.expected_evaluations is not None
    assert two.expected_evaluations is not None
    return p.plan(
        name,
        WarmStart(GFM(**settings), two.method, iterations=one.iterations),  # Algs. 3 and 4
        {"zeta": zeta} | first | two.parameters | counts,
        one.iterations + two.iterations,
        one.evaluations + two.evaluations,
        one.expected_evaluations + two.expected_evaluations,
        star=two.star,
        defects=one.defects + two.defects,
    )


def zo_o2nc(p: Goal) -> Plan:
    """Plan O2NC on f_ρ: ∂_ν f_ρ(x) ⊂ ∂_{ν+ρ} f(x), and the second moment of the estimator does not depend on ρ."""
    G = math.sqrt(p.constants.second_moment)
    rho = 0.05 * p.delta
    nu = p.delta - rho
    M = ceil((1.5 * (REGRET[p.learner] + 1)) ** 2 * p.constants.second_moment / p.epsilon**2)  # see first_order.o2nc
    K = ceil(3 * (p.gap + rho * p.L) / (nu * p.epsilon))  # Δ_ρ ≤ Δ + ρL
    D = nu / M
    settings: dict[str, Any] = {"delta": p.delta, "block_length": M, "rho": rho, "displacement": D}
    settings |= learner_settings(p.learner, D / (G * math.sqrt(M)))
    mean = float(M * (K + 1))  # K/2 + 1/2 blocks of 2M values, in the mean
    return p.plan("zo-o2nc", ZOO2NC(**settings), settings | {"blocks": K}, M * K, 2 * M * K, mean, claim=BLOCK_CLAIM)
