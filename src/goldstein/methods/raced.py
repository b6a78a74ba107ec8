"""RacedSift: sifting with a radius that short races choose, for noise that can be replayed.

All races start at x0 and see the same random numbers; they are judged on common samples. Radii a factor 3 apart are
tried upwards while the mean falls, or else downwards while it clearly falls. The run then starts at the best racer, so
that what the races have reached is kept. In the end the last iterate, the best racer and x0 are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.methods.judging import Judging, Jury, paired
from goldstein.methods.method import Context, Kernel, Method, Needs, Refusal, Step, any_iterate
from goldstein.methods.sift import Sift
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.oracle import Array, Oracle

START = 0.5  # R of the first race, in kink radii over √d
FACTOR = 3.0  # ratio of neighbouring radii
FASTER = 9.0  # the same after two clear falls in a row, as long as the steps stay small beside x0
RACES = 6  # at most
RACE = 0.04  # share of the budget that a race has
SHORTEST = 8  # values of a race; shorter ones tell nothing
CLEAR = 2.0  # standard errors of a clear fall
SHRINK = 0.8  # R of the run, in radii of the winner
HIDDEN = 3.0  # the same where races were too short to see progress
ITERATIONS = 10_000  # a batch leaves so many, even if all components are dense
LARGEST_BATCH = 16


@dataclass
class RacedState(StagedState):
    """State of `RacedSift`.

    Attributes
    ----------
    phase : str
        "judge", "race" or "run".
    origin, best : ndarray
        x0, and the best racer.
    radius, lead : float
        R of this segment, and the best one so far.
    length, batch : int
        Evaluations of a race, and ξ in each iteration.
    jury : Jury
        The samples that judge racers.
    rng : mapping
        State of the generator at the start of each race.
    number, falls : int
        Races so far, and clear falls in a row.
    up, moved : bool
        Which way radii go, and whether one has fallen.
    judged_start, judged_best, judged_lead : ndarray or None
        Values of x0, of the best racer, and of the racer with the leading radius.
    """

    phase: str = "judge"
    origin: Array = None  # type: ignore[assignment]
    best: Array = None  # type: ignore[assignment]
    radius: float = 0.0
    lead: float = 0.0
    length: int = 0
    batch: int = 1
    jury: Jury = None  # type: ignore[assignment]
    rng: Any = None
    number: int = 0
    falls: int = 0
    up: bool = True
    moved: bool = False
    judged_start: Array | None = None
    judged_best: Array | None = None
    judged_lead: Array | None = None


@dataclass(frozen=True)
class RacedSift(Staged):
    """`Sift` with the radius chosen by races.

    Parameters
    ----------
    radius : float
        How far from x0 the function stops looking linear: the first race has half of it over √d.
    """

    radius: float
    name: ClassVar[str] = "raced-sift"

    def __post_init__(self) -> None:
        arguments.keep(self, radius=arguments.positive("radius", self.radius))

    @property
    def needs(self) -> Needs:
        return Needs(
            replay="evaluates the same ξ at several points",
            horizon=True,
            output="choice",
            candidates=3,
            favourite="first",
            random_stop=any_iterate,
        )

    def init(self, x: Array, context: Context) -> RacedState:
        budget = _budget(x.size, context)
        lead = START * self.radius / sqrt(x.size)
        state = RacedState(x, origin=x, best=x, radius=lead, lead=lead, length=int(RACE * budget))
        state.batch = int(min(max(budget // (ITERATIONS * (x.size + 1)), 1), LARGEST_BATCH))
        state.stage = 0
        if state.length < SHORTEST:
            self._begin_run(state, context)
            return state
        state.jury = Jury.draw(context, budget)
        state.rng = context.rng.bit_generator.state
        self._begin_judging(state, context, x)
        return state

    def _method(self, state: RacedState) -> Method:
        if state.phase == "judge":
            return JUDGING
        return _sift(state.radius, state.batch)

    def _share(self, state: RacedState, context: Context) -> Context:
        stage = self._rest(state, context)
        if state.phase == "race":
            return replace(stage, max_evals=state.length, max_iter=None)
        return stage

    def _went(self, state: RacedState, context: Context, step: Step) -> Step:
        if state.phase == "judge":
            self._judge(state, context)
        elif state.phase == "race" and not step.underway and context.nfev - state.spent >= state.length:
            self._begin_judging(state, context, state.inner.x)
        step.x = self._standing(state)
        step.candidates = {"last iterate": step.x, "best of the races": state.best, "start point": state.origin}
        step.remarks = {**(step.remarks or {}), "settings": self._remark(state)}
        return step

    def _standing(self, state: RacedState) -> Array:
        """Return where the run stands: a race is only a trial."""
        standing: Array = state.inner.x if state.phase == "run" else state.best
        return standing

    def _begin_judging(self, state: RacedState, context: Context, x: Array) -> None:
        state.phase = "judge"
        self._enter(state, context, x)
        state.inner.jury = state.jury

    def _judge(self, state: RacedState, context: Context) -> None:
        """Compare a racer with the best and with the leading radius; then send the next one, or begin the run."""
        racer = state.inner.x
        values = state.inner.values
        if state.judged_start is None:
            state.judged_start = values
            state.judged_best = values
            self._send(state, context, state.lead)
            return
        assert state.judged_best is not None
        state.number += 1
        if paired(values, state.judged_best)[0] < 0:
            state.best = racer
            state.judged_best = values
        following = self._next_radius(state, values)
        if following is None or state.number == RACES:
            self._begin_run(state, context)
        else:
            self._send(state, context, following)

    def _next_radius(self, state: RacedState, values: Array) -> float | None:
        """Take a racer's values into the choice of R; return the next one to try, None when the choice is made."""
        if state.judged_lead is None:
            state.judged_lead = values
            return FACTOR * state.lead
        mean, error = paired(values, state.judged_lead)
        if mean < (0.0 if state.up else -error):
            state.judged_lead = values
            state.lead = state.radius
            state.moved = True
            state.falls = state.falls + 1 if mean < -CLEAR * error else 0
            if not state.up:
                return state.lead / FACTOR
            root = sqrt(state.x.size)
            fast = state.falls >= 2 and FASTER * state.lead * root <= (float(np.linalg.norm(state.origin)) or 1.0)
            return (FASTER if fast else FACTOR) * state.lead
        if state.moved or not state.up:
            return None
        state.up = False
        return state.lead / FACTOR

    def _send(self, state: RacedState, context: Context, radius: float) -> None:
        """Start a racer from x0; all see the same walks and samples."""
        state.phase = "race"
        state.radius = radius
        context.rng.bit_generator.state = state.rng
        self._enter(state, context, state.origin)

    def _begin_run(self, state: RacedState, context: Context) -> None:
        state.phase = "run"
        state.radius = SHRINK * state.lead
        if state.judged_start is not None and state.judged_best is not None:
            mean, error = paired(state.judged_best, state.judged_start)
            if not mean < -CLEAR * error:
                state.radius = HIDDEN * state.lead
        self._enter(state, context, state.best)

    def _remark(self, state: RacedState) -> str:
        if state.phase != "run":
            return f"sift was still racing for its radius ({state.number} races)."
        return (
            f"sift ran with radius = {state.radius:.3g} and batches of {state.batch}, after {state.number} races of "
            f"{state.length} evaluations."
        )

    def kernel(self, oracle: Oracle) -> Kernel | Refusal:
        found = _sift(self.radius, 1).kernel(oracle)
        return found if isinstance(found, Refusal) else StagedKernel(self, oracle, _sift(self.radius, 1))


JUDGING = Judging()


@lru_cache(maxsize=64)
def _sift(radius: float, batch: int) -> Sift:
    """Return a method object that is the same for the same settings, so that its machine code is made once."""
    return Sift(radius=radius, batch_size=batch)


def _budget(d: int, context: Context) -> int:
    """Return for how many evaluations the run is planned."""
    limits = [context.max_evals, None if context.max_iter is None else (d + 1) * context.max_iter]
    known = [limit for limit in limits if limit is not None]
    if not known:
        raise ValueError("Sifting with races is planned for the budget: give the run max_evals or max_iter.")
    return min(known)
