"""The result of a run and the table of exit statuses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from goldstein.oracle import Array
from goldstein.run.history import History


class Status(IntEnum):
    """Why a run ended. Only criteria that the user set make `success` true."""

    CRITERION = 0
    MAX_EVALS = 1
    MAX_ITER = 2
    FAILING = 3
    CALLBACK = 4
    INTERRUPTED = 5
    FINISHED = 6
    RUNNING = 7
    MAX_TIME = 8


REASONS = {
    Status.MAX_EVALS: "The evaluation budget is used up.",
    Status.MAX_ITER: "The iteration limit is reached.",
    Status.FAILING: "Most of the recent evaluations failed (NaN, infinite or a caught exception).",
    Status.CALLBACK: "The callback asked to stop.",
    Status.INTERRUPTED: "Interrupted; this is the run so far.",
    Status.FINISHED: "The method has ended its schedule.",
    Status.RUNNING: "Still running.",
    Status.MAX_TIME: "The time is over; this is the run so far.",
}


class Result(OptimizeResult):
    """What `minimize` returns; a `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The answer.
    fun : float
        f(x), estimated on fresh ξ (exact for a deterministic f, and for a finite sum when that is affordable).
    fun_stderr : float
        Standard error of `fun`; 0 when it is exact, NaN when it could not be had.
    nfev : int
        Values of one component F(x; ξ) that were asked for, everything included.
    nfev_diagnostic : int
        Those of them that went into estimates that do not move x.
    ngev : int
        Gradients of one component that were asked for.
    nit : int
        Iterations.
    nfail : int
        Failed evaluations.
    nrepeat : int
        Evaluations that a machine lost (a worker that died or hung, a run that was killed) and that were done again;
        the function was called `nfev + nrepeat` times.
    success : bool
        A criterion that the user set was reached. A budget that ran out is not success.
    status : Status
        Why the run ended; see `Status`.
    message : str
        The same in words, with what was chosen on the user's behalf.
    method : Method
        The method that ran, with its settings.
    history : History
        The course of the run.
    stationarity : Certificate
        How stationary the answer is; only if it was asked for, or if the method ended with a certificate.
    """

    x: Array
    fun: float
    fun_stderr: float
    nfev: int
    nfev_diagnostic: int
    ngev: int
    nit: int
    nfail: int
    nrepeat: int
    success: bool
    status: Status
    message: str
    history: History
    stationarity: Any


def mean_and_error(values: Array, exact: bool) -> tuple[float, float]:
    """Return the mean of the finite values and its standard error (0 if they are all there is)."""
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return np.nan, np.nan
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
        mean = float(finite.mean())
        if exact and finite.size == values.size:
            return mean, 0.0
        if finite.size == 1:
            return mean, np.nan
        return mean, float(finite.std(ddof=1) / np.sqrt(finite.size))
