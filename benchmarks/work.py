"""Pieces of work that `benchmarks.compare` times, by public names only, so that older versions can do them too."""

from __future__ import annotations

import sys
import time
import warnings
from functools import cache, partial

import numpy as np

import goldstein as gs
from benchmarks.data import a9a_shaped, cheap_sum
from goldstein.attack import SignAveraging, attack, torch_model

SVM, CHEAP = "a9a-shaped SVM", "cheap F"
METHODS = {
    "gfm": gs.GFM(1e-3, 1e-4),
    "gfm, batch 100": gs.GFM(1e-3, 1e-4, 100),
    "gfm+": gs.GFMPlus(1e-3, 1e-4, 10, 10),
    "ws-gfm+": gs.WarmStart(gs.GFM(1e-3, 1e-4), gs.GFMPlus(1e-3, 1e-4, 10, 10)),
    "zo-o2nc": gs.ZOO2NC(0.1, 10),
    "auto": "auto",
    "gfm by name": "gfm",
}
ATTACKS = {
    "default, 100 queries": (SignAveraging(), 256, 100),
    "default, 300 queries": (SignAveraging(), 100, 300),
    "sign averaging alone": (SignAveraging(search=None), 256, 100),
    "gfm": (gs.GFM(0.0031, 0.05, 500), 5, 2_003),
    "gfm+": (gs.GFMPlus(0.0031, 0.05, 10, 50), 5, 2_012),
}


@cache
def svm():
    """Return the compiled SVM and its start."""
    problem = a9a_shaped()
    return problem.compiled, problem.x0


def compiled(method: str) -> None:
    """Do a compiled run on the SVM."""
    oracle, x0 = svm()
    gs.minimize(oracle, x0, METHODS[method], max_evals=200_000, rng=0, compiled=True)


def cheap(d: int, method: str, evals: int) -> None:
    """Do a compiled run on components that cost next to nothing."""
    gs.minimize(cheap_sum(d), np.ones(d), METHODS[method], max_evals=evals, rng=0, compiled=True)


def plain(batch: int) -> None:
    """Do a run of the plain loop on a function that costs next to nothing."""
    oracle = gs.Deterministic(lambda X: X[:, 0], vectorized=True)
    gs.minimize(oracle, np.ones(1000), gs.GFM(0.1, 1e-6, batch), max_evals=8_000, rng=0)


@cache
def model():
    """Return a small dense network on 28×28 images, in NumPy, that never lets an attack win."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(784, 128)).astype(np.float32) / 28
    second = rng.normal(size=(128, 10)).astype(np.float32) / 11

    def scores(images):
        hidden = np.maximum(images.reshape(len(images), -1) @ first, 0)
        out = hidden @ second
        out[:, 0] = out[:, 1:].max(axis=1) + 1 + abs(out[:, 0])
        return out

    return scores


@cache
def lenet():
    """Return a network of the size of the paper's LeNet that never lets an attack win."""
    import torch

    from benchmarks.attack import network

    torch.set_num_threads(1)
    net = torch_model(network())

    def scores(images):
        out = np.array(net(images))
        out[:, 0] = out[:, 1:].max(axis=1) + 1 + abs(out[:, 0])
        return out

    return scores


def attacked(network, name: str) -> None:
    """Do a whole attack."""
    method, images, queries = ATTACKS[name]
    x = np.random.default_rng(0).random((images, 1, 28, 28)).astype(np.float32)
    attack(network(), x, np.zeros(images, int), method=method, max_queries=queries)


WORK = {f"compiled, {SVM}: {name}": partial(compiled, name) for name in METHODS}
WORK |= {f"compiled, {CHEAP}, d = {d:,}: {name}": partial(cheap, d, name, 100_000_000 // d)
         for d in (1_000, 10_000, 100_000) for name in ("gfm", "gfm+")}  # fmt: skip
WORK |= {f"plain, batch {batch}, d = 1,000": partial(plain, batch) for batch in (1, 100)}
WORK |= {f"attack, dense network: {name}": partial(attacked, model, name) for name in ATTACKS}
WORK |= {f"attack, LeNet: {name}": partial(attacked, lenet, name) for name in ATTACKS}

if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    for line in sys.stdin:
        start = time.perf_counter()
        WORK[line.strip()]()
        print(time.perf_counter() - start, flush=True)
