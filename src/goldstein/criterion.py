"""Stopping criteria: what the user calls success.

A criterion looks at a run now and then for free (`screen`), and only when that looks good does it evaluate on fresh ξ
to be sure (`confirm`). Those evaluations are diagnostic and do not change the trajectory. A criterion that must see
every step says so by `each_step`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import numpy as np

from goldstein import arguments
from goldstein.oracle import Answer, Array, Oracle, Query

T = TypeVar("T")
Check = Generator[Query, Answer, T]
"""What evaluates beside the method: it yields queries, receives their answers and returns a T."""


class Criterion(ABC):
    """Base of the stopping criteria.

    Attributes
    ----------
    message : str
        What is said on success.
    reach : float
        How far from x the queries of `confirm` may lie.
    each_step : bool
        It looks at every answer (`found`) and confirms at every new iterate; `screen` is not asked then.
    reserve : int
        Evaluations that the method must leave for the next confirmation.
    cost_share : float
        Share of the evaluations so far that its confirmations may take; 0: any.
    """

    message: str
    reach: float = 0.0
    each_step: bool = False
    reserve: int = 0
    cost_share: ClassVar[float] = 0.0

    def met_at_start(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        """Yield queries before the first iteration, if need be, and return whether there is nothing left to do."""
        return False
        yield

    def found(self, query: Query, answer: Answer) -> Array | None:
        """Return one of the points just asked for that meets the criterion; None when none does."""
        return None

    @abstractmethod
    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        """Whether a check is worth its cost.

        `fun` and `lowest` are the mean and the lowest of the values since the last look.
        """

    @abstractmethod
    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        """Yield queries, receive their answers, and return whether the criterion is met at x.

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
        arguments.keep(self, fun=arguments.number("fun", self.fun), samples=arguments.count("samples", self.samples))

    @property
    def message(self) -> str:  # type: ignore[override]
        return f"The target value {self.fun:g} is reached."

    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        return (fun if noisy else lowest) <= self.fun

    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        k = self.samples if oracle.noisy else 1
        samples = None if oracle.sample is None else oracle.sample(rng, k)
        answer = yield Query(np.broadcast_to(x, (k, x.size)), samples)
        finite = answer.values[np.isfinite(answer.values)]
        return finite.size > 0 and float(finite.mean()) <= self.fun
