"""What durability costs: time beside a function of a millisecond, and memory over a million values."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import goldstein as gs
from benchmarks.timing import ratio

VALUES = 2000
SOAK = """
import json, resource, sys, time
import numpy as np
import goldstein as gs

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

values, path = int(sys.argv[1]), sys.argv[2]
oracle = gs.Deterministic(lambda X: abs(X - 1).sum(axis=1), vectorized=True)
begun = time.perf_counter()
calls = []
early = []
res = gs.minimize(
    oracle, np.zeros(10), gs.GFM(0.01, 1e-4, 5), max_evals=values, rng=0, journal=path,
    callback=lambda so_far: early.append(peak()) if so_far.nfev > values / 10 and not early else None,
)
print(json.dumps([early[0] if early else None, peak(), time.perf_counter() - begun, res.nfev]))
"""


def slow(x: np.ndarray) -> float:
    time.sleep(1e-3)
    return float(abs(x).sum())


def cost_rows() -> list[dict[str, object]]:
    """Return the time of runs with a journal beside the same runs without one."""
    rows = []
    for name, method in {"gfm": gs.GFM(0.1, 0.01), "gfm, batch 20": gs.GFM(0.1, 0.01, 20), "auto": "auto"}.items():
        with tempfile.TemporaryDirectory() as folder:
            count = iter(range(10**6))

            def kept(method=method, folder=folder, count=count) -> None:
                path = Path(folder) / str(next(count))
                gs.minimize(slow, np.ones(5), method, max_evals=VALUES, rng=0, journal=path)

            def plain(method=method) -> None:
                gs.minimize(slow, np.ones(5), method, max_evals=VALUES, rng=0)

            with_it, without, times = ratio(kept, plain, repeats=5)
        rows.append(
            {
                "method": name,
                "values": VALUES,
                "with a journal, s": round(with_it, 3),
                "without, s": round(without, 3),
                "ratio": round(times, 3),
            }
        )
    return rows


def soak_rows(values: int = 1_000_000) -> list[dict[str, object]]:
    """Return the peak memory of a run of a million values, after a tenth of it and at its end; then played again."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        for what in ("run", "played again from the journal"):
            command = [sys.executable, "-c", SOAK, str(values), str(path)]
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            early, late, seconds, nfev = json.loads(found)
            rows.append(
                {
                    "what": what,
                    "values": nfev,
                    "peak after a tenth, MB": None if early is None else round(early, 1),
                    "peak at the end, MB": round(late, 1),
                    "seconds": round(seconds, 1),
                    "journal, MB": round(path.stat().st_size / 1e6, 1),
                }
            )
    return rows
