"""The attack's demo: a small network on the 8×8 digits inside scikit-learn, trained in seconds and then attacked."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack import AttackResult, FixedRows, SignAveraging, attack, torch_model
from goldstein.methods import GFM, Method
from goldstein.steps import HalveOnPlateau

RADIUS, HELD_OUT, EPOCHS, BATCH = 0.2, 400, 20, 32
SHOWN_AT = (20, 50, 100, 200, 500)
METHODS: dict[str, Method] = {
    "default: search, then sign averaging": SignAveraging(),
    "sign averaging alone": SignAveraging(search=None),
    "GFM, Euclidean step": GFM(0.05, HalveOnPlateau(0.05), 10),
}

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def digits() -> tuple[Images, Labels]:
    """Return the 1,797 digits, (n, 1, 8, 8) with pixels in [0, 1], and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images[:, None] / 16).astype(np.float32), data.target.astype(np.int64)


def network(images: Images, labels: Labels, seed: int = 0) -> FixedRows:
    """Train two convolutions and two full layers on the images."""
    torch = import_module("torch")
    nn, draw = torch.nn, np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
        )
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        order = draw.permutation(len(images))
        for start in range(0, len(images), BATCH):
            part = order[start : start + BATCH]
            loss = nn.functional.cross_entropy(module(torch.from_numpy(images[part])), torch.from_numpy(labels[part]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return torch_model(module)


def run(out: Path, *, images: int = 200, max_queries: int = 500) -> None:
    """Train, attack held-out digits by each method, and leave a table, a figure, a contact sheet and the numbers."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 132)
    x, y = digits()
    model = network(x[:-HELD_OUT], y[:-HELD_OUT])
    accuracy = float(np.mean(model(x[-HELD_OUT:]).argmax(axis=1) == y[-HELD_OUT:]))
    x, y = x[-HELD_OUT:][:images], y[-HELD_OUT:][:images]
    console.print(
        f"A small network on 8×8 digits, {accuracy:.1%} right on {HELD_OUT} held out. {len(x)} of them are attacked: "
        f"no pixel moves by more than {RADIUS}, at most {max_queries:,} queries each, only scores are used."
    )
    results = {}
    for name, method in METHODS.items():
        console.print(name)
        results[name] = attack(
            model, x, y, method=method, radius=RADIUS, max_queries=max_queries, progress=sys.stdout.isatty()
        )
    rows = [_row(name, result) for name, result in results.items()]
    out.mkdir(parents=True, exist_ok=True)
    numbers = {"accuracy": accuracy, "images": len(x), "radius": RADIUS, "max_queries": max_queries, "rows": rows}
    (out / "attack.json").write_text(json.dumps(numbers, indent=1))
    console.print(_table(rows, len(x)))
    sheet = next(iter(results.values())).contact_sheet(out / "attack-images.png")
    figure = _figure(results, max_queries, out / "attack.png")
    console.print(f"Images: {sheet}   Figure: {figure}   Numbers: {out / 'attack.json'}")


def _row(name: str, result: AttackResult) -> dict[str, Any]:
    rates = dict(zip(map(str, SHOWN_AT), result.curve(SHOWN_AT).tolist(), strict=True))
    return {"method": name, "settings": repr(METHODS[name]), "rates": rates, **result.summary()}


def _table(rows: list[dict[str, Any]], images: int) -> Any:
    from rich.table import Table

    misclassified = rows[0]["misclassified"]
    table = Table(title=f"Won of {images - misclassified} images ({misclassified} more were wrong before), by queries")
    table.add_column("method")
    for at in SHOWN_AT:
        table.add_column(f"≤ {at:,}", justify="right")
    table.add_column("median queries", justify="right")
    for row in rows:
        rates = [f"{row['rates'][str(at)]:.0%}" for at in SHOWN_AT]
        table.add_row(row["method"], *rates, f"{row['median_queries']:g}")
    return table


def _figure(results: dict[str, AttackResult], max_queries: int, path: Path) -> Path:
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
