"""The result of a run and the table of exit statuses."""

from __future__ import annotations

import html
import os
import platform
import shutil
import sys
import textwrap
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from scipy.optimize import OptimizeResult

import goldstein
from goldstein.oracle import Array
from goldstein.run.history import History


class Status(IntEnum):
    """Why a run ended. Only criteria that the user set make `success` true."""

    words: str  # the same in words

    CRITERION = 0, "a criterion in `stop` was reached"
    MAX_EVALS = 1, "evaluation budget used"
    MAX_ITER = 2, "iteration limit reached"
    FAILING = 3, "most recent evaluations failed (NaN, infinite or a caught exception)"
    CALLBACK = 4, "stopped by the callback"
    INTERRUPTED = 5, "interrupted; this is the result so far"
    FINISHED = 6, "the method completed its schedule"
    RUNNING = 7, "still running"
    MAX_TIME = 8, "time limit reached; this is the result so far"
    RAISED = 9, "an exception ended the run; this is the result so far"

    def __new__(cls, value: int, words: str = "") -> Status:
        member = int.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member


VERSIONS = {
    "goldstein": goldstein.__version__,
    "python": platform.python_version(),
    "numpy": np.__version__,
    "scipy": scipy.__version__,
}
WIDTH = 110  # letters in a line of a printed result, where a terminal has room for them


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
        the function was called `nfev + nrepeat` times, or fewer where it is not known what was begun (after a kill,
        or in workers that are not our own).
    success : bool
        A criterion in `stop=` was reached. A budget that ran out is not success, as it does in nearly all runs: whether
        the answer is good is in `fun`, `stationarity` and the picture of the run.
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
    settings : dict
        What was asked for, in plain data: the function by name, its kind, the limits, the seed, what else was given.
    versions : dict
        Of goldstein, Python, NumPy and SciPy.
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
    settings: dict[str, Any]
    versions: dict[str, str]

    def plot(self, path: str | os.PathLike[str] | None = None, *, axes: Any = None, label: str | None = None) -> Any:
        """Draw the values of the run against its evaluations. Needs the extra plot.

        Parameters
        ----------
        path : path-like, optional
            Where the picture goes; its suffix says in which format, such as .png or .svg. None: it is only drawn.
        axes : matplotlib.axes.Axes, optional
            Where to draw; None: a new figure.
        label : str, optional
            Name of the curve.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from goldstein import plot

        return plot.run(self, path, axes=axes, label=label)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write a page about the run: one HTML file that needs nothing else. Needs the extra report.

        Parameters
        ----------
        path : path-like
            Where the page goes, such as "run.html".

        Returns
        -------
        Path
        """
        from goldstein import report

        return report.write(report.summary_of(self), path)

    def __repr__(self) -> str:
        """Say what a person wants to know first; the rest is in the attributes."""
        from goldstein import report

        if not {"fun", "history", "method", "status"} <= self.keys():  # some other result, or a part of one
            return super().__repr__()
        rows = {fact.name: fact.text for fact in report.facts_of(self)}
        rows["message"] = self.message
        rows["more"] = 'x, history, settings, ...; res.plot(), res.report("run.html")'
        width = max(map(len, rows))
        room = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
        wrap = textwrap.TextWrapper(room, subsequent_indent=" " * (width + 2))
        return "\n".join(wrap.fill(f"{name:>{width}}: {text}") for name, text in rows.items())

    def _repr_html_(self) -> str:
        """Return the same for notebooks, with a picture."""
        from goldstein import report

        rows = [(fact.name, fact.text) for fact in report.facts_of(self)] + [("message", self.message)]
        cells = "".join(
            f'<tr><th style="text-align:left" scope="row">{html.escape(name)}</th>'
            f'<td style="text-align:left">{html.escape(text)}</td></tr>'
            for name, text in rows
        )
        return f"<table>{cells}</table>{report.picture(self)}"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "plot", "report"]


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
