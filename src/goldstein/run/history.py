"""The course of a run: a few hundred records, however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from goldstein.oracle import Array, Tally
from goldstein.state import State

RECORDS = 100
LOOKS = 16  # a run is looked at after each sixteenth more of it, whatever its budget
COUNTS = ("nfev", "ngev", "nit", "nfail")


class Row(NamedTuple):
    """One record."""

    nfev: float
    ngev: float
    nit: float
    fun: float
    gradient_norm: float
    step: float
    nfail: float
    monitor: float

    @property
    def made(self) -> float:
        """The evaluations made up to here."""
        return self.nfev + self.ngev


COLUMNS = Row._fields


class Choice(NamedTuple):
    """What a method chose by itself, and after how many values."""

    nfev: int
    sentence: str


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
    choices : list of Choice
        What the method chose by itself ("auto"), each with the number of values before it.
    """

    nfev: Array
    ngev: Array
    nit: Array
    fun: Array
    gradient_norm: Array
    step: Array
    nfail: Array
    monitor: Array

    def __init__(self, columns: Mapping[str, list[float]], choices: Iterable[tuple[int, str]] = ()) -> None:
        self._columns = {name: np.array(columns[name], dtype=np.int64 if name in COUNTS else float) for name in COLUMNS}
        self.__dict__.update(self._columns)
        self.choices = [Choice(*choice) for choice in choices]

    def followed_by(self, later: History, so_far: Mapping[str, int]) -> History:
        """Return this history and a later one as one; `so_far` is what was counted before the later one began."""
        columns = {name: [*self[name], *(later[name] + so_far.get(name, 0))] for name in COLUMNS}
        choices = [(nfev + so_far["nfev"], text) for nfev, text in later.choices]
        return History(columns, [*self.choices, *choices])

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"History({len(self.nfev)} records of {', '.join(COLUMNS)})"


@dataclass
class Window(State):
    """The values since some moment: their sum, number and minimum."""

    total: float = 0.0
    count: int = 0
    lowest: float = np.inf

    def add(self, tally: Tally) -> None:
        """Take note of the values that came in."""
        self.total += tally.total
        self.count += tally.finite
        self.lowest = min(self.lowest, tally.lowest)

    def read(self) -> tuple[float, float]:
        """Return the mean and the lowest of the values, and forget them."""
        mean = self.total / self.count if self.count else np.nan
        lowest = self.lowest
        self.total = 0.0
        self.count = 0
        self.lowest = np.inf
        return mean, lowest


@dataclass
class CheckSchedule(Window):
    """When the stopping criteria look at the run, and the values since they last did.

    The times do not depend on the budget, so that a run that goes on with a larger one is the run with that budget.
    """

    due: float = 0.0
    spent: int = 0  # evaluations of the criteria whose share is limited

    def affords(self, share: float, counted: int) -> bool:
        """Whether these criteria have taken no more than their share of the evaluations made so far."""
        return self.spent <= share * counted + 1e-9

    def look_again(self, counted: int) -> None:
        """Set when the next look is due."""
        self.due = counted + max(1, counted // LOOKS)


@dataclass
class Recorder(Window):
    """Keeps the records of a run at even spacing in evaluations.

    With a budget known the spacing is a fixed part of it; otherwise every iteration is kept until there are too
    many, then every second is dropped and the spacing doubled, as often as needed.
    """

    spacing: float = 1.0
    bounded: bool = False
    due: float = 0.0
    columns: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    choices: list[tuple[int, str]] = field(default_factory=list)

    @classmethod
    def over(cls, max_evals: int | None, *, seldom: bool = False) -> Recorder:
        """Return a recorder for a run of `max_evals` evaluations, or of unknown length; `seldom`: of few records."""
        if max_evals is None:
            return cls()
        return cls(spacing=max(1000.0 if seldom else 1.0, max_evals / RECORDS), bounded=True)

    def over_again(self, max_evals: int | None) -> Recorder:
        """Return the same records for a run that goes on with another budget; they are thinned out if need be."""
        fresh = Recorder.over(max_evals)
        kept = self.copy()
        kept.spacing = fresh.spacing if fresh.bounded else self.spacing
        kept.bounded = fresh.bounded
        rows = [Row(*row) for row in zip(*(self.columns[name] for name in COLUMNS), strict=True)]
        if not rows or max_evals is None:
            return kept
        to_come = max(0.0, max_evals - rows[-1].made) / kept.spacing
        while len(rows) > 2 and len(rows) + to_come > 2 * RECORDS:
            rows = _every_second(rows)
        kept.columns = {name: [getattr(row, name) for row in rows] for name in COLUMNS}
        kept.due = rows[-1].made + kept.spacing
        return kept

    def copy(self) -> Recorder:
        """Return a recorder that does not change with this one."""
        columns = {name: list(column) for name, column in self.columns.items()}
        return replace(self, columns=columns, choices=list(self.choices))

    def record(self, **row: float) -> None:
        """Keep a record and set when the next is due."""
        row["fun"], _ = self.read()
        for name in COLUMNS:
            self.columns[name].append(row[name])
        made = row["nfev"] + row["ngev"]
        if not self.bounded and len(self.columns["nfev"]) > 2 * RECORDS:
            for name in COLUMNS:
                del self.columns[name][1::2]
            self.spacing = made / RECORDS
        self.due = made + self.spacing


def _every_second(rows: list[Row]) -> list[Row]:
    """Drop every second record; the mean value of one that stays takes in that of the one dropped before it."""
    kept = [rows[0]]
    for first, second in zip(rows[1::2], rows[2::2], strict=False):
        kept.append(second._replace(fun=_mean(kept[-1], first, second)))
    if len(rows) % 2 == 0:
        kept.append(rows[-1])
    return kept


def _mean(before: Row, first: Row, second: Row) -> float:
    """Return the mean of the values behind two records in a row."""
    total = 0.0
    count = 0.0
    for earlier, row in ((before, first), (first, second)):
        fine = (row.nfev - row.nfail) - (earlier.nfev - earlier.nfail)
        if fine > 0 and not np.isnan(row.fun):
            total += fine * row.fun
            count += fine
    return total / count if count else np.nan
