"""Workers that the user brings: anything with `.submit`, a Dask client, or a callable like `map`."""

from __future__ import annotations

import inspect
import itertools
import os
import queue
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from goldstein.oracle import worker
from goldstein.oracle.parts import Done, Lost, Part, Task

Map = Callable[[Callable[[Part], Done], Iterable[Part]], Iterable[Done]]

START = 60.0  # seconds that Dask's workers may take to be there, and to hand over what they have done
GONE = 300.0  # seconds without any worker, after there were some, at which a Dask cluster is beyond hope


class Submitting:
    """A crew behind anything with `.submit`: concurrent.futures, loky, mpi4py.futures.

    The task has a name. Workers in this process, and those forked from it later, know it by that name; another one says
    that it has not got it, and gets the part again with the task as bytes, which are made once.

    Parameters
    ----------
    executor : object
        `submit(function, *args)` returns a future with `add_done_callback`, `cancel` and `result`.
    """

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self._most = _size(executor)
        self._more = _not_pure(executor)
        self._parts: dict[int, Part] = {}
        self._futures: dict[int, Any] = {}
        self._hanging: set[int] = set()
        self._over: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._tickets = itertools.count()
        self._key = worker.new_key()
        self._task: Task | None = None
        self._packed: bytes | None = None
        self._recalled = False

    @property
    def size(self) -> int:
        """How many workers there are, but for those that hang in a part that was given up."""
        size = self._most - len(self._hanging)
        if size < 1:
            raise RuntimeError(
                f"All {self._most} workers of the executor hang in evaluations that were given up, and an executor's "
                "workers cannot be stopped from here; use a number of processes as workers."
            )
        return size

    def employ(self, task: Task) -> None:
        """Give the task a name by which workers in this process know it."""
        self.close()
        self._task = task
        self._packed = None
        self._key = worker.new_key()
        worker.keep(self._key, task)

    def begin(self, part: Part) -> int:
        """Submit a part."""
        self._recalled = False
        ticket = next(self._tickets)
        self._submit(ticket, part)
        return ticket

    def ended(self, seconds: float | None) -> Iterable[tuple[int, Done | Lost]]:
        """Wait until a future calls back; return all that have."""
        ends: list[tuple[int, Done | Lost]] = []
        for ticket in self._called_back(seconds):
            self._hanging.discard(ticket)
            future = self._futures.pop(ticket, None)
            if future is None:
                continue
            part = self._parts.pop(ticket)
            end = self._outcome(future)
            if not isinstance(end, worker.Missing):
                ends.append((ticket, end))
            elif self._recalled:
                ends.append((ticket, Lost("it was taken back", begun=0)))
            else:
                self._submit(ticket, part, self._bytes())
        return ends

    def recall(self) -> None:
        """Cancel what nobody has begun with."""
        self._recalled = True
        for future in list(self._futures.values()):
            future.cancel()

    def begun(self, ticket: int) -> int | None:
        """Return 0 for a part that somebody may be working on, of which no more is known; None while it waits."""
        future = self._futures[ticket]
        waits = hasattr(future, "running") and not future.running()
        return None if waits else 0

    def give_up(self, ticket: int) -> int | None:
        """Cancel a part; one that is being worked on cannot be stopped, and its worker is missing from now on."""
        future = self._futures.pop(ticket, None)
        if future is None:
            return 0
        self._parts.pop(ticket)
        if future.cancel():
            return 0
        self._hanging.add(ticket)
        if future.done():
            self._hanging.discard(ticket)
        return None

    def close(self) -> None:
        """Cancel what waits; the executor is the user's own."""
        self.recall()
        self._futures.clear()
        self._parts.clear()
        worker.forget(self._key)

    def _submit(self, ticket: int, part: Part, packed: Any = None) -> None:
        self._parts[ticket] = part
        with _taking_work():
            future = self.executor.submit(worker.work, self._key, part, packed, **self._more)
        self._futures[ticket] = future
        future.add_done_callback(lambda _: self._over.put(ticket))

    def _outcome(self, future: Any) -> Done | Lost | worker.Missing:
        """Return what a future holds; a task never raises, so that an exception is the machine's."""
        if future.cancelled():
            return Lost("it was cancelled", begun=0)
        try:
            return self._result(future)
        except (BrokenExecutor, CancelledError, OSError, EOFError) as error:
            return Lost(f"{type(error).__name__}: {error}")
        except Exception as error:
            if type(error).__module__.startswith("distributed."):
                return Lost(f"{type(error).__name__}: {error}")
            raise

    def _result(self, future: Any) -> Done | worker.Missing:
        result: Done | worker.Missing = future.result()
        return result

    def _bytes(self) -> Any:
        if self._packed is None:
            assert self._task is not None
            self._packed = worker.pack(self._task)
        return self._packed

    def _called_back(self, seconds: float | None) -> list[int]:
        tickets: list[int] = []
        with suppress(queue.Empty):
            tickets.append(self._over.get(timeout=seconds))
            while True:
                tickets.append(self._over.get_nowait())
        return tickets


class Dask(Submitting):
    """A crew behind a `dask.distributed.Client`; the task is scattered to its workers instead of sent with parts.

    Dask itself does a part again when its worker dies, of which nobody here hears; so it is in no count.
    """

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)
        self._scattered: Any = None
        self._heard: float | None = None  # when the last part came back

    def ended(self, seconds: float | None) -> Iterable[tuple[int, Done | Lost]]:
        """Wait until a future calls back; say so when nobody is left who could make it."""
        ends = super().ended(seconds)
        now = time.monotonic()
        if ends:
            self._heard = now
        elif self._heard is not None and now > self._heard + GONE and not self.executor.nthreads():
            raise RuntimeError(f"The Dask cluster given as workers has lost all its workers, for {GONE:.0f} s by now.")
        return ends

    def begin(self, part: Part) -> int:
        """Submit a part."""
        if self._heard is not None and not self._futures:  # nobody could have been heard while nothing was asked
            self._heard = time.monotonic()
        return super().begin(part)

    def recall(self) -> None:
        """Dask cancels also what is being worked on, and then nobody would know; so what is in flight is waited for."""
        self._recalled = True

    def give_up(self, ticket: int) -> int | None:
        """Cancel a part; one that is being worked on goes on."""
        future = self._futures.pop(ticket, None)
        if future is None:
            return 0
        self._parts.pop(ticket)
        future.cancel()
        return None

    def close(self) -> None:
        """Cancel what waits, and let go of the task."""
        for future in self._futures.values():
            future.cancel()
        super().close()
        self._scattered = None

    def _result(self, future: Any) -> Done | worker.Missing:
        result: Done | worker.Missing = future.result(timeout=START)  # it may have died with the worker that had it
        return result

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

    def __call__(self, part: Part) -> Done:
        return Done(part.place, 0) if self.stopped else self.task(part)


class Mapped:
    """A crew behind a callable like `map`, which gets all parts at once.

    Parameters
    ----------
    mapping : callable
        `mapping(function, parts)` returns what the function returns for each part, in any order.
    """

    def __init__(self, mapping: Map) -> None:
        self.size = os.cpu_count() or 1
        self._map = mapping
        self._parts: dict[int, Part] = {}
        self._task: Task | None = None

    def employ(self, task: Task) -> None:
        """Take on a task; it travels with the parts, however the map does that."""
        self._task = task

    def begin(self, part: Part) -> int:
        """Keep a part until all are there; its ticket is its place."""
        self._parts[part.place] = part
        return part.place

    def ended(self, seconds: float | None) -> Iterator[tuple[int, Done | Lost]]:
        """Map the task over all parts, and hand on what comes as it comes."""
        assert self._task is not None
        task = _Stoppable(self._task)
        parts = self._parts
        self._parts = {}
        count = 0
        for done in self._map(task, list(parts.values())):
            count += 1
            if not isinstance(done, Done):
                raise TypeError("workers must return what the function given to it returns, one for each part.")
            if parts.pop(done.place, None) is None:
                raise _lossy(f"two answers to one of {count - 1}")
            task.stopped = task.stopped or done.error is not None
            begun = done.answer is not None or done.error is not None
            yield done.place, done if begun else Lost("it was taken back", begun=0)
        if parts:
            raise _lossy(f"{count} answers to {count + len(parts)}")

    def recall(self) -> None:
        """Nothing waits: a map gets all parts at once."""

    def give_up(self, ticket: int) -> int | None:
        """Forget a part; what a map has begun cannot be stopped."""
        waiting = self._parts.pop(ticket, None) is not None
        return 0 if waiting else None

    def close(self) -> None:
        """Nobody was hired here."""
        self._parts.clear()


def is_dask(executor: Any) -> bool:
    """Whether this is a client of `dask.distributed`, or like one in what is needed of it."""
    return hasattr(executor, "scatter") and hasattr(executor, "nthreads")


def _size(executor: Any) -> int:
    """Return how many workers an executor has."""
    if is_dask(executor):
        return sum(executor.nthreads().values()) or 1
    for name in ("_max_workers", "num_workers"):
        size = getattr(executor, name, None)
        if isinstance(size, int) and size > 0:
            return size
    return os.cpu_count() or 1


def _not_pure(executor: Any) -> dict[str, bool]:
    """Return what tells an executor that equal parts are not one part, if it asks."""
    with suppress(TypeError, ValueError):  # some functions written in C have no signature
        if "pure" in inspect.signature(executor.submit).parameters:
            return {"pure": False}
    return {}


@contextmanager
def _taking_work() -> Iterator[None]:
    """Say in one sentence that an executor takes no more work."""
    try:
        yield
    except RuntimeError as error:  # BrokenExecutor is one
        raise RuntimeError(
            f"The executor given as workers takes no more work ({type(error).__name__}: {error}); make a new one, or "
            "use a number of processes as workers, which are replaced when they die."
        ) from error


def _lossy(what: str) -> ValueError:
    return ValueError(f"workers must return an answer for each part once, got {what} parts.")
