"""A run in stages: one whose steps were planned for its budget goes on from its answer with a larger one."""

from __future__ import annotations

import copy
from contextlib import closing, nullcontext
from typing import Any

from goldstein import arguments
from goldstein.oracle.evaluate import Evaluator
from goldstein.run.drive import drive
from goldstein.run.outcome import Note, Stage
from goldstein.run.progress import Bar
from goldstein.run.result import Result, Status
from goldstein.run.session import Session
from goldstein.run.spec import RunSpec
from goldstein.state import later_generator

COUNTED = ("nfev", "nfev_diagnostic", "ngev", "nit", "nfail")
USED_UP = (Status.MAX_EVALS, Status.MAX_ITER, Status.FINISHED)  # ends after which another stage makes sense


def run(spec: RunSpec) -> Result:
    """Do what was asked for; return the result."""
    journal = spec.journal
    if journal is not None:
        journal.call = spec.header
        journal.settings = spec.summary
    with (
        journal or nullcontext(),
        Evaluator(spec.oracle, spec.workers, spec.catch, timeout=spec.timeout, retries=spec.retries) as evaluate,
    ):
        if not spec.progress:
            return _run_stages(spec, evaluate, None)
        with closing(Bar(spec.max_evals, spec.oracle.noisy)) as bar:
            return _run_stages(spec, evaluate, bar)


def _run_stages(spec: RunSpec, evaluate: Evaluator, bar: Bar | None) -> Result:
    """Run one session after the other, each from the answer of the one before it; return what they come to."""
    rng = arguments.generator(spec.rng) if spec.journal is None else spec.journal.generator(spec.rng)
    stages = [spec.limits]
    if spec.journal is not None:
        stages = spec.journal.stage_limits(spec.limits, horizon=spec.resolved.needs.horizon, extend=spec.extend)
    session = Session(spec, copy.deepcopy(rng) if len(stages) > 1 else rng, limits=stages[0])
    result = drive(session, evaluate, bar)
    for number, limits in enumerate(stages[1:], start=1):
        if result.status not in USED_UP:
            break
        notes: list[Note] = [Stage(number + 1, result.nfev)]
        if bar is not None:
            bar.stage_begins(result.nfev)
        later = later_generator(rng, number)
        session = Session(spec, later, x0=result.x, oracle=session.oracle, bare=False, limits=limits, notes=notes)
        result = after(result, drive(session, evaluate, bar))
    return result


def after(first: Result, second: Result) -> Result:
    """Return the result of two stages: the answer of the second, the counts and the history of both."""
    so_far: dict[str, Any] = {name: first[name] for name in COUNTED}
    second.history = first.history.followed_by(second.history, so_far)
    for name in COUNTED:
        second[name] += first[name]
    return second
