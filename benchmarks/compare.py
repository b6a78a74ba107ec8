"""Two versions of the library side by side: `python -m benchmarks.compare OTHER [WORD …]`.

OTHER is a checkout of the version to compare with. Each version has a process of its own, and they take turns at each
piece of work, so that a slow minute of the machine meets both. A ratio above 1 says that this version is faster: the
median over the turns, with the quartiles. Words choose the pieces that have them in their names. What is found goes to
results/compare.json.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.work import WORK
from studies.record import write_json

ROOT = Path(__file__).parent.parent
TURNS = 9


class Version:
    """A process that does pieces of work with the library of one checkout."""

    def __init__(self, tree: Path) -> None:
        keys = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(tree / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.work"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **keys},
        )

    def time(self, name: str) -> float:
        """Return how long a piece of work took, in seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main() -> None:
    """Compare and write the table."""
    other, *words = sys.argv[1:]
    names = [name for name in WORK if not words or any(word in name for word in words)]
    before = Version(Path(other))
    now = Version(ROOT)
    rows = []
    for name in names:
        before.time(name)  # compiles, warms up
        now.time(name)
        pairs = np.array([(before.time(name), now.time(name)) for _ in range(TURNS)])
        low, middle, high = np.quantile(pairs[:, 0] / pairs[:, 1], [0.25, 0.5, 0.75])
        rows.append({"work": name, "ratio": round(middle, 3), "quartiles": [round(low, 3), round(high, 3)]})
        print(f"{name:44} {middle:6.3f}  ({low:.3f} to {high:.3f})", flush=True)
    if not words:
        made = {"command": "python -m benchmarks.compare OTHER", "turns": TURNS, "rows": rows}
        write_json(ROOT / "results" / "compare.json", made)


if __name__ == "__main__":
    main()
