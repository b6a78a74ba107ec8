"""Duel: two methods run in turn from the same start, and the better one takes what is left of the budget.

Without noise the second gives up early where it is behind, and where it leads both get a second share, so that a
method which is slow at first is not given up too soon. The lowest point is asked for again every now and then: a value
that differs is noise, which the calls at x0 have not shown. Under noise that can be replayed both are judged once, on
common samples. Each goes on from where it was, so nothing that was reached is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein.methods.judging import Judging, JudgingState, Jury, paired
from goldstein.methods.method import START, Context, Kernel, Method, Needs, Step, Unsupported, any_iterate
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.methods.survey import SHORT_VALUES
from goldstein.oracle import DOUBLE, SINGLE, Array, Oracle, Query
from goldstein.oracle.stats import evidence
from goldstein.state import State

GLANCE = 0.05  # share of the budget after which the second method gives up if it is behind
SHARE = 0.15  # what each gets, and again if the second leads
CHECKS = 20  # times that the lowest point is asked for again
SAME = 100  # unit rounding errors of F around x0 that may be rounding, such as of a sum in another order
JUDGE = 2  # the turn of `Judging`


@dataclass
class Contender(State):
    """One of the two.

    Attributes
    ----------
    x, value
        Where it stands, and without noise the value there: the lowest that it has seen.
    state : MethodState or None
        Its state as long as it is not its turn.
    used, nit : int
        Its evaluations and iterations.
    candidates : mapping or None
        What its last step offered as answers.
    judged : ndarray or None
        Its values on the common samples.
    """

    x: Array
    value: float = np.inf
    state: Any = None
    used: int = 0
    nit: int = 0
    candidates: Any = None
    judged: Array | None = None


@dataclass
class DuelState(StagedState):
    """State of `Duel`; `inner` is the state of whose turn it is.

    Attributes
    ----------
    origin : ndarray
        x0.
    turn, back : int
        0 and 1 are the methods, 2 is judging; and whose turn it was before that.
    contenders : list
        The two.
    rounds, winner : int
        How many shares each gets, and who has won; -1 as long as that is open.
    glance : float
        The value of the first method when it had used a twentieth, until the second has seen it.
    jury : Jury or None
        The common samples.
    check : float
        After how many evaluations the lowest point is asked for again.
    level : float
        |F| around x0, by which rounding errors are judged; those of a sum do not vanish where the sum does.
    single, double : int
        Values that tell something about their precision.
    """

    origin: Array = None  # type: ignore[assignment]
    turn: int = 0
    back: int = 0
    contenders: Any = None
    rounds: int = 1
    winner: int = -1
    glance: float | None = None
    jury: Jury | None = None
    check: float = np.inf
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
class Duel(Staged):
    """Two methods in turn; the better one goes on.

    Parameters
    ----------
    first, second : Method
        The contenders; in doubt the first one wins.
    """

    first: Method
    second: Method
    name: ClassVar[str] = "duel"

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

    def init(self, x: Array, context: Context) -> DuelState:
        state = DuelState(x, origin=x, contenders=[Contender(x), Contender(x)])
        if not context.noisy:
            state.check = self._budget(x.size, context) / CHECKS
        self._begin(state, context, 0)
        return state

    def _budget(self, d: int, context: Context) -> int:
        if context.max_evals is not None:
            return context.max_evals
        if context.max_iter is None:
            raise ValueError("A duel shares the budget: give the run max_evals or max_iter.")
        return (d + 1) * context.max_iter

    def _method(self, state: DuelState) -> Method:
        return (self.first, self.second, JUDGING)[state.turn]

    def _share(self, state: DuelState, context: Context) -> Context:
        return self._rest(state, context)

    def tell(self, state: StagedState, context: Context, query: Query, values: Array) -> Step:
        assert isinstance(state, DuelState)
        if not context.noisy and state.turn != JUDGE:
            state.take(values)
            self._look(state.contenders[state.turn], query, values)
        return super().tell(state, context, query, values)

    def _look(self, contender: Contender, query: Query, values: Array) -> None:
        """Keep the lowest point that a contender has seen."""
        scores = np.where(np.isfinite(values), values, np.inf)
        lowest = int(np.argmin(scores))
        if scores[lowest] < contender.value:
            contender.x = query.points[lowest].copy()
            contender.value = float(scores[lowest])

    def _went(self, state: DuelState, context: Context, step: Step) -> Step:
        if state.turn == JUDGE:
            self._judged(state, context, step)
        else:
            self._moved(state, context, step)
        best = self._best(state, context.noisy)
        step.x = best.x
        step.candidates = best.candidates
        if not context.noisy or not best.candidates:
            step.candidates = {"lowest point seen": best.x, START: state.origin}
        if not context.noisy:
            step.notes = {**(step.notes or {}), "settings": self._account(state, best)}
        return step

    def _account(self, state: DuelState, best: Contender) -> str:
        """Return who found the lowest point."""
        one, other = state.contenders
        found = self.first if best is one else self.second
        used = f"evaluations: {self.first.name} {one.used}, {self.second.name} {other.used}"
        return f"The lowest point is that of {found.name} ({used})."

    def _best(self, state: DuelState, noisy: bool) -> Contender:
        """Return who leads: without noise whoever has the lowest value."""
        one, other = state.contenders
        if noisy:
            return other if state.winner == 1 else one  # type: ignore[no-any-return]
        return other if other.value < one.value else one  # type: ignore[no-any-return]

    def _moved(self, state: DuelState, context: Context, step: Step) -> None:
        """Take a step of a contender, and decide whose turn is next."""
        contender = state.contenders[state.turn]
        contender.used = context.nfev - state.spent
        contender.nit = state.nit - state.nit_before
        if context.noisy:
            contender.x = step.x
            contender.candidates = step.candidates
        if step.partial:
            return
        if state.winner < 0:
            self._pass_on(state, context, contender)
        if context.nfev >= state.check:
            state.check += self._budget(state.x.size, context) / CHECKS
            self._ask_again(state, context)

    def _pass_on(self, state: DuelState, context: Context, contender: Contender) -> None:
        """Look at the contender whose turn it is: does it go on?"""
        budget = self._budget(state.x.size, context)
        one, other = state.contenders
        looking = not context.noisy and contender.used >= GLANCE * budget
        if looking and state.turn == 0 and state.glance is None:
            state.glance = one.value
        if looking and state.turn == 1 and state.glance is not None:
            if other.value > state.glance:
                self._decide(state, context, 0)
                return
            state.glance = np.nan  # seen
        if contender.used < state.rounds * SHARE * budget:
            return
        if state.turn == 0:
            self._begin(state, context, 1)
        elif context.noisy:
            state.jury = Jury.draw(context, budget)
            self._judge(state, context, 0)
        elif other.value >= one.value:
            self._decide(state, context, 0)
        elif state.rounds == 1:
            state.rounds = 2
            self._begin(state, context, 0)
        else:
            self._decide(state, context, 1)

    def _decide(self, state: DuelState, context: Context, winner: int) -> None:
        state.winner = winner
        if state.turn != winner:
            self._begin(state, context, winner)

    def _begin(self, state: DuelState, context: Context, turn: int) -> None:
        """Give the turn to a contender, who goes on where it was."""
        self._put_away(state)
        state.turn = turn
        contender = state.contenders[turn]
        state.spent = context.nfev - contender.used
        state.nit_before = state.nit - contender.nit
        if contender.state is None:
            contender.state = self._method(state).init(state.origin, self._share(state, context))
        state.inner = contender.state
        contender.state = None

    def _put_away(self, state: DuelState) -> None:
        if state.inner is not None and state.turn != JUDGE:
            state.contenders[state.turn].state = state.inner

    def _judge(self, state: DuelState, context: Context, contender: int) -> None:
        """Evaluate where a contender stands on the common samples."""
        self._put_away(state)
        state.turn = JUDGE
        state.back = contender
        state.spent = context.nfev
        state.nit_before = state.nit
        assert state.jury is not None
        state.inner = JudgingState(state.contenders[contender].x, jury=state.jury)

    def _ask_again(self, state: DuelState, context: Context) -> None:
        """Ask for the lowest point again."""
        turn = state.turn
        best = self._best(state, False)
        if not np.isfinite(best.value):
            return
        self._put_away(state)
        state.turn = JUDGE
        state.back = turn
        state.spent = context.nfev
        state.nit_before = state.nit
        state.inner = JudgingState(best.x, jury=Jury(1))

    def _judged(self, state: DuelState, context: Context, step: Step) -> None:
        values = state.inner.values
        if not context.noisy:
            lowest = self._best(state, False).value
            if np.isfinite(values[0]) and abs(values[0] - lowest) > max(state.rounding, SAME * DOUBLE * abs(lowest)):
                step.noisy = (
                    f"The function gave {lowest:.6g} and {values[0]:.6g} at the same point, so it is taken as noise "
                    "that cannot be replayed; if it takes a seed, use Seeded."
                )
            self._begin(state, context, state.back)
            return
        one, other = state.contenders
        state.contenders[state.back].judged = values
        if state.back == 0:
            self._judge(state, context, 1)
            return
        mean, _ = paired(other.judged, one.judged)
        self._decide(state, context, 1 if mean < 0 else 0)

    def kernel(self, oracle: Oracle) -> Kernel | Unsupported:
        found = self.first.kernel(oracle)
        return found if isinstance(found, Unsupported) else StagedKernel(self, oracle, self.first)


JUDGING = Judging()
