"""What travels to workers and back, and what a pool of workers can do."""

from __future__ import annotations

import itertools
import time
import traceback
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from goldstein import retired
from goldstein.oracle.oracles import Catch, Oracle, StartedCounter


class Work(Protocol):
    """What a batch is made of: the rows of a query, or the runs of a sweep; those of one order take about as long."""

    order: int

    def __len__(self) -> int: ...

    def rows(self, first: int, last: int) -> Any: ...

    def failed(self) -> Any:
        """Return the answer to rows that were lost too often."""


@retired.fields(query="work")
@dataclass
class Chunk:
    """Some rows of a batch, and which is the first of them."""

    first: int
    work: Any


@dataclass
class TaskResult:
    """What a worker returns for a chunk: its answer, or the exception that ended it and how many rows were started."""

    first: int
    started: int
    answer: Any = None  # with an exception: that to the rows before it, if there were any
    error: BaseException | None = None
    traceback: str = ""
    seconds: float = 0.0  # that the worker was busy

    @property
    def skipped(self) -> bool:
        """Whether the chunk was cancelled before it was started."""
        return self.answer is None and self.error is None


@dataclass
class TaskLost:
    """A chunk without an answer: its worker died, its node is gone, or it was cancelled. It is submitted again."""

    reason: str
    started: int | None = None  # rows; None: unknown, and counted as all of them
    cluster_fault: bool = False  # its rows are not to blame, and may be lost any number of times


Outcome = TaskResult | TaskLost
CANCELLED = TaskLost("it was cancelled", started=0)


class TimeIsUp(Exception):
    """The time limit of a run is reached, and what is in flight is abandoned."""

    def __init__(self) -> None:
        super().__init__("The time that the run was given is over.")


class Task:
    """Answers chunks; it never raises, so that the rows started are always known."""

    def __call__(self, chunk: Chunk, counter: StartedCounter | None = None) -> TaskResult:
        counter = StartedCounter() if counter is None else counter
        start = time.perf_counter()
        try:
            answer = self.answer(chunk.work, counter)
        except BaseException as error:
            return TaskResult(chunk.first, counter.started, counter.partial, error, traceback.format_exc())
        return TaskResult(chunk.first, counter.started, answer, seconds=time.perf_counter() - start)

    @abstractmethod
    def answer(self, work: Any, counter: StartedCounter) -> Any:
        """Return the answer to some rows; `counter` is told of each before it is started."""


@dataclass
class Evaluation(Task):
    """The task of an oracle: the rows are those of a query."""

    oracle: Oracle
    catch: Catch = ()

    def answer(self, work: Any, counter: StartedCounter) -> Any:
        return self.oracle.evaluate(work, self.catch, counter)


class WorkerPool(Protocol):
    """What `workers` may be: any object with these members, from which it need not inherit.

    A pool may also have `cancel_pending()`, which starts nothing more: chunks that wait come back as lost, 0 rows
    started; `rows_started(ticket)`, how many rows of a chunk were started so far (0: it is being worked on; None: it
    waits); and `poll(seconds)`, which waits until `wait(0)` may have something to return and changes nothing: Ctrl-C is
    then let through in `poll` only, so that every call is counted.
    """

    @property
    def size(self) -> int:
        """How many chunks are worked on at once."""

    def initialize(self, task: Task) -> None:
        """Take the task that answers the chunks to come; it travels to each worker once."""

    def submit(self, chunk: Chunk) -> Any:
        """Submit a chunk; return its ticket, something hashable."""

    def wait(self, seconds: float | None) -> Iterable[tuple[Any, Outcome]]:
        """Return what has finished, with its ticket; wait for it at most some seconds (None: without limit)."""

    def kill(self, ticket: Any) -> int | None:
        """Stop a chunk, if that can be done; its ticket never comes back.

        Return how many of its rows were started; None: unknown.
        """

    def close(self) -> None:
        """End the workers that were started here."""


class QueueingPool(WorkerPool):
    """A pool that keeps the chunks for which no worker is free; the base of our processes and of Ray's actors."""

    def __init__(self) -> None:
        self._tickets = itertools.count()
        self._workers: list[Any] = []
        self._waiting: deque[tuple[int, Any]] = deque()
        self._finished: dict[int, Outcome] = {}
        self._delivered: dict[int, Outcome] = {}  # by the last call of `wait`, which Ctrl-C may have interrupted

    def submit(self, chunk: Chunk) -> int:
        """Submit a chunk: to a worker that is free, or ahead of time to one that is busy."""
        ticket = next(self._tickets)
        self._waiting.append((ticket, self._message(chunk)))
        self._dispatch()
        return ticket

    def wait(self, seconds: float | None) -> Iterable[tuple[int, Outcome]]:
        """Wait until a worker has answered or died."""
        self._dispatch()  # what a dead worker left
        if seconds != 0.0:
            self.poll(seconds)
        self._collect()
        self._delivered = self._finished
        self._finished = {}
        self._dispatch()
        return list(self._delivered.items())

    def cancel_pending(self) -> None:
        """Send nothing more."""
        self._finished.update((ticket, CANCELLED) for ticket, _ in self._waiting)
        self._waiting.clear()

    def kill(self, ticket: int) -> int | None:
        """Stop a chunk by ending its worker; what else that was sent is submitted again."""
        for entry in self._waiting:
            if entry[0] == ticket:
                self._waiting.remove(entry)
                return 0
        for worker in self._workers:
            if ticket in worker.tickets():
                self._remove(worker, "it was stopped")
                break
        outcome = self._finished.pop(ticket, None) or self._delivered.pop(ticket, None)
        return 0 if outcome is None else outcome.started

    def close(self) -> None:
        """Forget what was submitted."""
        self._waiting.clear()
        self._finished.clear()

    @abstractmethod
    def _message(self, chunk: Chunk) -> Any:
        """Return what is sent to a worker."""

    @abstractmethod
    def poll(self, seconds: float | None) -> None:
        """Wait until there may be something to collect."""

    @abstractmethod
    def _dispatch(self) -> None:
        """Send what waits to workers that take it."""

    @abstractmethod
    def _collect(self) -> None:
        """Move what workers have answered, and what dead ones lost, to `_finished`."""

    @abstractmethod
    def _remove(self, worker: Any, reason: str) -> None:
        """End a worker; the chunks that it may have started are then in `_finished`."""


class EvaluationLog:
    """Keeps account of a batch while it is evaluated, as the journal does; this one keeps nothing."""

    def start(self, first: int, rows: int) -> None:
        """Note that rows are about to be evaluated, `first` and those after it."""

    def take_back(self, rows: int) -> None:
        """Note that this many of those rows were not started after all."""

    def record(self, first: int, answer: Any) -> None:
        """Keep the answer to the rows that begin at `first`, as it arrives."""


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
