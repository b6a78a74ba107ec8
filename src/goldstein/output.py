"""Output rules: which of the iterates x_0, …, x_{T−1} a run returns.

A tracker is shown each iterate as it is left, and holds the answer so far. It is a `State`, so it is part of a
snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goldstein.oracle import Array
from goldstein.state import State

OUTPUTS = ("last", "random", "average", "best")


@dataclass
class Last(State):
    """The newest iterate; nothing to remember."""

    def leave(self, x: Array, value: float, rng: np.random.Generator) -> None:
        """Take note of an iterate that the run leaves, with the value estimated there."""

    def answer(self, x: Array) -> Array:
        """Return the answer, given the current iterate."""
        return x


@dataclass
class Average(State):
    """The mean of all iterates left so far."""

    mean: Array | None = None
    count: int = 0

    def leave(self, x: Array, value: float, rng: np.random.Generator) -> None:
        self.count += 1
        self.mean = x.copy() if self.mean is None else self.mean + (x - self.mean) / self.count

    def answer(self, x: Array) -> Array:
        return x if self.mean is None else self.mean


@dataclass
class Random(State):
    """One of the iterates left so far, each with the same probability, for runs whose length is not known before."""

    pick: Array | None = None
    count: int = 0

    def leave(self, x: Array, value: float, rng: np.random.Generator) -> None:
        self.count += 1
        if rng.random() * self.count < 1:
            self.pick = x.copy()

    def picks(self, k: int, rng: np.random.Generator) -> list[int]:
        """Draw for the next k iterates which of them are picked, each in the place of the one before."""
        counts = self.count + 1 + np.arange(k)
        hits: list[int] = np.nonzero(rng.random(k) * counts < 1)[0].tolist()
        return hits

    def answer(self, x: Array) -> Array:
        return x if self.pick is None else self.pick


@dataclass
class Best(State):
    """The iterate whose batch had the lowest mean value: noisy when F is."""

    pick: Array | None = None
    value: float = np.inf

    def leave(self, x: Array, value: float, rng: np.random.Generator) -> None:
        if value < self.value:
            self.pick, self.value = x.copy(), value

    def answer(self, x: Array) -> Array:
        return x if self.pick is None else self.pick


Tracker = Last | Average | Random | Best
TRACKERS: dict[str, type[Tracker]] = {"last": Last, "average": Average, "random": Random, "best": Best}
