"""A run at a moment when nothing is under way: all that going on from there needs, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from goldstein.counting import Counters
from goldstein.methods.method import MethodState, Step
from goldstein.output import Tracker
from goldstein.run.history import Lookout, Recorder
from goldstein.state import State


@dataclass
class Snapshot(State):
    """A run between two queries.

    What a query and a check may change before their answer is told (random numbers, counts, records) is held as copies;
    the state, the last step and the tracker change by telling only and are held as they are.

    Attributes
    ----------
    fingerprint : dict
        What a run that goes on from here must have in common with this one.
    state, step, nit, nfev
        Of the method: its state, its last step, its iterations, and the evaluations that moved it.
    rng, aux, aux_at_start : dict
        States of the random generators: of the trajectory, and of what does not change it, now and at the start.
    counters, tracker, recorder, lookout, remarks, recognised
        Of the session.
    """

    fingerprint: dict[str, Any]
    state: MethodState
    step: Step
    nit: int
    nfev: int
    rng: Mapping[str, Any]
    aux: Mapping[str, Any]
    aux_at_start: Mapping[str, Any]
    counters: Counters
    tracker: Tracker
    recorder: Recorder
    lookout: Lookout
    remarks: dict[str, str]
    recognised: str
