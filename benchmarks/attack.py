"""The whole attack against the bare model: model evaluations a second, in one run with the same batches."""

from __future__ import annotations

import time

import numpy as np

import goldstein as gs
from goldstein.attack import SignAveraging, attack, torch_model

ROWS = 256
CASES = {  # method, images, queries for each
    "default, 100 queries an image": (SignAveraging(), 256, 100),
    "default, 300 queries an image": (SignAveraging(), 100, 300),
    "sign averaging alone": (SignAveraging(search=None), 256, 100),
    "GFM, b' = 500": (gs.GFM(0.0031, 0.05, 500), 5, 2_003),
    "GFM+, m = 10, b = 50": (gs.GFMPlus(0.0031, 0.05, 10, 50), 5, 2_012),
}


class Beside:
    """A model that is asked as ever, but says each time that the attack has not won.

    Before each answer it times the bare model on a full batch, in a loop of its own: a machine's speed drifts, and so
    the two are measured in the same moments. `taken` is the time of all that.
    """

    def __init__(self, model) -> None:
        self.model, self.full = model, full_batch()
        self.calls, self.bare, self.taken = 0, 0.0, 0.0

    def __call__(self, images):
        start = time.perf_counter()
        self.calls, self.bare = self.calls + 1, self.bare + second(self.model, self.full)
        self.taken += time.perf_counter() - start
        scores = np.array(self.model(images))
        scores[:, 0] = scores[:, 1:].max(axis=1) + 1 + abs(scores[:, 0])
        return scores


def network():
    """Return a network of the size of the paper's LeNet, untrained, on 28×28 images."""
    import torch

    nn = torch.nn
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(16, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def attack_rows():
    """Return evaluations a second of the bare model on full batches and of whole attacks.

    Shares are medians: over several attacks, and over pairs of calls of the bare model and of the module on tensors.
    """
    import torch

    net, table = network(), []
    model = torch_model(net)
    most = torch.get_num_threads()
    for threads in sorted({1, most}):
        torch.set_num_threads(threads)
        for name, case in CASES.items():
            bare, whole = speeds(model, *case).T
            table.append(
                {
                    "method": name,
                    "threads": threads,
                    "bare model, rows a second": round(np.median(bare)),
                    "whole attack, rows a second": round(np.median(whole)),
                    "share of the bare model": f"{np.median(whole / bare):.0%}",
                    "the bare model's share of the module": f"{wrapped(net, model):.0%}",
                }
            )
    torch.set_num_threads(most)
    return table


def speeds(model, method, images: int, queries: int, turns: int = 5):
    """Return rows a second of the bare model and of the attack, a row for each turn."""
    x = np.random.default_rng(0).random((images, 1, 28, 28)).astype(np.float32)
    labels, keys = np.zeros(images, int), {"method": method, "max_queries": queries, "chunk": ROWS}
    found = []
    for _ in range(turns):
        beside = Beside(model)
        start = time.perf_counter()
        rows = int(attack(beside, x, labels, **keys).queries.sum())
        took = time.perf_counter() - start - beside.taken
        found.append([beside.calls * ROWS / beside.bare, rows / took])
    return np.array(found)


def wrapped(net, model, turns: int = 20) -> float:
    """Return the speed of the model on images as a share of that of its module on tensors, measured in turn."""
    import torch

    images = full_batch()
    tensor = torch.from_numpy(images).to(memory_format=torch.channels_last)
    with torch.inference_mode():
        ours, theirs = zip(*[(second(model, images), second(net, tensor)) for _ in range(turns)], strict=True)
    return float(np.median(theirs) / np.median(ours))


def second(call, batch) -> float:
    """Return how long a call takes right after one like it: buffers of another size would slow it down."""
    call(batch)
    start = time.perf_counter()
    call(batch)
    return time.perf_counter() - start


def full_batch():
    """Return as many images as a batch takes."""
    return np.random.default_rng(1).random((ROWS, 1, 28, 28)).astype(np.float32)
