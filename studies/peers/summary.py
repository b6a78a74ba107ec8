"""What the results say: shares of the gap left, and the bars that the default must pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies.peers.methods import AUTO, PEERS, PYCMA, PYCMA_TOLD, SCIPY_BFGS
from studies.peers.task import NONE, TUNING_SEEDS
from studies.problems import catalogue
from studies.record import number

FLOOR = 1e-6  # shares below it count as equal
FACTOR = 2.0  # what "not worse by much" means
PROGRESS = 0.95  # a run that leaves less of the gap has made progress
SIMOPT_MARGIN = 0.02
COCO_AIM = {5: 1e-5, 20: 2e-3}
COCO_FIRST = tuple(f"f{function}" for function in range(101, 113))
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Judged:
    """A cell with the share of the gap that each method leaves: the median over its seeds.

    Attributes
    ----------
    cell : mapping
        As in the results.
    shares : dict
        Method to median share, not floored; for SimOpt the mean.
    runs : dict
        Method to the shares of its seeds.
    lowest : float
        f*.
    """

    key: str
    cell: Record
    shares: dict[str, float]
    runs: dict[str, dict[int, float]]
    lowest: float

    @property
    def best(self) -> str:
        """The untuned method that leaves least."""
        rivals = {name: share for name, share in self.shares.items() if competes(name)}
        return min(rivals, key=lambda name: (max(rivals[name], FLOOR), name != AUTO))

    @property
    def ratio(self) -> float:
        """How many times as much as the best "auto" leaves, shares floored."""
        return max(self.shares[AUTO], FLOOR) / max(self.shares[self.best], FLOOR)

    @property
    def anyone(self) -> bool:
        """Whether any untuned method has made progress."""
        return self.shares[self.best] <= PROGRESS


def competes(method: str) -> bool:
    """Whether a method is one of the untuned ones; all of SimOpt's are."""
    return method not in PEERS or PEERS[method].competes


def judged(results: Record, tuning: bool = False) -> list[Judged]:
    """Return all cells that have runs of "auto"; seeds that tune are left out, or the only ones with `tuning`."""
    out = []
    for key, cell in results["cells"].items():
        rows = {
            name: [row for row in runs if (row[0] in TUNING_SEEDS) == tuning] for name, runs in cell["runs"].items()
        }
        rows = {name: found for name, found in rows.items() if found}
        if AUTO not in rows:
            continue
        seen = min(number(row[2]) for found in rows.values() for row in found)
        lowest = seen if cell["f_star"] is None else cell["f_star"]
        runs = {name: {row[0]: _share(row, lowest) for row in found} for name, found in rows.items()}
        centre = np.mean if cell["family"] == "simopt" else np.median
        shares = {name: float(centre(list(found.values()))) for name, found in runs.items()}
        out.append(Judged(key, cell, shares, runs, lowest))
    return out


def _share(row: list[Any], lowest: float) -> float:
    """Return the share of the gap left; what ends beyond all numbers leaves all and more."""
    gap = row[1] - lowest
    left = number(row[2]) - lowest
    if gap <= 0:  # the start is the best point known
        return 0.0 if left <= 0 else 1.0
    return float(max(left, 0.0) / gap)


def bars(cells: Iterable[Judged]) -> dict[str, Any]:
    """Return what the issue of the default asks for, in numbers, with the cells that fail.

    `never_worse` is the share of cells, among those in which anyone makes progress, where "auto" leaves at most twice
    what the best untuned method leaves; `firsts` the number of cells in which nobody leaves less.
    """
    every = list(cells)
    kinds = {
        "all": every,
        "not tuned on": [cell for cell in every if not cell.cell["tuned"]],
        "tuned on": [cell for cell in every if cell.cell["tuned"]],
    }
    out: dict[str, Any] = {"never_worse": {kind: _never_worse(chosen) for kind, chosen in kinds.items()}}
    families = dict.fromkeys(cell.cell["family"] for cell in every)
    out["families"] = {
        family: _never_worse([cell for cell in every if cell.cell["family"] == family]) for family in families
    }
    out["noises"] = {
        noise: _never_worse([cell for cell in every if cell.cell["noise"] == noise])
        for noise in dict.fromkeys(cell.cell["noise"] for cell in every)
    }
    out["without_noise"] = _without_noise([cell for cell in every if cell.cell["family"] == "classical"])
    out["coco"] = {
        d: _coco([cell for cell in every if cell.cell["family"] == "coco-noisy" and cell.cell["d"] == d], aim)
        for d, aim in COCO_AIM.items()
    }
    out["simopt"] = _simopt([cell for cell in every if cell.cell["family"] == "simopt"])
    return out


def _never_worse(cells: list[Judged]) -> dict[str, Any]:
    asked = [cell for cell in cells if cell.anyone]
    bad = [cell for cell in asked if cell.ratio > FACTOR]
    return {
        "cells": len(asked),
        "nobody_progresses": len(cells) - len(asked),
        "within": len(asked) - len(bad),
        "share": (len(asked) - len(bad)) / len(asked) if asked else None,
        "firsts": sum(cell.ratio <= 1 for cell in asked),
        "exceptions": [
            {"cell": cell.key, "auto": cell.shares[AUTO], "best": cell.best, "leaves": cell.shares[cell.best]}
            for cell in sorted(bad, key=lambda cell: -cell.ratio)
        ],
    }


def _without_noise(cells: list[Judged]) -> dict[str, Any]:
    """Against the better of pycma and scipy's BFGS with 200·d values, on the functions of `problems/`."""
    known = catalogue()
    verdicts: dict[str, list[bool]] = {}
    bad = []
    for cell in cells:
        rivals = [cell.shares[name] for name in (PYCMA, SCIPY_BFGS) if name in cell.shares]
        if cell.cell["problem"] not in known or not rivals:
            continue
        good = max(cell.shares[AUTO], FLOOR) <= FACTOR * max(min(rivals), FLOOR)
        verdicts.setdefault(cell.cell["problem"], []).append(good)
        if not good:
            bad.append({"cell": cell.key, "auto": cell.shares[AUTO], "leaves": min(rivals)})
    passed = [name for name, seen in verdicts.items() if 2 * sum(seen) >= len(seen)]
    return {
        "functions": len(verdicts),
        "functions_within": len(passed),
        "share": len(passed) / len(verdicts) if verdicts else None,
        "cells": sum(map(len, verdicts.values())),
        "cells_within": sum(map(sum, verdicts.values())),
        "exceptions": bad,
    }


def _coco(cells: list[Judged], aim: float) -> dict[str, Any]:
    """Medians over functions and instances, and where pycma makes progress and "auto" none.

    The aim is taken to be for the first twelve functions, sphere and Rosenbrock with all kinds of noise: there pycma
    leaves what the aim was derived from. The medians over all functions, most with severe noise, stand beside.
    """
    first = [cell for cell in cells if cell.cell["problem"] in COCO_FIRST]
    medians = _medians(first)
    stuck = [
        cell.cell["problem"]
        for cell in cells
        if cell.shares[AUTO] > PROGRESS
        and min(cell.shares.get(name, np.inf) for name in (PYCMA, PYCMA_TOLD)) <= PROGRESS
    ]
    median = medians[AUTO]
    reached = median is not None and median <= aim
    return {"aim": aim, "medians": medians, "all": _medians(cells), "reached": reached, "no_progress": stuck}


def _medians(cells: list[Judged]) -> dict[str, float | None]:
    """Return the median over all runs of a method."""
    out = {}
    for method in (AUTO, PYCMA, PYCMA_TOLD):
        shares = [share for cell in cells for share in cell.runs.get(method, {}).values()]
        out[method] = float(np.median(shares)) if shares else None
    return out


def _simopt(cells: list[Judged]) -> dict[str, Any]:
    """First, or within 2 % of the gap of the best solver; means over the macroreplications."""
    rows = {}
    for cell in cells:
        rivals = {name: share for name, share in cell.shares.items() if name != AUTO and competes(name)}
        best = min(rivals, key=lambda name: rivals[name]) if rivals else AUTO
        least = rivals.get(best, np.inf)
        good = cell.shares[AUTO] <= least + SIMOPT_MARGIN
        rows[cell.cell["problem"]] = {"auto": cell.shares[AUTO], "best": best, "leaves": least, "within": good}
    return {"problems": len(rows), "within": sum(row["within"] for row in rows.values()), "rows": rows}


def profile(cells: Iterable[Judged], methods: Iterable[str], factors: Any) -> dict[str, Any]:
    """Return for each method the share of its cells in which it leaves at most so many times the least.

    A method is asked only where it runs; cells in which nobody makes progress say nothing and are left out.
    """
    asked = [cell for cell in cells if cell.anyone]
    out = {}
    for method in methods:
        ratios = [
            max(cell.shares[method], FLOOR) / max(cell.shares[cell.best], FLOOR)
            for cell in asked
            if method in cell.shares
        ]
        if ratios:
            found = np.array(ratios)
            out[method] = [float(np.mean(found <= factor)) for factor in factors]
    return out


__all__ = ["FLOOR", "NONE", "Judged", "bars", "competes", "judged", "profile"]
