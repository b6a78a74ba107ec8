"""A run between two queries: everything that is needed to continue from there, as plain data.

On disk it is one `.npz` file, arrays and a JSON text with everything else; nothing is pickled. It is written beside its
place and moved there in one step. It is a cache of the journal: one that cannot be read is as good as none.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import time
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goldstein.facts import Facts, Incumbent
from goldstein.methods.method import MethodState, Step
from goldstein.output import Tracker
from goldstein.run.history import CheckSchedule, Recorder
from goldstein.run.records import Records
from goldstein.state import State, pack, unpack

if TYPE_CHECKING:
    from goldstein.run.session import Session

log = logging.getLogger("goldstein")

FORMAT = 6
FEW_QUERIES = 1000  # replayed in no time
BEGINNING = 256  # bytes of the text by which a snapshot is recognised


@dataclass
class Snapshot(State):
    """A run between two queries.

    What a query and a check may change before their answer is told (random numbers, counts, records) is held as copies;
    the state, the last step and the tracker change by telling only and are held as they are.
    """

    queries: int  # that were asked before
    position: int  # of the records of the next one in the journal
    compiled: bool  # values between queries were computed in machine code, and are in no journal
    state: MethodState
    step: Step
    nit: int
    nfev: int  # evaluations that moved the method
    rng: Mapping[str, Any]  # of the trajectory
    aux: Mapping[str, Any]  # of what does not change it
    facts: Facts
    tracker: Tracker
    recorder: Recorder
    schedule: CheckSchedule
    best: Incumbent  # as the user sees it: the lowest point; with noise or in machine code the answer, without value
    method_notes: dict[str, str]
    recognised: str
    run: str = ""  # that it belongs to


def snapshot_of(run: Session) -> Snapshot:
    """Return the run as it is, when nothing is under way."""
    journal = run.checkpoints.journal
    best = run.ending.incumbent()
    if run.oracle.noisy or run.chunks is not None or best.x is None:
        best = Incumbent(np.nan, run.outside(run.answer()))
    return Snapshot(
        queries=journal.number,
        position=journal.position,
        compiled=run.chunks is not None,
        state=run.state,
        step=run.step,
        nit=run.nit,
        nfev=run.context.nfev,
        rng=run.context.rng.bit_generator.state,
        aux=run.aux.bit_generator.state,
        facts=copy.copy(run.facts),
        tracker=run.tracker,
        recorder=run.recorder.copy(),
        schedule=copy.copy(run.criteria.schedule),
        best=best,
        method_notes=dict(run.notes.method_notes),
        recognised=run.notes.recognised,
    )


class SnapshotFile:
    """The file of the snapshots of a run, written every so many seconds; a file of the user's with its name is kept."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        self._new = path.with_name(path.name + ".new")
        self._new.unlink(missing_ok=True)
        self._own = is_snapshot(path) or not path.exists()
        self.wait()

    def wait(self, queries: int = 0) -> None:
        """Let the time until the next snapshot start."""
        self._since = time.monotonic()
        self._queries = queries

    def due(self, queries: int, compiled: bool) -> bool:
        """Whether it is time for a snapshot; a few queries are replayed in no time."""
        if time.monotonic() - self._since < self.seconds:
            return False
        return compiled or queries - self._queries >= FEW_QUERIES or not self.seconds

    def read(self, run: str, end: int) -> Snapshot | None:
        """Return the snapshot of a run; delete one of a course beyond the `end` of its journal, which is gone."""
        snapshot = read_snapshot(self.path)
        if snapshot is None or snapshot.run != run:
            return None
        if snapshot.position > end:
            self.delete()
            return None
        return snapshot

    def write(self, snapshot: Snapshot, records: Records) -> None:
        """Write a snapshot when all records before it are on the disk; log what goes wrong, since it is a cache."""
        try:
            records.force()
            if not self._own:
                raise FileExistsError("there is another file of that name")
            self._write(snapshot)
        except OSError as error:
            log.warning("%s: no snapshot could be written: %s", self.path, error)
        self.wait(snapshot.queries)

    def _write(self, snapshot: Snapshot) -> None:
        arrays: dict[str, Any] = {}
        text = json.dumps({"format": FORMAT, "content": pack(snapshot, arrays)})
        with self._new.open("wb") as file:
            np.savez(file, json=np.frombuffer(text.encode(), np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(self._new, self.path)

    def delete(self) -> None:
        if self._own:
            self.path.unlink(missing_ok=True)


def is_snapshot(path: Path) -> bool:
    """Whether a file is a snapshot, of this version or another, and not something of the user's."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("json.npy") as text:
            return b'{"format": ' in text.read(BEGINNING)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error):
        return False


def read_snapshot(path: Path) -> Snapshot | None:
    """Return the snapshot; None when there is none that can be read."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name != "json"}
            head = json.loads(file["json"].tobytes().decode())
        if head["format"] != FORMAT:
            return None
        content = unpack(head["content"], arrays)
    except Exception:  # the run can be replayed instead
        return None
    return content if isinstance(content, Snapshot) else None
