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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from goldstein import retired
from goldstein.compiled import is_jitted
from goldstein.compiled.tally import new_tally
from goldstein.methods.method import Chunk, ChunkResult, Context, Kernel, Method, Step, Unsupported
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle, Tally
from goldstein.output import Average
from goldstein.steps import Calibrated, Schedule, StepRule

CHUNK = 8192  # evaluations in one chunk
PIECE_SECONDS = 0.2  # how long Ctrl-C may have to wait


def compilable(method: Method, oracle: Oracle) -> bool:
    """Whether a method has whole iterations in machine code for an oracle."""
    try:
        method.kernel(oracle)
    except Unsupported:
        return False
    return True


def check_compilable(oracle: Oracle) -> None:
    """Refuse an oracle whose function no loop can call in machine code."""
    if not isinstance(oracle, FiniteSum | Deterministic) or oracle.vectorized or not is_jitted(oracle.fun):
        raise Unsupported(
            "The compiled loops need a FiniteSum or Deterministic whose function of one point is jitted by numba."
        )


def tally_of(record: Any) -> Tally:
    """Return the statistics of the values of a chunk."""
    finite, *rest = (record[name].item() for name in ("finite", "total", "magnitude", "lowest", "single", "double"))
    return Tally(finite + int(record["failed"]), finite, *rest)


@contextmanager
def locate(state: Any) -> Iterator[None]:
    """Give an exception from a loop the iterate as its point: where in the loop it was raised is not known."""
    try:
        yield
    except Exception as error:
        with suppress(AttributeError, TypeError):  # some exceptions take no attributes
            error.point = state.x.copy()  # type: ignore[attr-defined]
            error.add_note("goldstein: raised in a compiled loop; `.point` is the iterate, near which F was called.")
        raise


def in_double(fun: Any, signature: Any) -> Any:
    """Return the jitted function with a form that returns float64; a new one if `fun` has another such as float32."""
    from numba import jit

    present = fun.overloads.get(signature.args)
    if present is not None and present.signature.return_type != signature.return_type:
        fun = jit(**fun.targetoptions)(fun.py_func)
    fun.compile(signature)
    return fun


class CompiledKernel(Kernel):
    """Base of the kernels: how many iterations fit, and the bookkeeping around the machine code.

    `each` is the number of evaluations that an iteration takes at least; with a `rule`, steps come from that.
    """

    def __init__(self, method: Any, oracle: Oracle, each: int, rule: StepRule | None = None) -> None:
        check_compilable(oracle)
        if rule is not None and not isinstance(rule, Schedule | Calibrated):
            raise Unsupported(f"{type(rule).__name__} looks at values, which the compiled loops do not.")
        self.method = method
        self.oracle = oracle
        self.each = each
        self.rule = rule
        self.n = oracle.n or 0
        self._loop: Callable[..., Any] | None = None
        self._fun: Any = None
        self._piece = max(1, 512 // each)  # iterations of a call of the machine code

    def used(self, state: Any, k: int) -> Array:
        """Return the evaluations used after each of the next k iterations, if none of them fails altogether."""
        return np.asarray(self.each * np.arange(1, k + 1), np.int64)

    def call(self, state: Any, context: Context, mean: Array, count: int, steps: Array, tally: Any) -> int:
        """Run the machine code for as many iterations as there are steps; return how many were done."""
        raise NotImplementedError

    def make_step(self, state: Any, completed: int) -> Step:
        step: Step = self.method._make_step(state, None, completed)
        return step

    def plan(self, state: Any, context: Context, limit: int | None, until: float, most: int | None) -> int:
        soft = min(until, CHUNK)
        k = max(1, math.ceil(soft / self.each))
        used = self.used(state, k if most is None else min(k, most))
        k = min(int(np.searchsorted(used, soft)) + 1, used.size)
        return k if limit is None else min(k, int(np.searchsorted(used, limit, side="right")))

    def run(self, state: Any, context: Context, chunk: Chunk) -> ChunkResult:
        used = self.used(state, chunk.iterations)
        if chunk.limit is not None and used[-1] > chunk.limit:
            used = used[: int(np.searchsorted(used, chunk.limit, side="right"))]
        if not used.size:
            return ChunkResult(self.make_step(state, 0), Tally())
        tally = new_tally()
        if isinstance(self.rule, Calibrated):
            travel = state.rule
            numbers = {"mean": travel.mean, "sum": travel.total, "count": travel.count}
            tally = new_tally(calibrated=1, span=self.rule.span, eta=state.step_size, **numbers)
        steps = self._steps(state, context, used)
        state.x = state.x.copy()
        with locate(state):
            done = self._in_pieces(state, context, chunk, steps, tally)
        self.write_back(state, steps[:done], tally)
        state.nit += done
        context.nfev += int(tally["finite"] + tally["failed"])
        return ChunkResult(self.make_step(state, done), tally_of(tally))

    def _in_pieces(self, state: Any, context: Context, chunk: Chunk, steps: Array, tally: Any) -> int:
        """Call the machine code piece by piece, each of a fraction of a second; return how many iterations were done.

        All pieces add up in one tally, so that nothing but the wait for Ctrl-C depends on where one ends.
        """
        mean = chunk.mean or Average(np.empty(0))
        mean.mean = state.x.copy() if mean.mean is None else mean.mean.copy()
        assert mean.mean is not None
        done = 0
        while done < steps.size and not (done and chunk.stop()):
            piece = steps[done : done + self._piece]
            start = time.perf_counter()
            did = self.call(state, context, mean.mean, mean.count, piece, tally)
            mean.count += did
            took = time.perf_counter() - start
            done += did
            self._piece = max(1, min(2 * self._piece, int(PIECE_SECONDS / max(took, 1e-9) * did)))
            if did < piece.size:
                break
        return done

    def _steps(self, state: Any, context: Context, used: Array) -> Array:
        """Return the steps, as far as they are known before the values are."""
        rule = self.rule
        nit = state.nit + np.arange(used.size)
        if rule is None:
            return np.zeros(used.size)
        if isinstance(rule, Calibrated):  # what is divided by the root of the mean square that will be measured
            decay = np.maximum(0.0, 1.0 - nit / rule.iterations) ** rule.power
            return np.asarray(2 * rule.radius * decay / np.sqrt(rule.iterations))
        assert isinstance(rule, Schedule)
        before = np.concatenate([[0], used[:-1]])
        progress = None
        for done, end in ((context.nfev + before, context.max_evals), (nit, context.max_iter)):
            if end is not None:
                share = np.minimum(done / end, 1.0)
                progress = share if progress is None else np.maximum(progress, share)
        return np.asarray(rule.at(nit, progress), float) + np.zeros(used.size)

    def write_back(self, state: Any, steps: Array, tally: Any) -> None:
        if isinstance(self.rule, Calibrated):
            state.rule.mean = float(tally["mean"])
            state.rule.total = float(tally["sum"])
            state.rule.count = int(tally["count"])
            state.step_size = float(tally["eta"])
        elif self.rule is not None:
            state.step_size = float(steps[-1])
        state.sum_sq_norm += float(tally["sum_sq_norm"])
        state.n_estimates += float(tally["n_estimates"])
        if not np.isnan(tally["value"]):
            state.value = float(tally["value"])
        if tally["grad_norm"] >= 0:
            state.grad_norm = float(tally["grad_norm"])

    def compiled(self, loop: Any, *inputs: Any) -> Any:
        """Call a loop by the signature that is kept on disk, compiling it first if need be."""
        from numba import typeof, types

        if self._loop is None:
            args = typeof(self.oracle.args)
            index = (types.int64,) if self.n else ()
            signature = types.float64(types.float64[::1], *index, *args.types)
            with announced(f"compiling the loop of {self.method.name} for this function (once for each signature)"):
                self._fun = in_double(self.oracle.fun, signature)
                types_in = (types.FunctionType(signature), args, *(typeof(value) for value in inputs))
                loop.compile(types_in)
                self._loop = loop.get_overload(types_in)
        return self._loop(self._fun, self.oracle.args, *inputs)


@contextmanager
def announced(text: str) -> Iterator[None]:
    """Say on stderr what takes so long, if it does."""
    timer = threading.Timer(0.5, lambda: print(f"goldstein: {text} …", file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
