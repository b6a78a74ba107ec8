"""Evaluates queries: in this process, in a pool of processes, or by any executor, map or pool that the user brings.

Each chunk carries its place, so that the answer is put together in the order of the rows: the trajectory is the same
with any number of workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from goldstein import arguments, retired
from goldstein.oracle.executor import DaskPool, ExecutorPool, MapPool, is_dask
from goldstein.oracle.interrupts import Interrupts
from goldstein.oracle.oracles import Catch, Oracle, StartedCounter
from goldstein.oracle.pool import ProcessPool
from goldstein.oracle.query import Answer, Query
from goldstein.oracle.scheduler import Batch, Rows, Scheduler, record_partial
from goldstein.oracle.tasks import Evaluation, EvaluationLog, TimeIsUp, WorkerPool

SECONDS_EACH = 0.02  # of work in this process after which the log hears of the answers
POOL_METHODS = ("initialize", "submit", "wait", "kill", "close")


def check_workers(workers: Any, timeout: Any = None, retries: Any = 2) -> None:
    """Say what is wrong with a `workers` argument, before anything is evaluated."""
    number = isinstance(workers, int | np.integer) and not isinstance(workers, bool)
    if number:
        if workers < -1 or workers == 0:
            expected = "a positive number of processes, or -1 for all cores"
            raise arguments.WrongValueError("workers", expected, str(workers))
    elif workers is not None:
        retired.check_members(type(workers), retired.POOL_MEMBERS)
        if isinstance(workers, bool) or not (_is_pool(workers) or hasattr(workers, "submit") or callable(workers)):
            raise TypeError(
                "workers must be a number, an executor with .submit, a map-like callable, or a pool such as that of "
                f"goldstein.oracle.ray; got {type(workers).__name__}."
            )
    if getattr(workers, "asynchronous", False) is True:
        raise TypeError("workers must be a client that waits for its answers; got an asynchronous one.")
    arguments.count("retries", retries, least=0)
    if arguments.optional_positive("timeout", timeout) is None:
        return
    if workers is None or (number and workers == 1):
        raise ValueError(
            "timeout needs workers, since an evaluation in this process cannot be stopped: use two workers or more."
        )
    if not number and not _is_pool(workers) and not hasattr(workers, "submit"):
        raise ValueError(
            "timeout needs workers that answer one by one, but those given are a map-like callable; use a number of "
            "processes or an executor with .submit."
        )


def _is_pool(workers: Any) -> bool:
    return all(hasattr(workers, name) for name in POOL_METHODS)


def make_pool(workers: Any) -> WorkerPool | None:
    """Return the pool of a `workers` argument; None: this process evaluates."""
    if workers is None:
        return None
    if isinstance(workers, int | np.integer):
        size = (os.cpu_count() or 1) if workers == -1 else int(workers)
        return None if workers == 1 else ProcessPool(size)
    if _is_pool(workers):
        pool: WorkerPool = workers
        return pool
    if is_dask(workers):
        return DaskPool(workers)
    if hasattr(workers, "submit"):
        return ExecutorPool(workers)
    return MapPool(workers)


class Evaluator:
    """Evaluates queries; a context manager that closes what it opened.

    Parameters
    ----------
    oracle : Oracle
        What to evaluate.
    workers : int, executor, map-like callable or pool, optional
        None or 1: this process. An int: that many processes (−1: all cores); one that dies is replaced. Anything with
        `.submit` (an executor of concurrent.futures, loky or mpi4py.futures, a client of dask.distributed), a callable
        like `map` (a pool's `.map`), or a pool (`goldstein.oracle.ray`).
    catch, timeout, retries
        As in `minimize`.

    Notes
    -----
    Points of a function that is not vectorised go to workers in chunks that last some latencies of the pool;
    a vectorised function gets one chunk a worker. A chunk that is lost is done again row by row; a row that crashed its
    worker 1 + `retries` times is NaN. Threads, and workers of other people's executors, cannot be stopped when they
    hang: they count as missing, and when none is left the run ends.

    A process of this machine tells which row it is at: one that hangs is noticed within a second and twice the timeout.
    Other workers do not, and a vectorised function has no single rows: there a chunk has the timeout of all its rows,
    a second, and twice the longest delay that was seen. Until the first answer has come, ten more seconds are given.
    """

    def __init__(
        self,
        oracle: Oracle,
        workers: Any = None,
        catch: Catch = (),
        *,
        timeout: float | None = None,
        retries: int = 2,
    ) -> None:
        check_workers(workers, timeout, retries)
        self.oracle = oracle
        self.catch = catch
        self.deadline: float | None = None  # of `time.monotonic()`: what is in flight then is given up by `TimeIsUp`
        self.interrupts = Interrupts()  # which lets Ctrl-C through at any time until it is entered
        self._counter = StartedCounter()
        self._row_seconds = 0.0  # in this process; 0: not known yet
        self._scheduler: Scheduler | None = None
        self._initialized = False
        pool = make_pool(workers)
        self._closes = pool is not workers  # a pool that was given is the user's own
        if pool is not None:
            even = oracle.vectorized or isinstance(pool, MapPool)
            self._scheduler = Scheduler(pool, retries, timeout=timeout, even=even)

    @property
    def started(self) -> int:
        """Rows of the last query that were started, each counted once."""
        return self._counter.started

    @started.setter
    def started(self, rows: int) -> None:
        self._counter.started = rows

    @property
    def repeated(self) -> int:
        """Rows of all queries that were started again."""
        return 0 if self._scheduler is None else self._scheduler.repeated

    def __call__(
        self, query: Query, known: Iterable[tuple[int, Answer]] = (), log: EvaluationLog | None = None
    ) -> Answer:
        """Answer a query, but for rows that are `known` (first row and answer); `log` hears of each chunk."""
        self.started = 0
        self._counter.partial = None
        pieces = list(known)
        plain = self._scheduler is None and not pieces and log is None and self.deadline is None
        if plain or len(query) == 0:
            return self.oracle.evaluate(query, self.catch, self._counter)
        missing = _missing(len(query), pieces)
        if not missing:
            return _joined(pieces)
        log = EvaluationLog() if log is None else log
        if self._scheduler is not None:
            pieces += self._by_workers(self._scheduler, query, missing, log)
        elif self.oracle.vectorized:
            pieces += self._at_once(query, missing, log)
        else:
            pieces += self._bit_by_bit(query, missing, log)
        return _joined(pieces)

    def _bit_by_bit(self, query: Query, missing: list[Rows], log: EvaluationLog) -> Iterator[tuple[int, Answer]]:
        """Answer in this process, in chunks of which the log hears as they come."""
        for first, end in missing:
            while first < end:
                self.check_time()
                rows = 1 if self._row_seconds == 0.0 else max(int(SECONDS_EACH / self._row_seconds), 1)
                last = min(first + rows, end)
                log.start(first, last - first)
                start = time.perf_counter()
                before = self.started
                try:
                    answer = self.oracle.evaluate(query.rows(first, last), self.catch, self._counter)
                except BaseException:
                    record_partial(log, first, last - first, self.started - before, self._counter.partial)
                    raise
                self._row_seconds = max((time.perf_counter() - start) / (last - first), 1e-9)
                log.record(first, answer)
                yield first, answer
                first = last

    def _at_once(self, query: Query, missing: list[Rows], log: EvaluationLog) -> Iterator[tuple[int, Answer]]:
        self.check_time()
        for first, last in missing:
            log.start(first, last - first)
        answer = self.oracle.evaluate(_only(query, missing), self.catch, self._counter)
        row = 0
        for first, last in missing:
            piece = replace(answer, values=answer.values[row : row + last - first])
            row += last - first
            log.record(first, piece)
            yield first, piece

    def _by_workers(
        self, scheduler: Scheduler, query: Query, missing: list[Rows], log: EvaluationLog
    ) -> list[tuple[int, Answer]]:
        if not self._initialized:
            scheduler.pool.initialize(Evaluation(self.oracle, self.catch))
            self._initialized = True
        scheduler.interrupts = self.interrupts
        batch = Batch(scheduler, query, missing, log, self.deadline)
        try:
            batch.run()
        finally:
            self.started = batch.started
        return batch.pieces

    def check_time(self) -> None:
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise TimeIsUp

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._scheduler is not None and self._initialized:
            self._initialized = False
            if self._closes:
                self._scheduler.pool.close()


def _missing(rows: int, pieces: list[tuple[int, Answer]]) -> list[Rows]:
    """Return the runs of rows that no piece answers."""
    missing: list[Rows] = []
    row = 0
    for first, answer in sorted(pieces, key=itemgetter(0)):
        if first > row:
            missing.append((row, first))
        row = max(row, first + len(answer.values))
    if row < rows:
        missing.append((row, rows))
    return missing


def _only(query: Query, missing: list[Rows]) -> Query:
    chunks = [query.rows(first, last) for first, last in missing]
    if len(chunks) == 1:
        return chunks[0]
    points = np.concatenate([chunk.points for chunk in chunks])
    samples = [chunk.samples for chunk in chunks if chunk.samples is not None]
    return Query(points, np.concatenate(samples) if samples else None, query.order, fresh=True)


def _joined(pieces: list[tuple[int, Answer]]) -> Answer:
    if len(pieces) == 1:
        return pieces[0][1]
    first, *others = [answer for _, answer in sorted(pieces, key=itemgetter(0))]
    return first.joined(others)
