"""Figures (extra: plot): runs against their evaluations, in colours and dashes that everybody can tell apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.extras import needed
from goldstein.oracle import Array
from goldstein.report.chart import WIDE, short
from goldstein.report.summary import SIGMAS, is_noisy, smoothed

# Okabe and Ito's colours, which people with any kind of colour blindness can tell apart; yellow is too light on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
APART = 0.1  # marks on a curve, in diagonals of the picture
QUANTILES = (0.1, 0.9)  # of runs, between which the band lies
DPI = 130
Path_ = str | os.PathLike[str]


def run(result: Any, path: Path_ | None = None, *, axes: Any = None, label: str | None = None) -> Any:
    """Draw one run; see `Result.plot`."""
    axes = _axes(path, axes)
    history = result.history
    made = history.nfev + history.ngev
    look = style(axes)
    name = label or result.method.name
    if np.isfinite(history.monitor).any():
        _curve(axes, made, history.monitor, name, look)
        _finish(axes, "monitor", path)
        return axes
    values = history.fun
    if is_noisy(result):
        mean, error = smoothed(values, made)
        axes.plot(made, values, ".", color=look["color"], alpha=0.4)
        _curve(axes, made, mean, f"{name}, mean of values", look)
        fine = np.isfinite(mean)
        low = (mean - SIGMAS * error)[fine]
        known = values[np.isfinite(values)]
        if known.size and known.min() > 0:  # the axis may become logarithmic, and the band must not fall off it
            low = np.maximum(low, known.min())
        axes.fill_between(made[fine], low, (mean + SIGMAS * error)[fine], color=look["color"], alpha=0.2, linewidth=0)
    else:
        axes.plot(made, values, color=look["color"], alpha=0.4, linewidth=0.8)
        _curve(axes, made, np.fmin.accumulate(values) if values.size else values, f"{name}, lowest so far", look)
    _answer(axes, result, made, look["color"])
    _finish(axes, "values", path)
    return axes


def _curve(axes: Any, made: Array, values: Array, name: str, look: dict[str, Any]) -> None:
    """Draw what is finite of a curve."""
    fine = np.isfinite(values)
    axes.plot(made[fine], values[fine], label=name, **(look if fine.sum() > 1 else {**look, "markevery": 1}))


def _answer(axes: Any, result: Any, made: Array, colour: str) -> None:
    """Mark f at the answer, with twice its standard error to both sides."""
    if not np.isfinite(result.fun) or not made.size:
        return
    error = SIGMAS * np.nan_to_num(result.fun_stderr)
    axes.errorbar(made[-1], result.fun, yerr=error or None, fmt="*", color=colour, markersize=12, label="answer")


def runs(many: Any, path: Path_ | None = None, *, axes: Any = None, label: str | None = None) -> Any:
    """Draw many runs of one method as a band; see `ManyResults.plot`."""
    axes = _axes(path, axes)
    stacked = many.history
    monitored = np.isfinite(stacked["monitor"]).any()
    values = stacked["monitor"] if monitored else stacked["fun"]
    band(axes, stacked["nfev"] + stacked["ngev"], values, label or many[0].method.name)
    _finish(axes, "monitor" if monitored else "values", path)
    return axes


def band(axes: Any, nfev: Array, values: Array, label: str) -> None:
    """Draw the median over runs and the band from their 10 % to their 90 % quantile, which lies within the data.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    nfev, values : ndarray, shape (runs, records) or (records,)
        Evaluations and values; NaN where a run is shorter than others.
    label : str
        Name of the curve.
    """
    nfev = np.atleast_2d(nfev)
    values = np.atleast_2d(values)
    longest = int(np.argmax(np.sum(~np.isnan(nfev), axis=1)))
    grid = nfev[longest][~np.isnan(nfev[longest])]
    rows = []
    for evals, row in zip(nfev, values, strict=True):
        fine = np.isfinite(evals) & np.isfinite(row)
        if fine.any():
            rows.append(np.interp(grid, evals[fine], row[fine]))
    if not rows:
        return
    low, middle, high = np.quantile(rows, [QUANTILES[0], 0.5, QUANTILES[1]], axis=0)
    look = style(axes)
    axes.plot(grid, middle, label=label, **look)
    if len(rows) > 1:
        axes.fill_between(grid, low, high, color=look["color"], alpha=0.2, linewidth=0)


def curves(bands: Mapping[str, tuple[Array, Array]], path: Path_, *, title: str, ylabel: str) -> Path:
    """Write one panel with a band for each entry: name -> (nfev, values), of shape (runs, records) or (records,)."""
    axes = new_axes(path)
    for name, (nfev, values) in bands.items():
        band(axes, nfev, values, name)
    axes.set_title(title)
    _finish(axes, ylabel, path)
    return Path(path)


def _axes(path: Any, axes: Any) -> Any:
    """Return where to draw."""
    if path is not None and not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}; what to draw into is given as axes=.")
    return new_axes(path) if axes is None else axes


def new_axes(path: Path_ | None) -> Any:
    """Return axes of a new figure; one that goes to a file has no window and changes nothing in matplotlib."""
    size = {"figsize": (7, 4.5), "layout": "constrained"}
    if path is None:
        return needed("matplotlib.pyplot", "A picture").subplots(**size)[1]
    return needed("matplotlib.figure", "A picture").Figure(**size).subplots()


def style(axes: Any) -> dict[str, Any]:
    """Return how the next curve is drawn: unlike those that are there, also without colours."""
    number = sum(not line.get_label().startswith("_") for line in axes.get_lines())
    kind = number % len(COLOURS)
    dashes = {"color": COLOURS[kind], "linestyle": DASHES[kind], "alpha": 0.9}
    return {**dashes, "marker": MARKS[kind], "markersize": 4, "markevery": APART}


def _finish(axes: Any, ylabel: str, path: Path_ | None) -> None:
    """Name the axes, choose the scale, and write the picture if it has a place to go to."""
    shown = [np.asarray(line.get_ydata(), float) for line in axes.get_lines()]
    values = np.concatenate([np.zeros(0), *shown])
    values = values[np.isfinite(values)]
    above = values[values > 0]
    wide = above.size > 0 and values.min() >= 0 and above.max() > WIDE * above.min()
    axes.set(xlabel="evaluations of F(x; ξ)", ylabel=ylabel, yscale="log" if wide else "linear")
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    if path is not None:
        axes.figure.savefig(path, dpi=DPI)
