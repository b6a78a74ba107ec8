"""Figures (extra: plot)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.oracle import Array


def band(axes: Any, nfev: Array, values: Array, label: str, **style: Any) -> None:
    """Draw mean ± one standard deviation over runs against evaluations, on the grid of the longest run."""
    longest = int(np.argmax(np.sum(~np.isnan(nfev), axis=1)))
    grid = nfev[longest][~np.isnan(nfev[longest])]
    rows = []
    for evals, row in zip(nfev, values, strict=True):
        fine = ~np.isnan(evals) & ~np.isnan(row)
        rows.append(np.interp(grid, evals[fine], row[fine]))
    mean, std = np.mean(rows, axis=0), np.std(rows, axis=0)
    (line,) = axes.plot(grid, mean, label=label, **style)
    axes.fill_between(grid, mean - std, mean + std, color=line.get_color(), alpha=0.2, linewidth=0)


def curves(runs: Mapping[str, tuple[Array, Array]], path: Path, *, title: str, ylabel: str) -> Path:
    """Write one panel with a band for each entry of `runs`: name -> (nfev, values), each of shape (runs, records)."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, (nfev, values) in runs.items():
        band(axes, nfev, values, name)
    axes.set(title=title, xlabel="evaluations of F(x; ξ)", ylabel=ylabel, yscale="log")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
