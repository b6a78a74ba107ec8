"""The border of this package: arguments are checked here, and trusted inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.oracle import Oracle
from goldstein.query import Array

RESOLUTION = 2.0**-40  # δ as a share of ‖x‖ below which rounding of x + δu matters


def as_oracle(oracle: Any) -> Oracle:
    """Return an oracle, or say what was wrong."""
    if not isinstance(oracle, Oracle):
        raise TypeError(f"An oracle such as gs.Deterministic(f) is needed, got {type(oracle).__name__}.")
    return oracle


def as_centre(x: npt.ArrayLike, delta: float) -> Array:
    """Return x as a finite vector whose ball of radius delta floating point can resolve, or say what was wrong."""
    as_positive("delta", delta)
    try:
        point = np.array(x, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"x must be a vector of real numbers, got {x!r:.80}.") from None
    point = point.reshape(1) if point.ndim == 0 else point
    if point.ndim != 1 or not point.size or not np.isfinite(point).all():
        raise ValueError(f"x must be a vector of finite numbers, got {x!r:.80}.")
    if float(np.linalg.norm(point)) * RESOLUTION > delta:
        raise ValueError(f"delta={delta!r} is lost in the rounding of x, whose norm is {np.linalg.norm(point):.3g}.")
    return point


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
