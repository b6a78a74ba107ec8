"""The stopping criteria of a run: which look at every step, which now and then, and what their checks cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from goldstein.criterion import Criterion
from goldstein.oracle import Answer, Array, Query, Tally
from goldstein.run.history import CheckSchedule
from goldstein.run.outcome import AllFixed, Reached
from goldstein.run.result import Status

if TYPE_CHECKING:
    from goldstein.run.session import EvaluationGenerator, Session


class Criteria:
    """The criteria of a run: the periodic ones and those that look at every step."""

    def __init__(self, stop: Sequence[Criterion]) -> None:
        self.periodic = [criterion for criterion in stop if not criterion.each_step]
        self.step_criteria = [criterion for criterion in stop if criterion.each_step]
        self.reserved_evals = sum(criterion.reserve for criterion in self.step_criteria)
        self.schedule = CheckSchedule()  # of the periodic ones
        self.found: Array | None = None  # a point, in the user's coordinates, that met one of them

    def add(self, tally: Tally) -> None:
        if self.periodic:
            self.schedule.add(tally)

    def at_start(self, run: Session) -> EvaluationGenerator[Status | None]:
        """Let the criteria that look at every step see the start."""
        for criterion in self.step_criteria:
            check = criterion.met_at_start(run.outside(run.step.x), run.oracle, run.aux)
            if (yield from run.ask_for(check, run.budget.final_evals)):
                return _met(run, criterion)
        return None

    def among(self, run: Session, query: Query, answer: Answer) -> Status | None:
        for criterion in self.step_criteria:
            self.found = criterion.found(query, answer)
            if self.found is not None:
                return _met(run, criterion)
        return None

    def at_step(self, run: Session) -> EvaluationGenerator[Status | None]:
        return _confirmed(run, self.step_criteria, run.step.x)

    def when_due(self, run: Session) -> EvaluationGenerator[Status | None]:
        """Let the others look, if it is time."""
        if not self.periodic or run.step.partial or run.facts.counted < self.schedule.due:
            return None
        fun, lowest = self.schedule.read()
        for criterion in self.periodic:
            if criterion.cost_share and not self.schedule.affords(criterion.cost_share, run.facts.counted):
                continue
            if run.needs.values and not criterion.screen(fun, lowest, run.oracle.noisy):
                continue
            before = run.facts.counted
            status = yield from _confirmed(run, [criterion], run.answer())
            if status is not None:
                return status
            if criterion.cost_share:
                self.schedule.spent += run.facts.counted - before
        self.schedule.look_again(run.facts.counted)
        return None

    def without_variables(self, run: Session) -> EvaluationGenerator[Status]:
        """Let all of them look at the only point that there is."""
        run.notes.add(AllFixed())
        status = yield from _confirmed(run, [*self.periodic, *self.step_criteria], run.step.x)
        return Status.FINISHED if status is None else status


def _confirmed(run: Session, criteria: Iterable[Criterion], x: Array) -> EvaluationGenerator[Status | None]:
    """Let criteria confirm at a point, as far as the budget goes; None when none is met."""
    for criterion in criteria:
        check = criterion.confirm(run.outside(x), run.oracle, run.aux)
        if (yield from run.ask_for(check, run.budget.final_evals)):
            return _met(run, criterion)
    return None


def _met(run: Session, criterion: Criterion) -> Status:
    run.notes.add(Reached(criterion.message))
    return Status.CRITERION
