"""Chunks of iterations in machine code: whole iterations of a method, handed over in bulk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from goldstein.methods.method import Chunk, Kernel, Unsupported
from goldstein.output import Average, Random

if TYPE_CHECKING:
    from goldstein.run.session import Session


class Chunks:
    """The kernel of a method in a session."""

    def __init__(self, run: Session, kernel: Kernel) -> None:
        self.run = run
        self.kernel = kernel

    @classmethod
    def of(cls, run: Session) -> Chunks | None:
        """Return whole iterations in machine code, if the user wants them and they are possible."""
        compiled = run.spec.compiled
        if compiled is False or (compiled is None and "numba" not in sys.modules):
            return None
        try:
            return cls(run, _kernel(run))
        except Unsupported as reason:
            if compiled:
                raise ValueError(str(reason)) from None
            return None

    def advance(self) -> bool:
        """Do a chunk of iterations, up to the next record or check; False when not even one fits."""
        run = self.run
        until = run.recorder.due
        if run.criteria.periodic:
            until = min(until, run.criteria.schedule.due)
        stop_at = run.budget.stop_at
        most = None if stop_at is None else stop_at - run.nit
        limit = run.budget.for_method(run.facts)
        iterations = self.kernel.plan(run.state, run.context, limit, until - run.facts.counted, most)
        if not iterations:
            return False
        run.checkpoints.moved()
        tracker = run.tracker
        if not self.kernel.offers(run.state):
            self._run(iterations, None)
        elif isinstance(tracker, Random):
            self._run_with_picks(iterations, tracker)
        else:
            self._run(iterations, tracker if isinstance(tracker, Average) else None)
        return True

    def _run(self, iterations: int, mean: Average | None) -> int:
        """Do iterations; return how many were done, fewer if one of them failed altogether."""
        if not iterations:
            return 0
        run = self.run
        limit = run.budget.for_method(run.facts)
        result = self.kernel.run(run.state, run.context, Chunk(iterations, limit, mean, run.interrupts.waiting))
        run.facts.add(result.tally)
        run.take(result.step, result.tally)
        return result.step.completed

    def _run_with_picks(self, iterations: int, tracker: Random) -> None:
        """Do iterations, stopping wherever the random output picks the iterate that is about to be left."""
        aux = self.run.aux
        before = aux.bit_generator.state
        done = 0
        for edge in tracker.picks(iterations, aux):
            done += self._run(edge - done, None)
            if done < edge:
                break
            tracker.pick = self.run.step.x.copy()
        else:
            done += self._run(iterations - done, None)
        tracker.count += done
        if done < iterations:  # as if each iteration had drawn its own number
            aux.bit_generator.state = before
            aux.random(done)


def _kernel(run: Session) -> Kernel:
    """Return the kernel of a run's method; raise `Unsupported` where it cannot serve this run."""
    if run.projection is not None or run.coordinates is not None:
        raise Unsupported("The compiled loops take neither bounds, projection nor x_scale.")
    if run.criteria.step_criteria:
        raise Unsupported("The compiled loops show no single step to a criterion that must see each of them.")
    if run.spec.catch:
        raise Unsupported("The compiled loops cannot catch exceptions of the function.")
    kernel = run.method.kernel(run.oracle)
    rule = run.ending.rule
    if rule in kernel.outputs:
        return kernel
    if rule == "best":
        raise Unsupported("The compiled loops do not keep the best iterate; choose another output.")
    raise Unsupported(f"The compiled loop of {run.method.name} does not answer by the rule {rule!r}.")
