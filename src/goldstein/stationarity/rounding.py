"""The border of this package: oracles, balls that must not be lost in rounding, and values with few decimals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.facts import differ
from goldstein.norms import norm
from goldstein.oracle import DOUBLE, Array, Deterministic, Oracle, Query, Unreplayable

RESOLUTION = 2.0**13  # rounding errors of x that δ must hold, for every random point
SAME = 2.0**-46  # relative difference of values that passes for rounding,
REMAINDER = 2.0**-42  # and of multiples of a step
FINE = 2.0**-30  # relative step of values below which they count as continuous
ROWS = 64  # values of one answer that are looked at, and
POINTS = 1000  # of all answers, while they look as if they came in steps


def as_oracle(oracle: Any) -> Oracle:
    """Return an oracle, or raise."""
    if not isinstance(oracle, Oracle):
        raise TypeError(f"An oracle such as gs.Deterministic(f) is needed, got {type(oracle).__name__}.")
    return oracle


def recognised(fun: Any, x: Array) -> tuple[Oracle, int]:
    """Return an oracle, and how many values that took: a bare callable is evaluated twice, as by `minimize`."""
    if isinstance(fun, Oracle) or not callable(fun):
        return as_oracle(fun), 0
    exact = Deterministic(fun)
    first, second = exact.evaluate(Query(np.stack([x, x]))).values.tolist()
    return Unreplayable(fun) if differ(first, second) else exact, 2


class ValueStep:
    """The step in which a function without noise answers, such as 0.001 for values with three decimals.

    Values come in steps if some of them, at different points, agree and all gaps between the others are multiples of
    one number. A continuous function has such values only where it is constant, and there only one of them. As long as
    all values agree nothing is known; the step is 0 then, as it is for a continuous function.
    """

    def __init__(self) -> None:
        self.size = 0.0
        self._continuous = False
        self._values: dict[int, float] = {}  # by the hash of the point

    def add(self, points: Array, values: Array) -> None:
        """Take values at points."""
        if self._continuous or len(self._values) >= POINTS:
            return
        every = -(-len(values) // ROWS)
        for point, value in zip(points[::every], values[::every], strict=True):
            if np.isfinite(value):
                self._values[hash(np.ascontiguousarray(point).tobytes())] = float(value)
        levels = np.sort(np.fromiter(self._values.values(), float))
        largest = float(np.abs(levels).max(initial=0.0))
        with np.errstate(over="ignore"):
            gaps = np.diff(levels)
        gaps = gaps[(gaps > SAME * largest) & (gaps < np.inf)]
        if not gaps.size:
            return
        step = _common_divisor(gaps, REMAINDER * largest)
        if step <= FINE * largest:
            step = 0.0
        self._continuous = step == 0 and len(levels) > 2
        agree = gaps.size + 1 < len(levels)
        self.size = step if agree else 0.0

    def slope(self, d: int, radius: float) -> float:
        """Return the largest norm of a two-point estimate of this radius that rounding to a step can hide."""
        return d * self.size / (2 * radius)


def _common_divisor(gaps: Array, tolerance: float) -> float:
    """Return the number of which all gaps are multiples, by Euclid's algorithm."""
    divisor = float(gaps[0])
    for gap in gaps[1:]:
        larger = float(gap)
        while divisor > tolerance:
            remainder = abs(larger - round(larger / divisor) * divisor)
            if remainder <= tolerance:
                break
            larger = divisor
            divisor = remainder
    return divisor


def points_that_fit(x: Array, delta: float, roundoff: float = DOUBLE) -> float:
    """Return for how many random points the ball of radius delta has room; below 1 it is lost in the rounding of x.

    Kinks have probability 0 among the reals but not among floats, which are a grid: each random point lies on a given
    kink with a chance of about roundoff·‖x‖/delta. As many points as there is room for meet it with a chance of 2⁻¹².
    """
    grain = RESOLUTION * roundoff * norm(x)
    return delta / grain if grain else np.inf


def as_centre(x: npt.ArrayLike, delta: float, points: int = 1) -> Array:
    """Return x as a finite vector whose ball has room for this many random points, or raise."""
    arguments.positive("delta", delta)
    point = arguments.point("x", x)
    if points_that_fit(point, delta) < points:
        raise ValueError(too_small(point, delta))
    return point


def too_small(x: Array, delta: float) -> str:
    """Say that a ball is too small."""
    return f"delta={delta:.6g} is lost in the rounding of x, whose norm is {norm(x):.3g}."


def needs_gradients(oracle: Oracle) -> None:
    """Raise if an oracle has no gradients."""
    if not oracle.differentiable:
        raise TypeError(f'use="gradients" needs gradients, but this {type(oracle).__name__} was given no grad=.')
