"""The figure of the scaling study: evaluations against ε, d and δ for both problems (extra: plot)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from studies.scaling.report import AXES, SIGNS, WORST_CASE, Record, cells, shared_target

STYLES = {
    "gfm": ("tab:blue", "o"),
    "gfm decayed": ("tab:cyan", "s"),
    "gfm+": ("tab:red", "D"),
    "zo-o2nc ogd": ("tab:green", "^"),
    "zo-o2nc adagrad": ("tab:olive", "v"),
}


def draw(record: Record, path: Path) -> Path:
    """Write one row of panels a problem; a dotted line has the worst-case exponent and begins at the easy end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    terrains = list(record["terrains"])
    shape: dict[str, Any] = {"figsize": (12.5, 4.1 * len(terrains)), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(len(terrains), 3, sharey="row", **shape)
    for row, terrain in enumerate(terrains):
        for column, axis in enumerate(AXES):
            _panel(panels[row][column], record, terrain, axis)
        panels[row][0].set_ylabel(f"{terrain}: evaluations of F(x; ξ)")
    lines, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(
        "Evaluations until a bound on dist(0, ∂_δ f) is ε, best setting of each grid: geometric mean and all but the\n"
        "lowest and highest tenth of the seeds; hollow: some seeds missed; dotted: the exponent of the worst case"
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _panel(axes: Any, record: Record, terrain: str, axis: str) -> None:
    d, delta = record["settings"]["tuned"]["base"]
    fixed = {"epsilon": f"ε = {shared_target(record, terrain):g}", "d": f"d = {d}", "delta": f"δ = {delta:g}"}
    for method, (colour, marker) in STYLES.items():
        pairs = cells(record, terrain, method, axis)
        if not pairs:
            continue
        x = np.array([scale for scale, _ in pairs], float)
        y = np.array([np.exp(np.mean(np.log(row["evaluations"]))) for _, row in pairs])
        low, high = np.array([np.quantile(row["evaluations"], [0.1, 0.9]) for _, row in pairs]).T
        axes.plot(x, y, color=colour, marker=marker, markersize=5, label=method, linewidth=1.5)
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
        for (_, row), at, height in zip(pairs, x, y, strict=True):
            if row["misses"]:
                axes.plot(at, height, marker, color=colour, markerfacecolor="white", markersize=5)
        theory = dict(zip(AXES, WORST_CASE.get(method, (None,) * 3), strict=True))[axis]
        if theory is not None and method != "zo-o2nc adagrad":
            first = 0 if axis == "d" else len(x) - 1  # where the task is easy
            axes.plot(x, y[first] * (x / x[first]) ** theory, ":", color=colour, linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel=SIGNS[axis])
    axes.set_title(", ".join(text for key, text in fixed.items() if key != axis), fontsize=10)
    ticks = sorted({scale for method in STYLES for scale, _ in cells(record, terrain, method, axis)})
    axes.set_xticks(ticks if axis != "epsilon" else ticks[::2], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xticklabels([f"{tick:.3g}" for tick in (ticks if axis != "epsilon" else ticks[::2])])
    if axis != "d":
        axes.invert_xaxis()  # harder to the right, as in d
    axes.grid(alpha=0.3)
