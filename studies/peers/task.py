"""A cell of the study: one problem with one kind of noise and one budget, and what a method sees of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import goldstein as gs
from studies import Array

NONE, REPLAYABLE, FRESH = "none", "replayable", "fresh"
TUNING_SEEDS = tuple(range(100, 105))


@dataclass(frozen=True)
class Task:
    """What one run is given, and how its answer is judged.

    Attributes
    ----------
    oracle : Oracle
        A new one for each run, so that fresh noise begins anew.
    x0 : ndarray
    value : callable
        f without noise, exact or on a large sample that no run has seen; not counted.
    bounds : pair of ndarray, optional
        Lower and upper ends of the box, told to every method.
    sigma : float, optional
        First step size for those that are told one, where a good one is known.
    """

    oracle: gs.Oracle
    x0: Array
    value: Callable[[Array], float]
    bounds: tuple[Array, Array] | None = None
    sigma: float | None = None

    @property
    def noisy(self) -> bool:
        """Whether a value may differ from f."""
        return self.oracle.noisy

    @property
    def guess(self) -> float:
        """First step size as a user would guess it: 0.3 of the box, else of the rms of x0, 0.3 when that is 0."""
        if self.bounds is not None:
            return 0.3 * float(np.mean(self.bounds[1] - self.bounds[0]))
        return 0.3 * (float(np.sqrt(np.mean(self.x0**2))) or 1.0)


@dataclass(frozen=True)
class Cell:
    """One problem, one kind of noise, one budget: every method runs on it with every seed.

    Attributes
    ----------
    family, problem, noise : str
    d, budget : int
    seeds : tuple of int
        Seeds that report: of the start and of the run. For COCO the instances, for SimOpt the macroreplications.
    run : callable
        `run(method, seed)` returns `start` and `end`, the values of f without noise, and `nfev`.
    methods : mapping
        Method to the reason why it is left out here; None when it runs.
    seconds : callable
        `seconds(method)`: about how long a run takes.
    tuned : bool
        Constants of "auto" were chosen on this problem, with seeds of their own.
    f_star : float, optional
        The infimum, or the best value known before the study; None: the lowest seen in the study.
    few : mapping
        Methods that run with the first so many seeds only.
    """

    family: str
    problem: str
    d: int
    noise: str
    budget: int
    seeds: tuple[int, ...]
    run: Callable[[str, int], Mapping[str, Any]]
    methods: Mapping[str, str | None]
    seconds: Callable[[str], float]
    few: Mapping[str, int]
    tuned: bool = False
    f_star: float | None = None

    @property
    def key(self) -> str:
        """The name of the cell in the results."""
        return f"{self.family}, {self.problem}, d = {self.d}, {self.noise}, {self.budget}"

    def seeds_of(self, method: str) -> tuple[int, ...]:
        """Return the seeds that a method runs with."""
        return self.seeds[: self.few.get(method, len(self.seeds))]


def start(x0: Array, seed: int) -> Array:
    """Return the start of a seed: x0 + 0.3·rms(x0)·N(0, I), or N(0, I) where x0 is 0."""
    spread = 0.3 * float(np.sqrt(np.mean(x0**2))) or 1.0
    return np.asarray(x0 + spread * np.random.default_rng([seed, 2]).standard_normal(x0.size))
