"""The course of a run: a few hundred records, however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from goldstein.oracle import Array, Tally
from goldstein.state import State

RECORDS = 100
LOOKS = 16  # criteria look at a run after each sixteenth more of it
COLUMNS = ("nfev", "ngev", "nit", "fun", "gradient_norm", "step", "nfail", "monitor")
COUNTS = ("nfev", "ngev", "nit", "nfail")


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

    The times do not depend on the budget, so that a run that continues with a larger one is the run with that budget.
    """

    due: float = 0.0
    spent: int = 0  # evaluations of the criteria whose share is limited

    def affords(self, share: float, counted: int) -> bool:
        """Whether these criteria have taken no more than their share of the evaluations made so far."""
        return self.spent <= share * counted + 1e-9

    def look_again(self, counted: int) -> None:
        self.due = counted + max(1, counted // LOOKS)


@dataclass
class Recorder(Window):
    """Keeps the records of a run at even spacing in evaluations.

    With a known budget the spacing is a fixed part of it; otherwise every iteration is recorded until there are too
    many, then every second record is dropped and the spacing doubled, as often as needed.
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
        """Return the same records for a run that continues with another budget; they are thinned out if need be."""
        fresh = Recorder.over(max_evals)
        recorder = self.copy()
        recorder.bounded = fresh.bounded
        if max_evals is None:
            return recorder
        recorder.spacing = fresh.spacing
        if self.size:
            made = self.columns["nfev"][-1] + self.columns["ngev"][-1]
            to_come = max(0.0, max_evals - made) / recorder.spacing
            while recorder.size > 2 and recorder.size + to_come > 2 * RECORDS:
                recorder.thin()
            recorder.due = made + recorder.spacing
        return recorder

    @property
    def size(self) -> int:
        return len(self.columns["nfev"])

    def thin(self) -> None:
        """Drop every second record but the last; the next one takes in the mean value of one that is dropped."""
        fun = self.columns["fun"]
        values = [nfev - nfail for nfev, nfail in zip(self.columns["nfev"], self.columns["nfail"], strict=True)]
        for place in range(2, self.size, 2):
            both = [(values[i] - values[i - 1], fun[i]) for i in (place - 1, place)]
            known = [(count, mean) for count, mean in both if count > 0 and not np.isnan(mean)]
            total = sum(count for count, _ in known)
            fun[place] = sum(count * mean for count, mean in known) / total if total else np.nan
        last = self.size - 1
        for column in self.columns.values():
            column[:] = [value for i, value in enumerate(column) if i % 2 == 0 or i == last]

    def copy(self) -> Recorder:
        columns = {name: list(column) for name, column in self.columns.items()}
        return replace(self, columns=columns, choices=list(self.choices))

    def record(self, **row: float) -> None:
        row["fun"], _ = self.read()
        for name in COLUMNS:
            self.columns[name].append(row[name])
        made = row["nfev"] + row["ngev"]
        if not self.bounded and self.size > 2 * RECORDS:
            self.thin()
            self.spacing = made / RECORDS
        self.due = made + self.spacing
