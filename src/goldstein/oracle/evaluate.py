"""Who evaluates a query: this process, a pool of processes, or any executor or map that the user brings.

However many workers there are, and in whatever order they answer, each part carries its place, so that the answer is
put together in the order of the rows and the trajectory is the same.
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import pairwise
from multiprocessing import connection, parent_process
from typing import Any

import numpy as np

from goldstein.oracle.oracles import Meter, Oracle
from goldstein.oracle.parts import Catch, Done, Part, Task
from goldstein.oracle.query import Answer, Query

Map = Callable[[Callable[[Part], Done], Iterable[Part]], Iterable[Done]]

_task: Task | None = None


def _employ(task: Task) -> None:
    """Give a pool's process its task once, not with every query; it ends when its parent is gone."""
    global _task
    _task = task
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()


def _leave_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _work(part: Part) -> Done:
    assert _task is not None
    return _task(part)


def check_workers(workers: Any) -> None:
    """Say what is wrong with a `workers` argument, before anything is evaluated."""
    if isinstance(workers, int | np.integer) and not isinstance(workers, bool):
        if workers < -1 or workers == 0:
            raise ValueError(f"workers must be a positive number of processes, or -1 for all cores; got {workers}.")
    elif (
        workers is not None and not hasattr(workers, "submit") and (isinstance(workers, bool) or not callable(workers))
    ):
        raise TypeError(
            f"workers must be a number, an executor with .submit, or a map-like callable; got {type(workers).__name__}."
        )


class Evaluator:
    """Evaluates queries; a context manager that closes what it opened.

    Parameters
    ----------
    oracle : Oracle
        What to ask.
    workers : None, int, executor or map-like callable
        None or 1: this process. An int: that many processes (−1: all cores). Anything with `.submit` (an executor of
        concurrent.futures, a dask Client), or a callable like `map` (a pool's `.map`, ray's `Pool().map`).
    catch : tuple of exception types
        Exceptions that count as a failed evaluation.

    Attributes
    ----------
    started : int
        Rows of the last query that were begun, for one that an exception broke off.
    """

    def __init__(self, oracle: Oracle, workers: Any = None, catch: Catch = ()) -> None:
        self.oracle = oracle
        self.catch = catch
        self._meter = Meter()
        self._pool: ProcessPoolExecutor | None = None
        self._map: Map | None = None
        self._parts = 1
        check_workers(workers)
        if workers is None or (isinstance(workers, int | np.integer) and workers == 1):
            return
        self._parts = os.cpu_count() or 1
        if isinstance(workers, int | np.integer):
            self._parts = self._parts if workers == -1 else int(workers)
            self._pool = ProcessPoolExecutor(self._parts, initializer=_employ, initargs=(Task(oracle, catch),))
            submitting = _submitting(self._pool)
            self._map = lambda _, parts: submitting(_work, parts)
        elif hasattr(workers, "submit"):
            self._map = _submitting(workers)
        else:
            self._map = workers

    @property
    def started(self) -> int:
        """Rows of the query at hand that were begun."""
        return self._meter.started

    @started.setter
    def started(self, rows: int) -> None:
        self._meter.started = rows

    repeated = 0

    def check_time(self) -> None:
        """Nothing yet."""

    def __call__(self, query: Query, known: Any = (), ledger: Any = None) -> Answer:
        """Answer a query; row order is kept."""
        self.started = 0
        if ledger is not None:
            found: dict[int, Answer] = dict(known)
            row = 0
            while row < len(query):
                if row not in found:
                    ledger.begun(row, 1)
                    found[row] = self.oracle.evaluate(query.rows(row, row + 1), self.catch, self._meter)
                    ledger.told(row, found[row])
                row += len(found[row].values)
            first, *others = [found[row] for row in sorted(found)]
            return first.joined(others)
        if self._map is None or len(query) < 2:
            return self.oracle.evaluate(query, self.catch, self._meter)
        edges = np.linspace(0, len(query), min(self._parts, len(query)) + 1).astype(int).tolist()
        parts = [Part(first, query.rows(first, last)) for first, last in pairwise(edges)]
        self.started = len(query)  # unless it turns out that some were not
        answers = self._map(Task(self.oracle, self.catch), parts)
        if not isinstance(answers, list):  # one that is made as it goes need go no further than an exception
            answers = _up_to_an_error(answers)
        return self._together(answers, edges[:-1])

    def _together(self, done: list[Done], places: list[int]) -> Answer:
        """Put the parts of an answer together, in the order of the rows."""
        if not all(isinstance(part, Done) for part in done):
            raise TypeError("workers must return what the function given to it returns, one for each part.")
        broken = next((part for part in done if part.error is not None), None)
        if broken is not None:
            assert broken.error is not None
            self.started = sum(part.started for part in done)
            with suppress(AttributeError, TypeError):  # some exceptions take no attributes
                broken.error.add_note(f"In a worker:\n{broken.traceback}")
            raise broken.error
        found = {part.place: part.answer for part in done}
        answers = [found.get(place) for place in places]
        if len(done) != len(places) or None in answers:
            raise ValueError(
                f"workers must return an answer for each part, got {len(found)} different ones of {len(places)} in "
                f"{len(done)} answers."
            )
        first, *others = [answer for answer in answers if answer is not None]
        return first.joined(others)

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _up_to_an_error(answers: Iterable[Done]) -> list[Done]:
    done = []
    for part in answers:
        done.append(part)
        if getattr(part, "error", None) is not None:
            break
    return done


def _submitting(executor: Any) -> Map:
    """Return a map that submits to an executor; a dask Client is told that equal parts are not one part."""
    more: dict[str, bool] = {}
    with suppress(TypeError, ValueError):  # some functions written in C have no signature
        more = {"pure": False} if "pure" in inspect.signature(executor.submit).parameters else {}

    def answers(task: Callable[[Part], Done], parts: Iterable[Part]) -> list[Done]:
        futures = [executor.submit(task, part, **more) for part in parts]
        done: list[Done] = []
        for future in futures:
            if any(earlier.error is not None for earlier in done) and future.cancel():
                continue  # nobody has begun with it, and nobody needs it any more
            done.append(future.result())
        return done

    return answers
