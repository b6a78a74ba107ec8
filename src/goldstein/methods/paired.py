"""PairedEvaluation: a point is evaluated on common samples, and paired values are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein.methods.method import Context, Method, MethodState, Step, within
from goldstein.oracle import Array, Query
from goldstein.state import LATER, State

SHARE = 200  # one part in so many of the budget judges a point
MOST = 2000  # values at most
USUAL, SMALL_SHARE = 20, 100  # so many at least, but no more than this part of a small budget


@dataclass
class CommonSamples(State):
    """The samples on which points are compared: `size` values for each point, and their ξ (None without any)."""

    size: int
    samples: Any = None

    @classmethod
    def draw(cls, context: Context, budget: int) -> CommonSamples:
        """Return the samples for a run of `budget` evaluations; all components of a finite sum that has few."""
        if not context.noisy:
            return cls(1)
        size = max(min(budget // SHARE, MOST), min(USUAL, budget // SMALL_SHARE), 2)
        if context.n is not None and context.n <= size:
            return cls(context.n, np.arange(context.n))
        return cls(size, context.draw(size))


@dataclass
class PairedEvaluationState(MethodState):
    """State of `PairedEvaluation`: the samples, and their values once they are told."""

    common: CommonSamples = LATER
    values: Array | None = None


@dataclass(frozen=True)
class PairedEvaluation(Method):
    """The stage that evaluates a point on common samples; it moves nothing."""

    name: ClassVar[str] = "paired evaluation"

    def init(self, x: Array, context: Context) -> PairedEvaluationState:
        return PairedEvaluationState(x)

    def ask(self, state: PairedEvaluationState, context: Context, limit: int | None) -> Query | None:
        points = np.broadcast_to(state.x, (state.common.size, state.x.size))
        return within(Query(points, state.common.samples), limit)

    def tell(self, state: PairedEvaluationState, context: Context, query: Query, values: Array) -> Step:
        state.values = np.where(np.isfinite(values), values, np.nan)
        return state.make_step(completed=0)


def paired_difference(one: Array, other: Array) -> tuple[float, float]:
    """Return the mean of `one` − `other` and its standard error over the samples where both are finite.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.methods.paired import paired_difference
    >>> paired_difference(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0]))
    (-1.0, 0.0)
    """
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
        difference = one - other
        difference = difference[np.isfinite(difference)]
        if difference.size == 0:
            return (np.inf if np.isfinite(one).sum() <= np.isfinite(other).sum() else -np.inf), 0.0
        error = float(difference.std() / np.sqrt(difference.size - 1)) if difference.size > 1 else 0.0
        return float(difference.mean()), error
