"""Cores and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import goldstein as gs
from benchmarks.data import a9a_shaped
from benchmarks.timing import best

MEMORY = """
import json, sys, resource
import numpy as np
import goldstein as gs
from benchmarks.data import cheap_sum
d = int(sys.argv[1])
method = {"gfm": gs.GFM(1e-3, 1e-6), "gfm+": gs.GFMPlus(1e-3, 1e-6, 5, 2)}[sys.argv[2]]
gs.minimize(cheap_sum(d), np.zeros(d), method, max_iter=6, rng=0, compiled=True)
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


def seed_row():
    """Return the throughput of twenty seeds on two cores against one."""
    svm = a9a_shaped()
    work = {
        k: best(
            lambda k=k: gs.minimize_many(
                svm.compiled, svm.x0, gs.GFM(1e-3, 1e-4), seeds=20, max_evals=400_000, workers=k
            ),
            repeats=3,
        )
        for k in (1, 2)
    }
    return {
        "one core, s": round(work[1], 2),
        "two cores, s": round(work[2], 2),
        "speed-up": round(work[1] / work[2], 2),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 1),
    }


def memory_rows(d: int = 10_000_000):
    """Return the peak memory of a compiled run, in vectors of length d, from what it grows by between d and 2d.

    The user's own x0 (2 vectors while it is copied), the query (the direction and both points) and the copy that the
    result holds are included.
    """
    rows = []
    for name in ("gfm", "gfm+"):
        peaks = []
        for size in (d, 2 * d):
            command = [sys.executable, "-c", MEMORY, str(size), name]
            peaks.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        rows.append({"method": name, "d": d, "peak, vectors of length d": round((peaks[1] - peaks[0]) / (8 * d), 1)})
    return rows
