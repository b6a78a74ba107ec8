"""The driver of one session: its queries are evaluated as they come."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from goldstein.oracle import Answer, Query
from goldstein.oracle.tasks import TimeIsUp
from goldstein.run.progress import Bar, Both
from goldstein.run.result import Result, Status
from goldstein.run.session import Session

logger = logging.getLogger("goldstein")


class Evaluates(Protocol):
    """Whoever answers queries.

    Attributes
    ----------
    started, repeated : int
        Rows of the query at hand that were begun, and rows of all queries that were begun again.
    deadline : float or None
        The moment of `time.monotonic()` at which the time is up.
    """

    started: int
    deadline: float | None

    @property
    def repeated(self) -> int:
        """Rows that were begun again."""

    def __call__(self, query: Query, known: Any = (), log: Any = None) -> Answer:
        """Answer a query, but for rows that are known; tell the log what is begun and what has come."""

    def check_time(self) -> None:
        """Raise TimeIsUp if the time that the run was given is over."""


def drive(session: Session, evaluate: Evaluates, bar: Bar | None = None) -> Result:
    """Play a session to its end; Ctrl-C returns the run so far, an exception carries it as `.result`."""
    logger.info("%s begins, d = %d, max_evals = %s", session.method.name, session.step.x.size, session.budget.max_evals)
    result = _play(session, evaluate, bar)
    logger.info("%s after %d evaluations: %s", result.status.name, result.nfev, result.message)
    return result


def _play(session: Session, evaluate: Evaluates, bar: Bar | None) -> Result:
    play = session.play()
    journal = session.spec.journal
    log: Any = journal if bar is None else bar
    if bar is not None and journal is not None:
        log = Both(journal, bar)
    session.repeats = lambda: evaluate.repeated + (0 if journal is None else journal.lost)
    with session.interrupts as interrupts:
        try:
            replay = _Replay(evaluate)
            query = next(play)
            if journal is None or not journal.replaying:
                replay.forget()
            while True:
                if query is None:
                    interrupts.check()
                    if journal is None or not journal.replaying:
                        replay.end()
                        evaluate.check_time()
                    if bar is not None:
                        replaying = journal is not None and journal.replaying
                        bar.done(session.facts.nfev, session.step.value, replaying)
                    query = play.send(None)
                    continue
                if bar is not None:
                    bar.final = session.ending.started
                evaluate.started = 0
                known: Sequence[tuple[int, Answer]] = ()
                try:
                    interrupts.allow()
                    if journal is not None:
                        known = journal.known(query)
                        if sum(len(answer.values) for _, answer in known) < len(query):
                            replay.end()
                    answer = evaluate(query, known, log)
                    if journal is not None:
                        answer.reason = answer.reason or journal.reason
                    interrupts.forbid()
                except BaseException as error:
                    interrupts.forbid()
                    session.broken_off(query, evaluate.started + sum(len(answer.values) for _, answer in known))
                    if isinstance(error, StopIteration):
                        raise RuntimeError(
                            "The function raised StopIteration; only callbacks stop a run that way."
                        ) from error
                    raise
                query = play.send(answer)
        except StopIteration as done:
            result: Result = done.value
            return result
        except KeyboardInterrupt:
            session.checkpoints.save()
            return session.result(Status.INTERRUPTED)
        except TimeIsUp:
            session.checkpoints.save()
            return session.result(Status.MAX_TIME)
        except Exception as error:
            session.checkpoints.save()
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.result = session.result(Status.RAISED)  # type: ignore[attr-defined]
                error.add_note(
                    f"goldstein: raised at evaluation {session.facts.nfev}; `.point` holds the point (if it was "
                    "raised by the function), `.result` the run so far."
                )
            raise


class _Replay:
    """Keeps the time that the replay of a journal takes out of the time that the run is given."""

    def __init__(self, evaluate: Evaluates) -> None:
        self._evaluate = evaluate
        self._since: float | None = time.monotonic()

    def forget(self) -> None:
        """There is no replay."""
        self._since = None

    def end(self) -> None:
        """Move the deadline by the time that the replay took."""
        if self._since is not None and self._evaluate.deadline is not None:
            self._evaluate.deadline += time.monotonic() - self._since
        self._since = None
