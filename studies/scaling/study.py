"""Scaling: do plans reach their targets, and how do evaluations grow with ε, d and δ when steps are tuned?

`python -m studies scaling` runs both parts, writes what it has after each unit of work, and goes on where it
was stopped. Planned runs say nothing about exponents, since their lengths are set by formula; those come from the tuned
part, hold for its two problems, and stand beside the worst case of the theorems.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from studies.record import Unsupported, command, provenance, write_whole
from studies.scaling import planned, tuned
from studies.scaling.problems import TERRAINS

FILE = "scaling.json"
VERSION = 1  # of the computation: to be raised when the same settings give other numbers


def run(out: Path, *, quick: bool = False, workers: int | None = None) -> dict[str, Any]:
    """Do what is not done yet; leave scaling.json, scaling.md and scaling.png in `out`."""
    from studies.scaling import report

    seeds, tuning = (planned.QUICK, tuned.QUICK) if quick else (planned.FULL, tuned.FULL)
    threads = workers or os.cpu_count() or 1
    record = work(out, seeds, tuning, quick=quick, workers=threads, say=partial(print, flush=True))
    report.write(record, out)
    return record


def work(
    out: Path,
    seeds: planned.Seeds,
    tuning: tuned.Tuning,
    *,
    quick: bool = False,
    workers: int = 1,
    say: Callable[[str], Any] = lambda text: None,
) -> dict[str, Any]:
    """Do the units of both parts that scaling.json does not hold yet, and write it after each of them."""
    if set(tuning.tuning_seeds) & set(tuning.reporting_seeds):
        raise ValueError("A seed that tunes must not report.")
    settings = json.loads(json.dumps({"planned": asdict(seeds), "tuned": asdict(tuning)}))
    record = _begun(out, settings) or {
        **provenance(command("scaling", quick=quick)),
        "version": VERSION,
        "quick": quick,
        "settings": settings,
        "terrains": {name: terrain.text for name, terrain in TERRAINS.items()},
        "cpu_seconds": 0.0,
        "planned": {},
        "tuned": {},
    }
    jobs: list[tuple[str, str, Callable[[], dict[str, Any]]]] = []
    for unit in planned.units(seeds):
        key = f"{unit.label}, {unit.problem}, {unit.epsilon:g}"
        jobs.append(("planned", key, partial(planned.measure, unit, seeds)))
    for terrain in TERRAINS:
        for d, delta in tuning.places():
            for method in tuned.METHODS:
                job = partial(tuned.measure, terrain, (d, delta), method, tuning, workers)
                jobs.append(("tuned", f"{terrain}, d = {d}, delta = {delta:g}, {method}", job))
    for number, (part, key, measure) in enumerate(jobs, 1):
        if key in record[part]:
            continue
        started = time.process_time()  # of all threads; the machine may have other work
        record[part][key] = measure()
        taken = time.process_time() - started
        record["cpu_seconds"] = round(record["cpu_seconds"] + taken, 1)
        save(record, out)
        say(f"{number}/{len(jobs)} {part}: {key} ({taken:.1f} s)")
    return record


def save(record: dict[str, Any], out: Path) -> None:
    """Write the record, one unit a line, so that a run that is stopped loses only the unit it was at."""
    out.mkdir(parents=True, exist_ok=True)
    head = {key: value for key, value in record.items() if key not in ("planned", "tuned")}
    lines = [json.dumps(head, indent=1, ensure_ascii=False)[:-2]]
    for part in ("planned", "tuned"):
        rows = [f"  {json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in record[part].items()]
        lines.append(f' "{part}": {{\n' + ",\n".join(rows) + "\n }")
    write_whole(out / FILE, ",\n".join(lines) + "\n}\n")


def _begun(out: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return what an earlier run with the same settings has done; results of others are neither mixed in nor lost."""
    path = out / FILE
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text())
    if (record.get("version"), record.get("settings")) != (VERSION, settings):
        said = f"{path} holds results with other settings, or of another version of the study"
        raise Unsupported(f"{said}: move it away, or choose another folder.")
    return record
