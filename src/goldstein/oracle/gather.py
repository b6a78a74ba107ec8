"""One gatherer for all crews: hands out parts, takes answers as they come, and does again what the machine lost."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from goldstein.oracle.oracles import FAILED
from goldstein.oracle.parts import Crew, Done, Ledger, Lost, Part, TimeIsUp
from goldstein.oracle.query import Answer, Query

log = logging.getLogger("goldstein")

Rows = tuple[int, int]  # from the first up to the last, which is not one of them

LATENCIES = 8  # that a part should last
SHORTEST = 0.01  # seconds that it should last at least
LONGEST = 0.5  # and at most
SHARE = 4  # parts a worker, so that one who is late keeps nobody waiting for long
LOOK = 1.0  # seconds after which to look up, whatever happens
START_UP = 10.0  # seconds that a fresh worker may take before it works
LEAST_LOSSES = 32  # without an answer in between, at which the machine is beyond hope
FIRST_PAUSE = 0.02  # seconds of back-off after a loss; twice as long after each further one
LONGEST_PAUSE = 1.0


class Pace:
    """How long a row takes, and how long a crew takes beside it: how large parts are to be."""

    def __init__(self) -> None:
        self._row: dict[int, float] = {}
        self._latencies: deque[float] = deque(maxlen=15)
        self._fresh: list[float] = []
        self.slowest = 0.0

    def known(self, order: int) -> bool:
        """Whether it was measured how long a row of this order takes."""
        return order in self._row

    def learn(self, order: int, rows: int, seconds: float) -> None:
        """Take note of how long some rows took."""
        now = seconds / rows
        before = self._row.get(order, now)
        self._row[order] = before + (now - before) / 4

    def delayed(self, seconds: float, size: int) -> None:
        """Take note of how long a part took beside its work; the first of each worker also had to start it."""
        self.slowest = max(self.slowest, seconds)
        if len(self._fresh) < size:
            self._fresh.append(seconds)
        else:
            self._latencies.append(seconds)

    def parts(self, rows: int, size: int, order: int) -> int:
        """Return into how many parts to divide rows.

        A part lasts some latencies. Four parts a worker, if each then lasts at least two latencies; and the same number
        for each worker.
        """
        row = max(self._row[order], 1e-9)
        latency = median(self._latencies or self._fresh or [0.0])
        lasting = min(max(LATENCIES * latency, SHORTEST), LONGEST)
        shared = math.ceil(rows / (SHARE * size))
        length = min(lasting / row, max(shared, 2 * latency / row), math.ceil(rows / size))
        parts = math.ceil(rows / max(length, 1.0))
        return min(size * math.ceil(parts / size), rows)


def broken_off(ledger: Ledger, first: int, rows: int, started: int, before: Answer | None) -> None:
    """Tell the ledger what became of a part that an exception broke off."""
    if before is not None and before.values.size:
        ledger.told(first, before)
    if started < rows:
        ledger.not_begun(rows - started)


@dataclass
class Flying:
    """A part in flight, since when, and whether a worker was free for it.

    `begun` is how many of its rows were begun when that was last seen to change, at `moved`; None: nobody works on it.
    """

    rows: Rows
    since: float
    free: bool
    begun: int | None = None
    moved: float = 0.0

    def __len__(self) -> int:
        return self.rows[1] - self.rows[0]


class Gatherer:
    """Has the rows of queries evaluated by a crew.

    Parameters
    ----------
    crew : Crew
        Who evaluates.
    timeout : float or None
        Seconds that an evaluation may take.
    retries : int
        How often a row is done again that was lost or took too long, before it counts as failed.
    evenly : bool
        Every worker gets one part, whatever time it takes.

    Attributes
    ----------
    repeated : int
        Rows that were begun again.
    """

    def __init__(self, crew: Crew, timeout: float | None, retries: int, evenly: bool) -> None:
        self.crew = crew
        self.timeout = timeout
        self.retries = retries
        self.evenly = evenly
        self.repeated = 0
        self.pace = Pace()
        self.losses = 0  # with no answer in between

    def gather(self, query: Query, missing: list[Rows], ledger: Ledger | None, deadline: float | None) -> Gathering:
        """Return what has the missing rows of a query evaluated."""
        return Gathering(self, query, missing, ledger, deadline)


class Gathering:
    """The rows of one query, on their way.

    Attributes
    ----------
    pieces : list of (int, Answer)
        The answers that have come, and at which rows they begin.
    """

    def __init__(
        self, gatherer: Gatherer, query: Query, missing: list[Rows], ledger: Ledger | None, deadline: float | None
    ) -> None:
        self.gatherer = gatherer
        self.query = query
        self.ledger = ledger
        self.deadline = deadline
        self.pieces: list[tuple[int, Answer]] = []
        self._crew = gatherer.crew
        self._todo = deque(missing)
        self._left = sum(last - first for first, last in missing)
        self._parts = 0  # that what is left is to be divided into; 0: not known yet
        self._again: deque[Rows] = deque()
        self._pause_until = 0.0
        self._flying: dict[Any, Flying] = {}
        self._begun = np.zeros(len(query), dtype=np.int64)  # how often each row was
        self._broken: list[Done] = []

    @property
    def started(self) -> int:
        """Rows that were begun, each counted once."""
        return int(np.count_nonzero(self._begun))

    def run(self) -> None:
        """Have all rows evaluated."""
        try:
            while self._todo or self._again or self._flying:
                self._check_the_time()
                if not self._broken:
                    self._put_in_flight()
                self._take(self._crew.ended(self._patience()) if self._flying else self._pause())
                self._give_up_what_hangs()
        except BaseException:
            self._abandon()
            raise
        if self._broken:
            self._raise()

    def _check_the_time(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            if self._broken:
                self._abandon()
                self._raise()
            raise TimeIsUp("The time that the run was given is over.")

    def _put_in_flight(self) -> None:
        # With a timeout one part a worker: only then it is known since when it is worked on.
        each = 2 if self.gatherer.timeout is None else 1
        while len(self._flying) < each * self._crew.size:
            rows = self._next()
            if rows is None:
                return
            first, last = rows
            if self.ledger is not None:
                self.ledger.begun(first, last - first)
            part = Part(first, self.query.rows(first, last))
            if self.gatherer.timeout is not None:
                part.query.fresh = False  # a thread that hangs keeps its arrays, and another one may need them
            free = len(self._flying) < self._crew.size
            since = time.monotonic()
            ticket = self._crew.begin(part)
            self._flying[ticket] = Flying(rows, since, free)

    def _next(self) -> Rows | None:
        """Return the rows of the next part; None when there are none, or when they have to wait."""
        if self._again and time.monotonic() >= self._pause_until:
            return self._again.popleft()
        if not self._todo:
            return None
        rows = self._rows_at_once()
        if rows == 0:
            return None
        first, last = self._todo.popleft()
        cut = min(first + rows, last)
        if cut < last:
            self._todo.appendleft((cut, last))
        self._left -= cut - first
        return first, cut

    def _rows_at_once(self) -> int:
        """Return how many rows the next part has; 0: first one has to come back that tells how long a row takes."""
        size = self._crew.size
        pace = self.gatherer.pace
        if self._parts == 0:
            if self.gatherer.evenly:
                self._parts = min(size, self._left)
            elif pace.known(self.query.order):
                self._parts = pace.parts(self._left, size, self.query.order)
            else:
                return 1 if len(self._flying) < size else 0
        rows = math.ceil(self._left / self._parts)
        self._parts = max(self._parts - 1, 1)
        return rows

    def _patience(self) -> float:
        """Return how long to wait for an answer before there is something else to do."""
        now = time.monotonic()
        moments = [now + LOOK]
        if self.deadline is not None:
            moments.append(self.deadline)
        if self._again:
            moments.append(self._pause_until)
        if self.gatherer.timeout is not None:
            moments += [self._overdue(flying) for flying in self._flying.values()]
        return max(min(moments) - now, 0.0)

    def _pause(self) -> tuple[()]:
        """Wait before something lost is begun again."""
        time.sleep(self._patience())
        return ()

    def _take(self, ends: Iterable[tuple[Any, Done | Lost]]) -> None:
        for ticket, end in ends:
            flying = self._flying.pop(ticket, None)
            if flying is None:
                continue
            if isinstance(end, Lost):
                self._not_begun(self._count(flying, end.begun))
                self._lost(flying, end)
            elif end.error is not None:
                self._count(flying, end.started)
                self._broken.append(end)
                if self.ledger is not None:
                    broken_off(self.ledger, flying.rows[0], len(flying), end.started, end.answer)
                self._todo.clear()
                self._again.clear()
                if hasattr(self._crew, "recall"):
                    self._crew.recall()
            else:
                assert end.answer is not None
                self._count(flying, None)
                self._measure(flying, end)
                self._tell(flying.rows[0], end.answer)

    def _measure(self, flying: Flying, done: Done) -> None:
        gatherer = self.gatherer
        gatherer.losses = 0
        gatherer.pace.learn(self.query.order, len(flying), done.seconds)
        if flying.free:
            turnaround = time.monotonic() - flying.since
            gatherer.pace.delayed(max(turnaround - done.seconds, 0.0), self._crew.size)

    def _tell(self, first: int, answer: Answer) -> None:
        self.pieces.append((first, answer))
        if self.ledger is not None:
            self.ledger.told(first, answer)

    def _count(self, flying: Flying, begun: int | None) -> int:
        """Take note that rows were begun, all of a part when it is not known how many; and which of them again.

        Return how many were not.
        """
        rows = len(flying) if begun is None else begun
        first = flying.rows[0]
        times = self._begun[first : first + rows]
        self.gatherer.repeated += int(np.count_nonzero(times))
        times += 1
        return len(flying) - rows

    def _not_begun(self, rows: int) -> None:
        """Tell the ledger that rows were not begun after all."""
        if self.ledger is not None and rows > 0:
            self.ledger.not_begun(rows)

    def _lost(self, flying: Flying, lost: Lost) -> None:
        """Do a part again, after a while when nothing else came back either."""
        if self._broken:
            return
        gatherer = self.gatherer
        first, last = flying.rows
        log.warning("Rows %d to %d of a query were lost (%s)", first, last - 1, lost.reason)
        gatherer.losses += 1
        most = max(LEAST_LOSSES, 8 * self._crew.size)
        if gatherer.losses > most:
            raise RuntimeError(
                f"Workers lost {gatherer.losses} parts of the work in a row and answered none, the last one because "
                f"{lost.reason}; see whether a worker can evaluate the function at all."
            )
        failed = self._again_or_failed(flying)
        if failed and lost.begun is not None:  # it was seen that the row is to blame, and not the machine
            gatherer.losses = 0
            return
        pause = FIRST_PAUSE * 2.0 ** min(gatherer.losses - 1, 30)
        self._pause_until = time.monotonic() + min(pause, LONGEST_PAUSE)

    def _again_or_failed(self, flying: Flying) -> bool:
        """Put rows on the list again, one by one; one that was begun often enough has failed."""
        first, last = flying.rows
        if len(flying) == 1 and self._begun[first] > self.gatherer.retries:
            self._tell(first, Answer(np.full(self.query.rows(first, last).shape, FAILED)))
            return True
        self._again.extend((row, row + 1) for row in range(first, last))
        return False

    def _overdue(self, flying: Flying) -> float:
        """Return the moment at which a part hangs; one that nobody works on does not."""
        gatherer = self.gatherer
        assert gatherer.timeout is not None
        if flying.begun is None:
            return math.inf
        row_is_known = flying.begun > 0 and not gatherer.evenly
        rows = 1 if row_is_known else len(flying)
        if gatherer.pace.slowest == 0.0:
            slack = START_UP
        else:
            slack = 0.0 if row_is_known else LOOK + 2 * gatherer.pace.slowest
        return flying.moved + rows * gatherer.timeout + slack

    def _look(self, ticket: Any, flying: Flying, now: float) -> None:
        """See how far a part is, if the crew can tell; if not, somebody has worked on it since it was put in flight."""
        begun = self._crew.begun(ticket) if hasattr(self._crew, "begun") else 0
        if begun != flying.begun:
            flying.begun = begun
            flying.moved = now if hasattr(self._crew, "begun") else flying.since

    def _give_up_what_hangs(self) -> None:
        if self.gatherer.timeout is None:
            return
        now = time.monotonic()
        for ticket, flying in list(self._flying.items()):
            self._look(ticket, flying, now)
            if now < self._overdue(flying):
                continue
            del self._flying[ticket]
            first, last = flying.rows
            log.warning("Rows %d to %d of a query took too long and are given up", first, last - 1)
            self._not_begun(self._count(flying, self._crew.give_up(ticket)))
            if not self._broken:
                self._again_or_failed(flying)

    def _abandon(self) -> None:
        """Give up what is in flight, and count what was begun of it."""
        rows = 0
        while self._flying:
            ticket = next(iter(self._flying))
            flying = self._flying.pop(ticket)
            rows += self._count(flying, self._crew.give_up(ticket))
        self._not_begun(rows)  # last, since a ledger that cannot write raises

    def _raise(self) -> None:
        """Raise what the user's function raised, at the first of the rows where it did."""
        broken = min(self._broken, key=lambda done: done.place)
        assert broken.error is not None
        with suppress(AttributeError, TypeError):  # some exceptions take no attributes
            broken.error.add_note(f"In a worker:\n{broken.traceback}")
        raise broken.error
