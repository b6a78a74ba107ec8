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
gs.minimize(cheap_sum(10), np.zeros(10), method, max_evals=2000, rng=0, compiled=True)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
gs.minimize(cheap_sum(d), np.zeros(d), method, max_iter=20, rng=0, compiled=True)
print(json.dumps((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / (8 * d)))
"""


def seed_row():
    """Return the throughput of twenty seeds on two cores against one."""
    svm = a9a_shaped()
    work = {
        k: best(
            lambda k=k: gs.minimize_many(
                svm.compiled, svm.x0, gs.GFM(1e-3, 1e-4), seeds=20, max_evals=400_000, processes=k
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


def memory_rows(d: int = 4_000_000):
    """Return the peak memory of a compiled run, in vectors of length d: x0, its copies and the query included."""
    rows = []
    for name in ("gfm", "gfm+"):
        out = subprocess.run([sys.executable, "-c", MEMORY, str(d), name], capture_output=True, text=True, check=True)
        rows.append({"method": name, "d": d, "peak, vectors of length d": round(json.loads(out.stdout), 1)})
    return rows
