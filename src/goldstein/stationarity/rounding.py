"""The border of this package: oracles, and balls that must not be lost in rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.norms import norm
from goldstein.oracle import DOUBLE, Array, Deterministic, Oracle, Query, Unreplayable

RESOLUTION = 2.0**13  # rounding errors of x that δ must hold, for every random point


def as_oracle(oracle: Any) -> Oracle:
    """Return an oracle, or say what was wrong."""
    if not isinstance(oracle, Oracle):
        raise TypeError(f"An oracle such as gs.Deterministic(f) is needed, got {type(oracle).__name__}.")
    return oracle


def recognised(fun: Any, x: Array) -> tuple[Oracle, int]:
    """Return an oracle, and how many values it took to know it: a bare callable is asked twice, as `minimize` does."""
    if isinstance(fun, Oracle) or not callable(fun):
        return as_oracle(fun), 0
    exact = Deterministic(fun)
    first, second = exact.evaluate(Query(np.stack([x, x]))).values
    same = first == second or not (np.isfinite(first) and np.isfinite(second))
    return exact if same else Unreplayable(fun), 2


def points_that_fit(x: Array, delta: float, roundoff: float = DOUBLE) -> float:
    """Return for how many random points the ball of radius delta has room; below 1 it is lost in the rounding of x.

    Kinks have probability 0 among the reals but not among floats, which are a grid: each random point lies on a given
    kink with a chance of about roundoff·‖x‖/delta. As many points as there is room for meet it with a chance of 2⁻¹².
    """
    grain = RESOLUTION * roundoff * norm(x)
    return delta / grain if grain else np.inf


def as_centre(x: npt.ArrayLike, delta: float, points: int = 1) -> Array:
    """Return x as a finite vector whose ball has room for so many random points, or say what was wrong."""
    arguments.positive("delta", delta)
    point = arguments.point("x", x)
    if points_that_fit(point, delta) < points:
        raise ValueError(too_small(point, delta))
    return point


def too_small(x: Array, delta: float) -> str:
    """Say that a ball is too small."""
    return f"delta={delta:.6g} is lost in the rounding of x, whose norm is {norm(x):.3g}."


def needs_gradients(oracle: Oracle) -> None:
    """Say so if gradients are wanted from an oracle that has none."""
    if not oracle.differentiable:
        raise TypeError(f'use="gradients" needs gradients, but this {type(oracle).__name__} was given no grad=.')
