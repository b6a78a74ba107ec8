"""The two demos, on data inside scikit-learn: `goldstein demo` (an SVM) and `goldstein demo-attack` (a network)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack import AttackResult, FixedRows, SignAveraging, attack, torch_model
from goldstein.many import ManyResults, minimize_many
from goldstein.methods import GFM, GFMPlus, Method, WarmStart
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.stationarity import smoothed_gradient_norm
from goldstein.steps import HalveOnPlateau

DELTA = 0.01
WIDE = 120  # columns that one table of everything takes
SHARES = (0.03, 0.1, 0.3)  # of the evaluations, after which losses are shown
METHODS: dict[str, str | Method] = {
    "GFM": GFM(DELTA, 0.001),
    "GFM+": GFMPlus(DELTA, 0.01, epoch_length=10, batch_size=5),
    "WS-GFM": WarmStart(GFM(DELTA, 0.003), GFM(DELTA, 0.001)),
    "WS-GFM+": WarmStart(GFM(DELTA, 0.003), GFMPlus(DELTA, 0.01, epoch_length=10, batch_size=5)),
    "auto": "auto",
}

RADIUS, HELD_OUT, EPOCHS, BATCH = 0.2, 400, 20, 32
QUERIES = (20, 50, 100, 200, 500)  # after which success is shown
ATTACKS: dict[str, Method] = {
    "default: search, then sign averaging": SignAveraging(),
    "sign averaging alone": SignAveraging(search=None),
    "GFM, Euclidean step": GFM(0.05, HalveOnPlateau(0.05), 10),
}

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def breast_cancer() -> SVM:
    """Return the SVM on the Wisconsin breast cancer data: 569 rows, 30 standardised features and a bias."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    return capped_l1_svm(scaled, np.where(labels == 1, 1.0, -1.0))


def run_svm(out: Path, *, max_evals: int = 200_000, seeds: int = 10) -> None:
    """Run every method on every seed, show progress, and leave a table, a figure and the numbers in `out`."""
    from rich import progress as rich

    from goldstein.plot import curves

    console = _console()
    svm = breast_cancer()
    console.print(
        f"Capped-ℓ₁ SVM on breast cancer: n = {svm.oracle.n}, d = {svm.dim}; {len(METHODS)} methods × {seeds} seeds × "
        f"{max_evals:,} evaluations each. Only values of the loss are used."
    )
    columns = (rich.TextColumn("{task.description:8}"), rich.BarColumn(), rich.MofNCompleteColumn())
    times = (rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    runs: dict[str, ManyResults] = {}
    with rich.Progress(*columns, *times, console=console) as progress:
        total = progress.add_task("total", total=len(METHODS) * seeds)
        for name, method in METHODS.items():
            tasks = (progress.add_task(name, total=seeds), total)
            runs[name] = minimize_many(
                svm.compiled,
                svm.x0,
                method,
                seeds=seeds,
                max_evals=max_evals,
                monitor=svm.value,
                done=partial(_advance, progress, tasks),
            )
    rows = [_svm_row(name, svm, runs[name], max_evals) for name in METHODS]
    numbers = _write(out / "demo.json", {"max_evals": max_evals, "seeds": seeds, "rows": rows})
    for table in svm_tables(rows, max_evals, wide=console.width >= WIDE):
        console.print(table)
    console.print(
        f"‖∇f_δ‖ is estimated at δ = {DELTA} from 20,000 fresh pairs at the first seed's answer, with a 95 % interval; "
        "it bounds the distance of 0 to Goldstein's δ-subdifferential from above. WS-GFM and WS-GFM+ have their first "
        "phase in common."
    )
    bands = {name: (many.history["nfev"], many.history["monitor"]) for name, many in runs.items()}
    figure = curves(bands, out / "demo.png", title="Capped-ℓ₁ SVM, breast cancer", ylabel="full loss")
    console.print(f"Figure: {figure}   Numbers: {numbers}")


def _advance(progress: Any, tasks: tuple[Any, ...], *_: object) -> None:
    for task in tasks:
        progress.advance(task)


def _svm_row(name: str, svm: SVM, runs: ManyResults, max_evals: int) -> dict[str, Any]:
    history = runs.history
    losses = {}
    for share in SHARES:
        column = [int(np.searchsorted(nfev[~np.isnan(nfev)], share * max_evals * 0.999)) for nfev in history["nfev"]]
        values = [row[min(k, np.sum(~np.isnan(row)) - 1)] for k, row in zip(column, history["monitor"], strict=True)]
        losses[f"{share:g}"] = _mean_and_std(values)
    norm = smoothed_gradient_norm(svm.oracle, runs[0].x, DELTA, 20_000, rng=12345)
    return {
        "method": name,
        "settings": repr(runs[0].method),
        "loss": losses,
        "final": _mean_and_std([svm.value(x) for x in runs.x]),
        "accuracy": float(np.mean([svm.accuracy(x) for x in runs.x])),
        "squared_norm": norm.squared,
        "squared_norm_interval": list(norm.interval),
    }


def _mean_and_std(values: list[float]) -> list[float]:
    return [float(np.mean(values)), float(np.std(values, ddof=1))]


def svm_tables(rows: list[dict[str, Any]], max_evals: int, *, wide: bool) -> list[Any]:
    """Return the losses and the answers, in one table where there is room for it, else in two."""
    losses = {f"{int(share * max_evals):,}": [_pair(row["loss"][f"{share:g}"]) for row in rows] for share in SHARES}
    answers = {
        f"answer after\n{max_evals:,}": [_pair(row["final"]) for row in rows],
        "accuracy": [f"{row['accuracy']:.1%}" for row in rows],
        "‖∇f_δ‖ of the answer": [_norm(row) for row in rows],
    }
    names = [row["method"] for row in rows]
    title = "Loss, mean ± standard deviation over seeds, by evaluations"
    if wide:
        return [_table(title, names, losses | answers)]
    return [_table(title, names, losses), _table("The answers", names, answers)]


def _pair(mean_and_std: list[float]) -> str:
    return "{:.4f} ± {:.4f}".format(*mean_and_std)


def _norm(row: dict[str, Any]) -> str:
    low, high = (max(0.0, value) ** 0.5 for value in row["squared_norm_interval"])
    return f"{max(0.0, row['squared_norm']) ** 0.5:.3f} [{low:.3f}, {high:.3f}]"


def digits() -> tuple[Images, Labels]:
    """Return the 1,797 digits, (n, 1, 8, 8) with pixels in [0, 1], and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images[:, None] / 16).astype(np.float32), data.target.astype(np.int64)


def network(images: Images, labels: Labels, seed: int = 0) -> FixedRows:
    """Train two convolutions and two full layers on the images."""
    torch = import_module("torch")
    nn = torch.nn
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
        )
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(images), BATCH):
            part = order[start : start + BATCH]
            loss = nn.functional.cross_entropy(module(torch.from_numpy(images[part])), torch.from_numpy(labels[part]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return torch_model(module)


def run_attack(out: Path, *, images: int = 200, max_queries: int = 500) -> None:
    """Train, attack held-out digits by each method, and leave a table, a figure, a contact sheet and the numbers."""
    console = _console()
    x, y = digits()
    model = network(x[:-HELD_OUT], y[:-HELD_OUT])
    accuracy = float(np.mean(model(x[-HELD_OUT:]).argmax(axis=1) == y[-HELD_OUT:]))
    x, y = x[-HELD_OUT:][:images], y[-HELD_OUT:][:images]
    console.print(
        f"A small network on 8×8 digits, {accuracy:.1%} right on {HELD_OUT} held out. {len(x)} of them are attacked: "
        f"no pixel moves by more than {RADIUS}, at most {max_queries:,} queries each, only scores are used."
    )
    results = {}
    for name, method in ATTACKS.items():
        console.print(name)
        results[name] = attack(
            model, x, y, method=method, radius=RADIUS, max_queries=max_queries, progress=sys.stdout.isatty()
        )
    rows = [_attack_row(name, result) for name, result in results.items()]
    about = {"accuracy": accuracy, "images": len(x), "radius": RADIUS, "max_queries": max_queries}
    numbers = _write(out / "attack.json", {**about, "rows": rows})
    wrong = rows[0]["misclassified"]
    columns = {f"≤ {at:,}": [f"{row['rates'][str(at)]:.0%}" for row in rows] for at in QUERIES}
    columns["median queries"] = [f"{row['median_queries']:g}" for row in rows]
    title = f"Won of {len(x) - wrong} images ({wrong} more were wrong before), by queries"
    console.print(_table(title, list(ATTACKS), columns))
    sheet = next(iter(results.values())).contact_sheet(out / "attack-images.png")
    figure = _attack_figure(results, max_queries, out / "attack.png")
    console.print(f"Images: {sheet}   Figure: {figure}   Numbers: {numbers}")


def _attack_row(name: str, result: AttackResult) -> dict[str, Any]:
    rates = dict(zip(map(str, QUERIES), result.curve(QUERIES).tolist(), strict=True))
    return {"method": name, "settings": repr(ATTACKS[name]), "rates": rates, **result.summary()}


def _attack_figure(results: Mapping[str, AttackResult], max_queries: int, path: Path) -> Path:
    from goldstein.plot import new_axes, style

    axes = new_axes(path)
    at = np.unique(np.geomspace(1, max_queries, 200).astype(int))
    for name, result in results.items():
        axes.plot(at, 100 * result.curve(at), label=name, **style(axes))
    axes.set(title="Black-box attack, 8×8 digits", xlabel="queries", ylabel="success, %", xscale="log", ylim=(0, 100))
    axes.legend()
    axes.grid(alpha=0.3)
    axes.figure.savefig(path, dpi=130)
    return path


def _console() -> Any:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 132)


def _write(path: Path, numbers: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(numbers, indent=1))
    return path


def _table(title: str, names: list[str], columns: Mapping[str, list[str]]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("method", no_wrap=True, min_width=max(map(len, names)))
    for head in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for cells in zip(names, *columns.values(), strict=True):
        table.add_row(*cells)
    return table
