"""The stopping criteria of a run: which look at every step, which now and then, and what their checks cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goldstein.criterion import Criterion
from goldstein.oracle import Answer, Array, Query, Tally
from goldstein.run.history import CheckSchedule
from goldstein.run.outcome import AllFixed, Reached
from goldstein.run.result import Status

if TYPE_CHECKING:
    from goldstein.run.session import EvaluationGenerator, Session


class Criteria:
    """The criteria of a run, and when they look at it.

    Attributes
    ----------
    periodic, step_criteria : list of Criterion
        Those that look now and then, and those that look at every step.
    schedule : CheckSchedule
        When the periodic ones look.
    found : ndarray or None
        A point, in the user's coordinates, that met one of them.
    """

    def __init__(self, stop: Sequence[Criterion]) -> None:
        self.periodic = [criterion for criterion in stop if not criterion.each_step]
        self.step_criteria = [criterion for criterion in stop if criterion.each_step]
        self.schedule = CheckSchedule()
        self.found: Array | None = None

    @property
    def reserved_evals(self) -> int:
        """Evaluations that the method must leave for the next check."""
        return sum(criterion.reserve for criterion in self.step_criteria)

    @property
    def reach(self) -> list[float]:
        """How far from x the queries of each criterion may lie."""
        return [criterion.reach for criterion in (*self.periodic, *self.step_criteria)]

    def add(self, tally: Tally) -> None:
        """Take note of values, for those that look now and then."""
        if self.periodic:
            self.schedule.add(tally)

    def at_start(self, run: Session) -> EvaluationGenerator[Status | None]:
        """Let the criteria that look at every step see the start."""
        for criterion in self.step_criteria:
            check = criterion.met_at_start(run.outside(run.step.x), run.oracle, run.aux)
            if (yield from run.spend(check)):
                return _met(run, criterion)
        return None

    def among(self, run: Session, query: Query, answer: Answer) -> Status | None:
        """Let them look at the points just evaluated."""
        for criterion in self.step_criteria:
            self.found = criterion.found(query, answer)
            if self.found is not None:
                return _met(run, criterion)
        return None

    def at_step(self, run: Session) -> EvaluationGenerator[Status | None]:
        """Let them judge a new iterate."""
        for criterion in self.step_criteria:
            if (yield from run.spend(criterion.confirm(run.outside(run.step.x), run.oracle, run.aux))):
                return _met(run, criterion)
        return None

    def now_and_then(self, run: Session) -> EvaluationGenerator[Status | None]:
        """Let the others look, if it is time."""
        if not self.periodic or run.step.partial or run.facts.counted < self.schedule.due:
            return None
        fun, lowest = self.schedule.read()
        for criterion in self.periodic:
            if criterion.cost_share and not self.schedule.affords(criterion.cost_share, run.facts.counted):
                continue
            if not run.needs.values or criterion.screen(fun, lowest, run.oracle.noisy):
                before = run.facts.counted
                if (yield from run.spend(criterion.confirm(run.outside(run.answer()), run.oracle, run.aux))):
                    return _met(run, criterion)
                if criterion.cost_share:
                    self.schedule.spent += run.facts.counted - before
        self.schedule.look_again(run.facts.counted)
        return None

    def without_variables(self, run: Session) -> EvaluationGenerator[Status]:
        """Let all of them look at the only point that there is."""
        run.notes.add(AllFixed())
        for criterion in (*self.periodic, *self.step_criteria):
            if (yield from run.spend(criterion.confirm(run.outside(run.step.x), run.oracle, run.aux))):
                return _met(run, criterion)
        return Status.FINISHED


def _met(run: Session, criterion: Criterion) -> Status:
    run.notes.add(Reached(criterion.message))
    return Status.CRITERION
