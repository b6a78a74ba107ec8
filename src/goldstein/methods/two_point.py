"""TwoPoint: GFM with everything chosen from the function itself.

Three parts, all counted. Probing finds the length scale (`goldstein.methods.probe`). Short races from x0, all with the
same random numbers, find how far to travel: radii a factor 3 apart, first upwards, then downwards, the better one
kept. The run then starts again from x0 with that radius: calibrated steps that decay to zero, and a radius that grows
when the net distance travelled, noise of the walk taken off, exceeds it. In the end the last iterate, the best racer
and x0 are compared on common fresh samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein.compiled.tally import TWO_POINT, new_record
from goldstein.estimate.smoothing import Central, draw_sphere
from goldstein.methods.kernel import CompiledKernel
from goldstein.methods.method import START, Context, Kernel, Method, Needs, Step, any_iterate, repeated, within
from goldstein.methods.paired import paired_difference
from goldstein.methods.probe import ROUNDING, Probe
from goldstein.methods.zeroth_order import SmoothedState
from goldstein.norms import HUGE
from goldstein.oracle import Array, Oracle, Query
from goldstein.state import LATER, State
from goldstein.steps import Calibrated, Travel

FIRST = 0.25  # radius of the first race, in kink radii: the middle of where the best radius was found to lie
FACTOR = 3.0  # ratio of neighbouring radii: the loss is flat within a factor 2 of the best
RACES = 5  # races at most: from a hundredth of the kink radius to twenty of it
RACE, RACE_MOST, RACE_EACH = 0.005, 0.03, 15  # pairs of a race: 0.5 % of all, or 15 a coordinate, 3 % at most
SAMPLES_PER_PAIR = 0.5  # samples that judge a race, for each of its pairs
SHRINK = 0.4  # radius of the run, in radii of the winner: a short race favours a larger one than a long run wants
DECAY = 0.7  # power of 1 − t/T in the steps: a little flatter than a straight line to zero
GROW = 0.9  # the radius is at least the net distance travelled, divided by this
SMOOTH = 1e-4  # δ, in radii
MAX_TRIES = 5  # a single value that fails is asked for again


@dataclass
class Race(State):
    """The races: which radius leads, and how it was judged."""

    size: int
    samples: Any
    rng: Any
    leader: float
    trial: float
    number: int = 0
    tries: int = 0
    up: bool = True
    moved: bool = False
    turned: bool = False
    best_values: Array | None = None
    leader_values: Array | None = None


@dataclass
class TwoPointState(SmoothedState):
    """State of `TwoPoint`."""

    phase: str = "probe"  # "probe", "race", "judge" or "run"
    origin: Array = LATER  # x0
    best: Array = LATER  # the best racer
    probe: Probe = LATER
    race: Race = LATER
    radius: float = 0.0  # R of the current segment
    walk: float = 0.0  # the sum of its squared steps
    floor: float = 0.0  # least δ, from noise
    most: float = np.inf  # largest δ, from the allowed set
    leaves: bool = False  # queries leave that set all the same
    pairs: int = 0  # length of the segment
    t: int = 0  # steps done in it
    note: str = "two-point was still probing."  # what has been chosen, in words

    @property
    def delta(self) -> float:
        return min(max(SMOOTH * self.radius, self.floor), self.most)


@dataclass(frozen=True)
class TwoPoint(Method):
    """The tuning-free method: give it a function, a start and a budget, nothing else.

    Notes
    -----
    Scaling the values or the coordinates of the problem scales the run with it. The steps are planned for the budget,
    so `max_evals` (or `max_iter`) must be the real one.
    """

    name: ClassVar[str] = "two-point"

    @property
    def needs(self) -> Needs:
        return Needs(horizon=True, output="choice", candidates=3, random_stop=any_iterate)

    def init(self, x: Array, context: Context) -> TwoPointState:
        budget = self._budget(context)
        Probe.check_room(self.name, context.project)
        noisy = context.noisy and context.sample is None
        state = TwoPointState(x, origin=x, best=x, probe=Probe.plan(x, budget, noisy))
        if state.probe.over:
            self._begin_races(state, context)
        return state

    def _budget(self, context: Context) -> int:
        evals = context.planned_evals(2)
        if evals is None:
            raise ValueError("two-point plans its steps for the budget: give the run max_evals or max_iter.")
        return evals

    def ask(self, state: TwoPointState, context: Context, limit: int | None) -> Query | None:
        if state.phase == "probe":
            query = state.probe.ask(state.origin, context)
        elif state.phase == "judge":
            query = Query(np.broadcast_to(state.x, (state.race.size, state.x.size)), state.race.samples)
        elif state.t >= state.pairs or (limit is not None and limit < 2):
            return None
        else:
            xi = context.draw(1)
            w, directions = draw_sphere(context.rng, 1, state.x.size)
            points = np.concatenate([state.x + state.delta * w, state.x - state.delta * w])
            recipe = None if directions is None else Central().recipe(state.x, directions, state.delta)
            query = Query(points, repeated(xi, 2), aux=w[0], fresh=True, recipe=recipe)
        return within(query, limit)

    def tell(self, state: TwoPointState, context: Context, query: Query, values: Array) -> Step:
        if state.phase == "probe":
            state.probe.tell(context, query, values)
            if state.probe.over:
                self._begin_races(state, context.after(query))
        elif state.phase == "judge":
            self._judge(state, context.after(query), np.where(np.isfinite(values), values, np.nan))
        else:
            previous = state.x
            self._walk(state, context, query.aux, values)
            return self._after_walk(state, previous, 1)
        return self._make_step(state, None, 0)

    def _after_walk(self, state: TwoPointState, previous: Array | None, completed: int) -> Step:
        if state.phase == "race" and state.t == state.pairs:
            state.phase = "judge"
        return self._make_step(state, previous, completed)

    def _make_step(self, state: TwoPointState, iterate: Array | None, completed: int) -> Step:
        running = state.phase == "run"
        x = state.x if running else state.best
        step = state.make_step(
            iterate,
            completed,
            delta=state.delta if running else 0.0,
            mean_sq_norm=state.sum_sq_norm / max(state.n_estimates, 1),
            n_estimates=state.n_estimates,
            notes={"settings": state.note},
            candidates={"last iterate": x, "best of the races": state.best, START: state.origin},
        )
        step.x = x
        return step

    def _walk(self, state: TwoPointState, context: Context, w: Array, values: Array) -> None:
        """Take one step of GFM with the calibrated rule; let the radius of the run grow with the distance travelled."""
        d = state.x.size
        t = state.t
        state.t += 1
        state.nit += 1
        if not np.isfinite(values).all():
            return
        c = d / (2 * state.delta) * (float(values[0]) - float(values[1]))  # Definition 6
        if not abs(c) < HUGE:
            return
        state.sum_sq_norm += c * c
        state.n_estimates += 1
        state.value = float(values[0]) / 2 + float(values[1]) / 2
        eta = Calibrated(state.radius, state.pairs, DECAY).size(state.rule, t, None, state.value, c * c)
        state.x = context.projected(state.x - eta * c * w, state.delta)  # Alg. 1, line 3
        state.step_size = eta
        state.grad_norm = abs(c)
        if state.phase == "run":
            state.walk += (eta * c) ** 2
            away = state.x - state.origin
            net = float(away @ away) - state.walk
            if net > (GROW * state.radius) ** 2:
                state.radius = min(float(np.sqrt(net)) / GROW, 2 * state.radius)
                state.x = context.projected(state.x, state.delta)
                self._describe(state)

    def _begin_races(self, state: TwoPointState, context: Context) -> None:
        state.floor = max(state.probe.floor * state.x.size, 10 * ROUNDING * float(np.linalg.norm(state.x)))
        state.radius = FIRST * state.probe.radius
        pairs_left = (self._budget(context) - context.nfev) // 2
        pairs = int(min(max(RACE * pairs_left, RACE_EACH * state.x.size), RACE_MOST * pairs_left))
        if pairs < 5:
            self._begin_run(state, context)
            return
        size = max(1, int(SAMPLES_PER_PAIR * pairs)) if context.noisy else 1
        state.race = Race(size, context.draw(size), context.rng.bit_generator.state, state.radius, state.radius)
        state.pairs = pairs
        state.phase = "judge"  # of x0 itself, which is the best so far

    def _judge(self, state: TwoPointState, context: Context, values: Array) -> None:
        """Compare a racer with the best and with the leading radius; then send the next one, or begin the run."""
        race = state.race
        if not context.noisy and np.isnan(values[0]) and race.tries < MAX_TRIES - 1:
            race.tries += 1  # it may work the next time
            return
        race.tries = 0
        if race.best_values is None:
            race.best_values = values
            self._start_racer(state, context, race.trial)
            return
        if paired_difference(values, race.best_values)[0] < 0:
            state.best = state.x
            race.best_values = values
        race.number += 1
        over = False
        if race.leader_values is None:
            race.leader_values = values
        else:
            mean, error = paired_difference(values, race.leader_values)
            if mean < (0.0 if race.up else -error):  # going down must be clearly better
                race.leader_values = values
                race.leader = race.trial
                race.moved = True
            elif not race.moved and not race.turned:
                race.up = False
                race.turned = True
            else:
                over = True
        if over or race.number == RACES:
            state.radius = SHRINK * race.leader
            self._begin_run(state, context)
        else:
            self._start_racer(state, context, race.leader * FACTOR if race.up else race.leader / FACTOR)

    def _start_racer(self, state: TwoPointState, context: Context, radius: float) -> None:
        """Start a racer from x0; all see the same directions and samples."""
        state.race.trial = radius
        state.radius = radius
        context.rng.bit_generator.state = state.race.rng
        self._start_segment(state, context, "race", state.pairs)

    def _begin_run(self, state: TwoPointState, context: Context) -> None:
        evals = math.inf if context.max_evals is None else (context.max_evals - context.nfev) // 2
        iterations = math.inf if context.max_iter is None else context.max_iter - state.nit
        self._start_segment(state, context, "run", int(max(min(evals, iterations), 0)))

    def _start_segment(self, state: TwoPointState, context: Context, phase: str, pairs: int) -> None:
        state.most = np.inf if context.project is None else state.probe.fitting(state.delta, context.project)
        state.leaves = context.project is not None and not context.project.holds(state.most)
        state.phase = phase
        state.pairs = pairs
        state.t = 0
        state.walk = 0.0
        state.rule = Travel()
        state.x = context.projected(state.origin, state.delta)
        if phase == "run":
            self._describe(state)

    def _describe(self, state: TwoPointState) -> None:
        leaves = f"Queries may leave the allowed set by delta = {state.delta:.3g}. " if state.leaves else ""
        state.note = (
            f"{leaves}two-point ran GFM with delta = {state.delta:.3g} and {state.pairs} calibrated steps that decay "
            f"to zero over a distance of {state.radius:.3g}."
        )

    def kernel(self, oracle: Oracle) -> Kernel:
        return _Compiled(self, oracle, 2)


class _Compiled(CompiledKernel):
    """The walks of `TwoPoint` in machine code; probing and judging go the plain way."""

    outputs: tuple[str, ...] = ("last", "random")

    def plan(self, state: TwoPointState, context: Context, limit: int | None, until: float, most: int | None) -> int:
        if state.phase not in ("race", "run"):
            return 0
        remaining = state.pairs - state.t
        return super().plan(state, context, limit, until, remaining if most is None else min(remaining, most))

    def call(self, state: TwoPointState, context: Context, mean: Array, count: int, steps: Array, tally: Any) -> int:
        from goldstein.compiled import two_point as loop  # which needs numba

        rule = state.rule
        last = state.t + steps.size
        fields = {"radius": state.radius, "walk": state.walk, "mean": rule.mean, "total": rule.total}
        record = new_record(TWO_POINT, **fields, count=rule.count)
        grow = GROW if state.phase == "run" else 0.0
        length = (state.t, last, state.pairs, state.floor, SMOOTH, DECAY, grow, HUGE)
        self.compiled(loop.two_point, context.rng, self.n, state.x, state.origin.copy(), record, *length, tally)
        grown = state.radius != record["radius"]
        state.radius, state.walk, rule.mean, rule.total = (float(record[name]) for name in fields)
        rule.count = int(record["count"])
        state.t = last
        state.step_size = float(record["step_size"])
        if grown:
            self.method._describe(state)
        return steps.size

    def make_step(self, state: TwoPointState, completed: int) -> Step:
        return self.method._after_walk(state, None, completed)  # type: ignore[no-any-return]
