"""A plan: a method with the parameters of its theorem, what it costs, and how that is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from goldstein.estimate.constants import Constants
from goldstein.minimize import minimize

RUN_LIMIT = 10**9  # evaluations above which Plan.run asks for an explicit max_evals


@dataclass(frozen=True)
class Plan:
    """A method with the parameters of its theorem, and what it costs; made by `plan`.

    Attributes
    ----------
    name, target, claim : str
        The method asked for; what is guaranteed; the same without the values of δ and ε.
    method, parameters : Method, dict
        The method, ready for `minimize`, and the numbers behind it.
    iterations, evaluations : int
        T (for a warm start T0 + T), and the number of values and gradients of F that all of them take together: the
        exact number, or the worst case if not `exact`.
    gradients, values : int
        How many of the evaluations are gradients, and how many are values.
    exact : bool
        False: the run ends by itself, or tosses coins, and the evaluations are the most that it may take.
    expected_evaluations : float or None
        Exact mean number of evaluations under the output rule; None when only the worst case is known.
    oracle : str
        What the theorem asks for: "replayed values" (one ξ at two points or more, as every oracle but `Unreplayable`
        gives; a method that takes unequal noise with a warning has no guarantee then), "gradients" or "exact values and
        gradients".
    d, constants : int, Constants
        What the plan was computed from.
    output : str
        "random": uniform over what the method offers (the iterates, those of phase 2, the block means), drawn first
        and the run stopped there; "average"; or "last".
    star : float or None
        (*)·2/η = 1 − L_δ η − m η² M_δ²/b for GFM+; the proof of Theorem 1 needs it nonnegative.
    note, defects : str, tuple of str
        What the plan decided on its own or relies on; what is wrong with printed parameters.
    """

    name: str
    target: str
    claim: str
    method: Any
    parameters: dict[str, int | float | str]
    iterations: int
    evaluations: int
    expected_evaluations: float | None
    d: int
    constants: Constants
    gradients: int = 0
    exact: bool = True
    oracle: str = "replayed values"
    output: str = "random"
    star: float | None = None
    note: str = ""
    defects: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """How many of the evaluations are values."""
        return self.evaluations - self.gradients

    def __str__(self) -> str:
        rows = [("guarantee", self.target), ("oracle", self.oracle), ("constants", self.constants.kind)]
        rows.append(("output", self.output))
        if self.star is not None:
            rows.append(("(*) · 2/η", f"{self.star:.3g}"))
        most = "" if self.exact else "at most "
        numbers: dict[str, Any] = {**self.parameters, f"{most}iterations": self.iterations}
        numbers[f"{most}evaluations"] = self.evaluations
        if self.gradients and self.values:
            numbers |= {"of them gradients": self.gradients, "of them values": self.values}
        if self.expected_evaluations is not None:
            numbers["expected evaluations"] = float(round(self.expected_evaluations))
        rows += [(key, written(value)) for key, value in numbers.items()]
        rows += [("note", text) for text in (self.note, *self.defects) if text]
        width = max(len(key) for key, _ in rows)
        return "\n".join([f"Plan for {self.name}, d = {self.d}", *(f"  {k:<{width}}  {v}" for k, v in rows)])

    def run(self, fun: Any, x0: Any, *, rng: Any = None, max_evals: int | None = None, **kwargs: Any) -> Any:
        """Run `minimize(fun, x0, ...)` with the plan's method, iterations and output rule, and return its result.

        A plan of more than 10⁹ evaluations needs `max_evals`; a run that it cuts short has no guarantee. All other
        arguments of `minimize` may be given but those that the plan decides.
        """
        for decided in ("method", "options", "output", "max_iter"):
            if decided in kwargs:
                raise ValueError(
                    f"{decided} is decided by the plan: leave it out, or call minimize(fun, x0, plan.method, ...), "
                    "which has no guarantee."
                )
        if np.size(x0) != self.d:
            raise ValueError(f"This plan is for d = {self.d}, but x0 has {np.size(x0)} entries.")
        if max_evals is None and self.evaluations > RUN_LIMIT:
            raise ValueError(
                f"This plan takes {'' if self.exact else 'up to '}{written(self.evaluations)} evaluations, more than "
                f"{RUN_LIMIT:,}: plan with a larger epsilon or delta, or set max_evals."
            )
        limits: dict[str, Any] = {"max_iter": self.iterations, "max_evals": max_evals}
        return minimize(fun, x0, method=self.method, output=self.output, rng=rng, **limits, **kwargs)


@dataclass(frozen=True)
class Goal:
    """The checked arguments of `plan`."""

    d: int
    L: float
    delta: float
    epsilon: float
    gap: float
    radius: float
    constants: Constants
    printed: bool = False
    batch_size: int = 1
    noise: float | None = None
    learner: str = "ogd"
    restart: str = "clock"
    failure_probability: float = 0.05
    gradients: str = "oracle"
    sparsity: int | None = None

    @property
    def gradient_noise(self) -> float:
        """s, at most L."""
        return self.L if self.noise is None else self.noise

    def plan(self, name: str, method: Any, numbers: Any, T: int, cost: int, mean: float | None, **more: Any) -> Plan:
        """Return the plan that reaches this goal: T iterations of `method`, `cost` evaluations, `mean` of them used."""
        claim = more.pop("claim", "E‖∇f_δ(x_out)‖² ≤ ε²")
        target = f"{claim}, δ = {self.delta:g}, ε = {self.epsilon:g}"
        if more.get("defects"):
            target = f"none proved ({'aimed at' if name == 'one-phase' else 'the paper claims'} {target})"
        return Plan(name, target, claim, method, numbers, T, cost, mean, self.d, self.constants, **more)


def ceil(x: float) -> int:
    """Round up, except that a whole number missed by rounding error stays what it is."""
    if not math.isfinite(x):
        raise OverflowError
    near = round(x)
    return max(1, near if abs(x - near) <= 4 * math.ulp(x) else math.ceil(x))


def written(value: float | str) -> str:
    """Write a number for a table: up to 15 digits before the point in full, and six significant ones."""
    if isinstance(value, str):
        return value
    if value >= 1e15:
        return f"{value:.6g}"
    return f"{value:,.6g}" if value < 1e5 else f"{round(value):,}"
