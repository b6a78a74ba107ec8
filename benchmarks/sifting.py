"""Sifting: how fast, against its evaluations of F alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

import goldstein as gs
from benchmarks.data import a9a_shaped
from benchmarks.timing import ratio
from goldstein.compiled.pieces import call

RADIUS = 1.0
COMPILED, PLAIN = 400_000, 200_000  # values of a run
BATCHES = (64, 256)
Row = dict[str, object]


@njit(nogil=True, error_model="numpy")
def evaluate(F, args, components, points):
    """The floor: F alone at two points in turn, for these components in this order; nothing is written."""
    total = 0.0
    for k in range(components.size):
        total += call(F, points[k % 2], components[k], args)
    return total


class Recorder:
    """The components that a run asks for, query by query, and the largest of its queries."""

    def __init__(self, fun: Callable[..., np.ndarray]) -> None:
        self.fun = fun
        self.components: list[np.ndarray] = []
        self.points = np.empty((0, 0))

    def __call__(self, points: np.ndarray, components: np.ndarray, *args: object) -> np.ndarray:
        self.components.append(components.copy())
        if len(points) > len(self.points):
            self.points = points.copy()
        return self.fun(points, components, *args)


def recorded(svm, method: gs.Method, evals: int) -> Recorder:
    """Do a run of the plain loop, which asks what the compiled one asks, and return what it asked for."""
    recorder = Recorder(svm.oracle.fun)
    oracle = gs.FiniteSum(recorder, svm.oracle.n, args=svm.oracle.args, vectorized=True)
    gs.minimize(oracle, svm.x0, method, max_evals=evals, rng=0)
    return recorder


def compiled_row(svm) -> Row:
    """Return compiled sifting beside the jitted F alone, at the same components in the same order."""
    method = gs.Sift(radius=RADIUS)
    asked = np.concatenate(recorded(svm, method, COMPILED).components)
    floor = svm.jitted
    points = np.stack([svm.x0, svm.x0 + 1e-5])
    run = lambda: gs.minimize(svm.compiled, svm.x0, method, max_evals=COMPILED, rng=0, compiled=True)  # noqa: E731
    seconds, least, times = ratio(run, lambda: evaluate(floor, svm.oracle.args, asked, points))
    return row("compiled, batch 1", asked.size, seconds, least, times)


def plain_row(svm, batch: int) -> Row:
    """Return plain sifting beside writing as many points, from a place that is in the cache, and F at them."""
    method = gs.Sift(radius=RADIUS, batch_size=batch)
    asked = recorded(svm, method, PLAIN)
    fun, args, source = svm.oracle.fun, svm.oracle.args, asked.points

    def floor() -> None:
        for components in asked.components:
            fun(source[: components.size].copy(), components, *args)

    run = lambda: gs.minimize(svm.oracle, svm.x0, method, max_evals=PLAIN, rng=0)  # noqa: E731
    values = sum(components.size for components in asked.components)
    return row(f"plain loop, batch {batch}", values, *ratio(run, floor))


def row(way: str, values: int, seconds: float, least: float, times: float) -> Row:
    return {
        "way": way,
        "values": values,
        "µs a value": round(1e6 * seconds / values, 3),
        "F alone (plain: and writing the points), µs": round(1e6 * least / values, 3),
        "× that": round(times, 2),
    }


def sifting_rows() -> list[Row]:
    """Return sifting on the a9a-shaped SVM against its evaluations of F alone."""
    svm = a9a_shaped()
    return [compiled_row(svm), *(plain_row(svm, batch) for batch in BATCHES)]
