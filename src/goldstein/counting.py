"""Counting: every value that the library asks for, and how many of them failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goldstein.oracle import Array, Query
from goldstein.state import State

FAILURE_WINDOW = 1_000


@dataclass
class Counters(State):
    """Everything that is counted.

    `window` and `window_failed` forget: they are about the last thousand values. `magnitude` is the mean of |F|.
    """

    nfev: int = 0
    nfev_diagnostic: int = 0
    ngev: int = 0
    nfail: int = 0
    window: float = 0.0
    window_failed: float = 0.0
    magnitude: float = 0.0

    def see(self, values: Array, query: Query, diagnostic: bool) -> Array:
        """Count the answer of a query and return its finite part."""
        fine = np.isfinite(values)
        if query.order == 1:
            self.ngev += len(query)
            self._fails(len(query), len(query) - int(fine.all(axis=1).sum()))
            return values[:0].ravel()
        finite = values if fine.all() else values[fine]
        self.add(len(query), finite.size, float(np.abs(finite).sum()), diagnostic)
        return finite

    def add(self, asked: int, fine: int, magnitude: float, diagnostic: bool) -> None:
        """Count `asked` values of which `fine` were finite, with `magnitude` the sum of their |F|."""
        self.nfev += asked
        self.nfev_diagnostic += asked if diagnostic else 0
        self._fails(asked, asked - fine)
        if fine:
            seen = max(self.nfev - self.nfail, fine)
            self.magnitude += (magnitude - fine * self.magnitude) / seen

    def _fails(self, asked: int, failed: int) -> None:
        self.nfail += failed
        self.window += asked
        self.window_failed += failed
        if self.window > FAILURE_WINDOW:
            keep = FAILURE_WINDOW / self.window
            self.window, self.window_failed = self.window * keep, self.window_failed * keep

    @property
    def failing(self) -> bool:
        """Whether more than half of the recent values fail, beyond what chance explains (three standard errors)."""
        return self.window >= 100 and self.window_failed > 0.5 * self.window + 1.5 * np.sqrt(self.window)


@dataclass
class Tally:
    """What a chunk of compiled iterations asked for and saw."""

    asked: int = 0
    fine: int = 0
    total: float = 0.0
    magnitude: float = 0.0
    lowest: float = np.inf
