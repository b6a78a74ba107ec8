"""Generated data and functions that the benchmarks run on."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

import goldstein as gs
from goldstein.problems.svm import SVM, capped_l1_svm

ROWS, FEATURES, NONZEROS = 32_561, 123, 14


def a9a_shaped(rng: int = 0) -> SVM:
    """Return an SVM with the shape of a9a: 32,561 rows, 123 features and a bias, 14 ones a row."""
    draw = np.random.default_rng(rng)
    columns = np.argsort(draw.random((ROWS, FEATURES)), axis=1)[:, :NONZEROS].ravel()
    features = sparse.csr_array(
        (np.ones(columns.size), columns, np.arange(0, columns.size + 1, NONZEROS)), shape=(ROWS, FEATURES)
    )
    labels = np.where(features @ draw.normal(size=FEATURES) + draw.normal(size=ROWS) > 0, 1.0, -1.0)
    return capped_l1_svm(features, labels)


@njit(nogil=True)
def cheap(x, i, centre):
    """|x_j − centre_i| for one coordinate j: a component that costs next to nothing, whatever d is."""
    return abs(x[i % x.size] - centre[i])


def cheap_sum(d: int) -> gs.FiniteSum:
    """Return a finite sum of 1,000 components that cost next to nothing."""
    return gs.FiniteSum(cheap, 1000, args=(np.random.default_rng(0).normal(size=1000),))


@njit(nogil=True)
def draw_normals(rng, count, w):
    """The floor: draw d normals `count` times, and nothing else."""
    for _ in range(count):
        for j in range(w.size):
            w[j] = rng.standard_normal()


@njit(nogil=True, error_model="numpy")
def add_and_draw(rng, count, x, w):
    """Draw d normals and their norm, `count` times, adding the direction before to x in the same pass."""
    total = 0.0
    for _ in range(count):
        squared = 0.0
        for j in range(w.size):
            x[j] += 1e-3 * w[j]
            z = rng.standard_normal()
            w[j] = z
            squared += z * z
        total += squared
    return total


@njit(nogil=True, error_model="numpy")
def two_points(count, x, w, above, below):
    """Write both points of a pair, `count` times."""
    for _ in range(count):
        for j in range(x.size):
            above[j] = x[j] + 1e-3 * w[j]
            below[j] = x[j] - 1e-3 * w[j]
