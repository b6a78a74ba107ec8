"""Many runs at once: the same problem with different seeds, on all cores or on any workers.

To the workers a run is a row of a query: the scheduler hands it out and does it again when the machine has lost it.
"""

from __future__ import annotations

import html
import math
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.methods import Method
from goldstein.methods.kernel import compilable
from goldstein.methods.registry import resolve
from goldstein.minimize import minimize
from goldstein.oracle import Answer, Array, Oracle, Query
from goldstein.oracle.evaluate import check_workers, make_pool
from goldstein.oracle.executor import ExecutorPool
from goldstein.oracle.oracles import StartedCounter
from goldstein.oracle.pool import ProcessPool
from goldstein.oracle.scheduler import Scheduler
from goldstein.oracle.tasks import Chunk, TaskResult, WorkerPool
from goldstein.run.history import COLUMNS
from goldstein.run.result import Result, Status
from goldstein.warnings import warn

REFUSED = {
    "rng": "each run has its own seed",
    "processes": "workers= says how many runs are done at a time",
    "progress": "done= is called as each run ends",
    "timeout": "the runs are done by workers, and evaluations within a run by whoever does that",
    "checkpoint": "journal= is a folder that keeps every value of every run",
}


MOST_WARNINGS = 20  # of one run that are passed on
STACKED = ("fun", "fun_stderr", "nfev", "nfail", "success")


class ManyResults(list[Result]):
    """The results of `minimize_many`, in the order of the seeds, with their fields stacked.

    Attributes
    ----------
    x : ndarray, shape (k, d)
        The answers.
    fun, fun_stderr, nfev, nfail, success : ndarray, shape (k,)
        As in `Result`.
    history : dict of ndarray, shape (k, records)
        The columns of `History`; shorter runs are filled up with NaN.
    """

    @property
    def x(self) -> Array:
        """The answers, one a row."""
        return np.stack([result.x for result in self])

    def __getattr__(self, name: str) -> Array:
        if name in STACKED:
            return np.array([result[name] for result in self])
        raise AttributeError(f"{name!r} is stacked for no runs; known are {', '.join(STACKED)}, x and history.")

    def __repr__(self) -> str:
        """Say what a person wants to know first: how low the runs ended, and which of them."""
        if not self:
            return "no runs"
        fun = self.fun
        lines = [
            f"{len(self)} runs of {self[0].method.name}, {self.nfev.sum():,} evaluations in all",
            f"f(x): median {np.median(fun):.6g}, mean {fun.mean():.6g}, standard deviation {fun.std():.3g}",
        ]
        if np.isfinite(fun).any():
            best = int(np.nanargmin(fun))
            lines.append(f"lowest: {fun[best]:.6g}, of the run with index {best}; highest: {np.nanmax(fun):.6g}")
        names = [result.status.name for result in self]
        lines.append("ended: " + ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)))
        lines.append('more: runs[0], runs.x, runs.fun, runs.history; runs.plot("runs.svg")')
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the same for notebooks."""
        return f"<pre>{html.escape(repr(self))}</pre>"

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

    def plot(self, path: str | os.PathLike[str] | None = None, *, axes: Any = None, label: str | None = None) -> Any:
        """Draw the median of the runs against their evaluations, in a band from the 10 % to the 90 % quantile.

        What is drawn is the monitor if there was one, else the values. Needs the extra plot.

        Parameters
        ----------
        path : path-like, optional
            Where the picture goes; its suffix says in which format, such as .png or .svg. None: it is only drawn.
        axes : matplotlib.axes.Axes, optional
            Where to draw: those of other runs, to compare methods. None: a new figure.
        label : str, optional
            Name of the curve; None: that of the method.

        Returns
        -------
        matplotlib.axes.Axes

        Notes
        -----
        Several methods in one picture: `axes = runs.plot()`, then `others.plot("both.svg", axes=axes)`.
        """
        from goldstein import plot

        return plot.runs(self, path, axes=axes, label=label)


@dataclass(eq=False)
class Ended(Answer):
    """The answer of a worker who has done some runs: their results."""

    results: tuple[Result, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass
class Runs:
    """What workers are employed for: a row of the query is a run, and its point says which."""

    fun: Any
    starts: Array
    method: str | Method
    seeds: list[int]
    folder: Path | None
    kwargs: dict[str, Any]
    home: int = field(default_factory=os.getpid)

    def __call__(self, chunk: Chunk, counter: StartedCounter | None = None) -> TaskResult:
        """Do the runs of a chunk; it never raises, like the `Task` of an oracle."""
        counter = StartedCounter() if counter is None else counter
        begun = time.perf_counter()
        results = []
        heard: list[str] = []
        try:
            for index in chunk.query.points[:, 0].astype(int).tolist():
                counter.started += 1
                with self._listening(heard):
                    results.append(self.run(index))
        except BaseException as error:
            return TaskResult(chunk.first, counter.started, error=error, traceback=traceback.format_exc())
        answer = Ended(np.zeros(len(results)), results=tuple(results), warnings=tuple(heard))
        return TaskResult(chunk.first, counter.started, answer, seconds=time.perf_counter() - begun)

    @contextmanager
    def _listening(self, heard: list[str]) -> Iterator[None]:
        """Take note of warnings in another process, where nobody would see them."""
        if os.getpid() == self.home:
            yield
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        sentences = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, RuntimeWarning))
        heard += list(sentences)[:MOST_WARNINGS]

    def run(self, index: int) -> Result:
        """Return the run of one seed; what its journal holds is not asked for again."""
        seed = self.seeds[index]
        start = self.starts[index] if self.starts.ndim == 2 else self.starts
        journal = None if self.folder is None else self.folder / f"seed-{seed}.journal"
        return minimize(self.fun, start, self.method, rng=seed, journal=journal, **self.kwargs)


class Arrivals:
    """Takes the results of runs as they arrive; see `EvaluationLog`."""

    def __init__(self, seeds: list[int], done: Callable[[int, Result], Any] | None) -> None:
        self.results: list[Result | None] = [None] * len(seeds)
        self._seeds = seeds
        self._done = done
        self._heard: set[str] = set()

    def start(self, first: int, rows: int) -> None:
        """Nothing is to be said of runs that begin."""

    def take_back(self, rows: int) -> None:
        """Nor of those that do not."""

    def record(self, first: int, answer: Answer) -> None:
        """Keep the results of runs from the one with index `first` on."""
        if not isinstance(answer, Ended):  # what the scheduler puts in the place of a row that was lost too often
            raise RuntimeError(
                f"The run with seed {self._seeds[first]} took its worker with it each time that it was begun; see "
                "whether a worker can do it at all."
            )
        for index, result in enumerate(answer.results, first):
            self.keep(index, result)
        for sentence in answer.warnings:
            if sentence not in self._heard:
                self._heard.add(sentence)
                warn(sentence)

    def keep(self, index: int, result: Result) -> None:
        """Keep the result of one run."""
        self.results[index] = result
        if self._done is not None:
            self._done(index, result)


def minimize_many(
    fun: Oracle | Callable[[Array], float],
    x0: npt.ArrayLike,
    method: str | Method = "auto",
    *,
    seeds: int | Iterable[int],
    workers: Any = None,
    journal: str | os.PathLike[str] | None = None,
    done: Callable[[int, Result], Any] | None = None,
    **kwargs: Any,
) -> ManyResults:
    """Run `minimize` once for each seed, on all cores or on any workers.

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
    workers : int, executor, map-like callable or pool, optional
        Who does the runs, each of them one run at a time: a number of them on this machine (None, −1: as many as there
        are cores), or whatever `minimize` takes as `workers`. The run of a worker who dies is done again.
    journal : path, optional
        Folder for a journal of each run, `seed-….journal`. When it holds some of this sweep, that goes on where it was:
        what a run was told is not asked for again, and a run that has ended is only read.
    done : callable, optional
        `done(index, result)` is called as each run ends, for progress.
    **kwargs
        Further arguments of `minimize`, but for `rng`, `progress` and `timeout`. `retries` also says how often a run is
        begun again that took its worker with it.

    Returns
    -------
    ManyResults
        A list of `Result` with `x`, `fun`, `nfev` and `history` stacked. After Ctrl-C it holds the runs that had ended,
        if any had.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> runs = gs.minimize_many(lambda x: abs(x).sum(), np.ones(2), gs.GFM(0.01, 0.01), seeds=3, max_evals=500)
    >>> runs.x.shape, runs.history["fun"].shape[0]
    ((3, 2), 3)
    """
    for name, instead in REFUSED.items():
        if name in kwargs:
            raise TypeError(f"minimize_many takes no {name}: {instead}.")
    if isinstance(seeds, Iterable):
        wanted = [arguments.count("each of seeds", seed, least=0) for seed in seeds]
        if not wanted:
            raise ValueError("seeds must hold at least one seed.")
    else:
        wanted = list(range(arguments.count("seeds", seeds)))
    starts = arguments.reals("x0", x0, "a vector of real numbers, or one for each seed")
    if starts.ndim == 2 and len(starts) != len(wanted):
        raise ValueError(f"x0 has {len(starts)} rows for {len(wanted)} seeds.")
    retries = arguments.count("retries", kwargs.get("retries", 2), least=0)
    check_workers(workers)
    folder = _folder(journal, wanted)
    runs = Runs(fun, starts, method, wanted, folder, kwargs)
    arrivals = Arrivals(wanted, done)
    with _worker_pool(workers, runs, _shares_process(fun, method, kwargs)) as pool:
        if pool is None:
            _one_by_one(runs, arrivals)
        else:
            # No run hangs however long it takes, and with a timeout none waits behind another one at a worker.
            scheduler = Scheduler(pool, math.inf, retries, even=False)
            query = Query(np.arange(len(wanted), dtype=float)[:, None])
            try:
                scheduler.batch(query, [(0, len(wanted))], arrivals, None).run()
            except KeyboardInterrupt:
                if all(result is None for result in arrivals.results):
                    raise
    return ManyResults(result for result in arrivals.results if result is not None)


def _folder(journal: Any, seeds: list[int]) -> Path | None:
    """Return the folder of the journals, which is made if need be."""
    if journal is None:
        return None
    if not isinstance(journal, str | os.PathLike):
        raise TypeError(f"journal must be a folder, got {type(journal).__name__}.")
    if len(set(seeds)) < len(seeds):
        raise ValueError("seeds must be different from each other, since each names the journal of its run.")
    folder = Path(journal)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"journal must be a folder for the journals of all runs, but {folder} is a file.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _shares_process(fun: Any, method: str | Method, kwargs: dict[str, Any]) -> bool:
    """Whether the runs are compiled, so that threads are enough."""
    if kwargs.get("compiled") is False or not isinstance(fun, Oracle):
        return False
    return compilable(resolve(method, kwargs.get("options")), fun)


@contextmanager
def _worker_pool(workers: Any, runs: Runs, threads: bool) -> Iterator[WorkerPool | None]:
    """Lend those who do the runs; None: this process does, one after the other."""
    pool: WorkerPool | None
    with ExitStack() as hired:
        if workers is None or isinstance(workers, int | np.integer):
            cores = os.cpu_count() or 1
            size = min(cores if workers in (None, -1) else int(workers), len(runs.seeds))
            if size == 1:
                pool = None
            elif threads:
                pool = ExecutorPool(hired.enter_context(ThreadPoolExecutor(size)))
            else:
                pool = ProcessPool(size)
        else:
            pool = make_pool(workers)
        if pool is not None:
            task: Any = runs  # which answers chunks as the task of an oracle does
            pool.initialize(task)
            if pool is not workers:  # a pool that was given is the user's own
                hired.callback(pool.close)
        yield pool


def _one_by_one(runs: Runs, arrivals: Arrivals) -> None:
    for index in range(len(runs.seeds)):
        result = runs.run(index)
        arrivals.keep(index, result)
        if result.status is Status.INTERRUPTED:  # Ctrl-C is meant for all of them
            return
