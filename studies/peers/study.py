"""The library's default against what a user could call instead, at equal evaluations: `python -m studies peers`.

Cells × methods × seeds; every value is counted where it is handed out. The results file is what is kept: a run that is
in it is not done again, unless its method is named by `methods` and its code has changed since.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from studies import record
from studies.peers import classical, coco, simopt, stochastic
from studies.peers.methods import AUTO, PEERS, USUAL, stamp
from studies.peers.task import TUNING_SEEDS, Cell
from studies.record import Unsupported
from studies.work import Piece, Work, study_bar

FILE = "peers.json"
VERSION = 1  # of the computation: to be raised when the same cell, method and seed give other numbers
FAMILIES: dict[str, Callable[[bool], Iterator[Cell]]] = {
    "classical": classical.cells,
    "long": classical.long_cells,
    "stochastic": stochastic.cells,
    "coco-noisy": coco.noisy_cells,
    "coco-large": coco.large_cells,
    "simopt": simopt.cells,
}
Record = dict[str, Any]
Row = list[Any]  # seed, f at the start, f at the end, values, code


def run(
    out: Path,
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
    tuning: bool = False,
    families: Mapping[str, Callable[[bool], Iterator[Cell]]] = FAMILIES,
) -> Record:
    """Do the runs that peers.json in `out` does not hold; leave it, and tables and figures in `out`/peers.

    Parameters
    ----------
    out : Path
    quick : bool
        A few small cells, two seeds.
    only : sequence of str
        Families to run; all when empty.
    methods : sequence of str
        Methods to run, and to run again if their code is another one than in the results; what others have done
        stays. All that compete when empty, and then nothing is run again.
    seeds : sequence of int
        Other seeds than those of the cells.
    tuning : bool
        The problems on which constants may be chosen, with the seeds that are kept for that.
    families : mapping
        Where the cells come from.
    """
    from studies.peers import report

    _known("family", only, families)
    results = _begun(out) or _new(quick)
    with study_bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of methods on functions they were not made for; their answers say it
        task = progress.add_task("cells", total=None)
        study = Study(out, results, methods, partial(progress.advance, task))
        todo = []
        for family in only or families:
            found = list(families[family](quick))
            if only and not found:
                raise Unsupported(f"The family {family} cannot run here: what it needs is not installed.")
            for cell in found:
                if quick and not seeds:
                    cell = replace(cell, seeds=cell.seeds[:2])
                if tuning and not cell.tuned:
                    continue
                if tuning and not seeds:
                    cell = replace(cell, seeds=TUNING_SEEDS)
                todo.append(replace(cell, seeds=tuple(seeds)) if seeds else cell)
        _known("method", methods, {name for cell in todo for name in cell.methods})
        progress.update(task, total=sum(study.cost(cell) for cell in todo))
        for cell in todo:
            progress.update(task, description=f"{cell.family}: {cell.problem}"[:40])
            study.do(cell)
    if results["cells"]:
        report.write(results, out / "peers")
    return results


class Study:
    """The runs of cells, kept in the results as they come.

    Parameters
    ----------
    out : Path
    results : dict
        Results so far; they are added to and written after each cell. Runs of a cell that was not finished are found
        in the folder of the pieces.
    methods : sequence of str
        See `run`.
    advance : callable
        Told how many seconds' worth of work is done.
    """

    def __init__(
        self, out: Path, results: Record, methods: Sequence[str] = (), advance: Callable[[float], Any] = lambda _: None
    ) -> None:
        self.out = out
        self.results = results
        self.methods = tuple(methods)
        self.work = Work(out / "peers", jobs=1, advance=advance)  # COCO and pycma have one random state a process

    def cost(self, cell: Cell) -> float:
        """Return about how many seconds the runs take that are still to be done."""
        return sum(cell.seconds(method) for method, _ in self.missing(cell))

    def missing(self, cell: Cell) -> list[tuple[str, int]]:
        """Return the methods and seeds to run."""
        chosen = self.methods or tuple(name for name in cell.methods if name in USUAL or name not in PEERS)
        kept = self.results["cells"].get(cell.key, {"runs": {}})["runs"]
        out = []
        for method in chosen:
            if cell.methods.get(method, "not here") is not None:
                continue
            rows: list[Row] = kept.get(method, [])
            good = {row[0] for row in rows if not self.methods or row[4] == _stamp(method)}
            out += [(method, seed) for seed in cell.seeds_of(method) if seed not in good]
        return out

    def do(self, cell: Cell) -> None:
        """Run what is missing in a cell and keep it."""
        entry = self._entry(cell)
        missing = self.missing(cell)
        if not missing:
            return
        started = time.process_time()
        found = self.work.all([self._piece(cell, method, seed) for method, seed in missing])
        for (method, seed), run in zip(missing, found, strict=True):
            rows = [row for row in entry["runs"].get(method, []) if row[0] != seed]
            rows.append([seed, run["start"], run["end"], run["nfev"], _stamp(method)])
            entry["runs"][method] = sorted(rows)
        spent = self.results["cpu_seconds"]
        spent[cell.family] = round(spent.get(cell.family, 0.0) + time.process_time() - started, 1)
        save(self.results, self.out)

    def _entry(self, cell: Cell) -> Record:
        """Return the place of a cell in the results, as it is described today."""
        entry: Record = self.results["cells"].setdefault(cell.key, {"runs": {}})
        about = {name: getattr(cell, name) for name in ("family", "problem", "d", "noise", "budget", "tuned", "f_star")}
        reasons = {name: reason for name, reason in cell.methods.items() if reason is not None and name in USUAL}
        entry |= about | {"left_out": reasons}
        return entry

    def _piece(self, cell: Cell, method: str, seed: int) -> Piece:
        spec = {"version": VERSION, "cell": cell.key, "method": method, "seed": seed, "code": _stamp(method)}

        def play(_: Any) -> Mapping[str, Any]:
            run = cell.run(method, seed)
            if method in PEERS and run["nfev"] > cell.budget:  # SimOpt's solvers keep to SimOpt's own count
                raise RuntimeError(f"{method} took {run['nfev']} values of {cell.budget} in {cell.key}.")
            return run

        return Piece(spec, cell.seconds(method), play)


def save(results: Record, out: Path) -> None:
    """Write the results, one cell a line."""
    out.mkdir(parents=True, exist_ok=True)
    head = {key: value for key, value in results.items() if key != "cells"}
    lines = []
    for key, cell in results["cells"].items():
        text = json.dumps(cell, ensure_ascii=False, separators=(",", ":"))
        lines.append(f"{json.dumps(key, ensure_ascii=False)}:{text}")
    start = json.dumps(head, indent=1, ensure_ascii=False)[:-2]
    record.write_whole(out / FILE, start + ',\n "cells": {\n' + ",\n".join(lines) + "\n }\n}\n")


def read(out: Path) -> Record:
    """Read the results."""
    results: Record = json.loads((out / FILE).read_text())
    return results


def forget(out: Path, only: Sequence[str] = (), methods: Sequence[str] = ()) -> None:
    """Take runs out of the results, so that they are done again: of these families and methods, all when empty."""
    for path in (out / "peers" / "cells").glob("*.json"):
        os.unlink(path)
    if not (out / FILE).exists():
        return
    results = read(out)
    for key, cell in list(results["cells"].items()):
        if only and cell["family"] not in only:
            continue
        cell["runs"] = {name: rows for name, rows in cell["runs"].items() if methods and name not in methods}
        if not cell["runs"]:
            del results["cells"][key]
    save(results, out)


def _stamp(method: str) -> str:
    """Return what the results of a method depend on; solvers of SimOpt are not among the peers."""
    return stamp(method) if method in PEERS else f"simoptlib {version('simoptlib')}"


def _new(quick: bool) -> Record:
    made = record.provenance(record.command("peers", quick=quick))
    return {**made, "version": VERSION, "quick": quick, "cpu_seconds": {}, "cells": {}}


def _begun(out: Path) -> Record | None:
    """Return what an earlier start has done; results of another version are neither mixed in nor lost."""
    if not (out / FILE).exists():
        return None
    results = read(out)
    if results.get("version") != VERSION:
        raise Unsupported(f"{out / FILE} holds results of another version of the study: move it away.")
    return results


def _known(what: str, given: Sequence[str], names: Any) -> None:
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise Unsupported(f"The study has no {what} {unknown!r}; it has {'; '.join(sorted(names))}.")


__all__ = ["AUTO", "FAMILIES", "FILE", "Study", "forget", "read", "run", "save"]
