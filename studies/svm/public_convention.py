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
from itertools import pairwise
from typing import Any

import numpy as np

from goldstein.problems.svm import SVM
from studies import Array


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
    from studies.svm import kernels

    advance: Any = kernels.public_epochs
    x, rng = svm.x0.copy(), np.random.default_rng(seed)
    twins = [np.random.default_rng([seed, 1]) for _ in range(2)]  # the same batch at both points of a correction
    settings = (method.delta, method.step_size, method.epoch_length, method.batch_size, len(svm.labels), work_out)
    marks = np.unique(np.linspace(0, pairs // method.charged, records + 1).astype(int))
    out = PublicRun([x.copy()], [0], [0], 0, 0.0 if work_out else None)
    for before, after in pairwise(marks.tolist()):
        largest = advance(rng, *twins, after - before, x, *settings, svm.oracle.args)
        out.correction = max(out.correction, largest) if out.correction is not None else None
        out.steps = after * (method.epoch_length + 1)
        out.points.append(x.copy())
        out.charged.append(after * method.charged)
        out.evaluated.append(after * method.evaluated)
    return out
