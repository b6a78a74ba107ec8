"""What a run would do on a thousand workers: simulated, with latencies measured here.

`python -m benchmarks.thousand_workers` measures what a part and a query cost the driver and how long a part travels,
for each kind of workers that is installed; writes down how many rows the methods ask for at a time; simulates the
gatherer with a thousand workers; and puts the numbers into results/scale.json and the tables into docs/scale.md. With
`--tables` it only makes the tables again.

The simulation knows one driver, who sends and takes parts one after the other, and workers who do their parts in order.
The sizes of parts are those of `goldstein.oracle.scheduler.ChunkSizer`, and two are in flight a worker, as there.
"""

from __future__ import annotations

import heapq
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import goldstein as gs
from goldstein.methods import resolve
from goldstein.oracle.evaluate import Evaluator
from goldstein.oracle.scheduler import ChunkSizer
from studies.record import write_json

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "scale.json"
DOCS = ROOT / "docs" / "scale.md"
WORKERS = 1000
DIMENSION = 100
BUDGET = 20_000
SECONDS = (0.1, 1.0, 10.0, 60.0)
ROWS = (128, 512, 1000, 2000, 4000, 16_000)
SPREADS = ("even", "lognormal", "stragglers")


@dataclass(frozen=True)
class Cost:
    """What sending work costs, in seconds: a part on its way, and the driver's own time a part and a query."""

    latency: float
    part: float
    query: float


# ---- what is measured


def free(x: np.ndarray) -> float:
    """Return at once."""
    return 0.0


@contextmanager
def pools() -> Iterator[dict[str, Any]]:
    """Lend two workers of each kind that is installed."""
    with ExitStack() as hired:
        kinds: dict[str, Any] = {"workers=2": 2}
        kinds["threads"] = hired.enter_context(ThreadPoolExecutor(2))
        kinds["processes"] = hired.enter_context(ProcessPoolExecutor(2))
        with suppress(ImportError):
            from loky import ProcessPoolExecutor as Loky

            kinds["loky"] = hired.enter_context(Loky(2))
        with suppress(ImportError):
            from distributed import Client, LocalCluster

            cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            hired.enter_context(cluster)
            kinds["Dask"] = hired.enter_context(Client(cluster))
        with suppress(ImportError):
            from goldstein.oracle.ray import RayPool

            kinds["Ray"] = hired.enter_context(RayPool("local", actors=2))
        yield kinds


def measured(workers: Any, parts: int = 300) -> Cost:
    """Measure what parts of one row cost: the driver by its own CPU time, which a busy machine does not change much."""
    with Evaluator(gs.Deterministic(free), workers) as evaluate:
        gatherer = evaluate._gatherer
        assert gatherer is not None
        one = gs.Query(np.zeros((1, DIMENSION)))
        for _ in range(20):
            evaluate(one)
        latencies = []
        for _ in range(50):
            begun = time.perf_counter()
            evaluate(one)
            latencies.append(time.perf_counter() - begun)
        many = gs.Query(np.zeros((parts, DIMENSION)))
        gatherer.pace.parts = lambda rows, size, order: rows  # type: ignore[method-assign]
        evaluate(many)
        before = time.process_time()
        evaluate(many)
        part = (time.process_time() - before) / parts
    return Cost(median(latencies), part, 0.0)


def query_seconds(rows: int, d: int = 1000) -> float:
    """Measure what a query of so many rows costs the driver besides sending it: asking, telling and keeping books."""
    oracle = gs.Deterministic(lambda X: X[:, 0], vectorized=True)
    queries = 50
    best = np.inf
    for _ in range(3):
        before = time.process_time()
        gs.minimize(oracle, np.zeros(d), gs.GFM(0.1, 1e-9, rows // 2), max_iter=queries, rng=0)
        best = min(best, (time.process_time() - before) / queries)
    return float(best)


# ---- how many rows the methods ask for at a time


def smooth_kink(X: np.ndarray) -> np.ndarray:
    """Return a function without noise, with kinks, in which coordinates differ in scale."""
    scale = np.linspace(1, 10, X.shape[1])
    return np.asarray(np.abs(scale * (X - 0.3)).sum(axis=1) + 0.1 * (X**2).sum(axis=1))


def asked(method: Any, noisy: bool) -> list[int]:
    """Return how many rows each query of a run has."""
    rows: list[int] = []

    def without(X: np.ndarray) -> np.ndarray:
        rows.append(len(X))
        return smooth_kink(X)

    def component(X: np.ndarray, i: np.ndarray) -> np.ndarray:
        rows.append(len(X))
        return smooth_kink(X - 0.1 * np.sin(i)[:, None])

    oracle: Any = gs.Deterministic(without, vectorized=True)
    if noisy:
        oracle = gs.FiniteSum(component, 10_000, vectorized=True)
    gs.minimize(oracle, np.zeros(DIMENSION), method, max_evals=BUDGET, rng=0)
    return rows


METHODS: dict[str, tuple[Any, bool]] = {
    "auto, no noise": ("auto", False),
    "BFGS": ("bfgs", False),
    "auto, finite sum": ("auto", True),
    "sift, batch 1": ("sift", True),
    "sift, batch 16": (resolve("sift", {"batch_size": 16}), True),
    "sift, batch 256": (resolve("sift", {"batch_size": 256}), True),
    "CMA-ES": ("cma", True),
    "CMA-ES, population 500": (resolve("cma", {"population": 500}), True),
    "GFM, batch 1": (gs.GFM(0.01, 1e-4, 1), True),
    "GFM, batch 64": (gs.GFM(0.01, 1e-3, 64), True),
    "GFM, batch 500": (gs.GFM(0.01, 1e-3, 500), True),
    "GFM, batch 2000": (gs.GFM(0.01, 1e-3, 2000), True),
}


# ---- the simulation


def spread(kind: str, seconds: float, rng: np.random.Generator) -> Callable[[int], float]:
    """Return how long so many rows take together: a mean of `seconds` a row, spread as `kind` says."""
    if kind == "even":
        return lambda rows: rows * seconds
    if kind == "lognormal":  # a factor of e^0.5 up or down is usual
        return lambda rows: float(seconds * np.exp(rng.normal(-0.125, 0.5, rows)).sum())
    # one row in a hundred takes ten times as long as the others
    return lambda rows: float(seconds / 1.09 * (1 + 9 * (rng.random(rows) < 0.01)).sum())


class Cluster:
    """A driver and its workers, simulated event by event.

    Attributes
    ----------
    now : float
        The driver's clock, in seconds.
    worked : float
        Seconds that all workers together have worked.
    """

    def __init__(
        self, workers: int, cost: Cost, row: Callable[[int], float], seconds: float, evenly: bool = False
    ) -> None:
        self.workers = workers
        self.evenly = evenly
        self.cost = cost
        self.row = row
        self.now = 0.0
        self.worked = 0.0
        self._sizer = ChunkSizer()
        self._sizer.learn(0, 1, seconds)
        for _ in range(workers + 1):
            self._sizer.learn_latency(cost.latency, workers)

    def query(self, rows: int) -> None:
        """Have the rows of a query evaluated; the clock goes on until the last of them is there."""
        cost = self.cost
        self.now += cost.query
        number = min(self.workers, rows) if self.evenly else self._sizer.chunks(rows, self.workers, 0)
        parts = _sizes(rows, number)
        free_at = [(self.now, worker) for worker in range(min(self.workers, len(parts)))]
        arrivals: list[float] = []
        flying = 0
        while parts or flying:
            if parts and flying < 2 * self.workers:
                self.now += cost.part / 2
                ready, worker = heapq.heappop(free_at)
                seconds = self.row(parts.pop())
                self.worked += seconds
                ends = max(ready, self.now + cost.latency / 2) + seconds
                heapq.heappush(free_at, (ends, worker))
                heapq.heappush(arrivals, ends + cost.latency / 2)
                flying += 1
            else:
                self.now = max(self.now, heapq.heappop(arrivals)) + cost.part / 2
                flying -= 1


def _sizes(rows: int, parts: int) -> list[int]:
    sizes = []
    for left in range(parts, 0, -1):
        size = -(-rows // left)
        sizes.append(size)
        rows -= size
    return sizes[::-1]


def speed_up(
    rows: list[int], cost: Cost, seconds: float, kind: str, workers: int = WORKERS, evenly: bool = False
) -> float:
    """Return how many times faster than one worker, without any cost, a run with such queries is.

    `evenly`: every worker gets one part, as those of a vectorised function do.
    """
    cluster = Cluster(workers, cost, spread(kind, seconds, np.random.default_rng(0)), seconds, evenly)
    for size in rows:
        cluster.query(size)
    return cluster.worked / cluster.now


def main() -> None:
    """Measure, simulate and write everything."""
    if "--tables" not in sys.argv:
        write_json(RESULTS, everything())
    write_tables(json.loads(RESULTS.read_text()))


def everything() -> dict[str, Any]:
    """Return all numbers."""
    with pools() as kinds:
        costs = {name: measured(workers) for name, workers in kinds.items()}
    queries = {rows: query_seconds(rows) for rows in ROWS}
    taken = costs.get("Ray", costs["workers=2"])
    simulated = []
    for rows in ROWS:
        cost = Cost(taken.latency, taken.part, queries[rows])
        for seconds, evenly in [(SECONDS[0], True), *((seconds, False) for seconds in SECONDS)]:
            for kind in SPREADS:
                case = {"rows": rows, "seconds": seconds, "evenly": evenly, "spread": kind}
                simulated.append(case | {"speed_up": speed_up([rows] * 20, cost, seconds, kind, evenly=evenly)})
    methods = []
    for name, (method, noisy) in METHODS.items():
        sizes = asked(method, noisy)
        cost = Cost(taken.latency, taken.part, queries[ROWS[0]])
        ups = {f"{seconds:g} s": speed_up(sizes, cost, seconds, "lognormal") for seconds in SECONDS}
        about = {"queries": len(sizes), "median_rows": median(sizes), "largest_rows": max(sizes), "rows": sum(sizes)}
        methods.append({"method": name, **about, "speed_up": ups})
    return {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "workers": WORKERS,
        "dimension": DIMENSION,
        "pool": "Ray" if "Ray" in costs else "workers=2",
        "costs": {name: asdict(cost) for name, cost in costs.items()},
        "query_seconds": {str(rows): seconds for rows, seconds in queries.items()},
        "simulated": simulated,
        "methods": methods,
    }


def markdown(rows: list[dict[str, str]]) -> str:
    """Return rows as a Markdown table."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(row[head] for head in heads) + " |" for row in rows])


def tables(results: dict[str, Any]) -> dict[str, str]:
    """Return the tables of docs/scale.md by name."""
    costs = [
        {
            "workers": name,
            "a part under way, ms": f"{1e3 * cost['latency']:.2g}",
            "driver's time a part, ms": f"{1e3 * cost['part']:.2g}",
            "parts a second at most": f"{1 / cost['part']:,.0f}",
        }
        for name, cost in results["costs"].items()
    ]
    found: dict[int, dict[str, list[str]]] = {}
    for one in results["simulated"]:
        head = f"{one['seconds']:g} s{', vectorised' if one['evenly'] else ''}"
        found.setdefault(one["rows"], {}).setdefault(head, []).append(f"{one['speed_up']:,.0f}")
    rounds = [
        {"rows a query": f"{rows:,}"} | {head: " / ".join(ups) for head, ups in cells.items()}
        for rows, cells in found.items()
    ]
    methods = [
        {
            "method": one["method"],
            "queries": f"{one['queries']:,}",
            "rows a query: median, most": f"{one['median_rows']:,.0f}, {one['largest_rows']:,}",
        }
        | {name: f"{value:,.3g}" for name, value in one["speed_up"].items()}
        for one in results["methods"]
    ]
    return {"costs": markdown(costs), "rounds": markdown(rounds), "methods": markdown(methods)}


def write_tables(results: dict[str, Any]) -> None:
    """Put the tables into docs/scale.md, each between its marks."""
    text = DOCS.read_text()
    for name, table in tables(results).items():
        text = re.sub(rf"(<!-- {name} -->\n).*?(<!-- end -->)", rf"\g<1>{table}\n\g<2>", text, flags=re.DOTALL)
    DOCS.write_text(text)


if __name__ == "__main__":
    main()
