"""Table, figure and verdicts of the SVM study, all from its results file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from studies.record import number, write_whole
from studies.report import in_words, markdown, page, show
from studies.svm.study import CHARGED, EIGHTIETH, EVALUATED, POINTS, TENTH, THIRTIETH

SETUP = Path(__file__).parent / "setup.md"
STYLES: dict[str, dict[str, Any]] = {
    "GFM": {"color": "C0"},
    "GFM+": {"color": "C1", "linestyle": (0, (5, 2))},
    "GFM+, m > 1": {"color": "C4"},
    "GFM, decay": {"color": "C2"},
    "ZO-O2NC": {"color": "C5"},
    "two-point": {"color": "C6"},
    "sift": {"color": "C9", "linewidth": 1.8},
    "auto": {"color": "C3", "linewidth": 1.8},
    EIGHTIETH: {},
    TENTH: {"color": "darkred", "linestyle": (0, (4, 1)), "marker": "o", "markevery": [-1], "markersize": 5},
    THIRTIETH: {"color": "darkred", "linestyle": (0, (1, 1)), "marker": "s", "markevery": [-1], "markersize": 5},
    CHARGED: {"color": "black", "linestyle": "--"},
    EVALUATED: {"color": "black", "linestyle": ":"},
}
AXIS = "evaluations of F(x; ξ); black, dashed: as charged"
FIRST_SHOWN = 1 / POINTS  # share of the budget at which a panel begins: the second point of most curves
TUNED = ("GFM", "GFM+", "ZO-O2NC")
# Set for the default before it was written, at the whole budget.
BARS = {"a9a": 0.3545, "w8a": 0.0300, "covtype": 0.5845, "ijcnn1": 0.1720, "mushrooms": 1e-4, "phishing": 0.1425}

TITLE = "Capped-ℓ₁ SVM"
Results = Mapping[str, Any]


def write(results: Results, out: Path) -> None:
    """Leave figure.png and table.md in `out`, and print the losses."""
    write_whole(out / "table.md", tables(results))
    figure(results, out / "figure.png")
    show("Full loss at the end of the budget, mean ± standard deviation over seeds", *_losses(results))
    print(f"Figure, all tables and numbers: {out}")


def tables(results: Results) -> str:
    """Return verdicts, tables and set-up as a page of Markdown."""
    seeds, tuning, share = len(results["seeds"]), len(results["tuning_seeds"]), results["share_of_budget"]
    scale = "the whole budget" if share == 1 else f"{share:.0%} of the budget"
    head = (
        f"Made by `{results['command']}`: {scale}, settings tuned on {tuning} seed{'s' * (tuning > 1)}, results on "
        f"{seeds} others."
    )
    later: dict[str, list[str]] = {}
    for key, code in results.get("again", {}).items():
        later.setdefault(code, []).append(f"*{key}*")
    for code, keys in later.items():
        head += f" Run later, with the code of {code}: {', '.join(keys)}."
    if later:
        head += f" All the rest: {results['code']}."
    for key, name in results.get("formerly", {}).items():
        head += f" *{key}* was called {name} when it was run."
    parts = [
        _claims(results),
        _targets(results),
        head,
        "## Numbers",
        _sets(results),
        LOSSES,
        markdown(*_losses(results)),
    ]
    parts += [_arrivals(results), _settings(results), _verdicts(results), _unseen(results), _public(results)]
    return page(TITLE, [*parts, _variance(results)], SETUP)


def _claims(results: Results) -> str:
    """Return what the tables say about each claim, in sentences."""
    sets = {name: part["methods"] for name, part in results["datasets"].items()}
    plus, recursive, count = "GFM+", "GFM+, m > 1", len(results["datasets"])
    plain = sum(its[plus]["setting"]["m"] == 1 for its in sets.values())
    sooner = {key: sum(_reached(its[key], its["GFM"]) < 1 for its in sets.values()) for key in (plus, recursive)}
    steadier = {key: sum(_std(its[key]) < _std(its["GFM"]) for its in sets.values()) for key in (plus, recursive)}
    calmer = {key: sum(_calm(its[key]) < _calm(its["GFM"]) for its in sets.values()) for key in (plus, recursive)}
    shares = [its[recursive]["steps"] / its["GFM"]["steps"] for its in sets.values()]
    rows = [(row, it["variance"]["setting"]) for it in results["datasets"].values() for row in it["variance"]["rows"]]
    step = [_ratio_of(row["error"], row["error_stderr"], row["plain"]) for row, _ in rows]
    epoch = [_ratio_of(row["epoch"], row["epoch_stderr"], row["plain"] / setting["m"]) for row, setting in rows]
    lines = [
        f"Faster convergence, GFM+ with the best m and b of its grid: at the end of the budget it is "
        f"{_words(sets, plus)} than GFM, and it reaches GFM's last loss before the budget ends on {sooner[plus]} of "
        f"{count}. Its tuned m is 1, which is GFM with batches of b and no recursion, on {plain} of {count}. "
        f"{_verdict(sets, plus)}",
        f"Faster convergence, the recursion at work (m > 1): it is {_words(sets, recursive)} than GFM, and reaches "
        f"GFM's last loss on {sooner[recursive]} of {count}. {_verdict(sets, recursive)}",
        f"Stability: at the end the standard deviation over seeds is smaller than GFM's on {steadier[plus]} of {count} "
        f"for GFM+ and on {steadier[recursive]} with m > 1; its mean over the second half of the run on "
        f"{calmer[plus]} and {calmer[recursive]}.",
        f"Variance of one step: the error of v is below that of a plain batch at equal cost, by two standard errors, "
        f"at {_below(step)} of {len(step)} points measured, and above at {_below(step, -1)}.",
        f"Variance of an epoch: v carries its error from step to step, plain batches average theirs out. The error of "
        f"the mean of v over an epoch, which is what moves x, is below that of plain batches at equal cost and equal "
        f"steps at {_below(epoch)} of {len(epoch)} points, and above at {_below(epoch, -1)}; the median ratio is "
        f"{np.median([ratio for ratio, _ in epoch]):.2g}.",
        f"Steps: with m > 1 the budget buys {min(shares):.1%} to {max(shares):.1%} of the steps that GFM makes.",
        f"The public code's convention, counted as it charges, is {_words(sets, CHARGED)} than GFM; counted as it "
        f"evaluates, it is {_words(sets, EVALUATED)}.",
        *(_untuned(results["datasets"], key) for key in ("two-point", "auto")),
        f"Component gradients: with its radius tuned, sift ends {_against(sets, 'sift', 'auto')} than auto.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _targets(results: Results) -> str:
    """Return the targets set for the default before it was written, and what was measured."""
    sets = {name: part["methods"] for name, part in results["datasets"].items()}
    count = len(sets)
    lines = []
    bars = {name: bar for name, bar in BARS.items() if name in sets and results["share_of_budget"] == 1}
    if bars:
        said = "; ".join(f"{name} {_mean(sets[name]['auto']):.4g} ({bar:g})" for name, bar in bars.items())
        met = sum(_mean(sets[name]["auto"]) <= bar for name, bar in bars.items())
        lines.append(f"At the whole budget, at most the loss in brackets: {said}. Met on {met} of {len(bars)}.")
    tenth = sum(all(_mean(its[TENTH]) < _mean(its[key]) for key in TUNED) for its in sets.values())
    lines.append(
        f"Given a tenth of the budget, it ends below GFM, GFM+ and ZO-O2NC, tuned, at the whole budget on {tenth} of "
        f"{count} (target: all)."
    )
    thirtieth = [name for name, its in sets.items() if _mean(its[THIRTIETH]) < _mean(its["GFM"])]
    others = [f"; on {name} {_seeds_below(its)}" for name, its in sets.items() if name not in thirtieth]
    lines.append(
        f"Given a thirtieth, it ends below tuned GFM at the whole budget on {len(thirtieth)} of {count} (target: "
        f"four of six){''.join(others)}."
    )
    eightieth = [name for name, its in sets.items() if _mean(its[EIGHTIETH]) < _mean(its["GFM"])]
    lines.append(
        f"Given an eightieth, and the best radius of its grid, sift ends below tuned GFM at the whole budget on "
        f"{', '.join(eightieth) or 'none'} (target: a9a, {'met' if 'a9a' in eightieth else 'missed'})."
    )
    return "\n".join(["Targets set for auto before it was written:\n", *(f"- {line}" for line in lines)])


def _seeds_below(its: Mapping[str, Any]) -> str:
    """Say how many single runs with a thirtieth of the budget end below the mean of GFM, and where the median lies."""
    ends = np.array(its[THIRTIETH]["ends"], dtype=float)
    below = int(np.sum(ends < _mean(its["GFM"])))
    return f"its mean does not, while {below} of {ends.size} seeds do (median {np.nanmedian(ends):.4g})"


def _untuned(datasets: Mapping[str, Any], key: str) -> str:
    """Say how an untuned method stands against the tuned ones."""
    within, below = _no_worse(datasets, key)
    sets = [part["methods"] for part in datasets.values()]
    best = [min((its[name] for name in (*TUNED, "GFM, decay")), key=_mean) for its in sets]
    lower = sum(_compare(its[key], other).verdict == "lower" for its, other in zip(sets, best, strict=True))
    return (
        f"{key}, untuned, is no worse than the better of GFM and GFM+, both tuned, plus one standard deviation on "
        f"{within} of {len(sets)}, and below it on {below}. It is below the best of GFM, GFM+, GFM with decay and "
        f"ZO-O2NC, all tuned, by two standard errors on {lower}."
    )


def _verdict(sets: Mapping[str, Any], key: str) -> str:
    """Say on how many data sets the claim of faster convergence holds, by two standard errors."""
    holds = sum(_compare(its[key], its["GFM"]).verdict == "lower" for its in sets.values())
    return f"**The claim holds on {holds} of {len(sets)}.**"


def _reached(it: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Return the share of the budget after which the mean loss of one is that of the other's end; or inf."""
    evaluations, mean = (np.array(it["curve"][key], dtype=float) for key in ("evaluations", "mean"))
    under = np.flatnonzero(mean <= _mean(other))
    return float(evaluations[under[0]] / evaluations[-1]) if under.size else np.inf


def _calm(it: Mapping[str, Any]) -> float:
    """Return the mean over the second half of the run of the standard deviation over seeds."""
    std = np.array(it["curve"]["std"], dtype=float)
    return float(np.mean(std[len(std) // 2 :]))


def _ratio_of(error: float, stderr: float, plain: float) -> tuple[float, float]:
    return error / plain, stderr / plain


def _below(ratios: list[tuple[float, float]], sign: int = 1) -> int:
    """Count the ratios that are below 1 (or above it) by two standard errors."""
    return sum(sign * (ratio - 1) < -2 * error for ratio, error in ratios)


def _no_worse(datasets: Mapping[str, Any], key: str) -> tuple[int, int]:
    """Return on how many data sets a method is no worse than the best of the grid plus one std, and below the best."""
    within = below = 0
    for part in datasets.values():
        its = part["methods"]
        best = min((its["GFM"], its["GFM+"]), key=_mean)
        within += _mean(its[key]) <= _mean(best) + _std(best)
        below += _mean(its[key]) < _mean(best)
    return within, below


def _words(sets: Mapping[str, Any], key: str) -> str:
    """Say on how many data sets a method ends lower than GFM, level with it, or higher."""
    return _against(sets, key, "GFM")


def _against(sets: Mapping[str, Any], key: str, other: str) -> str:
    """Say on how many data sets a method ends lower than another, level with it, or higher."""
    verdicts = Counter(_compare(its[key], its[other]).verdict for its in sets.values())
    lower, level = verdicts["lower"], verdicts["level"]
    return f"lower on {lower} of {len(sets)}, level on {level} and higher on {len(sets) - lower - level}"


def _sets(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        losses = (part["loss_at_start"], part["reference"]["liblinear"], part["reference"]["subgradient"])
        rows.append([name, f"{part['n']:,}", str(part["d"]), f"{part['pairs']:,}", *(f"{loss:.4g}" for loss in losses)])
    head = ["data", "n", "d", "budget in pairs", "loss at the start", "liblinear", "subgradient descent"]
    title = "The problems, the bias counted in d, and the lowest loss that two first-order solvers reach."
    return f"{title}\n\n{markdown(head, rows)}"


LOSSES = (
    "Full loss at the end of the budget, mean ± standard deviation over seeds; *a tenth*, *a thirtieth* and *an "
    "eightieth*: at the end of runs that are given no more of it; lowest known: of the two solvers above and all of "
    "these runs."
)


def _losses(results: Results) -> tuple[list[str], list[list[str]]]:
    sets = results["datasets"].values()
    rows = [[key, *(_pm(part["methods"][key]) for part in sets)] for key in STYLES]
    lowest = ["lowest known", *(f"{_lowest(part):.4g}" for part in sets)]
    return ["method", *results["datasets"]], [*rows, lowest]


def _arrivals(results: Results) -> str:
    """Return when the mean curves of sifting reach the ends of the tuned methods."""
    rows = []
    for name, part in results["datasets"].items():
        its = part["methods"]
        reached = [_reached(its[key], its[other]) for key in ("sift", "auto") for other in TUNED]
        rows.append([name, *(_share(share) for share in reached)])
    head = ["data", *(f"{key} reaches {other}'s end" for key in ("sift", "auto") for other in TUNED)]
    title = (
        "Evaluations to reach where tuned methods end: the share of the budget after which the mean loss of a run "
        "planned for the whole of it is that low, in steps of 1 %."
    )
    return f"{title}\n\n{markdown(head, rows)}"


def _settings(results: Results) -> str:
    sets = results["datasets"].values()
    rows = [[key, *(_chosen(part["methods"][key]) for part in sets)] for key in STYLES]
    title = "Settings chosen, and the steps that the budget buys with them."
    return f"{title}\n\n{markdown(['method', *results['datasets']], rows)}"


def _verdicts(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        its = part["methods"]
        best = min((its["GFM"], its["GFM+"]), key=_mean)
        rows.append(
            [
                name,
                *(str(_compare(its[key], its["GFM"])) for key in ("GFM+", "GFM+, m > 1")),
                *(_share(_reached(its[key], its["GFM"])) for key in ("GFM+", "GFM+, m > 1")),
                *(f"{_ratio(_std(its[key]), _std(its['GFM'])):.2f}" for key in ("GFM+", "GFM+, m > 1")),
                str(_compare(its["auto"], best)),
                "yes" if _mean(its["auto"]) <= _mean(best) + _std(best) else "no",
                str(_compare(its["auto"], its["sift"])),
            ]
        )
    head = [
        "data",
        "GFM+ − GFM",
        "GFM+, m > 1 − GFM",
        "GFM+ reaches GFM's end after",
        "GFM+, m > 1 reaches it after",
        "std GFM+ / GFM",
        "std GFM+, m > 1 / GFM",
        "auto − best of GFM, GFM+",
        "auto no worse than best + one std",
        "auto − sift",
    ]
    title = (
        "Differences of the losses ± standard error over common seeds, the share of the budget after which the mean "
        "loss is that of GFM's end, and ratios of the standard deviations over seeds. A difference within two standard "
        "errors is called level. GFM+ with m = 1 is GFM with batches of b."
    )
    return f"{title}\n\n{markdown(head, rows)}"


def _unseen(results: Results) -> str:
    sets = results["unseen"]
    within, below = _no_worse(sets, "auto")
    keys = ("GFM", "GFM+", "GFM, decay", "ZO-O2NC", "two-point", "sift", "auto", TENTH, THIRTIETH)
    rows = [[key, *(_pm(part["methods"][key]) for part in sets.values())] for key in keys]
    title = (
        "The same on data that had no part in choosing the constants of auto, bundled with scikit-learn (columns "
        f"standardised). auto is no worse than the better of GFM and GFM+ plus one standard deviation on {within} of "
        f"{len(sets)}, and below it on {below}."
    )
    return f"{title}\n\n{markdown(['method', *sets], rows)}"


def _public(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        its = part["methods"]
        charged, made = its[CHARGED]["charged"], its[CHARGED]["evaluated"]
        ratio = f"{_ratio(made, charged):,.0f}"
        verdicts = [str(_compare(its[key], its["GFM"])) for key in (CHARGED, EVALUATED)]
        rows.append([name, verdicts[0], f"{charged:,.0f}", f"{made:,.0f}", ratio, verdicts[1]])
    head = ["data", "as charged − GFM", "pairs charged", "pairs evaluated", "ratio", "as evaluated − GFM"]
    title = "The convention of the public code against GFM, with the budget counted as it charges and as it evaluates."
    return f"{title}\n\n{markdown(head, rows)}"


def _variance(results: Results) -> str:
    rows = []
    for name, part in results["datasets"].items():
        measured = part["variance"]
        for share, it in zip(measured["at"], measured["rows"], strict=True):
            m = measured["setting"]["m"]
            numbers = (
                f"{it['error']:.3g} ± {it['error_stderr']:.1g}",
                f"{it['plain']:.3g}",
                f"{it['epoch']:.3g} ± {it['epoch_stderr']:.1g}",
                f"{it['plain'] / m:.3g}",
                f"{it['epoch'] / (it['plain'] / m):.2g}",
                f"{it['signal']:.3g}",
            )
            rows.append([name, in_words(measured["setting"]), f"{share:.0%}", *numbers])
    steps = ["error of v", "plain batch"]
    epochs = ["over an epoch: mean of v", "mean of plain batches", "their ratio"]
    title = (
        "Mean squared error of GFM+'s v along a run with m > 1 (± standard error), and of a plain batch at the cost of "
        "a step of GFM+; the same for the mean over the m steps of an epoch, in which errors of v add up and those of "
        "independent batches cancel. ∇f_δ is worked out exactly."
    )
    return f"{title}\n\n{markdown(['data', 'setting', 'of the run', *steps, *epochs, '‖∇f_δ‖²'], rows)}"


def figure(results: Results, path: Path) -> Path:
    """Write one panel for each data set: loss above the lowest known, mean ± one standard deviation over seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    sets = results["datasets"]
    columns, rows = min(3, len(sets)), -(-len(sets) // 3)
    size = (4.6 * columns, 3.4 * rows + 0.6)
    canvas, panels = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axes in panels.flat[len(sets) :]:
        axes.set_visible(False)
    for axes, (name, part) in zip(panels.flat, sets.items(), strict=False):
        for key, style in STYLES.items():
            if key != EIGHTIETH:  # it ends where a panel has not begun
                _draw(axes, part["methods"][key]["curve"], _lowest(part), key, style)
        axes.set(title=name, xlabel=AXIS, ylabel="full loss − lowest known", xscale="log", yscale="log")
        lowest = min(_mean(it) for it in part["methods"].values()) - _lowest(part)
        axes.set_ylim(bottom=max(0.3 * lowest, 1e-9))
        axes.set_xlim(2 * part["pairs"] * FIRST_SHOWN, 2 * part["pairs"] * 1.1)
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
    handles, labels = panels.flat[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=5)
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(canvas)
    return path


def _draw(axes: Any, curve: Mapping[str, Any], lowest: float, label: str, style: Mapping[str, Any]) -> None:
    evals, mean, std = (np.array(curve[key], dtype=float) for key in ("evaluations", "mean", "std"))
    above = mean - lowest
    axes.plot(evals, above, label=label, **{"linewidth": 1.1, **style})
    if label in (TENTH, THIRTIETH):  # no band: these lie on the curves of the whole budget
        return
    low = np.maximum(above - std, 1e-3 * above)  # a logarithmic axis has no room below zero
    axes.fill_between(evals, low, above + std, color=style["color"], alpha=0.15, linewidth=0)


def _lowest(part: Mapping[str, Any]) -> float:
    """Return the lowest loss known: of the first-order solvers and of all runs."""
    ends = (end for it in part["methods"].values() for end in it["ends"] if end is not None)
    return float(min(*part["reference"].values(), *ends))


def _mean(it: Mapping[str, Any]) -> float:
    return number(it["mean"])


def _std(it: Mapping[str, Any]) -> float:
    return number(it["std"])


def _pm(it: Mapping[str, Any]) -> str:
    return "diverged" if it["mean"] is None else f"{it['mean']:.4f} ± {it['std']:.4f}"


def _ratio(a: float, b: float) -> float:
    return a / b if b else float("nan")


def _share(share: float) -> str:
    return "never" if np.isinf(share) else f"{share:.0%}"


@dataclass(frozen=True)
class Comparison:
    """How the ends of two methods' runs differ: "lower", "level" or "higher", or "diverged" when one has no end."""

    verdict: str
    difference: float = np.nan
    error: float = np.nan
    identical: bool = False

    def __str__(self) -> str:
        if self.verdict == "diverged":
            return "diverged"
        if self.identical:
            return "the same runs (level)"
        return f"{self.difference:+.4f} ± {self.error:.4f} ({self.verdict})"


def _compare(it: Mapping[str, Any], other: Mapping[str, Any]) -> Comparison:
    """Compare the ends of two methods' runs, seed by seed; a difference within two standard errors is level."""
    if it["mean"] is None or other["mean"] is None:
        return Comparison("diverged")
    if it["ends"] == other["ends"]:
        return Comparison("level", 0.0, 0.0, identical=True)
    differences = np.array(it["ends"]) - np.array(other["ends"])
    mean = float(differences.mean())
    error = float(differences.std(ddof=1) / np.sqrt(differences.size))
    if abs(mean) <= 2 * error:
        return Comparison("level", mean, error)
    return Comparison("lower" if mean < 0 else "higher", mean, error)


def _chosen(it: Mapping[str, Any]) -> str:
    return f"{in_words(it['setting'])}: {it['steps']:,.0f}"
