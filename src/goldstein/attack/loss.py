"""The loss of an attack: how far an image is from the class that it must leave or reach.

It is computed from scores alone. Its sign tells success: negative means that the attack has what it wants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.oracle import Array

OUTPUTS = ("logits", "probabilities")
SURE = 1e-4  # a lead smaller than float32 scores are exact to is not called success, so that any other pass agrees
SHARE = 1e-6  # the same as a share of the scores, when they are large
SAME_SUM = 1e-3  # by which scores that are taken for probabilities miss it at most
SUM_ERROR = 1e-2  # by which the probabilities of an image may miss 1

Labels = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def log_scores(scores: Array, outputs: str) -> Array:
    """Return log Z up to a constant for each row; a probability of 0 counts as the smallest positive number."""
    if outputs == "logits":
        return scores
    with np.errstate(invalid="ignore"):  # inf − inf
        wrong = (scores < 0).any(axis=1) | (np.abs(scores.sum(axis=1) - 1) > SUM_ERROR)
    finite = np.isfinite(scores).all(axis=1) if wrong.any() else ~wrong
    if (wrong & finite).any():
        row = scores[int(np.argmax(wrong & finite))]
        raise ValueError(
            f"The model's scores must be probabilities that add up to 1, got {np.array2string(row, precision=3)}; "
            'use outputs="logits" if that is what they are.'
        )
    log_z: Array = np.log(np.maximum(scores, np.finfo(float).tiny))
    log_z[~finite] = np.nan  # which the caller reports
    return log_z


def are_probabilities(scores: Array) -> bool:
    """Whether no score is negative and the scores of each image add up to 1, as those of logits hardly ever do."""
    return bool((scores >= 0).all() and (np.abs(scores.sum(axis=1) - 1) < SAME_SUM).all())


def margins(log_z: Array, labels: Labels, targets: Labels | None = None) -> Array:
    """Return for each row what the attack must bring below zero.

    Untargeted: log Z_t − max_{i≠t} log Z_i with t the label (eq. in section 4.2 of the paper, without its floor −θ).
    Targeted: max_{i≠target} log Z_i − log Z_target. `log_z` has logits, or logarithms of probabilities.
    """
    mine, other = _compared(log_z, labels if targets is None else targets)
    with np.errstate(invalid="ignore"):  # inf − inf: NaN, which the caller reports
        lead = mine - other
    return lead if targets is None else -lead


def sure(values: Array, log_z: Array, labels: Labels, targets: Labels | None = None) -> Flags:
    """Return which of the `values` of `margins` are so far below zero that float32 rounding cannot be the reason.

    The tolerance is 1e-4 for ordinary scores. It is smaller when all scores of the row are below 1, so that the unit of
    the scores does not matter, and larger when one of the two that are compared is above 100.
    """
    certain: Flags = values < 0
    rows = np.flatnonzero(certain)
    if rows.size:  # seldom: an image ends at its first success
        few = log_z[rows]
        mine, other = _compared(few, (labels if targets is None else targets)[rows])
        small = SURE * np.minimum(np.abs(few).max(axis=1), 1.0)
        large = SHARE * np.maximum(np.abs(mine), np.abs(other))
        certain[rows] = values[rows] < -np.maximum(small, large)
    return certain


def _compared(log_z: Array, chosen: Labels) -> tuple[Array, Array]:
    """Return each row's score of the chosen class and the largest of the others."""
    rows = np.arange(len(log_z))
    others = log_z.copy()
    others[rows, chosen] = -np.inf
    return log_z[rows, chosen], others.max(axis=1)


def as_scores(answer: Any, rows: int) -> Array:
    """Return what the model answered to `rows` images as an array (rows, classes), or say what is wrong with it."""
    try:
        is_complex = np.asarray(answer).dtype.kind == "c"
        scores = np.asarray(answer) if is_complex else np.asarray(answer, float)
    except (TypeError, ValueError):
        raise TypeError(f"The model must return an array of scores, got {type(answer).__name__}.") from None
    if is_complex:
        raise TypeError("The model must return real scores, got complex ones.")
    if scores.ndim != 2 or len(scores) != rows or scores.shape[1] < 2:
        raise ValueError(
            f"The model must return scores of shape ({rows}, classes) for {rows} images, got shape {scores.shape}."
        )
    return scores
