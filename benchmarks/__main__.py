"""Run all benchmarks; print tables, and write them to results/benchmarks.json and results/benchmarks.md.

`python -m benchmarks attack` runs the sections with that word in their titles; it prints tables and writes no file.
With `--record` it puts them into the record in the place of the old ones, with a note that they were run later.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numba
import numpy as np
import scipy

from benchmarks.attack import attack_rows
from benchmarks.estimates import dimension_rows, overhead_row, profile_rows, svm_rows
from benchmarks.executors import executor_rows
from benchmarks.journal import cost_rows, soak_rows
from benchmarks.peers import peer_rows
from benchmarks.resources import memory_rows, seed_row
from benchmarks.sifting import sifting_rows
from studies.record import write_json

ROOT = Path(__file__).parent.parent
FILE = ROOT / "results" / "benchmarks.json"
RECORD = "--record"
SECTIONS = {
    "Two-point estimates on an a9a-shaped SVM (n = 32,561, d = 124, one thread)": svm_rows,
    "Sifting on the same SVM, whole runs against their evaluations (medians)": sifting_rows,
    "Time against dimension, a component that costs next to nothing": dimension_rows,
    "Where the time goes at d = 100,000, where no vector stays in a core's own cache": profile_rows,
    "The plain loop's own cost a query (batch 100, d = 1,000, a function that costs nothing)": lambda: [overhead_row()],
    "Twenty seeds, compiled, on one core and on two": lambda: [seed_row()],
    "Peak memory of a compiled run, in vectors of length d": memory_rows,
    "Overhead an evaluation against peers (noisy nonsmooth finite sum, d = 1,000)": peer_rows,
    "What a journal costs beside a function of a millisecond": cost_rows,
    "Memory over a million values with a journal": soak_rows,
    "The whole attack against the bare model (LeNet-sized, 28×28 images, batches of 256)": attack_rows,
    "Speed-up by four workers on a function that sleeps (batch 64: 128 rows a query)": executor_rows,
}


def markdown(rows: list[dict[str, object]]) -> str:
    """Return rows as a Markdown table."""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += [
        "| " + " | ".join(f"{row[head]:,}" if isinstance(row[head], int) else str(row[head]) for head in heads) + " |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    """Run everything once, or the sections that the command line names."""
    words = [word for word in sys.argv[1:] if word != RECORD]
    load, sections = os.getloadavg(), {}
    for title, section in SECTIONS.items():
        if not words or any(word in title for word in words):
            sections[title] = section()
            print(f"\n{title}\n{markdown(sections[title])}", flush=True)
    if not sections:
        sys.exit(f"No section has {' or '.join(words)} in its title; there are:\n" + "\n".join(SECTIONS))
    made = {"command": "make bench", "versions": versions(), "cores": os.cpu_count(), "load": load}
    made |= {"sections": sections, "later": {}}
    if not words:
        write(made)
    elif RECORD in sys.argv:
        record = json.loads(FILE.read_text())
        note = {"command": f"python -m benchmarks {' '.join(words)} {RECORD}", "versions": versions(), "load": load}
        known = record["sections"] | sections
        record["sections"] = {title: known[title] for title in SECTIONS if title in known}
        record["later"] = record.get("later", {}) | dict.fromkeys(sections, note)
        write(record)


def versions() -> str:
    """Return the versions that speed depends on."""
    packages = {"NumPy": np, "SciPy": scipy, "numba": numba}
    return ", ".join([f"Python {platform.python_version()}", *(f"{n} {p.__version__}" for n, p in packages.items())])


def page(made) -> str:
    """Return the record as a page of Markdown."""
    parts = [
        "# Benchmarks",
        "",
        "Compare ratios, not times: all sections come from one run of `make bench` unless they say otherwise. Best of "
        f"several repetitions, medians for the attack. {made['versions']}; {made['cores']} cores.",
    ]
    for title, rows in made["sections"].items():
        parts += ["", f"## {title}", ""]
        later = made["later"].get(title)
        if later is not None:
            parts += [f"Run later, by `{later['command']}`: {later['versions']}; load {later['load'][0]:.1f}.", ""]
        parts += [markdown(rows)]
    return "\n".join(parts) + "\n"


def write(made) -> None:
    """Leave the record and the page."""
    write_json(FILE, made)
    FILE.with_suffix(".md").write_text(page(made))


if __name__ == "__main__":
    main()
