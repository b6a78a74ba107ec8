"""The planned part: each method with the parameters of its theorem on the closed forms, judged by what that bounds.

GFM and its warm starts: E‖∇f_δ(x_out)‖² ≤ ε², exact by the closed form. O2NC and ZO-O2NC: the norm of a block's mean
gradient, E ≤ ε, and with it the exact distance. All others: the exact distance dist(0, ∂_δ f(x_out)).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import goldstein as gs
from goldstein import theory
from goldstein.problems import Problem, cone, ridge, shell
from goldstein.theory import Plan
from studies import Array
from studies.problems.closed_form import capped_ridge

D, DELTA = 5, 0.3
MOST = 10**8  # evaluations of a plan that is still run
INDICES = 20_000  # answers of SINGD that are looked at in a run
SHAPES = {"ridge": (ridge, 0), "capped_ridge": (capped_ridge, 1), "cone": (cone, 2), "shell": (shell, 3)}
CONVEX = ("ws-gfm", "ws-gfm+", "one-phase")
MOMENTUM = ("singd", "psingd")
BLOCKS = ("zo-o2nc", "o2nc")
SMOOTHED = ("gfm", "gfm+", "ws-gfm", "ws-gfm+")
EXACT_GRADIENTS = (*MOMENTUM, "o2nc")
LEARNERS = ("ogd", "adagrad")
SQUARED_NORM, BLOCK_NORM, DISTANCE = "‖∇f_δ(x_out)‖²", "norm of a block's mean gradient", "dist(0, ∂_δ f(x_out))"


@dataclass(frozen=True)
class Seeds:
    """How many runs of each kind of method; and the ε aimed at."""

    smoothed: int = 400
    blocks: int = 40
    momentum: int = 8
    certifying: int = 40
    epsilons: tuple[float, ...] = (0.5, 0.25)
    problems: tuple[str, ...] = tuple(SHAPES)


FULL = Seeds()
QUICK = Seeds(smoothed=40, blocks=5, momentum=1, certifying=4, epsilons=(0.5,), problems=("ridge", "shell"))


class Unit(NamedTuple):
    """One plan: a method, its learner (only of O2NC, else empty), a problem and an ε."""

    method: str
    learner: str
    problem: str
    epsilon: float

    @property
    def label(self) -> str:
        """The method and its learner, as tables have them."""
        return f"{self.method} {self.learner}" if self.learner else self.method


def units(seeds: Seeds) -> Iterator[Unit]:
    """Yield all that is planned; O2NC appears with both of its learners."""
    for epsilon in seeds.epsilons:
        for method in theory.PLANS:
            for name in seeds.problems:
                if method in CONVEX and not SHAPES[name][0](D).convex:
                    continue
                for learner in LEARNERS if method in BLOCKS else ("",):
                    yield Unit(method, learner, name, epsilon)


def quantity(method: str) -> str:
    """Return what is measured of a method, which is what its theorem bounds: by ε², or by ε."""
    if method in SMOOTHED:
        return SQUARED_NORM
    return BLOCK_NORM if method in BLOCKS else DISTANCE


def measure(unit: Unit, seeds: Seeds) -> dict[str, Any]:
    """Plan one method for one problem and run the plan, unless it takes more than MOST evaluations."""
    method = unit.method
    problem = SHAPES[unit.problem][0](D)
    made = plan(problem, method, unit.learner, unit.epsilon)
    row = {
        "method": unit.label,
        "problem": unit.problem,
        "epsilon": unit.epsilon,
        "evaluations": made.evaluations,
        "at_most": not made.exact,
        "claim": made.claim,
        "quantity": quantity(method),
    }
    if made.evaluations > MOST:
        return row | {"runs": 0}
    if method in MOMENTUM:
        return row | _momentum(made, problem, range(seeds.momentum))
    if method in BLOCKS:
        return row | _blocks(made, problem, range(seeds.blocks))
    if made.oracle == "replayed values":
        return row | _from_values(made, problem, seeds.smoothed)
    return row | _certifying(made, problem, seeds.certifying)


def plan(problem: Problem, method: str, learner: str, epsilon: float) -> Plan:
    """Return the plan of a method for a closed form, with what is known about it."""
    known: dict[str, Any] = {"gap": problem.gap, "learner": learner or None}
    if problem.convex:
        assert problem.minimiser is not None
        known["radius"] = float(np.linalg.norm(problem.x0 - problem.minimiser))
    if method in EXACT_GRADIENTS:
        known["noise"] = 0.0
    return theory.plan(method, d=D, L=problem.lipschitz, delta=DELTA, epsilon=epsilon, **known)


def _from_values(made: Plan, problem: Problem, runs: int) -> dict[str, Any]:
    """Run GFM and its relatives in machine code, with the plan's own output rule."""
    from studies.scaling.kernels import planned_value

    oracle = gs.Deterministic(planned_value, args=(SHAPES[problem.name][1],))
    room = made.evaluations + 100  # a limit that is never reached, so that the run keeps few records
    with warnings.catch_warnings():  # at its end GFM+ says that corrections as small as the estimates do not help them
        warnings.simplefilter("ignore", RuntimeWarning)
        results = [made.run(oracle, problem.x0, rng=seed, max_evals=room) for seed in range(runs)]
    answers = np.array([result.x for result in results])
    used = np.array([result.nfev - result.nfev_diagnostic for result in results])
    if quantity(made.name) == DISTANCE:  # one phase: the value gap bounds the distance
        return _row(problem, answers, None, used)
    assert problem.smoothed_gradient is not None
    squares = np.array([float(np.sum(problem.smoothed_gradient(x, DELTA) ** 2)) for x in answers])
    return _row(problem, answers, squares, used)


def _blocks(made: Plan, problem: Problem, seeds: range) -> dict[str, Any]:
    """Run all blocks of O2NC; the mean over them is the expectation over the block drawn as the answer."""
    run = run_zo_o2nc if made.oracle == "replayed values" else run_o2nc
    pairs = [run(made, problem, seed) for seed in seeds]
    norms = np.array([blocks.mean() for _, blocks in pairs])
    distances = np.array([np.mean([_distance(problem, x) for x in means]) for means, _ in pairs])
    return _statistics(norms) | {"distance": float(distances.mean()), "used": float(made.evaluations)}


def run_zo_o2nc(made: Plan, problem: Problem, seed: int) -> tuple[Array, Array]:
    """Return the mean points and the norms of the mean gradients of the blocks of ZO-O2NC, in machine code."""
    from studies.scaling.kernels import zo_o2nc_blocks

    p: Any = made.parameters
    means, norms = np.empty((p["blocks"], D)), np.empty(p["blocks"])
    sizes = (p.get("step_size", 0.0), p["block_length"], p["blocks"], p["rho"], p["displacement"])
    zo_o2nc_blocks(SHAPES[problem.name][1], np.random.default_rng(seed), problem.x0.copy(), *sizes, means, norms)
    return means, norms


def run_o2nc(made: Plan, problem: Problem, seed: int) -> tuple[Array, Array]:
    """Return the same by asking and telling, for methods of the library that keep `block_norm`."""
    run = made.method.start(problem.x0, rng=seed)
    means, norms = [], []
    for _ in range(made.iterations):
        query: gs.Query = run.ask()
        run.tell(query, problem.oracle.evaluate(query).values)
        if run.state.done == 0:
            means.append(run.x)
            norms.append(run.state.block_norm)
    return np.array(means), np.array(norms)


def _momentum(made: Plan, problem: Problem, seeds: range) -> dict[str, Any]:
    """Run SINGD or PSINGD to its end; the mean over evenly spread indices i stands for the one that is drawn."""
    averages = []
    for seed in seeds:
        i = np.linspace(1, made.iterations, INDICES).round().astype(np.int64)
        points = run_singd(made, problem, seed, np.maximum(i - made.method.lookback, 1))
        averages.append(np.mean([_distance(problem, x) for x in points]))
    return _statistics(np.array(averages)) | {"used": float(made.evaluations), "distance": float(np.mean(averages))}


def run_singd(made: Plan, problem: Problem, seed: int, indices: Array) -> Array:
    """Return the iterates x_j of SINGD or PSINGD for rising j ≥ 1, in machine code."""
    from studies.scaling.kernels import singd_points

    method, points = made.method, np.empty((len(indices), D))
    settings = (method.p, method.q, method.beta, method.perturb_radius or 0.0)
    rng, shape = np.random.default_rng(seed), SHAPES[problem.name][1]
    singd_points(shape, rng, problem.x0.copy(), *settings, np.asarray(indices, np.int64), points)
    return points


def _certifying(made: Plan, problem: Problem, runs: int) -> dict[str, Any]:
    """Run a method that ends by itself; `within` counts the runs that ended within the evaluations of the plan."""
    results = [made.run(problem.oracle, problem.x0, rng=seed) for seed in range(runs)]
    used = np.array([result.nfev - result.nfev_diagnostic + result.ngev for result in results])
    row = _row(problem, np.array([result.x for result in results]), None, used)
    return row | {"within": int(sum(result.success for result in results))}


def _row(problem: Problem, answers: Array, squares: Array | None, used: Array) -> dict[str, Any]:
    distances = np.array([_distance(problem, x) for x in answers])
    row = _statistics(distances if squares is None else squares)
    return row | {"distance": float(distances.mean()), "used": float(np.mean(used))}


def _statistics(values: Array) -> dict[str, Any]:
    error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
    return {"runs": int(values.size), "mean": float(values.mean()), "stderr": error, "worst": float(values.max())}


def _distance(problem: Problem, x: Array) -> float:
    assert problem.distance is not None
    return problem.distance(x, DELTA)
