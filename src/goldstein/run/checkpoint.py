"""Checkpoints: what a run writes down so that it can be resumed, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from goldstein.oracle import Query
from goldstein.run.journal import Journal
from goldstein.run.result import Result, Status
from goldstein.run.snapshot import Snapshot

MOST_NUMBERS = 10_000  # of an answer that is written into the journal
OUTCOME = ("fun", "fun_stderr", "nfev", "ngev", "nit", "nfail", "message")


class _NoJournal:
    """The journal of a run that has none: nothing is written, and nothing is known."""

    replaying = False
    in_last_stage = True
    doubt = ""
    reason = ""
    lost = 0
    number = 0
    position = 0

    def answers_to(self, query: Query) -> tuple[()]:
        return ()

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        pass

    begin = ended_here = drop_end = noise = monitor_value = monitor = outcome = _ignore


class Checkpoints:
    """When the state of a run is saved: `take` returns a snapshot of the run as it is."""

    def __init__(self, journal: Journal | None, take: Callable[[], Snapshot]) -> None:
        self.journal: Any = _NoJournal() if journal is None else journal
        self.compiled = False
        self.final = False  # what comes now depends on the budget
        self._take = take
        self._at_rest: Snapshot | None = None  # the run when nothing was under way
        self._writes = journal is not None

    def rest(self) -> None:
        """Take a snapshot now that nothing is under way, if there is use for one; save it if it is due."""
        if not self._writes or self.final:
            return
        due = self.journal.due(self.compiled)
        if not (self.compiled or due):
            return
        self._at_rest = self._take()
        if due:
            self.save()

    def moved(self) -> None:
        self._at_rest = None

    def save(self) -> None:
        """Save the run as it was when nothing was under way, if values of it are in no journal."""
        if self._at_rest is not None:
            self.journal.save(self._at_rest)

    def end(self, status: Status) -> None:
        """Take note that from here on a run with a larger budget would take another course."""
        if self._writes and not self.final:
            if self.compiled and self._at_rest is None:
                self.rest()
            self.save()
            self.journal.ending(status)
        self.final = True
        self._at_rest = None

    def outcome(self, result: Result) -> None:
        about = {name: result[name] for name in OUTCOME}
        about |= {"status": int(result.status), "compiled": self.compiled}
        if result.x.size <= MOST_NUMBERS:
            about["x"] = result.x.tolist()
        self.journal.outcome(about)
