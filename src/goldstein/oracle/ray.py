"""Ray: a pool of resident actors, on this machine or on a cluster of many.

An actor gets the oracle once and keeps it. Long points that come from a random stream are sent as recipes
(`goldstein.oracle.recipe`), and the long arrays in them, such as the iterate, travel once to each node.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import pickle
import socket
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments, retired
from goldstein.oracle.query import LONG, CompactQuery, Query
from goldstein.oracle.tasks import Chunk, QueueingPool, Task, TaskLost, TaskResult
from goldstein.oracle.worker import sendable

try:
    import ray
except ImportError as error:
    raise ImportError("goldstein.oracle.ray needs Ray: pip install 'goldstein[ray]'.", name="ray") from error

Bytes = npt.NDArray[np.uint8]

STORED = 16  # long arrays that are kept for the chunks to come
PAUSE = 1.0  # seconds before an actor is asked for in the place of one that could not start


class RemoteWorker:
    """What an actor does: it holds a task and answers chunks."""

    def __init__(self) -> None:
        self._task: Task | None = None
        self._refusal = "This actor has no task."

    def initialize(self, held: Sequence[Any], version: str) -> str:
        """Take the task behind a reference, from a program with that version of NumPy; return why it cannot, or ""."""
        self._task = None
        self._refusal = ""
        try:
            task = pickle.loads(ray.get(held[0]))
        except Exception as error:
            self._refusal = f"{type(error).__name__}: {error}"
        if np.__version__ != version:  # whose random numbers may be others
            self._refusal = f"its NumPy is {np.__version__} and that of the program {version}"
        if not self._refusal:
            self._task = task
        return self._refusal

    def work(self, packed: bytes, *buffers: Bytes) -> TaskResult:
        """Answer a chunk, whose long arrays came by themselves."""
        if self._task is None:
            raise RuntimeError(self._refusal)
        start = time.perf_counter()
        chunk: Chunk = pickle.loads(packed, buffers=buffers)
        if isinstance(chunk.work, CompactQuery):
            chunk.work = chunk.work.expanded()
        chunk.work.fresh = False  # what comes out of Ray's store cannot be written to
        result = self._task(chunk)
        result.seconds = time.perf_counter() - start
        return sendable(result)


@dataclass(frozen=True, eq=False)
class Message:
    """A chunk as it is sent: its first row, the number of its rows, and the arguments of `RemoteWorker.work`."""

    first: int
    rows: int
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class Actor:
    """An actor, and the chunks that it was sent and has not answered, by the references to their answers."""

    handle: Any
    chunks: dict[Any, tuple[int, Message]] = field(default_factory=dict)

    def tickets(self) -> list[int]:
        return [ticket for ticket, _ in self.chunks.values()]

    def takes(self, message: Message) -> bool:
        """Whether a chunk can be sent to it, ahead of time if need be.

        A row that is a chunk by itself has the actor to itself: if that dies, the row is to blame and no other.
        """
        if not self.chunks:
            return True
        ((_, current), *ahead) = self.chunks.values()
        return not ahead and current.rows > 1 and message.rows > 1


@dataclass
class Resources:
    """What a pool has to let go of in the end."""

    actors: list[Actor] = field(default_factory=list)
    starting: dict[Any, Actor] = field(default_factory=dict)
    joined: bool = False
    folder: tempfile.TemporaryDirectory[str] | None = None

    def release(self) -> None:
        """End the actors; leave the cluster if it was joined here, which ends one that was started here."""
        for actor in (*self.actors, *self.starting.values()):
            _kill(actor)
        self.actors.clear()
        self.starting.clear()
        if self.joined:
            ray.shutdown()
            self.joined = False
        if self.folder is not None:
            self.folder.cleanup()


class RayPool(QueueingPool):
    """Actors of Ray, for `workers`.

    Parameters
    ----------
    address : str, optional
        The cluster to join, as in `ray.init`: "auto" is one that `ray start` has started on this machine, and "local"
        starts one here. None: the one that this program has joined already, or that the variable RAY_ADDRESS names; if
        there is none, one is started here, without dashboard and usage reports. It ends with the pool.
    actors : int, optional
        How many actors; None: as many as there is room for.
    options : mapping, optional
        Options of an actor as Ray has them: `num_cpus` (1 unless given), `num_gpus`, `resources`, `runtime_env`, ….
    patience : float, optional
        Seconds to wait for the first actor, and for another one when none is left.

    Notes
    -----
    What an actor that died was doing is done by another one, and a new actor is started as soon as there is room. A run
    does not close the pool, which can be used for the next one; it is closed by `close`, by `with`, or when it is
    garbage.

    Each actor has a copy of the function and its data, which come once. goldstein must be installed on every node, and
    the NumPy that is here.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> from goldstein.oracle.ray import RayPool
    >>> with RayPool("local", actors=2) as pool:
    ...     res = gs.minimize(lambda x: abs(x - 1).sum(), np.zeros(3), max_evals=300, rng=0, workers=pool)
    >>> bool(res.fun < 1), res.nfev <= 300
    (True, True)
    """

    def __init__(
        self,
        address: str | None = None,
        actors: int | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        patience: float = 60.0,
    ) -> None:
        super().__init__()
        count = arguments.optional_count("actors", actors)
        self._patience = arguments.positive("patience", patience)
        self._options = {"num_cpus": 1, **(options or {}), "max_restarts": 0}
        self._kind = ray.remote(RemoteWorker)
        self._resources = Resources()
        self._workers = self._resources.actors
        self._starting = self._resources.starting  # by the reference to their consent
        self._flight: dict[Any, Actor] = {}  # by the reference to the answer
        self._stored: OrderedDict[bytes, Any] = OrderedDict()
        self._task: Any = None
        self._spawn_at = 0.0
        self._empty_since = 0.0  # since when there is no actor
        self._last_failure = "there is no room for one"
        self._close = weakref.finalize(self, self._resources.release)
        self._join(address, count)
        self._count = count or self._room()

    @property
    def size(self) -> int:
        """How many actors there are; at least 1, which may have to be waited for."""
        return max(len(self._workers), 1)

    def initialize(self, task: Task) -> None:
        """Send the task to every actor; start those that are missing, and wait for some of them."""
        if not self._close.alive:
            raise RuntimeError("This pool is closed; make a new one.")
        for actor in [actor for actor in self._workers if actor.chunks]:
            self._remove(actor, "it was stopped")
        self._waiting.clear()
        self._finished.clear()
        self._task = ray.put(_packed(task))
        for actor in self._starting.values():  # which would start with the task before
            _kill(actor)
        self._starting.clear()
        for actor in self._workers:
            actor.handle.initialize.remote([self._task], np.__version__)
        self._spawn_at = 0.0
        self._wait_for_actors()

    def poll(self, seconds: float | None) -> None:
        if not self._finished:
            _ready([*self._flight, *self._starting], seconds)

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        super().close()
        self._close()
        self._flight.clear()
        self._stored.clear()
        self._task = None

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _join(self, address: str | None, count: int | None) -> None:
        """Join a cluster, or start one on this machine that has room for the actors."""
        if address is None and ray.is_initialized():
            return
        if ray.is_initialized():
            raise ValueError(
                f"This program has joined a cluster of Ray already, so it cannot join {address!r}; leave address out, "
                "or call ray.shutdown() before."
            )
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == "local":
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            self._resources.folder = _folder()
            ray.init(
                "local",
                num_cpus=math.ceil(count * self._each()) if count else None,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=self._resources.folder.name,
                **quiet,
            )
        else:
            _check_reachable(address)
            try:
                ray.init(address, **quiet)
            except ConnectionError as error:
                raise ConnectionError(f"There is no cluster of Ray at address={address!r}; start one first.") from error
        self._resources.joined = True

    def _each(self) -> float:
        return float(self._options["num_cpus"] or 0.0)

    def _room(self) -> int:
        """Return for how many actors the cluster has CPUs; one that takes none is not limited by them."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        return max(int(resources.get("CPU", 0.0) / (self._each() or 1.0)), 1)

    def _message(self, chunk: Chunk) -> Message:
        """Pack a chunk without its long arrays; those of a recipe, which other chunks need too, travel once."""
        work = chunk.work
        if isinstance(work, Query):
            work = work.compact()
        buffers: list[Any] = []

        def keep_inside(buffer: pickle.PickleBuffer) -> bool:
            content = np.frombuffer(buffer.raw(), np.uint8)
            if content.size >= LONG:
                buffers.append(self._put_once(content) if isinstance(work, CompactQuery) else content)
            return content.size < LONG

        packed = pickle.dumps(Chunk(chunk.first, work), protocol=5, buffer_callback=keep_inside)
        return Message(chunk.first, len(chunk.work), (packed, *buffers))

    def _put_once(self, content: Bytes) -> Any:
        """Return a reference to bytes in Ray's store, from where each node fetches them once."""
        key = hashlib.sha256(content.data).digest()
        if key in self._stored:
            self._stored.move_to_end(key)
        else:
            self._stored[key] = ray.put(content)
        if len(self._stored) > STORED:
            self._stored.popitem(last=False)
        return self._stored[key]

    def _dispatch(self) -> None:
        while self._waiting and self._workers:
            ticket, message = self._waiting[0]
            actor = min(self._workers, key=lambda one: len(one.chunks))
            if not actor.takes(message):
                return
            self._waiting.popleft()
            answer = actor.handle.work.remote(*message.arguments)
            actor.chunks[answer] = (ticket, message)
            self._flight[answer] = actor

    def _collect(self) -> None:
        self._spawn()
        for reference in _ready([*self._flight, *self._starting], 0.0):
            if reference in self._starting:
                self._on_ready(reference)
            elif reference in self._flight:  # not if its actor was found dead just now
                self._receive(reference)
        self._spawn()
        if not self._workers and time.monotonic() > self._empty_since + self._patience:
            raise RuntimeError(
                f"Ray started no actor within {self._patience:g} seconds: {self._last_failure}; see what "
                "the cluster has to offer (ray status), ask for less in options, or set a longer patience."
            )

    def _receive(self, answer: Any) -> None:
        actor = self._flight[answer]
        ticket, message = actor.chunks[answer]
        try:
            done: TaskResult = ray.get(answer)
        except ray.exceptions.RayTaskError as error:
            done = TaskResult(message.first, 0, error=error)
        except ray.exceptions.RayError as error:
            self._remove(actor, f"its actor is gone ({type(error).__name__})", died=True)
            return
        del self._flight[answer]
        del actor.chunks[answer]
        self._finished[ticket] = done

    def _remove(self, actor: Actor, reason: str, died: bool = False) -> None:
        """End an actor; what it was sent is lost.

        One that is stopped here has started what was sent ahead of time only if it has answered what came before. One
        that has died may have started all: what it answered last is lost with it.
        """
        unanswered = set() if died else actor.chunks.keys() - _ready(list(actor.chunks), 0.0)
        _kill(actor)
        self._workers.remove(actor)
        if not self._workers:
            self._empty_since = time.monotonic()
        started = None
        for answer, (ticket, _) in actor.chunks.items():
            del self._flight[answer]
            self._finished[ticket] = TaskLost(reason, started)
            if answer in unanswered:
                started = 0
        actor.chunks.clear()

    def _spawn(self) -> None:
        """Ask for as many actors as are missing; those for which there is no room come when there is."""
        if time.monotonic() < self._spawn_at:
            return
        for _ in range(self._count - len(self._workers) - len(self._starting)):
            actor = Actor(self._kind.options(**self._options).remote())
            self._starting[actor.handle.initialize.remote([self._task], np.__version__)] = actor

    def _on_ready(self, reference: Any) -> None:
        """Take an actor that has the task; in the place of one that failed another one is asked for later."""
        actor = self._starting.pop(reference)
        try:
            refusal: str = ray.get(reference)
        except ray.exceptions.RayError as error:
            refusal = ""
            self._last_failure = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        else:
            if not refusal:
                self._workers.append(actor)
                return
            self._last_failure = refusal
        _kill(actor)
        self._spawn_at = time.monotonic() + PAUSE
        if refusal and not self._workers and not self._starting:
            raise RuntimeError(
                f"No actor of Ray can run the function: {refusal}; see that every node has what is installed here."
            )

    def _wait_for_actors(self) -> None:
        """Wait for one actor at least; if there was none, for the others as long again."""
        start = time.monotonic()
        self._empty_since = start
        self._spawn()
        while not self._workers:
            self.poll(PAUSE)
            self._collect()
        until = 2 * time.monotonic() - start
        while len(self._workers) < self._count and time.monotonic() < until:
            self.poll(min(until - time.monotonic(), PAUSE))
            self._collect()


def _packed(task: Task) -> bytes:
    """Return a task as bytes that an actor can read, which are its own, so that it may write into its data."""
    try:
        packed: bytes = ray.cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    except Exception as error:
        raise TypeError(
            f"The function cannot be sent to actors of Ray ({type(error).__name__}: {error}); define it at the top of "
            "a module that is installed on every node."
        ) from error
    return packed


def _kill(actor: Actor) -> None:
    if ray.is_initialized():
        with suppress(Exception):  # it may be gone already
            ray.kill(actor.handle)


def _ready(references: list[Any], seconds: float | None) -> list[Any]:
    """Wait until one of these is there, at most some seconds; return all that are."""
    timeout = None if seconds is None else max(seconds, 0.0)
    if not references:
        time.sleep(PAUSE if timeout is None else timeout)
        return []
    first, _ = ray.wait(references, num_returns=1, timeout=timeout, fetch_local=False)
    if not first:
        return []
    every, _ = ray.wait(references, num_returns=len(references), timeout=0, fetch_local=False)
    return list(every)


def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder for the logs and sockets of a cluster; the path of a socket must be short."""
    place = "/tmp" if os.path.isdir("/tmp") else None
    return tempfile.TemporaryDirectory(prefix="goldstein-", dir=place, ignore_cleanup_errors=True)


def _check_reachable(address: str) -> None:
    """Say at once that there is no cluster, for which Ray takes minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except OSError as error:
        raise ConnectionError(
            f"There is no cluster of Ray at address={address!r} ({error}); start one first."
        ) from error


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
