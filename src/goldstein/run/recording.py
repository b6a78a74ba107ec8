"""Records of a run: its history, the monitor and the callback."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from goldstein.run.result import Status

if TYPE_CHECKING:
    from goldstein.run.session import Session

log = logging.getLogger("goldstein")


def record(run: Session) -> Status | None:
    """Keep a record; then call back."""
    keep_record(run)
    journal = run.checkpoints.journal
    if journal.replaying and not journal.ended_here(Status.CALLBACK):
        return None
    fun = run.recorder.columns["fun"][-1]
    log.debug("%d evaluations, %d iterations, fun about %.6g", run.facts.nfev, run.nit, fun)
    if run.spec.callback is not None:
        try:
            with run.interrupts.allowed():
                stops = run.spec.callback(run.ending.result(Status.RUNNING))
        except StopIteration:
            return Status.CALLBACK
        if isinstance(stops, bool | np.bool_) and stops:
            return Status.CALLBACK
    journal.drop_end(Status.CALLBACK)
    return None


def keep_record(run: Session) -> None:
    """Keep a record of the run as it stands, and warn of rounding errors."""
    run.recorder.record(
        nfev=run.facts.nfev,
        ngev=run.facts.ngev,
        nit=run.nit,
        gradient_norm=run.step.grad_norm,
        step=run.step.step_size,
        nfail=run.facts.nfail,
        monitor=_monitor(run),
    )
    run.notes.check_precision(run.step, run.facts, run.oracle.noisy)


def _monitor(run: Session) -> float:
    """Return what the monitor says here, or what it said when the run was here before."""
    monitor = run.spec.monitor
    if monitor is None:
        return np.nan
    journal = run.checkpoints.journal
    value: float | None = journal.monitor_value(run.facts.nfev)
    if value is None:
        try:
            with run.interrupts.allowed():
                value = float(monitor(run.outside(run.answer())))
        except StopIteration as error:
            raise RuntimeError("monitor raised StopIteration; only callbacks stop a run that way.") from error
        journal.monitor(run.facts.nfev, value)
    return value
