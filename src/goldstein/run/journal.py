"""The journal: every value of a run, on disk as it arrives, so that nothing is evaluated twice.

Where a run evaluates follows from its settings, its seed and the values that it received. So a run is its header plus
its values: to continue it means to replay it, with answers from the journal, and to evaluate only what is missing. The
journal keeps a fingerprint of every query, so that a run that would take another course is refused and not mixed up.

=========== ========================================================================================================
record      what it holds
=========== ========================================================================================================
HEADER      what makes this run (JSON): method, start, seed, oracle, bounds, limits; one for each stage
STARTED     rows of a query that are about to be evaluated
NOT_STARTED number of these rows that were not, since an exception came before them
VALUES      values of rows of a query, with its fingerprint
MONITOR     a value of the user's monitor
ENDING      from here on, a run with a larger budget would take another course
LIMITS      the run continues with a larger budget (JSON)
OUTCOME     how it ended (JSON)
REASON      why an evaluation failed, in words; only the first of a stage
NOISE       how noise showed in a function that was taken to have none, in words
CONTINUED   the time at which a process began to evaluate; what lies before it is a pause
=========== ========================================================================================================

A snapshot of the state stands beside it (`….snapshot`), so that a long run need not be replayed from its start. It is
only a cache: without it the run is replayed, with the same end. A journal may come from a stranger: what is read from
it is checked, and text in it is stripped of control characters.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import struct
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import goldstein
from goldstein import arguments
from goldstein.oracle import Answer, Array, Query
from goldstein.oracle.interrupts import Interrupts
from goldstein.run.records import MAGIC, MALFORMED, DamagedError, Record, Records, malformed
from goldstein.run.result import Status
from goldstein.run.snapshot import Snapshot, SnapshotFile
from goldstein.state import from_plain_state
from goldstein.warnings import warn

log = logging.getLogger("goldstein")

HEADER, STARTED, VALUES, MONITOR, ENDING, LIMITS, OUTCOME, NOT_STARTED, REASON, NOISE, CONTINUED = range(11)
ROWS = struct.Struct("<QII")  # number of the query, first row, rows
VALUES_HEAD = struct.Struct("<QIIBdd16s")  # the same; order, roundoff, time, fingerprint of the query
MONITOR_BODY = struct.Struct("<Qd")  # evaluations, value of the monitor
ENDING_BODY = struct.Struct("<QB")  # number of queries, status
TIME = struct.Struct("<d")
PASSED_OVER = (LIMITS, OUTCOME, REASON, NOISE, CONTINUED)  # when a run is replayed
SLOW = 0.05  # seconds; the records of evaluations that take longer are each forced to the disk
LONGEST = 200  # letters of a text of the file in a message
LATEST = 1e11  # seconds since 1970, which no clock has reached
Limits = dict[str, int | None]
EXTEND = "use extend=True (--extend on the command line) to continue from its answer as a new stage"


@dataclass
class Stage:
    """A stage of a run, as it stands in the journal."""

    header: dict[str, Any]  # what makes the run, with its present limits
    start: int  # where its records begin
    end: int  # and end in the file
    ending: int | None = None  # where the record ENDING stands
    started: int = 0  # rows
    answered: int = 0
    outcome: dict[str, Any] | None = None
    reason: str = ""  # why the first evaluation failed that tells
    noise: str = ""  # how noise showed

    @property
    def noisy(self) -> bool:
        """Whether the run took its function to be noisy; 0.2 wrote only its kind."""
        declared = self.header.get("noisy", not self.header["oracle"].startswith("Deterministic"))
        return bool(self.noise or declared)

    def take(self, record: Record) -> None:
        """Take a record into account; raise one of `MALFORMED` if it is no record of a run."""
        if record.kind == STARTED:
            self.started += ROWS.unpack(record.content)[2]
        elif record.kind == NOT_STARTED:
            self.started -= ROWS.unpack(record.content)[2]
            _require(self.started >= 0)
        elif record.kind == VALUES:
            _, _, rows, order, roundoff, stamp, _ = VALUES_HEAD.unpack_from(record.content)
            entries, odd_bytes = divmod(len(record.content) - VALUES_HEAD.size, 8)
            _require(rows > 0 and not odd_bytes and entries > 0 and entries % rows == 0)
            _require(order == 1 or (order == 0 and entries == rows))
            _require(0 <= roundoff < 1 and 0 <= stamp < LATEST)
            self.answered += rows
        elif record.kind == MONITOR:
            MONITOR_BODY.unpack(record.content)
        elif record.kind == ENDING:
            Status(ENDING_BODY.unpack(record.content)[1])
            if self.ending is None:
                self.ending = record.start
        elif record.kind == LIMITS:
            self.header["limits"] = _checked_limits(_from_json(record.content))
        elif record.kind == OUTCOME:
            self.outcome = _checked_outcome(_from_json(record.content))
        elif record.kind == REASON:
            self.reason = self.reason or _text(record.content)
        elif record.kind == NOISE:
            self.noise = _text(record.content)
        elif record.kind == CONTINUED:
            _require(0 <= TIME.unpack(record.content)[0] < LATEST)
        else:
            _require(False)
        self.end = record.end


def _require(condition: bool) -> None:
    if not condition:
        raise ValueError


def _text(content: bytes) -> str:
    return arguments.printable(content.decode())[:LONGEST]


def _from_json(content: bytes) -> Any:
    return _printable(json.loads(content))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else arguments.printable(value)
    if isinstance(value, list):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return value


def _checked_header(content: bytes, path: Path) -> dict[str, Any]:
    """Return the header of a run; refuse that of something else, such as an attack."""
    raw = json.loads(content)
    header = {**_printable(raw), "call": raw.get("call")}  # arguments stay as they are
    if "rng" not in header and "about" in header:
        about = str(header["about"])[:LONGEST]
        raise DamagedError(f"{path} is the journal of {about} and not of a run: choose another file.")
    _require(isinstance(header["rng"], dict) and isinstance(header["id"], str) and len(header["id"]) <= LONGEST)
    versions = header["versions"]
    _require(all(isinstance(version, str) and len(version) <= LONGEST for version in versions.values()))
    _checked_limits(header["limits"])
    _require(isinstance(header["method"], str) and isinstance(header["oracle"], str))
    for name in ("call", "settings"):
        _require(header.get(name) is None or isinstance(header[name], dict))
    return header


def _checked_limits(limits: Any) -> Limits:
    _require(limits.keys() == {"max_evals", "max_iter"})
    for limit in limits.values():
        _require(limit is None or (type(limit) is int and limit > 0))
    return dict(limits)


def _checked_outcome(outcome: Any) -> dict[str, Any]:
    Status(outcome["status"])
    _require(isinstance(outcome["message"], str))
    for number in (outcome["fun"], outcome["fun_stderr"], *outcome.get("x", ())):
        _require(type(number) in (int, float))
        float(number)
    return dict(outcome)


def take_record(stages: list[Stage], record: Record, path: Path) -> None:
    """Take the next record of a file into account, which may open a stage; refuse one that no run has written."""
    try:
        if record.kind == HEADER:
            stages.append(Stage(_checked_header(record.content, path), record.end, record.end))
        else:
            stages[-1].take(record)
    except DamagedError:
        raise
    except MALFORMED:
        raise malformed(path, record.start) from None


def read_stages(records: Iterator[Record], path: Path) -> list[Stage]:
    """Return the stages of a run from its records."""
    stages: list[Stage] = []
    for record in records:
        take_record(stages, record, path)
    return stages


def total_limits(stages: list[Stage]) -> Limits:
    """Return the limits of a run, all its stages together."""
    limits: Limits = {}
    for name in stages[0].header["limits"]:
        each = [stage.header["limits"][name] for stage in stages]
        limits[name] = None if None in each else sum(each)
    return limits


class Journal:
    """The file that keeps every value of a run; `journal=` of `minimize` takes it, or just its path.

    If the file exists when a run starts, the run continues from it: bit for bit as if it had never been stopped, and
    without evaluating again what is there.

    Parameters
    ----------
    path : str or Path
        The file.
    sync : float, optional
        Seconds after which what was written is forced to the disk; when evaluations take longer than 50 ms, every
        record is.
    snapshots : float, optional
        Seconds between two snapshots of the state, so that a long run need not be replayed from its start.

    Notes
    -----
    Compared with what is in the file are method, x0, the state of `rng` (None: as in the file), kind, size and `args`
    of the oracle, bounds or projection, `x_scale`, `output`, `stop` and `stationarity`. Arrays in `args` are compared
    by their content, however large; what is no plain data (functions, models) by the name of its type, so what a
    function has closed over is not. `workers`, `callback`, `monitor` and `catch` may change.

    Examples
    --------
    >>> import numpy as np, goldstein as gs, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.journal"
    >>> method = gs.GFM(0.01, 0.005)
    >>> f = lambda x: abs(x).sum()
    >>> half = gs.minimize(f, np.ones(3), method, max_iter=50, rng=0, journal=path)
    >>> whole = gs.minimize(f, np.ones(3), method, max_iter=100, rng=0, journal=path)
    >>> again = gs.minimize(f, np.ones(3), method, max_iter=100, rng=0)
    >>> bool((whole.x == again.x).all())
    True
    """

    def __init__(self, path: str | os.PathLike[str], *, sync: float = 1.0, snapshots: float = 60.0) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"The path of a journal must be a str or a Path, got {type(path).__name__}.")
        self.path = Path(path)
        self.sync = arguments.number("sync", sync, "a number of seconds ≥ 0", lambda x: x >= 0)
        self.snapshots = arguments.number("snapshots", snapshots, "a number of seconds ≥ 0", lambda x: x >= 0)
        self.stages: list[Stage] = []
        self.call: dict[str, Any] | None = None  # of `minimize`, in plain data; not compared
        self.settings: dict[str, Any] | None = None  # the same for people
        self.number = 0  # queries that were asked
        self.doubt = ""  # whether the values in it are those of the function at hand
        self.lost = 0  # rows that were started in earlier lives of the run, and never answered
        self.reason = ""  # why the first evaluation of this stage failed that tells
        self._records: Records  # it and the snapshots: while the journal is open
        self._stage = -1
        self._continued = False
        self._ahead: Record | None = None
        self._reader: Iterator[Record] = iter(())
        self._query = _OpenQuery()
        self._snapshots: SnapshotFile

    @property
    def snapshot_path(self) -> Path:
        return self.path.with_name(self.path.name + ".snapshot")

    def __enter__(self) -> Journal:
        """Open the file and read what it holds; a torn tail is cut off."""
        self._records = Records(self.path, self.sync)
        try:
            self.stages = read_stages(self._records.read(), self.path)
            self._records.cut(self.stages[-1].end if self.stages else len(MAGIC))
        except BaseException:
            self._records.close()
            raise
        self._stage = -1
        self._continued = False
        self.lost = 0
        self._snapshots = SnapshotFile(self.snapshot_path, self.snapshots)
        return self

    def __exit__(self, *exc: object) -> None:
        """Force the file to the disk and unlock it; Ctrl-C waits meanwhile, since the run has ended."""
        with Interrupts():
            try:
                self._records.force()
            except OSError as error:  # no reason to lose the result
                if exc[0] is None:
                    warn(str(error))
            finally:
                self._records.close()

    def generator(self, rng: int | np.random.Generator | None) -> np.random.Generator:
        """Return the generator of the run: of its seed, or as in the journal if there is none."""
        if rng is not None or not self.stages:
            return arguments.generator(rng)
        try:
            return from_plain_state(self.stages[0].header["rng"])
        except MALFORMED:
            raise malformed(self.path, len(MAGIC)) from None

    def stage_limits(self, limits: Limits, *, horizon: bool, extend: bool) -> list[Limits]:
        """Return the limits of each stage: as in the journal, and of one more if the run is extended.

        A smaller limit is refused, and a larger one where steps were planned for it, unless the run is extended.
        """
        if not self.stages:
            return [limits]
        before = total_limits(self.stages)
        for name, limit in limits.items():
            self._check_limit(name, limit, before[name], planned=horizon and not extend)
        if limits == before:
            return [stage.header["limits"] for stage in self.stages]
        if not horizon:
            return [limits]
        further: Limits = {}
        for name, limit in limits.items():
            if limit is not None and limit == before[name]:
                raise arguments.WrongValueError(name, f"more than the {limit} that this run has used")
            further[name] = None if limit is None else limit - (before[name] or 0)
        return [*(stage.header["limits"] for stage in self.stages), further]

    def _check_limit(self, name: str, limit: int | None, before: int | None, *, planned: bool) -> None:
        if limit == before:
            return
        if before is None:
            raise arguments.WrongValueError(name, f"left out, as in {self.path}", str(limit))
        if limit is not None and limit < before:
            raise arguments.WrongValueError(name, f"at least {before}, as in {self.path}", str(limit))
        if planned:
            expected = f"{before}, for which the steps of this run were planned"
            raise arguments.WrongValueError(name, expected, str(limit), EXTEND)

    def begin(self, identity: Mapping[str, Any], limits: Limits, *, noisy: bool) -> Snapshot | None:
        """Begin the next stage, or continue it; return the snapshot to continue from, if there is one."""
        self._stage += 1
        self.number = 0
        self.reason = ""
        self._snapshots.wait()
        if self._stage == len(self.stages):
            versions = {"goldstein": goldstein.__version__, "numpy": np.__version__}
            header = {"id": uuid.uuid4().hex, "versions": versions, **identity, "limits": dict(limits), "noisy": noisy}
            if self._stage == 0:
                header["call"] = self.call
                header["settings"] = self.settings
            self._records.append(HEADER, _json(header), at_once=True)
            self.stages.append(Stage(header, self._records.end, self._records.end))
            self._read_from(self._records.end)
            return None
        stage = self.stages[self._stage]
        _compare(self.path, stage.header, identity)
        self.doubt = self._another_function(stage.header)
        larger = stage.header["limits"] != limits
        if larger:
            self._forget_ending(stage)
            stage.header["limits"] = dict(limits)
            self._records.append(LIMITS, _json(limits), at_once=True)
            stage.end = self._records.end
        self.reason = stage.reason
        self.lost += stage.started - stage.answered
        log.info("%s: continues after %d values, which are not evaluated again", self.path, stage.answered)
        snapshot = self._snapshots.read(stage.header["id"], stage.end)
        if snapshot is None or (larger and not snapshot.compiled):  # its history is spread over the smaller budget
            self._read_from(stage.start)
            return None
        self.number = snapshot.queries
        self._read_from(snapshot.position)
        return snapshot

    def _another_function(self, header: Mapping[str, Any]) -> str:
        """Say so if the function has another name than the one whose values are in the file; modules may change."""
        then, now = (str((call or {}).get("function", "")) for call in (header.get("call"), self.call))
        named = ":" in then and ":" in now
        if not named or then.rpartition(":")[2] == now.rpartition(":")[2]:
            return ""
        return (
            f"{self.path} holds values of {arguments.printable(then):.200}, which were taken for those of {now:.200}."
        )

    def _forget_ending(self, stage: Stage) -> None:
        """Drop the end of a run that now continues; later stages began at that end."""
        if stage.ending is None:
            return
        self._records.cut(stage.ending)
        fresh = read_stages(self._records.read(), self.path)
        self.stages = fresh
        vars(stage).update(vars(fresh[self._stage]))
        self.stages[self._stage] = stage

    def _read_from(self, position: int) -> None:
        self._reader = self._records.read(position)
        self._step()

    def _step(self) -> None:
        self._ahead = next(self._reader, None)
        while self._ahead is not None and self._ahead.kind in PASSED_OVER:
            self._ahead = next(self._reader, None)
        if self._ahead is not None and self._ahead.kind == HEADER:
            self._ahead = None

    def ended_here(self, status: Status) -> bool:
        """Whether the run ended at this place before, for a reason that may no longer hold."""
        while self._ahead is not None and self._ahead.kind == MONITOR:  # of a monitor that is not called any more
            self._step()
        return (
            self._ahead is not None
            and self._ahead.kind == ENDING
            and ENDING_BODY.unpack(self._ahead.content)[1] == status
        )

    def drop_end(self, status: Status) -> None:
        """Drop the end of the run at this place, now that it continues."""
        if self.ended_here(status):
            self._forget_ending(self.stages[self._stage])
            self._ahead = None

    @property
    def replaying(self) -> bool:
        """Whether what comes next has happened before."""
        return self._ahead is not None

    def answers_to(self, query: Query) -> list[tuple[int, Answer]]:
        """Return the rows of the next query that are in the journal: first row and answer, in order."""
        self.number += 1
        self._query = _OpenQuery(fingerprint(query), query.order)
        parts: dict[int, Answer] = {}
        answered = 0
        while self._ahead is not None and answered < len(query):
            record = self._ahead
            if record.kind in (STARTED, VALUES):
                number, first, rows = ROWS.unpack_from(record.content)
                self._check_course(number == self.number and first + rows <= len(query))
            if record.kind == VALUES:
                order, roundoff, _, digest = VALUES_HEAD.unpack_from(record.content)[3:]
                self._check_course(digest == self._query.fingerprint and order == query.order)
                values = np.frombuffer(record.content, offset=VALUES_HEAD.size).reshape(rows, -1).copy()
                self._check_course(values.shape[1] == (query.points.shape[1] if order else 1))
                parts[first] = Answer(values if order else values[:, 0], roundoff)
                answered += rows
            self._step()  # also past a monitor that is no longer there
        return sorted(parts.items())

    def _check_course(self, same: bool) -> None:
        if not same:
            raise ValueError(
                f"{self.path} holds another course of this run: query {self.number} asks for other points than it did "
                "then, as with another version of goldstein, NumPy or its linear algebra, a compiled loop on one side "
                "only, or a sampler with a state of its own."
            )

    def start(self, first: int, rows: int) -> None:
        """Take note that rows are about to be evaluated; see `EvaluationLog`."""
        if not self._continued:
            self._records.append(CONTINUED, TIME.pack(time.time()))
            self._continued = True
        self._query.since[first] = time.monotonic()
        self._records.append(STARTED, ROWS.pack(self.number, first, rows))

    def take_back(self, rows: int) -> None:
        """Take note that rows were not started after all, since an exception came before; see `EvaluationLog`."""
        self._records.append(NOT_STARTED, ROWS.pack(self.number, 0, rows))

    def record(self, first: int, answer: Answer) -> None:
        """Write down the answer to some rows; see `EvaluationLog`."""
        rows = len(answer.values)
        query = self._query
        head = VALUES_HEAD.pack(self.number, first, rows, query.order, answer.roundoff, time.time(), query.fingerprint)
        since = query.since.pop(first, np.inf)
        slow = time.monotonic() - since >= SLOW * rows
        if answer.reason and not self.reason:
            self.reason = answer.reason
            self._records.append(REASON, answer.reason[:LONGEST].encode())
        self._records.append(VALUES, head + np.ascontiguousarray(answer.values).tobytes(), at_once=slow)

    def noise(self, reason: str) -> None:
        stage = self.stages[self._stage]
        if not stage.noise and not self.replaying:
            stage.noise = reason
            self._records.append(NOISE, reason[:LONGEST].encode())

    def monitor_value(self, nfev: int) -> float | None:
        """Return the value of the monitor after `nfev` evaluations, if it is in the journal."""
        while self._ahead is not None and self._ahead.kind == MONITOR:
            before, value = MONITOR_BODY.unpack(self._ahead.content)
            if before > nfev:
                return None
            self._step()
            if before == nfev:
                return float(value)
        return None

    def monitor(self, nfev: int, value: float) -> None:
        if not self.replaying:
            self._records.append(MONITOR, MONITOR_BODY.pack(nfev, value))

    def ending(self, status: Status) -> None:
        """Write down that the run ends, from where one with a larger budget would take another course."""
        if self._ahead is not None and self._ahead.kind == ENDING:
            self._step()
        if not self.replaying and self.stages[self._stage].ending is None:
            self.stages[self._stage].ending = self._records.end
            self._records.append(ENDING, ENDING_BODY.pack(self.number, status))

    def outcome(self, about: Mapping[str, Any]) -> None:
        stage = self.stages[self._stage]
        if stage.outcome is None and not self.replaying:
            stage.outcome = dict(about)
            self._records.append(OUTCOME, _json(about), at_once=True)
            stage.end = self._records.end
        if not about["compiled"] and self.in_last_stage:  # the journal holds every value of the run
            self._snapshots.delete()

    @property
    def in_last_stage(self) -> bool:
        """Whether this is the last stage so far; the snapshot belongs to that one."""
        return self._stage == len(self.stages) - 1

    def due(self, compiled: bool) -> bool:
        return not self.replaying and self._snapshots.due(self.number, compiled)

    def save(self, snapshot: Snapshot) -> None:
        """Write a snapshot, when everything before it is on the disk."""
        if self.in_last_stage:
            snapshot.run = self.stages[self._stage].header["id"]
            self._snapshots.write(snapshot, self._records)

    @property
    def position(self) -> int:
        """Where the next record will stand."""
        return self._records.end if self._ahead is None else self._ahead.start


@dataclass
class _OpenQuery:
    """The query at hand: its fingerprint, its order, and when parts of it were begun."""

    fingerprint: bytes = b""
    order: int = 0
    since: dict[int, float] = field(default_factory=dict)


def fingerprint(query: Query) -> bytes:
    """Return sixteen bytes that tell a query from any other."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(np.ascontiguousarray(query.points).data)
    if query.samples is not None:
        _into(digest, query.samples)
    digest.update(bytes([query.order]))
    return digest.digest()


def content_of(value: Any) -> str:
    """Return the fingerprint of plain data: numbers, strings, arrays and what is made of them.

    Of what is no plain data only the name of its type counts.
    """
    digest = hashlib.blake2b(digest_size=16)
    _into(digest, value)
    return digest.hexdigest()


def _into(digest: Any, value: Any) -> None:
    digest.update(type(value).__name__.encode())
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    elif isinstance(value, bool | int | float | complex | str | bytes | np.generic) or value is None:
        digest.update(repr(value).encode())
    elif isinstance(value, Mapping):
        for key in value:
            _into(digest, key)
            _into(digest, value[key])
    elif isinstance(value, list | tuple | np.ndarray):
        for item in value:
            _into(digest, item)


def point_entry(x: Array) -> dict[str, str]:
    """Return a point as a header holds it: its fingerprint, and a few entries for people."""
    return {"content": content_of(x), "shown": arguments.shown(x)}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _compare(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with another run than the one in the journal."""
    for name, value in _from_json(_json(now)).items():
        then = before.get(name)
        if then == value:
            continue
        if name == "rng":
            raise ValueError(f"{path} is the journal of a run with another seed: use the same one, or none.")
        then = then["shown"] if isinstance(then, dict) and "shown" in then else then
        value = value["shown"] if isinstance(value, dict) and "shown" in value else value
        raise ValueError(
            f"{path} is the journal of another run: its {name} was {then!r:.200}, now it is {value!r:.200}."
        )
