"""Ctrl-C: at once while a function of the user's runs, and after the books are kept otherwise."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupts:
    """Lets Ctrl-C through while a function of the user's runs, and makes it wait while books are kept.

    So that every value that was asked for is counted. A second Ctrl-C always goes through. Only where Ctrl-C is
    Python's own, in the main thread; elsewhere, and before it is entered, nothing changes.
    """

    def __init__(self) -> None:
        self._allowed = False
        self._pending = False
        self._before: Any = None

    def allow(self) -> None:
        """Let Ctrl-C through from now on, also one that came before."""
        self._allowed = True
        self.check()

    def forbid(self) -> None:
        self._allowed = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        self.allow()
        try:
            yield
        finally:
            self.forbid()

    def waiting(self) -> bool:
        """Whether a Ctrl-C came that has not gone through."""
        return self._pending

    def check(self) -> None:
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
        python_s_own = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if python_s_own and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._came)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _came(self, number: int, frame: FrameType | None) -> None:
        if self._allowed or self._pending:
            self._pending = False
            raise KeyboardInterrupt
        self._pending = True
