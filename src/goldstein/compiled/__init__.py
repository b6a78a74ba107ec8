"""Whole loops in machine code, for functions that numba has compiled (extra: compiled).

`kernel` returns the compiled form of a run, or says in one sentence why there is none. The loop hands it chunks of
iterations between two records of the history; what does not fill a whole batch goes the plain way.
"""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from goldstein.counting import Tally
from goldstein.estimate.smoothing import Central
from goldstein.methods.auto import DECAY, GROW, HUGE, SMOOTH, Auto, AutoState
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus, GFMPlusState
from goldstein.methods.method import Context, Method
from goldstein.methods.o2nc import ZOO2NC, O2NCState
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.probed import Probed, ProbedState
from goldstein.methods.warm_start import WarmStart, WarmStartState
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle
from goldstein.output import Average, Random, Tracker
from goldstein.steps import Calibrated, Schedule

CHUNK_SECONDS = 0.3  # how long Ctrl-C and the first record may have to wait


def is_jitted(fun: Any) -> bool:
    """Whether numba has compiled `fun`, without importing numba."""
    if "numba" not in sys.modules:
        return False
    from numba.core.dispatcher import Dispatcher

    return isinstance(fun, Dispatcher)


def obstacle(method: Method, oracle: Oracle, *, constrained: bool, scaled: bool, output: str) -> str | None:
    """Return why a run cannot go in machine code, in one sentence; None when it can."""
    if not isinstance(oracle, FiniteSum | Deterministic) or oracle.vectorized or not is_jitted(oracle.fun):
        return "The compiled loops need a FiniteSum or Deterministic whose function of one point is jitted by numba."
    if constrained or scaled:
        return "The compiled loops take neither bounds, projection nor x_scale."
    if output == "best":
        return "The compiled loops do not keep the best iterate; choose another output."
    if isinstance(method, Probed):
        method = method.example  # what will be built differs in numbers only
    for part in (method.first, method.second) if isinstance(method, WarmStart) else (method,):
        if type(part) not in KERNELS:
            return f"{part.name} has no compiled loop."
        if isinstance(part, Auto):
            continue
        assert isinstance(part, ZerothOrder)
        if isinstance(part, GFMPlus) and (part.restart != "clock" or part.momentum is not None):
            return "The compiled loop of gfm+ has neither the coin of PAGE nor the momentum of STORM."
        if part.directions != "iid" or not isinstance(part._estimator, Central):
            return "The compiled loops use independent directions and central differences only."
        if isinstance(part, ZOO2NC):
            if part is not method or output != "last":
                return "The compiled loop of zo-o2nc answers with the mean of its last block only."
        elif not isinstance(part._rule, Schedule | Calibrated):
            return f"{type(part._rule).__name__} looks at values, which the compiled loops do not."
    return None


def kernel(method: Method, oracle: Oracle) -> _Kernel | _WarmStartKernel | _ProbedKernel:
    """Return the compiled form of a method for an oracle that `obstacle` finds nothing against."""
    if isinstance(method, Probed):
        return _ProbedKernel(method, oracle)
    if isinstance(method, WarmStart):
        return _WarmStartKernel(method, kernel(method.first, oracle), kernel(method.second, oracle))
    return KERNELS[type(method)](method, oracle)


class _Kernel(ABC):
    """Base: how many iterations fit, the steps they take, and the bookkeeping around the machine code."""

    def __init__(self, method: Any, oracle: Oracle) -> None:
        self.method, self.oracle = method, oracle
        self.n = oracle.n or 0
        self.pace = 1e-4  # seconds an evaluation, measured as the run goes on
        self._loop: Callable[..., Any] | None = None

    def advance(
        self,
        state: Any,
        context: Context,
        tracker: Tracker,
        aux: np.random.Generator,
        limit: int | None,
        until: float,
        most: int | None,
    ) -> Tally:
        """Do whole iterations; see `goldstein.run.session.Kernel`."""
        used = self._plan(state, limit, until, most)
        if used.size == 0:
            return Tally()
        etas = self._steps(state, context, used)
        started, tally, known = time.perf_counter(), Tally(), self._loop is not None
        for first, last, pick in _parts(tracker, aux, used.size):
            if last > first:
                _merge(tally, self._run(state, context, tracker, etas[first:last]))
            if pick:
                assert isinstance(tracker, Random)
                tracker.pick = state.x.copy()
        state.nit += used.size
        state.step = float(etas[-1])
        context.nfev += int(used[-1])
        tally.asked = int(used[-1])
        if known:  # the first chunk may have been compiled
            self.pace = (time.perf_counter() - started) / tally.asked
        return tally

    @abstractmethod
    def _costs(self, state: Any, k: int) -> Array:
        """Return the evaluations of each of the next k iterations."""

    @abstractmethod
    def _call(self, state: Any, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        """Run the machine code for as many iterations as there are steps."""

    def _plan(self, state: Any, limit: int | None, until: float, most: int | None) -> Array:
        """Return the evaluations used after each of the iterations of the chunk."""
        cheapest = float(np.min(self._costs(state, 1 << 10)))
        soft = min(until, CHUNK_SECONDS / self.pace)
        k = max(1, int(np.ceil(soft / cheapest)))
        used = np.cumsum(self._costs(state, k if most is None else min(k, most)))
        used = used[: int(np.searchsorted(used, soft)) + 1]
        return used if limit is None else used[: int(np.searchsorted(used, limit, side="right"))]

    def _steps(self, state: Any, context: Context, used: Array) -> Array:
        """Return the steps, as far as they are known before the values are."""
        return np.zeros(used.size)

    def _memory(self, state: Any) -> list[float]:
        """Return what the step rule remembers, if the machine code needs it."""
        return []

    def _run(self, state: SmoothedState, context: Context, tracker: Tracker, etas: Array) -> Array:
        from goldstein.compiled import kernels as k

        tally = np.concatenate([np.zeros(k.TALLY), self._memory(state)])
        tally[k.LOWEST], tally[k.VALUE], tally[k.NORM] = np.inf, np.nan, -1.0
        state.x = state.x.copy()
        mean, count = np.empty(0), 0
        if isinstance(tracker, Average):
            tracker.mean = state.x.copy() if tracker.mean is None else tracker.mean.copy()
            mean, count = tracker.mean, tracker.count
            tracker.count += etas.size
        self._call(state, context, mean, count, etas, tally)
        self._remember(state, etas, tally)
        state.power += float(tally[k.POWER])
        state.directions += float(tally[k.DIRECTIONS])
        if not np.isnan(tally[k.VALUE]):
            state.value, state.gradient_norm = float(tally[k.VALUE]), float(tally[k.NORM])
        return tally

    def _remember(self, state: Any, etas: Array, tally: Array) -> None:  # noqa: B027 - most rules measure nothing
        """Keep what the step rule has measured."""

    def _compiled(self, loop: Any, *inputs: Any) -> Any:
        """Call a kernel by the signature that is kept on disk, compiling it first if need be."""
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


class _Ruled(_Kernel):
    """A kernel whose steps come from a rule."""

    def _steps(self, state: Any, context: Context, used: Array) -> Array:
        nit, before = state.nit + np.arange(used.size), np.concatenate([[0], used[:-1]])
        rule = self.method._rule
        if isinstance(rule, Calibrated):  # what is divided by the root of the mean square that will be measured
            left = np.maximum(0.0, 1.0 - nit / rule.iterations) ** rule.power
            return np.asarray(2 * rule.radius * left / np.sqrt(rule.iterations))
        progress = None
        for done, end in ((context.nfev + before, context.max_evals), (nit, context.max_iter)):
            if end is not None:
                share = np.minimum(done / end, 1.0)
                progress = share if progress is None else np.maximum(progress, share)
        return np.asarray(rule.at(nit, progress), float) + np.zeros(used.size)

    def _memory(self, state: SmoothedState) -> list[float]:
        rule, memory = self.method._rule, state.rule
        calibrated = isinstance(rule, Calibrated)
        return [memory.mean, memory.total, memory.count, rule.span, state.step] if calibrated else []

    def _remember(self, state: SmoothedState, etas: Array, tally: Array) -> None:
        from goldstein.compiled import kernels as k

        if tally.size > k.TALLY:
            state.rule.mean, state.rule.total = float(tally[k.SQUARE]), float(tally[k.SQUARES_SUM])
            state.rule.count, etas[-1] = int(tally[k.SQUARES_SEEN]), tally[k.ETA]


class _GFM(_Ruled):
    def _costs(self, state: SmoothedState, k: int) -> Array:
        return np.full(k, 2 * self.method.batch_size)

    def _call(self, state: SmoothedState, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        from goldstein.compiled.kernels import gfm

        m = self.method
        self._compiled(gfm, context.rng, self.n, state.x, mean, count, etas, m.batch_size, float(m.delta), tally)


class _GFMPlus(_Ruled):
    @property
    def large(self) -> int:
        return int(self.method.large_batch_size or self.method.epoch_length * self.method.batch_size)

    def _costs(self, state: GFMPlusState, k: int) -> Array:
        restart = (state.age + np.arange(k)) % self.method.epoch_length == 0
        return np.where(restart, 2 * self.large, 4 * self.method.batch_size)

    def _call(self, state: GFMPlusState, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        from goldstein.compiled import kernels as k

        m = self.method
        state.v = np.zeros_like(state.x) if state.v is None else state.v.copy()
        state.x_prev = state.x.copy() if state.x_prev is None else state.x_prev.copy()
        settings = (etas, m.batch_size, float(m.delta), tally, self.large, m.epoch_length, state.age)
        state.age = int(
            self._compiled(k.gfm_plus, context.rng, self.n, state.x, mean, count, *settings, state.v, state.x_prev)
        )
        state.change += float(tally[k.CHANGE])
        state.level += float(tally[k.LEVEL])
        state.corrections += int(tally[k.CORRECTIONS])


class _Auto(_Kernel):
    """Only the walks of `Auto` are compiled; probing and judging go the plain way."""

    def _costs(self, state: AutoState, k: int) -> Array:
        return np.full(k, 2)

    def _plan(self, state: AutoState, limit: int | None, until: float, most: int | None) -> Array:
        if state.phase not in ("race", "run"):
            return np.empty(0)
        left = state.pairs - state.t
        return super()._plan(state, limit, until, left if most is None else min(left, most))

    def _call(self, state: AutoState, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        from goldstein.compiled import kernels as k

        rule, last = state.rule, state.t + etas.size
        memory = np.array([state.radius, state.walk, rule.mean, rule.total, float(rule.count), 0.0])
        length = (state.t, last, state.pairs, state.floor, SMOOTH, DECAY, GROW if state.phase == "run" else 0.0, HUGE)
        self._compiled(k.auto, context.rng, self.n, state.x, state.origin.copy(), memory, *length, tally)
        state.radius, state.walk, rule.mean, rule.total = (float(value) for value in memory[:4])
        rule.count, state.t = int(memory[k.COUNT]), last
        etas[-1] = memory[k.STEP]
        self.method._after_walk(state)


class _ZOO2NC(_Kernel):
    def _costs(self, state: O2NCState, k: int) -> Array:
        return np.full(k, 2 * self.method.batch_size)

    def _call(self, state: O2NCState, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        from goldstein.compiled import kernels as k

        m: ZOO2NC = self.method
        for name in ("position", "displacement", "points", "gradients"):
            setattr(state, name, getattr(state, name).copy())
        memory = np.array([state.done, state.squares, state.block_norm, state.step])
        eta = -1.0 if m.step_size is None else float(m.step_size)
        settings = (etas.size, m.batch_size, float(m.margin()), float(m.play_radius), m.block_length, eta)
        arrays = (state.x, state.position, state.displacement, state.points, state.gradients)
        self._compiled(k.zo_o2nc, context.rng, self.n, *settings, *arrays, memory, tally)
        state.done, state.squares = int(memory[k.DONE]), float(memory[k.SQUARES])
        state.block_norm, etas[-1] = float(memory[k.BLOCK_NORM]), memory[k.PLAYED]


class _WarmStartKernel:
    """Runs the kernel of the current phase, up to the end of that phase."""

    def __init__(self, method: WarmStart, first: Any, second: Any) -> None:
        self.method, self.first, self.second = method, first, second

    def advance(
        self,
        state: WarmStartState,
        context: Context,
        tracker: Tracker,
        aux: np.random.Generator,
        limit: int | None,
        until: float,
        most: int | None,
    ) -> Tally:
        """Do whole iterations; see `goldstein.run.session.Kernel`."""
        stage = self.method._stage(state, context)
        nfev, phase = stage.nfev, state.phase
        if phase == 1:
            if stage.max_evals is not None:
                until = min(until, stage.max_evals - stage.nfev)
            if stage.max_iter is not None:
                most = min(stage.max_iter - state.inner.nit, stage.max_iter if most is None else most)
            tracker = state.average
        kernel = self.first if phase == 1 else self.second
        tally: Tally = kernel.advance(state.inner, stage, tracker, aux, limit, until, most)
        context.nfev += stage.nfev - nfev
        self.method._after(state, context)
        return tally


class _ProbedKernel:
    """Runs the kernel of the method that was built, once probing is over."""

    def __init__(self, method: Probed, oracle: Oracle) -> None:
        self.method, self.oracle = method, oracle
        self._built: tuple[Method | None, Any] = (None, None)

    def advance(
        self,
        state: ProbedState,
        context: Context,
        tracker: Tracker,
        aux: np.random.Generator,
        limit: int | None,
        until: float,
        most: int | None,
    ) -> Tally:
        """Do whole iterations; see `goldstein.run.session.Kernel`."""
        if state.inner is None:
            return Tally()
        built, stage = self.method.built(state), self.method._stage(state, context)
        if self._built[0] is not built:
            self._built = (built, kernel(built, self.oracle))
        nfev = stage.nfev
        tally: Tally = self._built[1].advance(state.inner, stage, tracker, aux, limit, until, most)
        context.nfev += stage.nfev - nfev
        self.method._after(state)
        return tally


KERNELS: dict[type[Method], type[_Kernel]] = {
    GFM: _GFM,
    OnePhase: _GFM,
    GFMPlus: _GFMPlus,
    Auto: _Auto,
    ZOO2NC: _ZOO2NC,
}


def _parts(tracker: Tracker, aux: np.random.Generator, k: int) -> list[tuple[int, int, bool]]:
    """Split a chunk of k iterations where a random output picks an iterate: (first, last, pick after it)."""
    if not isinstance(tracker, Random):
        return [(0, k, False)]
    counts = tracker.count + 1 + np.arange(k)
    hits = np.nonzero(aux.random(k) * counts < 1)[0]
    tracker.count += k
    if hits.size == 0:
        return [(0, k, False)]
    return [(0, int(hits[-1]), True), (int(hits[-1]), k, False)]


def _merge(tally: Tally, seen: Array) -> None:
    from goldstein.compiled import kernels as k

    tally.fine += int(seen[k.FINE])
    tally.total += float(seen[k.TOTAL])
    tally.magnitude += float(seen[k.MAGNITUDE])
    tally.lowest = min(tally.lowest, float(seen[k.LOWEST]))


class _Announcement:
    """Says on stderr what takes so long, if it does."""

    def __init__(self, text: str) -> None:
        self._timer = threading.Timer(0.5, lambda: print(f"goldstein: {text} …", file=sys.stderr, flush=True))

    def __enter__(self) -> None:
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *exc: object) -> None:
        self._timer.cancel()


__all__ = ["is_jitted", "kernel", "obstacle"]
