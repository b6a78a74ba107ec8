"""Stopping criteria: what the user calls success.

A criterion looks at each record of the history for free (`screen`), and only when that looks good does it ask for
evaluations on fresh ξ to be sure (`confirm`). Those are counted as diagnostic and do not change the trajectory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from goldstein.query import Array, Query, Sampler


class Criterion(ABC):
    """Base of the stopping criteria."""

    message: str

    @abstractmethod
    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        """Whether a record makes a check worth its cost.

        `fun` and `lowest` are the mean and the lowest of the values since the record before.
        """

    @abstractmethod
    def confirm(
        self, x: Array, sample: Sampler | None, noisy: bool, rng: np.random.Generator
    ) -> Generator[Query, Array, bool]:
        """Yield queries, receive their values, and return whether the criterion is met at x."""


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
        if np.isnan(self.fun) or self.samples < 1:
            raise ValueError("Target needs a number to reach and at least one sample to confirm it with.")

    @property
    def message(self) -> str:  # type: ignore[override]
        """What is said on success."""
        return f"The target value {self.fun:g} is reached."

    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        return (fun if noisy else lowest) <= self.fun

    def confirm(
        self, x: Array, sample: Sampler | None, noisy: bool, rng: np.random.Generator
    ) -> Generator[Query, Array, bool]:
        k = self.samples if noisy else 1
        values = yield Query(np.broadcast_to(x, (k, x.size)), None if sample is None else sample(rng, k))
        finite = values[np.isfinite(values)]
        return finite.size > 0 and float(finite.mean()) <= self.fun


from goldstein.stationarity.criterion import Stationary as Stationary  # noqa: E402  (it needs Criterion)
