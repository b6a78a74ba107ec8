"""Step-size rules: how far to go along the estimate at each iteration.

A rule is a frozen setting; what it remembers of a run is a separate `State`, made by `init`. `size` returns the
step of this iteration and may change the memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.state import State

Clock = Any  # a number, or an array of them


@dataclass(frozen=True)
class StepRule(ABC):
    """Base of the step rules."""

    def init(self) -> State | None:
        """Return a fresh memory; None when the rule needs none."""
        return None

    @abstractmethod
    def size(self, memory: Any, nit: int, progress: float | None, value: float, squared: float) -> float:
        """Return the step of iteration `nit` (from 0).

        Parameters
        ----------
        memory : State or None
            What `init` made.
        nit : int
            Iterations done so far.
        progress : float or None
            Share of the run's budget used so far, in [0, 1]; None when the run has no limit.
        value : float
            Estimate of f near the current point from the batch just evaluated; NaN when there is none.
        squared : float
            Squared norm of the direction that the step will go along.
        """


@dataclass(frozen=True)
class Schedule(StepRule):
    """A rule that is known beforehand: it depends on the clock alone, not on values.

    Parameters
    ----------
    step_size : float
        Of the first iteration.
    """

    step_size: float

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "step_size")

    @abstractmethod
    def at(self, nit: Clock, progress: Clock | None) -> Clock:
        """Return the step at iteration `nit` and progress `progress`: numbers, or arrays of them."""

    def size(self, memory: Any, nit: int, progress: float | None, value: float, squared: float) -> float:
        return float(self.at(nit, progress))


@dataclass(frozen=True)
class Constant(Schedule):
    """The same step at every iteration, as in Algorithms 1 and 2.

    Parameters
    ----------
    step_size : float
        The step.
    """

    def at(self, nit: Clock, progress: Clock | None) -> Clock:
        return self.step_size + 0.0 * nit


@dataclass(frozen=True)
class LinearDecay(Schedule):
    """A step that falls in a straight line to zero at the end of the run.

    Parameters
    ----------
    step_size : float
        Of the first iteration.
    iterations : int, optional
        Where it reaches zero; None: at the limits of the run.

    Examples
    --------
    >>> import goldstein as gs
    >>> rule = gs.steps.LinearDecay(0.1)
    >>> rule.at(0, 0.0), rule.at(500, 0.5), rule.at(1000, 1.0)
    (np.float64(0.1), np.float64(0.05), np.float64(0.0))
    """

    iterations: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.check(self, arguments.optional_count, "iterations")

    def at(self, nit: Clock, progress: Clock | None) -> Clock:
        if self.iterations is not None:
            progress = nit / self.iterations
        if progress is None:
            raise ValueError(
                "LinearDecay must know where the run ends: give it iterations=, or max_evals or max_iter to the run."
            )
        return self.step_size * np.maximum(0.0, 1.0 - progress)


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """step_size / √(t + 1) at iteration t.

    Parameters
    ----------
    step_size : float
        Of the first iteration.
    """

    def at(self, nit: Clock, progress: Clock | None) -> Clock:
        return self.step_size / np.sqrt(nit + 1)


@dataclass
class Plateau(State):
    """What `HalveOnPlateau` remembers."""

    size: float
    best: float = np.inf
    since_best: int = 0


@dataclass(frozen=True)
class HalveOnPlateau(StepRule):
    """A step that is halved when there was no improvement in `patience` iterations (section 4.2 of the paper).

    Improvement is judged by the mean of the values of each batch, which are there anyway.

    Parameters
    ----------
    step_size : float
        Of the first iteration.
    patience : int, optional
        Iterations without improvement after which the step is cut.
    factor : float, optional
        By which it is multiplied then.
    minimum : float, optional
        Below which it does not fall.
    """

    step_size: float
    patience: int = 10
    factor: float = 0.5
    minimum: float = 0.0

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "step_size")
        arguments.check(self, arguments.count, "patience")
        arguments.check(self, arguments.share, "factor")
        arguments.check(self, arguments.not_negative, "minimum")

    def init(self) -> Plateau:
        return Plateau(self.step_size)

    def size(self, memory: Plateau, nit: int, progress: float | None, value: float, squared: float) -> float:
        if value < memory.best:
            memory.best = value
            memory.since_best = 0
        else:
            memory.since_best += 1
        if memory.since_best >= self.patience:
            memory.size = max(self.minimum, memory.size * self.factor)
            memory.since_best = 0
        return memory.size


@dataclass
class Travel(State):
    """What `Calibrated` remembers: a running mean of the squared norms, their sum and number."""

    mean: float = 0.0
    total: float = 0.0
    count: int = 0


@dataclass(frozen=True)
class Calibrated(StepRule):
    """A step from a distance and the measured size of the estimates: no Lipschitz constant is needed.

    η_t = 2R (1 − t/T)^p / √(T·E), with R the distance to travel, T the number of iterations and E a running mean of
    ‖v‖²: T steps of pure noise would end about R away. The mean forgets after T/20 iterations (50 at least), and is
    never taken below a hundredth of the mean over the whole run, so that a flat stretch is not followed by a leap.

    Parameters
    ----------
    radius : float
        R.
    iterations : int
        T.
    power : float
        p; 1 is a straight line to zero.
    """

    radius: float
    iterations: int
    power: float = 1.0

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "radius", "power")
        arguments.check(self, arguments.count, "iterations")

    @property
    def span(self) -> float:
        """After how many iterations the running mean forgets."""
        return max(50.0, 0.05 * self.iterations)

    def init(self) -> Travel:
        return Travel()

    def size(self, memory: Travel, nit: int, progress: float | None, value: float, squared: float) -> float:
        memory.count += 1
        memory.total += squared
        memory.mean += (squared - memory.mean) / min(self.span, memory.count)
        scale = max(memory.mean, 0.01 * memory.total / memory.count)
        decay = max(0.0, 1.0 - nit / self.iterations) ** self.power
        return 2 * self.radius * decay / float(np.sqrt(self.iterations * scale)) if scale > 0 else 0.0


def as_rule(step_size: float | StepRule) -> StepRule:
    """Return a number as the constant rule; a rule as it is."""
    if isinstance(step_size, StepRule):
        return step_size
    return Constant(arguments.positive("step_size", step_size, "a positive number or a rule from goldstein.steps"))
