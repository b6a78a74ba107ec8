"""What the scaling study says, from its record: tables in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from goldstein.theory.plans import written
from studies.record import write_whole
from studies.report import markdown, page
from studies.scaling.fit import exponent, ratio
from studies.scaling.planned import BLOCK_NORM, SQUARED_NORM

WORST_CASE = {  # exponents of ε, d and δ in the theorems' bounds
    "gfm": (-4.0, 1.5, -1.0),
    "gfm+": (-3.0, 1.5, -1.0),
    "zo-o2nc ogd": (-3.0, 1.0, -1.0),
    "zo-o2nc adagrad": (-3.0, 1.0, -1.0),
}
AXES = ("epsilon", "d", "delta")
SIGNS = {"epsilon": "ε", "d": "d", "delta": "δ"}
TABLES = {  # method: where its bound stands, what it says, how it is called
    "gfm": ("Lin et al. 2022; paper, Alg. 1", "d^1.5 L³Δ/(δε⁴)", "`gs.GFM`"),
    "gfm+": ("paper, Thm. 1; Alg. 2", "d^1.5 L²Δ/(δε³)", "`gs.GFMPlus`"),
    "ws-gfm": ("paper, Thm. 4; Alg. 4, convex f", "d^1.33 L^2.67 R^0.67/(δ^0.67 ε^2.67)", "`gs.WarmStart(GFM, GFM)`"),
    "ws-gfm+": ("paper, Thm. 3; Alg. 3, convex f", "d^1.33 L² R^0.67/(δ^0.67 ε²)", "`gs.WarmStart(GFM, GFMPlus)`"),
    "one-phase": ("paper, Thm. 2, and Goldstein's lemma, convex f", "d L²R²/(δ²ε²)", "`gs.OnePhase`"),
    "zo-o2nc ogd": ("Kornowski, Shamir 2024", "d L²Δ/(δε³)", '`gs.ZOO2NC(learner="ogd")`'),
    "zo-o2nc adagrad": ("the same, with an AdaGrad-norm learner", "d L²Δ/(δε³)", "`gs.ZOO2NC`"),
    "o2nc ogd": ("Cutkosky et al. 2023", "L²Δ/(δε³)", '`gs.O2NC(learner="ogd")`'),
    "o2nc adagrad": ("the same, with an AdaGrad-norm learner", "L²Δ/(δε³)", "`gs.O2NC`"),
    "singd": ("Zhang et al. 2020", "L³Δ/(δε⁴) · log", "`gs.SINGD`"),
    "psingd": ("Tian et al. 2022 (reconstructed)", "L³Δ/(δε⁴) · log", "`gs.PSINGD`"),
    "ingd": ("Zhang et al. 2020", "L²Δ/(δε³) · log", "`gs.INGD`"),
    "pingd": ("Davis et al. 2022", "L²Δ/(δε³) · log", "`gs.PINGD`"),
    "cutting-plane": ("Davis et al. 2022, Sec. 4", "d LΔ/(δε²) · log", "`gs.CuttingPlane`"),
}
Record = dict[str, Any]


def write(record: Record, out: Path) -> None:
    """Leave scaling.md and scaling.png in `out`."""
    from studies.scaling.figure import draw

    write_whole(out / "scaling.md", tables(record))
    if record["tuned"]:
        draw(record, out / "scaling.png")


def tables(record: Record) -> str:
    """Return all tables, with the command that made their numbers."""
    note = ""
    if record["quick"]:
        note = " **These numbers come from the quick form, on tiny grids: they show the layout, not results.**"
    parts = [
        findings(record),
        f"Made by `{record['command']}`, {record['cpu_seconds'] / 60:.0f} minutes of processor time; numbers in "
        f"`scaling.json`, figure in `scaling.png`.{note}",
        "## Planned runs",
        _theorems(record),
    ]
    if record["tuned"]:
        grids = {cell["method"]: cell["grid"] for cell in record["tuned"].values()}
        tuned = record["settings"]["tuned"]
        sizes = ", ".join(f"{method} {size}" for method, size in grids.items())
        parts += [
            "## Exponents when steps are tuned",
            f"On these two problems, not in general. Settings in each method's grid: {sizes}; all share "
            f"{len(tuned['steps'])} step sizes. {len(tuned['tuning_seeds'])} seeds tune, "
            f"{len(tuned['reporting_seeds'])} others report. The 95 % intervals are bootstrapped over the reporting "
            "seeds: they hold neither the choice of the settings nor the departure from a power law, whose largest "
            "size, as a factor, stands in brackets.",
            _exponents(record),
            "## Evaluations until the bound is ε",
            *(f"{_where(record, name)}\n\n{_times(record, name)}" for name in record["terrains"]),
            "## Why",
            _reasons(record),
        ]
    return page("Theorem, code and measurement", parts)


def findings(record: Record) -> str:
    """Return in sentences what the numbers say, good and bad."""
    rows = [row for row in record["planned"].values() if row["runs"]]
    shares = {f"{row['method']} on {row['problem']}, ε = {row['epsilon']:g}": measured(row) for row in rows}
    closest = max(shares, key=lambda key: shares[key][0])
    met, left = sum(high <= 1 for _, high in shares.values()), len(record["planned"]) - len(rows)
    lines = [
        f"- Planned: {met} of {len(rows)} plans met their target by two standard errors; closest to it came {closest}, "
        f"with {shares[closest][0]:.2g} of the target. {left} plans of more than 10⁸ evaluations were not run."
    ]
    for terrain in record["terrains"] if record["tuned"] else ():
        lines.append(f"- Tuned, {terrain}: {_race(record, terrain)}")
    return "\n".join(lines)


def _race(record: Record, terrain: str) -> str:
    """Say where GFM+ is ahead of GFM, and who is first at the smallest ε."""
    columns = {method: dict(cells(record, terrain, method, "epsilon")) for method in _methods(record)}
    epsilons = sorted(columns["gfm+"])
    said = []
    for rival in (name for name in ("gfm", "gfm decayed") if name in columns):
        found = {e: ratio(columns[rival][e]["evaluations"], columns["gfm+"][e]["evaluations"]) for e in epsilons}
        ahead = [e for e in epsilons if found[e]["interval"][0] > 1]
        behind = [e for e in epsilons if found[e]["interval"][1] < 1]
        text = f"against {rival} GFM+ is ahead at {_list(ahead)} and behind at {_list(behind)} "
        said.append(text + f"(at ε = {epsilons[0]:.3g} {rival} needs {_quotient(found[epsilons[0]])} times as much)")
    means = {method: np.mean(np.log(column[epsilons[0]]["evaluations"])) for method, column in columns.items()}
    first = min(means, key=lambda method: means[method])
    return "; ".join(said) + f". First at ε = {epsilons[0]:.3g} is {first}."


def _list(epsilons: list[float]) -> str:
    if not epsilons:
        return "no ε"
    return "ε = " + ", ".join(f"{e:.3g}" for e in sorted(epsilons, reverse=True))


def cells(record: Record, terrain: str, method: str, axis: str) -> list[tuple[float, Record]]:
    """Return (scale, row) along one axis: ε at the base, or d or δ at the smallest ε that all places share."""
    tuned = record["settings"]["tuned"]
    base = dict(zip(("d", "delta"), tuned["base"], strict=True))
    found = []
    for cell in record["tuned"].values():
        fixed = [key for key in ("d", "delta") if key != axis]
        if (cell["terrain"], cell["method"]) != (terrain, method) or any(cell[key] != base[key] for key in fixed):
            continue
        if axis == "epsilon":
            found += [(row["epsilon"], row) for row in cell["rows"]]
            continue
        share = shared_target(record, terrain)
        found += [(cell[axis], row) for row in cell["rows"] if abs(row["epsilon"] / share - 1) < 1e-9]
    return sorted(found, key=lambda pair: pair[0])


def shared_target(record: Record, terrain: str) -> float:
    """Return the ε at which d and δ are varied."""
    base = list(record["settings"]["tuned"]["base"])
    here = [cell for cell in record["tuned"].values() if cell["terrain"] == terrain]
    others = [cell for cell in here if [cell["d"], cell["delta"]] != base] or here
    return min(float(row["epsilon"]) for row in others[0]["rows"])


def _theorems(record: Record) -> str:
    """The planned part: for each method, the cost and the measured quantity as a share of its target, worst problem."""
    epsilons = sorted({row["epsilon"] for row in record["planned"].values()}, reverse=True)
    head = ["method", "bound", "worst case, up to constants", "code"]
    for epsilon in epsilons:
        head += [f"plan at ε = {epsilon:g}", "measured / target", "met"]
    lines = []
    for method, (where, cost, code) in TABLES.items():
        cells_ = [method, where, cost, code]
        for epsilon in epsilons:
            rows = [r for r in record["planned"].values() if (r["method"], r["epsilon"]) == (method, epsilon)]
            cells_ += _verdict(rows)
        lines.append(cells_)
    return (
        "d = 5, δ = 0.3, on the closed forms ridge, capped ridge, cone and shell: L = 1, gap = 1 (1/2 for the capped "
        "ridge), R = 1 where f is convex, and gradients without noise, noise = 0 in the plans of O2NC (with noise = L, "
        "which a plan assumes by default, its blocks are longer). Evaluations are those of the most expensive plan "
        "(≤: a worst case); measured / target is the largest over the problems, with the upper end of its 95 % "
        "interval; it is E‖∇f_δ(x_out)‖²/ε² for GFM and its warm starts, the mean norm of a block's gradient over "
        "ε for O2NC (in brackets the exact distance), the exact distance over ε for the others. Lengths of planned "
        "runs are set by formula, so no exponent follows from them.\n\n" + markdown(head, lines)
    )


def _verdict(rows: list[Record]) -> list[str]:
    if not rows:
        return ["", "", ""]
    most = max(row["evaluations"] for row in rows)
    cost = ("≤ " if rows[0]["at_most"] else "") + written(most)
    run = [row for row in rows if row["runs"]]
    if not run:
        return [cost, "above 10⁸: not run", ""]
    shares = [measured(row) for row in run]
    worst = max(shares)
    text = f"{worst[0]:.2g}" if worst[0] else "0"
    if worst[1] > worst[0]:
        text += f" (≤ {worst[1]:.2g})"
    if rows[0]["quantity"] == BLOCK_NORM:
        text += f" [{max(row['distance'] / row['epsilon'] for row in run):.2g}]"
    return [cost, text, f"{sum(high <= 1 for _, high in shares)}/{len(run)}"]


def measured(row: Record) -> tuple[float, float]:
    """Return a planned row's mean as a share of its target, and the upper end of that by two standard errors."""
    target = row["epsilon"] ** 2 if row["quantity"] == SQUARED_NORM else row["epsilon"]
    return row["mean"] / target, (row["mean"] + 2 * (row["stderr"] or 0.0)) / target


def _exponents(record: Record) -> str:
    head = ["method", "in", "worst case", *(f"measured, {name}" for name in record["terrains"])]
    lines = []
    for method in _methods(record):
        for axis, theory in zip(AXES, WORST_CASE.get(method, (None,) * 3), strict=True):
            fits = [_fit(cells(record, terrain, method, axis)) for terrain in record["terrains"]]
            lines.append([method, SIGNS[axis], "" if theory is None else f"{theory:+.1f}", *fits])
    return markdown(head, lines)


def _fit(pairs: list[tuple[float, Record]]) -> str:
    if len(pairs) < 2:
        return ""
    fit = exponent([scale for scale, _ in pairs], [row["evaluations"] for _, row in pairs])
    misses = sum(row["misses"] for _, row in pairs)
    low, high = fit["interval"]
    text = f"{fit['exponent']:+.2f} [{low:+.2f}, {high:+.2f}] (× {10 ** fit['residual']:.1f})"
    return text + (f", {misses} missed" if misses else "")


def _where(record: Record, terrain: str) -> str:
    d, delta = record["settings"]["tuned"]["base"]
    return (
        f"**{terrain}**: f = {record['terrains'][terrain]}. d = {d}, δ = {delta:g}; geometric means, and the ratios of "
        "GFM to GFM+ with 95 % intervals."
    )


def _times(record: Record, terrain: str) -> str:
    methods = _methods(record)
    columns = {method: dict(cells(record, terrain, method, "epsilon")) for method in methods}
    head = ["ε", *methods, "gfm / gfm+", "gfm decayed / gfm+", "gfm+ / zo-o2nc ogd"]
    lines = []
    for epsilon in sorted({e for column in columns.values() for e in column}, reverse=True):
        rows = {method: columns[method].get(epsilon) for method in methods}
        line = [f"{epsilon:.3g}", *(_mean(row) for row in rows.values())]
        for over, under in (("gfm", "gfm+"), ("gfm decayed", "gfm+"), ("gfm+", "zo-o2nc ogd")):
            a, b = rows.get(over), rows.get(under)
            line.append("" if a is None or b is None else _quotient(ratio(a["evaluations"], b["evaluations"])))
        lines.append(line)
    return markdown(head, lines)


def _quotient(found: dict[str, Any]) -> str:
    low, high = found["interval"]
    return f"{found['ratio']:.2g} [{low:.2g}, {high:.2g}]"


def _mean(row: Record | None) -> str:
    if row is None:
        return ""
    mean = float(np.exp(np.mean(np.log(row["evaluations"]))))
    return f"{'≥ ' if row['misses'] else ''}{written(round(float(f'{mean:.3g}')))}"


def _reasons(record: Record) -> str:
    """What the tuned runs did, at the largest and the smallest ε: few long steps, or many short ones."""
    head = ["problem", "ε", "method", "setting", "evaluations", "steps", "evaluations a step", "ratio", "E‖v − ∇f_δ‖²"]
    lines = []
    for terrain in record["terrains"]:
        for end in (-1, 0):
            for method in ("gfm", "gfm decayed", "gfm+"):
                pairs = cells(record, terrain, method, "epsilon")
                if not pairs:
                    continue
                epsilon, row = pairs[end]
                evaluations = float(np.mean(row["evaluations"]))
                numbers = [f"{evaluations:.3g}", f"{row['steps']:.3g}", f"{evaluations / row['steps']:.3g}"]
                shares = ["" if row[key] is None else f"{row[key]:.2g}" for key in ("ratio", "error")]
                setting = ", ".join(f"{name} {value:g}" for name, value in row["setting"].items())
                lines.append([terrain, f"{epsilon:.3g}", method, setting, *numbers, *shares])
    return (
        "Means over the reporting seeds. The ratio is E‖g(x_t; S) − g(x_{t−1}; S)‖²/E‖g(x_t; S)‖²: below one half a "
        "correction carries less noise than a fresh batch. v is what the step goes along; for GFM it is one estimate, "
        "and E‖g‖² stands for its variance.\n\n" + markdown(head, lines)
    )


def _methods(record: Record) -> list[str]:
    return list(dict.fromkeys(cell["method"] for cell in record["tuned"].values()))
