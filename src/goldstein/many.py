"""Many runs at once: the same problem with different seeds, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.compiled import is_jitted
from goldstein.methods import Method
from goldstein.minimize import minimize
from goldstein.oracle import Array, Oracle
from goldstein.run.history import COLUMNS
from goldstein.run.result import Result, Status


class ManyResults(list[Result]):
    """The results of `minimize_many`, in the order of the seeds, with their parts stacked.

    Attributes
    ----------
    x : ndarray, shape (k, d)
        The answers.
    fun, fun_stderr, nfev, nfail : ndarray, shape (k,)
        As in `Result`.
    history : dict of ndarray, shape (k, records)
        The columns of `History`; shorter runs are filled up with NaN.
    """

    @property
    def x(self) -> Array:
        """The answers, one a row."""
        return np.stack([result.x for result in self])

    def __getattr__(self, name: str) -> Array:
        if name in ("fun", "fun_stderr", "nfev", "nfail"):
            return np.array([result[name] for result in self])
        raise AttributeError(name)

    @property
    def history(self) -> dict[str, Array]:
        """The histories, one run a row."""
        longest = max(len(result.history.nfev) for result in self)
        stacked = {name: np.full((len(self), longest), np.nan) for name in COLUMNS}
        for row, result in enumerate(self):
            for name in COLUMNS:
                column = result.history[name]
                stacked[name][row, : len(column)] = column
        return stacked


_work: Callable[[int], Result] | None = None


def _set_work(work: Callable[[int], Result]) -> None:
    """Give a pool's process its work once; with forked processes nothing has to be pickled."""
    global _work
    _work = work


def _do_work(index: int) -> Result:
    assert _work is not None
    return _work(index)


def minimize_many(
    fun: Oracle | Callable[[Array], float],
    x0: npt.ArrayLike,
    method: str | Method = "auto",
    *,
    seeds: int | Iterable[int],
    processes: int | None = None,
    done: Callable[[int, Result], Any] | None = None,
    **kwargs: Any,
) -> ManyResults:
    """Run `minimize` once for each seed, on all cores.

    Compiled runs share the process (they release Python's lock); others run in processes of their own. Each run is
    the one that `minimize` gives with that seed.

    Parameters
    ----------
    fun, method
        As in `minimize`.
    x0 : array_like, shape (d,) or (k, d)
        One start point for all runs, or one for each.
    seeds : int or sequence of int
        The seeds; a number k means 0, …, k − 1.
    processes : int, optional
        How many runs at a time; None: as many as there are cores.
    done : callable, optional
        `done(index, result)` is called as each run ends, for progress.
    **kwargs
        Further arguments of `minimize`, but for `rng`, `workers` and `journal`.

    Returns
    -------
    ManyResults
        A list of `Result` with `x`, `fun`, `nfev` and `history` stacked.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> runs = gs.minimize_many(lambda x: abs(x).sum(), np.ones(2), gs.GFM(0.01, 0.01), seeds=3, max_evals=500)
    >>> runs.x.shape, runs.history["fun"].shape[0]
    ((3, 2), 3)
    """
    for name in ("rng", "workers", "journal"):
        if name in kwargs:
            raise TypeError(f"minimize_many takes no {name}: each run has its own seed and its own core.")
    if isinstance(seeds, Iterable):
        wanted = [arguments.count("each of seeds", seed, least=0) for seed in seeds]
        if not wanted:
            raise ValueError("seeds must hold at least one seed.")
    else:
        wanted = list(range(arguments.count("seeds", seeds)))
    processes = arguments.optional_count("processes", processes)
    starts = arguments.reals("x0", x0, "a vector of real numbers, or one for each seed")
    if starts.ndim == 2 and len(starts) != len(wanted):
        raise ValueError(f"x0 has {len(starts)} rows for {len(wanted)} seeds.")

    def work(index: int) -> Result:
        start = starts[index] if starts.ndim == 2 else starts
        return minimize(fun, start, method, rng=wanted[index], **kwargs)

    at_once = min(processes or os.cpu_count() or 1, len(wanted))
    results: list[Result | None] = [None] * len(wanted)
    for index, result in _run_all(work, len(wanted), at_once, _shares_process(fun, kwargs)):
        results[index] = result
        if done is not None:
            done(index, result)
    return ManyResults(result for result in results if result is not None)


def _shares_process(fun: Any, kwargs: dict[str, Any]) -> bool:
    """Whether the runs are compiled, so that threads are enough."""
    return kwargs.get("compiled") is not False and isinstance(fun, Oracle) and not fun.vectorized and is_jitted(fun.fun)


def _run_all(work: Callable[[int], Result], k: int, at_once: int, threads: bool) -> Iterator[tuple[int, Result]]:
    if at_once == 1:
        for index in range(k):
            result = work(index)
            yield index, result
            if result.status is Status.INTERRUPTED:  # Ctrl-C is meant for all of them
                return
        return
    pool: Executor
    if threads:
        pool, task = ThreadPoolExecutor(at_once), work
    else:
        pool, task = ProcessPoolExecutor(at_once, initializer=_set_work, initargs=(work,)), _do_work
    with pool:
        futures: dict[Future[Result], int] = {pool.submit(task, index): index for index in range(k)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)
