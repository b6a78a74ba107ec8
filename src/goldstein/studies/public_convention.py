"""GFM+ by the convention of the paper's public code, for comparison in the SVM study only; not a method of the library.

Written from a description of the public SVM script (repository TrueNobility303/GFM-Plus, commit e269ae6):

- after each step the stored previous point is set to the new point, so that the next correction compares a point with
  itself and is exactly zero: one large batch, then m + 1 steps along its estimate;
- each direction is averaged over a whole batch of Q = m·b samples, Q pairs of values, and is charged as one pair: a
  large batch of Q directions is charged Q and takes Q², a correction with b directions at two points is charged 2b and
  takes 2b·Q.

Every pair charged is therefore Q pairs evaluated. Algorithm 2 pairs one direction with one sample instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from goldstein.problems.svm import SVM
from goldstein.query import Array


@dataclass(frozen=True)
class PublicGFMPlus:
    """The settings: δ, η, m and b; Q = m·b."""

    delta: float
    step_size: float
    epoch_length: int
    batch_size: int

    @property
    def samples(self) -> int:
        """Q, the samples of every batch and the directions of a large one."""
        return self.epoch_length * self.batch_size

    @property
    def charged(self) -> int:
        """Pairs that one epoch is charged."""
        return self.samples + 2 * self.epoch_length * self.batch_size

    @property
    def evaluated(self) -> int:
        """Pairs that one epoch takes."""
        return self.samples * self.charged


@dataclass
class PublicRun:
    """What a run leaves: points along the way with both counts of pairs, the last one the answer.

    `correction` is the largest entry of any correction that was worked out; None when none was.
    """

    points: list[Array]
    charged: list[int]
    evaluated: list[int]
    steps: int
    correction: float | None


def run(
    svm: SVM, method: PublicGFMPlus, *, seed: int, pairs: int, records: int = 50, work_out: bool = False
) -> PublicRun:
    """Run whole epochs within `pairs` charged pairs.

    Parameters
    ----------
    svm : SVM
    method : PublicGFMPlus
    seed : int
    pairs : int
        The budget, as this convention charges it.
    records : int
        Points kept along the way, at most.
    work_out : bool
        Evaluate the corrections too. They change nothing, so that by default they are only charged.
    """
    x, rng = svm.x0.copy(), np.random.default_rng(seed)
    twins = [np.random.default_rng([seed, 1]) for _ in range(2)]  # the same batch at both points of a correction
    settings = (method.delta, method.step_size, method.epoch_length, method.batch_size, len(svm.labels), work_out)
    marks = np.unique(np.linspace(0, pairs // method.charged, records + 1).astype(int))
    out = PublicRun([x.copy()], [0], [0], 0, 0.0 if work_out else None)
    for before, after in pairwise(marks.tolist()):
        largest = _jitted_epochs()(rng, *twins, after - before, x, *settings, svm.oracle.args)
        out.correction = max(out.correction, largest) if out.correction is not None else None
        out.steps = after * (method.epoch_length + 1)
        out.points.append(x.copy())
        out.charged.append(after * method.charged)
        out.evaluated.append(after * method.evaluated)
    return out


@cache
def _jitted_epochs() -> Any:
    from numba import njit

    @njit(nogil=True, fastmath={"reassoc"})
    def differences(x, S, W, delta, data, indices, indptr, signed, lam, cap):  # type: ignore[no-untyped-def]
        """f_S(x + δw) − f_S(x − δw) for every direction w, a column of W; f_S is the mean over the samples S."""
        count = W.shape[1]
        out, along = np.zeros(count), np.empty(count)
        for i in S:
            margin = 0.0
            along[:] = 0.0
            for entry in range(indptr[i], indptr[i + 1]):
                value, j = data[entry], indices[entry]
                margin += value * x[j]
                for k in range(count):
                    along[k] += value * W[j, k]
            slack, slope = abs(signed[i]) - signed[i] * margin, delta * signed[i]
            for k in range(count):
                change = slope * along[k]
                out[k] += max(0.0, slack - change) - max(0.0, slack + change)
        out /= S.size
        for j in range(x.size):
            for k in range(count):
                step = delta * W[j, k]
                out[k] += lam * (min(abs(x[j] + step), cap) - min(abs(x[j] - step), cap))
        return out

    @njit(nogil=True)
    def estimate(rng, x, count, samples, delta, n, args):  # type: ignore[no-untyped-def]
        """The mean over `count` directions of d/(2δ)·(f_S(x + δw) − f_S(x − δw))·w."""
        S, W = np.empty(samples, np.int64), np.empty((x.size, count))
        for i in range(samples):
            S[i] = rng.integers(0, n)
        for k in range(count):
            for j in range(x.size):
                W[j, k] = rng.standard_normal()
            W[:, k] /= np.sqrt(np.sum(W[:, k] ** 2))
        return x.size / (2 * delta) * (W @ differences(x, S, W, delta, *args)) / count

    @njit(nogil=True)
    def run_epochs(rng, one, other, epochs, x, delta, eta, m, b, n, work_out, args):  # type: ignore[no-untyped-def]
        """Move x by whole epochs; return the largest entry of any correction."""
        largest = 0.0
        for _ in range(epochs):
            v = estimate(rng, x, m * b, m * b, delta, n, args)
            x -= eta * v
            previous = x.copy()  # the point just reached, not the one left
            for _ in range(m):
                if work_out:
                    here = estimate(one, x, b, m * b, delta, n, args)
                    correction = here - estimate(other, previous, b, m * b, delta, n, args)
                    largest = max(largest, np.abs(correction).max())
                    v += correction
                x -= eta * v
                previous[:] = x
        return largest

    return run_epochs
