"""A run in stages: one whose steps were planned for its budget goes on from its answer with a larger one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from goldstein.oracle import Array, Oracle
from goldstein.run.drive import Evaluates, drive
from goldstein.run.progress import Bar
from goldstein.run.result import Result, Status
from goldstein.run.session import Session
from goldstein.state import later_generator

COUNTED = ("nfev", "nfev_diagnostic", "ngev", "nit", "nfail")
USED_UP = (Status.MAX_EVALS, Status.MAX_ITER, Status.FINISHED)  # ends after which another stage makes sense
Limits = Mapping[str, int | None]
Make = Callable[..., Session]


def run_stages(
    make: Make,
    stages: Sequence[Limits],
    evaluate: Evaluates,
    rng: np.random.Generator,
    x: Array,
    oracle: Oracle,
    bare: bool,
    bar: Bar | None,
) -> Result:
    """Run one session after the other, each from the answer of the one before it; return what they come to."""
    first = copy.deepcopy(rng) if len(stages) > 1 else rng
    result: Result | None = None
    for number, limits in enumerate(stages):
        notes: list[str] = []
        if result is not None:
            rng = later_generator(first, number)
            x = result.x
            notes = [f"This is stage {number + 1}, from the answer after {result.nfev} evaluations."]
            if bar is not None:
                bar.stage_begins(result.nfev)
        session = make(x, oracle, bare=bare, rng=rng, stage_notes=notes, **limits)
        later = drive(session, evaluate, bar)
        result = later if result is None else after(result, later)
        if later.status not in USED_UP:
            break
        oracle = session.oracle
        bare = False
    assert result is not None
    return result


def after(first: Result, second: Result) -> Result:
    """Return the result of two stages: the answer of the second, the counts and the history of both."""
    so_far: dict[str, Any] = {name: first[name] for name in COUNTED}
    second.history = first.history.followed_by(second.history, so_far)
    for name in COUNTED:
        second[name] += first[name]
    return second
