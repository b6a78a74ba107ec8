"""A line on the terminal that says how far a run is; silent where there is no terminal."""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import IO

import numpy as np

from goldstein.oracle import Answer
from goldstein.oracle.tasks import EvaluationLog

EVERY = 0.1  # seconds between two looks of the line
SECONDS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Bar:
    """The line: evaluations of a total, the best value (a mean of noisy ones), the speed and the time left.

    It stands before another log of the queries, such as the journal, which hears of everything.
    """

    def __init__(self, total: int | None, noisy: bool, stream: IO[str] | None = None) -> None:
        self.total = total
        self.noisy = noisy
        self.log = EvaluationLog()
        self.stream = sys.stderr if stream is None else stream
        self.shown = bool(getattr(self.stream, "isatty", lambda: False)())
        self.value = math.nan
        self.final = False  # what comes now is about the answer and other candidates, whose mean says nothing
        self._earlier = 0  # evaluations of earlier stages
        self._done = 0
        self._arrived = 0  # of the query at hand
        self._since: float | None = None
        self._before = 0
        self._last = 0.0
        self._replaying = False

    def start(self, first: int, rows: int) -> None:
        self.log.start(first, rows)

    def take_back(self, rows: int) -> None:
        self.log.take_back(rows)

    def record(self, first: int, answer: Answer) -> None:
        self.log.record(first, answer)
        self._arrived += len(answer.values)
        finite = answer.values[np.isfinite(answer.values)]
        if finite.size and answer.values.ndim == 1 and not (self.final and self.noisy):
            self._update(float(finite.mean()) if self.noisy else float(finite.min()))
        self._show()

    def _update(self, value: float) -> None:
        if math.isnan(self.value):
            self.value = value
        elif self.noisy:
            self.value += 0.05 * (value - self.value)
        else:
            self.value = min(self.value, value)

    def done(self, nfev: int, value: float, replaying: bool = False) -> None:
        """Take note of how many evaluations this stage has counted.

        `value` is the mean of the last ones, if it is known; `replaying`: they come from a journal, in no time.
        """
        made = self._earlier + nfev
        if self._since is None or replaying or self._replaying:
            self._since = time.monotonic()
            self._before = made
        self._replaying = replaying
        if not self._arrived and self._done != made and math.isfinite(value):
            self._update(value)
        self._done = made
        self._arrived = 0
        self._show()

    def stage_begins(self, nfev: int) -> None:
        """Take note that a stage begins, after `nfev` evaluations of earlier ones."""
        self._earlier = nfev
        self._done = nfev
        self._arrived = 0

    def _show(self) -> None:
        now = time.monotonic()
        if not self.shown or now - self._last < EVERY:
            return
        self._last = now
        self._write(self.line(now))

    def _write(self, line: str, end: str = "") -> None:
        width = shutil.get_terminal_size().columns - 1
        self.stream.write("\r" + line[:width].ljust(width) + end)
        self.stream.flush()

    def line(self, now: float) -> str:
        made = self._done + self._arrived
        parts = [f"{made:,} evaluations"]
        if self.total is not None:
            parts = [f"{made:,} of {self.total:,} evaluations, {made / self.total:.0%}"]
        if math.isfinite(self.value):
            parts.append(f"{'mean' if self.noisy else 'best'} {self.value:.6g}")
        seconds = 0.0 if self._since is None else now - self._since
        rate = (made - self._before) / seconds if seconds > 0 else 0.0
        if rate > 0:
            parts.append(f"{rate:,.3g} a second")
        if rate > 0 and self.total is not None:
            parts.append(f"{lasting((self.total - made) / rate)} left")
        return " · ".join(parts)

    def close(self) -> None:
        if self.shown and self._last:
            self._write("", "\r")


def lasting(seconds: float) -> str:
    """Return a time in words, in its two largest units.

    Examples
    --------
    >>> lasting(7384)
    '2 h 3 min'
    """
    rest = round(seconds)
    words: list[str] = []
    for size, name in SECONDS:
        if rest >= size or (name == "s" and not words):
            words.append(f"{rest // size} {name}")
            rest %= size
    return " ".join(words[:2])
