"""COCO's bbob-noisy, whose noise cannot be replayed, and bbob-largescale; told nothing but x0.

Seeds are COCO's instances: 3 to 5 report; the prototypes of the default were chosen on 1 and 2.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import goldstein as gs
from studies import Array
from studies.peers.methods import describe
from studies.peers.task import FRESH, NONE, Cell, Task

INSTANCES = (3, 4, 5)
SIGMA = 2.0  # COCO's own choice for pycma on its region [−5, 5]^d
FIRST, PER_FUNCTION = 101, 3  # a function with Gaussian, uniform and Cauchy noise, one after another
LARGE = (1, 2, 5, 8, 10, 12, 13, 14, 15, 17, 20, 21)
REPEATS = 101


def noisy_cells(quick: bool = False) -> Iterator[Cell]:
    """Yield bbob-noisy at d = 5 with 400·d values and at d = 20 with 200·d."""
    functions = (101, 113) if quick else range(FIRST, FIRST + 30)
    for d, budget in ((5, 500),) if quick else ((5, 2_000), (20, 4_000)):
        for function in functions:
            yield describe(
                "coco-noisy",
                f"f{function}",
                d,
                FRESH,
                budget,
                INSTANCES,
                partial(_noisy_task, function, d),
                f_star=0.0,
                told=True,
                few={"nevergrad": 1, "COBYQA": 1},
            )


def large_cells(quick: bool = False) -> Iterator[Cell]:
    """Yield bbob-largescale at d = 80 with 200·d values."""
    for function in (1,) if quick else LARGE:
        yield describe(
            "coco-large",
            f"f{function}",
            80,
            NONE,
            400 if quick else 16_000,
            INSTANCES[:1] if quick else INSTANCES[:2],
            partial(_large_task, function),
            f_star=0.0,
            told=True,
            microseconds=50,
        )


def _problem(suite: str, function: int, d: int, instance: int) -> Any:
    """Return a problem of a suite of its own, whose noise begins anew."""
    import cocoex

    chosen = cocoex.Suite(suite, "", f"dimensions:{d} instance_indices:{instance}")
    return chosen.get_problem_by_function_dimension_instance(function, d, instance)


def _noisy_task(function: int, d: int, instance: int) -> Task:
    problem = _problem("bbob-noisy", function, d, instance)
    oracle = gs.Unreplayable(problem)
    return Task(oracle, problem.initial_solution, partial(noise_free_gap, function, d, instance), sigma=SIGMA)


def _large_task(function: int, instance: int) -> Task:
    problem = _problem("bbob-largescale", function, 80, instance)
    lowest = problem(best_parameter(problem))
    return Task(gs.Deterministic(problem), problem.initial_solution, lambda x: problem(x) - lowest, sigma=SIGMA)


def noise_free_gap(function: int, d: int, instance: int, x: Array) -> float:
    """Return f(x) − f* without noise.

    The three kinds of noise share f. With Cauchy's, four values in five and more are f plus the same constant, at any
    point: medians show it, and their difference is free of it.
    """
    cauchy = FIRST + PER_FUNCTION * ((function - FIRST) // PER_FUNCTION) + PER_FUNCTION - 1
    problem = _problem("bbob-noisy", cauchy, d, instance)
    best = best_parameter(problem)
    at_best = np.median([problem(best) for _ in range(REPEATS)])
    at_x = np.median([problem(x) for _ in range(REPEATS)])
    return max(0.0, float(at_x - at_best))


def best_parameter(problem: Any) -> Array:
    """Return the minimiser, which COCO tells through a file in the folder that it runs in."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        problem._best_parameter("print")
        return np.loadtxt(Path("._bbob_problem_best_parameter.txt"))
