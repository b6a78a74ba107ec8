"""Table, figure and verdicts of the SVM study, all from its results file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.studies.svm import CHARGED, EVALUATED

BEGIN, END = "<!-- svm: begin -->", "<!-- svm: end -->"
STYLES = {
    "GFM": {"color": "C0"},
    "GFM+": {"color": "C1"},
    "GFM+, m > 1": {"color": "C4"},
    "GFM, decay": {"color": "C2"},
    "ZO-O2NC": {"color": "C5"},
    "auto": {"color": "C3"},
    CHARGED: {"color": "black", "linestyle": "--"},
    EVALUATED: {"color": "black", "linestyle": ":"},
}
SIGNS = {"eta": "η"}

Results = Mapping[str, Any]


def write(results: Results, out: Path, docs: Path | None = None) -> None:
    """Leave figure.png and table.md in `out`, print the losses, and fill the markers of `docs` if it is named."""
    from rich.console import Console
    from rich.table import Table

    text = block(results)
    (out / "table.md").write_text(text)
    figure(results, out / "figure.png")
    if docs is not None:
        fill(docs, text)
    head, rows = _losses(results)
    table = Table(title="Full loss at the end of the budget, mean ± standard deviation over seeds")
    for name in head:
        table.add_column(name, justify="left" if name == "method" else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(f"Figure, all tables and numbers: {out}", highlight=False)


def fill(docs: Path, text: str) -> None:
    """Put the text between the markers of a Markdown file."""
    page = docs.read_text()
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"{docs} must hold the markers {BEGIN} and {END} once each.")
    docs.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n\n{text}\n{END}", page, flags=re.DOTALL))


def block(results: Results) -> str:
    """Return all tables and verdicts as Markdown."""
    seeds, tuning, share = len(results["seeds"]), len(results["tuning_seeds"]), results["share_of_budget"]
    scale = "the whole budget" if share == 1 else f"{share:.0%} of the budget"
    head = (
        f"Made by `{results['command']}`: {scale}, settings tuned on {tuning} seed{'s' * (tuning > 1)}, results on "
        f"{seeds} others."
    )
    parts = [head, _claims(results), _sets(results), LOSSES, _table(*_losses(results)), _settings(results)]
    return "\n\n".join([*parts, _verdicts(results), _public(results), _variance(results)]) + "\n"


def _claims(results: Results) -> str:
    """Return what the tables say about each claim, in sentences."""
    sets = {name: part["methods"] for name, part in results["datasets"].items()}
    plus, recursive = "GFM+", "GFM+, m > 1"
    steadier = [
        f"{sum(_std(its[key]) < _std(its['GFM']) for its in sets.values())} of {len(sets)}" for key in (plus, recursive)
    ]
    plain = sum(its[plus]["setting"]["m"] == 1 for its in sets.values())
    shares = [its[recursive]["steps"] / its["GFM"]["steps"] for its in sets.values()]
    errors = [row["error"] / row["plain"] for part in results["datasets"].values() for row in part["variance"]["rows"]]
    best = {name: min((its["GFM"], its[plus]), key=_mean) for name, its in sets.items()}
    within = sum(_mean(its["auto"]) <= _mean(best[name]) + _std(best[name]) for name, its in sets.items())
    below = sum(_mean(its["auto"]) < _mean(best[name]) for name, its in sets.items())
    lines = [
        f"Faster convergence: at the end of the budget GFM+, best of its grid, is {_words(sets, plus)} than GFM. Its "
        f"tuned m is 1, which is GFM with batches of b, on {plain} of {len(sets)}. With m > 1, the recursion at "
        f"work, it is {_words(sets, recursive)} than GFM.",
        f"Stability: the standard deviation over seeds is smaller than GFM's on {steadier[0]} for GFM+, and on "
        f"{steadier[1]} for GFM+ with m > 1.",
        f"Variance: the error of v is below that of a plain batch at equal cost at {sum(it < 1 for it in errors)} of "
        f"{len(errors)} points measured; the median ratio is {np.median(errors):.2g}.",
        f"Steps: with m > 1 the budget buys {min(shares):.0%} to {max(shares):.0%} of the steps that GFM makes.",
        f"The public code's convention, counted as it charges, is {_words(sets, CHARGED)} than GFM; counted as it "
        f"evaluates, it is {_words(sets, EVALUATED)}.",
        f"auto, untuned, is within one standard deviation of the better of GFM and GFM+, both tuned, on {within} of "
        f"{len(sets)}, and below it on {below}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _words(sets: Mapping[str, Any], key: str) -> str:
    """Say on how many data sets a method ends lower than GFM, level with it, or higher."""
    said = [_compare(its[key], its["GFM"]) for its in sets.values()]
    low, level = (sum(f"({word})" in it for it in said) for word in ("lower", "level"))
    return f"lower on {low} of {len(said)}, level on {level} and higher on {len(said) - low - level}"


def _sets(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        losses = (part["loss_at_start"], part["reference"]["liblinear"], part["reference"]["subgradient"])
        rows.append([name, f"{part['n']:,}", str(part["d"]), f"{part['pairs']:,}", *(f"{loss:.4f}" for loss in losses)])
    head = ["data", "n", "d", "budget in pairs", "loss at the start", "liblinear", "subgradient descent"]
    title = "The problems, the bias counted in d, and the lowest loss that two first-order solvers reach."
    return f"{title}\n\n{_table(head, rows)}"


LOSSES = "Full loss at the end of the budget, mean ± standard deviation over seeds; optimum: the lower one above."


def _losses(results: Results) -> tuple[list[str], list[list[str]]]:
    sets = results["datasets"].values()
    rows = [[key, *(_pm(part["methods"][key]) for part in sets)] for key in STYLES]
    optimum = ["optimum", *(f"{_optimum(part):.4f}" for part in sets)]
    return ["method", *results["datasets"]], [*rows, optimum]


def _settings(results: Results) -> str:
    sets = results["datasets"].values()
    rows = [[key, *(_chosen(part["methods"][key]) for part in sets)] for key in STYLES]
    title = "Settings chosen, and the steps that the budget buys with them."
    return f"{title}\n\n{_table(['method', *results['datasets']], rows)}"


def _verdicts(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        its = part["methods"]
        best = min((its["GFM"], its["GFM+"]), key=_mean)
        rows.append(
            [
                name,
                *(_compare(its[key], its["GFM"]) for key in ("GFM+", "GFM+, m > 1")),
                *(f"{_ratio(_std(its[key]), _std(its['GFM'])):.2f}" for key in ("GFM+", "GFM+, m > 1")),
                _compare(its["auto"], best),
                "yes" if _mean(its["auto"]) <= _mean(best) + _std(best) else "no",
            ]
        )
    head = [
        "data",
        "GFM+ − GFM",
        "GFM+, m > 1 − GFM",
        "std GFM+ / GFM",
        "std GFM+, m > 1 / GFM",
        "auto − best of GFM, GFM+",
        "auto within one std",
    ]
    title = (
        "Differences of the mean losses ± standard error, and ratios of the standard deviations over seeds. A "
        "difference within two standard errors is called level. GFM+ with m = 1 is GFM with batches of b."
    )
    return f"{title}\n\n{_table(head, rows)}"


def _public(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        its = part["methods"]
        charged, made = its[CHARGED]["charged"], its[CHARGED]["evaluated"]
        ratio = f"{_ratio(made, charged):,.0f}"
        verdicts = [_compare(its[key], its["GFM"]) for key in (CHARGED, EVALUATED)]
        rows.append([name, verdicts[0], f"{charged:,.0f}", f"{made:,.0f}", ratio, verdicts[1]])
    head = ["data", "as charged − GFM", "pairs charged", "pairs evaluated", "ratio", "as evaluated − GFM"]
    title = "The convention of the public code against GFM, with the budget counted as it charges and as it evaluates."
    return f"{title}\n\n{_table(head, rows)}"


def _variance(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        measured = part["variance"]
        for share, it in zip(measured["at"], measured["rows"], strict=True):
            numbers = (it["error"], it["last"], it["plain"], it["error"] / it["plain"], it["signal"])
            rows.append([name, _setting(measured["setting"]), f"{share:.0%}", *(f"{number:.3g}" for number in numbers)])
    head = ["data", "setting", "of the run", "error of v", "at the end of an epoch", "plain batch", "ratio", "‖∇f_δ‖²"]
    title = (
        "Mean squared error of GFM+'s v along a run with m > 1, and of a plain batch at the cost of a step of GFM+; "
        "∇f_δ is worked out exactly."
    )
    return f"{title}\n\n{_table(head, rows)}"


def figure(results: Results, path: Path) -> Path:
    """Write one panel for each data set: the full loss above the optimum, mean ± one standard deviation over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = results["datasets"]
    columns, rows = min(3, len(sets)), -(-len(sets) // 3)
    size = (4.6 * columns, 3.4 * rows + 0.6)
    canvas, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes in panels.flat[len(sets) :]:
        axes.set_visible(False)
    for axes, (name, part) in zip(panels.flat, sets.items(), strict=False):
        for key, style in STYLES.items():
            _draw(axes, part["methods"][key]["curve"], _optimum(part), key, style)
        axes.set(title=name, xlabel="evaluations of F(x; ξ)", ylabel="full loss − optimum", yscale="log")
        lowest = min(_mean(it) for it in part["methods"].values()) - _optimum(part)
        axes.set_ylim(bottom=max(0.3 * lowest, 1e-9))
        axes.ticklabel_format(axis="x", style="sci", scilimits=(0, 0))
        axes.grid(alpha=0.3)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=5)
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(canvas)
    return path


def _draw(axes: Any, curve: Mapping[str, Any], optimum: float, label: str, style: Mapping[str, Any]) -> None:
    evals, mean, std = (np.array(curve[key], dtype=float) for key in ("evaluations", "mean", "std"))
    above = mean - optimum
    axes.plot(evals, above, label=label, linewidth=1.2, **style)
    low = np.maximum(above - std, 1e-3 * above)  # a logarithmic axis has no room below zero
    axes.fill_between(evals, low, above + std, color=style["color"], alpha=0.15, linewidth=0)


def _optimum(part: Mapping[str, Any]) -> float:
    return float(min(part["reference"].values()))


def _mean(it: Mapping[str, Any]) -> float:
    return float("inf") if it["mean"] is None else float(it["mean"])


def _std(it: Mapping[str, Any]) -> float:
    return float("inf") if it["std"] is None else float(it["std"])


def _pm(it: Mapping[str, Any]) -> str:
    return "diverged" if it["mean"] is None else f"{it['mean']:.4f} ± {it['std']:.4f}"


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _compare(it: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    if it["mean"] is None or other["mean"] is None:
        return "diverged"
    difference = it["mean"] - other["mean"]
    error = float(np.sqrt(it["std"] ** 2 / len(it["ends"]) + other["std"] ** 2 / len(other["ends"])))
    word = "level" if abs(difference) <= 2 * error else "lower" if difference < 0 else "higher"
    return f"{difference:+.4f} ± {error:.4f} ({word})"


def _chosen(it: Mapping[str, Any]) -> str:
    return f"{_setting(it['setting'])}: {it['steps']:,.0f}"


def _setting(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{SIGNS.get(key, key)} = {value:g}" for key, value in setting.items()) or "untuned"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
