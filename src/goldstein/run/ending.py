"""The end of a run: its answer, the final estimate of f there, and the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goldstein.facts import Incumbent
from goldstein.methods.method import START
from goldstein.methods.probed import as_run
from goldstein.norms import norm
from goldstein.oracle import Array
from goldstein.run.final_estimate import Final, FinalEstimate
from goldstein.run.history import History
from goldstein.run.outcome import Failures, FarAway, NoImprovement, Note, NotReplayed, Outcome, Selected, TooManyFailed
from goldstein.run.recording import keep_record
from goldstein.run.result import VERSIONS, Result, Status
from goldstein.stationarity.certificate import Certificate

if TYPE_CHECKING:
    from goldstein.run.session import EvaluationGenerator, Session

FINAL = 0x66696E616C  # what keeps the ξ of a final seed apart from those of a run
FAR = 1e6  # an answer that is so many lengths of x0 away from it is worth a note


class Ending:
    """How a run finds its answer."""

    def __init__(self, run: Session) -> None:
        self.run = run
        self.rule = "last"  # the output rule
        self.choosing = run.spec.output is None and run.needs.output == "choice"  # by fresh values of each candidate
        self.started = False  # what is still evaluated is about the answer only
        self.at_start = np.nan  # f at the start, if it was evaluated

    def plan(self) -> int:
        """Plan the final estimate; return how many evaluations it needs."""
        run = self.run
        self.estimate = FinalEstimate(run.oracle, run.budget.max_evals, run.spec.stationarity)
        if run.coordinates is not None:
            self.estimate.free = run.coordinates.free
        if self.choosing:
            self.estimate.candidates = run.needs.candidates
            self.estimate.tie_break = run.needs.tie_break
            self.estimate.selection_share = run.needs.selection_share
        return self.estimate.reserve if run.estimating else 0

    def close(self, status: Status) -> EvaluationGenerator[Result]:
        """Choose the answer, estimate f there, and return the result."""
        run = self.run
        self.started = True
        columns = run.recorder.columns
        if columns["nit"][-1:] != [run.nit] or columns["nfev"][-1] < run.facts.nfev:
            keep_record(run)
        if not run.estimating:
            return self.result(status)
        points = {"": self._best()}
        if self.choosing and status is not Status.CRITERION:
            points = {name: run.outside(x) for name, x in self._candidates().items()}
        rng = run.aux
        if run.spec.final_seed is not None:  # beside a constant, or it would be the stream of a run with this seed
            rng = np.random.default_rng([run.spec.final_seed, FINAL])
        check = self.estimate.run(points, run.facts.nfev, lambda: run.budget.remaining(run.facts), rng)
        final = yield from run.ask_for(check)
        if len(points) > 1:
            run.notes.add(Selected(final.name, final.samples))
        self._add_notes(final)
        return self._closed(status, final)

    def _closed(self, status: Status, final: Final) -> Result:
        result = self.result(status)
        if final.samples or not np.array_equal(result.x, final.x):
            result.x = final.x
            result.fun = final.fun
            result.fun_stderr = final.stderr
        if self.run.bare and not self.run.budget.before:
            result.fun_stderr = np.nan  # the budget was too small to look for noise
        result.success = result.success and bool(np.isfinite(final.fun))
        certificate = final.certificate or self._certificate(status)
        if certificate is not None:
            result.stationarity = certificate
        return result

    def _add_notes(self, final: Final) -> None:
        run = self.run
        with np.errstate(over="ignore"):
            distance = norm(final.x - run.start)
        if distance > FAR * max(1.0, norm(run.start)):
            run.notes.add(FarAway(distance))
        if final.name == START and run.facts.nfail < run.facts.counted:
            run.notes.add(NoImprovement(run.facts.nfev))
        if not final.replayed:
            run.notes.warn("replay", str(NotReplayed()))
            run.notes.add(NotReplayed())

    def _certificate(self, status: Status) -> Certificate | None:
        """Return the certificate with which the method ended, if it is one of the answer."""
        done = self.run.step.done
        proven = status is Status.CRITERION and self.rule == "last" and self.run.coordinates is None
        return done if proven and isinstance(done, Certificate) else None

    def _candidates(self) -> dict[str, Array]:
        """Return the points that may be the answer, each once; the start comes last."""
        step = self.run.step
        *others, (start, x0) = (step.candidates or {"": step.x}).items()
        different: dict[str, Array] = {}
        for name, x in others:
            if not any(np.array_equal(x, other) for other in (*different.values(), x0)):
                different[name] = x
        return {**different, start: x0}

    def _best(self) -> Array:
        """Return the answer in the user's coordinates: what met a criterion, or by the output rule."""
        run = self.run
        return run.outside(run.answer()) if run.criteria.found is None else run.criteria.found

    def result(self, status: Status) -> Result:
        """Return the run so far.

        Until it is closed, `fun` is the lowest value of a function without noise, where the answer is that point, and
        otherwise the free estimate of the last record.
        """
        run = self.run
        facts = run.facts
        x, fun, stderr = self._answer_so_far()
        return Result(  # type: ignore[call-arg]
            x=x,
            fun=fun,
            fun_stderr=stderr,
            nfev=facts.nfev,
            nfev_diagnostic=facts.nfev_diagnostic,
            ngev=facts.ngev,
            nit=run.nit,
            nfail=facts.nfail,
            nrepeat=run.repeats(),
            success=status is Status.CRITERION,
            status=status,
            message=Outcome(status, self._notes(status)).message,
            method=as_run(run.method, run.state),
            history=History(run.recorder.columns, run.recorder.choices),
            settings={"oracle": type(run.oracle).__name__, **run.spec.summary},
            versions=dict(VERSIONS),
        )

    def _notes(self, status: Status) -> list[Note]:
        run = self.run
        notes = run.notes.all()
        if status is Status.FAILING and run.budget.too_many_failed(run.facts):
            assert run.budget.max_fail is not None
            notes.append(TooManyFailed(run.budget.max_fail))
        if run.facts.nfail:
            notes.append(Failures(run.facts.nfail, run.facts.counted, run.notes.failure))
        return notes

    def incumbent(self) -> Incumbent:
        """Return the lowest point of a function without noise in the user's coordinates."""
        lowest = self.run.facts.incumbent
        return Incumbent(lowest.fun, None if lowest.x is None else self.run.outside(lowest.x))

    def _answer_so_far(self) -> tuple[Array, float, float]:
        """Return the answer as it is known without a further evaluation, the value there, and its standard error."""
        run = self.run
        x = self._best()
        lowest = self.incumbent()
        exact = run.estimating and not run.oracle.noisy and run.criteria.found is None
        if run.chunks is not None:  # machine code shows no single point
            lowest = Incumbent()
        if exact and lowest.x is not None and (self.choosing or np.array_equal(x, lowest.x)):
            return lowest.x, lowest.fun, 0.0
        if exact and np.isfinite(self.at_start) and np.array_equal(x, run.start):
            return x, self.at_start, 0.0
        funs = run.recorder.columns["fun"]
        return x, funs[-1] if funs else np.nan, np.nan
