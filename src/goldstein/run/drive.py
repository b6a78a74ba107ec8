"""The driver of one session: its queries are evaluated as they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from goldstein.oracle import Answer, Query
from goldstein.oracle.evaluate import Evaluator
from goldstein.oracle.tasks import TimeIsUp
from goldstein.run.progress import Bar
from goldstein.run.result import Result, Status
from goldstein.run.session import Session

logger = logging.getLogger("goldstein")


def drive(session: Session, evaluate: Evaluator, bar: Bar | None = None) -> Result:
    """Play a session to its end; Ctrl-C returns the run so far, an exception carries it as `.result`."""
    logger.info("%s begins, d = %d, max_evals = %s", session.method.name, session.step.x.size, session.budget.max_evals)
    with session.interrupts:
        result = _Driver(session, evaluate, bar).result()
    logger.info("%s after %d evaluations: %s", result.status.name, result.nfev, result.message)
    return result


class _Driver:
    """Plays one session."""

    def __init__(self, session: Session, evaluate: Evaluator, bar: Bar | None) -> None:
        self.session = session
        self.evaluate = evaluate
        self.bar = bar
        self.journal = session.checkpoints.journal
        self.log: Any = session.spec.journal
        if bar is not None:
            bar.log = session.spec.journal or bar.log
            self.log = bar
        self.clock_stands = session.spec.max_time is not None and evaluate.deadline is None
        evaluate.interrupts = session.interrupts
        session.repeats = lambda: evaluate.repeated + self.journal.lost

    def result(self) -> Result:
        session = self.session
        try:
            return self._play()
        except KeyboardInterrupt:
            session.checkpoints.save()
            return session.ending.result(Status.INTERRUPTED)
        except TimeIsUp:
            session.checkpoints.save()
            return session.ending.result(Status.MAX_TIME)
        except BaseException as error:
            session.checkpoints.save()
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.result = session.ending.result(Status.RAISED)  # type: ignore[attr-defined]
                error.add_note(
                    f"goldstein: raised at evaluation {session.facts.nfev}; `.point` holds the point (if it was "
                    "raised by the function), `.result` the run so far."
                )
            raise

    def _play(self) -> Result:
        session = self.session
        play = session.play()
        try:
            query = next(play)
            while True:
                if query is not None:
                    query = play.send(self._answer(query))
                    continue
                session.interrupts.check()
                if self.clock_stands:
                    self._start_clock()
                self.evaluate.check_time()
                if self.bar is not None:
                    self.bar.done(session.facts.nfev, session.step.value, self.journal.replaying)
                query = play.send(None)
        except StopIteration as done:
            result: Result = done.value
            return result

    def _answer(self, query: Query) -> Answer:
        """Return the answer to a query: what the journal holds of it from there, the rest by evaluating it."""
        evaluate = self.evaluate
        interrupts = self.session.interrupts
        if self.bar is not None:
            self.bar.final = self.session.ending.started
        evaluate.started = 0
        known: Sequence[tuple[int, Answer]] = ()
        try:
            interrupts.allow()
            known = self.journal.answers_to(query)
            if self.clock_stands:
                self._start_clock()
            answer = evaluate(query, known, self.log)
            interrupts.forbid()
        except BaseException as error:
            interrupts.forbid()
            self.session.broken_off(query, evaluate.started + sum(len(answer.values) for _, answer in known))
            if isinstance(error, StopIteration):
                raise RuntimeError("The function raised StopIteration; only callbacks stop a run that way.") from error
            raise
        if self.journal.reason:
            answer.reason = answer.reason or self.journal.reason
        return answer

    def _start_clock(self) -> None:
        """Start the time that the run may take once nothing is replayed any more."""
        if self.journal.replaying or not self.journal.in_last_stage:
            return
        assert self.session.spec.max_time is not None
        self.clock_stands = False
        self.evaluate.deadline = time.monotonic() + self.session.spec.max_time
