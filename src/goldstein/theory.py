"""Constants and plans: parameters and exact cost, straight from the theorems.

"The paper" is Chen, Xu, Luo, "Faster Gradient-Free Algorithms for Nonsmooth Nonconvex Stochastic Optimization" (ICML
2023). Setting: f(x) = E F(x; ξ) on R^d, F(·; ξ) is L(ξ)-Lipschitz, E L(ξ)² ≤ L², Δ = f(x0) − inf f,
R = dist(x0, argmin f). Cost is counted in values of F: a two-point estimate costs 2. Departures from the paper:

- Theorem 1 needs the term (*) of Corollary 3 to be nonnegative, that is L_δ η + m η² M_δ²/b ≤ 1. With η = √b'/(m M_δ)
  the first summand is r/m, r = L_δ √b'/M_δ, and the second is b'/(mb). Printed, m = ⌈r⌉ and b = ⌈2b'/m⌉ make them
  about 1 and 1/2. Repaired, m = ⌈2r⌉ makes both at most 1/2.
- Theorem 2 (GFM in function value): R²/(2ηT) + ησ²/2 at η = R/(σ√T) is Rσ/√T, not half of it, so the printed
  δ0 = ζ/(4L) needs T = ⌈4σ²R²/ζ²⌉. Repaired, δ0 = ζ/(10L): for convex f, f ≤ f_δ0 ≤ f + Lδ0, so smoothing costs
  0.1 ζ and T0 = ⌈σ²R²/(0.9 ζ)²⌉ leaves 0.9 ζ for the rest.
- Theorems 3 and 4 (warm start) name no ζ. Phase 1 costs B/ζ² with B = 2σ²R²/0.81 and phase 2 costs a(ζ + Lδ) to
  leading order, so ζ* = (2B/a)^(1/3).
- One phase: Goldstein's lemma, dist(0, ∂_δ f(x)) ≤ (f(x) − inf f)/δ, lets phase 1 alone do for convex f, ζ = δε.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import poch

RUN_LIMIT = 10**9  # evaluations above which Plan.run asks for an explicit max_evals
SLACK = 0.9  # share of ζ that phase 1 leaves to the optimisation error; smoothing takes the rest


@dataclass(frozen=True)
class Constants:
    """What is known about f_δ and its two-point estimator g; made by `constants`.

    Attributes
    ----------
    smoothness, second_moment : float
        L_δ, the Lipschitz constant of ∇f_δ, and σ² ≥ E‖g(x; w, ξ)‖².
    mean_square, bias : float
        M_δ, with E‖g(x; w, ξ) − g(y; w, ξ)‖² ≤ M_δ² ‖x − y‖², and a bound on sup |f_δ − f|.
    kind : str
        "sharp" or "paper".
    """

    smoothness: float
    second_moment: float
    mean_square: float
    bias: float
    kind: str


def constants(d: int, L: float, delta: float, kind: str = "sharp") -> Constants:
    """Return the constants that every plan is built on.

    Parameters
    ----------
    d : int
        Dimension.
    L : float
        Root mean square of the Lipschitz constants of F(·; ξ).
    delta : float
        Smoothing radius δ.
    kind : {"sharp", "paper"}, optional
        "paper": equation (4) of the paper with c = 1. "sharp": L_δ = κ_d L/δ with κ_d = 2 V_{d−1}/V_d ≤ √d, V_k
        the volume of the unit ball of R^k, since two balls of radius δ whose centres lie h apart differ in a share
        of at most κ_d h/δ of their volume, attained by f = L|e·x|; and σ² = L² d²/(d − 1), since
        w ↦ F(x + δw) − F(x − δw) is odd and 2δL-Lipschitz on the sphere, whose Poincaré constant is 1/(d − 1).

    Returns
    -------
    Constants

    Examples
    --------
    >>> from goldstein import theory
    >>> c = theory.constants(d=3, L=1, delta=0.5)
    >>> c.smoothness, c.second_moment, c.mean_square, c.bias
    (3.0, 4.5, 6.0, 0.375)
    """
    d, L, delta = _positive("d", d, Integral), _positive("L", L), _positive("delta", delta)
    if kind not in ("sharp", "paper"):
        raise ValueError(f'The constants are "sharp" or "paper", got {kind!r}.')
    try:
        mean_square = d * L / delta  # M_δ, Prop. 4
        if kind == "paper":
            smoothness = math.sqrt(d) * L / delta  # L_δ, eq. (4) with c = 1
            second_moment = 16 * math.sqrt(2 * math.pi) * d * L**2  # σ², Prop. 3
            bias = delta * L  # Prop. 2
        else:
            # theory: κ_d = (2/√π) Γ(d/2 + 1)/Γ((d + 1)/2); the minimum only takes off rounding
            kappa = min(2 / math.sqrt(math.pi) * float(poch((d + 1) / 2, 0.5)), math.sqrt(d))
            smoothness = kappa * L / delta
            second_moment = (d * d / (d - 1) if d > 1 else 1.0) * L**2  # theory: Poincaré on the sphere
            bias = delta * L * (d / (d + 1))  # theory: E‖u‖ = d/(d + 1) in the unit ball
    except OverflowError:
        smoothness = second_moment = mean_square = bias = math.inf
    if not 0 < min(smoothness, second_moment, bias) <= max(second_moment, mean_square, bias) < math.inf:
        raise ValueError("With this d, L and delta a constant leaves the range of floating point: rescale.")
    return Constants(smoothness, second_moment, mean_square, bias, kind)


_constants = constants  # `plan` has an argument of that name


@dataclass(frozen=True)
class Plan:
    """A method with the parameters of its theorem, and what it costs; made by `plan`.

    Attributes
    ----------
    name, target : str
        The method asked for, and what is guaranteed.
    method, parameters : Method, dict
        The method, ready for `minimize`, and the numbers behind it.
    iterations, evaluations : int
        T (for a warm start T0 + T), and the exact number of values of F that all of them take.
    expected_evaluations : float
        Exact mean number of values of F under the output rule.
    d, constants : int, Constants
        What the plan was computed from.
    output : str
        "random": uniform over the iterates (of phase 2), drawn first and the run stopped there; or "average".
    star : float or None
        (*)·2/η = 1 − L_δ η − m η² M_δ²/b for GFM+; the proof of Theorem 1 needs it nonnegative.
    note, defects : str, tuple of str
        What the plan decided on its own; what is wrong with printed parameters.
    """

    name: str
    target: str
    method: Any
    parameters: dict[str, int | float]
    iterations: int
    evaluations: int
    expected_evaluations: float
    d: int
    constants: Constants
    output: str = "random"
    star: float | None = None
    note: str = ""
    defects: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = [("guarantee", self.target), ("constants", self.constants.kind), ("output", self.output)]
        if self.star is not None:
            rows.append(("(*) · 2/η", f"{self.star:.3g}"))
        numbers = {**self.parameters, "iterations": self.iterations, "evaluations": self.evaluations}
        numbers["expected evaluations"] = self.expected_evaluations
        rows += [(key, _number(value)) for key, value in numbers.items()]
        rows += [("note", text) for text in (self.note, *self.defects) if text]
        width = max(len(key) for key, _ in rows)
        return "\n".join([f"Plan for {self.name}, d = {self.d}", *(f"  {k:<{width}}  {v}" for k, v in rows)])

    def run(self, fun: Any, x0: Any, *, rng: Any = None, max_evals: int | None = None, **kwargs: Any) -> Any:
        """Run `minimize(fun, x0, ...)` with the plan's method, iterations and output rule, and return its result.

        A plan of more than 10⁹ evaluations needs `max_evals`; a run that it cuts short has no guarantee.
        """
        if np.size(x0) != self.d:
            raise ValueError(f"This plan is for d = {self.d}, but x0 has {np.size(x0)} entries.")
        if max_evals is None and self.evaluations > RUN_LIMIT:
            raise ValueError(
                f"This plan takes {_number(self.evaluations)} evaluations, more than {RUN_LIMIT:,}: plan with a "
                "larger epsilon or delta, or set max_evals."
            )
        from goldstein.minimize import minimize

        limits: dict[str, Any] = {"max_iter": self.iterations, "max_evals": max_evals}
        return minimize(fun, x0, method=self.method, output=self.output, rng=rng, **limits, **kwargs)


@dataclass(frozen=True)
class _Problem:
    """The checked arguments of `plan`."""

    d: int
    L: float
    delta: float
    epsilon: float
    gap: float
    radius: float
    constants: Constants
    printed: bool
    batch_size: int

    def plan(self, name: str, method: Any, numbers: Any, T: int, cost: int, mean: float, **more: Any) -> Plan:
        target = f"{more.pop('claim', 'E‖∇f_δ(x_out)‖² ≤ ε²')}, δ = {self.delta:g}, ε = {self.epsilon:g}"
        if more.get("defects"):
            target = f"none proved (the paper claims {target})"
        return Plan(name, target, method, numbers, T, cost, mean, self.d, self.constants, **more)


def _gfm(p: _Problem) -> Plan:
    from goldstein.methods.gfm import GFM

    if p.printed:
        raise ValueError('The paper prints no parameters for "gfm": use parameters="repaired".')
    c, B, gap = p.constants, p.batch_size, p.gap + p.L * p.delta  # Δ_δ, eq. (4)
    if B == 1:  # theory: E‖∇f_δ(x_R)‖² ≤ Δ_δ/(ηT) + L_δ η σ²/2, each half of ε²
        eta = p.epsilon**2 / (c.smoothness * c.second_moment)
        T = _ceil(2 * gap / (eta * p.epsilon**2))
    else:  # theory: for η ≤ 1/L_δ, E‖∇f_δ(x_R)‖² ≤ 2Δ_δ/(ηT) + L_δ η σ²/B
        eta = min(1 / c.smoothness, B * p.epsilon**2 / (2 * c.smoothness * c.second_moment))
        T = _ceil(4 * gap / (eta * p.epsilon**2))
    settings: dict[str, Any] = {"delta": p.delta, "step_size": eta, "batch_size": B}
    cost, mean = 2 * T * B, float(B * (T - 1))  # Alg. 1: 2B values a step; E R = (T − 1)/2 steps
    return p.plan("gfm", GFM(**settings), settings, T, cost, mean)


def _gfm_plus(p: _Problem) -> Plan:
    from goldstein.methods.gfm_plus import GFMPlus

    c, gap = p.constants, p.gap + p.L * p.delta  # Δ_δ, eq. (4)
    large = _ceil(2 * c.second_moment / p.epsilon**2)  # b', Thm. 1
    r = c.smoothness / c.mean_square * math.sqrt(large)
    m = math.ceil(r if p.printed else 2 * r)  # Thm. 1 prints ⌈r⌉; nothing but ⌈·⌉, so that (*) ≥ 0 to the last bit
    b = -(-2 * large // m)  # Thm. 1
    eta = math.sqrt(large) / (m * c.mean_square)  # Thm. 1
    T = _ceil(4 * gap / (eta * p.epsilon**2))  # Thm. 1
    star = 1 - r / m - large / (m * b)  # Cor. 3: r/m = L_δ η, b'/(mb) = m η² M_δ²/b
    defects = (
        f"Theorem 1's printed parameters make the term (*) of its proof negative, (*)·2/η = {star:.3g}, so the proof "
        "does not cover them.",
    )
    settings: dict[str, Any] = {"delta": p.delta, "step_size": eta, "epoch_length": m, "batch_size": b}
    settings["large_batch_size"] = large
    cost, mean = _recursive_cost(T, m, b, large), _recursive_mean_cost(T, m, b, large)
    flaws = defects if star < 0 else ()
    return p.plan("gfm+", GFMPlus(**settings), settings, T, cost, mean, star=star, defects=flaws)


def _recursive_cost(steps: int, m: int, b: int, large: int) -> int:
    """Return the values of F in `steps` iterations of Algorithm 2: 2b' at a restart, 4b at any other."""
    restarts = -(-steps // m)
    return 2 * (restarts * large + 2 * b * (steps - restarts))


def _recursive_mean_cost(T: int, m: int, b: int, large: int) -> float:
    """Return the mean of `_recursive_cost(R, ...)` over R uniform on 0..T−1."""
    epochs, rest = divmod(T - 1, m)
    restarts = m * epochs * (epochs + 1) // 2 + rest * (epochs + 1)  # Σ ⌈R/m⌉
    steps = T * (T - 1) // 2  # Σ R
    return 2 * (restarts * large + 2 * b * (steps - restarts)) / T


def _one_phase(p: _Problem, zeta: float) -> Plan:
    """Plan GFM on convex f for E f(x̄) − inf f ≤ ζ, x̄ the average iterate."""
    from goldstein.methods.gfm import GFM

    R, variance = p.radius, p.constants.second_moment
    defects: tuple[str, ...] = ()
    if p.printed:
        T, delta = _ceil(2 * math.sqrt(variance) * R**2 / zeta), zeta / (4 * p.L)  # Thm. 2
        defects = (
            f"Theorem 2's printed T = ⌈2σR²/ζ⌉ = {_number(T)} has the unit of a length and does not follow from its "
            f"proof, which needs ⌈4σ²R²/ζ²⌉ = {_number(_ceil(4 * variance * (R / zeta) ** 2))}.",
        )
    else:
        T = _ceil(variance * (R / (SLACK * zeta)) ** 2)  # theory: Rσ/√T ≤ 0.9 ζ
        delta = zeta / (10 * p.L)  # theory: L δ0 ≤ 0.1 ζ
    eta = R / math.sqrt(variance * T)  # Thm. 2
    settings: dict[str, Any] = {"delta": delta, "step_size": eta, "batch_size": 1}
    more = {"claim": "E dist(0, ∂_δ f(x_out)) ≤ ε", "output": "average", "defects": defects}
    return p.plan("one-phase", GFM(**settings), {"zeta": zeta} | settings, T, 2 * T, float(2 * T), **more)


def _warm_start(p: _Problem, second: str) -> Plan:
    from goldstein.methods.warm_start import WarmStart

    c = p.constants
    if second == "gfm":  # theory: a = 4 L_δ σ²/ε⁴
        zeta = math.cbrt(p.radius**2 * p.epsilon**4 / (SLACK**2 * c.smoothness))
    else:  # theory: a = 40√2 M_δ σ/ε³, for any m
        root = math.sqrt(c.second_moment / 2)
        zeta = math.cbrt(root * p.radius**2 * p.epsilon**3 / (10 * SLACK**2 * c.mean_square))
    if zeta >= p.gap:
        note = f"phase 1 is skipped: its target ζ* = {zeta:.3g} is no better than the gap {p.gap:.3g} at x0"
        return replace(PLANS[second](p), name=f"ws-{second}", note=note)
    one = _one_phase(p, zeta)
    two = PLANS[second](replace(p, gap=zeta, printed=p.printed and second == "gfm+"))  # Thms. 3 and 4: Δ = ζ
    first = {f"first_{key}": value for key, value in one.parameters.items() if key != "zeta"}
    counts = {"first_iterations": one.iterations, "second_iterations": two.iterations}
    return p.plan(
        f"ws-{second}",
        WarmStart(one.method, two.method, iterations=one.iterations),  # Algs. 3 and 4
        {"zeta": zeta} | first | two.parameters | counts,
        one.iterations + two.iterations,
        one.evaluations + two.evaluations,
        one.expected_evaluations + two.expected_evaluations,
        star=two.star,
        defects=one.defects + two.defects,
    )


PLANS: dict[str, Callable[[_Problem], Plan]] = {
    "gfm": _gfm,
    "gfm+": _gfm_plus,
    "ws-gfm": partial(_warm_start, second="gfm"),
    "ws-gfm+": partial(_warm_start, second="gfm+"),
    "one-phase": lambda p: _one_phase(p, p.delta * p.epsilon),  # theory: dist(0, ∂_δ f(x)) ≤ (f(x) − inf f)/δ
}
CONVEX = {"ws-gfm", "ws-gfm+", "one-phase"}


def plan(
    method: str,
    *,
    d: int,
    L: float,
    gap: float | None = None,
    delta: float,
    epsilon: float,
    radius: float | None = None,
    constants: str = "sharp",
    parameters: str = "repaired",
    batch_size: int = 1,
) -> Plan:
    """Return the parameters and the exact cost with which a method reaches (δ, ε)-Goldstein stationarity.

    Parameters
    ----------
    method : {"gfm", "gfm+", "ws-gfm", "ws-gfm+", "one-phase"}
        The last three are for convex f and need `radius`.
    d, L, constants
        As in `constants`, which calls the last one `kind`.
    gap : float, optional
        Δ = f(x0) − inf f or an upper bound; L·radius when not given, and never more than that.
    delta, epsilon : float
        The goal: E dist(0, ∂_δ f(x_out)) ≤ ε.
    radius : float, optional
        R = dist(x0, argmin f) or an upper bound.
    parameters : {"repaired", "printed"}, optional
        "printed": as the paper prints them, with a warning that says what is wrong. Where it prints none (ζ,
        and GFM as a second phase) ours are used.
    batch_size : int, optional
        Pairs in each step of "gfm": more of them mean fewer, longer steps.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from goldstein import theory
    >>> plan = theory.plan("gfm+", d=10, L=1, gap=1, delta=0.5, epsilon=0.3)
    >>> plan.iterations, plan.parameters["epoch_length"], plan.evaluations
    (764, 9, 191370)
    """
    if method not in PLANS:
        raise ValueError(f"There is no plan for {method!r}; there is one for {', '.join(PLANS)}.")
    if parameters not in ("repaired", "printed"):
        raise ValueError(f'parameters is "repaired" or "printed", got {parameters!r}.')
    batch_size = _positive("batch_size", batch_size, Integral)
    if batch_size != 1 and method != "gfm":
        raise ValueError(f'batch_size can be chosen for "gfm" only; "{method}" takes it from its theorem.')
    c, epsilon = _constants(d, L, delta, constants), _positive("epsilon", epsilon)
    R = math.inf if radius is None else _positive("radius", radius)
    least = min(math.inf if gap is None else _positive("gap", gap), float(L) * R)
    if radius is None and (method in CONVEX or gap is None):
        wanted = "" if method in CONVEX else "gap = f(x0) − inf f, or "
        raise ValueError(f'"{method}" needs {wanted}radius = dist(x0, argmin f).')
    try:
        problem = _Problem(int(d), float(L), float(delta), epsilon, least, R, c, parameters == "printed", batch_size)
        made = PLANS[method](problem)
    except (OverflowError, ZeroDivisionError):
        raise ValueError(
            f"With L = {L:g}, delta = {delta:g}, epsilon = {epsilon:g} the plan leaves the range of floating point: "
            "take a larger epsilon or delta, or rescale."
        ) from None
    for sentence in made.defects:
        warnings.warn(sentence, UserWarning, stacklevel=2)
    return made


def _ceil(x: float) -> int:
    """Round up, except that a whole number missed by rounding error stays what it is."""
    if not math.isfinite(x):
        raise OverflowError
    near = round(x)
    return max(1, near if abs(x - near) <= 4 * math.ulp(x) else math.ceil(x))


def _number(value: float) -> str:
    """Write a number for a table: whole ones in full up to 15 digits, others with six significant ones."""
    if value >= 1e15 or (isinstance(value, float) and value < 1e4):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _positive(name: str, value: Any, kind: type = Real) -> Any:
    """Return a number (Real) or a whole number (Integral) as Python's own, or say what is wrong with it."""
    if isinstance(value, bool) or not issubclass(type(value), kind):
        raise TypeError(f"{name} must be a {'' if kind is Real else 'whole '}number, got {type(value).__name__}.")
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}.")
    return float(value) if kind is Real else int(value)
