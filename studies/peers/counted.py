"""Values handed out and counted: no method, ours or another's, can take one more than its budget."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

import goldstein as gs
from goldstein.oracle import Query
from studies import Array


class Spent(Exception):
    """The budget is used up."""


class Counted:
    """The values of an oracle, one point at a time and each with noise of its own, up to a budget.

    Parameters
    ----------
    oracle : Oracle
    budget : int
        Values that can be had; asking for one more raises `Spent` before the function is called.
    seed : int
        Of the samples that a replayable oracle is asked with.

    Attributes
    ----------
    calls : int
        Values handed out.
    oracle : Oracle
        The same function, every value of it counted here: what a method of the library is given.
    best : ndarray or None
        The point with the lowest value seen one at a time: an answer only where there is no noise.
    """

    def __init__(self, oracle: gs.Oracle, budget: int, seed: int = 0) -> None:
        self.calls = 0
        self.budget = budget
        self.best: Array | None = None
        self.lowest = np.inf
        self.oracle = copy.copy(oracle)
        self.oracle.fun = self._counting(oracle)
        self._rng = np.random.default_rng([seed, 1])

    @property
    def left(self) -> int:
        """Values that can still be had."""
        return self.budget - self.calls

    def __call__(self, x: Any) -> float:
        """Return F(x; ξ) with a ξ of its own."""
        value = self.together([x])[0]
        if value < self.lowest:
            self.lowest = value
            self.best = np.array(x, dtype=float)
        return float(value)

    def together(self, points: Sequence[Any], one_seed: bool = False) -> Array:
        """Return values at several points: with one ξ for all of them, or one for each."""
        rows = np.array(points, dtype=float)
        if self.oracle.sample is None:
            return self.oracle.evaluate(Query(rows)).values
        samples = self.oracle.sample(self._rng, 1 if one_seed else len(rows))
        if one_seed:
            samples = np.repeat(samples, len(rows), axis=0)
        return self.oracle.evaluate(Query(rows, samples)).values

    def _counting(self, oracle: gs.Oracle) -> Any:
        fun = oracle.fun

        def counting(x: Any, *rest: Any) -> Any:
            rows = len(x) if oracle.vectorized else 1
            if self.calls + rows > self.budget:
                raise Spent(f"{self.calls} values of {self.budget} are used up and {rows} more were asked for.")
            self.calls += rows
            return fun(x, *rest)

        return counting
