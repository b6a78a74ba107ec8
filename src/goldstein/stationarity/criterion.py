"""Stationarity as a stopping criterion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from goldstein import arguments
from goldstein.criterion import Check, Criterion
from goldstein.facts import Facts
from goldstein.oracle import Array, Oracle
from goldstein.stationarity.certificate import DRAWS
from goldstein.stationarity.draws import Values, counted, rounding_error
from goldstein.stationarity.norm import LEAST, Moments, estimate, gather
from goldstein.stationarity.rounding import ValueStep, points_that_fit


@dataclass(frozen=True)
class Stationary(Criterion):
    """Stop when ‖∇f_δ(x)‖ ≤ ε is supported twice in a row, on independent samples.

    Both checks are made at the same x, one after the other: each draws `max_evals`/4 fresh two-point estimates and
    passes if the upper confidence bound on the norm is at most ε. The chance that one record passes wrongly is at most
    (1 − confidence)². A look after an eighth of the first sample ends hopeless cases early. ‖∇f_δ(x)‖ ≤ ε implies
    dist(0, ∂_δ f(x)) ≤ ε, not the other way round. Where rounding spoils the estimates nothing passes. The first look
    is at x0; after that there is none while checks have taken more than a fifth of the evaluations so far.

    Parameters
    ----------
    delta, epsilon : float
        δ and ε, in the coordinates of x, also if the run happens in x / x_scale.
    confidence : float, optional
        Of each of the two checks.
    max_evals : int, optional
        Most values that the two checks of one record may take. Each needs about √(2d) L²/ε² two-point estimates.
    every : int, optional
        On average one record in so many is checked, drawn at random: nothing is remembered from record to record.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> from goldstein.stationarity import Stationary
    >>> f = gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True)
    >>> method = gs.GFM(delta=0.1, step_size=0.01)
    >>> res = gs.minimize(f, np.ones(2), method, stop=Stationary(delta=0.5, epsilon=0.5), max_evals=50_000, rng=0)
    >>> res.success, res.nfev < 50_000
    (True, True)
    """

    delta: float
    epsilon: float
    confidence: float = 0.95
    max_evals: int = 2_000
    every: int = 1
    cost_share: ClassVar[float] = 0.2

    def __post_init__(self) -> None:
        arguments.keep(
            self,
            delta=arguments.positive("delta", self.delta),
            epsilon=arguments.positive("epsilon", self.epsilon),
            confidence=arguments.confidence(self.confidence),
            max_evals=arguments.count("max_evals", self.max_evals, 4 * DRAWS),
            every=arguments.count("every", self.every),
        )

    @property
    def reach(self) -> float:  # type: ignore[override]
        """How far from x it asks."""
        return self.delta

    @property
    def message(self) -> str:  # type: ignore[override]
        """What is said on success."""
        return (
            f"‖∇f_δ(x)‖ ≤ {self.epsilon:g} with δ = {self.delta:g} is supported by two independent samples at "
            f"confidence {self.confidence:g} each."
        )

    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        return True

    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        if self.every > 1 and rng.random() * self.every >= 1:
            return False
        if points_that_fit(x, self.delta) < 1:
            return False
        source = Values(x[None], self.delta, oracle.sample)
        n = self.max_evals // 4
        look = max(n // 8, LEAST)
        step = ValueStep()
        for parts in ((look, n - look), (n,)):
            moments = Moments(x.size)
            count = Facts()
            for k in parts:
                yield from counted(gather(moments, source, np.ones(1), k, rng), count, None if oracle.noisy else step)
                rounding = rounding_error(x.size, self.delta, count) + step.slope(x.size, self.delta)
                result = estimate(moments, count, self.confidence, rounding, noisy=oracle.noisy)
                if count.nfail or result.interval[0] > self.epsilon * self.epsilon:
                    return False
            if result.upper > self.epsilon or points_that_fit(x, self.delta, count.proven) < 1:
                return False
        return True
