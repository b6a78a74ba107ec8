"""Norms where squares leave the range of floating point: a gradient of norm 1e-165 is not 0, one of 1e160 not infinite.

Within the range they are what NumPy gives, to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

HUGE = 1e150  # what is larger has no square, and counts as a failed evaluation where squares are needed
TINY = 1e-150


def norm(v: Array) -> float:
    """Return ‖v‖."""
    largest = float(np.abs(v).max(initial=0.0))
    if TINY < largest < HUGE or not 0 < largest < np.inf:
        return float(np.sqrt(v @ v)) if largest < HUGE else largest
    return largest * float(np.linalg.norm(v / largest))


def norms(rows: Array) -> Array:
    """Return the norm of each row."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    unit = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
    return np.asarray(unit * np.linalg.norm(rows / unit[:, None], axis=1))


def root_mean_square(v: Array) -> float:
    """Return the root of the mean of the squares."""
    largest = float(np.abs(v).max(initial=0.0))
    if largest == 0 or TINY < largest < HUGE:
        return float(np.sqrt((v**2).mean()))
    return largest * float(np.sqrt(((v / largest) ** 2).mean()))


def usable(values: npt.NDArray[Any]) -> bool:
    """Whether all numbers are finite and have squares."""
    return bool((np.abs(values) < HUGE).all())  # false for NaN
