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

from goldstein.methods.method import START, Context, Kernel, Method, Needs, Step, any_iterate
from goldstein.methods.paired import CommonSamples, PairedEvaluation, PairedEvaluationState, paired_difference
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.methods.survey import SHORT_VALUES
from goldstein.oracle import DOUBLE, SINGLE, Array, Oracle, Query
from goldstein.oracle.stats import evidence
from goldstein.state import State

EARLY_SHARE = 0.05  # share of the budget after which the second method gives up if it is behind
SHARE = 0.15  # what each gets, and again if the second leads
CHECKS = 20  # times that the lowest point is asked for again
SAME = 100  # unit rounding errors of F around x0 that may be rounding, such as of a sum in another order
EVALUATE = 2  # `active` while `PairedEvaluation` runs


@dataclass
class Arm(State):
    """One of the two.

    Attributes
    ----------
    x, value
        Where it stands, and without noise the value there: the lowest that it has seen.
    state : MethodState or None
        Its state as long as it is not active.
    used, nit : int
        Its evaluations and iterations.
    candidates : mapping or None
        What its last step offered as answers.
    values : ndarray or None
        Its values on the common samples.
    """

    x: Array
    value: float = np.inf
    state: Any = None
    used: int = 0
    nit: int = 0
    candidates: Any = None
    values: Array | None = None


@dataclass
class PortfolioState(StagedState):
    """State of `Portfolio`; `inner` is the state of the active method.

    Attributes
    ----------
    origin : ndarray
        x0.
    active, previous : int
        0 and 1 are the methods, 2 is the paired evaluation; and which arm was active before that.
    arms : list
        The two.
    rounds, winner : int
        How many shares each gets, and who has won; -1 as long as that is open.
    early_value : float
        The value of the first method when it had used a twentieth, until the second has seen it.
    common : CommonSamples or None
        The common samples.
    next_check : float
        After how many evaluations the lowest point is asked for again.
    level : float
        |F| around x0, by which rounding errors are judged; those of a sum do not vanish where the sum does.
    single, double : int
        Values that tell something about their precision.
    """

    origin: Array = None  # type: ignore[assignment]
    active: int = 0
    previous: int = 0
    arms: Any = None
    rounds: int = 1
    winner: int = -1
    early_value: float | None = None
    common: CommonSamples | None = None
    next_check: float = np.inf
    level: float = 0.0
    single: int = 0
    double: int = 0

    def take(self, values: Array) -> None:
        """Learn from values how large F is and how precise."""
        finite = values[np.isfinite(values)]
        if finite.size and not self.level:
            self.level = float(np.abs(finite).max())
        if not self.double:
            single, double = evidence(finite)
            self.single += single
            self.double += double

    @property
    def rounding(self) -> float:
        """The difference of two values at one point that may be rounding."""
        unit = SINGLE if not self.double and self.single >= SHORT_VALUES else DOUBLE
        return SAME * unit * self.level


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

    @property
    def needs(self) -> Needs:
        return Needs(
            replay=self.first.needs.replay or self.second.needs.replay,
            horizon=True,
            output="choice",
            candidates=3,
            tie_break="first",
            random_stop=any_iterate,
        )

    def init(self, x: Array, context: Context) -> PortfolioState:
        state = PortfolioState(x, origin=x, arms=[Arm(x), Arm(x)])
        if not context.noisy:
            state.next_check = self._budget(x.size, context) / CHECKS
        self._activate(state, context, 0)
        return state

    def _budget(self, d: int, context: Context) -> int:
        if context.max_evals is not None:
            return context.max_evals
        if context.max_iter is None:
            raise ValueError("A duel shares the budget: give the run max_evals or max_iter.")
        return (d + 1) * context.max_iter

    def _method(self, state: PortfolioState) -> Method:
        return (self.first, self.second, PAIRED_EVALUATION)[state.active]

    def _stage_context(self, state: PortfolioState, context: Context) -> Context:
        return self._remaining(state, context)

    def tell(self, state: StagedState, context: Context, query: Query, values: Array) -> Step:
        assert isinstance(state, PortfolioState)
        if not context.noisy and state.active != EVALUATE:
            state.take(values)
            self._update_lowest(state.arms[state.active], query, values)
        return super().tell(state, context, query, values)

    def _update_lowest(self, arm: Arm, query: Query, values: Array) -> None:
        """Keep the lowest point that an arm has seen."""
        scores = np.where(np.isfinite(values), values, np.inf)
        lowest = int(np.argmin(scores))
        if scores[lowest] < arm.value:
            arm.x = query.points[lowest].copy()
            arm.value = float(scores[lowest])

    def _advance(self, state: PortfolioState, context: Context, step: Step) -> Step:
        if state.active == EVALUATE:
            self._evaluated(state, context, step)
        else:
            self._arm_step(state, context, step)
        best = self._best(state, context.noisy)
        step.x = best.x
        step.candidates = best.candidates
        if not context.noisy or not best.candidates:
            step.candidates = {"lowest point seen": best.x, START: state.origin}
        if not context.noisy:
            step.notes = {**(step.notes or {}), "settings": self._summary(state, best)}
        return step

    def _summary(self, state: PortfolioState, best: Arm) -> str:
        """Return who found the lowest point."""
        one, other = state.arms
        found = self.first if best is one else self.second
        used = f"evaluations: {self.first.name} {one.used}, {self.second.name} {other.used}"
        return f"The lowest point is that of {found.name} ({used})."

    def _best(self, state: PortfolioState, noisy: bool) -> Arm:
        """Return who leads: without noise whoever has the lowest value."""
        one, other = state.arms
        if noisy:
            return other if state.winner == 1 else one  # type: ignore[no-any-return]
        return other if other.value < one.value else one  # type: ignore[no-any-return]

    def _arm_step(self, state: PortfolioState, context: Context, step: Step) -> None:
        """Take a step of an arm, and decide which is next."""
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
        """Decide whether the active arm continues."""
        budget = self._budget(state.x.size, context)
        one, other = state.arms
        looking = not context.noisy and arm.used >= EARLY_SHARE * budget
        if looking and state.active == 0 and state.early_value is None:
            state.early_value = one.value
        if looking and state.active == 1 and state.early_value is not None:
            if other.value > state.early_value:
                self._decide(state, context, 0)
                return
            state.early_value = np.nan  # seen
        if arm.used < state.rounds * SHARE * budget:
            return
        if state.active == 0:
            self._activate(state, context, 1)
        elif context.noisy:
            state.common = CommonSamples.draw(context, budget)
            self._evaluate(state, context, 0)
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

    def _evaluate(self, state: PortfolioState, context: Context, arm: int) -> None:
        """Evaluate where an arm stands on the common samples."""
        self._save_arm(state)
        state.active = EVALUATE
        state.previous = arm
        state.evals_before = context.nfev
        state.nit_before = state.nit
        assert state.common is not None
        state.inner = PairedEvaluationState(state.arms[arm].x, common=state.common)

    def _recheck(self, state: PortfolioState, context: Context) -> None:
        """Ask for the lowest point again."""
        active = state.active
        best = self._best(state, False)
        if not np.isfinite(best.value):
            return
        self._save_arm(state)
        state.active = EVALUATE
        state.previous = active
        state.evals_before = context.nfev
        state.nit_before = state.nit
        state.inner = PairedEvaluationState(best.x, common=CommonSamples(1))

    def _evaluated(self, state: PortfolioState, context: Context, step: Step) -> None:
        values = state.inner.values
        if not context.noisy:
            lowest = self._best(state, False).value
            if np.isfinite(values[0]) and abs(values[0] - lowest) > max(state.rounding, SAME * DOUBLE * abs(lowest)):
                step.noisy = (
                    f"The function gave {lowest:.6g} and {values[0]:.6g} at the same point, so it is taken as noise "
                    "that cannot be replayed; if it takes a seed, use Seeded."
                )
            self._activate(state, context, state.previous)
            return
        one, other = state.arms
        state.arms[state.previous].values = values
        if state.previous == 0:
            self._evaluate(state, context, 1)
            return
        mean, _ = paired_difference(other.values, one.values)
        self._decide(state, context, 1 if mean < 0 else 0)

    def kernel(self, oracle: Oracle) -> Kernel:
        return StagedKernel(self, oracle, self.first)


PAIRED_EVALUATION = PairedEvaluation()
