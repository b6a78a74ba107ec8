"""The driver of one session: its queries are evaluated as they come."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from goldstein.oracle import Answer, Query
from goldstein.oracle.interrupts import Interrupts
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
        Rows of the current query that were started, and rows of all queries that were started again.
    interrupts : Interrupts
        When Ctrl-C may interrupt.
    """

    started: int
    interrupts: Interrupts

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
        evaluate.interrupts = interrupts
        try:
            query = next(play)
            while True:
                if query is None:
                    interrupts.check()
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
                    answer = evaluate(query, known, log)
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
        except BaseException as error:
            session.checkpoints.save()
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.result = session.result(Status.RAISED)  # type: ignore[attr-defined]
                error.add_note(
                    f"goldstein: raised at evaluation {session.facts.nfev}; `.point` holds the point (if it was "
                    "raised by the function), `.result` the run so far."
                )
            raise
