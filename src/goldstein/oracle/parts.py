"""What travels to workers and back: parts of a query; and what a crew of workers can do."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from goldstein.oracle.oracles import Meter, Oracle
from goldstein.oracle.query import Answer, Query

Catch = tuple[type[BaseException], ...]


@dataclass
class Part:
    """Some rows of a query, and at which row they begin."""

    place: int
    query: Query


@dataclass
class Done:
    """What became of a part: its answer, or the exception that broke it off after so many rows were begun.

    With an exception, the answer is that to the rows before, if there were any. `seconds` is how long the worker was
    busy with it.
    """

    place: int
    started: int
    answer: Answer | None = None
    error: BaseException | None = None
    traceback: str = ""
    seconds: float = 0.0


@dataclass
class Lost:
    """A part that the machine lost: its worker died, its node is gone, or it was taken back. It is done again.

    `begun` is how many of its rows were begun, None when nobody knows: then it is taken for all of them.
    """

    reason: str
    begun: int | None = None


class TimeIsUp(Exception):
    """The time that a run was given is over, and what is in flight is given up."""


@dataclass
class Task:
    """An oracle that answers the parts of a query; it never raises, so that what was begun is always known."""

    oracle: Oracle
    catch: Catch

    def __call__(self, part: Part, meter: Meter | None = None) -> Done:
        meter = Meter() if meter is None else meter
        begun = time.perf_counter()
        try:
            answer = self.oracle.evaluate(part.query, self.catch, meter)
        except BaseException as error:
            return Done(part.place, meter.started, meter.before, error, traceback.format_exc())
        return Done(part.place, meter.started, answer, seconds=time.perf_counter() - begun)


class Crew(Protocol):
    """Workers, wherever they are; the `Evaluator` hands them parts and gathers what comes back.

    One that can tell how far a part is also has `begun(ticket)`: how many of its rows were begun by now, 0 when only
    that is known that somebody works on it, None while nobody does.
    """

    @property
    def size(self) -> int:
        """How many parts are worked on at once."""

    def employ(self, task: Task) -> None:
        """Take on a task before the first part; it travels to each worker once."""

    def begin(self, part: Part) -> Any:
        """Put a part in flight; return its ticket, something hashable."""

    def ended(self, seconds: float | None) -> Iterable[tuple[Any, Done | Lost]]:
        """Wait until something has ended, so long at most (None: without limit); return what has, with its ticket."""

    def recall(self) -> None:
        """Begin with nothing more, if that can be done: what nobody has begun with comes back as lost, 0 rows begun."""

    def give_up(self, ticket: Any) -> int | None:
        """Stop a part, if that can be done; its ticket never comes back.

        Return how many of its rows were begun; None when nobody knows.
        """

    def close(self) -> None:
        """Send everybody home who was hired here."""


class Ledger(Protocol):
    """Who keeps account of a query while it is evaluated: the journal."""

    def begun(self, first: int, rows: int) -> None:
        """Take note that rows are about to be evaluated, `first` and those after it."""

    def not_begun(self, rows: int) -> None:
        """Take note that so many rows were not begun after all, since an exception came before them."""

    def told(self, first: int, answer: Answer) -> None:
        """Keep the answer to the rows that begin at `first`, as it arrives."""
