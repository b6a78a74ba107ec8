"""One run: a loop over ask and tell, whoever evaluates.

`Session.play` is a generator that yields queries and receives their answers, and it is the only place where
evaluations are counted. `drive` plays one session to its end, `lockstep` many of them side by side; a method's kernel
does whole iterations inside, and hands over the same steps in bulk. The parts of a session: `facts` (what the values
have shown), `budget`, `criteria`, `ending` (the answer and the final estimate), `notes` and `checkpoints`.
"""

from __future__ import annotations

import copy
import logging
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from goldstein.criterion import Check
from goldstein.facts import Facts, differ
from goldstein.methods.method import Context, MethodState, Step
from goldstein.oracle import Answer, Array, Oracle, Query, Tally, Unreplayable
from goldstein.output import TRACKERS, Last, Tracker
from goldstein.projection import Box, seen
from goldstein.run.budget import Budget
from goldstein.run.checkpoint import Checkpoints
from goldstein.run.chunks import Chunks
from goldstein.run.criteria import Criteria
from goldstein.run.ending import Ending
from goldstein.run.history import Recorder
from goldstein.run.interrupts import Interrupts
from goldstein.run.journal import shown_point
from goldstein.run.notes import Notes
from goldstein.run.outcome import (
    DefaultBudget,
    DrawnIteration,
    InvalidCertificate,
    LeavesSet,
    Note,
    Reached,
    StartMoved,
    Text,
    noise_at_start,
)
from goldstein.run.result import Result, Status
from goldstein.run.snapshot import Snapshot
from goldstein.run.spec import RunSpec
from goldstein.state import generator, plain_state, second_generator
from goldstein.stationarity.certificate import Certificate
from goldstein.stationarity.rounding import points_that_fit, too_small

log = logging.getLogger("goldstein")

T = TypeVar("T")
EvaluationGenerator = Generator[Query | None, Answer | None, T]
"""What a driver plays: it yields a Query, or None between iterations, and receives the Answer, or None."""


class Session:
    """One run.

    Parameters
    ----------
    spec : RunSpec
        What was asked for.
    rng : Generator
        Random numbers of the trajectory.
    x0, oracle, bare, limits : optional
        Of a later stage; None: as the spec says. A bare oracle is asked twice at x0 whether it is noisy.
    aux : Generator, optional
        Random numbers for what does not move x; None: fixed by the state of `rng`, but not drawn from it.
    estimating : bool
        Whether f is estimated at the answer on fresh ξ in the end.
    warn : callable, optional
        `warn(key, sentence)` for what the run has shown to be wrong; None: a RuntimeWarning.
    notes : sequence of Note
        What is known to be worth saying.
    """

    def __init__(
        self,
        spec: RunSpec,
        rng: np.random.Generator,
        *,
        x0: Array | None = None,
        oracle: Oracle | None = None,
        bare: bool | None = None,
        limits: Mapping[str, int | None] | None = None,
        aux: np.random.Generator | None = None,
        estimating: bool = True,
        warn: Callable[[str, str], None] | None = None,
        notes: Sequence[Note] = (),
    ) -> None:
        self.spec = spec
        self.method = spec.resolved
        self.needs = spec.resolved.needs
        self.oracle = spec.oracle if oracle is None else oracle
        self.bare = spec.bare if bare is None else bare
        self.coordinates = spec.coordinates
        self.projection = seen(spec.allowed, spec.coordinates)
        self.estimating = estimating
        self.start = spec.x0 if x0 is None else x0  # in the user's coordinates, as `outside` returns points
        self.x0 = self.start if self.coordinates is None else self.coordinates.inside(self.start)
        self.facts = Facts(noisy=self.oracle.noisy)
        self.budget = Budget.of(spec.limits if limits is None else limits, spec.max_fail)
        self.criteria = Criteria(spec.stop)
        self.ending = Ending(self)
        self.notes = Notes(warn)
        self.checkpoints = Checkpoints(spec.journal, self._snapshot)
        self.chunks: Chunks | None = None
        self.interrupts = Interrupts()
        self.recorder = Recorder.over(self.budget.max_evals, seldom=not estimating)
        self.tracker: Tracker = Last()
        self.context = Context(
            rng,
            max_iter=self.budget.max_iter,
            project=self.projection,
            recipes=getattr(spec.workers, "far", False),
            facts=self.facts,
        )
        self.aux = rng if aux is None else aux
        self._aux = aux
        self.step = Step(self.x0)
        self.state = MethodState(self.x0)
        self.nit = 0
        self.repeats: Callable[[], int] = lambda: 0
        if spec.default_max_evals is not None:
            self.notes.add(DefaultBudget(spec.default_max_evals))
        if spec.starts_outside:
            self.notes.add(StartMoved())
        for note in notes:
            self.notes.add(note)

    def play(self) -> EvaluationGenerator[Result]:
        """Yield queries and receive their answers until the run is over; return its result."""
        saved = self.checkpoints.journal.begin(self._identity(), self._limits(), self.needs.horizon)
        if self.checkpoints.journal.doubt:
            self.notes.add(Text(self.checkpoints.journal.doubt))
        if self.bare:
            yield from self._recognise(saved)
        self._set_up(saved)
        status = yield from self.criteria.at_start(self)
        while status is None:
            self.checkpoints.rest()
            if self.facts.counted >= self.recorder.due:
                status = self._record()
                self.checkpoints.rest()
            yield None
            if status is None:
                status = yield from self.criteria.now_and_then(self)
            if status is None:
                status = yield from self._iterate()
        self.checkpoints.end(status)
        result = yield from self.ending.close(status)
        self.checkpoints.outcome(result)
        return result

    def _iterate(self) -> EvaluationGenerator[Status | None]:
        """Ask, tell and judge once; or many times in machine code."""
        if self.budget.failing(self.facts):
            return Status.FAILING
        self.checkpoints.journal.goes_on(Status.FAILING)
        if not self.x0.size:
            return (yield from self.criteria.without_variables(self))
        if self.step.done is not None:
            return self._finish(self.step.done)
        status = self.budget.status(self.facts, self.nit)
        if status is not None:
            return status
        if self.chunks is not None and self.chunks.advance():
            return None
        limit = self.budget.remaining(self.facts, self.budget.reserved_evals)
        query = self.method.ask(self.state, self.context, limit)
        if query is None:
            return Status.FINISHED if limit is None else Status.MAX_EVALS
        if query.truncated:
            self.checkpoints.end(Status.MAX_EVALS)
        return (yield from self._evaluate(query))

    def _evaluate(self, query: Query) -> EvaluationGenerator[Status | None]:
        """Have a query answered, and take the step that follows from it."""
        outside = query if self.coordinates is None else query.outside(self.coordinates)
        answer = yield outside
        assert answer is not None
        if self.coordinates is not None and query.order == 1:
            answer = answer.inside(self.coordinates)
        self.checkpoints.moved()
        self.notes.first_failure(answer.reason)
        tally = self.facts.update(query, answer)
        status = self.criteria.among(self, outside, answer)
        if status is not None:
            return status
        before = self.step.x
        step = self.method.tell(self.state, self.context, query, answer.values)
        self.context.nfev += len(query)
        self.take(step, tally)
        if step.iterate is not None and step.completed:
            self.tracker.leave(step.iterate, step.value, self.aux)
        if step.x is not before:
            return (yield from self.criteria.at_step(self))
        return None

    def take(self, step: Step, tally: Tally) -> None:
        """Take a step, or many of them at once: what it says, and the values that it saw."""
        self.step = step
        self.nit += step.completed
        if tally.finite:
            if self.estimating:
                self.recorder.add(tally)
            self.criteria.add(tally)
            if step.n_estimates:
                self.facts.measure(tally)
        if step.noisy and not self.oracle.noisy:
            self._take_as_noisy(step.noisy)
            self._settle()
        choice = self.notes.of_method(step)
        if choice:
            self.recorder.choices.append((self.facts.nfev, choice))

    def spend(self, check: Check[T]) -> EvaluationGenerator[T]:
        """Pass on queries of a criterion; end (in None) rather than touch what is reserved for the final estimate."""
        return self.ask_for(check, self.budget.final_evals)

    def ask_for(self, check: Check[T], reserved: int | None = None) -> EvaluationGenerator[T]:
        """Pass on queries that do not move x, and count them."""
        try:
            query = next(check)
            while True:
                remaining = None if reserved is None else self.budget.remaining(self.facts, reserved)
                if remaining is not None and len(query) > remaining:
                    self.checkpoints.end(Status.MAX_EVALS)
                    check.close()
                    return None  # type: ignore[return-value]
                answer = yield query
                assert answer is not None
                self.facts.count(query, answer, diagnostic=True)
                query = check.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def outside(self, x: Array) -> Array:
        """Return a point in the user's coordinates, as a copy of its own."""
        return x.copy() if self.coordinates is None else self.coordinates.outside(x)

    def answer(self) -> Array:
        """Return the answer so far by the output rule."""
        return self.tracker.answer(self.step.x)

    def result(self, status: Status) -> Result:
        """Return the run so far."""
        return self.ending.result(status)

    def broken_off(self, query: Query, started: int) -> None:
        """Count the evaluations of a query that an exception broke off."""
        self.checkpoints.save()
        if query.order == 0:
            self.facts.nfev += started
        else:
            self.facts.ngev += started

    def _recognise(self, saved: Snapshot | None) -> EvaluationGenerator[None]:
        """Ask a bare callable twice at x0: different values make it `Unreplayable`."""
        if self.budget.max_evals is not None and self.budget.max_evals < 2:
            return
        self.budget.before = 2
        if saved is not None:  # asked before the snapshot was taken, and counted there
            if saved.recognised:
                self._take_as_noisy(saved.recognised)
            return
        start = self.x0 if self.projection is None else self.projection(self.x0)
        query = Query(np.stack([start, start]))
        answer = yield query if self.coordinates is None else query.outside(self.coordinates)
        assert answer is not None
        self.facts.update(query, answer, diagnostic=True)
        self.notes.first_failure(answer.reason)
        first, second = answer.values
        if np.array_equal(self.outside(start), self.start):
            self.ending.at_start = float(first)
        if np.isfinite(answer.values).all() and differ(first, second):
            self._take_as_noisy(noise_at_start(first, second))

    def _take_as_noisy(self, reason: str) -> None:
        self.oracle = Unreplayable(self.oracle.fun, self.oracle.args, self.oracle.vectorized)
        self.facts.noisy = True
        self.notes.recognise(reason)

    def _set_up(self, saved: Snapshot | None) -> None:
        """Settle everything that had to wait until the oracle was known; resume from what was saved, if anything."""
        unsupported = self.needs.unsupported(self.method.name, self.oracle)
        if unsupported is not None:
            raise ValueError(unsupported)
        warning = self.needs.warning(self.oracle)
        if warning is not None:
            self.notes.warn("pairs", warning)
        self._check_radius()
        context = self.context
        self.aux = second_generator(context.rng) if self._aux is None else self._aux
        self._choose_rule()
        self.tracker = TRACKERS[self.ending.rule]()
        self._settle()
        compiled = self.spec.compiled
        if compiled is None and "numba" not in sys.modules:
            compiled = False
        self.chunks = Chunks.of(self, compiled)
        self.checkpoints.compiled = self.chunks is not None
        if saved is not None:
            self._restore(saved)
            return
        x = context.projected(self.x0, self.needs.query_radius)
        if x.size:
            self.state = self.method.init(x, context)
        else:
            self.state = MethodState(x)
        self.step = Step(self.state.x)

    def _settle(self) -> None:
        """Plan the end of the run, and tell the method what follows from the oracle and from that plan."""
        self.budget.final_evals = self.ending.plan()
        self.budget.reserved_evals = self.budget.final_evals + self.criteria.reserved_evals
        context = self.context
        context.sample = self.oracle.sample
        context.noisy = self.oracle.noisy
        context.n = self.oracle.n
        context.max_evals = self.budget.of_method()

    def _check_radius(self) -> None:
        """Say so beforehand if queries may leave the allowed set."""
        if self.spec.allowed is None:
            return
        radius = self.needs.query_radius
        inside = self.projection
        held = inside is None or inside.holds(radius) or (self.needs.respects_bounds and isinstance(inside, Box))
        scale = None if self.coordinates is None else self.coordinates.scale
        margin = radius if scale is None else radius * float(scale.min(initial=np.inf))
        diagnostic = self.criteria.reach  # not scaled
        if inside is None:
            margin = 0.0  # every free variable may go everywhere, and the fixed ones nowhere
        elif self.spec.stationarity is not None:
            diagnostic.append(self.spec.stationarity[0])
        farthest = max(diagnostic, default=0.0)
        if not held or farthest > margin:
            self.notes.add(LeavesSet(max(farthest, 0.0 if held else radius)))

    def _choose_rule(self) -> None:
        """Settle by which rule the answer is chosen, and after how many iterations the run ends."""
        rule = self.spec.output or self.needs.output
        self.ending.rule = "last" if self.ending.choosing else rule
        draw = self.needs.random_stop
        max_iter = self.budget.max_iter
        if rule == "random" and draw is not None and max_iter is not None and self.budget.max_evals is None:
            # No budget can end the run before, so draw the index first and stop there: same law, half the cost.
            self.ending.rule = "last"
            self.budget.stop_at = draw(self.aux, max_iter)
            self.notes.add(DrawnIteration(self.budget.stop_at, max_iter))

    def _finish(self, reached: Certificate | str) -> Status:
        """Believe a method that has reached what it aims at, unless its points may have met kinks by rounding."""
        sentence = reached.message if isinstance(reached, Certificate) else reached
        delta = reached.delta if isinstance(reached, Certificate) else self.needs.query_radius
        if self.coordinates is not None and self.coordinates.scale is not None:
            sentence += " That is in the coordinates x / x_scale."
        if self.coordinates is not None and self.coordinates.free is not None:
            sentence += " That is in the variables that are not fixed."
        x = self.step.x
        if delta and points_that_fit(x, delta, self.facts.proven) < self.nit:
            self.notes.add(InvalidCertificate(too_small(x, delta)))
            return Status.FINISHED
        self.notes.add(Reached(sentence))
        return Status.CRITERION

    def _record(self) -> Status | None:
        """Keep a record; then look for rounding errors and call back."""
        self.note_record()
        journal = self.checkpoints.journal
        if journal.replaying and not journal.ended_here(Status.CALLBACK):
            return None
        fun = self.recorder.columns["fun"][-1]
        log.debug("%d evaluations, %d iterations, fun about %.6g", self.facts.nfev, self.nit, fun)
        if self.spec.callback is not None:
            try:
                with self.interrupts.allowed():
                    stops = self.spec.callback(self.result(Status.RUNNING))
            except StopIteration:
                return Status.CALLBACK
            if isinstance(stops, bool | np.bool_) and stops:
                return Status.CALLBACK
        journal.goes_on(Status.CALLBACK)
        return None

    def note_record(self) -> None:
        """Keep a record of the run as it stands, and warn of rounding errors."""
        self.recorder.record(
            nfev=self.facts.nfev,
            ngev=self.facts.ngev,
            nit=self.nit,
            gradient_norm=self.step.grad_norm,
            step=self.step.step_size,
            nfail=self.facts.nfail,
            monitor=self._monitor(),
        )
        self.notes.precision(self.step, self.facts, self.oracle.noisy)

    def _monitor(self) -> float:
        """Return what the monitor says here, or what it said when the run was here before."""
        monitor = self.spec.monitor
        if monitor is None:
            return np.nan
        journal = self.checkpoints.journal
        known: float | None = journal.monitored(self.facts.nfev)
        if known is not None:
            return known
        try:
            with self.interrupts.allowed():
                value = float(monitor(self.outside(self.answer())))
        except StopIteration as error:
            raise RuntimeError("monitor raised StopIteration; only callbacks stop a run that way.") from error
        journal.monitor(self.facts.nfev, value)
        return value

    def _limits(self) -> dict[str, int | None]:
        return {"max_evals": self.budget.max_evals, "max_iter": self.budget.max_iter}

    def _identity(self) -> dict[str, Any]:
        """Return what the journal compares; a later stage has its own start and rng."""
        return {**self.spec.identity, "x0": shown_point(self.start), "rng": plain_state(self.context.rng)}

    def _snapshot(self) -> Snapshot:
        """Return the run as it is, when nothing is under way."""
        journal = self.checkpoints.journal
        return Snapshot(
            queries=journal.number,
            position=journal.position,
            compiled=self.chunks is not None,
            state=self.state,
            step=self.step,
            nit=self.nit,
            nfev=self.context.nfev,
            rng=self.context.rng.bit_generator.state,
            aux=self.aux.bit_generator.state,
            facts=copy.copy(self.facts),
            tracker=self.tracker,
            recorder=self.recorder.copy(),
            schedule=copy.copy(self.criteria.schedule),
            incumbent=self.ending.incumbent(),
            method_notes=dict(self.notes.method_notes),
            recognised=self.notes.recognised,
        )

    def _restore(self, saved: Snapshot) -> None:
        """Go on from a snapshot of the same run."""
        self.state = saved.state
        self.step = saved.step
        self.nit = saved.nit
        self.context.nfev = saved.nfev
        self.context.rng = generator(saved.rng)
        self.aux = generator(saved.aux)
        self.facts = saved.facts
        self.context.facts = saved.facts
        self.tracker = saved.tracker
        self.recorder = saved.recorder.over_again(self.budget.max_evals)
        self.criteria.schedule = saved.schedule
        self.notes.method_notes = saved.method_notes
        if saved.recognised and not self.oracle.noisy:
            self._take_as_noisy(saved.recognised)
            self._settle()
