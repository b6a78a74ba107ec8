"""What travels between two nodes of a Ray cluster in an iteration, counted on the loopback interface.

Both nodes are on this machine, all actors on the second, and the driver on the first: whatever goes from one to the
other goes through the loopback interface. `python -m benchmarks.ray_bytes` prints a table and writes
results/ray_bytes.json. Anything else on this machine that uses the interface counts too, so numbers are medians.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import numpy as np
import ray

import goldstein as gs
from goldstein.estimate import stream
from goldstein.methods.method import Context
from goldstein.oracle.evaluate import Evaluator
from goldstein.oracle.ray import RayPool
from studies.record import write_json
from tests.support.ray_cluster import IP, small_cluster

D = 100_000
BATCH = 64
ITERATIONS = 10
MOST = 3 * D * 8
FILE = Path(__file__).parent.parent / "results" / "ray_bytes.json"
METHODS = {
    "gfm": gs.GFM(0.1, 1e-3, BATCH),
    "gfm+": gs.GFMPlus(0.1, 1e-3, 4, BATCH // 2, large_batch_size=BATCH),
    "zo-o2nc": gs.ZOO2NC(0.5, 4, batch_size=BATCH),
    "sift": gs.Sift(1.0, batch_size=BATCH, max_evals_per_sample=3, decay=0.0),
}


@contextmanager
def two_nodes() -> Iterator[RayPool]:
    """Yield a pool on the second of two nodes, who has answered once."""
    with small_cluster(0) as cluster:
        store = 2**29
        cluster.add_node(num_cpus=2, resources={"second": 1}, node_ip_address=IP, object_store_memory=store)
        with RayPool(cluster.address, 2, options={"resources": {"second": 0.01}}) as pool:
            yield pool


def received() -> int:
    """Return how many bytes the loopback interface has taken."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[0])
    raise OSError("There is no loopback interface.")


def measured(seconds: float, work=None) -> tuple[float, float]:
    """Return the bytes and the seconds of some work, and of what follows from it; without work, of so many seconds."""
    before = received()
    start = time.perf_counter()
    if work is not None:
        work()
    time.sleep(seconds)
    return received() - before, time.perf_counter() - start


def component(X, i):
    return np.abs(X[:, ::100] - i[:, None]).sum(axis=1)


def row(pool: RayPool, name: str, recipes: bool, iterations: int) -> dict[str, object]:
    """Return the bytes of an iteration of a method; those of a bisection are its levels together."""
    method = METHODS[name]
    oracle = gs.FiniteSum(component, 1000, vectorized=True)
    context = Context(np.random.default_rng(0), oracle.sample, n=1000)
    state = method.init(np.ones(D), context)
    rows = []

    def iterate() -> None:
        rows.append(0)
        completed = 0
        while not completed:
            query = method.ask(state, context, None)
            rows[-1] += len(query)
            asked = query if recipes else replace(query, recipe=None)
            completed = method.tell(state, context, query, evaluate(asked).values).completed
            context.nfev += len(query)

    with Evaluator(oracle, pool) as evaluate:
        iterate()  # the first one also brings the task
        rows.clear()
        times = [measured(0.5, iterate) for _ in range(iterations)]
        idle = [measured(median(seconds for _, seconds in times)) for _ in range(iterations)]
    quiet = median(count / seconds for count, seconds in idle)
    moved = median(count - quiet * seconds for count, seconds in times)
    return {
        "method": name,
        "sent as": "recipes" if recipes else "points",
        "rows": int(median(rows)),
        "points, MB": round(median(rows) * D * 8 / 1e6, 1),
        "moved, MB": round(moved / 1e6, 3),
        "vectors": round(moved / (8 * D), 2),
        "idle, kB/s": round(quiet / 1e3, 1),
    }


def noting_row(d: int) -> dict[str, object]:
    """Return what it costs to note where in its stream the generator stood, as a share of asking itself."""
    oracle = gs.FiniteSum(component, 1000, vectorized=True)
    method = METHODS["gfm"]
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(30):
        for recipes, seen in times.items():
            stream.MANY = 0 if recipes else 10**12
            context = Context(np.random.default_rng(0), oracle.sample, n=1000)
            state = method.init(np.ones(d), context)
            start = time.process_time()
            for _ in range(max(1, 20_000 // d)):
                method.ask(state, context, None)
            seen.append(time.process_time() - start)
    return {"d": d, "time to ask with recipes / without": round(min(times[True]) / min(times[False]), 2)}


def main() -> None:
    """Measure, print and write."""
    noting = [noting_row(d) for d in (1_000, 10_000, 100_000)]
    with two_nodes() as pool:
        rows = [row(pool, name, True, ITERATIONS) for name in METHODS]
        rows.append(row(pool, "gfm", False, 3))
    for line in (*rows, *noting):
        print(line)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, Ray {ray.__version__}"
    made = {
        "command": "python -m benchmarks.ray_bytes",
        "versions": versions,
        "d": D,
        "most bytes": MOST,
        "rows": rows,
        "noting": noting,
    }
    write_json(FILE, made)


if __name__ == "__main__":
    main()
