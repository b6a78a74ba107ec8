"""The one loop: ask → evaluate → tell → record → stop, for any method and any evaluator.

A `Session` owns one run: its budget, its counters, its history, its checkpoint. `Session.play` is a generator that
yields queries and receives their values, and it is the only place where evaluations are counted. `drive` plays one
session to its end; many sessions can be played side by side and their queries merged.
"""

from __future__ import annotations

import copy
import hashlib
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from goldstein.counting import Counters, Tally
from goldstein.methods.method import Context, Method, Run
from goldstein.oracle import Array, Oracle, Query
from goldstein.output import TRACKERS, Tracker
from goldstein.projection import Projection, described
from goldstein.run.checkpoint import Checkpoint
from goldstein.run.closing import Closing
from goldstein.run.history import History, Recorder
from goldstein.run.result import REASONS, Result, Status
from goldstein.state import apart, generator
from goldstein.stationarity.rounding import lost, room
from goldstein.stop import Criterion

T = TypeVar("T")


class Kernel(Protocol):
    """A method's loop in machine code; see `goldstein.compiled`."""

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
        """Do whole iterations until `until` evaluations are made, within `limit` evaluations and `most` iterations."""


class Session:
    """One run with its budget, counters, history and checkpoint; see `minimize` for the arguments."""

    def __init__(
        self,
        method: Method,
        x0: Array,
        oracle: Oracle,
        *,
        rng: np.random.Generator,
        max_evals: int | None = None,
        max_iter: int | None = None,
        stop: Sequence[Criterion] = (),
        output: str | None = None,
        projection: Projection | None = None,
        x_scale: Array | None = None,
        callback: Callable[[Result], Any] | None = None,
        monitor: Callable[[Array], float] | None = None,
        checkpoint: Checkpoint | None = None,
        spent: tuple[int, int] = (0, 0),
        notes: Sequence[str] = (),
        stationarity: tuple[float, float] | None = None,
    ) -> None:
        self.method, self.oracle = method, oracle
        self.max_evals, self.max_iter = max_evals, max_iter
        self.stop, self.callback, self.monitor, self.checkpoint = tuple(stop), callback, monitor, checkpoint
        self.x_scale, self.notes = x_scale, list(notes)
        self.kernel: Kernel | None = None  # the loop in machine code, if there is one
        self.noisy = oracle.noisy
        self.counters = Counters(nfev=spent[0], nfev_diagnostic=spent[0], nfail=spent[1])  # before the run began
        saved = None if checkpoint is None else checkpoint.load()
        self.aux = apart(rng) if saved is None else generator(saved["aux at the start"])
        self._aux_at_start = self.aux.bit_generator.state
        self.choose = output is None and method.output == "choice"
        rule = "last" if self.choose else output or method.output
        self.stop_at = max_iter
        sure = rule == "random" and max_iter is not None and max_evals is None  # no budget can end the run before
        drawn = method.random_stop(self.aux, max_iter) if sure and max_iter is not None else None
        if drawn is not None:  # draw the index first and stop there: same law, half the cost
            rule, self.stop_at = "last", drawn
            self.notes.append(f"The answer is the one after {drawn} of {max_iter} iterations, drawn beforehand.")
        self.rule, self.tracker = rule, TRACKERS[rule]()
        self.closing = Closing(oracle, max_evals, method.choices if self.choose else 1, stationarity)
        self.reserve = self.closing.reserve
        self.recorder = Recorder.over(max_evals)
        left = None if max_evals is None else max(max_evals - spent[0] - self.reserve, 0)
        context = Context(rng, oracle.sample, projection, left, max_iter, self.noisy)
        self.fingerprint = self._fingerprint(x0, output, projection)
        self._said: set[str] = set()
        self._before_ask: Any = None
        self._before_check: Any = None
        self._owes_record = False if saved is None else saved["owes a record"]
        self._consistent = True
        self._saved_for_good = False
        self.run = Run(method, x0, context, None if saved is None else saved["state"])
        if saved is not None:
            self._restore(saved)

    def play(self) -> Generator[Query, Array, Result]:
        """Yield queries and receive their values until the run is over; return its result."""
        status = None
        if not self.recorder.columns["nfev"] or self._owes_record:
            status = yield from self._record()
        while status is None:
            status = yield from self._iterate()
            if status is None and self.counters.nfev + self.counters.ngev >= self.recorder.due:
                status = yield from self._record()
        if self.checkpoint is not None and not self._saved_for_good:
            self.checkpoint.save(self._content())
        self._saved_for_good = True
        return (yield from self._close(status))

    def _iterate(self) -> Generator[Query, Array, Status | None]:
        run = self.run
        reached = self.method.finished(run.state)
        if reached is not None:
            return self._finish(reached)
        if self.stop_at is not None and run.nit >= self.stop_at:
            return Status.MAX_ITER
        limit = self._left(self.reserve)
        if limit is not None and limit <= 0:
            return Status.MAX_EVALS
        if self.kernel is not None and self._advance(self.kernel, limit):
            return Status.FAILING if self.counters.failing else None
        if self.checkpoint is not None:
            self._before_ask = run.context.rng.bit_generator.state
        query = run.ask(limit)
        if query is None:
            return Status.FINISHED if limit is None else Status.MAX_EVALS
        if query.cut and self.checkpoint is not None:  # a longer run would not cut: it must find the state before
            self.interrupt()
            query = run.ask(limit)
            assert query is not None
        values = yield query
        self._before_ask, self._consistent = None, False
        finite = self.counters.see(values, query, diagnostic=False)
        if finite.size:
            self.recorder.see(float(finite.sum()), finite.size, float(finite.min()))
        left, nit = run.x, run.nit
        run.tell(query, values)
        offer = self.method.offer(run.state, left) if run.nit > nit else None
        if offer is not None:
            self.tracker.leave(offer, run.state.value, self.aux)
        self._consistent = True
        return Status.FAILING if self.counters.failing else None

    def _finish(self, reached: str) -> Status:
        """Believe a method that has reached what it aims at, unless its points may have met kinks by rounding."""
        proof, x, nit = self.method.certificate(self.run.state), self.run.x, self.run.nit
        delta = self.method.margin() if proof is None else proof.delta
        if self.x_scale is not None:
            reached += " That is in the coordinates x / x_scale."
        shown = not delta or room(x, delta, self.oracle.roundoff) >= nit
        self.notes.insert(0, reached if shown else f"Nothing is shown, though the method is done: {lost(x, delta)}")
        return Status.CRITERION if shown else Status.FINISHED

    def _advance(self, kernel: Kernel, limit: int | None) -> bool:
        """Do a chunk of iterations in machine code, up to the next record at most; False when not even one fits."""
        run, until = self.run, self.recorder.due - self.counters.nfev
        most = None if self.stop_at is None else self.stop_at - run.nit
        tally = kernel.advance(run.state, run.context, self.tracker, self.aux, limit, until, most)
        self.counters.add(tally.asked, tally.fine, tally.magnitude, diagnostic=False)
        self.recorder.see(tally.total, tally.fine, tally.lowest)
        return tally.asked > 0

    def _record(self) -> Generator[Query, Array, Status | None]:
        """Keep a record; then complain, check the criteria, call back and save."""
        if self.checkpoint is not None and self.stop:
            self._before_check = copy.deepcopy((self.recorder, self.counters, self.aux.bit_generator.state))
        fun, lowest = self._note()
        self._complain()
        for criterion in self.stop:
            if criterion.screen(fun, lowest, self.noisy):
                check = criterion.confirm(self._outside(self._answer()), self.oracle, self.aux)
                if (yield from self._counted(check, self.reserve)):
                    self.notes.insert(0, criterion.message)
                    return Status.CRITERION  # saved as before the check, so that a second start finds it met again
        self._before_check = None
        if self.callback is not None:
            try:
                self.callback(self.result(Status.RUNNING))
            except StopIteration:
                return Status.CALLBACK
        if self.checkpoint is not None and self.checkpoint.due:
            self.checkpoint.save(self._content())
        return None

    def _note(self) -> tuple[float, float]:
        state, count = self.run.state, self.counters
        return self.recorder.record(
            nfev=count.nfev,
            ngev=count.ngev,
            nit=state.nit,
            gradient_norm=state.gradient_norm,
            step=state.step,
            nfail=count.nfail,
            monitor=np.nan if self.monitor is None else float(self.monitor(self._outside(self._answer()))),
        )

    def _counted(self, asking: Generator[Query, Array, T], reserve: int | None = None) -> Generator[Query, Array, T]:
        """Pass on queries that do not move x, all of them in the user's coordinates, and count them.

        With a `reserve`, end (in None) rather than touch it.
        """
        try:
            query = next(asking)
            while True:
                left = None if reserve is None else self._left(reserve)
                if left is not None and len(query) > left:
                    asking.close()
                    return None  # type: ignore[return-value]
                values = yield replace(query, outside=True)
                self.counters.see(values, query, diagnostic=True)
                query = asking.send(values)
        except StopIteration as done:
            answer: T = done.value
            return answer

    def _close(self, status: Status) -> Generator[Query, Array, Result]:
        """Let the closing find the answer, and make the result."""
        if self.recorder.columns["nit"][-1] < self.run.nit or self.recorder.columns["nfev"][-1] < self.counters.nfev:
            self._note()
        points = {"": self._answer()} if status is Status.CRITERION or not self.choose else self._candidates()
        points = {name: self._outside(x) for name, x in points.items()}
        closing = self.closing.run(points, self.counters.nfev, lambda: self._left(0), self.aux)
        answer = yield from self._counted(closing)
        if len(points) > 1:
            self.notes.append(f"The answer is the {answer.name}, by {answer.samples} fresh values of each candidate.")
        result = self.result(status)
        result.x, result.fun, result.fun_stderr = answer.x, answer.fun, answer.stderr
        result.success = result.success and bool(np.isfinite(answer.fun))
        own = status is Status.CRITERION and self.rule == "last" and self.x_scale is None  # then x is what it is about
        if certificate := answer.certificate or (own and self.method.certificate(self.run.state)):
            result.stationarity = certificate
        return result

    def _candidates(self) -> dict[str, Array]:
        """Return the points that may be the answer, each once; the start comes last."""
        points = self.method.candidates(self.run.state)
        *names, start = points
        different: dict[str, Array] = {}
        for name in names:
            if not any(np.array_equal(points[name], other) for other in (*different.values(), points[start])):
                different[name] = points[name]
        return {**different, start: points[start]}

    def _left(self, reserve: int) -> int | None:
        if self.max_evals is None:
            return None
        return self.max_evals - self.counters.nfev - self.counters.ngev - reserve

    def _answer(self) -> Array:
        return self.tracker.answer(self.method.standing(self.run.state))

    def _outside(self, x: Array) -> Array:
        """Return a point in the user's coordinates, as a copy of its own."""
        return x.copy() if self.x_scale is None else x * self.x_scale

    def _complain(self) -> None:
        """Warn once about each thing that the run has shown to be wrong."""
        for key, sentence in {**self.method.complaints(self.run.state), **self._precision()}.items():
            if key not in self._said:
                self._said.add(key)
                warnings.warn(sentence, RuntimeWarning, stacklevel=2)

    def _precision(self) -> dict[str, str]:
        """Compare the rounding error of an estimate, about d·u·|F|/δ, with the estimates themselves."""
        delta, power = self.method.gauge(self.run.state)
        if not power:
            return {}
        rounding = self.run.x.size * self.oracle.roundoff * self.counters.magnitude / delta
        typical = float(np.sqrt(power))
        if rounding <= 0.1 * typical:
            return {}
        return {
            "precision": (
                f"Rounding errors of F (|F| about {self.counters.magnitude:.2g}) make up {rounding / typical:.0%} of "
                f"the gradient estimates at delta={delta:.3g}: use a larger delta, higher precision, or subtract a "
                "constant from F."
            )
        }

    def result(self, status: Status) -> Result:
        """Return the run so far; `fun` is the free estimate of the last record until the run is closed."""
        count = self.counters
        reason = [] if status is Status.CRITERION else [REASONS[status]]
        notes = [*self.notes, *self.method.report(self.run.state)]
        if count.nfail:
            share = count.nfail / max(count.nfev + count.ngev, 1)
            notes.append(f"{share:.1%} of the evaluations failed; if that depends on the point, estimates are biased.")
        return Result(  # type: ignore[call-arg]
            x=self._outside(self._answer()),
            fun=self.recorder.columns["fun"][-1] if self.recorder.columns["fun"] else np.nan,
            fun_stderr=np.nan,
            nfev=count.nfev,
            nfev_diagnostic=count.nfev_diagnostic,
            ngev=count.ngev,
            nit=self.run.nit,
            nfail=count.nfail,
            success=status is Status.CRITERION,
            status=status,
            message=" ".join([*reason, *notes]),
            method=self.method,
            history=History(self.recorder.columns),
        )

    def interrupt(self) -> None:
        """Save the run for good as it is; one that waits for an evaluation, as it was before that query."""
        if self.checkpoint is None or not self._consistent or self._saved_for_good:
            return
        if self._before_ask is not None:
            self.run.context.rng.bit_generator.state = self._before_ask
        self.checkpoint.save(self._content())
        self._saved_for_good = True

    def _fingerprint(self, x0: Array, output: str | None, projection: Projection | None) -> dict[str, Any]:
        horizon = (self.max_evals, self.max_iter) if self.method.uses_horizon else ()
        return {
            "method": repr(self.method),
            "oracle": f"{type(self.oracle).__name__}, n={self.oracle.n}",
            "x0": hashlib.sha256(x0.tobytes()).hexdigest(),
            "x_scale": None if self.x_scale is None else self.x_scale.tolist(),
            "output": output,
            "bounds": described(projection),
            "limits": list(horizon),
        }

    def _content(self) -> dict[str, Any]:
        recorder, counters, aux = self._before_check or (self.recorder, self.counters, self.aux.bit_generator.state)
        return {
            "fingerprint": self.fingerprint,
            "state": self.run.state,
            "nfev": self.run.context.nfev,
            "rng": self.run.context.rng.bit_generator.state,
            "aux": aux,
            "aux at the start": self._aux_at_start,
            "counters": counters,
            "tracker": self.tracker,
            "recorder": recorder,
            "owes a record": self._before_check is not None,  # Ctrl-C while a criterion was being confirmed
        }

    def _restore(self, saved: dict[str, Any]) -> None:
        for key, now in self.fingerprint.items():
            if saved["fingerprint"][key] != now:
                assert self.checkpoint is not None
                raise ValueError(
                    f"The checkpoint {self.checkpoint.path} belongs to another run: its {key} was "
                    f"{saved['fingerprint'][key]!r:.200}, now it is {now!r:.200}."
                )
        self.run.context.nfev = saved["nfev"]
        self.run.context.rng = generator(saved["rng"])
        self.aux = generator(saved["aux"])
        self.counters, self.tracker, self.recorder = saved["counters"], saved["tracker"], saved["recorder"]


def drive(session: Session, evaluate: Callable[[Query], Array]) -> Result:
    """Play a session to its end; Ctrl-C returns the run so far, an exception carries it as `.result`."""
    play = session.play()
    try:
        query = next(play)
        while True:
            try:
                values = evaluate(query)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    session.interrupt()  # before the values of this query count: the resumed run asks for them again
                asked = min(getattr(error, "evaluated", len(query)), len(query))
                session.counters.nfev += asked if query.order == 0 else 0
                session.counters.ngev += asked if query.order == 1 else 0
                if isinstance(error, StopIteration):
                    raise RuntimeError(
                        "The function raised StopIteration; only callbacks stop a run that way."
                    ) from error
                raise
            query = play.send(values)
    except StopIteration as done:
        result: Result = done.value
        return result
    except KeyboardInterrupt:
        session.interrupt()
        return session.result(Status.INTERRUPTED)
    except Exception as error:
        error.result = session.result(Status.RUNNING)  # type: ignore[attr-defined]
        error.add_note(
            f"goldstein: raised after {session.counters.nfev} evaluations; `.point` holds the point (if it was raised "
            "by the function), `.result` the run so far."
        )
        raise
