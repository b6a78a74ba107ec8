"""Stopping criteria: what the user calls success.

A criterion looks at each record of the history for free (`screen`), and only when that looks good does it ask for
evaluations on fresh ξ to be sure (`confirm`). Those are counted as diagnostic and do not change the trajectory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from goldstein import arguments
from goldstein.oracle import Array, Oracle, Query


class Criterion(ABC):
    """Base of the stopping criteria.

    Attributes
    ----------
    message : str
        What is said on success.
    reach : float
        How far from x the queries of `confirm` may lie.
    """

    message: str
    reach: float = 0.0

    @abstractmethod
    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        """Whether a record makes a check worth its cost.

        `fun` and `lowest` are the mean and the lowest of the values since the record before.
        """

    @abstractmethod
    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Generator[Query, Array, bool]:
        """Yield queries, receive their values, and return whether the criterion is met at x.

        All of it in the user's coordinates. The oracle tells what can be asked, but is not to be asked itself.
        """


@dataclass(frozen=True)
class Target(Criterion):
    """Stop when f(x) ≤ `fun`.

    Parameters
    ----------
    fun : float
        The value to reach.
    samples : int, optional
        Fresh evaluations that the confirmation averages when F is noisy.
    """

    fun: float
    samples: int = 200

    def __post_init__(self) -> None:
        arguments.keep(
            self,
            fun=arguments.number("fun", self.fun, "a number to reach"),
            samples=arguments.count("samples", self.samples),
        )

    @property
    def message(self) -> str:  # type: ignore[override]
        """What is said on success."""
        return f"The target value {self.fun:g} is reached."

    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        return (fun if noisy else lowest) <= self.fun

    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Generator[Query, Array, bool]:
        k = self.samples if oracle.noisy else 1
        values = yield Query(np.broadcast_to(x, (k, x.size)), None if oracle.sample is None else oracle.sample(rng, k))
        finite = values[np.isfinite(values)]
        return finite.size > 0 and float(finite.mean()) <= self.fun


from goldstein.stationarity.criterion import Stationary as Stationary  # noqa: E402  (it needs Criterion)
