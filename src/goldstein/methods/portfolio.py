"""Portfolio: two methods run in turn from the same start, and the better one takes what is left of the budget.

Without noise the second gives up early where it is behind, and where it leads both get a second share, so that a
method which is slow at first is not given up too soon. The lowest point is asked for again every now and then: a value
that differs is noise, which the calls at x0 have not shown. Under noise that can be replayed both are judged once, on
common samples. Each goes on from where it was, so nothing that was reached is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein.methods.method import START, Context, Kernel, Method, Step
from goldstein.methods.paired import CommonSamples, PairedEvaluation, PairedEvaluationState, paired_difference
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.methods.survey import taken_as_noise
from goldstein.oracle import Array, Oracle, Query
from goldstein.state import LATER, State

EARLY_SHARE = 0.05  # share of the budget after which the second method gives up if it is behind
SHARE = 0.15  # what each gets, and again if the second leads
CHECKS = 20  # times that the lowest point is asked for again
EVALUATE = 2  # `active` while `PairedEvaluation` runs


@dataclass
class Arm(State):
    """One of the two."""

    x: Array  # where it stands
    value: float = np.inf  # the lowest of its values
    state: Any = None  # its state as long as it is not active
    used: int = 0  # its evaluations
    nit: int = 0
    candidates: Any = None  # what its last step offered as answers
    values: Array | None = None  # its values on the common samples


@dataclass
class PortfolioState(StagedState):
    """State of `Portfolio`; `inner` is the state of the active method."""

    origin: Array = LATER
    active: int = 0  # 0 and 1 are the methods, 2 is the paired evaluation
    previous: int = 0  # which arm was active before that
    arms: Any = None
    rounds: int = 1  # how many shares each gets
    winner: int = -1  # who has won; -1 as long as that is open
    early_value: float | None = None  # of the first method at a twentieth; NaN once the second was compared with it
    common: CommonSamples = LATER
    next_check: float = np.inf  # after how many evaluations the lowest point is asked for again
    rechecked: float = np.nan  # its value


@dataclass(frozen=True)
class Portfolio(Staged):
    """Two methods in turn; the better one goes on.

    Parameters
    ----------
    first, second : Method
        The arms; in doubt the first one wins.
    """

    first: Method
    second: Method
    name: ClassVar[str] = "portfolio"

    def init(self, x: Array, context: Context) -> PortfolioState:
        state = PortfolioState(x, origin=x, arms=[Arm(x), Arm(x)])
        if not context.noisy:
            state.next_check = self._budget(x.size, context) / CHECKS
        self._activate(state, context, 0)
        return state

    def _budget(self, d: int, context: Context) -> int:
        if context.max_evals is not None:
            return context.max_evals
        assert context.max_iter is not None
        return (d + 1) * context.max_iter

    def _method(self, state: PortfolioState) -> Method:
        return (self.first, self.second, PAIRED_EVALUATION)[state.active]

    def _stage_context(self, state: PortfolioState, context: Context) -> Context:
        return self._remaining(state, context)

    def tell(self, state: StagedState, context: Context, query: Query, values: Array) -> Step:
        assert isinstance(state, PortfolioState)
        if state.active != EVALUATE:
            arm = state.arms[state.active]
            arm.value = float(np.min(values, initial=arm.value, where=np.isfinite(values)))
        return super().tell(state, context, query, values)

    def _advance(self, state: PortfolioState, context: Context, step: Step) -> Step:
        if state.active == EVALUATE:
            self._evaluated(state, context, step)
        else:
            self._arm_step(state, context, step)
        one, other = state.arms
        if context.noisy:
            best = other if state.winner == 1 else one
            step.x = best.x
            step.candidates = best.candidates
            return step
        lowest = context.facts.incumbent.x
        step.x = state.origin if lowest is None else lowest
        step.candidates = {"lowest point seen": step.x, START: state.origin}
        step.notes = {**(step.notes or {}), "settings": self._summary(state)}
        return step

    def _summary(self, state: PortfolioState) -> str:
        one, other = state.arms
        leader = self.second if other.value < one.value else self.first
        used = f"evaluations: {self.first.name} {one.used}, {self.second.name} {other.used}"
        return f"The lowest point is that of {leader.name} ({used})."

    def _arm_step(self, state: PortfolioState, context: Context, step: Step) -> None:
        arm = state.arms[state.active]
        arm.used = context.nfev - state.evals_before
        arm.nit = state.nit - state.nit_before
        if context.noisy:
            arm.x = step.x
            arm.candidates = step.candidates
        if step.partial:
            return
        if state.winner < 0:
            self._schedule(state, context, arm)
        if context.nfev >= state.next_check:
            state.next_check += self._budget(state.x.size, context) / CHECKS
            self._recheck(state, context)

    def _schedule(self, state: PortfolioState, context: Context, arm: Arm) -> None:
        budget = self._budget(state.x.size, context)
        one, other = state.arms
        looking = not context.noisy and arm.used >= EARLY_SHARE * budget
        if looking and state.active == 0 and state.early_value is None:
            state.early_value = one.value
        if looking and state.active == 1 and state.early_value is not None:
            if other.value > state.early_value:
                self._decide(state, context, 0)
                return
            state.early_value = np.nan
        if arm.used < state.rounds * SHARE * budget:
            return
        if state.active == 0:
            self._activate(state, context, 1)
        elif context.noisy:
            state.common = CommonSamples.draw(context, budget)
            self._evaluate(state, context, 0, one.x, state.common)
        elif other.value >= one.value:
            self._decide(state, context, 0)
        elif state.rounds == 1:
            state.rounds = 2
            self._activate(state, context, 0)
        else:
            self._decide(state, context, 1)

    def _decide(self, state: PortfolioState, context: Context, winner: int) -> None:
        state.winner = winner
        if state.active != winner:
            self._activate(state, context, winner)

    def _activate(self, state: PortfolioState, context: Context, active: int) -> None:
        """Continue an arm where it stopped."""
        self._save_arm(state)
        state.active = active
        arm = state.arms[active]
        state.evals_before = context.nfev - arm.used
        state.nit_before = state.nit - arm.nit
        if arm.state is None:
            arm.state = self._method(state).init(state.origin, self._stage_context(state, context))
        state.inner = arm.state
        arm.state = None

    def _save_arm(self, state: PortfolioState) -> None:
        if state.inner is not None and state.active != EVALUATE:
            state.arms[state.active].state = state.inner

    def _evaluate(self, state: PortfolioState, context: Context, arm: int, x: Array, common: CommonSamples) -> None:
        """Evaluate x on common samples; `arm` stands there, or continues then."""
        self._save_arm(state)
        state.active = EVALUATE
        state.previous = arm
        state.evals_before = context.nfev
        state.nit_before = state.nit
        state.inner = PairedEvaluationState(x, common=common)

    def _recheck(self, state: PortfolioState, context: Context) -> None:
        lowest = context.facts.incumbent
        if lowest.x is not None:
            state.rechecked = lowest.fun
            self._evaluate(state, context, state.active, lowest.x, CommonSamples(1))

    def _evaluated(self, state: PortfolioState, context: Context, step: Step) -> None:
        values = state.inner.values
        if not context.noisy:
            if context.facts.differ(state.rechecked, values[0]):
                step.noisy = taken_as_noise(f"{state.rechecked:.6g} and {values[0]:.6g} at the same point")
            self._activate(state, context, state.previous)
            return
        one, other = state.arms
        state.arms[state.previous].values = values
        if state.previous == 0:
            self._evaluate(state, context, 1, other.x, state.common)
            return
        mean, _ = paired_difference(other.values, one.values)
        self._decide(state, context, 1 if mean < 0 else 0)

    def kernel(self, oracle: Oracle) -> Kernel:
        return StagedKernel(self, oracle, self.first.kernel(oracle).outputs)


PAIRED_EVALUATION = PairedEvaluation()
