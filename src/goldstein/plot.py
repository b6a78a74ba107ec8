"""Figures (extra: plot): runs against their evaluations, in colours and dashes that everybody can tell apart."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.extras import needed
from goldstein.oracle import Array
from goldstein.report.chart import short
from goldstein.report.curves import curves_of, is_logarithmic

# Okabe and Ito's colours, which people with any kind of colour blindness can tell apart; yellow is too light on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
APART = 0.1  # marks on a curve, in diagonals of the picture
QUANTILES = (0.1, 0.9)  # of runs, between which the band lies
DPI = 130
LARGEST = 1e300  # of the values that matplotlib can draw
Path_ = str | os.PathLike[str]


def run(result: Any, path: Path_ | None = None, *, axes: Any = None, label: str | None = None) -> Any:
    """Draw one run; see `Result.plot`."""
    axes = _axes(path, axes)
    look = style(axes)
    name = label or result.method.name
    curves = curves_of(result, LARGEST)
    monitor = result.history.monitor
    if np.isfinite(monitor).any():
        _curve(axes, curves.evals, monitor, name, look)
        _finish(axes, "monitor", path)
        return axes
    values = curves.values
    if not curves.noisy:
        axes.plot(curves.evals, values, color=look["color"], alpha=0.4, linewidth=0.8)
        _curve(axes, curves.evals, curves.line, f"{name}, lowest so far", look)
    else:
        axes.plot(curves.evals, values, ".", color=look["color"], alpha=0.4)
        _curve(axes, curves.evals, curves.line, f"{name}, mean of values", look)
        finite = np.isfinite(curves.low) & np.isfinite(curves.high)
        low = curves.low[finite]
        lowest = np.min(values, initial=np.inf, where=np.isfinite(values))
        if lowest > 0:  # the axis may become logarithmic, and the band must stay on it
            low = np.maximum(low, lowest)
        axes.fill_between(curves.evals[finite], low, curves.high[finite], color=look["color"], alpha=0.2, linewidth=0)
    if abs(result.fun) <= LARGEST and curves.evals.size:
        error = curves.answer_error or None
        axes.errorbar(curves.end, result.fun, yerr=error, fmt="*", color=look["color"], markersize=12, label="answer")
    _finish(axes, "values", path)
    return axes


def _curve(axes: Any, evals: Array, values: Array, name: str, look: dict[str, Any]) -> None:
    """Draw what is finite of a curve."""
    fine = np.isfinite(values)
    axes.plot(evals[fine], values[fine], label=name, **(look if fine.sum() > 1 else {**look, "markevery": 1}))


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

    `nfev` and `values` have the shape (runs, records) or (records,), with NaN where a run is shorter than others.
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
    return {
        "color": COLOURS[kind],
        "linestyle": DASHES[kind],
        "alpha": 0.9,
        "marker": MARKS[kind],
        "markersize": 4,
        "markevery": APART,
    }


@np.errstate(over="ignore", invalid="ignore")  # in matplotlib, for values near the largest float
def _finish(axes: Any, ylabel: str, path: Path_ | None) -> None:
    """Name the axes, choose the scale, and write the picture if it has a place to go to."""
    values = np.concatenate([np.zeros(0), *(np.asarray(line.get_ydata(), float) for line in axes.get_lines())])
    scale = "log" if is_logarithmic(values) else "linear"
    axes.set(xlabel="evaluations of F(x; ξ)", ylabel=ylabel, yscale=scale)
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    if path is not None:
        axes.figure.savefig(path, dpi=DPI)
