"""The network of the paper's second experiment and its training: `python -m studies lenet` (extra: torch).

LeNet as the public code has it: 1 → 16 → 64 channels, 5×5, padding 2, a ReLU and a 2×2 max-pool after each, then
3136 → 128 → 10 with one ReLU; 428,906 parameters. (The paper's table says 16 channels twice, which does not give 3136.)
Pixels are in [0, 1] outside; the normalisation belongs to the network. Weights are plain arrays in an npz file.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.models import torch_model
from studies import datasets
from studies.record import command, provenance, write_json

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels; the public code uses them for both data sets
DATA = ("mnist", "fashion-mnist")
PAPER = {"mnist": 0.9895, "fashion-mnist": 0.9194}  # test accuracies that the paper reports

Floats = npt.NDArray[np.float32]
Weights = dict[str, Floats]

SHAPES = {
    "conv1.weight": (16, 1, 5, 5),
    "conv1.bias": (16,),
    "conv2.weight": (64, 16, 5, 5),
    "conv2.bias": (64,),
    "full1.weight": (128, 3136),
    "full1.bias": (128,),
    "full2.weight": (10, 128),
    "full2.bias": (10,),
}


@dataclass(frozen=True)
class Schedule:
    """How a network is trained: stochastic gradient descent on the cross-entropy.

    `halve_every` halves the step every so many epochs, as in the paper; None lets it fall in a straight line to zero.
    """

    epochs: int
    step_size: float
    halve_every: int | None
    batch_size: int = 128
    momentum: float = 0.0
    weight_decay: float = 0.0

    def step(self, epoch: int, share: float) -> float:
        """Return the step size, `share` of the way through an epoch (from 0)."""
        if self.halve_every is None:
            return self.step_size * (1 - (epoch + share) / self.epochs)
        return self.step_size * float(0.5 ** (epoch // self.halve_every))


SCHEDULES = {
    "full": Schedule(epochs=100, step_size=0.1, halve_every=20),
    "short": Schedule(epochs=12, step_size=0.05, halve_every=None, batch_size=64, momentum=0.9, weight_decay=5e-4),
    "quick": Schedule(epochs=1, step_size=0.05, halve_every=None, batch_size=64, momentum=0.9, weight_decay=5e-4),
}


class LeNet:
    """The network as a function of NumPy arrays: images (k, 28, 28) with pixels in [0, 1] to logits (k, 10)."""

    def __init__(self, weights: Weights) -> None:
        check(weights)
        self.weights = weights
        self._torch = _import_torch()
        self._tensors = {name: self._torch.tensor(array) for name, array in weights.items()}
        self._scores = torch_model(self.logits)

    def __call__(self, images: npt.ArrayLike) -> Floats:
        """Return the logits; those of an image do not depend on the others."""
        rows = np.asarray(images, dtype=np.float32).reshape(-1, 1, 28, 28)
        return self._scores(rows).astype(np.float32) if len(rows) else np.empty((0, 10), np.float32)

    def logits(self, pixels: Any) -> Any:
        """Return the logits of a tensor (k, 1, 28, 28), which may have a gradient."""
        return forward(self._torch, self._tensors, pixels)

    def accuracy(self, images: npt.ArrayLike, labels: npt.ArrayLike) -> float:
        """Return the share of images that are classified right."""
        return float(np.mean(self(images).argmax(axis=1) == np.asarray(labels)))


def forward(torch: Any, tensors: dict[str, Any], pixels: Any) -> Any:
    """Return the logits of pixels (k, 1, 28, 28) in [0, 1]."""
    relu, pool = torch.relu, torch.nn.functional.max_pool2d
    x = ((pixels - MEAN) / STD).to(memory_format=torch.channels_last)
    for layer in ("conv1", "conv2"):
        x = torch.conv2d(x, tensors[f"{layer}.weight"], tensors[f"{layer}.bias"], padding=2)
        x = relu(pool(x, 2))  # the same as the pool of the ReLU, and a quarter of the work
    x = relu(x.flatten(1) @ tensors["full1.weight"].T + tensors["full1.bias"])
    return x @ tensors["full2.weight"].T + tensors["full2.bias"]


def fresh(rng: np.random.Generator) -> Weights:
    """Draw weights uniform within ±1/√(inputs of the layer), as PyTorch does by default."""
    weights = {}
    for name, shape in SHAPES.items():
        bound = 1 / np.sqrt(np.prod(SHAPES[f"{name.split('.')[0]}.weight"][1:]))
        weights[name] = rng.uniform(-bound, bound, shape).astype(np.float32)
    return weights


def train(
    images: Floats,
    labels: npt.NDArray[Any],
    schedule: Schedule,
    *,
    seed: int = 0,
    told: Callable[[int, float], Any] | None = None,
) -> Weights:
    """Train a network and return its weights.

    Parameters
    ----------
    images : ndarray, shape (n, 28, 28)
        Pixels in [0, 1].
    labels : ndarray, shape (n,)
    schedule : Schedule
    seed : int
        Of the first weights and of the order of the images.
    told : callable, optional
        `told(epoch, loss)` after each epoch, with the mean loss over it.
    """
    torch = _import_torch()
    rng = np.random.default_rng(seed)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in fresh(rng).items()}
    pixels = torch.from_numpy(np.ascontiguousarray(images, np.float32)).reshape(-1, 1, 28, 28)
    classes = torch.from_numpy(np.asarray(labels, np.int64))
    optimiser = torch.optim.SGD(
        tensors.values(), lr=schedule.step_size, momentum=schedule.momentum, weight_decay=schedule.weight_decay
    )
    cuts = [*range(0, len(images), schedule.batch_size), len(images)]
    for epoch in range(schedule.epochs):
        order, total = torch.from_numpy(rng.permutation(len(images))), 0.0
        for start, end in pairwise(cuts):
            for group in optimiser.param_groups:
                group["lr"] = schedule.step(epoch, start / len(images))
            batch = order[start:end]
            loss = torch.nn.functional.cross_entropy(forward(torch, tensors, pixels[batch]), classes[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * (end - start)
        if told is not None:
            told(epoch + 1, total / len(images))
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}


def check(weights: Weights) -> None:
    """Raise when these are not the weights of this network."""
    found = {name: array.shape for name, array in weights.items()}
    if found != SHAPES:
        wrong = sorted(set(found.items()) ^ set(SHAPES.items()))[0]
        raise ValueError(f"These are not the weights of LeNet: {wrong[0]} of shape {wrong[1]} is not on both sides.")


def digest(weights: Weights) -> str:
    """Return the SHA-256 of all weights, in the order of the layers."""
    return hashlib.sha256(b"".join(weights[name].astype("<f4").tobytes() for name in SHAPES)).hexdigest()


def save(weights: Weights, path: Path) -> None:
    """Write weights whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as out:
        np.savez(out, allow_pickle=False, **weights)
    os.replace(name, path)


def load(path: Path) -> Weights:
    """Read weights that `save` wrote; arrays only, nothing in the file is run."""
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as saved:
        weights = {name: saved[name] for name in saved.files}
    check(weights)
    return weights


def pixels(name: str, split: str, data: Path | None = None) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return images with pixels in [0, 1] and labels."""
    images, labels = datasets.load_images(name, split, data)
    return images.astype(np.float32) / np.float32(255), labels.astype(np.int64)


def trained(
    name: str,
    folder: Path,
    *,
    schedule: str = "short",
    data: Path | None = None,
    seed: int = 0,
    told: Callable[[int, float], Any] | None = None,
) -> LeNet:
    """Return the network for a data set: from its file in `folder`, or trained now and saved there."""
    path = folder / f"{name}-{_kind(schedule, seed)}.npz"
    if not path.is_file():
        save(train(*pixels(name, "train", data), SCHEDULES[schedule], seed=seed, told=told), path)
        (folder / ".gitignore").write_text("*\n")
    return LeNet(load(path))


def run(
    out: Path, *, names: tuple[str, ...] = DATA, schedule: str = "short", data: Path | None = None, seed: int = 0
) -> dict[str, Any]:
    """Train networks that are not in `out`/weights yet; note their accuracies in `out`/training.json."""
    from rich.console import Console

    console, path = Console(), out / "training.json"
    out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {"networks": {}}
    record |= provenance(command("lenet"))
    for name in names:
        epochs = SCHEDULES[schedule].epochs

        def told(epoch: int, loss: float, name: str = name, epochs: int = epochs) -> None:
            console.print(f"{name}: epoch {epoch} of {epochs}, loss {loss:.4f}", highlight=False)

        model = trained(name, out / "weights", schedule=schedule, data=data, seed=seed, told=told)
        found = summary(name, model, schedule, data)
        record["networks"].setdefault(name, {})[_kind(schedule, seed)] = found
        write_json(path, record)
        console.print(f"{name}: {found['test']:.2%} on the test images (the paper: {PAPER[name]:.2%})", highlight=False)
    return record


def _kind(schedule: str, seed: int) -> str:
    return f"{schedule}-{seed}" if seed else schedule


def summary(name: str, model: LeNet, schedule: str, data: Path | None = None) -> dict[str, Any]:
    """Return the accuracies of a network, the paper's, and what tells its weights from others."""
    return {
        "schedule": vars(SCHEDULES[schedule]),
        "train": round(model.accuracy(*pixels(name, "train", data)), 6),
        "test": round(model.accuracy(*pixels(name, "test", data)), 6),
        "paper": PAPER[name],
        "sha256": digest(model.weights),
    }


def count() -> int:
    """Return the number of parameters."""
    return sum(int(np.prod(shape)) for shape in SHAPES.values())


def _import_torch() -> Any:
    return import_module("torch")  # by name, since a type checker may not find it
