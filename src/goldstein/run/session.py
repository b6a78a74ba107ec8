"""One run: a loop over ask and tell.

`Session.play` is a generator that yields queries and receives their answers, and it is the only place where
evaluations are counted. `drive` plays one session to its end, `lockstep` many of them side by side; a method's kernel
does whole iterations inside, and hands over the same steps in bulk. The parts of a session: `facts` (what the values
have shown), `budget`, `criteria`, `ending` (the answer and the final estimate), `notes` and `checkpoints`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from goldstein.criterion import Check
from goldstein.facts import Facts
from goldstein.methods.method import Context, MethodState, Step
from goldstein.oracle import Answer, Array, Oracle, Query, Tally, Unreplayable
from goldstein.oracle.interrupts import Interrupts
from goldstein.output import Last, Tracker
from goldstein.projection import in_coordinates
from goldstein.run.budget import Budget
from goldstein.run.checkpoint import Checkpoints
from goldstein.run.chunks import Chunks
from goldstein.run.criteria import Criteria
from goldstein.run.ending import Ending
from goldstein.run.history import Recorder
from goldstein.run.journal import point_entry
from goldstein.run.notes import Notes
from goldstein.run.outcome import DefaultBudget, InvalidCertificate, Note, Reached, StartMoved, Text
from goldstein.run.recording import record
from goldstein.run.result import Result, Status
from goldstein.run.setup import recognise, set_up
from goldstein.run.snapshot import snapshot_of
from goldstein.run.spec import RunSpec
from goldstein.state import plain_state, second_generator
from goldstein.stationarity.certificate import Certificate
from goldstein.stationarity.rounding import points_that_fit, too_small

T = TypeVar("T")
EvaluationGenerator = Generator[Query | None, Answer | None, T]
"""What a driver plays: it yields a Query, or None between iterations, and receives the Answer, or None."""


class Session:
    """One run: what was asked for, and the random numbers of its trajectory.

    `x0`, `oracle`, `bare` and `limits` are those of a later stage; None: as the spec says. A bare oracle is asked twice
    at x0 whether it is noisy. `aux` draws what does not move x; None: fixed by the state of `rng`, but not drawn from
    it. `estimating`: f is estimated at the answer on fresh ξ in the end. `warn(key, sentence)` hears what the run has
    shown to be wrong; None: a RuntimeWarning.
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
        self.projection = in_coordinates(spec.allowed, spec.coordinates)
        self.estimating = estimating
        self.start = spec.x0 if x0 is None else x0  # in the user's coordinates, as `outside` returns points
        self.x0 = self.start if self.coordinates is None else self.coordinates.inside(self.start)
        self.facts = Facts(noisy=self.oracle.noisy)
        self.budget = Budget.of(spec.limits if limits is None else limits, spec.max_fail)
        self.criteria = Criteria(spec.stop)
        self.ending = Ending(self)
        self.notes = Notes(warn)
        self.checkpoints = Checkpoints(spec.journal, lambda: snapshot_of(self))
        self.chunks: Chunks | None = None
        self.interrupts = Interrupts()
        self.recorder = Recorder.over(self.budget.max_evals, seldom=not estimating)
        self.tracker: Tracker = Last()
        self.context = Context(rng, max_iter=self.budget.max_iter, project=self.projection, facts=self.facts)
        self.aux = second_generator(rng) if aux is None else aux
        self.step = Step(self.x0)
        self.state = MethodState(self.x0)
        self.nit = 0
        self.repeats: Callable[[], int] = lambda: 0
        if spec.default_max_evals is not None:
            self.notes.add(DefaultBudget(spec.default_max_evals))
        if spec.starts_outside:
            self.notes.add(StartMoved())
        self.notes.add(*notes)

    def play(self) -> EvaluationGenerator[Result]:
        """Yield queries and receive their answers until the run is over; return its result."""
        yield from self._set_up()
        status = yield from self.criteria.at_start(self)
        while status is None:
            self.checkpoints.rest()
            if self.facts.counted >= self.recorder.due:
                status = record(self)
                self.checkpoints.rest()
            yield None
            if status is None:
                status = yield from self.criteria.when_due(self)
            if status is None:
                status = yield from self._iterate()
        self.checkpoints.end(status)
        result = yield from self.ending.close(status)
        self.checkpoints.outcome(result)
        return result

    def _set_up(self) -> EvaluationGenerator[None]:
        """Open the journal, look for noise, and start the method; resume from a snapshot, if there is one."""
        journal = self.checkpoints.journal
        # What the journal compares; a later stage has its own start and rng.
        identity = {**self.spec.identity, "x0": point_entry(self.start), "rng": plain_state(self.context.rng)}
        saved = journal.begin(identity, self.budget.limits, noisy=self.oracle.noisy)
        if journal.doubt:
            self.notes.add(Text(journal.doubt))
        if self.bare:
            yield from recognise(self, saved)
        set_up(self, saved)

    def _iterate(self) -> EvaluationGenerator[Status | None]:
        """Ask, tell and judge once; or many times in machine code."""
        if self.facts.failing or self.budget.too_many_failed(self.facts):
            return Status.FAILING
        self.checkpoints.journal.drop_end(Status.FAILING)
        if not self.x0.size:
            return (yield from self.criteria.without_variables(self))
        if self.step.done is not None:
            return self._finish(self.step.done)
        status = self.budget.status(self.facts, self.nit)
        if status is not None:
            return status
        if self.chunks is not None and self.chunks.advance():
            return None
        limit = self.budget.for_method(self.facts)
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
        self.notes.failure = self.notes.failure or answer.reason
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
            self.take_as_noisy(step.noisy)
            self.settle()
        choice = self.notes.take(step)
        if choice:
            self.recorder.choices.append((self.facts.nfev, choice))

    def ask_for(self, check: Check[T], reserved: int | None = None) -> EvaluationGenerator[T]:
        """Pass on queries that do not move x, and count them; end (in None) rather than touch what is reserved."""
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
        return self.tracker.answer(self.step.x)

    def broken_off(self, query: Query, started: int) -> None:
        """Count the evaluations of a query that an exception broke off."""
        self.checkpoints.save()
        if query.order == 0:
            self.facts.nfev += started
        else:
            self.facts.ngev += started

    def take_as_noisy(self, reason: str) -> None:
        self.oracle = Unreplayable(self.oracle.fun, self.oracle.args, self.oracle.vectorized)
        self.facts.noisy = True
        self.notes.recognise(reason)
        self.checkpoints.journal.noise(reason)

    def settle(self) -> None:
        """Plan the end of the run, and tell the method what follows from the oracle and from that plan."""
        self.budget.final_evals = self.ending.plan()
        self.budget.reserved_evals = self.budget.final_evals + self.criteria.reserved_evals
        context = self.context
        context.sample = self.oracle.sample
        context.n = self.oracle.n
        context.max_evals = self.budget.planned()

    def _finish(self, reached: Certificate | str) -> Status:
        """Believe a method that has reached what it aims at, unless its points may have met kinks by rounding."""
        sentence = str(reached)
        delta = self.needs.query_radius
        if isinstance(reached, Certificate):
            sentence = reached.message
            delta = reached.delta
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
