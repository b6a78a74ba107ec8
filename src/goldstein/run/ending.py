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
from goldstein.run.outcome import Failures, FarAway, NoImprovement, NotReplayed, Outcome, Selected, TooManyFailed
from goldstein.run.recording import note
from goldstein.run.result import VERSIONS, Result, Status
from goldstein.stationarity.certificate import Certificate

if TYPE_CHECKING:
    from goldstein.run.session import EvaluationGenerator, Session

FINAL = 0x66696E616C  # what keeps the ξ of a final seed apart from those of a run
FAR = 1e6  # lengths of x0 from it at which an answer is worth a question


class Ending:
    """How a run finds its answer.

    Attributes
    ----------
    rule : str
        The output rule.
    choosing : bool
        The answer is one of the method's candidates, by fresh values of each.
    started : bool
        What is still asked for is about the answer only.
    at_start : float
        f at the start, if it was asked for.
    """

    def __init__(self, run: Session) -> None:
        self.run = run
        self.rule = "last"
        self.choosing = run.spec.output is None and run.needs.output == "choice"
        self.started = False
        self.at_start = np.nan

    def plan(self) -> int:
        """Plan the final estimate; return how many evaluations it needs."""
        run = self.run
        self.estimate = FinalEstimate(
            run.oracle,
            run.budget.max_evals,
            run.needs.candidates if self.choosing else 1,
            run.spec.stationarity,
            run.estimating,
        )
        self.estimate.free = None if run.coordinates is None else run.coordinates.free
        if self.choosing:
            self.estimate.tie_break = run.needs.tie_break
            self.estimate.selection_share = run.needs.selection_share
        return self.estimate.reserve

    def close(self, status: Status) -> EvaluationGenerator[Result]:
        """Choose the answer, estimate f there, and return the result."""
        run = self.run
        self.started = True
        columns = run.recorder.columns
        if columns["nit"][-1:] != [run.nit] or columns["nfev"][-1] < run.facts.nfev:
            note(run)
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
        self._add_notes(final, len(points))
        result = self.result(status)
        if final.samples or not np.array_equal(result.x, final.x):
            result.x = final.x
            result.fun = final.fun
            result.fun_stderr = final.stderr
        if run.bare and not run.budget.before:
            result.fun_stderr = np.nan  # nobody has looked for noise
        result.success = result.success and bool(np.isfinite(final.fun))
        certificate = final.certificate or self._certificate(status)
        if certificate is not None:
            result.stationarity = certificate
        return result

    def _add_notes(self, final: Final, candidates: int) -> None:
        """Take notes of how the answer was found."""
        run = self.run
        if candidates > 1:
            run.notes.add(Selected(final.name, final.samples))
        with np.errstate(over="ignore"):
            distance = norm(final.x - run.start)
        if distance > FAR * max(1.0, norm(run.start)):
            run.notes.add(FarAway(distance))
        if final.name == START:
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
        points = step.candidates or {"": step.x}
        *names, start = points
        different: dict[str, Array] = {}
        for name in names:
            if not any(np.array_equal(points[name], other) for other in (*different.values(), points[start])):
                different[name] = points[name]
        return {**different, start: points[start]}

    def _best(self) -> Array:
        """Return the answer in the user's coordinates: what met a criterion, or by the output rule."""
        found = self.run.criteria.found
        return self.run.outside(self.run.answer()) if found is None else found

    def result(self, status: Status) -> Result:
        """Return the run so far.

        Until it is closed, `fun` is the lowest value of a function without noise, where the answer is that point, and
        otherwise the free estimate of the last record.
        """
        run = self.run
        facts = run.facts
        x, fun, stderr = self._known()
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
            message=self._outcome(status).message,
            method=as_run(run.method, run.state),
            history=History(run.recorder.columns, run.recorder.choices),
            settings={"oracle": type(run.oracle).__name__, **run.spec.summary},
            versions=dict(VERSIONS),
        )

    def _outcome(self, status: Status) -> Outcome:
        run = self.run
        notes = run.notes.every()
        if status is Status.FAILING and run.budget.too_many_failed(run.facts):
            assert run.budget.max_fail is not None
            notes.append(TooManyFailed(run.budget.max_fail))
        if run.facts.nfail:
            notes.append(Failures(run.facts.nfail / max(run.facts.counted, 1), run.notes.failure))
        return Outcome(status, notes)

    def incumbent(self) -> Incumbent:
        """Return the lowest point of a function without noise in the user's coordinates."""
        lowest = self.run.facts.incumbent
        return Incumbent(lowest.fun, None if lowest.x is None else self.run.outside(lowest.x))

    def _known(self) -> tuple[Array, float, float]:
        """Return the answer as it is known without a further evaluation, the value there, and its standard error."""
        run = self.run
        x = self._best()
        lowest = self.incumbent()
        exact = run.estimating and not run.oracle.noisy and run.criteria.found is None
        told = exact and run.chunks is None  # machine code shows no single point
        if told and lowest.x is not None and (self.choosing or np.array_equal(x, lowest.x)):
            return lowest.x, lowest.fun, 0.0
        if exact and np.isfinite(self.at_start) and np.array_equal(x, run.start):
            return x, self.at_start, 0.0
        funs = run.recorder.columns["fun"]
        return x, funs[-1] if funs else np.nan, np.nan
