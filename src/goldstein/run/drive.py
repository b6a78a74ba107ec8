"""The driver of one session: its queries are evaluated as they come."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from goldstein.oracle import Answer, Query
from goldstein.run.result import Result, Status
from goldstein.run.session import Session


class Evaluates(Protocol):
    """Whoever answers queries.

    Attributes
    ----------
    started : int
        Rows of the query at hand that were begun.
    """

    started: int

    def __call__(self, query: Query) -> Answer:
        """Answer a query."""


def drive(session: Session, evaluate: Evaluates) -> Result:
    """Play a session to its end; Ctrl-C returns the run so far, an exception carries it as `.result`."""
    play = session.play()
    with session.interrupts as interrupts:
        try:
            query = next(play)
            while True:
                if query is None:
                    interrupts.check()
                    query = play.send(None)
                    continue
                evaluate.started = 0
                try:
                    interrupts.allow()
                    answer = evaluate(query)
                    interrupts.forbid()
                except BaseException as error:
                    interrupts.forbid()
                    session.broken_off(query, evaluate.started)
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
            session.save()
            return session.result(Status.INTERRUPTED)
        except Exception as error:
            session.save()
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.result = session.result(Status.RUNNING)  # type: ignore[attr-defined]
                error.add_note(
                    f"goldstein: raised after {session.counters.nfev} evaluations; `.point` holds the point (if it was "
                    "raised by the function), `.result` the run so far."
                )
            raise
