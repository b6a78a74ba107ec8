"""SimOpt in both directions (extra: simopt): its problems as oracles, and a solver for its experiments.

SimOpt numbers random numbers by stream, substream and subsubstream: a generator of a model has a substream, and each
replication takes the next subsubstream. A seed of ours is the number of a replication, so that a seed gives the same
random numbers at every x, and value s of an oracle is replication s of SimOpt.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
from scipy.optimize import Bounds

from goldstein import arguments
from goldstein.methods import resolve
from goldstein.minimize import minimize
from goldstein.oracle import Array, Oracle, Seeded, Unreplayable
from goldstein.projection import Knapsack, Projection, Simplex, as_projection

try:
    from mrg32k3a.mrg32k3a import MRG32k3a
    from pydantic import Field, field_validator
    from simopt.base import ConstraintType, ObjectiveType, Problem, Solution, Solver, SolverConfig, VariableType
except ModuleNotFoundError as error:
    raise ImportError("goldstein.simopt needs SimOpt: pip install 'goldstein[simopt]'.", name="simopt") from error

FIRST_MACROREPLICATION = 3  # streams 0, 1 and 2 are for post-replications, the bootstrap and overhead
KEPT = 1024  # seeds whose generators are kept: finding the place of one takes half a millisecond
SETS: dict[str, Callable[[Any], Projection]] = {
    "NETWORK-1": lambda problem: Simplex(1.0),
    "FACSIZE-2": lambda problem: Knapsack(
        problem.factors["installation_costs"], problem.factors["installation_budget"]
    ),
}
"""The allowed sets of the problems of SimOpt whose deterministic constraints are no box, by name."""


class Simulation(Seeded):
    """A problem of SimOpt as a `Seeded` oracle; made by `oracle`.

    Attributes
    ----------
    problem : simopt.base.Problem
        The problem, a copy of its own.
    name : str
        Its name.
    x0 : ndarray, shape (d,)
        Its initial solution.
    bounds : scipy.optimize.Bounds or None
        Its box; None when it has none, or when there is a `projection`.
    projection : Projection or None
        Where its deterministic constraints are no box: the allowed set. The simulator is only asked in it, at the
        nearest allowed point.
    max_evals : int
        Its budget of replications.
    sign : int
        −1 where SimOpt maximises, else 1: its objective is `sign * res.fun`.
    """

    def __init__(self, problem: Any, stream: int, projection: Any = None) -> None:
        self.x0, self.bounds, self.projection = _start_and_set(problem, projection)
        generators = [MRG32k3a(s_ss_sss_index=[stream, place, 0]) for place in range(problem.model.n_rngs)]
        super().__init__(_Replication(problem, generators, self.projection))
        self.problem = problem
        self.name = str(problem.name)
        self.max_evals = arguments.count("The budget", problem.factors["budget"])
        self.sign = _sign(problem)

    @property
    def arguments(self) -> dict[str, Any]:
        """What `minimize` must know of the problem beside its values: `gs.minimize(p, **p.arguments)`."""
        names = ("bounds", "projection", "max_evals")
        return {"x0": self.x0.copy(), **{name: getattr(self, name) for name in names}}


def oracle(
    problem: Any,
    *,
    stream: int = FIRST_MACROREPLICATION,
    projection: Projection | Callable[[Array], Array] | None = None,
) -> Simulation:
    """Return a continuous problem of SimOpt as a `Seeded` oracle with its start, bounds and budget.

    Seed s is replication s of the given stream, at every x. Maximisation is turned round.

    Parameters
    ----------
    problem : simopt.base.Problem or str
        A problem, which is copied, or the name of one with its default factors, such as "SAN-1". Variables must be
        continuous; several objectives and stochastic constraints are refused.
    stream : int, optional
        The stream of random numbers. SimOpt's post-replications take stream 0 and its macroreplications streams
        from 3 on.
    projection : callable, optional
        The allowed set, as in `minimize`, for a problem whose deterministic constraints are neither a box nor
        known to be a simplex (NETWORK-1) or a budget (FACSIZE-2).

    Returns
    -------
    Simulation
        The oracle, with `x0`, `bounds`, `projection` and `max_evals`, together `arguments`, and `name` and `sign`.

    Examples
    --------
    >>> import goldstein as gs
    >>> from goldstein.simopt import oracle
    >>> p = oracle("CNTNEWS-1")
    >>> res = gs.minimize(p, p.x0, bounds=p.bounds, max_evals=p.max_evals, rng=0)
    >>> res.nfev <= 1000
    True
    """
    stream = arguments.count("stream", stream, least=0)
    if isinstance(problem, str):
        return Simulation(_named(problem), stream, projection)
    if not isinstance(problem, Problem):
        raise TypeError(
            f'problem must be a problem of SimOpt or a name such as "SAN-1", got {arguments.shown(problem)}.'
        )
    return Simulation(deepcopy(problem), stream, projection)


class GoldsteinConfig(SolverConfig):  # type: ignore[misc]
    """The factors of the solver `Goldstein`."""

    method: Annotated[
        str, Field("auto", description="method of goldstein.minimize", json_schema_extra={"isDatafarmable": False})
    ]

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        resolve(method, None)
        return method


class Goldstein(Solver):  # type: ignore[misc]
    """`goldstein.minimize` as a solver in the experiments of SimOpt.

    It takes continuous problems with one objective, a box or no constraints, and the deterministic constraints that
    `oracle` takes. Every replication is asked of SimOpt's budget first. It recommends the answer of the run so far.

    Its factors are `method`, a name that `minimize` knows, and SimOpt's `crn_across_solns`: when that is false, every
    replication has random numbers of its own, and the method has to do without replay.

    Examples
    --------
    >>> from simopt.experiment.run_solver import run_solver
    >>> from simopt.models.cntnv import CntNVMaxProfit
    >>> from goldstein.simopt import Goldstein
    >>> table, seconds = run_solver(Goldstein(), CntNVMaxProfit(), n_macroreps=1, n_jobs=1)
    >>> int(table["budget"].max())
    1000
    """

    name: str = "GOLDSTEIN"
    class_name_abbr: ClassVar[str] = "GOLDSTEIN"
    class_name: ClassVar[str] = "Goldstein"
    config_class: ClassVar[type[Any]] = GoldsteinConfig
    objective_type: ClassVar[Any] = ObjectiveType.SINGLE
    constraint_type: ClassVar[Any] = ConstraintType.DETERMINISTIC
    variable_type: ClassVar[Any] = VariableType.CONTINUOUS
    gradient_needed: ClassVar[bool] = False

    def solve(self, problem: Any) -> None:
        """Run one macroreplication; SimOpt calls this from `run`."""
        x0, bounds, projection = _start_and_set(problem)
        self._recommend(x0, problem)
        result = minimize(
            self._oracle(problem, projection),
            x0,
            self.config.method,
            bounds=bounds,
            projection=projection,
            max_evals=self.budget.remaining,
            rng=self._generator(),
            callback=lambda result: self._recommend(result.x, problem),
        )
        self._recommend(result.x, problem)

    def _oracle(self, problem: Any, projection: Projection | None) -> Oracle:
        """Return the problem as an oracle that asks the budget for every replication."""
        if self.config.crn_across_solns:
            replication = _Replication(problem, self.solution_progenitor_rngs, projection)

            def replayed(x: Array, seed: int) -> float:
                self.budget.request(1)
                return replication(x, seed)

            return Seeded(replayed)

        def fresh(x: Array) -> float:
            self.budget.request(1)
            allowed = x if projection is None else projection(x)
            solution = self.create_new_solution(tuple(allowed.tolist()), problem)
            return _simulated(problem, solution)

        return Unreplayable(fresh)

    def _generator(self) -> np.random.Generator:
        """Return random numbers for what the method draws, from the generator that SimOpt gives solvers for that."""
        internal = self.rng_list[-1]
        return np.random.default_rng([int(internal.random() * 2**32) for _ in range(4)])

    def _recommend(self, x: Array, problem: Any) -> None:
        """Recommend a point from now on, unless it is the one recommended already."""
        point = tuple(x.tolist())
        if self.recommended_solns and self.recommended_solns[-1].x == point:
            return
        if self.intermediate_budgets and self.intermediate_budgets[-1] == self.budget.used:
            self.recommended_solns.pop()
            self.intermediate_budgets.pop()
        self.recommended_solns.append(Solution(point, problem))
        self.intermediate_budgets.append(self.budget.used)


def _start_and_set(problem: Any, projection: Any = None) -> tuple[Array, Bounds | None, Projection | None]:
    """Return where a problem starts and where it allows points, or say in a sentence why it cannot be taken."""
    name = problem.name
    if problem.n_objectives != 1:
        raise ValueError(f"{name} has {problem.n_objectives} objectives; a problem with one is needed.")
    if problem.variable_type is not VariableType.CONTINUOUS:
        raise ValueError(f"{name} has {problem.variable_type.name.lower()} variables; continuous ones are needed.")
    if problem.constraint_type is ConstraintType.STOCHASTIC:
        raise ValueError(f"{name} has stochastic constraints, which no method here takes.")
    x0 = arguments.point("The initial solution", problem.factors["initial_solution"])
    allowed = as_projection(None, projection, x0.size)
    if allowed is None and problem.constraint_type is ConstraintType.DETERMINISTIC:
        if problem.class_name_abbr not in SETS:
            raise ValueError(
                f"{name} has deterministic constraints whose shape is not known here; "
                "give projection=, a callable that takes x to the nearest allowed point."
            )
        allowed = SETS[problem.class_name_abbr](problem)
    if allowed is not None:
        return allowed(x0), None, allowed
    bounds = Bounds(np.array(problem.lower_bounds, dtype=float), np.array(problem.upper_bounds, dtype=float))
    if np.isinf(bounds.lb).all() and np.isinf(bounds.ub).all():
        return x0, None, None
    return x0, bounds, None


class _Replication:
    """One replication of a problem at x, as a function to minimise; a seed gives the same random numbers at every x.

    `generators` are those of replication 0; `projection` takes every point to the allowed set before it is simulated.
    The model holds one point at a time, so the problem must not be used elsewhere.
    """

    def __init__(self, problem: Any, generators: list[Any], projection: Projection | None) -> None:
        self.problem = problem
        self.generators = generators
        self.projection = projection
        self._generators_of = lru_cache(KEPT)(self._moved)
        self._lock = threading.Lock()

    def __call__(self, x: Array, seed: int) -> float:
        allowed = x if self.projection is None else self.projection(x)
        with self._lock:
            solution = Solution(tuple(allowed.tolist()), self.problem)
            solution.attach_rngs(self._generators_of(seed), copy=True)
            return _simulated(self.problem, solution)

    def _moved(self, seed: int) -> list[Any]:
        """Return the generators of replication `seed`."""
        moved = deepcopy(self.generators)
        for generator in moved:
            stream, substream, subsubstream = generator.s_ss_sss_index
            generator.start_fixed_s_ss_sss([stream, substream, subsubstream + seed])
        return moved

    def __getstate__(self) -> dict[str, Any]:
        return {"problem": self.problem, "generators": self.generators, "projection": self.projection}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _simulated(problem: Any, solution: Any) -> float:
    """Return the objective of one replication, to be minimised."""
    problem.simulate(solution)
    return _sign(problem) * float(solution.objectives[0, 0])


def _sign(problem: Any) -> int:
    return -int(problem.minmax[0])


def _named(name: str) -> Any:
    from simopt.directory import problem_directory

    if name not in problem_directory:
        raise ValueError(f"Unknown problem {name!r}; SimOpt has {', '.join(sorted(problem_directory))}.")
    return problem_directory[name]()
