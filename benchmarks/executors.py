"""Speed-up by workers on a function that sleeps: what is lost is what handing out and gathering costs.

For mpi4py.futures the program is started by MPI, with the package `mpich` say: `mpiexec -n 1 python program.py`, whose
executor then starts its workers; or, where MPI cannot do that, `mpiexec -n 5 python -m mpi4py.futures program.py`.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import goldstein as gs
from benchmarks.timing import best
from goldstein.oracle.evaluate import Evaluator

WORKERS = 4
BATCH = 64  # two points each


def sleeps(x, seconds):
    time.sleep(seconds)
    return float(abs(x).sum())


@contextmanager
def number() -> Iterator[Any]:
    yield WORKERS


@contextmanager
def loky() -> Iterator[Any]:
    import loky

    executor = loky.get_reusable_executor(WORKERS)
    yield executor
    executor.shutdown()


@contextmanager
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def ray() -> Iterator[Any]:
    from goldstein.oracle.ray import RayPool

    yield RayPool(actors=WORKERS)


@contextmanager
def mpi() -> Iterator[Any]:
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor(WORKERS) as executor:
        yield executor


EXECUTORS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "workers=4": number,
    "threads": lambda: ThreadPoolExecutor(WORKERS),
    "processes": lambda: ProcessPoolExecutor(WORKERS),
    "loky": loky,
    "Dask": dask,
}
if importlib.util.find_spec("goldstein.oracle.ray") is not None:
    EXECUTORS["Ray"] = ray
BARS = {("Dask", 0.05): 3.0, ("Dask", 0.2): 3.3}


def executor_rows() -> list[dict[str, object]]:
    """Return the speed-up of each executor, warm, against one row after the other."""
    rows = [executor_row(name, open_, 0.05) for name, open_ in EXECUTORS.items()]
    return [*rows, executor_row("Dask", dask, 0.2), mpi_row()]


def mpi_row() -> dict[str, object]:
    """Return the speed-up of mpi4py.futures, which runs under `mpiexec`; without one there is nothing to measure."""
    mpiexec = shutil.which("mpiexec", path=Path(sys.executable).parent) or shutil.which("mpiexec")
    if mpiexec is None:
        missing = "no MPI here: pip install mpich"
        return {"workers": "mpi4py", "sleep, ms": 50, "speed-up": missing, "bar": 3.5, "first query": ""}
    command = [mpiexec, "-n", "1", sys.executable, "-m", "benchmarks.executors", "mpi4py"]
    row: dict[str, object] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return row


def executor_row(name: str, open_: Callable[[], AbstractContextManager[Any]], seconds: float) -> dict[str, object]:
    """Return the speed-up of one executor; the first query, which starts the workers, apart."""
    query = gs.Query(np.random.default_rng(0).normal(size=(2 * BATCH, 10)))
    alone = len(query) * seconds
    with open_() as workers, Evaluator(gs.Deterministic(sleeps, (seconds,)), workers) as evaluate:
        start = time.perf_counter()
        evaluate(query)
        cold = time.perf_counter() - start
        warm = best(lambda: evaluate(query), repeats=3)
    return {
        "workers": name,
        "sleep, ms": round(1000 * seconds),
        "speed-up": round(alone / warm, 2),
        "bar": BARS.get((name, seconds), 3.5),
        "first query": round(alone / cold, 2),
    }


if __name__ == "__main__":
    with_mpi = {**EXECUTORS, "mpi4py": mpi}
    for word in sys.argv[1:]:
        print(json.dumps(executor_row(word, with_mpi[word], 0.05)))
