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
BATCHES = (64, 256, 1024)
Row = dict[str, object]


@njit(nogil=True, error_model="numpy")
def evaluate(F, args, components, points):
    """The floor of the compiled loop: F alone, at one point, for these components in this order."""
    total = 0.0
    for k in range(components.size):
        total += call(F, points[0], components[k], args)
    return total


@njit(nogil=True, error_model="numpy")
def write_and_evaluate(F, args, components, points):
    """The same, each time at a point that is written anew, as a function gets it that may change its argument."""
    point = np.empty(points.shape[1])
    total = 0.0
    for k in range(components.size):
        source = points[k % 2]
        for j in range(point.size):
            point[j] = source[j]
        total += call(F, point, components[k], args)
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


def compiled_rows(svm) -> list[Row]:
    """Return whole compiled runs beside the jitted F at the same components in the same order."""
    method = gs.Sift(radius=RADIUS)
    asked = np.concatenate(recorded(svm, method, COMPILED).components)
    points = np.stack([svm.x0, svm.x0 + 1e-5])

    def run() -> None:
        gs.minimize(svm.compiled, svm.x0, method, max_evals=COMPILED, rng=0, compiled=True)

    floors = {"F alone": evaluate, "F, and writing its points": write_and_evaluate}
    return [
        row(
            "compiled, batch 1",
            floor,
            asked.size,
            *ratio(run, lambda loop=loop: loop(svm.jitted, svm.oracle.args, asked, points)),
        )
        for floor, loop in floors.items()
    ]


def plain_row(svm, batch: int) -> Row:
    """Return whole plain runs beside writing as many points, from a place that is in the cache, and F at them."""
    method = gs.Sift(radius=RADIUS, batch_size=batch)
    asked = recorded(svm, method, PLAIN)

    def run() -> None:
        gs.minimize(svm.oracle, svm.x0, method, max_evals=PLAIN, rng=0)

    def floor() -> None:
        for components in asked.components:
            svm.oracle.fun(asked.points[: components.size].copy(), components, *svm.oracle.args)

    values = sum(components.size for components in asked.components)
    return row(f"plain loop, batch {batch}", "F, and writing its points", values, *ratio(run, floor))


def row(way: str, floor: str, values: int, seconds: float, least: float, times: float) -> Row:
    """Return one line of the table."""
    return {
        "way": way,
        "µs a value": round(1e6 * seconds / values, 3),
        "floor": floor,
        "µs of that": round(1e6 * least / values, 3),
        "× floor": round(times, 2),
    }


def sifting_rows() -> list[Row]:
    """Return sifting on the a9a-shaped SVM against its evaluations, at the same components in the same order."""
    svm = a9a_shaped()
    return [*compiled_rows(svm), *(plain_row(svm, batch) for batch in BATCHES)]
