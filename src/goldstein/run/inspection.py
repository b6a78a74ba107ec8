"""What a journal says of its run, also while that is running: read only, in memory that does not grow with the run."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.run.journal import (
    HEADER,
    LONGEST,
    MALFORMED,
    ROWS,
    STARTED,
    VALUES,
    VALUES_HEAD,
    Stage,
    malformed,
    read_stages,
    take_record,
)
from goldstein.run.records import (
    CHUNK,
    MAGIC,
    VERSION,
    DamagedError,
    Record,
    check_magic,
    check_regular,
    is_being_written,
    scan,
)
from goldstein.run.result import Status
from goldstein.run.snapshot import Snapshot, read_snapshot
from goldstein.run.spec import BARE

POINTS = 64  # of the curve at least, when there are as many values; at most twice as many
RECENT = 1000  # records over which the time of an evaluation is taken
AT_ONCE = 1 << 14  # bytes of values that are looked at together
PAUSE = 10  # times a gap is longer than the next shorter one where pauses begin
LAST = 10  # the mean of noisy values is over the last tenth of the run
ATTEMPTS = 3  # at reading a file that changes meanwhile
LONGEST_MESSAGE = 5_000  # letters
SETTINGS = ("method", "oracle", "x0", "x_scale", "bounds", "output", "stop", "stationarity")


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
        Values and gradients that the run was told, those after its last snapshot in machine code not counted.
    max_evals, max_iter : int or None
        Its limits, all stages together.
    noisy : bool
        Whether its values are noisy, as far as the journal shows it.
    best : float
        The lowest value without noise; with noise the mean over the last tenth of the run. NaN: none is there.
    failures : int
        Values that are not finite.
    unanswered : int
        Rows that were started and not answered: they are in flight, or were lost with a process that died.
    seconds_each : float or None
        Recent time from one evaluation to the next; longer pauses of the run are left out.
    seconds_left : float or None
        Time for the rest of the budget at that pace; None: not known, or it has ended.
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
        value there, with noise the answer so far and None: a journal holds no points, and without a snapshot both are
        None.
    settings : dict
        What makes the run: method, oracle, x0, bounds, and so on, in short.
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

    def plain(self) -> dict[str, Any]:
        """Return it in JSON types, None where a number is not finite."""
        answer: dict[str, Any] = _finite(asdict(self))
        return answer


def inspect(path: str | os.PathLike[str]) -> Inspection:
    """Read what a journal says of its run, which may be going on.

    Nothing is changed, and the file is locked for no longer than it takes to see whether it is; a record that is just
    being written is left out.

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
    for attempt in range(1, ATTEMPTS + 1):
        before = file.stat()
        try:
            return _read(file)
        except DamagedError:
            after = file.stat()
            changed = (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size)
            if not changed or attempt == ATTEMPTS:  # not what a run was just writing
                raise
    raise AssertionError


def stages_in(path: str | os.PathLike[str]) -> list[Stage]:
    """Return the stages of the run in a journal; nothing is locked and nothing is changed."""
    file = Path(path)
    return read_stages(_records(file, oldest=VERSION), file)


def total_limits(stages: list[Stage]) -> dict[str, int | None]:
    """Return the limits of a run, all its stages together."""
    limits: dict[str, int | None] = {}
    for name in ("max_evals", "max_iter"):
        each = [stage.header["limits"][name] for stage in stages]
        limits[name] = None if None in each else sum(each)
    return limits


def _records(path: Path, oldest: int) -> Iterator[Record]:
    check_regular(path)
    with path.open("rb", buffering=CHUNK) as file:
        if check_magic(file.read(len(MAGIC)), path, oldest=oldest):
            yield from scan(file, path)


def _read(path: Path) -> Inspection:
    check_regular(path)
    summary = Inspection(str(path), running=is_being_written(path))
    reader = _Reader(path)
    for record in _records(path, oldest=1):
        reader.take(record)
    if not reader.stages:
        return summary
    try:
        reader.fill(summary)
    except MALFORMED:
        raise malformed(path, len(MAGIC)) from None
    with suppress(*MALFORMED):  # it is only a cache
        _add_snapshot(path, reader.stages, summary)
    if summary.max_evals is not None and summary.outcome is None and summary.seconds_each is not None:
        summary.seconds_left = max(summary.max_evals - summary.evaluations, 0) * summary.seconds_each
    return summary


def _add_snapshot(path: Path, stages: list[Stage], summary: Inspection) -> None:
    """Take over what is only in the snapshot: the best point, and the course of a compiled run."""
    snapshot = read_snapshot(path.with_name(path.name + ".snapshot"))
    if snapshot is None or snapshot.run != stages[-1].header["id"]:
        return
    _add_point(snapshot, stages[0].header, summary)
    if not snapshot.compiled:
        return
    summary.compiled = True
    summary.evaluations = max(summary.evaluations, snapshot.facts.nfev)
    summary.gradients = max(summary.gradients, snapshot.facts.ngev)
    summary.failures = max(summary.failures, snapshot.facts.nfail)
    columns = snapshot.recorder.columns
    points = [
        (int(nfev), float(fun)) for nfev, fun in zip(columns["nfev"], columns["fun"], strict=True) if np.isfinite(fun)
    ]
    if points and len(points) > len(summary.curve):
        summary.curve = points[:: max(len(points) // POINTS, 1)]
        summary.best = points[-1][1] if summary.noisy else min(fun for _, fun in points)


def _add_point(snapshot: Snapshot, header: Mapping[str, Any], summary: Inspection) -> None:
    """Take over the best point of a run that has not ended; with noise its answer, if it is as the user sees it."""
    if summary.x is not None:
        return
    if not summary.noisy and not snapshot.compiled and snapshot.incumbent.x is not None:
        summary.x = snapshot.incumbent.x.tolist()
        summary.x_fun = snapshot.incumbent.fun
        return
    answer = snapshot.tracker.answer(snapshot.step.x)
    start = (header.get("call") or {}).get("x0") or {}
    d = len(start["numbers"]) if "numbers" in start else math.prod(start.get("shape", [0]))
    if header["x_scale"] is None and answer.size == d:
        summary.x = answer.tolist()


class _Reader:
    """Sums up records as they are read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stages: list[Stage] = []
        self.noisy = False
        self.values = 0
        self.gradients = 0
        self.curve = _Curve()
        self.failures = 0  # besides those on the curve
        self._first: list[float] = []  # values of the first query
        self.stamps: deque[tuple[float, int]] = deque(maxlen=RECENT + 1)
        self.one_by_one = True  # no part was started before the one before was answered
        self._started: tuple[int, int] | None = None

    def take(self, record: Record) -> None:
        """Take a record into account."""
        take_record(self.stages, record, self._path)
        if record.kind == HEADER:
            self.noisy = self.noisy or not str(self.stages[-1].header.get("oracle")).startswith("Deterministic")
        elif record.kind == VALUES:
            self._take_values(record.content)
        elif record.kind == STARTED:
            number, first, _ = ROWS.unpack(record.content)
            self.one_by_one = self.one_by_one and self._started in (None, (number, first))
            self._started = (number, first)

    def _take_values(self, content: bytes) -> None:
        number, _, rows, order, _, stamp, _ = VALUES_HEAD.unpack_from(content)
        self.stamps.append((stamp, rows))
        self._started = None
        if order:
            self.gradients += rows
            return
        if number == 1 and len(self.stages) == 1:
            self._first += np.frombuffer(content, offset=VALUES_HEAD.size).tolist()
        self.values += rows
        if self.stages[-1].ending is not None and (self.noisy or self._gave_two_values()):
            judging = np.frombuffer(
                content, offset=VALUES_HEAD.size
            )  # of candidates, the start among them: not the course
            self.failures += int(np.count_nonzero(~np.isfinite(judging)))
            return
        self.curve.add(content[VALUES_HEAD.size :])

    def _gave_two_values(self) -> bool:
        """Whether a bare callable gave two values at one point, which its first query asks for."""
        call = self.stages[0].header.get("call") or {}
        bare = call.get("oracle", {}).get("kind") == BARE
        return bare and len(self._first) == 2 and len(set(self._first)) == 2 and all(map(math.isfinite, self._first))

    def fill(self, summary: Inspection) -> None:
        """Write the sums down."""
        last = self.stages[-1]
        header = self.stages[0].header
        summary.stage = len(self.stages)
        summary.evaluations = self.values
        summary.gradients = self.gradients
        limits = total_limits(self.stages)
        summary.max_evals = limits["max_evals"]
        summary.max_iter = limits["max_iter"]
        summary.noisy = self.noisy or self._gave_two_values()
        summary.failures = self.curve.failures + self.failures
        summary.unanswered = sum(stage.started - stage.answered for stage in self.stages)
        summary.curve = self.curve.points(summary.noisy)
        summary.best = self.curve.recent() if summary.noisy else self.curve.lowest
        summary.seconds_each = _seconds_each(list(self.stamps), self.one_by_one)
        if self.stamps:
            summary.seconds_since = max(time.time() - self.stamps[-1][0], 0.0)
        if last.outcome is not None:
            outcome = {**last.outcome, "message": last.outcome["message"][:LONGEST_MESSAGE]}
            summary.compiled = bool(outcome.pop("compiled", False))
            summary.x = outcome.pop("x", None)
            summary.x_fun = outcome["fun"] if summary.x is not None else None
            summary.outcome = {**outcome, "status": Status(outcome["status"]).name}
        summary.versions = header["versions"]
        summary.settings = _settings(header)


class _Curve:
    """Values in bins of equal numbers of evaluations; when there are too many, two become one."""

    def __init__(self) -> None:
        self._width = 1
        self._bins: list[list[float]] = []  # values, finite ones, their sum, the lowest
        self._waiting: list[bytes] = []
        self._bytes = 0

    def add(self, values: bytes) -> None:
        """Take values in, as they stand in the file."""
        self._waiting.append(values)
        self._bytes += len(values)
        if self._bytes >= AT_ONCE:
            self._take()

    def _take(self) -> None:
        """Put the values that wait into bins."""
        values = np.frombuffer(b"".join(self._waiting))
        self._waiting.clear()
        self._bytes = 0
        place = 0
        while place < values.size:
            if not self._bins or self._bins[-1][0] >= self._width:
                self._make_room()
                self._bins.append([0, 0, 0.0, math.inf])
            last = self._bins[-1]
            part = values[place : place + self._width - int(last[0])]
            place += part.size
            finite = part[np.isfinite(part)]
            last[0] += part.size
            last[1] += finite.size
            if finite.size:
                with np.errstate(over="ignore"):  # values near the largest float
                    last[2] += float(finite.sum())
                last[3] = min(last[3], float(finite.min()))

    def _make_room(self) -> None:
        if len(self._bins) < 2 * POINTS:
            return
        halves = zip(self._bins[::2], self._bins[1::2], strict=True)
        self._bins = [[a[0] + b[0], a[1] + b[1], a[2] + b[2], min(a[3], b[3])] for a, b in halves]
        self._width *= 2

    @property
    def failures(self) -> int:
        """Values that are not finite."""
        self._take()
        return int(sum(count - finite for count, finite, *_ in self._bins))

    def points(self, noisy: bool) -> list[tuple[int, float]]:
        """Return the curve: with noise the mean of each bin, else the lowest value so far."""
        self._take()
        points = []
        made = 0
        lowest = math.inf
        for count, finite, total, least in self._bins:
            made += int(count)
            lowest = min(lowest, least)
            value = lowest
            if noisy:
                value = total / finite if finite else math.inf
            if math.isfinite(value):
                points.append((made, value))
        return points

    @property
    def lowest(self) -> float:
        """The lowest value; NaN when there is none."""
        self._take()
        lowest = min((least for *_, least in self._bins), default=math.inf)
        return lowest if math.isfinite(lowest) else math.nan

    def recent(self) -> float:
        """Return the mean over the last tenth of the bins."""
        self._take()
        few = self._bins[-math.ceil(len(self._bins) / LAST) :]
        finite = sum(one[1] for one in few)
        return sum(one[2] for one in few) / finite if finite else math.nan


def _seconds_each(stamps: list[tuple[float, int]], one_by_one: bool) -> float | None:
    """Return the time of an evaluation, without pauses of the run.

    A pause is a gap longer than all others together. Where no two evaluations ran at a time, whose answers may come in
    bursts, any number of gaps are pauses that are far longer than all shorter ones, together, too.
    """
    gaps = sorted((max(after - before, 0.0), rows) for (before, _), (after, rows) in pairwise(stamps))
    total = sum(gap for gap, _ in gaps)
    below = 0.0
    for place, (gap, _) in enumerate(gaps if one_by_one else ()):
        if place >= max(len(gaps) / 2, 2) and gap > max(below, PAUSE * gaps[place - 1][0]):
            gaps = gaps[:place]
            total = below
            break
        below += gap
    while len(gaps) > 2 and gaps[-1][0] > total - gaps[-1][0]:
        total -= gaps.pop()[0]
    rows = sum(rows for _, rows in gaps)
    return total / rows if rows else None


def _settings(header: dict[str, Any]) -> dict[str, Any]:
    """Return what makes a run in short."""
    if header.get("settings"):
        settings = {"method": header["method"], "oracle": header["oracle"], **header["settings"]}
    else:
        settings = {name: header[name] for name in SETTINGS}
        for name in ("x0", "x_scale"):
            settings[name] = None if header[name] is None else header[name]["shown"]
    for name, value in settings.items():
        if value not in (None, []) and len(str(value)) > LONGEST:
            settings[name] = f"{value}"[:LONGEST]
    return settings


def _finite(value: Any) -> Any:
    """Return plain data with None in the place of numbers that JSON has no word for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
