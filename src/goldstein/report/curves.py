"""The numbers in a picture of a run, for the report's charts and for matplotlib."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from goldstein.oracle import Array

NEIGHBOURS = 4  # records to each side whose scatter gives the band of noisy values
SIGMAS = 2.0
WIDE = 50.0  # positive values that differ by more than this factor are shown on a logarithmic axis


@dataclass(frozen=True)
class Curves:
    """The values of a run against its evaluations."""

    evals: Array
    values: Array  # mean since the record before
    line: Array  # mean over neighbouring records of a noisy function, lowest value so far of an exact one
    low: Array  # two standard errors below the line, and above it
    high: Array
    noisy: bool
    answer_error: float  # two standard errors of f at the answer; 0 if unknown

    @property
    def end(self) -> float:
        """Evaluations at the last record."""
        return float(self.evals[-1]) if len(self.evals) else 0.0


@np.errstate(over="ignore", invalid="ignore")
def curves_of(result: Any, largest: float = np.inf) -> Curves:
    """Return the curves of a `goldstein.Result`, its values cut to ±largest."""
    history = result.history
    evals = history.nfev + history.ngev
    values = np.clip(history.fun, -largest, largest)
    answer_error = min(SIGMAS * float(np.nan_to_num(result.fun_stderr)), largest)
    noisy = is_noisy(result)
    if noisy:
        line, error = smoothed(values, evals)
    else:
        line = np.fmin.accumulate(values) if len(values) else values
        error = np.zeros(len(values))
    return Curves(evals, values, line, line - SIGMAS * error, line + SIGMAS * error, noisy, answer_error)


def is_noisy(result: Any) -> bool:
    """Whether the values of a run have noise."""
    oracle = result.get("settings", {}).get("oracle")
    return bool(result.fun_stderr != 0 if oracle is None else oracle != "Deterministic")


def smoothed(values: Array, evals: Array) -> tuple[Array, Array]:
    """Return the mean of each record and its neighbours, and its standard error from their scatter.

    A record counts by the evaluations since the one before.

    Examples
    --------
    >>> import numpy as np
    >>> mean, error = smoothed(np.array([1.0, 3.0] * 50), np.arange(100))
    >>> bool(abs(mean[50] - 2) < 0.2), bool(0.2 < error[50] < 0.5)
    (True, True)
    """
    mean = np.full(len(values), np.nan)
    error = np.full(len(values), np.nan)
    counts = np.maximum(np.diff(evals, prepend=0.0), 1e-9)
    for place in range(len(values)):
        nearby = slice(max(0, place - NEIGHBOURS), place + NEIGHBOURS + 1)
        finite = np.isfinite(values[nearby])
        near = values[nearby][finite]
        if near.size > 2:
            weights = counts[nearby][finite] / counts[nearby][finite].sum()
            with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
                mean[place] = weights @ near
                scatter = (weights**2) @ (near - mean[place]) ** 2
                error[place] = math.sqrt(scatter * near.size / (near.size - 1))
    return mean, error


def is_logarithmic(values: Array) -> bool:
    """Whether values, not finite ones left out, belong on a logarithmic axis; a 0 has its place at the bottom."""
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    return bool(positive.size and finite.min() >= 0 and positive.max() / WIDE > positive.min())
