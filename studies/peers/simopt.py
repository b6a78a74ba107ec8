"""SimOpt's problems against its own solvers: a family of its own, run in an environment that has simoptlib."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from studies import peers_simopt
from studies.peers.methods import AUTO
from studies.peers.task import REPLAYABLE, Cell

MACROREPLICATIONS = tuple(range(10))
SECONDS = 5.0  # of a run, about


def cells(quick: bool = False) -> Iterator[Cell]:
    """Yield the problems at their own budgets; none where simoptlib is not installed."""
    if find_spec("simopt") is None:
        return
    from simopt.directory import problem_directory

    for name in peers_simopt.PROBLEMS[:2] if quick else peers_simopt.PROBLEMS:
        problem = problem_directory[name]()
        yield Cell(
            family="simopt",
            problem=name,
            d=int(problem.dim),
            noise=REPLAYABLE,
            budget=int(problem.factors["budget"]),
            seeds=MACROREPLICATIONS[:1] if quick else MACROREPLICATIONS,
            run=partial(_run, name),
            methods=dict.fromkeys((AUTO, *peers_simopt.SOLVERS)),
            seconds=lambda _: SECONDS,
            few={},
        )


def _run(problem: str, method: str, macroreplication: int) -> Mapping[str, Any]:
    solver = peers_simopt.OURS if method == AUTO else method
    outcome = peers_simopt.run(problem, solver, macroreplication)
    return {"start": outcome.start, "end": outcome.value, "nfev": outcome.nfev}
