"""The driver of one session: its queries are evaluated as they come."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Protocol

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
    with Interrupts() as interrupts:
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
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                error.result = session.result(Status.RUNNING)  # type: ignore[attr-defined]
                error.add_note(
                    f"goldstein: raised after {session.counters.nfev} evaluations; `.point` holds the point (if it was "
                    "raised by the function), `.result` the run so far."
                )
            raise


class Interrupts:
    """Lets Ctrl-C through while a function is evaluated, and makes it wait while books are kept.

    So that every value that was asked for is counted. Only where Ctrl-C is Python's own, in the main thread.
    """

    def __init__(self) -> None:
        self._allowed = False
        self._pending = False
        self._before: Any = None

    def allow(self) -> None:
        """Let Ctrl-C through from now on, also one that came before."""
        self._allowed = True
        self.check()

    def check(self) -> None:
        """Let a Ctrl-C through that came before."""
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def forbid(self) -> None:
        """Let Ctrl-C wait from now on."""
        self._allowed = False

    def __enter__(self) -> Interrupts:
        python_s_own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if python_s_own and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._allowed:
            raise KeyboardInterrupt
        self._pending = True
