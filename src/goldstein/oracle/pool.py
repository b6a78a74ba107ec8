"""A pool of processes, each with a pipe of its own, so that one that dies or hangs affects no other.

A process answers its chunks in order, and writes into shared memory which chunk it is in and how many of its rows it
has started. So when it dies that chunk is lost, and one that only lay in its pipe is given to another process.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, parent_process
from typing import TYPE_CHECKING, Any

import numpy as np

from goldstein import retired
from goldstein.oracle.oracles import StartedCounter
from goldstein.oracle.tasks import CANCELLED, Chunk, QueueingPool, Task, TaskLost, TaskResult
from goldstein.oracle.worker import pack, sendable

AHEAD = 65_536 if sys.platform == "linux" else 4_096  # bytes that fit into a pipe while it is not read
EXIT_SECONDS = 2.0  # that an idle process may take to exit

# What a process and its pool share: chunks taken, whether to skip those in the pipe, and the rows started of the last
# two chunks, that with an odd number in the last place. A process never has more than two.
TAKEN, SKIP, STARTED = range(3)
SHARED = 4


class SharedCounter(StartedCounter):
    """A counter that other processes can read, also when its own is dead."""

    def __init__(self, numbers: Any, at: int) -> None:
        self._numbers = numbers
        self._at = at

    @property
    def started(self) -> int:
        return int(self._numbers[self._at])

    @started.setter
    def started(self, rows: int) -> None:
        self._numbers[self._at] = rows


@dataclass(eq=False)
class Worker:
    """A process of the pool, and the chunks that it was sent and has not answered."""

    process: Any
    pipe: connection.Connection
    numbers: Any
    answered: int = 0
    chunks: deque[tuple[int, bytes]] = field(default_factory=deque)

    def tickets(self) -> list[int]:
        return [ticket for ticket, _ in self.chunks]

    def rows_started(self, ahead: int = 0) -> int | None:
        """Return how many rows were started of the chunk that comes `ahead` of the next; None: it was not taken."""
        number = self.answered + ahead + 1
        if number > self.numbers[TAKEN]:
            return None
        return int(self.numbers[STARTED + number % 2])

    def end(self) -> None:
        """Kill the process, and the programs that it has started."""
        if self.process.pid is not None:
            if hasattr(os, "killpg") and self.process.exitcode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet, or has just ended
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()
        self.pipe.close()


class ProcessPool(QueueingPool):
    """Processes on this machine, `size` at most, started when there is work for them; one that dies is replaced."""

    size = 1

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self._context = multiprocessing.get_context()
        self._workers: list[Worker] = []
        self._task: Any = None
        weakref.finalize(self, _end_all, self._workers, os.getpid())  # or a program that forgets `close` never ends

    def initialize(self, task: Task) -> None:
        """Take a task: a forked process inherits it, others get it as bytes, packed once."""
        forks = self._context.get_start_method() == "fork"
        self._task = task if forks else pack(task)

    def poll(self, seconds: float | None) -> None:
        if self._workers and not self._finished:
            pipes = [worker.pipe for worker in self._workers]
            sentinels = [worker.process.sentinel for worker in self._workers]
            connection.wait([*pipes, *sentinels], seconds)

    def cancel_pending(self) -> None:
        """Send nothing more, and skip what lies in the pipes."""
        super().cancel_pending()
        for worker in self._workers:
            worker.numbers[SKIP] = 1

    def rows_started(self, ticket: int) -> int | None:
        for worker in self._workers:
            if worker.chunks and worker.chunks[0][0] == ticket:
                return None if worker.pipe.poll() else worker.rows_started()
        return None

    def close(self) -> None:
        """Let idle processes exit, and kill the others."""
        super().close()
        idle = [worker for worker in self._workers if not worker.chunks]
        for worker in idle:
            with suppress(OSError):
                worker.pipe.send_bytes(pickle.dumps(None))
        for worker in idle:
            worker.process.join(EXIT_SECONDS)
        for worker in self._workers:
            worker.end()
        self._workers.clear()

    def _message(self, chunk: Chunk) -> bytes:
        return pickle.dumps(chunk, protocol=pickle.HIGHEST_PROTOCOL)

    def _dispatch(self) -> None:
        """Send what waits to idle processes, then to those with one chunk, if it is small."""
        while self._waiting:
            ticket, message = self._waiting[0]
            worker = self._free(len(message))
            if worker is None:
                return
            self._waiting.popleft()
            if not worker.chunks:
                worker.numbers[SKIP] = 0
            worker.chunks.append((ticket, message))
            try:
                worker.pipe.send_bytes(message)
            except OSError:  # it is dead
                self._remove(worker, _cause_of_death(worker))
            except BaseException:  # Ctrl-C in the middle of a message, the rest of which would be no message
                self._remove(worker, "it was stopped")
                raise

    def _free(self, size: int) -> Worker | None:
        """Return the process for the next chunk; always the same when all are idle, so that its noise continues."""
        for worker in self._workers:
            if not worker.chunks:
                return worker
        if len(self._workers) < self.size:
            return self._spawn()
        if size <= AHEAD:
            for worker in self._workers:
                if len(worker.chunks) == 1 and len(worker.chunks[0][1]) <= AHEAD:
                    return worker
        return None

    def _spawn(self) -> Worker:
        ours, theirs = self._context.Pipe()
        numbers = self._context.RawArray("q", SHARED)
        # Not a daemon, which could have no processes of its own.
        process = self._context.Process(
            target=_serve, args=(theirs, numbers, self._task), name="goldstein worker", daemon=False
        )
        worker = Worker(process, ours, numbers)
        try:
            process.start()
            self._workers.append(worker)
        except BaseException:  # Ctrl-C
            worker.end()
            raise
        finally:
            theirs.close()
        return worker

    def _collect(self) -> None:
        for worker in list(self._workers):
            self._receive(worker)

    def _receive(self, worker: Worker) -> None:
        """Take what a process has answered; remove one that is dead after its last answer."""
        alive = worker.process.is_alive()
        try:
            while worker.pipe.poll():
                result: TaskResult = pickle.loads(worker.pipe.recv_bytes())
                ticket, _ = worker.chunks[0]
                self._finished[ticket] = CANCELLED if result.skipped else result
                worker.chunks.popleft()
                worker.answered += 1
        except (EOFError, OSError):
            alive = False
            worker.process.join(EXIT_SECONDS)
        except BaseException:  # Ctrl-C in the middle of a message
            self._remove(worker, "it was stopped")
            raise
        if not alive:
            self._remove(worker, _cause_of_death(worker))

    def _remove(self, worker: Worker, reason: str) -> None:
        """End a process: the next chunk and those that it has taken are lost, any other waits again."""
        worker.end()
        self._workers.remove(worker)
        untouched = []
        for ahead, (ticket, message) in enumerate(worker.chunks):
            started = worker.rows_started(ahead)
            if started is not None or ahead == 0:
                self._finished[ticket] = TaskLost(reason, started or 0)
            else:
                untouched.append((ticket, message))
        self._waiting.extendleft(reversed(untouched))
        worker.chunks.clear()


def _end_all(workers: list[Worker], parent: int) -> None:
    """End the processes of a pool that nothing refers to any more; not in one of them, which has a copy of it."""
    if os.getpid() == parent:
        for worker in workers:
            worker.end()


def _cause_of_death(worker: Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _serve(pipe: connection.Connection, numbers: Any, task: Any) -> None:
    with suppress(ValueError):  # Ctrl-C is for the parent; not ignored, which programs started here would inherit
        signal.signal(signal.SIGINT, lambda number, frame: None)
    if hasattr(os, "setsid"):
        os.setsid()  # so that the programs that it starts can be ended with it
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_exit_with, args=(parent.sentinel,), daemon=True).start()
    np.random.seed()  # noqa: NPY002 - a forked process would draw the numbers that all the others draw
    if isinstance(task, bytes):
        task = pickle.loads(task)
    while True:
        try:
            chunk: Chunk | None = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if chunk is None:
            return
        number = numbers[TAKEN] + 1
        counter = SharedCounter(numbers, STARTED + number % 2)
        counter.started = 0
        numbers[TAKEN] = number
        if numbers[SKIP]:
            result = TaskResult(chunk.first, 0)
        else:
            chunk.work.fresh = True  # these arrays are its own
            result = sendable(task(chunk, counter))
        try:
            message = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            words = f"The answer of a worker cannot be sent from its process ({type(error).__name__}: {error})."
            result = TaskResult(chunk.first, result.started, error=TypeError(words))
            message = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
        if result.error is not None:  # what lies in the pipe is not needed any more
            numbers[SKIP] = 1
        try:
            pipe.send_bytes(message)
        except OSError:  # the parent is gone
            return


def _exit_with(sentinel: int) -> None:
    """End this process when its parent is gone, which may have been killed."""
    connection.wait([sentinel])
    os._exit(1)


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
