"""Two-point estimates: how fast, against what the machine must at least do."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

import goldstein as gs
from benchmarks.data import a9a_shaped, add_and_draw, cheap_sum, draw_normals, two_points
from benchmarks.timing import best, together
from goldstein.estimate.smoothing import sphere
from goldstein.methods.method import Context

DELTA, ETA = 1e-3, 1e-4
Row = dict[str, object]
Work = Callable[[], None]


def generator() -> np.random.Generator:
    """Return the generator of all runs here: SFC64 is the fastest that NumPy has."""
    return np.random.Generator(np.random.SFC64(0))


def floor(d: int, count: int) -> Work:
    """Return the work of drawing d normals `count` times in a compiled loop with the same generator."""
    w, rng = np.empty(d), generator()
    return lambda: draw_normals(rng, count, w)


def compiled(oracle: gs.FiniteSum, x0: np.ndarray, method: gs.Method, evals: int) -> Work:
    """Return the work of one compiled run; warnings about the step are not what is measured here."""
    rng = generator()

    def run() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            gs.minimize(oracle, x0, method, max_evals=evals, rng=rng, compiled=True)

    return run


def plain(oracle: gs.FiniteSum, x0: np.ndarray, method: gs.Method, evals: int) -> float:
    """Return the time of one run of the plain loop."""
    rng = generator()
    return best(lambda: gs.minimize(oracle, x0, method, max_evals=evals, rng=rng, compiled=False), repeats=3)


def script(svm, pairs: int) -> float:
    """Return the time of GFM as a careful person would write it: integer sampling, sparse row products."""
    A, b, lam, cap, n, d = svm.features, svm.labels, svm.regularisation, svm.cap, *svm.features.shape
    data, indices, indptr = A.data, A.indices, A.indptr

    def component(x, i):
        entries = slice(indptr[i], indptr[i + 1])
        margin = b[i] * (data[entries] @ x[indices[entries]])
        return max(0.0, 1.0 - margin) + lam * np.minimum(np.abs(x), cap).sum()

    def run():
        rng, x = generator(), svm.x0.copy()
        for _ in range(pairs):
            i = rng.integers(0, n)
            w = rng.standard_normal(d)
            w /= np.linalg.norm(w)
            g = d / (2 * DELTA) * (component(x + DELTA * w, i) - component(x - DELTA * w, i))
            x -= ETA * g * w

    return best(run, repeats=3)


def svm_rows() -> list[Row]:
    """Return pairs a second on the a9a-shaped SVM, one thread, and each as a multiple of the floor."""
    svm, pairs = a9a_shaped(), 2_000_000
    d = svm.dim
    # A correction draws one direction for two pairs; the floor counts directions.
    plus = gs.GFMPlus(DELTA, ETA, epoch_length=10, batch_size=10)
    epoch_evals, epoch_directions = 2 * 100 + 9 * 40, 100 + 9 * 10
    methods = (gs.GFM(DELTA, ETA), gs.GFM(DELTA, ETA, 100), plus)
    times = together(floor(d, pairs), *(compiled(svm.compiled, svm.x0, method, 2 * pairs) for method in methods))
    floor_time, *fast = (seconds / pairs for seconds in times)
    ways = {
        "floor: draw d normals": (floor_time, 1.0),
        "compiled GFM": (fast[0], 1.0),
        "compiled GFM, batch 100": (fast[1], 1.0),
        "compiled GFM+ (m=10, b=10)": (fast[2], 2 * epoch_directions / epoch_evals),
        "plain loop, batch 1": (plain(svm.oracle, svm.x0, gs.GFM(DELTA, ETA), 10_000) / 5_000, 1.0),
        "plain loop, batch 100": (plain(svm.oracle, svm.x0, gs.GFM(DELTA, ETA, 100), 100_000) / 50_000, 1.0),
        "straightforward NumPy script": (script(svm, 5_000) / 5_000, 1.0),
    }
    return [
        {
            "way": name,
            "µs a pair": round(1e6 * seconds, 3),
            "pairs a second": round(1 / seconds),
            "× floor of its directions": round(seconds / (floor_time * directions), 2),
        }
        for name, (seconds, directions) in ways.items()
    ]


def dimension_rows() -> list[Row]:
    """Return time a pair against d with a component that costs next to nothing, GFM and GFM+."""
    rows = []
    for d in (10, 100, 124, 1_000, 10_000, 100_000):
        pairs = max(2_000, 200_000_000 // d)
        oracle, x0 = cheap_sum(d), np.zeros(d)
        plus = gs.GFMPlus(DELTA, ETA, epoch_length=10, batch_size=10)
        epochs = max(1, 2 * pairs // 560)
        works = (
            floor(d, pairs),
            compiled(oracle, x0, gs.GFM(DELTA, ETA), 2 * pairs),
            compiled(oracle, x0, plus, epochs * (2 * 100 + 9 * 40) + epochs * 560 // 200),  # and what closing takes
        )
        times = together(*works, repeats=5)
        per_direction, gfm, gfm_plus = times[0] / pairs, times[1] / pairs, times[2] / (epochs * (100 + 9 * 10))
        rows.append(
            {
                "d": d,
                "floor, µs": round(1e6 * per_direction, 3),
                "GFM, µs a pair": round(1e6 * gfm, 3),
                "GFM × floor": round(gfm / per_direction, 2),
                "GFM+, µs a direction": round(1e6 * gfm_plus, 3),
                "GFM+ × floor": round(gfm_plus / per_direction, 2),
            }
        )
    return rows


def overhead_row() -> Row:
    """Return what the plain loop adds to a query of 100 directions at d = 1,000, beside drawing them."""
    d, b, steps = 1_000, 100, 100
    oracle = gs.Deterministic(lambda X: np.zeros(len(X)), vectorized=True)
    method, x0, rng = gs.GFM(DELTA, ETA, b), np.zeros(d), generator()
    loop = best(lambda: gs.minimize(oracle, x0, method, max_iter=steps, rng=rng)) / steps
    draw = best(lambda: [sphere(rng, b, d) for _ in range(steps)]) / steps
    state = method.init(x0, Context(rng))
    ask = best(lambda: [method.ask(state, Context(rng), None) for _ in range(steps)]) / steps
    return {
        "drawing and normalising, ms": round(1e3 * draw, 3),
        "ask, ms": round(1e3 * ask, 3),
        "whole loop, ms": round(1e3 * loop, 3),
        "loop × drawing": round(loop / draw, 2),
    }


def profile_rows(d: int = 100_000, count: int = 1_000) -> list[Row]:
    """Return what the passes over long vectors cost, as multiples of the floor: what a loop must do besides drawing."""
    rng, x, w, above, below = generator(), *(np.zeros(d) for _ in range(4))
    base, fused, points = together(
        floor(d, count),
        lambda: add_and_draw(rng, count, x, w),
        lambda: two_points(count, x, w, above, below),
    )
    pairs = 280 / 190  # for each direction, where m = 10 and b = 10
    return [
        {"what": "floor: draw d normals", "× floor": 1.0},
        {"what": "draw them, their norm, and add the last direction", "× floor": round(fused / base, 2)},
        {"what": "write x + δw and x − δw", "× floor": round(points / base, 2)},
        {"what": "so GFM at least", "× floor": round((fused + points) / base, 2)},
        {"what": "and GFM+ (m = 10, b = 10) at least", "× floor": round((fused + pairs * points) / base, 2)},
    ]
