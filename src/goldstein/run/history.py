"""The course of a run: a few hundred records, however long it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from goldstein.oracle import Array
from goldstein.state import State

RECORDS = 100
COLUMNS = ("nfev", "ngev", "nit", "fun", "gradient_norm", "step", "nfail", "monitor")
COUNTS = ("nfev", "ngev", "nit", "nfail")


class History(Mapping[str, Array]):
    """Columns of equal length, by name or as attributes: `history.nfev`, `history["fun"]`, `dict(history)`.

    Attributes
    ----------
    nfev, ngev, nit, nfail : ndarray
        Values, gradients, iterations and failed evaluations so far.
    fun : ndarray
        Mean of the values evaluated since the record before: a free estimate of f around the iterates.
    gradient_norm, step : ndarray
        Norm of the last estimate of ∇f_δ, and the last step size.
    monitor : ndarray
        What the user's `monitor(x)` returned; NaN without one.
    """

    nfev: Array
    ngev: Array
    nit: Array
    fun: Array
    gradient_norm: Array
    step: Array
    nfail: Array
    monitor: Array

    def __init__(self, columns: Mapping[str, list[float]]) -> None:
        self._columns = {name: np.array(columns[name], dtype=np.int64 if name in COUNTS else float) for name in COLUMNS}
        self.__dict__.update(self._columns)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"History({len(self.nfev)} records of {', '.join(COLUMNS)})"


@dataclass
class Recorder(State):
    """Keeps the records of a run at even spacing in evaluations.

    With a budget known the spacing is a fixed part of it; otherwise every iteration is kept until there are too
    many, then every second is dropped and the spacing doubled, as often as needed.
    """

    spacing: float
    bounded: bool
    due: float = 0.0
    total: float = 0.0
    count: int = 0
    lowest: float = np.inf
    columns: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    @classmethod
    def over(cls, max_evals: int | None) -> Recorder:
        """Return a recorder for a run of `max_evals` evaluations; None: of unknown length."""
        return cls(1.0 if max_evals is None else max(1.0, max_evals / RECORDS), max_evals is not None)

    def see(self, total: float, count: int, lowest: float) -> None:
        """Take note of the values that came in: their sum, number and minimum."""
        self.total += total
        self.count += count
        self.lowest = min(self.lowest, lowest)

    def record(self, **row: float) -> tuple[float, float]:
        """Keep a record and set when the next is due; return the mean and the lowest value since the one before."""
        row["fun"], lowest = self.total / self.count if self.count else np.nan, self.lowest
        self.total, self.count, self.lowest = 0.0, 0, np.inf
        for name in COLUMNS:
            self.columns[name].append(row[name])
        if not self.bounded and len(self.columns["nfev"]) > 2 * RECORDS:
            for name in COLUMNS:
                del self.columns[name][1::2]
            self.spacing = (row["nfev"] + row["ngev"]) / RECORDS
        self.due = row["nfev"] + row["ngev"] + self.spacing
        return row["fun"], lowest
