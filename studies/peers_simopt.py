"""SimOpt's problems at their own budgets: its solvers and ours, one macroreplication at a time.

What a solver recommends in the end is judged by post-replications that are the same for every solver and
macroreplication: SimOpt's own with common random numbers, `post_replicate(..., crn_across_macroreps=True)`. Values are
to be minimised; where SimOpt maximises they are its objective with the sign turned round.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from goldstein.minimize import minimize
from goldstein.oracle import Array

PROBLEMS = (
    "AMBULANCE-1",
    "CNTNEWS-1",
    "DYNAMNEWS-1",
    "EXAMPLE-1",
    "FIXEDSAN-1",
    "IRONORECONT-1",
    "MM1-1",
    "PARAMESTI-1",
    "SAN-1",
    "SSCONT-1",
)
SOLVERS = ("ADAM", "ALOE", "ASTRODF", "NELDMD", "RNDSRCH", "SPSA", "STRONG")
OURS = "goldstein"  # a method by name after a colon, such as "goldstein:sift"
POST_REPLICATIONS = 500


@dataclass(frozen=True)
class Outcome:
    """What a macroreplication came to."""

    problem: str
    solver: str
    macroreplication: int
    x: tuple[float, ...]
    """The point recommended in the end."""
    value: float
    """The mean of the post-replications there, to be minimised."""
    start: float
    """The same at the initial solution."""
    nfev: int
    """Replications that were really made."""
    message: str
    """What the run says of itself; empty for SimOpt's solvers."""


def run(problem: str, solver: str, macroreplication: int, post_replications: int = POST_REPLICATIONS) -> Outcome:
    """Run one macroreplication of a solver on a problem and judge its recommendation.

    Parameters
    ----------
    problem : str
        One of `PROBLEMS`, or another continuous problem of SimOpt.
    solver : str
        One of `SOLVERS`, "goldstein" for `gs.minimize` with nothing but start, bounds and budget, or
        "goldstein:NAME" for one of its methods.
    macroreplication : int
        Its number, which fixes all random numbers: SimOpt's streams, and the seed of our generator.
    post_replications : int
        How many replications judge a point.
    """
    recommend = _ours if solver.split(":")[0] == OURS else _theirs
    x, nfev, message = recommend(problem, solver, macroreplication)
    value = judge(problem, x, post_replications)
    before = start(problem, post_replications)
    return Outcome(problem, solver, macroreplication, x, value, before, nfev, message)


@lru_cache(maxsize=256)
def judge(problem: str, x: tuple[float, ...], post_replications: int = POST_REPLICATIONS) -> float:
    """Return the mean of the common post-replications at a point, to be minimised."""
    from mrg32k3a.mrg32k3a import MRG32k3a
    from simopt.base import Solution

    posed = _problem(problem)
    places = range(posed.model.n_rngs)
    solution = Solution(x, posed)
    solution.attach_rngs([MRG32k3a(s_ss_sss_index=[0, len(places) + place, 0]) for place in places], copy=False)
    posed.simulate(solution, post_replications)
    return float(-posed.minmax[0] * solution.objectives[:, 0].mean())


def start(problem: str, post_replications: int = POST_REPLICATIONS) -> float:
    """Return the mean of the common post-replications at the initial solution."""
    return judge(problem, _plain(_problem(problem).factors["initial_solution"]), post_replications)


def _ours(problem: str, solver: str, macroreplication: int) -> tuple[tuple[float, ...], int, str]:
    from goldstein.simopt import FIRST_MACROREPLICATION, oracle

    posed = oracle(problem, stream=FIRST_MACROREPLICATION + macroreplication)
    method = solver.partition(":")[2] or "auto"
    with warnings.catch_warnings(action="ignore"):
        result = minimize(posed, method=method, rng=macroreplication, **posed.arguments)
    return _plain(result.x), result.nfev, result.message


def _theirs(problem: str, solver: str, macroreplication: int) -> tuple[tuple[float, ...], int, str]:
    from simopt.directory import solver_directory
    from simopt.experiment.run_solver import _run_mrep

    posed = _problem(problem)
    calls = _Counted(posed.replicate)
    posed.replicate = calls
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
        table, _ = _run_mrep(solver_directory[solver](), posed, macroreplication)
    return _plain(table["solution"].iloc[-1]), calls.made, ""


class _Counted:
    """A function that counts its calls."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun
        self.made = 0

    def __call__(self, x: Any) -> Any:
        self.made += 1
        return self.fun(x)


def _problem(name: str) -> Any:
    from simopt.directory import problem_directory

    return problem_directory[name]()


def _plain(x: Array | tuple[Any, ...]) -> tuple[float, ...]:
    return tuple(float(entry) for entry in x)
