"""The loss of an attack: how far an image is from the class that it must leave or reach.

It is computed from scores alone. Its sign tells success: negative means that the attack has what it wants.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.query import Array

OUTPUTS = ("logits", "probabilities")
SURE = 1e-4  # a lead smaller than float32 scores are exact to is not called success, so that any other pass agrees
SUM_ERROR = 1e-2  # by which the probabilities of an image may miss 1

Labels = npt.NDArray[np.int64]


def log_scores(scores: Array, outputs: str) -> Array:
    """Return log Z up to a constant for each row; a probability of 0 counts as the smallest positive number."""
    if outputs == "logits":
        return scores
    with np.errstate(invalid="ignore"):
        wrong = (scores < 0).any(axis=1) | (np.abs(scores.sum(axis=1) - 1) > SUM_ERROR)
    if wrong.any():
        row = scores[int(np.argmax(wrong))]
        raise ValueError(
            f"The model's scores must be probabilities that add up to 1, got {np.array2string(row, precision=3)}; "
            'use outputs="logits" if that is what they are.'
        )
    return np.asarray(np.log(np.maximum(scores, np.finfo(float).tiny)))


def margins(log_z: Array, labels: Labels, targets: Labels | None = None) -> Array:
    """Return for each row what the attack must bring below zero.

    Untargeted: log Z_t − max_{i≠t} log Z_i with t the label (eq. in section 4.2 of the paper, without its floor −θ).
    Targeted: max_{i≠target} log Z_i − log Z_target.

    Parameters
    ----------
    log_z : ndarray, shape (k, classes)
        Logits, or logarithms of probabilities.
    labels : ndarray, shape (k,)
        True classes.
    targets : ndarray, shape (k,), optional
        Classes to reach.

    Returns
    -------
    ndarray, shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> z = np.array([[3.0, 1.0, 0.0]])
    >>> margins(z, np.array([0])), margins(z, np.array([0]), np.array([2]))
    (array([2.]), array([3.]))
    """
    rows, chosen = np.arange(len(log_z)), labels if targets is None else targets
    others = log_z.copy()
    others[rows, chosen] = -np.inf
    with np.errstate(invalid="ignore"):  # inf − inf: NaN, which the caller reports
        lead: Array = log_z[rows, chosen] - others.max(axis=1)
    return lead if targets is None else -lead


def as_scores(answer: Any, rows: int) -> Array:
    """Return what the model answered to `rows` images as an array (rows, classes), or say what is wrong with it."""
    try:
        scores = np.asarray(answer, float)
    except (TypeError, ValueError):
        raise TypeError(f"The model must return an array of scores, got {type(answer).__name__}.") from None
    if scores.ndim != 2 or len(scores) != rows or scores.shape[1] < 2:
        raise ValueError(
            f"The model must return scores of shape ({rows}, classes) for {rows} images, got shape {scores.shape}."
        )
    return scores
