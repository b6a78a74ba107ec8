"""The methods that a user could pick, each called as its own documentation shows, none of them tuned.

All of them get their values from `Counted`. Where there is no noise the answer of another's method is the best point it
has seen; with noise it is what the method recommends at its end. Tolerances are so small that the budget ends a run. A
method that stops early is not started again, since its user would not know that it should be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import goldstein as gs
from studies import Array
from studies.peers.counted import Counted, Spent
from studies.peers.task import FRESH, NONE, REPLAYABLE, Cell, Task

AUTO, PYCMA, PYCMA_SEED, PYCMA_TOLD = "auto", "pycma", "pycma, a seed a generation", "pycma, σ0 told"
SCIPY_BFGS = "BFGS"
Run = Callable[[Task, Counted, int], Array]


@dataclass(frozen=True)
class Peer:
    """A method of the study.

    Attributes
    ----------
    run : callable
        `run(task, values, seed)` returns the point that the method recommends.
    package : str
        Whose version its results depend on.
    competes : bool
        Whether it is one of the untuned methods that "auto" is compared with.
    microseconds : float
        About what it takes for a value, the function aside.
    few : int or None
        It runs with the first so many seeds only, since it is slow.
    """

    run: Run
    package: str
    competes: bool = True
    microseconds: float = 50.0
    few: int | None = None


def play(task: Task, budget: int, method: str, seed: int) -> dict[str, Any]:
    """Run a method on a task; return f without noise at its start and at its end, and the values it took."""
    values = Counted(task.oracle, budget, seed)
    peer = PEERS[method]
    x = peer.run(task, values, seed)
    if peer.package != "goldstein" and not task.noisy and values.best is not None:
        x = values.best
    end = task.value(np.asarray(x, dtype=float))
    return {"start": task.value(task.x0), "end": end, "nfev": values.calls}


def stamp(method: str) -> str:
    """Return what the results of a method depend on: our code, or the version of its package."""
    package = PEERS[method].package
    return f"goldstein {_code()}" if package == "goldstein" else f"{package} {version(package)}"


@cache
def _code() -> str:
    """Return a short hash of the sources of the library."""
    root = Path(gs.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:10]


def left_out(method: str, d: int, noise: str, budget: int, *, box: bool = False, told: bool = False) -> str | None:
    """Return why a method does not run in a cell; None when it does."""
    replays = noise == REPLAYABLE
    nevergrad = "1 to 20 ms of its own for each value" if d > 1 else "takes fcmaes for one variable, not in it"
    reasons = {
        PYCMA: (d > 200, "a d × d matrix for each generation"),
        "SepCMA": (d < 2, "takes two variables or more"),
        PYCMA_SEED: (not replays or d > 200, "only where seeds can be replayed"),
        PYCMA_TOLD: (not told, "only where the scale of the problem is known"),
        "Nelder–Mead": (d >= 100, "its simplex has hardly moved by then, at d² operations for some values"),
        "COBYQA": (d > 10 or budget > 2_000, "2 ms of its own for each value at d = 10, 7 ms at d = 50"),
        "nevergrad": (d < 2 or budget > 2_000, nevergrad),
        SCIPY_BFGS: (noise != NONE or box, "only without noise and without a box"),
        "sift": (noise == FRESH, "needs seeds that can be replayed"),
        "bfgs": (noise != NONE, "only without noise"),
        "cma": (d > 200 and noise == NONE, "not meant for this"),
    }
    out, reason = reasons.get(method, (False, ""))
    return reason if out else None


def describe(
    family: str,
    problem: str,
    d: int,
    noise: str,
    budget: int,
    seeds: tuple[int, ...],
    task: Callable[[int], Task],
    *,
    tuned: bool = False,
    f_star: float | None = None,
    microseconds: float = 10.0,
    box: bool = False,
    told: bool = False,
    few: Mapping[str, int] | None = None,
) -> Cell:
    """Return the cell in which all methods play the tasks that `task(seed)` makes."""
    slow = {name: peer.few for name, peer in PEERS.items() if peer.few is not None}

    def run(method: str, seed: int) -> Mapping[str, Any]:
        return play(task(seed), budget, method, seed)

    return Cell(
        family=family,
        problem=problem,
        d=d,
        noise=noise,
        budget=budget,
        seeds=seeds,
        run=run,
        methods={name: left_out(name, d, noise, budget, box=box, told=told) for name in PEERS},
        seconds=lambda method: 1e-6 * budget * (PEERS[method].microseconds + microseconds),
        few=slow if few is None else few,
        tuned=tuned,
        f_star=f_star,
    )


def _goldstein(name: str) -> Run:
    def run(task: Task, values: Counted, seed: int) -> Array:
        bounds = None if task.bounds is None else np.column_stack(task.bounds)
        return gs.minimize(values.oracle, task.x0, name, max_evals=values.budget, bounds=bounds, rng=seed).x

    return run


def _pycma(one_seed: bool = False, told: bool = False) -> Run:
    """CMA-ES of `cma`, ask and tell, until it stops or the next generation does not fit."""

    def run(task: Task, values: Counted, seed: int) -> Array:
        import cma

        options: dict[str, Any] = {"seed": seed + 1, "verbose": -9}  # 0 would mean the clock
        if task.bounds is not None:
            options["bounds"] = [task.bounds[0].tolist(), task.bounds[1].tolist()]
        if task.noisy:  # equal or stagnant values are no reason to stop then
            options |= {"tolfun": 0, "tolfunhist": 0, "tolflatfitness": np.inf, "tolstagnation": np.inf}
        sigma = task.sigma if told and task.sigma is not None else task.guess
        strategy = cma.CMAEvolutionStrategy(task.x0, sigma, options)
        while not strategy.stop() and strategy.popsize <= values.left:
            points = strategy.ask()
            if one_seed:
                answers = values.together(points, one_seed=True).tolist()
            else:
                answers = [values(x) for x in points]
            strategy.tell(points, answers)
        return np.asarray(strategy.result.xfavorite)

    return run


def _sep_cma(task: Task, values: Counted, seed: int) -> Array:
    from cmaes import SepCMA

    bounds = None if task.bounds is None else np.column_stack(task.bounds)
    strategy = SepCMA(mean=task.x0.copy(), sigma=task.guess, bounds=bounds, seed=seed)
    while not strategy.should_stop() and strategy.population_size <= values.left:
        points = [strategy.ask() for _ in range(strategy.population_size)]
        strategy.tell([(x, values(x)) for x in points])
    return np.asarray(strategy.mean)


def _nevergrad(task: Task, values: Counted, seed: int) -> Array:
    """NGOpt with its own first step size; it is told whether there is noise."""
    import nevergrad as ng
    from nevergrad.optimization import metamodel

    metamodel.float = _one_number  # release 1.0.12 makes numbers of arrays of one element, which NumPy 2.4 refuses
    array = ng.p.Array(init=task.x0)
    if task.bounds is not None:
        array.set_bounds(*task.bounds)
    array.random_state = np.random.RandomState(seed)
    array.function.deterministic = not task.noisy
    optimizer = ng.optimizers.registry["NGOpt"](parametrization=array, budget=values.budget, num_workers=1)
    while values.left:
        candidate = optimizer.ask()
        optimizer.tell(candidate, values(candidate.value))
    return np.asarray(optimizer.provide_recommendation().value)


def _one_number(value: Any) -> float:
    return float(np.asarray(value).item())


def _scipy(name: Any, **options: Any) -> Run:
    """A method of scipy; when values run out amid an iteration, the answer is the point of the last one."""

    def run(task: Task, values: Counted, seed: int) -> Array:
        from scipy.optimize import Bounds, minimize

        last = [task.x0]
        fun: Any = values
        given: Any = {key: values.budget if value == "budget" else value for key, value in options.items()}
        box = None if task.bounds is None else Bounds(*task.bounds)

        def keep(xk: Array) -> None:
            last[0] = np.array(xk, dtype=float)

        try:
            result = minimize(fun, task.x0, method=name, bounds=box, options=given, callback=keep)
        except Spent:
            return last[0]
        return np.asarray(result.x)

    return run


ENDLESS = 10**9  # iterations: the budget is in values
PEERS: dict[str, Peer] = {
    AUTO: Peer(_goldstein(AUTO), "goldstein", microseconds=60),
    PYCMA: Peer(_pycma(), "cma", microseconds=90),
    PYCMA_SEED: Peer(_pycma(one_seed=True), "cma", microseconds=90),
    "SepCMA": Peer(_sep_cma, "cmaes", microseconds=25),
    "nevergrad": Peer(_nevergrad, "nevergrad", microseconds=1500, few=2),
    "Nelder–Mead": Peer(
        _scipy("Nelder-Mead", maxfev="budget", maxiter=ENDLESS, xatol=1e-12, fatol=1e-12), "scipy", microseconds=40
    ),
    "Powell": Peer(
        _scipy("Powell", maxfev="budget", maxiter=ENDLESS, xtol=1e-10, ftol=1e-10), "scipy", microseconds=25
    ),
    "COBYQA": Peer(
        _scipy("COBYQA", maxfev="budget", maxiter=ENDLESS, final_tr_radius=1e-12), "scipy", microseconds=1500, few=2
    ),
    "L-BFGS-B": Peer(
        _scipy("L-BFGS-B", maxfun="budget", maxiter=ENDLESS, ftol=0.0, gtol=0.0), "scipy", microseconds=25
    ),
    SCIPY_BFGS: Peer(_scipy("BFGS", maxiter=ENDLESS, gtol=0.0), "scipy", microseconds=25),
    PYCMA_TOLD: Peer(_pycma(told=True), "cma", competes=False, microseconds=90),
    "gfm": Peer(_goldstein("gfm"), "goldstein", competes=False, microseconds=80),
    "sift": Peer(_goldstein("sift"), "goldstein", competes=False, microseconds=60),
    "bfgs": Peer(_goldstein("bfgs"), "goldstein", competes=False, microseconds=40),
    "cma": Peer(_goldstein("cma"), "goldstein", competes=False, microseconds=60),
}
USUAL = tuple(name for name, peer in PEERS.items() if peer.competes or name == PYCMA_TOLD)
