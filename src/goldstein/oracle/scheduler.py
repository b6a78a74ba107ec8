"""One scheduler for all pools: hands out chunks, takes answers as they come, and does again what the machine lost."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from goldstein.oracle.interrupts import Interrupts
from goldstein.oracle.query import Answer
from goldstein.oracle.tasks import Chunk, EvaluationLog, Outcome, TaskLost, TaskResult, TimeIsUp, Work, WorkerPool

logger = logging.getLogger("goldstein")

Rows = tuple[int, int]  # from the first up to the last, which is not one of them

LATENCIES = 8  # that a chunk should last
SHORTEST = 0.01  # seconds that it should last at least
LONGEST = 0.5  # and at most
SHARE = 4  # chunks a worker, so that a late one delays the others little
LOOK = 1.0  # seconds to wait at most before looking at deadlines
START_UP = 10.0  # seconds that a fresh worker may take before it works
LEAST_LOSSES = 32  # without an answer in between, at which the machine is beyond hope
FIRST_PAUSE = 0.02  # seconds of back-off after a loss; twice as long after each further one
LONGEST_PAUSE = 1.0


class ChunkSizer:
    """How long a row takes, and how long a pool takes beside it: how large chunks are to be."""

    def __init__(self) -> None:
        self.row_seconds: dict[int, float] = {}
        self._latencies: deque[float] = deque(maxlen=15)
        self._fresh: list[float] = []
        self.slowest = 0.0

    def learn(self, order: int, rows: int, seconds: float) -> None:
        now = seconds / rows
        before = self.row_seconds.get(order, now)
        self.row_seconds[order] = before + (now - before) / 4

    def learn_latency(self, seconds: float, size: int) -> None:
        """Take note of how long a chunk took beside its work; the first of each worker also had to start it."""
        self.slowest = max(self.slowest, seconds)
        if len(self._fresh) < size:
            self._fresh.append(seconds)
        else:
            self._latencies.append(seconds)

    def chunks(self, rows: int, size: int, order: int) -> int:
        """Return into how many chunks to divide rows: the same number for each worker, each of some latencies."""
        row = max(self.row_seconds[order], 1e-9)
        latency = median(self._latencies or self._fresh or [0.0])
        lasting = min(max(LATENCIES * latency, SHORTEST), LONGEST)
        shared = math.ceil(rows / (SHARE * size))
        length = min(lasting / row, max(shared, 2 * latency / row), math.ceil(rows / size))
        chunks = math.ceil(rows / max(length, 1.0))
        return min(size * math.ceil(chunks / size), rows)


def record_partial(log: EvaluationLog, first: int, rows: int, started: int, before: Answer | None) -> None:
    """Tell the log what became of a chunk that an exception broke off."""
    if before is not None and before.values.size:
        log.record(first, before)
    if started < rows:
        log.take_back(rows - started)


@dataclass
class InFlight:
    """A chunk in flight, since when, and whether a worker was free for it."""

    rows: Rows
    since: float
    had_free_worker: bool
    started: int | None = None  # rows, when that last changed; None: it waits
    progress_at: float = 0.0

    def __len__(self) -> int:
        return self.rows[1] - self.rows[0]


class Scheduler:
    """How the rows of queries are evaluated by a pool; `retries` and `timeout` as in `Evaluator`.

    `even`: every worker gets one chunk, however long it takes. `ahead`: a worker that is busy may be given its next
    chunk; never with a timeout, since only without is it known since when a chunk is worked on. `progressed(row)` tells
    whether a row that was lost too often got further since this was last asked, so that it is tried again.
    """

    def __init__(
        self,
        pool: WorkerPool,
        retries: int,
        *,
        timeout: float | None = None,
        even: bool = False,
        ahead: bool = True,
        progressed: Callable[[int], bool] | None = None,
    ) -> None:
        self.pool = pool
        self.retries = retries
        self.timeout = timeout
        self.even = even
        self.chunks_each = 2 if ahead and timeout is None else 1
        self.progressed = progressed
        self.interrupts = Interrupts()  # which lets Ctrl-C through at any time until it is entered
        self.repeated = 0  # rows that were started again
        self.sizer = ChunkSizer()
        self.losses = 0  # with no answer in between


class Batch:
    """Rows on their way."""

    def __init__(
        self, scheduler: Scheduler, work: Work, missing: list[Rows], log: EvaluationLog, deadline: float | None = None
    ) -> None:
        self.scheduler = scheduler
        self.work = work
        self.log = log
        self.deadline = deadline
        self.pieces: list[tuple[int, Any]] = []  # answers that have come, and at which rows they begin
        self._pool = scheduler.pool
        self._interrupts = scheduler.interrupts
        self._pending = deque(missing)
        self._remaining = sum(last - first for first, last in missing)
        self._chunks = 0  # that what is left is to be divided into; 0: not known yet
        self._retry: deque[Rows] = deque()
        self._pause_until = 0.0
        self._in_flight: dict[Any, InFlight] = {}
        self._times_started = np.zeros(len(work), dtype=np.int64)  # how often each row was
        self._attempts = np.zeros(len(work), dtype=np.int64)  # of each row that may have failed by its own fault
        self._errors: list[TaskResult] = []

    @property
    def started(self) -> int:
        """Rows that were started, each counted once."""
        return int(np.count_nonzero(self._times_started))

    def run(self) -> None:
        self._interrupts.forbid()
        try:
            while self._pending or self._retry or self._in_flight:
                self._check_time()
                if not self._errors:
                    self._submit()
                self._receive(self._finished())
                self._kill_overdue()
        except BaseException:
            self._interrupts.forbid()
            self._kill_all()
            raise
        if self._errors:
            self._raise()

    def _check_time(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            if self._errors:
                self._kill_all()
                self._raise()
            raise TimeIsUp

    def _submit(self) -> None:
        while len(self._in_flight) < self.scheduler.chunks_each * self._pool.size:
            rows = self._next()
            if rows is None:
                return
            first, last = rows
            self.log.start(first, last - first)
            chunk = Chunk(first, self.work.rows(first, last))
            if self.scheduler.timeout is not None:
                chunk.work.fresh = False  # a thread that hangs keeps its arrays, and another one may need them
            free = len(self._in_flight) < self._pool.size
            since = time.monotonic()
            ticket = self._pool.submit(chunk)
            self._in_flight[ticket] = InFlight(rows, since, free)

    def _next(self) -> Rows | None:
        """Return the rows of the next chunk; None when there are none, or when they have to wait."""
        if self._retry and time.monotonic() >= self._pause_until:
            return self._retry.popleft()
        if not self._pending:
            return None
        rows = self._chunk_rows()
        if rows == 0:
            return None
        first, last = self._pending.popleft()
        cut = min(first + rows, last)
        if cut < last:
            self._pending.appendleft((cut, last))
        self._remaining -= cut - first
        return first, cut

    def _chunk_rows(self) -> int:
        """Return how many rows the next chunk has; 0: first one has to come back that tells how long a row takes."""
        size = self._pool.size
        sizer = self.scheduler.sizer
        if self._chunks == 0:
            if self.scheduler.even:
                self._chunks = min(size, self._remaining)
            elif self.work.order in sizer.row_seconds:
                self._chunks = sizer.chunks(self._remaining, size, self.work.order)
            else:
                return 1 if len(self._in_flight) < size else 0
        rows = math.ceil(self._remaining / self._chunks)
        self._chunks = max(self._chunks - 1, 1)
        return rows

    def _wait_seconds(self) -> float:
        now = time.monotonic()
        moments = [now + LOOK]
        if self.deadline is not None:
            moments.append(self.deadline)
        if self._retry:
            moments.append(self._pause_until)
        if self.scheduler.timeout is not None:
            moments += [self._overdue(flight) for flight in self._in_flight.values()]
        return max(min(moments) - now, 0.0)

    def _finished(self) -> Iterator[tuple[Any, Outcome]]:
        """Yield what has finished; Ctrl-C interrupts only while this waits."""
        if not self._in_flight:  # something lost is to be submitted again
            self._interruptible(time.sleep)
        elif hasattr(self._pool, "poll"):
            ready = list(self._pool.wait(0.0))
            if not ready:
                self._interruptible(self._pool.poll)
                ready = list(self._pool.wait(0.0))
            yield from ready
        else:
            self._interrupts.allow()
            for outcome in self._pool.wait(self._wait_seconds()):
                self._interrupts.forbid()
                yield outcome
                self._interrupts.allow()
            self._interrupts.forbid()

    def _interruptible(self, wait: Callable[[float], Any]) -> None:
        self._interrupts.allow()
        wait(self._wait_seconds())
        self._interrupts.forbid()

    def _receive(self, ends: Iterable[tuple[Any, Outcome]]) -> None:
        for ticket, end in ends:
            flight = self._in_flight.pop(ticket, None)
            if flight is None:
                continue
            if isinstance(end, TaskLost):
                self._take_back(self._count(flight, end.started, blame=not end.cluster_fault))
                self._lost(flight, end)
            elif end.error is not None:
                self._count(flight, end.started)
                self._errors.append(end)
                record_partial(self.log, flight.rows[0], len(flight), end.started, end.answer)
                self._pending.clear()
                self._retry.clear()
                if hasattr(self._pool, "cancel_pending"):
                    self._pool.cancel_pending()
            else:
                assert end.answer is not None
                self._count(flight, None)
                self.scheduler.losses = 0
                self.scheduler.sizer.learn(self.work.order, len(flight), end.seconds)
                if flight.had_free_worker:
                    latency = time.monotonic() - flight.since - end.seconds
                    self.scheduler.sizer.learn_latency(max(latency, 0.0), self._pool.size)
                self._record(flight.rows[0], end.answer)

    def _record(self, first: int, answer: Any) -> None:
        self.pieces.append((first, answer))
        self.log.record(first, answer)

    def _count(self, flight: InFlight, started: int | None, blame: bool = True) -> int:
        """Take note that rows were started, all of a chunk if `started` is not known; return how many were not."""
        rows = len(flight) if started is None else started
        first = flight.rows[0]
        times = self._times_started[first : first + rows]
        self.scheduler.repeated += int(np.count_nonzero(times))
        times += 1
        self._attempts[first : first + rows] += blame
        return len(flight) - rows

    def _take_back(self, rows: int) -> None:
        if rows > 0:
            self.log.take_back(rows)

    def _lost(self, flight: InFlight, lost: TaskLost) -> None:
        """Do a chunk again, after a while when nothing else came back either."""
        if self._errors:
            return
        scheduler = self.scheduler
        first, last = flight.rows
        logger.warning("Rows %d to %d of a query were lost (%s)", first, last - 1, lost.reason)
        scheduler.losses += 1
        most = max(LEAST_LOSSES, 8 * self._pool.size)
        if scheduler.losses > most:
            raise RuntimeError(
                f"Workers lost {scheduler.losses} chunks of the work in a row and answered none, the last one because "
                f"{lost.reason}; check that the function runs in a worker process."
            )
        failed = self._retry_or_fail(flight)
        if failed and lost.started is not None:  # it was seen that the row is to blame, and not the machine
            scheduler.losses = 0
            return
        pause = FIRST_PAUSE * 2.0 ** min(scheduler.losses - 1, 30)
        self._pause_until = time.monotonic() + min(pause, LONGEST_PAUSE)

    def _retry_or_fail(self, flight: InFlight) -> bool:
        """Put rows on the list again, one by one; one that was started often enough has failed."""
        first, last = flight.rows
        if len(flight) == 1 and self._attempts[first] > self.scheduler.retries:
            progressed = self.scheduler.progressed
            if progressed is not None and progressed(first):
                self._attempts[first] = 0
                self._retry.append(flight.rows)
                return False
            self._record(first, self.work.rows(first, last).failed())
            return True
        self._retry.extend((row, row + 1) for row in range(first, last))
        return False

    def _overdue(self, flight: InFlight) -> float:
        """Return the moment at which a chunk hangs; one that waits does not."""
        scheduler = self.scheduler
        assert scheduler.timeout is not None
        if flight.started is None:
            return math.inf
        row_is_known = flight.started > 0 and not scheduler.even
        rows = 1 if row_is_known else len(flight)
        if scheduler.sizer.slowest == 0.0:
            slack = START_UP
        else:
            slack = 0.0 if row_is_known else LOOK + 2 * scheduler.sizer.slowest
        return flight.progress_at + rows * scheduler.timeout + slack

    def _update_progress(self, ticket: Any, flight: InFlight, now: float) -> None:
        """See how far a chunk is, if the pool can tell; if not, it has been worked on since it was submitted."""
        started = 0
        if hasattr(self._pool, "rows_started"):
            started = self._pool.rows_started(ticket)
        else:
            now = flight.since
        if started != flight.started:
            flight.started = started
            flight.progress_at = now

    def _kill_overdue(self) -> None:
        if self.scheduler.timeout is None:
            return
        now = time.monotonic()
        for ticket, flight in list(self._in_flight.items()):
            self._update_progress(ticket, flight, now)
            if now < self._overdue(flight):
                continue
            del self._in_flight[ticket]
            first, last = flight.rows
            logger.warning("Rows %d to %d of a query took too long and are stopped", first, last - 1)
            self._take_back(self._count(flight, self._pool.kill(ticket)))
            if not self._errors:
                self._retry_or_fail(flight)

    def _kill_all(self) -> None:
        """Stop what is in flight, and count what was started of it."""
        rows = 0
        while self._in_flight:
            ticket = next(iter(self._in_flight))
            flight = self._in_flight.pop(ticket)
            rows += self._count(flight, self._pool.kill(ticket))
        self._take_back(rows)  # last, since a log that cannot write raises

    def _raise(self) -> None:
        """Raise what the user's function raised, at the first of the rows where it did."""
        broken = min(self._errors, key=lambda done: done.first)
        assert broken.error is not None
        with suppress(AttributeError, TypeError):  # some exceptions take no attributes
            broken.error.add_note(f"In a worker:\n{broken.traceback}")
        raise broken.error
