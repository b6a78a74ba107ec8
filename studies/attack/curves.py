"""Success rates against queries, with bootstrap bands over images, from the counts of single images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from studies import Array

MARKS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
POINTS = 60  # of a curve
RESAMPLES = 1_000
BAND = (2.5, 97.5)  # percentiles
OTHERWISE = ("estimation", "asked")  # other ways of counting

Counts = Mapping[str, Any]


def won_within(counts: Counts, at: npt.ArrayLike, by: str = "queries") -> npt.NDArray[np.bool_]:
    """Return for each image that was attacked whether it was won within so many queries; shape (images, len(at))."""
    attacked = np.asarray(counts["misclassified"]) == 0
    spent = np.where(np.asarray(counts["success"]) == 1, np.asarray(counts[by], float), np.inf)
    return np.asarray(spent[attacked, None] <= np.asarray(at, float))


def resampled(values: Array, rng: np.random.Generator, resamples: int = RESAMPLES) -> Array:
    """Return the means over images drawn with replacement; values (images, k), result (resamples, k)."""
    n = len(values)
    weights = rng.multinomial(n, np.full(n, 1 / n), size=resamples)
    return np.asarray(weights @ values / n)


def marks(budget: int) -> list[int]:
    """Return the numbers of queries at which tables show success rates."""
    return [mark for mark in MARKS if mark < budget] + [budget]


def summary(counts: Counts, budget: int) -> dict[str, Any]:
    """Return success rates at some marks and along a curve, and what a success costs.

    `mean` is over the images that were won, `mean_capped` over all attacked with the budget where one was not won,
    `median` over all attacked (None: it lies beyond the budget). `by` holds rates by another count of the queries:
    `estimation` leaves out success checks, `asked` counts repeated rows.
    """
    at, rng = marks(budget), np.random.default_rng(0)
    grid = np.unique(np.geomspace(1, budget, POINTS).round().astype(int))
    both = won_within(counts, [*at, *grid]).astype(float)
    low, high = np.percentile(resampled(both, rng), BAND, axis=0)
    k = len(at)
    success, attacked = np.asarray(counts["success"]) == 1, np.asarray(counts["misclassified"]) == 0
    spent = np.asarray(counts["queries"], float)
    capped = np.where(success, spent, np.inf)[attacked]
    median = float(np.median(capped)) if len(capped) else np.inf
    return {
        "attacked": int(attacked.sum()),
        "misclassified": int((~attacked).sum()),
        "won": int(success.sum()),
        "at": at,
        "rate": _round(both[:, :k].mean(axis=0)),
        "low": _round(low[:k]),
        "high": _round(high[:k]),
        "mean": _tenths(spent[success].mean()) if success.any() else None,
        "mean_capped": _tenths(np.minimum(capped, budget).mean()) if len(capped) else None,
        "median": _tenths(median) if np.isfinite(median) else None,
        "rows": int(spent.sum()),
        "by": {key: _round(won_within(counts, at, key).mean(axis=0)) for key in OTHERWISE if key in counts},
        "curve": {
            "queries": grid.tolist(),
            "rate": _round(both[:, k:].mean(axis=0)),
            "low": _round(low[k:]),
            "high": _round(high[k:]),
        },
    }


def compare(one: Counts, other: Counts, budget: int) -> dict[str, Any]:
    """Return the difference of two success rates on the same images, with a band from resampled images."""
    at, rng = marks(budget), np.random.default_rng(0)
    values = won_within(one, at).astype(float) - won_within(other, at).astype(float)
    low, high = np.percentile(resampled(values, rng), BAND, axis=0)
    return {"at": at, "difference": _round(values.mean(axis=0)), "low": _round(low), "high": _round(high)}


def _round(values: Array) -> list[float]:
    return [round(float(value), 4) for value in values]


def _tenths(value: Any) -> float:
    return round(float(value), 1)
