"""One run: its budget, counters, history, criteria, output and durability, whoever evaluates.

`Session.play` is a generator that yields queries and receives their answers, and it is the only place where
evaluations are counted. `drive` plays one session to its end, `lockstep` many of them side by side; a method's kernel
does whole iterations inside, and hands over the same steps in bulk.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np

from goldstein.counting import Counters
from goldstein.criterion import Check, Criterion
from goldstein.methods.method import START, Context, Kernel, Method, MethodState, Step, Unsupported
from goldstein.oracle import DOUBLE, Answer, Array, Oracle, Query, Tally, Unreplayable
from goldstein.oracle.coordinates import Coordinates
from goldstein.output import TRACKERS, Average, Last, Random, Tracker
from goldstein.projection import Box, Projection, described, seen
from goldstein.run.closing import Closing
from goldstein.run.history import History, Lookout, Lowest, Recorder
from goldstein.run.interrupts import Interrupts
from goldstein.run.journal import Journal, content_of, shown_point
from goldstein.run.result import REASONS, VERSIONS, Result, Status
from goldstein.run.snapshot import Snapshot
from goldstein.state import generator, plain_state, second_generator
from goldstein.stationarity.certificate import Certificate
from goldstein.stationarity.rounding import points_that_fit, too_small
from goldstein.warnings import warn

log = logging.getLogger("goldstein")

T = TypeVar("T")
Play = Generator[Query | None, Answer | None, T]
"""What a driver plays: queries, and None where it may catch its breath; answers, and None after a breath."""

SAME = 100  # unit rounding errors by which two values at one point may differ, as of a sum in another order
NOT_REPLAYED = (
    "The same seed gave two different values at the same point, so that this simulator does not replay its noise: draw "
    "all of it from the seed, or use Unreplayable."
)
MOST_NUMBERS = 10_000  # of an answer that is written into the journal
FAR = 1e6  # lengths of x0 from it at which an answer is worth a question
FLAT = 50  # so many differences that are all exactly 0 are worth a warning
FLAT_WITH_NOISE = 500  # where many components may be flat though f is not


class Session:
    """One run; see `minimize` for the arguments.

    Parameters
    ----------
    bare : bool
        The oracle is a function of which nothing is known: it is asked twice at x0 to see whether it is noisy.
    aux : Generator, optional
        Random numbers for what does not move x; None: fixed by the state of `rng`, but not drawn from it.
    coordinates : Coordinates, optional
        In which variables and units the run happens; None: in the user's own. `x0` and `projection` are the user's.
    estimating : bool
        Whether f is estimated at the answer on fresh ξ in the end.
    catching : bool
        Exceptions of the function count as failed evaluations, which machine code cannot do.
    warn : callable
        `warn(key, sentence)` for what the run has shown to be wrong.
    settings : mapping, optional
        What was asked for, in plain data, for the result.
    recipes : bool
        Whoever evaluates is far away and wants to be told how points are made, rather than to be sent them.
    """

    def __init__(
        self,
        method: Method,
        x0: Array,
        oracle: Oracle,
        *,
        rng: np.random.Generator,
        bare: bool = False,
        max_evals: int | None = None,
        max_iter: int | None = None,
        stop: Sequence[Criterion] = (),
        output: str | None = None,
        projection: Projection | None = None,
        coordinates: Coordinates | None = None,
        callback: Callable[[Result], Any] | None = None,
        monitor: Callable[[Array], float] | None = None,
        journal: Journal | None = None,
        compiled: bool | None = False,
        notes: Sequence[str] = (),
        stationarity: tuple[float, float] | None = None,
        aux: np.random.Generator | None = None,
        estimating: bool = True,
        catching: bool = False,
        max_fail: int | None = None,
        warn: Callable[[str, str], None] | None = None,
        settings: Mapping[str, Any] | None = None,
        recipes: bool = False,
    ) -> None:
        self.method = method
        self.needs = method.needs
        self.oracle = oracle
        self._declared = type(oracle).__name__
        self.bare = bare
        self.max_evals = max_evals
        self.max_iter = max_iter
        self.output = output
        self.allowed = projection
        self.projection = seen(projection, coordinates)
        self.coordinates = coordinates
        self.callback = callback
        self.monitor = monitor
        self.journal = journal
        self.compiled = compiled
        self.stationarity = stationarity
        self.estimating = estimating
        self.catching = catching
        self.max_fail = max_fail
        self.interrupts = Interrupts()
        self.warn = warn or _warn
        self.settings = settings or {}
        self.notes = list(notes)
        self.method_notes: dict[str, str] = {}
        self.periodic = [criterion for criterion in stop if not criterion.each_step]
        self.watching = [criterion for criterion in stop if criterion.each_step]
        self.context = Context(rng, max_iter=max_iter, project=self.projection, recipes=recipes)
        self.counters = Counters()
        self.recorder = Recorder.over(max_evals, seldom=not estimating)
        self.lookout = Lookout()
        self.lowest = Lowest()
        self.reason = ""  # why an evaluation failed, of the first that tells
        self._start = x0
        self._x0 = x0 if coordinates is None else coordinates.inside(x0)
        self.step = Step(self._x0)
        self.nit = 0
        self.tracker: Tracker = Last()
        self._aux = aux
        self._said: set[str] = set()
        self._resting: Snapshot | None = None
        self._final = False
        self._at_start = np.nan  # f at the start, if it was asked for
        self.kernel: Kernel | None = None
        self.ending = False  # what is still asked for is about the answer only
        self.choosing = False
        self._spent = 0  # before the method began
        self._found: Array | None = None
        self.recognised = ""
        self.repeats: Callable[[], int] = lambda: 0

    def play(self) -> Play[Result]:
        """Yield queries and receive their answers until the run is over; return its result."""
        saved = None
        if self.journal is not None:
            limits = {"max_evals": self.max_evals, "max_iter": self.max_iter}
            saved = self.journal.begin(self._identity(), limits, self.needs.horizon)
            if self.journal.doubt:
                self.notes.append(self.journal.doubt)
        if self.bare:
            yield from self._recognise(saved)
        self._begin(saved)
        status = yield from self._look_at_start()
        while status is None:
            if self.journal is not None:
                self._rest()
            if self.counted >= self.recorder.due:
                status = self._record()
                if self.journal is not None:
                    self._rest()
            yield None
            if status is None and self.periodic and not self.step.partial and self.counted >= self.lookout.due:
                status = yield from self._look()
            if status is None:
                status = yield from self._iterate()
        self._end_for_good(status)
        return (yield from self._close(status))

    @property
    def counted(self) -> int:
        """Values and gradients asked for so far."""
        return self.counters.nfev + self.counters.ngev

    def _recognise(self, saved: Snapshot | None) -> Play[None]:
        """Ask a bare callable twice at x0: different values make it `Unreplayable`."""
        if self.max_evals is not None and self.max_evals < 2:
            return
        self._spent = 2
        if saved is not None:  # asked before the snapshot was taken, and counted there
            if saved.recognised:
                self._take_as_noisy(saved.recognised)
            return
        start = self._x0 if self.projection is None else self.projection(self._x0)
        query = self._asked(Query(np.stack([start, start])))
        answer = yield query
        assert answer is not None
        self.counters.count(query, answer, diagnostic=True)
        self.reason = answer.reason
        self.lowest.look(query, answer)
        first, second = answer.values
        if np.array_equal(query.points[0], self._start):
            self._at_start = float(first)
        rounding = SAME * DOUBLE * max(abs(first), abs(second))
        if np.isfinite(answer.values).all() and abs(first - second) > rounding:
            self._take_as_noisy(
                f"The function gave {first:.6g} and {second:.6g} at the same point, so it is taken as noise that "
                "cannot be replayed (Unreplayable); if it takes a seed, use Seeded."
            )

    def _take_as_noisy(self, reason: str) -> None:
        self.oracle = Unreplayable(self.oracle.fun, self.oracle.args, self.oracle.vectorized)
        self.recognised = reason
        self.notes.append(reason)

    def _begin(self, saved: Snapshot | None) -> None:
        """Settle everything that had to wait until the oracle was known; go on from what was saved, if anything."""
        refusal = self.needs.unsupported(self.method.name, self.oracle)
        if refusal is not None:
            raise ValueError(refusal)
        caution = self.needs.warning(self.oracle)
        if caution is not None:
            self.warn("caution", caution)
        self._check_reach()
        context = self.context
        self.aux = second_generator(context.rng) if self._aux is None else self._aux
        self.choosing = self.output is None and self.needs.output == "choice"
        self._choose_rule()
        self.tracker = TRACKERS[self.rule]()
        self._settle()
        self.kernel = self._kernel()
        if saved is not None:
            self._restore(saved)
            return
        x = context.projected(self._x0, self.needs.query_radius)
        self.state: MethodState = self.method.init(x, context) if x.size else MethodState(x)
        self.step = Step(self.state.x)

    def _settle(self) -> None:
        """Plan the end of the run, and tell the method what follows from the oracle and from that plan."""
        candidates = self.needs.candidates if self.choosing else 1
        self.closing = Closing(self.oracle, self.max_evals, candidates, self.stationarity, self.estimating)
        self.closing.free = None if self.coordinates is None else self.coordinates.free
        if self.choosing:
            self.closing.tie_break = self.needs.tie_break
            self.closing.selection_share = self.needs.selection_share
        self.reserve = self.closing.reserve
        self.kept = self.reserve + sum(criterion.reserve for criterion in self.watching)
        context = self.context
        context.sample = self.oracle.sample
        context.noisy = self.oracle.noisy
        context.n = self.oracle.n
        if self.max_evals is not None:
            context.max_evals = max(self.max_evals - self._spent - self.reserve, 0)

    def _check_reach(self) -> None:
        """Say so beforehand if queries may leave the allowed set."""
        if self.allowed is None:
            return
        reach = self.needs.query_radius
        inside = self.projection
        held = inside is None or inside.holds(reach) or (self.needs.respects_bounds and isinstance(inside, Box))
        scale = None if self.coordinates is None else self.coordinates.scale
        margin = reach if scale is None else reach * float(scale.min(initial=np.inf))
        if inside is None:
            margin = 0.0  # every free variable may go everywhere, and the fixed ones nowhere
        diagnostic = [criterion.reach for criterion in (*self.periodic, *self.watching)]  # of queries, not scaled
        if self.stationarity is not None and inside is not None:
            diagnostic.append(self.stationarity[0])
        farthest = max(diagnostic, default=0.0)
        if not held or farthest > margin:
            leaving = max(farthest, 0.0 if held else reach)
            self.notes.append(f"Queries may leave the allowed set by delta = {leaving:.3g}.")

    def _choose_rule(self) -> None:
        """Settle by which rule the answer is chosen, and after how many iterations the run ends."""
        self.rule = "last" if self.choosing else self.output or self.needs.output
        self.stop_at = self.max_iter
        draw = self.needs.random_stop
        if self.rule == "random" and draw is not None and self.max_iter is not None and self.max_evals is None:
            # No budget can end the run before, so draw the index first and stop there: same law, half the cost.
            self.rule = "last"
            self.stop_at = draw(self.aux, self.max_iter)
            self.notes.append(
                f"The answer is the one after {self.stop_at} of {self.max_iter} iterations, drawn beforehand."
            )

    def _kernel(self) -> Kernel | None:
        """Return the method's whole iterations in machine code, if that is wanted and possible."""
        if self.compiled is False:
            return None
        found = self._find_kernel()
        if not isinstance(found, Unsupported):
            return found
        if self.compiled:
            raise ValueError(found)
        return None

    def _find_kernel(self) -> Kernel | Unsupported:
        if self.projection is not None or self.coordinates is not None:
            return Unsupported("The compiled loops take neither bounds, projection nor x_scale.")
        if self.watching:
            return Unsupported("The compiled loops show no single step to a criterion that must see each of them.")
        if self.catching:
            return Unsupported("The compiled loops cannot catch exceptions of the function.")
        found = self.method.kernel(self.oracle)
        if isinstance(found, Unsupported) or self.rule in found.outputs:
            return found
        if self.rule == "best":
            return Unsupported("The compiled loops do not keep the best iterate; choose another output.")
        return Unsupported(f"The compiled loop of {self.method.name} does not answer by the rule {self.rule!r}.")

    def _look_at_start(self) -> Play[Status | None]:
        """Let the criteria that look at every step see the start."""
        for criterion in self.watching:
            check = criterion.met_at_start(self._outside(self.step.x), self.oracle, self.aux)
            if (yield from self._counted(check, self.reserve)):
                return self._meets(criterion)
        return None

    def _meets(self, criterion: Criterion) -> Status:
        self.notes.insert(0, criterion.message)
        return Status.CRITERION

    def _iterate(self) -> Play[Status | None]:
        """Ask, tell and judge once; or many times in machine code."""
        if self.counters.failing or (self.max_fail is not None and self.counters.nfail > self.max_fail):
            return Status.FAILING
        if self.journal is not None:
            self.journal.goes_on(Status.FAILING)
        if not self._x0.size:
            self.notes.append("All variables are fixed by their bounds, so that there is nothing to choose.")
            for criterion in (*self.periodic, *self.watching):
                check = criterion.confirm(self._outside(self.step.x), self.oracle, self.aux)
                if (yield from self._counted(check, self.reserve)):
                    return self._meets(criterion)
            return Status.FINISHED
        if self.step.done is not None:
            return self._finish(self.step.done)
        if self.stop_at is not None and self.nit >= self.stop_at:
            return Status.MAX_ITER
        limit = self._left(self.kept)
        if limit is not None and limit <= 0:
            return Status.MAX_EVALS
        if self.kernel is not None and self._advance(self.kernel, limit):
            return None
        query = self.method.ask(self.state, self.context, limit)
        if query is None:
            return Status.FINISHED if limit is None else Status.MAX_EVALS
        if query.truncated:
            self._end_for_good(Status.MAX_EVALS)
        asked = self._asked(query)
        answer = yield asked
        assert answer is not None
        if self.coordinates is not None and query.order == 1:
            answer = answer.inside(self.coordinates)
        self._resting = None
        self.reason = self.reason or answer.reason
        tally = self.counters.count(query, answer)
        if tally.lowest < self.lowest.value and not self.oracle.noisy:
            self.lowest.look(asked, answer)
        for criterion in self.watching:
            self._found = criterion.found(asked, answer)
            if self._found is not None:
                return self._meets(criterion)
        before = self.step.x
        step = self.method.tell(self.state, self.context, query, answer.values)
        self.context.nfev += len(query)
        self._take(step, tally)
        if step.iterate is not None and step.completed:
            self.tracker.leave(step.iterate, step.value, self.aux)
        if self.watching and step.x is not before:
            return (yield from self._confirm())
        return None

    def _asked(self, query: Query) -> Query:
        """Return a query in the user's coordinates."""
        return query if self.coordinates is None else query.outside(self.coordinates)

    def _advance(self, kernel: Kernel, limit: int | None) -> bool:
        """Do a chunk of iterations in machine code, up to the next record or look; False when not even one fits."""
        until = self.recorder.due
        if self.periodic:
            until = min(until, self.lookout.due)
        most = None if self.stop_at is None else self.stop_at - self.nit
        iterations = kernel.plan(self.state, self.context, limit, until - self.counted, most)
        if not iterations:
            return False
        self._resting = None
        if not kernel.offers(self.state):
            self._bulk(kernel, iterations, None)
        elif isinstance(self.tracker, Random):
            self._bulk_with_picks(kernel, iterations, self.tracker)
        else:
            self._bulk(kernel, iterations, self.tracker if isinstance(self.tracker, Average) else None)
        return True

    def _bulk(self, kernel: Kernel, iterations: int, mean: Average | None) -> int:
        """Do so many iterations; return how many were done, fewer if one of them failed altogether."""
        if not iterations:
            return 0
        stop = self.interrupts.waiting
        bulk = kernel.run(self.state, self.context, iterations, self._left(self.kept), mean, stop)
        self.counters.add(bulk.tally)
        self._take(bulk.step, bulk.tally)
        return bulk.step.completed

    def _bulk_with_picks(self, kernel: Kernel, iterations: int, tracker: Random) -> None:
        """Do so many iterations, stopping wherever the random output picks the iterate that is about to be left."""
        before = self.aux.bit_generator.state
        done = 0
        for edge in tracker.picks(iterations, self.aux):
            done += self._bulk(kernel, edge - done, None)
            if done < edge:
                break
            tracker.pick = self.step.x.copy()
        else:
            done += self._bulk(kernel, iterations - done, None)
        tracker.count += done
        if done < iterations:  # as if each iteration had drawn its own number
            self.aux.bit_generator.state = before
            self.aux.random(done)

    def _take(self, step: Step, tally: Tally) -> None:
        """Take a step, or many of them at once: what it says, and the values that it saw."""
        self.step = step
        self.nit += step.completed
        if tally.finite:
            if self.estimating:
                self.recorder.add(tally)
            if self.periodic:
                self.lookout.add(tally)
            if step.n_estimates:
                self.counters.measure(tally)
        if step.noisy and not self.oracle.noisy:
            self._take_as_noisy(step.noisy)
            self._settle()
        if step.notes:
            choice = step.notes.get("choice")
            if choice is not None and choice != self.method_notes.get("choice"):
                self.recorder.choices.append((self.counters.nfev, choice))
            self.method_notes.update(step.notes)
        if step.warnings:
            self._complain(step.warnings)

    def _confirm(self) -> Play[Status | None]:
        """Let the criteria that look at every step judge a new iterate."""
        for criterion in self.watching:
            check = criterion.confirm(self._outside(self.step.x), self.oracle, self.aux)
            if (yield from self._counted(check, self.reserve)):
                return self._meets(criterion)
        return None

    def _look(self) -> Play[Status | None]:
        """Let the other criteria look at the run every now and then."""
        fun, lowest = self.lookout.read()
        for criterion in self.periodic:
            if criterion.frugal and not self.lookout.affords(self.counted):
                continue
            if not self.needs.values or criterion.screen(fun, lowest, self.oracle.noisy):
                before = self.counted
                check = criterion.confirm(self._outside(self._answer()), self.oracle, self.aux)
                if (yield from self._counted(check, self.reserve)):
                    return self._meets(criterion)
                self.lookout.spent += criterion.frugal * (self.counted - before)
        self.lookout.look_again(self.counted)
        return None

    def _finish(self, reached: Certificate | str) -> Status:
        """Believe a method that has reached what it aims at, unless its points may have met kinks by rounding."""
        if isinstance(reached, Certificate):
            sentence = reached.message
            delta = reached.delta
        else:
            sentence = reached
            delta = self.needs.query_radius
        if self.coordinates is not None and self.coordinates.scale is not None:
            sentence += " That is in the coordinates x / x_scale."
        if self.coordinates is not None and self.coordinates.free is not None:
            sentence += " That is in the variables that are not fixed."
        x = self.step.x
        shown = not delta or points_that_fit(x, delta, self.counters.proven) >= self.nit
        if not shown:
            sentence = f"Nothing is shown, though the method is done: {too_small(x, delta)}"
        self.notes.insert(0, sentence)
        return Status.CRITERION if shown else Status.FINISHED

    def _record(self) -> Status | None:
        """Keep a record; then look for rounding errors and call back."""
        self._note()
        self._complain(self._precision())
        journal = self.journal
        if journal is not None and journal.replaying and not journal.ended_here(Status.CALLBACK):
            return None
        fun = self.recorder.columns["fun"][-1]
        log.debug("%d evaluations, %d iterations, fun about %.6g", self.counters.nfev, self.nit, fun)
        if self.callback is not None:
            try:
                with self.interrupts.allowed():
                    stops = self.callback(self.result(Status.RUNNING))
            except StopIteration:
                return Status.CALLBACK
            if isinstance(stops, bool | np.bool_) and stops:
                return Status.CALLBACK
        if journal is not None:
            journal.goes_on(Status.CALLBACK)
        return None

    def _note(self) -> None:
        count = self.counters
        monitor = np.nan
        if self.monitor is not None:
            monitor = self._monitored(self.monitor)
        self.recorder.record(
            nfev=count.nfev,
            ngev=count.ngev,
            nit=self.nit,
            gradient_norm=self.step.grad_norm,
            step=self.step.step_size,
            nfail=count.nfail,
            monitor=monitor,
        )

    def _monitored(self, monitor: Callable[[Array], float]) -> float:
        """Return what the monitor says here, or what it said when the run was here before."""
        journal = self.journal
        known = None if journal is None else journal.monitored(self.counters.nfev)
        if known is not None:
            return known
        try:
            with self.interrupts.allowed():
                value = float(monitor(self._outside(self._answer())))
        except StopIteration as error:
            raise RuntimeError("monitor raised StopIteration; only callbacks stop a run that way.") from error
        if journal is not None:
            journal.monitor(self.counters.nfev, value)
        return value

    def _counted(self, check: Check[T], reserve: int | None = None) -> Play[T]:
        """Pass on queries that do not move x and count them; with a `reserve`, end (in None) rather than touch it."""
        try:
            query = next(check)
            while True:
                left = None if reserve is None else self._left(reserve)
                if left is not None and len(query) > left:
                    self._end_for_good(Status.MAX_EVALS)
                    check.close()
                    return None  # type: ignore[return-value]
                answer = yield query
                assert answer is not None
                self.counters.count(query, answer, diagnostic=True)
                query = check.send(answer)
        except StopIteration as done:
            result: T = done.value
            return result

    def _close(self, status: Status) -> Play[Result]:
        """Let the closing find the answer, and make the result."""
        self.ending = True
        if self.recorder.columns["nit"][-1:] != [self.nit] or self.recorder.columns["nfev"][-1] < self.counters.nfev:
            self._note()
            self._complain(self._precision())
        if not self.estimating:
            return self._over(self.result(status))
        points = {"": self._best()}
        if self.choosing and status is not Status.CRITERION:
            points = {name: self._outside(x) for name, x in self._candidates().items()}
        closing = self.closing.run(points, self.counters.nfev, lambda: self._left(0), self.aux)
        answer = yield from self._counted(closing)
        if len(points) > 1:
            values = "one fresh value" if answer.samples == 1 else f"{answer.samples} fresh values"
            self.notes.append(f"The answer is the {answer.name}, by {values} of each candidate.")
        far = float(np.linalg.norm(answer.x - self._start))
        if far > FAR * max(1.0, float(np.linalg.norm(self._start))):
            self.notes.append(
                f"The answer lies {far:.2g} from x0: if f falls without end, is its sign right, or are bounds missing?"
            )
        if answer.name == START:
            self.notes.append(f"Nothing lower than the start was found in {self.counters.nfev} evaluations.")
        result = self.result(status)
        if answer.samples or not np.array_equal(result.x, answer.x):
            result.x = answer.x
            result.fun = answer.fun
            result.fun_stderr = answer.stderr
        if self.bare and not self._spent:
            result.fun_stderr = np.nan  # nobody has looked for noise
        result.success = result.success and bool(np.isfinite(answer.fun))
        if not answer.replayed:
            self.warn("replay", NOT_REPLAYED)
            result.message += f" {NOT_REPLAYED}"
        certificate = answer.certificate
        if certificate is None and status is Status.CRITERION and self.rule == "last" and self.coordinates is None:
            certificate = self.step.done if isinstance(self.step.done, Certificate) else None
        if certificate is not None:
            result.stationarity = certificate
        return self._over(result)

    def _over(self, result: Result) -> Result:
        """Write down how the run has ended."""
        if self.journal is not None:
            about = {name: result[name] for name in ("fun", "fun_stderr", "nfev", "ngev", "nit", "nfail", "message")}
            about |= {"status": int(result.status), "compiled": self.kernel is not None}
            if result.x.size <= MOST_NUMBERS:
                about["x"] = result.x.tolist()
            self.journal.outcome(about)
        return result

    def _candidates(self) -> dict[str, Array]:
        """Return the points that may be the answer, each once; the start comes last."""
        points = self.step.candidates or {"": self.step.x}
        *names, start = points
        different: dict[str, Array] = {}
        for name in names:
            if not any(np.array_equal(points[name], other) for other in (*different.values(), points[start])):
                different[name] = points[name]
        return {**different, start: points[start]}

    def _left(self, reserve: int) -> int | None:
        if self.max_evals is None:
            return None
        return self.max_evals - self.counted - reserve

    def _answer(self) -> Array:
        return self.tracker.answer(self.step.x)

    def _best(self) -> Array:
        """Return the answer in the user's coordinates: what met a criterion, or by the output rule."""
        return self._outside(self._answer()) if self._found is None else self._found

    def _outside(self, x: Array) -> Array:
        """Return a point in the user's coordinates, as a copy of its own."""
        return x.copy() if self.coordinates is None else self.coordinates.outside(x)

    def _complain(self, warnings: Mapping[str, str]) -> None:
        """Warn once about each thing that the run has shown to be wrong."""
        for key, sentence in warnings.items():
            if key not in self._said:
                self._said.add(key)
                self.warn(key, sentence)

    def _precision(self) -> dict[str, str]:
        """Compare the rounding error of an estimate, about d·u·|F|/δ, with the estimates themselves."""
        delta = self.step.delta
        power = self.step.mean_sq_norm
        if not delta:
            return {}
        magnitude = self.counters.magnitude
        if not power:
            if self.step.n_estimates < (FLAT_WITH_NOISE if self.oracle.noisy else FLAT):
                return {}
            return {
                "flat": (
                    f"All {self.step.n_estimates:.0f} differences at delta={delta:.3g} are exactly 0, so the run does "
                    f"not move: F is flat here, or delta is lost in its rounding errors (|F| about {magnitude:.2g})."
                )
            }
        rounding = self.step.x.size * self.counters.roundoff * magnitude / delta
        typical = float(np.sqrt(power))
        if rounding <= 0.1 * typical:
            return {}
        return {
            "precision": (
                f"Rounding errors of F (|F| about {magnitude:.2g}) make up {rounding / typical:.0%} of "
                f"the gradient estimates at delta={delta:.3g}: use a larger delta, higher precision, or subtract a "
                "constant from F."
            )
        }

    def result(self, status: Status) -> Result:
        """Return the run so far.

        Until it is closed, `fun` is the lowest value of a function without noise, where the answer is that point, and
        otherwise the free estimate of the last record.
        """
        count = self.counters
        reason = [] if status is Status.CRITERION else [REASONS[status]]
        if status is Status.FAILING and self.max_fail is not None and count.nfail > self.max_fail:
            reason = [f"More than max_fail = {self.max_fail} evaluations failed."]
        notes = [*self.notes, *self.method_notes.values()]
        if count.nfail:
            share = count.nfail / max(self.counted, 1)
            first = f" Why, for one of them: {self.reason:.300}" if self.reason else ""
            said = f"{share:.1%} of the evaluations failed; if that depends on the point, estimates are biased."
            notes.append(f"{said}{first}")
        x, fun, stderr = self._known()
        return Result(  # type: ignore[call-arg]
            x=x,
            fun=fun,
            fun_stderr=stderr,
            nfev=count.nfev,
            nfev_diagnostic=count.nfev_diagnostic,
            ngev=count.ngev,
            nit=self.nit,
            nfail=count.nfail,
            nrepeat=self.repeats(),
            success=status is Status.CRITERION,
            status=status,
            message=" ".join([*reason, *notes]),
            method=self.method,
            history=History(self.recorder.columns, self.recorder.choices),
            settings={"oracle": type(self.oracle).__name__, **self.settings},
            versions=dict(VERSIONS),
        )

    def _known(self) -> tuple[Array, float, float]:
        """Return the answer as it is known without a further evaluation, the value there, and its standard error."""
        x = self._best()
        lowest = self.lowest
        told = self.estimating and not self.oracle.noisy and self._found is None
        shown = told and self.kernel is None  # machine code shows no single point
        if shown and lowest.x is not None and (self.choosing or np.array_equal(x, lowest.x)):
            return lowest.x.copy(), lowest.value, 0.0
        if told and np.isfinite(self._at_start) and np.array_equal(x, self._start):
            return x, self._at_start, 0.0
        funs = self.recorder.columns["fun"]
        return x, funs[-1] if funs else np.nan, np.nan

    def broken_off(self, query: Query, started: int) -> None:
        """Count the evaluations of a query that an exception broke off."""
        self.save()
        if query.order == 0:
            self.counters.nfev += started
        else:
            self.counters.ngev += started

    def _end_for_good(self, status: Status) -> None:
        """Take note that from here on a run with a larger budget would go another way."""
        if self.journal is not None and not self._final:
            if self.kernel is not None and self._resting is None:
                self._rest()
            self.save()
            self.journal.ending(status)
        self._final = True
        self._resting = None

    def save(self) -> None:
        """Save a snapshot of the run as it was when nothing was under way, if values of it are in no journal."""
        if self.journal is not None and self._resting is not None:
            self.journal.save(self._resting)

    def _rest(self) -> None:
        """Take a snapshot of the run now that nothing is under way, if there is use for one; save it if it is time."""
        assert self.journal is not None
        compiled = self.kernel is not None
        due = self.journal.due(compiled)
        if self._final or not (compiled or due):
            return
        self._resting = Snapshot(
            queries=self.journal.number,
            position=self.journal.position,
            compiled=compiled,
            state=self.state,
            step=self.step,
            nit=self.nit,
            nfev=self.context.nfev,
            rng=self.context.rng.bit_generator.state,
            aux=self.aux.bit_generator.state,
            counters=copy.copy(self.counters),
            tracker=self.tracker,
            recorder=self.recorder.copy(),
            lookout=copy.copy(self.lookout),
            lowest=copy.copy(self.lowest),
            method_notes=dict(self.method_notes),
            recognised=self.recognised,
        )
        if due:
            self.save()

    def _restore(self, saved: Snapshot) -> None:
        """Go on from a snapshot of the same run."""
        self.state = saved.state
        self.step = saved.step
        self.nit = saved.nit
        self.context.nfev = saved.nfev
        self.context.rng = generator(saved.rng)
        self.aux = generator(saved.aux)
        self.counters = saved.counters
        self.tracker = saved.tracker
        self.recorder = saved.recorder.over_again(self.max_evals)
        self.lookout = saved.lookout
        self.lowest = saved.lowest
        self.method_notes = saved.method_notes
        if saved.recognised and not self.oracle.noisy:
            self._take_as_noisy(saved.recognised)
            self._settle()

    def _identity(self) -> dict[str, Any]:
        """Return what a run must have in common with one that it goes on from."""
        criteria = [*self.periodic, *self.watching]
        scale = None if self.coordinates is None else self.coordinates.scale
        return {
            "method": repr(self.method),
            "oracle": f"{self._declared}, n={self.oracle.n}",
            "args": content_of(self.oracle.args),
            "x_scale": None if scale is None else shown_point(scale),
            "x0": shown_point(self._start),
            "rng": plain_state(self.context.rng),
            "bounds": described(self.allowed),
            "output": self.output,
            "stop": [repr(one) if is_dataclass(one) else type(one).__name__ for one in criteria],
            "stationarity": None if self.stationarity is None else list(self.stationarity),
        }


def _warn(key: str, sentence: str) -> None:
    warn(sentence)
