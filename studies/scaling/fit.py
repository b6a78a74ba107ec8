"""Exponents from hitting times: least squares in logarithms, with bootstrap intervals over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from studies import Array

RESAMPLES = 4000


def exponent(scales: Sequence[float], times: Sequence[Sequence[float]], seed: int = 0) -> dict[str, Any]:
    """Fit times ~ scale^p to the geometric means over the seeds, and say how far seeds alone move p.

    Parameters
    ----------
    scales : sequence of float
        The values of ε, d or δ.
    times : sequence of sequences
        For each of them the evaluations of every seed.
    seed : int
        Of the bootstrap, which draws the seeds of each scale anew, with replacement.

    Returns
    -------
    dict
        `exponent`, its 95 % `interval`, and `residual`, the largest distance of a point from the line in log₁₀: what is
        left of the data when they are no power law.

    Examples
    --------
    >>> fit = exponent([1, 2, 4], [[3, 3], [24, 24], [192, 192]])
    >>> round(fit["exponent"], 6), [round(end, 6) for end in fit["interval"]]
    (3.0, [3.0, 3.0])
    """
    x, logs = np.log(np.asarray(scales, float)), [np.log(np.asarray(row, float)) for row in times]
    y = np.array([row.mean() for row in logs])
    rng = np.random.default_rng(seed)
    drawn = np.stack([row[rng.integers(0, row.size, (RESAMPLES, row.size))].mean(axis=1) for row in logs], axis=1)
    low, high = np.quantile(_slopes(x, drawn), [0.025, 0.975])
    p = float(_slopes(x, y[None])[0])
    residual = float(np.abs(y - y.mean() - p * (x - x.mean())).max() / np.log(10))
    return {"exponent": p, "interval": [float(low), float(high)], "residual": residual}


def ratio(over: Sequence[float], under: Sequence[float], seed: int = 0) -> dict[str, Any]:
    """Return the ratio of two geometric means, with its 95 % bootstrap interval."""
    a, b = np.log(np.asarray(over, float)), np.log(np.asarray(under, float))
    rng = np.random.default_rng(seed)
    drawn = [row[rng.integers(0, row.size, (RESAMPLES, row.size))].mean(axis=1) for row in (a, b)]
    low, high = np.exp(np.quantile(drawn[0] - drawn[1], [0.025, 0.975]))
    return {"ratio": float(np.exp(a.mean() - b.mean())), "interval": [float(low), float(high)]}


def _slopes(x: Array, rows: Array) -> Array:
    centred = x - x.mean()
    return np.asarray((rows - rows.mean(axis=1, keepdims=True)) @ centred / (centred @ centred))
