"""Tables and figures of the study, from its results; the bars on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.peers.methods import AUTO, PEERS
from studies.peers.summary import FLOOR, Judged, Record, bars, competes, judged, profile
from studies.record import write_whole
from studies.report import markdown, page

SETUP = Path(__file__).parent / "setup.md"
TITLES = {
    "classical": "Classical nonsmooth functions, 200·d values",
    "long": "Classical nonsmooth functions, 1,000·(d + 1) values",
    "stochastic": "Simulators and regressions",
    "coco-noisy": "COCO bbob-noisy",
    "coco-large": "COCO bbob-largescale",
    "simopt": "SimOpt",
}
COLOURS = {
    "auto": "tab:red",
    "pycma": "tab:blue",
    "pycma, a seed a generation": "tab:cyan",
    "SepCMA": "tab:green",
    "nevergrad": "tab:purple",
    "Nelder–Mead": "tab:brown",
    "Powell": "tab:olive",
    "COBYQA": "tab:pink",
    "L-BFGS-B": "tab:orange",
    "BFGS": "black",
}
GREY = "0.6"


def write(results: Record, out: Path) -> None:
    """Leave table.md, shares.png and profile.png in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    tuning = not judged(results)
    cells = judged(results, tuning)
    write_whole(out / "table.md", tables(results, cells))
    if cells:
        draw_shares(cells, out / "shares.png")
        draw_profiles(cells, out / "profile.png")
        print(spoken(bars(cells)))


def tables(results: Record, cells: Sequence[Judged]) -> str:
    """Return verdicts, tables and set-up as a page of Markdown."""
    spent = ", ".join(f"{family} {seconds / 60:.0f}" for family, seconds in results["cpu_seconds"].items())
    found = bars(cells)
    parts = [
        spoken(found),
        f"Made by `{results['command']}`; minutes of processor time: {spent}. Numbers in `results/peers.json`.",
        "## Where it is not first by more than a factor of two",
        _exceptions(found),
        "## All cells",
        "The share of f(x0) − f* that is left: medians over the seeds, means for SimOpt; shares below 1e-6 count as "
        "1e-6. In **bold** the least of the untuned methods. A cell whose name ends in † is of a problem on which "
        "constants were chosen (with other seeds); f* is the lowest value seen where the name ends in *. A dash: "
        "the method is left out, for a reason below. Columns in brackets do not compete.",
    ]
    for family in dict.fromkeys(cell.cell["family"] for cell in cells):
        chosen = [cell for cell in cells if cell.cell["family"] == family]
        parts += [f"### {TITLES.get(family, family)}", _table(chosen), _reasons(chosen)]
    return page("Comparison with other optimisers", parts, SETUP)


def spoken(found: dict[str, Any]) -> str:
    """Return the bars in sentences."""
    lines = []
    for kind, row in found["never_worse"].items():
        if row["cells"]:
            lines.append(f"- Within 2 × of the best untuned method, {kind}: {_within(row)}.")
    for family, row in found["families"].items():
        if row["cells"]:
            lines.append(f"  - {TITLES.get(family, family)}: {_within(row)}.")
    for noise, row in found["noises"].items():
        if row["cells"]:
            lines.append(f"  - Noise {noise}: {_within(row)}.")
    calm = found["without_noise"]
    if calm["functions"]:
        lines.append(
            f"- Without noise, 200·d values, at most 2 × the better of pycma and scipy's BFGS: "
            f"{calm['functions_within']} of {calm['functions']} functions of `problems/` ({calm['share']:.0%}; target: "
            f"67 %), {calm['cells_within']} of {calm['cells']} cells."
        )
    for d, row in found["coco"].items():
        if row["medians"][AUTO] is not None:
            stuck = ", ".join(row["no_progress"]) or "none"
            lines.append(
                f"- COCO bbob-noisy, d = {d}, median remaining share on f101 to f112: {_medians(row['medians'])} "
                f"(target: {row['aim']:g}); on all functions: {_medians(row['all'])}. Functions on which pycma makes "
                f"progress and auto none: {stuck}."
            )
    simopt = found["simopt"]
    if simopt["problems"]:
        lines.append(
            f"- SimOpt, first or within 2 % of the gap: {simopt['within']} of {simopt['problems']} problems (target: 8 "
            "of 10)."
        )
    return "\n".join(lines)


def _medians(shares: dict[str, float | None]) -> str:
    return ", ".join(f"{name} {_precise(share)}" for name, share in shares.items() if share is not None)


def _precise(share: float) -> str:
    return f"{share:.1e}"


def _within(row: dict[str, Any]) -> str:
    text = f"{row['within']} of {row['cells']} cells ({row['share']:.0%}), first in {row['firsts']}"
    if row["nobody_progresses"]:
        text += f"; no method makes progress in {row['nobody_progresses']} more"
    return text


def _exceptions(found: dict[str, Any]) -> str:
    rows = found["never_worse"]["all"]["exceptions"]
    if not rows:
        return "Nowhere."
    lines = [[row["cell"], _share(row["auto"]), _share(row["leaves"]), row["best"]] for row in rows]
    return markdown(["cell", "auto leaves", "the best leaves", "which is"], lines)


def _table(cells: Sequence[Judged]) -> str:
    names = _names(cells)
    head = ["problem", "d", "noise", "values", *(name if competes(name) else f"({name})" for name in names)]
    rows = []
    for cell in cells:
        about = cell.cell
        marks = ("†" if about["tuned"] else "") + ("*" if about["f_star"] is None else "")
        row = [about["problem"] + marks, str(about["d"]), about["noise"], f"{about['budget']:,}"]
        least = max(cell.shares[cell.best], FLOOR)
        for name in names:
            if name not in cell.shares:
                row.append("–")
                continue
            text = _share(cell.shares[name])
            bold = competes(name) and max(cell.shares[name], FLOOR) <= least
            row.append(f"**{text}**" if bold else text)
        rows.append(row)
    return markdown(head, rows)


def _reasons(cells: Sequence[Judged]) -> str:
    """Say why methods are left out."""
    said: dict[tuple[str, str], int] = {}
    for cell in cells:
        for name, reason in cell.cell["left_out"].items():
            if name not in cell.shares:
                said[name, reason] = said.get((name, reason), 0) + 1
    if not said:
        return ""
    return "Left out: " + "; ".join(f"{name} in {n} cells ({reason})" for (name, reason), n in said.items()) + "."


def _names(cells: Sequence[Judged]) -> list[str]:
    """Return the methods that have runs, in the order of the study."""
    seen = dict.fromkeys(name for cell in cells for name in cell.shares)
    return [name for name in PEERS if name in seen] + [name for name in seen if name not in PEERS]


def _share(share: float) -> str:
    if not np.isfinite(share):
        return "∞"
    if share < FLOOR:
        return "<1e-6"
    return f"{share:.2g}"


def draw_shares(cells: Sequence[Judged], path: Path) -> Path:
    """Draw one panel a family: a dot for each cell and method, and the median over the cells."""
    plt = _pyplot()
    families = list(dict.fromkeys(cell.cell["family"] for cell in cells))
    columns = min(2, len(families))
    lines = -(-len(families) // columns)
    shape: dict[str, Any] = {"figsize": (6.5 * columns, 3.4 * lines), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(lines, columns, **shape)
    rng = np.random.default_rng(0)
    for panel in panels.flat[len(families) :]:
        panel.set_axis_off()
    for panel, family in zip(panels.flat, families, strict=False):
        chosen = [cell for cell in cells if cell.cell["family"] == family]
        names = [name for name in _names(chosen) if competes(name)][::-1]
        for height, name in enumerate(names):
            shares = np.array([cell.shares[name] for cell in chosen if name in cell.shares])
            shares = np.clip(shares, FLOOR, 10)
            heights = height + rng.uniform(-0.25, 0.25, len(shares))
            colour = COLOURS.get(name, GREY)
            panel.plot(shares, heights, ".", color=colour, markersize=4, alpha=0.6)
            panel.plot([np.median(shares)] * 2, [height - 0.4, height + 0.4], color=colour, linewidth=2.5)
        panel.set_yticks(range(len(names)), names)
        panel.set(xscale="log", xlim=(FLOOR / 2, 20))
        panel.set_title(TITLES.get(family, family), fontsize=10)
        panel.grid(alpha=0.3, axis="x")
    figure.suptitle("Share of f(x0) − f* left at the end of the budget: a dot a cell, a bar at their median")
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def draw_profiles(cells: Sequence[Judged], path: Path) -> Path:
    """Draw performance profiles: over all cells, and for each kind of noise."""
    plt = _pyplot()
    kinds = {"all cells": list(cells)}
    for noise in dict.fromkeys(cell.cell["noise"] for cell in cells):
        kinds[f"noise: {noise}"] = [cell for cell in cells if cell.cell["noise"] == noise]
    factors = np.logspace(0, 6, 121)
    names = [name for name in _names(cells) if competes(name)]
    shape: dict[str, Any] = {"figsize": (4 * len(kinds), 4.4), "layout": "constrained", "squeeze": False}
    figure, panels = plt.subplots(1, len(kinds), sharey=True, **shape)
    for panel, (kind, chosen) in zip(panels[0], kinds.items(), strict=True):
        for name, heights in profile(chosen, names, factors).items():
            width = 2.5 if name == AUTO else 1.2
            panel.plot(factors, heights, color=COLOURS.get(name, GREY), linewidth=width, label=name)
        panel.set(xscale="log", xlabel="at most so many times the least share", ylim=(0, 1.02))
        panel.set_title(f"{kind} ({len(chosen)})", fontsize=10)
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("share of the cells in which a method runs")
    handles: dict[str, Any] = {}
    for panel in panels[0]:
        for line, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, line)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
