"""What travels to workers and back: chunks of a query; and what a pool of workers can do."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from goldstein.oracle.oracles import Oracle, StartedCounter
from goldstein.oracle.query import Answer, Query

Catch = tuple[type[BaseException], ...]


@dataclass
class Chunk:
    """Some rows of a query, and at which row they begin."""

    first: int
    query: Query


@dataclass
class TaskResult:
    """What became of a chunk: its answer, or the exception that broke it off after so many rows were started.

    With an exception, the answer is that to the rows before, if there were any. `seconds` is how long the worker was
    busy with it.
    """

    first: int
    started: int
    answer: Answer | None = None
    error: BaseException | None = None
    traceback: str = ""
    seconds: float = 0.0


@dataclass
class TaskLost:
    """A chunk that the machine lost: its worker died, its node is gone, or it was taken back. It is done again.

    `started` is how many of its rows were started, None when nobody knows: then it is taken for all of them.
    """

    reason: str
    started: int | None = None


class TimeIsUp(Exception):
    """The time that a run was given is over, and what is in flight is given up."""


@dataclass
class Task:
    """An oracle that answers the chunks of a query; it never raises, so that what was started is always known."""

    oracle: Oracle
    catch: Catch

    def __call__(self, chunk: Chunk, counter: StartedCounter | None = None) -> TaskResult:
        counter = StartedCounter() if counter is None else counter
        start = time.perf_counter()
        try:
            answer = self.oracle.evaluate(chunk.query, self.catch, counter)
        except BaseException as error:
            return TaskResult(chunk.first, counter.started, counter.partial, error, traceback.format_exc())
        return TaskResult(chunk.first, counter.started, answer, seconds=time.perf_counter() - start)


class WorkerPool(Protocol):
    """Workers, wherever they are; the `Evaluator` hands them chunks and gathers what comes back.

    A pool that knows the progress of a chunk also has `rows_started(ticket)`: how many of its rows have been started, 0
    when only that is known that it is worked on, None while it waits.
    """

    @property
    def size(self) -> int:
        """How many chunks are worked on at once."""

    def initialize(self, task: Task) -> None:
        """Take on a task before the first chunk; it travels to each worker once."""

    def submit(self, chunk: Chunk) -> Any:
        """Put a chunk in flight; return its ticket, something hashable."""

    def wait(self, seconds: float | None) -> Iterable[tuple[Any, TaskResult | TaskLost]]:
        """Wait until something has ended, so long at most (None: without limit); return what has, with its ticket."""

    def cancel_pending(self) -> None:
        """Start nothing more, if that can be done: chunks that wait come back as lost, 0 rows started."""

    def kill(self, ticket: Any) -> int | None:
        """Stop a chunk, if that can be done; its ticket never comes back.

        Return how many of its rows were started; None when nobody knows.
        """

    def close(self) -> None:
        """Send everybody home who was hired here."""


class EvaluationLog(Protocol):
    """Who keeps account of a query while it is evaluated: the journal."""

    def start(self, first: int, rows: int) -> None:
        """Take note that rows are about to be evaluated, `first` and those after it."""

    def take_back(self, rows: int) -> None:
        """Take note that so many rows were not started after all, since an exception came before them."""

    def record(self, first: int, answer: Answer) -> None:
        """Keep the answer to the rows that begin at `first`, as it arrives."""
