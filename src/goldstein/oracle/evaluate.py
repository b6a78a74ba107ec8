"""Who evaluates a query: this process, a pool of processes, or any executor or map that the user brings.

However many workers there are, the answer comes back in the order of the rows, so the trajectory is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from goldstein.oracle.oracles import Oracle
from goldstein.oracle.query import Array, Query

Catch = tuple[type[BaseException], ...]
Answer = tuple[Array, float]  # values, and the rounding error of the type in which they came
Map = Callable[[Callable[..., Answer], Iterable[Query]], Iterable[Answer]]

_oracle: Oracle | None = None
_catch: Catch = ()


def _set_oracle(oracle: Oracle, catch: Catch) -> None:
    """Give a pool's process its oracle once, not with every query."""
    global _oracle, _catch
    _oracle, _catch = oracle, catch


def _evaluate_here(query: Query) -> Answer:
    assert _oracle is not None
    return _oracle.evaluate(query, _catch), _oracle.roundoff


@dataclass
class _Task:
    """An oracle to send along with each part of a query."""

    oracle: Oracle
    catch: Catch

    def __call__(self, query: Query) -> Answer:
        return self.oracle.evaluate(query, self.catch), self.oracle.roundoff


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
    x_scale : ndarray, optional
        Points are multiplied by it before they reach the function.
    """

    def __init__(self, oracle: Oracle, workers: Any = None, catch: Catch = (), x_scale: Array | None = None) -> None:
        self.oracle, self.catch, self.x_scale = oracle, catch, x_scale
        self._pool: ProcessPoolExecutor | None = None
        self._map: Map | None = None
        self._parts = 1
        check_workers(workers)
        if workers is None or (isinstance(workers, int | np.integer) and workers == 1):
            return
        self._parts = os.cpu_count() or 1
        if isinstance(workers, int | np.integer):
            self._parts = self._parts if workers == -1 else int(workers)
            self._pool = ProcessPoolExecutor(self._parts, initializer=_set_oracle, initargs=(oracle, catch))
            self._map = lambda _, parts: self._pool.map(_evaluate_here, parts)  # type: ignore[union-attr]
        elif hasattr(workers, "submit"):
            self._map = lambda task, parts: [f.result() for f in [workers.submit(task, part) for part in parts]]
        else:
            self._map = workers

    def __call__(self, query: Query) -> Array:
        """Answer a query; row order is kept. In the coordinates x / x_scale a gradient is x_scale times the user's."""
        if self.x_scale is None or query.outside:
            return self._answer(query, query.points)
        answer = self._answer(query, query.points * self.x_scale)
        return answer * self.x_scale if query.order == 1 else answer

    def _answer(self, query: Query, points: Array) -> Array:
        bare = Query(points, query.samples, query.order)
        if self._map is None or len(query) < 2:
            return self.oracle.evaluate(bare, self.catch)
        edges = np.linspace(0, len(query), min(self._parts, len(query)) + 1).astype(int)
        parts = [
            Query(points[a:b], None if query.samples is None else query.samples[a:b], query.order)
            for a, b in pairwise(edges)
        ]
        try:
            answers = list(self._map(_Task(self.oracle, self.catch), parts))
        except BaseException as error:
            with suppress(AttributeError):
                error.evaluated = len(query)  # type: ignore[attr-defined]
            raise
        self.oracle.roundoff = max(roundoff for _, roundoff in answers)
        return np.concatenate([values for values, _ in answers])

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
