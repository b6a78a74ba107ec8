"""The whole attack against the bare model: model evaluations a second, in one run with the same batches."""

from __future__ import annotations

import time

import numpy as np

import goldstein as gs
from goldstein.attack import SignAveraging, attack, torch_model

ROWS = 256
CASES = {  # method, images, queries for each
    "default, 100 queries an image": (SignAveraging(), 500, 100),
    "default, 300 queries an image": (SignAveraging(), 100, 300),
    "sign averaging alone": (SignAveraging(search=None), 60, 200),
    "GFM, b' = 500": (gs.GFM(0.0031, 0.05, 500), 5, 2_003),
    "GFM+, m = 10, b = 50": (gs.GFMPlus(0.0031, 0.05, 10, 50), 5, 2_012),
}


class Unbeaten:
    """A model that is asked as ever, but says each time that the attack has not won."""

    def __init__(self, model) -> None:
        self.model = model

    def __call__(self, images):
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

    They take turns, and a share is the median over the turns: a machine's speed drifts.
    """
    import torch

    net, table = network(), []
    model = torch_model(net)
    most = torch.get_num_threads()
    for threads in sorted({1, most}):
        torch.set_num_threads(threads)
        for name, case in CASES.items():
            module, bare, whole = speeds(net, model, *case).T
            table.append(
                {
                    "method": name,
                    "threads": threads,
                    "module alone on tensors, rows a second": round(np.median(module)),
                    "bare model, rows a second": round(np.median(bare)),
                    "whole attack, rows a second": round(np.median(whole)),
                    "share of the bare model": f"{np.median(whole / bare):.0%}",
                    "share of the module": f"{np.median(whole / module):.0%}",
                }
            )
    torch.set_num_threads(most)
    return table


def speeds(net, model, method, images: int, queries: int, turns: int = 3):
    """Return rows a second of the module, the bare model and the attack, a row for each turn."""
    import torch

    rng = np.random.default_rng(0)
    x, full = (rng.random((k, 1, 28, 28)).astype(np.float32) for k in (images, ROWS))
    labels, keys = np.zeros(images, int), {"method": method, "max_queries": queries, "chunk": ROWS}
    rows = int(attack(Unbeaten(model), x, labels, **keys).queries.sum())
    batches = rows // ROWS
    tensor = torch.from_numpy(full).to(memory_format=torch.channels_last)
    found = []
    for _ in range(turns):
        start = time.perf_counter()
        attack(Unbeaten(model), x, labels, **keys)
        middle = time.perf_counter()
        for _ in range(batches):
            model(full)
        end = time.perf_counter()
        with torch.inference_mode():
            for _ in range(batches):
                net(tensor)
        last = time.perf_counter()
        found.append([batches * ROWS / (last - end), batches * ROWS / (end - middle), rows / (middle - start)])
    return np.array(found)
