"""Runs in stages: each stage is a method, which starts where the one before it ended.

Subclasses say which stages there are and when one is over; asking, telling, budgets and kernels stand here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from goldstein.methods.method import Chunk, ChunkResult, Context, Kernel, Method, MethodState, Step, Unsupported, within
from goldstein.oracle import Array, Oracle, Query
from goldstein.output import Average


@dataclass
class StagedState(MethodState):
    """State of a run in stages."""

    stage: int = 1  # which stage it is in, from 1
    inner: Any = None  # the state of that stage
    evals_before: int = 0  # evals_before, nit_before: evaluations and iterations before that stage
    nit_before: int = 0
    average: Average | None = None  # the mean of the iterates of this stage, if the next one starts there
    no_second: bool = False  # the user was warned that the first stage takes the whole run


@dataclass(frozen=True)
class Staged(Method):
    """Base of the methods that run in stages."""

    @abstractmethod
    def _method(self, state: Any) -> Method:
        """Return the method of the present stage."""

    @abstractmethod
    def _stage_context(self, state: Any, context: Context) -> Context:
        """Return the context of the present stage: its own part of the budget and its own count."""

    @abstractmethod
    def _advance(self, state: Any, context: Context, step: Step) -> Step:
        """Return the step of the run for a step of the present stage; enter the next stage if this one is over."""

    def ask(self, state: StagedState, context: Context, limit: int | None) -> Query | None:
        return self._method(state).ask(state.inner, self._stage_context(state, context), limit)

    def tell(self, state: StagedState, context: Context, query: Query, values: Array) -> Step:
        previous = state.inner.x
        step = self._method(state).tell(state.inner, self._stage_context(state, context), query, values)
        if state.average is not None and step.completed:
            state.average.leave(previous, step.value, context.rng)
        return self._finish_step(state, context.after(query), step)

    def _finish_step(self, state: StagedState, context: Context, step: Step) -> Step:
        """Bring the outer state up to date after a step of the present stage."""
        state.nit += step.completed
        state.value = step.value
        state.grad_norm = step.grad_norm
        state.step_size = step.step_size
        step = self._advance(state, context, step)
        state.x = state.inner.x
        return step

    def _enter(self, state: StagedState, context: Context, x: Array, average: Average | None = None) -> None:
        state.stage += 1
        state.evals_before = context.nfev
        state.nit_before = state.nit
        state.average = average
        method = self._method(state)
        stage = self._stage_context(state, context)
        state.inner = method.init(context.projected(x, method.needs.query_radius), stage)
        state.x = state.inner.x

    def _remaining(self, state: StagedState, context: Context) -> Context:
        """Return the context of the present stage with all of the remaining budget."""
        stage = replace(context, nfev=context.nfev - state.evals_before)
        if context.max_evals is not None:
            stage.max_evals = max(1, context.max_evals - state.evals_before)
        if context.max_iter is not None:
            stage.max_iter = max(1, context.max_iter - state.nit_before)
        return stage


@dataclass
class ProbeStageState(MethodState):
    """State of `ProbeStage`: a `Survey` or a `Probe`."""

    probe: Any = None


@dataclass(frozen=True)
class ProbeStage(Method):
    """The stage that asks what a probe asks; it moves nothing."""

    name: ClassVar[str] = "probe"

    def init(self, x: Array, context: Context) -> ProbeStageState:
        return ProbeStageState(x)

    def ask(self, state: ProbeStageState, context: Context, limit: int | None) -> Query | None:
        return within(state.probe.ask(state.x, context), limit)

    def tell(self, state: ProbeStageState, context: Context, query: Query, values: Array) -> Step:
        state.probe.tell(context, query, values)
        return state.make_step(completed=0)


PROBE_STAGE = ProbeStage()


class StagedKernel(Kernel):
    """Runs the kernel of the present stage, up to the end of that stage."""

    def __init__(self, method: Staged, oracle: Oracle, outputs: tuple[str, ...]) -> None:
        self.outputs = outputs
        self.method = method
        self.oracle = oracle
        self._stage: Method | None = None
        self._inner: Kernel | None = None

    def _kernel(self, state: StagedState) -> Kernel | None:
        """Return the kernel of the present stage; None when it has none."""
        method = self.method._method(state)
        if self._stage is not method:
            self._stage = method
            try:
                self._inner = method.kernel(self.oracle)
            except Unsupported:
                self._inner = None
        return self._inner

    def offers(self, state: StagedState) -> bool:
        return state.average is None

    def plan(self, state: StagedState, context: Context, limit: int | None, until: float, most: int | None) -> int:
        kernel = self._kernel(state)
        if kernel is None:
            return 0
        stage = self.method._stage_context(state, context)
        if stage.max_evals is not None:
            until = min(until, stage.max_evals - stage.nfev)
        if stage.max_iter is not None:
            remaining = stage.max_iter - state.inner.nit
            most = remaining if most is None else min(remaining, most)
        return kernel.plan(state.inner, stage, limit, until, most)

    def run(self, state: StagedState, context: Context, chunk: Chunk) -> ChunkResult:
        kernel = self._kernel(state)
        assert kernel is not None
        stage = self.method._stage_context(state, context)
        before = stage.nfev
        result = kernel.run(state.inner, stage, replace(chunk, mean=state.average or chunk.mean))
        context.nfev += stage.nfev - before
        return ChunkResult(self.method._finish_step(state, context, result.step), result.tally)
