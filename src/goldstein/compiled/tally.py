"""Records that the loops in machine code write in place; their fields are named like those of the states."""

from __future__ import annotations

from typing import Any

import numpy as np


def _dtype(floats: str, integers: str) -> np.dtype[Any]:
    return np.dtype([*((name, "f8") for name in floats.split()), *((name, "i8") for name in integers.split())])


# Values and estimates of a chunk; with `calibrated` also what the rule `Calibrated` measures: the mean of ‖v‖², its
# sum, count and span, and the step.
TALLY = _dtype(
    "total magnitude lowest sum_sq_norm value grad_norm change level mean sum span eta",
    "finite failed single double n_estimates corrections calibrated count",
)
O2NC = _dtype("squares block_norm step_size", "done")
TWO_POINT = _dtype("radius walk mean total step_size", "count")
SIFT = _dtype("sum_sq_norm n_estimates n_active magnitude value step_size radius walk", "below_roundoff nit place")
SIFT_SETTINGS = _dtype(
    "growth fd_step decay tolerance evals iterations min_fd_step max_fd_step roundoff_factor zero next clip_factor "
    "coarsest",
    "short_values single double clip_after reuse_period",
)
SIFT_BATCH = _dtype("sum_sq_norm magnitude value", "count n_active below_roundoff changed")


def new_record(dtype: np.dtype[Any], **fields: Any) -> Any:
    """Return a record of zeros but for `fields`."""
    record = np.zeros(1, dtype)[0]
    for name, value in fields.items():
        record[name] = value
    return record


def new_tally(**fields: Any) -> Any:
    """Return the tally of a chunk before its first value, with these fields."""
    return new_record(TALLY, lowest=np.inf, value=np.nan, grad_norm=-1.0, **fields)


def record_of(dtype: np.dtype[Any], state: Any) -> Any:
    """Return a record of those fields of a state."""
    return new_record(dtype, **{name: getattr(state, name) for name in dtype.names or ()})


def write_back(record: Any, state: Any) -> None:
    """Write a record into the fields of a state."""
    for name in record.dtype.names:
        setattr(state, name, record[name].item())
