"""The place of SimOpt's problems and solvers: a family of its own, run in an environment that has simoptlib.

`studies.peers_simopt` does the runs. It holds `PROBLEMS`, a mapping from the name of a problem to its dimension and its
budget; `SOLVERS`, the names of the methods, "auto" among them; and `run(problem, solver, macroreplication)`, which
returns the mapping of a run: `start` and `end`, on common post-replications and turned to minimisation, and `nfev`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module

from studies.peers.task import REPLAYABLE, Cell

MACROREPLICATIONS = tuple(range(10))
SECONDS = 5.0  # of a run, about


def cells(quick: bool = False) -> Iterator[Cell]:
    """Yield the problems at their own budgets; none where simoptlib is not installed."""
    try:
        runs = import_module("studies.peers_simopt")
    except ModuleNotFoundError as error:
        if error.name not in ("studies.peers_simopt", "simopt"):
            raise
        return
    for problem, (d, budget) in runs.PROBLEMS.items():
        yield Cell(
            family="simopt",
            problem=problem,
            d=d,
            noise=REPLAYABLE,
            budget=budget,
            seeds=MACROREPLICATIONS[:1] if quick else MACROREPLICATIONS,
            run=partial(runs.run, problem),
            methods=dict.fromkeys(runs.SOLVERS),
            seconds=lambda _: SECONDS,
            few={},
        )
