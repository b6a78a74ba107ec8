"""Facts: what the values of a run have shown so far.

Counts, failures, the precision of the values, the incumbent (the lowest point of a function without noise) and whether
there is noise: each is kept here and nowhere else. They are a pure function of the values told, so that a run that is
played again has the same facts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from goldstein.oracle import DOUBLE, SINGLE, Answer, Array, Query, Tally
from goldstein.oracle.stats import HALF, evidence
from goldstein.state import State

FAILURE_WINDOW = 1_000
LARGEST = float(np.finfo(float).max) / 1e4  # what a sum that overflows is taken for
SHORT_VALUES = 10  # values that fit into float32 are evidence of single precision, from this many on
SAME = 100  # unit rounding errors by which two values at one point may differ, as of a sum in another order
SEED_ROUNDOFF = 1e-8  # of values under one seed: a simulator may compute in single precision and return doubles


@dataclass
class Incumbent(State):
    """The lowest point of a function without noise so far, and its value."""

    fun: float = np.inf
    x: Array | None = None


@dataclass
class Facts(State):
    """What the values have shown; a method may compute from facts, but not keep one."""

    nfev: int = 0  # values,
    nfev_diagnostic: int = 0  # those of them that do not move x,
    ngev: int = 0  # gradients,
    nfail: int = 0  # and failed evaluations
    window: float = 0.0  # evaluations among the last thousand, roughly,
    window_failed: float = 0.0  # and those of them that failed
    magnitude: float = 0.0  # mean of |F| over the values of estimates: what probes see far away is not in it
    near: int = 0  # the number of these values
    single: int = 0  # values that tell something about their precision, see `evidence` and `Tally`
    double: int = 0
    coarsest: float = DOUBLE  # largest rounding error of a type in which an answer came
    half: int = 0
    level: float = 0.0  # mean of |F| over the first values: rounding errors of a sum stay where the sum vanishes
    noisy: bool = False  # an answer may differ from f itself
    incumbent: Incumbent = field(default_factory=Incumbent)  # in the coordinates of the run

    def update(self, query: Query, answer: Answer, *, diagnostic: bool = False) -> Tally:
        """Take in the answer of a query that moves x: count it, and look for a new incumbent."""
        tally = self.count(query, answer, diagnostic=diagnostic)
        if not self.noisy and tally.lowest < self.incumbent.fun:
            place = int(np.argmin(np.where(np.isfinite(answer.values), answer.values, np.inf)))
            self.incumbent = Incumbent(float(answer.values[place]), query.points[place].copy())
        return tally

    def count(self, query: Query, answer: Answer, *, diagnostic: bool = False) -> Tally:
        """Count the answer of a query; return the tally of its values."""
        if query.order == 1:
            failed = len(query) - int(np.isfinite(answer.values).all(axis=1).sum())
            self.ngev += len(query)
            self.coarsest = max(self.coarsest, answer.roundoff)
            if not self.double and answer.roundoff == DOUBLE:
                entries = answer.values.ravel()
                single, double = evidence(entries[np.isfinite(entries)])
                self.single += single
                self.double += double
            self._count_failures(len(query), failed)
            return Tally()
        tally = answer.tally(precise=self.double > 0 or answer.roundoff > DOUBLE)
        self.add(tally, diagnostic=diagnostic)
        return tally

    def add(self, tally: Tally, *, diagnostic: bool = False) -> None:
        self.nfev += tally.asked
        if diagnostic:
            self.nfev_diagnostic += tally.asked
        self.single += tally.single
        self.double += tally.double
        self.half += tally.half
        if not self.level and tally.finite:
            self.level = min(tally.magnitude, LARGEST) / tally.finite
        if tally.roundoff > self.coarsest:
            self.coarsest = tally.roundoff
        self._count_failures(tally.asked, tally.asked - tally.finite)

    def measure(self, tally: Tally) -> None:
        """Take the values of an estimate into the mean of |F|."""
        if tally.finite:
            self.near += tally.finite
            sum_of_sizes = min(tally.magnitude, LARGEST)
            self.magnitude += (sum_of_sizes - tally.finite * self.magnitude) / self.near

    def _count_failures(self, evals: int, failed: int) -> None:
        self.nfail += failed
        self.window += evals
        self.window_failed += failed
        if self.window > FAILURE_WINDOW:
            keep = FAILURE_WINDOW / self.window
            self.window *= keep
            self.window_failed *= keep

    @property
    def counted(self) -> int:
        """Values and gradients so far."""
        return self.nfev + self.ngev

    @property
    def failing(self) -> bool:
        """Whether more than half of the recent values fail, beyond what chance explains (three standard errors)."""
        if self.window_failed <= 0.5 * self.window:
            return False
        return self.window >= 100 and self.window_failed > 0.5 * self.window + 1.5 * math.sqrt(self.window)

    @property
    def roundoff(self) -> float:
        """Relative rounding error of the values, as their types say and as they show: for warnings."""
        if not self.double and self.single >= SHORT_VALUES:
            return max(self.coarsest, SINGLE)
        return self.coarsest

    def differ(self, first: Any, second: Any) -> Any:
        """Return where two values at the same point differ by more than rounding, so that there is noise."""
        return differ(first, second, self.roundoff, self.level)

    def after(self, tally: Tally) -> Facts:
        """Return the facts once the values of a chunk are counted."""
        facts = replace(self)
        facts.add(tally)
        return facts

    @property
    def proven(self) -> float:
        """The same for certificates: what values have not shown, they do not have."""
        if self.double:
            return self.coarsest
        halves = not self.single and self.half >= SHORT_VALUES
        return max(self.coarsest, HALF if halves else SINGLE)


def differ(first: Any, second: Any, roundoff: float = DOUBLE, level: float = 0.0) -> Any:
    """Return where two values at one point differ by more than rounding, none failed; `level`: |F| where it began."""
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.maximum(np.maximum(np.abs(first), np.abs(second)), level)
        return np.abs(first - second) > SAME * roundoff * size
