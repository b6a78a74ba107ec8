"""The driver of many sessions side by side: the rows that they ask for are merged into batches of one size.

Batches are filled by asking one session after the other, and only when there is room, so that few sessions hold the
rows of a query at a time. A session never learns what else was in its batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from goldstein.oracle import Answer, Query
from goldstein.run.result import Result
from goldstein.run.session import EvaluationGenerator, Session


@dataclass(eq=False)
class Playing:
    """A session under way: the query that it waits for, if it has asked, and the answers to its first rows."""

    session: Session
    play: EvaluationGenerator[Result]
    query: Query | None = None
    answered: int = 0
    answers: list[Answer] = field(default_factory=list)

    def ask(self) -> Query:
        """Return the query that it waits for, which may be asked only now; StopIteration when it has ended."""
        while self.query is None:
            self.query = next(self.play)
        return self.query

    def tell(self, answer: Answer, last: int) -> None:
        """Take the answer up to row `last`; StopIteration when that ends the session."""
        assert self.query is not None
        self.answers.append(answer)
        self.answered = last
        if last < len(self.query):
            return
        first, *others = self.answers
        self.answers = []
        self.answered = 0
        self.query = None  # its rows are not needed while it waits
        self.query = self.play.send(first.joined(others) if others else first)


@dataclass(eq=False)
class Part:
    """Rows `first` to `last` of the query that a session waits for."""

    session: Session
    query: Query
    first: int
    last: int
    playing: Playing

    def __len__(self) -> int:
        return self.last - self.first


Evaluate = Callable[[Sequence[Part]], Sequence[Answer | Exception]]
Done = Callable[[Session, Result | Exception], Any]


def lockstep(
    sessions: Iterable[Session], evaluate: Evaluate, done: Done, *, rows: int = 256, at_once: int | None = None
) -> None:
    """Play all sessions to their ends, in batches of `rows`.

    `evaluate` answers the parts of a batch, one for one; an exception in the place of an answer ends that session
    alone. `done(session, result)` is called for each that has ended, with what ended it if it was an exception. At most
    `at_once` sessions are under way; None: as many as it takes to fill a batch.
    """
    waiting: deque[Playing] = deque()
    fresh = iter(sessions)
    while parts := _fill(waiting, fresh, rows, at_once, done):
        for part, answer in zip(parts, evaluate(parts), strict=True):
            playing = part.playing
            if isinstance(answer, Exception):
                playing.play.close()
                done(playing.session, answer)
                continue
            try:
                playing.tell(answer, part.last)
            except StopIteration as ended:
                done(playing.session, ended.value)
                continue
            if playing.query is None:
                waiting.append(playing)
            else:  # one that has rows in memory comes first
                waiting.appendleft(playing)


def _fill(waiting: deque[Playing], fresh: Iterator[Session], rows: int, at_once: int | None, done: Done) -> list[Part]:
    """Return which rows of which sessions make the next batch; those sessions no longer wait."""
    parts: list[Part] = []
    free = rows
    while free:
        if waiting:
            playing = waiting.popleft()
        elif at_once is not None and len(parts) >= at_once:
            break
        else:
            session = next(fresh, None)
            if session is None:
                break
            playing = Playing(session, session.play())
        try:
            query = playing.ask()
        except StopIteration as ended:
            done(playing.session, ended.value)
            continue
        last = min(playing.answered + free, len(query))
        parts.append(Part(playing.session, query, playing.answered, last, playing))
        free -= last - playing.answered
    return parts
