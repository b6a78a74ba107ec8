"""How a run begins: whether its function is noisy, how the answer is chosen, and where it resumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goldstein.facts import differ
from goldstein.methods.method import MethodState, Step
from goldstein.oracle import Query
from goldstein.output import TRACKERS
from goldstein.projection import Box
from goldstein.run.chunks import Chunks
from goldstein.run.outcome import DrawnIteration, LeavesSet, noise_at_start
from goldstein.run.snapshot import Snapshot
from goldstein.state import generator

if TYPE_CHECKING:
    from goldstein.run.session import EvaluationGenerator, Session


def recognise(run: Session, saved: Snapshot | None) -> EvaluationGenerator[None]:
    """Ask a bare callable twice at x0: different values make it `Unreplayable`."""
    if run.budget.max_evals is not None and run.budget.max_evals < 2:
        return
    run.budget.before = 2
    if saved is not None:  # asked before the snapshot was taken, and counted there
        if saved.recognised:
            run.take_as_noisy(saved.recognised)
        return
    start = run.x0 if run.projection is None else run.projection(run.x0)
    query = Query(np.stack([start, start]))
    answer = yield query if run.coordinates is None else query.outside(run.coordinates)
    assert answer is not None
    run.facts.update(query, answer, diagnostic=True)
    run.notes.failure = answer.reason
    first, second = answer.values.tolist()
    if np.array_equal(run.outside(start), run.start):
        run.ending.at_start = first
    if differ(first, second):
        run.take_as_noisy(noise_at_start(first, second))


def set_up(run: Session, saved: Snapshot | None) -> None:
    """Settle everything that had to wait until the oracle was known; resume from what was saved, if anything."""
    unsupported = run.needs.unsupported(run.method.name, run.oracle)
    if unsupported is not None:
        raise ValueError(unsupported)
    warning = run.needs.warning(run.oracle)
    if warning is not None:
        run.notes.warn("pairs", warning)
    _check_radius(run)
    _choose_rule(run)
    run.settle()
    run.chunks = Chunks.of(run)
    run.checkpoints.compiled = run.chunks is not None
    if saved is not None:
        restore(run, saved)
        return
    x = run.context.projected(run.x0, run.needs.query_radius)
    run.state = run.method.init(x, run.context) if x.size else MethodState(x)
    run.step = Step(run.state.x)


def _check_radius(run: Session) -> None:
    """Say so beforehand if queries may leave the allowed set."""
    if run.spec.allowed is None:
        return
    radius = run.needs.query_radius
    allowed = run.projection
    diagnostic = [criterion.reach for criterion in run.spec.stop]  # in the user's coordinates
    if allowed is None:  # every free variable may go everywhere, and the fixed ones nowhere
        outside = 0.0
        margin = 0.0
    else:
        kept = allowed.holds(radius) or (run.needs.respects_bounds and isinstance(allowed, Box))
        outside = 0.0 if kept else radius
        margin = radius
        if run.coordinates is not None and run.coordinates.scale is not None:
            margin *= float(run.coordinates.scale.min(initial=np.inf))
        if run.spec.stationarity is not None:
            diagnostic.append(run.spec.stationarity[0])
    farthest = max(diagnostic, default=0.0)
    if outside or farthest > margin:
        run.notes.add(LeavesSet(max(farthest, outside)))


def _choose_rule(run: Session) -> None:
    """Settle by which rule the answer is chosen, and after how many iterations the run ends."""
    rule = run.spec.output or run.needs.output
    draw = run.needs.random_stop
    max_iter = run.budget.max_iter
    if rule == "random" and draw is not None and max_iter is not None and run.budget.max_evals is None:
        # No budget can end the run before, so draw the index first and stop there: same law, half the cost.
        rule = "last"
        run.budget.stop_at = draw(run.aux, max_iter)
        run.notes.add(DrawnIteration(run.budget.stop_at, max_iter))
    run.ending.rule = "last" if run.ending.choosing else rule
    run.tracker = TRACKERS[run.ending.rule]()


def restore(run: Session, saved: Snapshot) -> None:
    """Go on from a snapshot of the same run."""
    run.state = saved.state
    run.step = saved.step
    run.nit = saved.nit
    run.context.nfev = saved.nfev
    run.context.rng = generator(saved.rng)
    run.aux = generator(saved.aux)
    run.facts = saved.facts
    run.context.facts = saved.facts
    run.tracker = saved.tracker
    run.recorder = saved.recorder.over_again(run.budget.max_evals)
    run.criteria.schedule = saved.schedule
    run.notes.method_notes = saved.method_notes
    if saved.recognised and not run.oracle.noisy:
        run.take_as_noisy(saved.recognised)
        run.settle()
