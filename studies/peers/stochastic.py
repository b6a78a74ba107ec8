"""Cells of the simulators and regressions, each with three kinds of noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

import goldstein as gs
from goldstein import problems
from studies import Array
from studies.peers import simulators
from studies.peers.methods import describe
from studies.peers.simulators import SCENARIOS, Simulator
from studies.peers.task import FRESH, NONE, REPLAYABLE, Cell, Task, start
from studies.problems.stochastic import max_of_quadratics, robust_phase_retrieval

SEEDS = tuple(range(5))
ALL = (NONE, REPLAYABLE, FRESH)


@dataclass(frozen=True)
class Entry:
    """A simulator with its kinds of noise and its budgets; constants may be chosen on it when it is `tuned`."""

    make: Callable[[], Simulator]
    budgets: tuple[int, ...] = (2_000,)
    noises: tuple[str, ...] = ALL
    tuned: bool = False
    microseconds: float = 20.0


ENTRIES: dict[str, Entry] = {
    "least_absolute_deviations": Entry(
        lambda: simulators.finite_sum(problems.least_absolute_deviations(rng=7)), (2_000, 10_000)
    ),
    "robust_phase_retrieval": Entry(
        lambda: simulators.finite_sum(robust_phase_retrieval(d=20, rng=7)), (2_000, 10_000)
    ),
    "max_of_quadratics": Entry(lambda: simulators.finite_sum(max_of_quadratics(d=5, rng=7)), tuned=True),
    "relu_regression": Entry(simulators.relu_regression, (2_000, 10_000)),
    "digits_svm": Entry(simulators.digits_svm, (6_500,), (REPLAYABLE, FRESH)),
    "newsvendor_1": Entry(lambda: simulators.newsvendor(1), (200,)),
    "newsvendor_100": Entry(lambda: simulators.newsvendor(100), (10_000,), (REPLAYABLE, FRESH)),
    "tandem_queue": Entry(lambda: simulators.tandem_queue(5), (1_000,), tuned=True, microseconds=100),
    "tandem_queue_20": Entry(lambda: simulators.tandem_queue(20), (2_000,), (REPLAYABLE, FRESH), microseconds=300),
    "inventory_1": Entry(lambda: simulators.inventory(1), microseconds=400),
    "inventory_10": Entry(lambda: simulators.inventory(10), (2_000,), (REPLAYABLE, FRESH), microseconds=400),
    "cvar": Entry(lambda: simulators.cvar(10), (2_000, 10_000), tuned=True),
    "jittered_chained_lq": Entry(
        lambda: simulators.jittered("chained_lq", 20), (2_000, 10_000), (REPLAYABLE, FRESH), tuned=True
    ),
    "jittered_chebyshev_rosenbrock_linear": Entry(
        lambda: simulators.jittered("chebyshev_rosenbrock_linear", 5), (2_000, 10_000), (REPLAYABLE, FRESH)
    ),
    "jittered_maxq": Entry(lambda: simulators.jittered("maxq", 5), (500,), (REPLAYABLE, FRESH)),
}


def cells(quick: bool = False) -> Iterator[Cell]:
    """Yield the cells; without noise the function is the mean over all components, or over 100 scenarios."""
    names = ("max_of_quadratics", "newsvendor_1") if quick else tuple(ENTRIES)
    for name in names:
        entry = ENTRIES[name]
        simulator = _made(name)
        for noise in entry.noises:
            for budget in (200,) if quick else entry.budgets:
                if noise == NONE and budget > 2_000:
                    continue
                known = simulator.n is not None or (noise != NONE and simulator.f_star is not None)
                yield describe(
                    "stochastic",
                    name,
                    simulator.x0.size,
                    noise,
                    budget,
                    SEEDS,
                    partial(_task, name, noise),
                    tuned=entry.tuned,
                    f_star=simulator.f_star if known else None,
                    microseconds=entry.microseconds,
                    box=simulator.bounds is not None,
                    few={"nevergrad": 1, "COBYQA": 2},
                )


@cache
def _made(name: str) -> Simulator:
    return ENTRIES[name].make()


def _task(name: str, noise: str, seed: int) -> Task:
    simulator = _made(name)
    x0 = start(simulator.x0, seed)
    if simulator.bounds is not None:
        x0 = np.clip(x0, *simulator.bounds)
    if noise == NONE:
        value = _mean(name)
        oracle: gs.Oracle = gs.Deterministic(_rows(value), vectorized=True)
        return Task(oracle, x0, value, simulator.bounds)
    if noise == FRESH:
        rng = np.random.default_rng([seed, 3])

        def secret(X: Array) -> Array:
            return simulator.component(X, simulator.sample(rng, len(X)))

        oracle = gs.Unreplayable(secret, vectorized=True)
    elif simulator.n is not None:
        oracle = gs.FiniteSum(simulator.component, simulator.n, vectorized=True)
    else:
        oracle = gs.Expectation(simulator.component, simulator.sample, vectorized=True)
    return Task(oracle, x0, simulator.value, simulator.bounds)


@cache
def _mean(name: str) -> Callable[[Array], float]:
    """Return the function without noise."""
    simulator = _made(name)
    if simulator.n is not None:
        return simulator.value
    scenarios = simulator.sample(np.random.default_rng(123_456_789), SCENARIOS)

    def value(x: Array) -> float:
        return float(simulator.component(np.broadcast_to(x, (SCENARIOS, x.size)), scenarios).mean())

    return value


def _rows(value: Callable[[Array], float]) -> Callable[[Array], Array]:
    return lambda X: np.array([value(x) for x in X])
