"""The border of this package: arguments are checked here, and trusted inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.oracle import Oracle
from goldstein.query import Array

RESOLUTION = 2.0**13  # rounding errors of x that δ must hold, for every random point


def as_oracle(oracle: Any) -> Oracle:
    """Return an oracle, or say what was wrong."""
    if not isinstance(oracle, Oracle):
        raise TypeError(f"An oracle such as gs.Deterministic(f) is needed, got {type(oracle).__name__}.")
    return oracle


def room(x: Array, delta: float, roundoff: float = 2.0**-53) -> float:
    """Return for how many random points the ball of radius delta has room; below 1 it is lost in the rounding of x.

    Kinks have probability 0 among the reals but not among floats, which are a grid: each random point lies on a given
    kink with a chance of about roundoff·‖x‖/delta. As many points as there is room for meet it with a chance of 2⁻¹².
    """
    grain = RESOLUTION * roundoff * float(np.linalg.norm(x))
    return delta / grain if grain else np.inf


def as_centre(x: npt.ArrayLike, delta: float, points: int = 1) -> Array:
    """Return x as a finite vector whose ball has room for so many random points, or say what was wrong."""
    as_positive("delta", delta)
    try:
        point = np.array(x, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"x must be a vector of real numbers, got {x!r:.80}.") from None
    point = point.reshape(1) if point.ndim == 0 else point
    if point.ndim != 1 or not point.size or not np.isfinite(point).all():
        raise ValueError(f"x must be a vector of finite numbers, got {x!r:.80}.")
    if room(point, delta) < points:
        raise ValueError(lost(point, delta))
    return point


def lost(x: Array, delta: float) -> str:
    """Say that a ball is too small."""
    return f"delta={delta:.6g} is lost in the rounding of x, whose norm is {np.linalg.norm(x):.3g}."


def as_number(name: str, value: Any) -> float:
    """Return a number that is not NaN, or say what was wrong."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isnan(value):
        raise ValueError(f"{name} must be a number, got {value!r}.")
    return float(value)


def as_positive(name: str, value: Any) -> float:
    """Return a positive finite number, or say what was wrong."""
    if not 0 < as_number(name, value) < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {value!r}.")
    return float(value)


def as_confidence(value: Any) -> float:
    """Return a confidence between 1/2 and 1, or say what was wrong."""
    if not 0.5 <= as_number("confidence", value) < 1:
        raise ValueError(f"confidence must be at least 0.5 and below 1, got {value!r}.")
    return float(value)


def as_count(name: str, value: Any, least: int) -> int:
    """Return a whole number that is large enough, or say what was wrong."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def needs_gradients(oracle: Oracle) -> None:
    """Say so if gradients are wanted from an oracle that has none."""
    if not oracle.differentiable:
        raise TypeError(f'use="gradients" needs gradients, but this {type(oracle).__name__} was given no grad=.')
