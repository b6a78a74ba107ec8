"""What a journal says of its run, also while that is running: read only, in memory that does not grow with the run."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.run import journal, records
from goldstein.run.journal import LONGEST, VALUES_HEAD, Stage
from goldstein.run.records import MAGIC, MALFORMED, DamagedError, Record
from goldstein.run.result import Status
from goldstein.run.snapshot import Snapshot, read_snapshot

BINS = 128  # points of the curve at most; at least half as many, when there are as many values
RECENT = 1000  # records over which the time of an evaluation is taken
AT_ONCE = 1 << 14  # bytes of values that are looked at together
LAST = 10  # the mean of noisy values is over the last tenth of the run
ATTEMPTS = 3  # at reading a file that changes meanwhile
LONGEST_MESSAGE = 5_000  # letters


@dataclass
class Inspection:
    """What a journal says of its run.

    Attributes
    ----------
    path : str
        The file.
    stage : int
        The stage that the run is in, from 1; 0: the file holds no run.
    evaluations, gradients : int
        Values and gradients of the run; those in machine code only up to its last snapshot.
    max_evals, max_iter : int or None
        Its limits, all stages together.
    noisy : bool
        Whether the run took its function to be noisy.
    best : float
        The lowest value without noise; with noise the mean over the last tenth of the run. NaN: none is there.
    failures : int
        Values that are not finite.
    unanswered : int
        Rows that were started and not answered: they are in flight, or were lost with a process that died.
    seconds_each : float or None
        Recent time from one evaluation to the next, without the time before a run was resumed.
    seconds_left : float or None
        Time for the remaining budget at that pace; None: not known, or it has ended.
    seconds_since : float or None
        Time since the last value came.
    curve : list of (int, float)
        Evaluations and the best value up to there, with noise the mean since the point before.
    compiled : bool
        Values were computed in machine code and are in no journal, so that they show only in snapshots.
    outcome : dict or None
        How it ended: `status` by name, `fun`, `fun_stderr`, `nfev`, `message` and others of `Result`.
    running : bool or None
        Whether a process is writing into it; None: not known, as on Windows. It may be wrong about processes of
        other machines that share the file.
    x, x_fun : list of float and float, or None
        The answer of a run that has ended, and f there. Before that the best point up to the last snapshot and the
        value there, with noise the answer so far and None; without a snapshot both are None.
    settings : dict
        The method, the kind of oracle, and `Result.settings`.
    versions : dict
        Of goldstein and NumPy that began it.
    """

    path: str
    stage: int = 0
    evaluations: int = 0
    gradients: int = 0
    max_evals: int | None = None
    max_iter: int | None = None
    noisy: bool = False
    best: float = math.nan
    failures: int = 0
    unanswered: int = 0
    seconds_each: float | None = None
    seconds_left: float | None = None
    seconds_since: float | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    compiled: bool = False
    outcome: dict[str, Any] | None = None
    running: bool | None = None
    x: list[float] | None = None
    x_fun: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Read what a journal says of its run, which may be running.

    Nothing is changed; a record that is just being written is left out.

    Parameters
    ----------
    path : str or Path
        The journal.

    Returns
    -------
    Inspection

    Raises
    ------
    ValueError
        The file is damaged, with the position; or it is no journal of a run.

    Examples
    --------
    >>> import numpy as np, goldstein as gs, tempfile, pathlib
    >>> from goldstein.run.inspection import inspect
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.journal"
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(3), max_evals=200, rng=0, journal=path)
    >>> summary = inspect(path)
    >>> summary.evaluations == res.nfev, summary.max_evals, summary.outcome["status"]
    (True, 200, 'MAX_EVALS')
    """
    file = Path(path)
    for _ in range(ATTEMPTS - 1):
        before = file.stat()
        try:
            return _read(file)
        except DamagedError:
            after = file.stat()
            if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                raise  # it is not what a run was just writing
    return _read(file)


def stages_in(path: str | os.PathLike[str]) -> list[Stage]:
    """Return the stages of the run in a journal; nothing is locked and nothing is changed."""
    file = Path(path)
    return journal.read_stages(_records(file, oldest=records.VERSION), file)


def _records(path: Path, oldest: int) -> Iterator[Record]:
    records.check_regular(path)
    with path.open("rb", buffering=records.CHUNK) as file:
        if records.check_magic(file.read(len(MAGIC)), path, oldest=oldest):
            yield from records.scan(file, path)


def _read(path: Path) -> Inspection:
    records.check_regular(path)
    inspection = Inspection(str(path), running=records.is_being_written(path))
    reader = _Reader(path)
    for record in _records(path, oldest=1):
        reader.take(record)
    if not reader.stages:
        return inspection
    try:
        reader.fill(inspection)
    except MALFORMED:
        raise records.malformed(path, len(MAGIC)) from None
    with suppress(*MALFORMED):  # it is only a cache
        _add_snapshot(read_snapshot(path.with_name(path.name + ".snapshot")), reader.stages[-1], inspection)
    if inspection.max_evals is not None and inspection.outcome is None and inspection.seconds_each is not None:
        inspection.seconds_left = max(inspection.max_evals - inspection.evaluations, 0) * inspection.seconds_each
    return inspection


def _add_snapshot(snapshot: Snapshot | None, stage: Stage, inspection: Inspection) -> None:
    """Add what is only in the snapshot: the best point, and the course of a compiled run."""
    if snapshot is None or snapshot.run != stage.header["id"]:
        return
    if inspection.x is None and snapshot.best.x is not None:
        inspection.x = snapshot.best.x.tolist()
        inspection.x_fun = snapshot.best.fun if math.isfinite(snapshot.best.fun) else None
    if not snapshot.compiled:
        return
    inspection.compiled = True
    inspection.evaluations = max(inspection.evaluations, snapshot.facts.nfev)
    inspection.gradients = max(inspection.gradients, snapshot.facts.ngev)
    inspection.failures = max(inspection.failures, snapshot.facts.nfail)
    columns = snapshot.recorder.columns
    points = [
        (int(nfev), float(fun)) for nfev, fun in zip(columns["nfev"], columns["fun"], strict=True) if np.isfinite(fun)
    ]
    if len(points) > len(inspection.curve):
        inspection.curve = points
        inspection.best = points[-1][1] if inspection.noisy else min(fun for _, fun in points)


class _Reader:
    """Sums up records as they are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stages: list[Stage] = []
        self.values = 0
        self.gradients = 0
        self.curve = _Curve()
        self._judged = _Curve()  # candidates, the start among them: not the course
        self._last: float | None = None  # when the last value came,
        self._busy_since: float | None = None  # or the run was resumed after it
        self._gaps: deque[tuple[float, int]] = deque(maxlen=RECENT)  # seconds, and rows that came after them

    def take(self, record: Record) -> None:
        journal.take_record(self.stages, record, self._path)
        if record.kind == journal.VALUES:
            self._take_values(record.content)
        elif record.kind == journal.CONTINUED:
            (self._busy_since,) = journal.TIME.unpack(record.content)

    def _take_values(self, content: bytes) -> None:
        _, _, rows, order, _, stamp, _ = VALUES_HEAD.unpack_from(content)
        if self._busy_since is not None:
            self._gaps.append((max(stamp - self._busy_since, 0.0), rows))
        self._last = stamp
        self._busy_since = stamp
        if order:
            self.gradients += rows
            return
        self.values += rows
        stage = self.stages[-1]
        curve = self._judged if stage.ending is not None and stage.noisy else self.curve
        curve.add(content[VALUES_HEAD.size :])

    def fill(self, inspection: Inspection) -> None:
        header = self.stages[0].header
        limits = journal.total_limits(self.stages)
        inspection.stage = len(self.stages)
        inspection.evaluations = self.values
        inspection.gradients = self.gradients
        inspection.max_evals = limits["max_evals"]
        inspection.max_iter = limits["max_iter"]
        inspection.noisy = any(stage.noisy for stage in self.stages)
        inspection.failures = self.curve.failures + self._judged.failures
        inspection.unanswered = sum(stage.started - stage.answered for stage in self.stages)
        inspection.curve = self.curve.points(inspection.noisy)
        inspection.best = self.curve.recent() if inspection.noisy else self.curve.lowest()
        if self._gaps:
            inspection.seconds_each = sum(gap for gap, _ in self._gaps) / sum(rows for _, rows in self._gaps)
        if self._last is not None:
            inspection.seconds_since = max(time.time() - self._last, 0.0)
        inspection.versions = header["versions"]
        oracle = "Unreplayable" if any(stage.noise for stage in self.stages) else header["oracle"]
        settings = {"method": header["method"], "oracle": oracle, **(header.get("settings") or {})}
        inspection.settings = {name: _short(value) for name, value in settings.items()}
        if self.stages[-1].outcome is not None:
            outcome = dict(self.stages[-1].outcome)
            inspection.compiled = bool(outcome.pop("compiled", False))
            inspection.x = outcome.pop("x", None)
            inspection.x_fun = None if inspection.x is None else outcome["fun"]
            outcome["status"] = Status(outcome["status"]).name
            outcome["message"] = outcome["message"][:LONGEST_MESSAGE]
            inspection.outcome = outcome


class _Curve:
    """Values in bins of equal numbers of evaluations; when there are too many, two become one."""

    def __init__(self) -> None:
        self._width = 1
        self._count = 0
        self._finite = np.zeros(BINS)
        self._sum = np.zeros(BINS)
        self._lowest = np.full(BINS, np.inf)
        self._waiting: list[bytes] = []
        self._bytes = 0

    def add(self, values: bytes) -> None:
        self._waiting.append(values)
        self._bytes += len(values)
        if self._bytes >= AT_ONCE:
            self._take()

    @np.errstate(over="ignore", invalid="ignore")  # values near the largest float
    def _take(self) -> None:
        values = np.frombuffer(b"".join(self._waiting))
        self._waiting.clear()
        self._bytes = 0
        places = self._count + np.arange(values.size)
        self._count += values.size
        while self._count > BINS * self._width:
            self._halve()
        finite = np.isfinite(values)
        bins = places[finite] // self._width
        self._finite += np.bincount(bins, minlength=BINS)
        self._sum += np.bincount(bins, values[finite], BINS)
        np.minimum.at(self._lowest, bins, values[finite])

    def _halve(self) -> None:
        half = BINS // 2
        self._width *= 2
        self._finite = np.append(self._finite.reshape(half, 2).sum(axis=1), np.zeros(half))
        self._sum = np.append(self._sum.reshape(half, 2).sum(axis=1), np.zeros(half))
        self._lowest = np.append(self._lowest.reshape(half, 2).min(axis=1), np.full(half, np.inf))

    @property
    def failures(self) -> int:
        """Values that are not finite."""
        self._take()
        return self._count - int(self._finite.sum())

    @np.errstate(invalid="ignore", divide="ignore")
    def points(self, noisy: bool) -> list[tuple[int, float]]:
        """Return the curve: with noise the mean of each bin, else the lowest value so far."""
        self._take()
        bins = math.ceil(self._count / self._width)
        evaluations = np.minimum(self._width * np.arange(1, bins + 1), self._count)
        values = self._sum / self._finite if noisy else np.minimum.accumulate(self._lowest)
        points = zip(evaluations.tolist(), values[:bins].tolist(), strict=True)
        return [(count, value) for count, value in points if math.isfinite(value)]

    def lowest(self) -> float:
        self._take()
        lowest = float(self._lowest.min())
        return lowest if math.isfinite(lowest) else math.nan

    def recent(self) -> float:
        """Return the mean over the last tenth of the bins; NaN when there is no value."""
        self._take()
        bins = math.ceil(self._count / self._width)
        recent = slice(bins - math.ceil(bins / LAST), bins)
        finite = self._finite[recent].sum()
        return float(self._sum[recent].sum() / finite) if finite else math.nan


def _short(value: Any) -> Any:
    """Return a setting of the file, cut where it is too long to show."""
    return value if len(str(value)) <= LONGEST else str(value)[:LONGEST]
