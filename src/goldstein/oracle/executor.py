"""Workers that the user brings: anything with `.submit`, a Dask client, or a callable like `map`."""

from __future__ import annotations

import inspect
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from goldstein.oracle import worker
from goldstein.oracle.tasks import CANCELLED, Chunk, Outcome, Task, TaskLost, TaskResult

Map = Callable[[Callable[[Chunk], TaskResult], Iterable[Chunk]], Iterable[TaskResult]]

START = 60.0  # seconds that Dask's workers may take to be there
HAND_OVER = 1.0  # and to wait for a result that should be there, before looking at others
MACHINE_ERRORS = (BrokenExecutor, CancelledError, OSError, EOFError)
GONE = 300.0  # seconds without any worker, after there were some, at which a Dask cluster is beyond hope


class ExecutorPool:
    """A pool behind anything with `.submit`: concurrent.futures, loky, mpi4py.futures.

    The task has a name. Workers in this process, and those forked from it later, know it by that name; another one says
    that it has not got it, and gets the chunk again with the task as bytes, which are made once.

    `executor.submit(function, *args)` returns a future with `add_done_callback`, `cancel` and `result`.
    """

    _result_options: ClassVar[dict[str, float]] = {}

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self._max_workers = _size(executor)
        self._submit_options = _submit_options(executor)
        self._in_flight: dict[int, tuple[Chunk, Any]] = {}  # each with its future
        self._hanging: set[int] = set()
        self._finished: deque[int] = deque()
        self._any_finished = threading.Event()
        self._tickets = itertools.count()
        self._key = worker.new_key()
        self._task: Task | None = None
        self._packed: bytes | None = None
        self._cancelled = False

    @property
    def size(self) -> int:
        """How many workers there are, but for those that hang in a chunk that was given up."""
        size = self._max_workers - len(self._hanging)
        if size < 1:
            raise RuntimeError(
                f"All {self._max_workers} workers of the executor hang in evaluations that were given up, and an "
                "executor's workers cannot be stopped from here; use a number of processes as workers."
            )
        return size

    def initialize(self, task: Task) -> None:
        """Give the task a name by which workers in this process know it."""
        self.close()
        self._task = task
        self._packed = None
        self._key = worker.new_key()
        worker.keep(self._key, task)

    def submit(self, chunk: Chunk) -> int:
        self._cancelled = False
        ticket = next(self._tickets)
        self._submit(ticket, chunk)
        return ticket

    def wait(self, seconds: float | None) -> Iterable[tuple[int, Outcome]]:
        if seconds != 0.0:
            self.poll(seconds)
        self._any_finished.clear()
        ends: list[tuple[int, Outcome]] = []
        later: list[int] = []
        while self._finished:
            ticket = self._finished.popleft()
            self._hanging.discard(ticket)
            if ticket not in self._in_flight:
                continue
            chunk, future = self._in_flight[ticket]
            end = self._outcome(future)
            if end is None:
                later.append(ticket)
                continue
            del self._in_flight[ticket]
            if isinstance(end, worker.TaskUnknown) and self._cancelled:
                end = CANCELLED
            if isinstance(end, worker.TaskUnknown):
                self._submit(ticket, chunk, self._bytes())
            else:
                ends.append((ticket, end))
        self._finished.extend(later)
        return ends

    def poll(self, seconds: float | None) -> None:
        self._any_finished.wait(seconds)

    def cancel_pending(self) -> None:
        self._cancelled = True
        for _, future in list(self._in_flight.values()):
            future.cancel()

    def rows_started(self, ticket: int) -> int | None:
        """Return 0 for a chunk that may be worked on, of which no more is known; None while it waits."""
        _, future = self._in_flight[ticket]
        waits = hasattr(future, "running") and not future.running()
        return None if waits else 0

    def kill(self, ticket: int) -> int | None:
        """Cancel a chunk; one that is being worked on cannot be stopped, and its worker is missing from now on."""
        if ticket not in self._in_flight:
            return 0
        _, future = self._in_flight.pop(ticket)
        if future.cancel():
            return 0
        self._hanging.add(ticket)
        if future.done():
            self._hanging.discard(ticket)
        return None

    def close(self) -> None:
        """Cancel what waits; the executor is the user's own."""
        self.cancel_pending()
        self._in_flight.clear()
        worker.forget(self._key)

    def _submit(self, ticket: int, chunk: Chunk, packed: Any = None) -> None:
        try:
            future = self.executor.submit(worker.work, self._key, chunk, packed, **self._submit_options)
        except RuntimeError as error:  # BrokenExecutor is one
            raise RuntimeError(
                f"The executor given as workers takes no more work ({type(error).__name__}: {error}); make a new one, "
                "or use a number of processes as workers, which are replaced when they die."
            ) from error
        self._in_flight[ticket] = (chunk, future)
        future.add_done_callback(lambda _: self._on_finished(ticket))

    def _on_finished(self, ticket: int) -> None:
        self._finished.append(ticket)
        self._any_finished.set()

    def _outcome(self, future: Any) -> Outcome | worker.TaskUnknown | None:
        """Return what a future holds; a task never raises, so that an exception is the machine's. None: not yet."""
        if future.cancelled():
            return CANCELLED
        try:
            result: TaskResult | worker.TaskUnknown = future.result(**self._result_options)
        except TimeoutError:
            return None
        except Exception as error:
            if isinstance(error, MACHINE_ERRORS) or type(error).__module__.startswith("distributed."):
                return TaskLost(f"{type(error).__name__}: {error}")
            raise
        return result

    def _bytes(self) -> Any:
        if self._packed is None:
            assert self._task is not None
            self._packed = worker.pack(self._task)
        return self._packed


class DaskPool(ExecutorPool):
    """A pool behind a `dask.distributed.Client`; the task is scattered to its workers instead of sent with chunks.

    Dask itself does a chunk again when its worker dies, without a word; so that is in no count.
    """

    _result_options: ClassVar[dict[str, float]] = {"timeout": HAND_OVER}  # Dask may compute it again

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)
        self._scattered: Any = None
        self._last_answer: float | None = None  # when the last chunk came back

    def wait(self, seconds: float | None) -> Iterable[tuple[int, Outcome]]:
        """Wait until a future calls back; say so when no worker is left."""
        self._finished.extend(ticket for ticket, (_, future) in self._in_flight.items() if _is_lost(future))
        ends = super().wait(seconds)
        now = time.monotonic()
        if ends:
            self._last_answer = now
        elif self._last_answer is not None and now > self._last_answer + GONE and not self.executor.nthreads():
            raise RuntimeError(f"The Dask cluster given as workers has lost all its workers, for {GONE:.0f} s by now.")
        return ends

    def submit(self, chunk: Chunk) -> int:
        if self._last_answer is not None and not self._in_flight:  # it could not have answered
            self._last_answer = time.monotonic()
        return super().submit(chunk)

    def cancel_pending(self) -> None:
        """Wait for what is in flight: Dask would also cancel what is being worked on, uncounted."""
        self._cancelled = True

    def kill(self, ticket: int) -> int | None:
        if ticket not in self._in_flight:
            return 0
        _, future = self._in_flight.pop(ticket)
        future.cancel()
        return None

    def close(self) -> None:
        super().cancel_pending()
        super().close()
        self._scattered = None

    def _outcome(self, future: Any) -> Outcome | worker.TaskUnknown | None:
        """Return what a future holds; what the cluster has cancelled or lost may have been started."""
        if _is_lost(future) or future.cancelled():
            return TaskLost("the Dask cluster was restarted, or has lost it", cluster_fault=True)
        return super()._outcome(future)

    def _bytes(self) -> Any:
        """Return a future of the bytes, which is where the workers are; the bytes, if all died who had them."""
        packed = super()._bytes()
        if self._scattered is None:
            self._scattered = self.executor.scatter(packed, broadcast=True, hash=False, timeout=START)
        return self._scattered if self._scattered.status == "finished" else packed


@dataclass
class _Stoppable:
    """A task that can be told to begin with nothing more, where it is not a copy in another process."""

    task: Task
    stopped: bool = False

    def __call__(self, chunk: Chunk) -> TaskResult:
        return TaskResult(chunk.first, 0) if self.stopped else self.task(chunk)


class MapPool:
    """A pool behind a callable like `map`, which gets all chunks at once and answers them in any order."""

    def __init__(self, mapping: Map) -> None:
        self.size = os.cpu_count() or 1
        self._map = mapping
        self._chunks: dict[int, Chunk] = {}
        self._task: Task | None = None

    def initialize(self, task: Task) -> None:
        """Take on a task; it travels with the chunks, however the map does that."""
        self._task = task

    def submit(self, chunk: Chunk) -> int:
        """Keep a chunk until all are there; its ticket is its place."""
        self._chunks[chunk.first] = chunk
        return chunk.first

    def wait(self, seconds: float | None) -> Iterator[tuple[int, Outcome]]:
        assert self._task is not None
        task = _Stoppable(self._task)
        chunks = self._chunks
        self._chunks = {}
        count = 0
        for done in self._map(task, list(chunks.values())):
            count += 1
            if not isinstance(done, TaskResult):
                raise TypeError("workers must return what the function given to it returns, one for each chunk.")
            if chunks.pop(done.first, None) is None:
                raise _lossy(f"two answers to one of {count - 1}")
            task.stopped = task.stopped or done.error is not None
            yield done.first, CANCELLED if done.skipped else done
        if chunks:
            raise _lossy(f"{count} answers to {count + len(chunks)}")

    def kill(self, ticket: int) -> int | None:
        """Forget a chunk; what a map has begun cannot be stopped."""
        waiting = self._chunks.pop(ticket, None) is not None
        return 0 if waiting else None

    def close(self) -> None:
        self._chunks.clear()


def _is_lost(future: Any) -> bool:
    """Whether a Dask cluster knows nothing of a future any more, which then never calls back."""
    return getattr(future, "status", "") == "lost"


def is_dask(executor: Any) -> bool:
    """Whether this is a client of `dask.distributed`, or like one in what is needed of it."""
    return hasattr(executor, "scatter") and hasattr(executor, "nthreads")


def _size(executor: Any) -> int:
    if is_dask(executor):
        return sum(executor.nthreads().values()) or 1
    for name in ("_max_workers", "num_workers"):
        size = getattr(executor, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return os.cpu_count() or 1


def _submit_options(executor: Any) -> dict[str, bool]:
    """Return what tells an executor that equal chunks are not one chunk, if it asks."""
    with suppress(TypeError, ValueError):  # some functions written in C have no signature
        if "pure" in inspect.signature(executor.submit).parameters:
            return {"pure": False}
    return {}


def _lossy(what: str) -> ValueError:
    return ValueError(f"workers must return an answer for each chunk once, got {what} chunks.")
