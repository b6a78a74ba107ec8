"""Many runs at once: the same problem with different seeds, on all cores or on any workers."""

from __future__ import annotations

import html
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.methods import Method
from goldstein.methods.kernel import compilable
from goldstein.methods.registry import resolve
from goldstein.minimize import minimize
from goldstein.oracle import Array, Oracle
from goldstein.oracle.evaluate import check_workers, make_pool
from goldstein.oracle.executor import ExecutorPool
from goldstein.oracle.oracles import StartedCounter
from goldstein.oracle.scheduler import Batch, Scheduler
from goldstein.oracle.tasks import EvaluationLog, Task, WorkerPool
from goldstein.run.history import COLUMNS
from goldstein.run.inspection import inspect
from goldstein.run.result import Result, Status
from goldstein.warnings import warn

REFUSED = {
    "rng": "each run has its own seed",
    "processes": "workers= says how many runs are done at a time",
    "progress": "done= is called as each run ends",
    "timeout": "the runs are done by workers, and each worker evaluates its own run",
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
        As in `Result`. Where noise can be replayed, all answers were judged on the same ξ: their values differ as the
        answers do, and `fun_stderr` is an error that they have in common.
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
        """Say how low the runs ended, and which of them."""
        if not self:
            return "no runs"
        fun = self.fun
        common = " on common samples" if "final_seed" in self[0].settings else ""
        lines = [
            f"{len(self)} runs of {self[0].method.name}, {self.nfev.sum():,} evaluations in all",
            f"f(x){common}: median {np.median(fun):.6g}, mean {fun.mean():.6g}, standard deviation {fun.std():.3g}",
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

        Several methods in one picture: `axes = runs.plot()`, then `others.plot("both.svg", axes=axes)`.

        Parameters
        ----------
        path, axes, label
            As in `Result.plot`; the label is that of the method unless given.

        Returns
        -------
        matplotlib.axes.Axes
        """
        from goldstein import plot

        return plot.runs(self, path, axes=axes, label=label)


@dataclass
class Sweep:
    """The runs of a sweep, which the scheduler hands out as it does the rows of a query."""

    seeds: list[int]
    starts: Array
    order: int = 0

    def __len__(self) -> int:
        return len(self.seeds)

    def rows(self, first: int, last: int) -> Sweep:
        return Sweep(self.seeds[first:last], self.starts[first:last])

    def failed(self) -> NoReturn:
        raise RuntimeError(
            f"The run with seed {self.seeds[0]} crashed its worker every time; check that it runs in a worker process."
        )


@dataclass
class FinishedRuns:
    """What a worker returns: results, and the warnings that its process would have shown."""

    results: list[Result] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Runs(Task):
    """The task of a worker: to do some runs of a sweep."""

    fun: Any
    method: str | Method
    folder: Path | None
    kwargs: dict[str, Any]
    home: int = field(default_factory=os.getpid)

    def answer(self, work: Sweep, counter: StartedCounter) -> FinishedRuns:
        finished = FinishedRuns()
        for seed, start in zip(work.seeds, work.starts, strict=True):
            counter.started += 1
            with self._listening(finished.warnings):
                finished.results.append(self.run(seed, start))
        return finished

    @contextmanager
    def _listening(self, sentences: list[str]) -> Iterator[None]:
        """Take note of warnings in another process, where they would not be seen."""
        if os.getpid() == self.home:
            yield
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        unique = dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, RuntimeWarning))
        sentences += list(unique)[:MOST_WARNINGS]

    def run(self, seed: int, start: Array) -> Result:
        """Return the run of one seed; what its journal holds is not asked for again."""
        return minimize(self.fun, start, self.method, rng=seed, journal=self.journal(seed), **self.kwargs)

    def journal(self, seed: int) -> Path | None:
        return None if self.folder is None else self.folder / f"seed-{seed}.journal"


class Arrivals(EvaluationLog):
    """Takes the results of runs as they arrive."""

    def __init__(self, runs: Runs, seeds: list[int], done: Callable[[int, Result], Any] | None) -> None:
        self.results: list[Result | None] = [None] * len(seeds)
        self._journals = [runs.journal(seed) for seed in seeds]
        self._evaluations = [0] * len(seeds)
        self._done = done
        self._heard: set[str] = set()

    def record(self, first: int, answer: FinishedRuns) -> None:
        for index, result in enumerate(answer.results, first):
            self.keep(index, result)
        for sentence in answer.warnings:
            if sentence not in self._heard:
                self._heard.add(sentence)
                warn(sentence)

    def keep(self, index: int, result: Result) -> None:
        self.results[index] = result
        if self._done is not None:
            self._done(index, result)

    def progressed(self, index: int) -> bool:
        """Whether the journal of a run, which has lost its worker, holds more than when this was last asked."""
        path = self._journals[index]
        if path is None or not path.exists():
            return False
        before = self._evaluations[index]
        self._evaluations[index] = inspect(path).evaluations
        return self._evaluations[index] > before


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
    the one that `minimize` gives with that seed. Where noise can be replayed, `final_seed=0` is the default, so that
    all answers are judged on common samples.

    Parameters
    ----------
    fun, method
        As in `minimize`.
    x0 : array_like, shape (d,) or (k, d)
        One start point for all runs, or one for each.
    seeds : int or sequence of int
        The seeds; a number k means 0, …, k − 1.
    workers : int, executor, map-like callable or pool, optional
        Each does one run at a time: a number of them on this machine (None, −1: as many as there are cores), or what
        `minimize` takes as `workers`. The run of a worker that dies is done again.
    journal : path, optional
        Folder for a journal of each run, `seed-….journal`. A sweep that it holds is continued: no value is asked for
        again, and a run that has ended is only read.
    done : callable, optional
        `done(index, result)` is called as each run ends, for progress.
    **kwargs
        Further arguments of `minimize`, but for `rng`, `progress` and `timeout`. `retries` also says how often a run is
        repeated that crashes its worker without getting further.

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
    seeds = _seeds(seeds)
    starts = arguments.reals("x0", x0, "a vector of real numbers, or one for each seed")
    if starts.ndim != 2:
        starts = np.broadcast_to(starts, (len(seeds), *starts.shape))
    elif len(starts) != len(seeds):
        raise ValueError(f"x0 has {len(starts)} rows for {len(seeds)} seeds.")
    retries = arguments.count("retries", kwargs.get("retries", 2), least=0)
    check_workers(workers)
    if isinstance(fun, Oracle) and fun.sample is not None:
        kwargs.setdefault("final_seed", 0)
    runs = Runs(fun, method, _folder(journal, seeds), kwargs)
    arrivals = Arrivals(runs, seeds, done)
    with _worker_pool(workers, len(seeds), _shares_process(fun, method, kwargs)) as pool:
        if pool is None:
            _one_by_one(runs, seeds, starts, arrivals)
        else:
            pool.initialize(runs)
            # No run waits behind another one at a worker.
            scheduler = Scheduler(pool, retries, ahead=False, progressed=arrivals.progressed)
            try:
                Batch(scheduler, Sweep(seeds, starts), [(0, len(seeds))], arrivals).run()
            except KeyboardInterrupt:
                if all(result is None for result in arrivals.results):
                    raise
    return ManyResults(result for result in arrivals.results if result is not None)


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    if not isinstance(seeds, Iterable):
        return list(range(arguments.count("seeds", seeds)))
    checked = [arguments.count("each of seeds", seed, least=0) for seed in seeds]
    if not checked:
        raise ValueError("seeds must hold at least one seed.")
    return checked


def _folder(journal: Any, seeds: list[int]) -> Path | None:
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
def _worker_pool(workers: Any, runs: int, threads: bool) -> Iterator[WorkerPool | None]:
    """Lend the workers of some runs; None: this process, one run after the other."""
    if workers is None or isinstance(workers, int | np.integer):
        size = (os.cpu_count() or 1) if workers in (None, -1) else int(workers)
        size = min(size, runs)
        if size == 1:
            yield None
            return
        if threads:
            with ThreadPoolExecutor(size) as executor, closing(ExecutorPool(executor)) as compiled:
                yield compiled
            return
        workers = size
    pool = make_pool(workers)
    try:
        yield pool
    finally:
        if pool is not None and pool is not workers:  # one that was given is the user's own
            pool.close()


def _one_by_one(runs: Runs, seeds: list[int], starts: Array, arrivals: Arrivals) -> None:
    for index, seed in enumerate(seeds):
        result = runs.run(seed, starts[index])
        arrivals.keep(index, result)
        if result.status is Status.INTERRUPTED:  # Ctrl-C is meant for all of them
            return
