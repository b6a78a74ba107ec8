"""Whole iterations in machine code, for functions that numba has compiled (extra: compiled).

A method's kernel derives from `CompiledKernel`: it says what the iterations to come cost and calls its loop in
`goldstein.compiled`. The session hands it chunks of iterations between two records of the history; what does not fill
a whole batch goes the plain way.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from goldstein.compiled import is_jitted
from goldstein.compiled.tally import (
    DIRECTIONS,
    DOUBLES,
    ETA,
    FAILED,
    FINITE,
    LOWEST,
    MAGNITUDE,
    NORM,
    POWER,
    SINGLES,
    SQUARE,
    SQUARES_SEEN,
    SQUARES_SUM,
    TALLY,
    TOTAL,
    VALUE,
)
from goldstein.methods.method import ChunkResult, Context, Step
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle, Tally
from goldstein.output import Average
from goldstein.steps import Calibrated, Schedule, StepRule

CHUNK = 8192  # evaluations in one chunk
PIECE_SECONDS = 0.2  # how long Ctrl-C may have to wait


def why_not_compilable(oracle: Oracle) -> str | None:
    """Return why no loop can call an oracle's function in machine code, in one sentence; None when it can."""
    if isinstance(oracle, FiniteSum | Deterministic) and not oracle.vectorized and is_jitted(oracle.fun):
        return None
    return "The compiled loops need a FiniteSum or Deterministic whose function of one point is jitted by numba."


def tally_of(tally: Array) -> Tally:
    """Return what a loop has told about the values that it saw."""
    return Tally(
        int(tally[FINITE] + tally[FAILED]),
        int(tally[FINITE]),
        float(tally[TOTAL]),
        float(tally[MAGNITUDE]),
        float(tally[LOWEST]),
        int(tally[SINGLES]),
        int(tally[DOUBLES]),
    )


class CompiledKernel(ABC):
    """Base of the kernels: how many iterations fit, and the bookkeeping around the machine code.

    Attributes
    ----------
    outputs : tuple of str
        The output rules that it can serve.
    each : int
        Evaluations of an iteration, at least.
    """

    outputs: tuple[str, ...] = ("last", "average", "random")

    def __init__(self, method: Any, oracle: Oracle, each: int) -> None:
        self.method = method
        self.oracle = oracle
        self.each = each
        self.n = oracle.n or 0
        self._loop: Callable[..., Any] | None = None
        self._piece = max(1, 512 // each)  # iterations of a call of the machine code

    def used(self, state: Any, k: int) -> Array:
        """Return the evaluations used after each of the next k iterations, if none of them fails altogether."""
        return np.asarray(self.each * np.arange(1, k + 1), np.int64)

    @abstractmethod
    def call(self, state: Any, context: Context, mean: Array, count: int, steps: Array, tally: Array) -> int:
        """Run the machine code for as many iterations as there are steps; return how many were done."""

    @abstractmethod
    def make_step(self, state: Any, completed: int) -> Step:
        """Return what the iterations just done say."""

    def offers(self, state: Any) -> bool:
        """Whether the iterations to come offer their iterates as answers."""
        return True

    def plan(self, state: Any, context: Context, limit: int | None, until: float, most: int | None) -> int:
        """Return how many iterations to do next; see `Kernel`."""
        soft = min(until, CHUNK)
        k = max(1, math.ceil(soft / self.each))
        used = self.used(state, k if most is None else min(k, most))
        k = min(int(np.searchsorted(used, soft)) + 1, used.size)
        return k if limit is None else min(k, int(np.searchsorted(used, limit, side="right")))

    def run(
        self,
        state: Any,
        context: Context,
        iterations: int,
        limit: int | None,
        mean: Average | None,
        stop: Callable[[], bool],
    ) -> ChunkResult:
        """Do so many iterations, fewer if the budget ends or if one of them fails altogether; see `Kernel`."""
        used = self.used(state, iterations)
        if limit is not None and used[-1] > limit:
            used = used[: int(np.searchsorted(used, limit, side="right"))]
        if not used.size:
            return ChunkResult(self.make_step(state, 0), Tally())
        tally = np.concatenate([np.zeros(TALLY), self.memory(state)])
        tally[LOWEST] = np.inf
        tally[VALUE] = np.nan
        tally[NORM] = -1.0
        steps = self.steps(state, context, used)
        state.x = state.x.copy()
        done = self._in_pieces(state, context, mean, steps, tally, stop)
        self.remember(state, steps[:done], tally)
        asked = int(tally[FINITE] + tally[FAILED])
        state.nit += done
        context.nfev += asked
        state.sum_sq_norm += float(tally[POWER])
        state.n_estimates += float(tally[DIRECTIONS])
        if not np.isnan(tally[VALUE]):
            state.value = float(tally[VALUE])
        if tally[NORM] >= 0:
            state.grad_norm = float(tally[NORM])
        return ChunkResult(self.make_step(state, done), tally_of(tally))

    def _in_pieces(
        self, state: Any, context: Context, mean: Average | None, steps: Array, tally: Array, stop: Callable[[], bool]
    ) -> int:
        """Call the machine code piece by piece, each of a fraction of a second; return how many iterations were done.

        All pieces add up in one tally, so that nothing but the wait for Ctrl-C depends on where one ends.
        """
        if mean is not None:
            mean.mean = state.x.copy() if mean.mean is None else mean.mean.copy()
        done = 0
        while done < steps.size and not (done and stop()):
            piece = steps[done : done + self._piece]
            begun = time.perf_counter()
            if mean is None:
                did = self.call(state, context, np.empty(0), 0, piece, tally)
            else:
                did = self.call(state, context, mean.mean, mean.count, piece, tally)  # type: ignore[arg-type]
                mean.count += did
            took = time.perf_counter() - begun
            done += did
            self._piece = max(1, min(2 * self._piece, int(PIECE_SECONDS / max(took, 1e-9) * did)))
            if did < piece.size:
                break
        return done

    def steps(self, state: Any, context: Context, used: Array) -> Array:
        """Return the steps, as far as they are known before the values are."""
        return np.zeros(used.size)

    def memory(self, state: Any) -> list[float]:
        """Return what the step rule remembers, if the machine code needs it."""
        return []

    def remember(self, state: Any, steps: Array, tally: Array) -> None:
        """Keep the last step and what the step rule has measured."""
        state.step_size = float(steps[-1])

    def compiled(self, loop: Any, *inputs: Any) -> Any:
        """Call a loop by the signature that is kept on disk, compiling it first if need be."""
        from numba import typeof, types

        if self._loop is None:
            args = typeof(self.oracle.args)
            index = (types.int64,) if self.n else ()
            signature = types.float64(types.float64[::1], *index, *args.types)
            with _Announcement(f"compiling the loop of {self.method.name} for this function (once for each signature)"):
                self.oracle.fun.compile(signature)  # type: ignore[attr-defined]
                types_in = (types.FunctionType(signature), args, *(typeof(value) for value in inputs))
                loop.compile(types_in)
                self._loop = loop.get_overload(types_in)
        return self._loop(self.oracle.fun, self.oracle.args, *inputs)


class Ruled(CompiledKernel):
    """A kernel whose steps come from a rule."""

    def __init__(self, method: Any, oracle: Oracle, each: int, rule: StepRule) -> None:
        super().__init__(method, oracle, each)
        self.rule = rule

    def steps(self, state: Any, context: Context, used: Array) -> Array:
        nit = state.nit + np.arange(used.size)
        before = np.concatenate([[0], used[:-1]])
        rule = self.rule
        if isinstance(rule, Calibrated):  # what is divided by the root of the mean square that will be measured
            left = np.maximum(0.0, 1.0 - nit / rule.iterations) ** rule.power
            return np.asarray(2 * rule.radius * left / np.sqrt(rule.iterations))
        assert isinstance(rule, Schedule)
        progress = None
        for done, end in ((context.nfev + before, context.max_evals), (nit, context.max_iter)):
            if end is not None:
                share = np.minimum(done / end, 1.0)
                progress = share if progress is None else np.maximum(progress, share)
        return np.asarray(rule.at(nit, progress), float) + np.zeros(used.size)

    def memory(self, state: Any) -> list[float]:
        if not isinstance(self.rule, Calibrated):
            return []
        memory = state.rule
        return [memory.mean, memory.total, memory.count, self.rule.span, state.step_size]

    def remember(self, state: Any, steps: Array, tally: Array) -> None:
        if tally.size == TALLY:
            super().remember(state, steps, tally)
            return
        state.rule.mean = float(tally[SQUARE])
        state.rule.total = float(tally[SQUARES_SUM])
        state.rule.count = int(tally[SQUARES_SEEN])
        state.step_size = float(tally[ETA])


class _Announcement:
    """Says on stderr what takes so long, if it does."""

    def __init__(self, text: str) -> None:
        self._timer = threading.Timer(0.5, lambda: print(f"goldstein: {text} …", file=sys.stderr, flush=True))

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()
