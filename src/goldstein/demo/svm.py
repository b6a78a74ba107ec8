"""The demo: the paper's four methods and "auto" on a capped-ℓ₁ SVM over data that ships inside scikit-learn."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.many import ManyResults, minimize_many
from goldstein.methods import GFM, GFMPlus, Method, WarmStart
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.stationarity import smoothed_gradient_norm

DELTA = 0.01
WIDE = 120  # columns that one table of everything takes
SHOWN_AT = (0.03, 0.1, 0.3)
METHODS: dict[str, str | Method] = {
    "GFM": GFM(DELTA, 0.001),
    "GFM+": GFMPlus(DELTA, 0.01, epoch_length=10, batch_size=5),
    "WS-GFM": WarmStart(GFM(DELTA, 0.003), GFM(DELTA, 0.001)),
    "WS-GFM+": WarmStart(GFM(DELTA, 0.003), GFMPlus(DELTA, 0.01, epoch_length=10, batch_size=5)),
    "auto": "auto",
}


def problem() -> SVM:
    """Return the SVM on the Wisconsin breast cancer data: 569 rows, 30 standardised features and a bias."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    return capped_l1_svm(scaled, np.where(labels == 1, 1.0, -1.0))


def run(out: Path, *, max_evals: int = 200_000, seeds: int = 10) -> None:
    """Run every method on every seed, show progress, and leave a table, a figure and the numbers in `out`."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(width=None if sys.stdout.isatty() else 132)
    svm = problem()
    console.print(
        f"Capped-ℓ₁ SVM on breast cancer: n = {svm.oracle.n}, d = {svm.dim}; {len(METHODS)} methods × {seeds} seeds × "
        f"{max_evals:,} evaluations each. Only values of the loss are used."
    )
    runs: dict[str, ManyResults] = {}
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        total = progress.add_task("total", total=len(METHODS) * seeds)
        for name, method in METHODS.items():
            task = progress.add_task(name, total=seeds)

            def advance(*_: object, task: TaskID = task) -> None:
                progress.advance(task)
                progress.advance(total)

            runs[name] = minimize_many(
                svm.compiled,
                svm.x0,
                method,
                seeds=seeds,
                max_evals=max_evals,
                monitor=svm.value,
                done=advance,
            )
    rows = [_row(name, svm, runs[name], max_evals) for name in METHODS]
    out.mkdir(parents=True, exist_ok=True)
    (out / "demo.json").write_text(json.dumps({"max_evals": max_evals, "seeds": seeds, "rows": rows}, indent=1))
    for table in _tables(rows, max_evals, wide=console.width >= WIDE):
        console.print(table)
    console.print(
        f"‖∇f_δ‖ is estimated at δ = {DELTA} from 20,000 fresh pairs at the first seed's answer, with a 95 % interval; "
        "it bounds the distance of 0 to Goldstein's δ-subdifferential from above. WS-GFM and WS-GFM+ have their first "
        "phase in common."
    )
    figure = _figure(runs, out / "demo.png")
    console.print(f"Figure: {figure}   Numbers: {out / 'demo.json'}")


def _row(name: str, svm: SVM, runs: ManyResults, max_evals: int) -> dict[str, Any]:
    history = runs.history
    losses = {}
    for share in SHOWN_AT:
        column = [int(np.searchsorted(nfev[~np.isnan(nfev)], share * max_evals * 0.999)) for nfev in history["nfev"]]
        values = [row[min(k, np.sum(~np.isnan(row)) - 1)] for k, row in zip(column, history["monitor"], strict=True)]
        losses[f"{share:g}"] = [float(np.mean(values)), float(np.std(values, ddof=1))]
    norm = smoothed_gradient_norm(svm.oracle, runs[0].x, DELTA, 20_000, rng=12345)
    return {
        "method": name,
        "settings": repr(runs[0].method),
        "loss": losses,
        "final": [
            float(np.mean([svm.value(x) for x in runs.x])),
            float(np.std([svm.value(x) for x in runs.x], ddof=1)),
        ],
        "accuracy": float(np.mean([svm.accuracy(x) for x in runs.x])),
        "squared_norm": norm.squared,
        "squared_norm_interval": list(norm.interval),
    }


def _tables(rows: list[dict[str, Any]], max_evals: int, *, wide: bool) -> list[Any]:
    """Return the losses and the answers, in one table where there is room for it, else in two."""
    losses = {f"{int(share * max_evals):,}": [_pair(row["loss"][f"{share:g}"]) for row in rows] for share in SHOWN_AT}
    answers = {
        f"answer after\n{max_evals:,}": [_pair(row["final"]) for row in rows],
        "accuracy": [f"{row['accuracy']:.1%}" for row in rows],
        "‖∇f_δ‖ of the answer": [_norm(row) for row in rows],
    }
    names = [row["method"] for row in rows]
    title = "Loss, mean ± standard deviation over seeds, after so many evaluations"
    if wide:
        return [_table(title, names, losses | answers)]
    return [_table(title, names, losses), _table("The answers", names, answers)]


def _table(title: str, names: list[str], columns: dict[str, list[str]]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("method", no_wrap=True, min_width=max(map(len, names)))
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for cells in zip(names, *columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _pair(mean_and_std: list[float]) -> str:
    return "{:.4f} ± {:.4f}".format(*mean_and_std)


def _norm(row: dict[str, Any]) -> str:
    low, high = (max(0.0, value) ** 0.5 for value in row["squared_norm_interval"])
    return f"{max(0.0, row['squared_norm']) ** 0.5:.3f} [{low:.3f}, {high:.3f}]"


def _figure(runs: dict[str, ManyResults], path: Path) -> Path:
    from goldstein.plot import curves

    bands = {name: (many.history["nfev"], many.history["monitor"]) for name, many in runs.items()}
    return curves(bands, path, title="Capped-ℓ₁ SVM, breast cancer", ylabel="full loss")
