"""Table, figure and verdicts of the attack study, all from its results file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from studies.attack.methods import delta_in_pixels, entries, step_in_pixels
from studies.attack.references import SHORT, SQUARE
from studies.record import write_whole
from studies.report import in_words, markdown, page, show

SETUP = Path(__file__).parent / "setup.md"
STYLES: dict[str, dict[str, Any]] = {
    "GFM, paper grid": {"color": "C0", "linestyle": "--"},
    "GFM, wide grid": {"color": "C0"},
    "GFM+, paper grid": {"color": "C1", "linestyle": "--"},
    "GFM+, wide grid": {"color": "C1"},
    "public ordering, paper grid": {"color": "0.4", "linestyle": "--"},
    "public ordering, wide grid": {"color": "0.4"},
    "GFM, wide grid, any row wins": {"color": "C0", "linestyle": ":"},
    "default": {"color": "C3", "linewidth": 2.0},
    SQUARE: {"color": "black"},
    SHORT: {"color": "black", "linestyle": "--"},
}

TITLE = "Black-box attack"
Results = Mapping[str, Any]


def write(results: Results, out: Path) -> None:
    """Leave figure.png and table.md in `out`, and print the rates."""
    write_whole(out / "table.md", tables(results))
    figure(results, out / "figure.png")
    for name, part in results["datasets"].items():
        show(f"{name}: success in % by number of queries", *_rates(part))
    print(f"Figure, all tables and numbers: {out}")


def tables(results: Results) -> str:
    """Return verdicts, tables and set-up as a page of Markdown."""
    tuning = results["tuning"]
    head = (
        f"Made by `{results['command']}`: {results['images']:,} test images of each data set, "
        f"{results['max_queries']:,} queries for each; settings tuned on {tuning['images'][-1]} training images with "
        f"{tuning['max_queries']:,}."
    )
    for code in sorted(set(results.get("again", {}).values())):
        keys = ", ".join(key for key, its in results["again"].items() if its == code)
        head += f" Run again since, with changed code ({code}; all the rest: {results['code']}): {keys}."
    parts = [_claims(results), head, "## Numbers", _networks(results)]
    for name, part in results["datasets"].items():
        title = (
            f"{name}: success in % of the attacked images by number of queries, all counted (95 % bands over images)"
        )
        wins, attacked = part["pgd"]["won"], part["pgd"]["attacked"]
        note = f"PGD, which sees gradients, wins {100 * wins / max(attacked, 1):.1f} %."
        parts += [f"{title}; mean queries of the images won, median of all. {note}", markdown(*_rates(part))]
    parts += [_conventions(results), _differences(results), _settings(results)]
    return page(TITLE, parts, SETUP)


def _claims(results: Results) -> str:
    """Return what the tables say about each claim, in sentences."""
    sets = results["datasets"]
    pairs = [
        (f"{other} tuned on the {grid} grid", f"GFM+, {grid} grid", f"{key}, {grid} grid")
        for key, other in (("GFM", "GFM, both"), ("public ordering", "the ordering of the public code, settings"))
        for grid in ("paper", "wide")
    ]
    lines = [
        f"GFM+ against {title}: {'; '.join(f'on {name} {_course(part, one, other)}' for name, part in sets.items())}."
        for title, one, other in pairs
    ]
    squares = [key for key in (SQUARE, SHORT) if all(key in part["methods"] for part in sets.values())]
    for key, mark in product(squares, (500, 1_000)):
        words = {name: _words(part, "default", key, mark) for name, part in sets.items()}
        if all(words.values()):
            said = [f"on {name} {word}" for name, word in words.items()]
            lines.append(f"The library's default against {key} at {mark:,} queries: {'; '.join(said)}.")
    if not squares:
        lines.append("Square Attack was left out: the Adversarial Robustness Toolbox was not installed.")
    return "\n".join(f"- {line}" for line in lines)


def _course(part: Mapping[str, Any], one: str, other: str) -> str:
    """Say by how much one success rate is above another along the budget, wherever one of them has won anything."""
    first, second = (part["methods"][key] for key in (one, other))
    marks = [at for at, *rates in zip(first["at"], first["rate"], second["rate"], strict=True) if any(rates)]
    said = [f"{_words(part, one, other, mark)} at {mark:,} queries" for mark in marks]
    return ", ".join(said) or "neither has won any image"


def _words(part: Mapping[str, Any], one: str, other: str, at: int) -> str:
    """Say by how much one success rate is above another, in points, and whether that is more than chance."""
    found = next(row for row in part["differences"] if (row["of"], row["from"]) == (one, other))
    if at not in found["at"]:
        return ""
    k = found["at"].index(at)
    difference, low, high = (100 * found[key][k] for key in ("difference", "low", "high"))
    word = "level"
    if low > 0:
        word = "above"
    elif high < 0:
        word = "below"
    return f"{difference:+.1f} points ({low:+.1f} to {high:+.1f}, {word})"


def _networks(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        it = part["network"]
        rows.append([name, f"{it['test']:.2%}", f"{it['paper']:.2%}", f"{it['train']:.2%}", it["sha256"][:12]])
    head = ["data", "test accuracy", "the paper's", "training accuracy", "weights (SHA-256)"]
    epochs = next(iter(results["datasets"].values()))["network"]["schedule"]["epochs"]
    return f"The networks, trained for {epochs} epochs.\n\n{markdown(head, rows)}"


def _rates(part: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for key, it in part["methods"].items():
        cells = zip(it["rate"], it["low"], it["high"], strict=True)
        shown = [f"{100 * rate:.1f} ({100 * low:.0f}–{100 * high:.0f})" for rate, low, high in cells]
        rows.append([key, *shown, _count(it["mean"], "none"), _count(it["median"], f"> {it['at'][-1]:,}")])
    marks = next(iter(part["methods"].values()))["at"]
    return ["method", *(f"{mark:,}" for mark in marks), "mean", "median"], rows


def _conventions(results: Results) -> str:
    """Return rates by the other way of counting, beside those where everything counts."""
    rows = []
    for name, part in results["datasets"].items():
        for key, it in part["methods"].items():
            for other, rates in it["by"].items():
                word = {"estimation": "without success checks", "asked": "repeated rows too"}[other]
                pairs = zip(it["rate"], rates, strict=True)
                rows.append([name, key, word, *(f"{100 * a:.1f} / {100 * b:.1f}" for a, b in pairs)])
    marks = next(iter(next(iter(results["datasets"].values()))["methods"].values()))["at"]
    title = (
        "Two ways of counting: success in % by number of queries, every row that reached the network / by the count "
        "named. The budget limits the first. For Square Attack a repeated row is answered from memory and "
        "not charged."
    )
    return f"{title}\n\n{markdown(['data', 'method', 'count', *(f'{mark:,}' for mark in marks)], rows)}"


def _differences(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        for it in part["differences"]:
            cells = zip(it["difference"], it["low"], it["high"], strict=True)
            shown = [f"{100 * mid:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})" for mid, low, high in cells]
            rows.append([name, f"{it['of']} − {it['from']}", *shown])
    marks = next(iter(results["datasets"].values()))["differences"][0]["at"]
    title = "Differences of success rates in points, on the same images, with 95 % bands over images."
    return f"{title}\n\n{markdown(['data', 'difference', *(f'{mark:,}' for mark in marks)], rows)}"


def _settings(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        for key, it in part["methods"].items():
            if "tuning" not in it:
                continue
            eta = it["setting"]["eta"]
            tried = f"{len(it['tuning'])} settings"
            rows.append([name, key, in_words(it["setting"]), f"{step_in_pixels(eta):.3g}", tried])
    delta = f"δ = 0.01 is {delta_in_pixels():.4f} in pixels"
    title = f"Settings chosen; η in the units of the public code, and in pixels. {delta}."
    return f"{title}\n\n{markdown(['data', 'method', 'setting', 'η in pixels', 'chosen among'], rows)}"


def figure(results: Results, path: Path) -> Path:
    """Write two panels for each data set: the paper's methods, and the default with what it is made of."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = results["datasets"]
    tuned = [key for key, entry in entries().items() if entry.of_the_paper]
    size = (5.0 * len(sets) + 2.6, 8.4)
    canvas, panels = plt.subplots(2, len(sets), figsize=size, layout="constrained", squeeze=False)
    for column, (name, part) in enumerate(sets.items()):
        paper = [key for key in part["methods"] if key in tuned]
        parts = [key for key in part["methods"] if key not in (*paper, SQUARE, SHORT)]
        chosen = ([*paper, "default", SQUARE], [*parts, SQUARE, SHORT, "GFM, wide grid"])
        for axes, keys, title in zip(panels[:, column], chosen, ("the paper's methods", "ingredients"), strict=True):
            _panel(axes, part, [key for key in keys if key in part["methods"]])
            axes.set(title=f"{name}: {title}", xlabel="queries, all counted", ylabel="success rate")
            if column == len(sets) - 1:  # the same curves in all panels of a row
                axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(canvas)
    return path


def _panel(axes: Any, part: Mapping[str, Any], keys: Sequence[str]) -> None:
    for k, key in enumerate(keys):
        style = STYLES.get(key, {"color": f"C{4 + k % 6}", "linestyle": "-."})
        curve = {name: np.array(values) for name, values in part["methods"][key]["curve"].items()}
        axes.plot(curve["queries"], curve["rate"], label=key, **{"linewidth": 1.2, **style})
        axes.fill_between(curve["queries"], curve["low"], curve["high"], color=style["color"], alpha=0.12, linewidth=0)
    limit = part["pgd"]["won"] / max(part["pgd"]["attacked"], 1)
    axes.axhline(limit, color="black", linestyle=":", linewidth=0.8, label="PGD, with gradients")
    axes.set(xscale="log", ylim=(0, 1.02), xlim=(10, curve["queries"][-1]))
    axes.grid(alpha=0.3)


def _count(value: float | None, otherwise: str) -> str:
    return otherwise if value is None else f"{value:,.0f}"
