"""The only way to the model: every row that it sees is counted here, for the image that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.loss import as_scores
from goldstein.oracle import SINGLE, Array

Model = Callable[[npt.NDArray[np.float32]], Any]
Counts = npt.NDArray[np.int64]


class CountedModel:
    """A model with its counters, one of each for every image."""

    def __init__(self, model: Model, n: int) -> None:
        self.model = model
        self.queries: Counts = np.zeros(n, np.int64)
        self.estimation: Counts = np.zeros(n, np.int64)  # without success checks
        self.classes: int | None = None
        self.roundoff = SINGLE  # relative rounding error of the type in which the last scores came

    def __call__(
        self, rows: npt.NDArray[np.float32], owners: npt.NDArray[np.int64], estimating: npt.NDArray[np.bool_]
    ) -> Array:
        """Return the scores of the rows, (k, classes); row i belongs to image owners[i]."""
        n = len(self.queries)
        self.queries += np.bincount(owners, minlength=n)
        self.estimation += np.bincount(owners[estimating], minlength=n)
        answer = self.model(rows)
        scores = as_scores(answer, len(rows))
        kind = np.asarray(answer).dtype
        self.roundoff = float(np.finfo(kind).eps) / 2 if kind.kind == "f" else SINGLE
        if self.classes not in (None, scores.shape[1]):
            raise ValueError(f"The model returned {scores.shape[1]} classes, after {self.classes} before.")
        self.classes = scores.shape[1]
        return scores
