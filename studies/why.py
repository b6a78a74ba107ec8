"""The picture of the README, `python -m studies why`: the default against GFM, GFM+ and CMA-ES on the paper's problem.

The curves of the default, GFM and GFM+ are those of the study svm (`results/svm`). CMA-ES, in its diagonal form for
many variables, is run here within the same number of values: a point is judged by the mean of some rows of the data,
the same for all points of a generation, and each row is a value. Its first step size and the number of rows are chosen
as the step sizes of GFM and GFM+ are, by the loss at the end on seeds that are not reported.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.oracle import Query
from goldstein.plot import new_axes, style
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.report.chart import short
from studies import datasets
from studies.record import command, provenance, write_json
from studies.svm.study import PASSES, summary
from studies.work import study_bar

DATA = "a9a"
FILE = "why.json"
PICTURE = "why.svg"
STEP_SIZES = (0.03, 0.1, 0.3, 1.0)
ROWS = (1, 10, 100, 1000)
TUNING = (1000, 1001)
SEEDS = tuple(range(5))
POINTS = 50
SHOWN = {"auto": "goldstein, no settings", "GFM+": "GFM+, tuned", "GFM": "GFM, tuned"}
CMA = "CMA-ES (SepCMA), tuned"


def cma(svm: SVM, sigma: float, rows: int, seed: int, max_evals: int) -> dict[str, Any]:
    """Run SepCMA; return the full loss of its mean along the way, as the study svm has it."""
    from cmaes import SepCMA

    assert svm.oracle.n is not None
    rng = np.random.default_rng(seed)
    strategy = SepCMA(mean=svm.x0.copy(), sigma=sigma, seed=seed)
    size = strategy.population_size
    made = 0
    nfev = [0]
    means = [svm.x0.copy()]
    while made + size * rows <= max_evals and not strategy.should_stop():
        points = np.array([strategy.ask() for _ in range(size)])
        chosen = rng.integers(svm.oracle.n, size=rows)
        answer = svm.oracle.evaluate(Query(np.repeat(points, rows, axis=0), np.tile(chosen, size)))
        judged = answer.values.reshape(size, rows).mean(axis=1)
        strategy.tell(list(zip(points, judged, strict=True)))
        made += size * rows
        if made >= len(nfev) * max_evals / POINTS:
            nfev.append(made)
            means.append(np.array(strategy.mean))
    nfev.append(made)
    means.append(np.array(strategy.mean))
    steps = made // (size * rows)
    return {"nfev": nfev, "loss": svm.value(np.array(means)).tolist(), "steps": steps, "pairs": made / 2}


def run(out: Path, *, data: Path | None = None) -> None:
    """Tune and run CMA-ES, and draw the picture from that and from the results of the study svm."""
    svm = capped_l1_svm(*datasets.load(DATA, data))
    max_evals = 2 * PASSES[DATA] * len(svm.labels)
    grid = list(product(STEP_SIZES, ROWS))
    table: list[dict[str, Any]] = []
    with study_bar() as bar:
        task = bar.add_task("why", total=len(grid) * len(TUNING) + len(SEEDS))
        for sigma, rows in grid:
            ends = []
            for seed in TUNING:
                ends.append(cma(svm, sigma, rows, seed, max_evals)["loss"][-1])
                bar.advance(task)
            table.append({"setting": {"sigma": sigma, "rows": rows}, "loss": round(float(np.mean(ends)), 6)})
        chosen = min(table, key=lambda row: row["loss"])["setting"]
        runs = []
        for seed in SEEDS:
            runs.append(cma(svm, chosen["sigma"], chosen["rows"], seed, max_evals))
            bar.advance(task)
    made = summary(runs, max_evals, POINTS)
    results = {
        **provenance(command("why")),
        "data": DATA,
        "max_evals": max_evals,
        "tuning_seeds": list(TUNING),
        "seeds": list(SEEDS),
        "cma": {"setting": chosen, **made, "tuning": table},
    }
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FILE, results)
    draw(out)


def draw(out: Path) -> Path:
    """Draw the picture from the results of this study and of the study svm, which lie in `out`."""
    svm = json.loads((out / "svm" / "results.json").read_text())["datasets"][DATA]
    cmas = json.loads((out / FILE).read_text())["cma"]
    ends = [end for method in svm["methods"].values() for end in method["ends"] if end is not None]
    lowest = min(*svm["reference"].values(), *ends)
    axes = new_axes(out / PICTURE)
    for key, name in SHOWN.items():
        _curve(axes, svm["methods"][key]["curve"], lowest, name)
    _curve(axes, cmas["curve"], lowest, CMA)
    axes.set(
        title=f"Capped-ℓ₁ SVM on {DATA}, {svm['d']} variables, from values alone",
        xlabel="values of F(x; ξ) asked for",
        ylabel="loss above the lowest known",
        yscale="log",
        xlim=(0, 2 * svm["pairs"]),
    )
    axes.xaxis.set_major_formatter(lambda value, _: short(value))
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "goldstein", "svg.fonttype": "path"}):
        axes.figure.savefig(out / PICTURE, metadata={"Date": None, "Creator": None})
    return out / PICTURE


def _curve(axes: Any, curve: Mapping[str, Sequence[float]], lowest: float, name: str) -> None:
    """Draw mean ± one standard deviation over seeds; the band ends where a logarithmic axis does."""
    evals = np.array(curve["evaluations"])
    above = np.array(curve["mean"]) - lowest
    std = np.array(curve["std"])
    look = style(axes)
    axes.plot(evals, above, label=name, **look)
    low = np.maximum(above - std, math.exp(-3) * above)
    axes.fill_between(evals, low, above + std, color=look["color"], alpha=0.2, linewidth=0)
