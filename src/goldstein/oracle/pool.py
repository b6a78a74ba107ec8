"""A pool of processes: each with a pipe of its own, so that one that dies or hangs takes nobody with it.

A process answers its chunks in order, and writes into shared memory which chunk it is in and how many of its rows
it has started. So when it dies that chunk is lost, and one that only lay in its pipe is given to another process.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, parent_process
from typing import Any

import numpy as np

from goldstein.oracle.oracles import StartedCounter
from goldstein.oracle.tasks import Chunk, Task, TaskLost, TaskResult
from goldstein.oracle.worker import pack, sendable, unpack

AHEAD = 65_536 if sys.platform == "linux" else 4_096  # bytes that fit into a pipe while nobody reads it
GOODBYE = 2.0  # seconds that a process without work may take to leave

TAKEN, STARTED, CANCELLED = range(3)  # what a process and its employer share: numbers, three for each process
SHARED = 3


class SharedCounter(StartedCounter):
    """A counter that others can read, also when its process is dead."""

    def __init__(self, numbers: Any, at: int) -> None:
        self._numbers = numbers
        self._at = at

    @property
    def started(self) -> int:
        """Rows of the chunk at hand that were started."""
        return int(self._numbers[self._at])

    @started.setter
    def started(self, rows: int) -> None:
        self._numbers[self._at] = rows


@dataclass(eq=False)
class Worker:
    """A process of the pool, and the chunks that it was given and has not answered."""

    process: Any
    pipe: connection.Connection
    numbers: Any
    answered: int = 0
    chunks: deque[tuple[int, bytes]] = field(default_factory=deque)

    def rows_started(self) -> int:
        """Return how many rows were started of the chunk that comes next; for a process that no longer runs."""
        if self.numbers[TAKEN] == self.answered:
            return 0
        return int(self.numbers[STARTED])

    def end(self) -> None:
        """Stop it, whatever it is doing, and the programs that it has started."""
        if self.process.pid is not None:
            if hasattr(os, "killpg") and self.process.exitcode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet, or has just ended
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()
        self.pipe.close()


class ProcessPool:
    """A pool of processes on this machine; one that dies is replaced.

    Parameters
    ----------
    size : int
        How many processes; they are started when there is work for them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._context = multiprocessing.get_context()
        self._workers: list[Worker] = []
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._lost: dict[int, TaskLost] = {}
        self._tickets = itertools.count()
        self._task: Any = None

    def initialize(self, task: Task) -> None:
        """Take on a task: a forked process inherits it, others get it as bytes, packed once."""
        forks = self._context.get_start_method() == "fork"
        self._task = task if forks else pack(task)

    def submit(self, chunk: Chunk) -> int:
        """Put a chunk in flight: to a process that is free, or into the pipe of one that will be next."""
        ticket = next(self._tickets)
        self._waiting.append((ticket, pickle.dumps(chunk, protocol=pickle.HIGHEST_PROTOCOL)))
        self._dispatch()
        return ticket

    def wait(self, seconds: float | None) -> Iterable[tuple[int, TaskResult | TaskLost]]:
        """Wait until a process has answered or died."""
        self._dispatch()  # what a dead one left
        if self._workers and not self._lost:
            pipes = [worker.pipe for worker in self._workers]
            sentinels = [worker.process.sentinel for worker in self._workers]
            connection.wait([*pipes, *sentinels], seconds)
        ends: list[tuple[int, TaskResult | TaskLost]] = []
        for worker in list(self._workers):
            ends += self._receive(worker)
        ends += self._lost.items()
        self._lost = {}
        self._dispatch()
        return ends

    def cancel_pending(self) -> None:
        """Let nobody begin with what waits or lies in a pipe."""
        for ticket, _ in self._waiting:
            self._lost[ticket] = TaskLost("it was taken back", started=0)
        self._waiting.clear()
        for worker in self._workers:
            worker.numbers[CANCELLED] = 1

    def kill(self, ticket: int) -> int:
        """Stop a chunk by ending its process; what else was in its pipe goes to somebody else."""
        if ticket in self._lost:
            return self._lost.pop(ticket).started or 0
        for entry in self._waiting:
            if entry[0] == ticket:
                self._waiting.remove(entry)
                return 0
        for worker in self._workers:
            if any(ticket == given for given, _ in worker.chunks):
                self._remove(worker, "it was stopped")
                return self.kill(ticket)
        return 0

    def rows_started(self, ticket: int) -> int | None:
        """Return how many rows of a chunk were started by now; None while no process works on it."""
        for worker in self._workers:
            if worker.chunks and worker.chunks[0][0] == ticket:
                working = worker.numbers[TAKEN] > worker.answered and not worker.pipe.poll()
                return int(worker.numbers[STARTED]) if working else None
        return None

    def close(self) -> None:
        """Let everybody go; whoever is busy is stopped."""
        self._waiting.clear()
        idle = [worker for worker in self._workers if not worker.chunks]
        for worker in idle:
            with suppress(OSError):
                worker.pipe.send_bytes(pickle.dumps(None))
        for worker in idle:
            worker.process.join(GOODBYE)
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._lost.clear()

    def _dispatch(self) -> None:
        """Give what waits to those who are free, then to those who have one chunk, if it is small."""
        while self._waiting:
            ticket, message = self._waiting[0]
            worker = self._free(len(message))
            if worker is None:
                return
            self._waiting.popleft()
            if not worker.chunks:
                worker.numbers[CANCELLED] = 0
            worker.chunks.append((ticket, message))
            try:
                worker.pipe.send_bytes(message)
            except OSError:  # it is dead: its chunk is lost, and was not started
                self._remove(worker, _died(worker))
            except BaseException:  # Ctrl-C in the middle of a message, which nobody could read
                self._remove(worker, "it was stopped")
                raise

    def _free(self, size: int) -> Worker | None:
        """Return who takes the next chunk; always the same when all are free, so that noise goes on where it was."""
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
        self._workers.append(worker)  # so that it is ended in any case
        process.start()
        theirs.close()
        return worker

    def _receive(self, worker: Worker) -> list[tuple[int, TaskResult | TaskLost]]:
        """Return what a process has answered; one that is dead is buried after its last word."""
        ends: list[tuple[int, TaskResult | TaskLost]] = []
        alive = worker.process.is_alive()
        try:
            while worker.pipe.poll():
                done: TaskResult = pickle.loads(worker.pipe.recv_bytes())
                ticket, _ = worker.chunks.popleft()
                worker.answered += 1
                skipped = done.answer is None and done.error is None
                ends.append((ticket, TaskLost("it was taken back", started=0) if skipped else done))
        except (EOFError, OSError):
            alive = False
            worker.process.join(GOODBYE)
        except BaseException:  # Ctrl-C in the middle of a message: the rest of it is no message
            self._remove(worker, "it was stopped")
            raise
        if not alive:
            self._remove(worker, _died(worker))
        return ends

    def _remove(self, worker: Worker, reason: str) -> None:
        """Take a process off the list: the chunk that it was in is lost, and others that it had are not."""
        worker.end()
        self._workers.remove(worker)
        if worker.chunks:
            ticket, _ = worker.chunks.popleft()
            self._lost[ticket] = TaskLost(reason, worker.rows_started())
        self._waiting.extendleft(reversed(worker.chunks))
        worker.chunks.clear()


def _died(worker: Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _serve(pipe: connection.Connection, numbers: Any, task: Task | bytes) -> None:
    """Answer chunks, one after the other, until nobody is there who wants them."""
    with suppress(ValueError):  # Ctrl-C is for the employer; not ignored, which programs started here would inherit
        signal.signal(signal.SIGINT, lambda number, frame: None)
    if hasattr(os, "setsid"):
        os.setsid()  # so that the programs that it starts can be ended with it
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()
    np.random.seed()  # noqa: NPY002 - a forked process would draw the numbers that all the others draw
    if isinstance(task, bytes):
        task = unpack(task)
    while True:
        try:
            chunk: Chunk | None = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if chunk is None:
            return
        counter = SharedCounter(numbers, STARTED)
        counter.started = 0
        numbers[TAKEN] += 1
        if numbers[CANCELLED]:
            done = TaskResult(chunk.first, 0)
        else:
            chunk.query.fresh = True  # nobody else has these arrays
            done = sendable(task(chunk, counter))
        try:
            message = pickle.dumps(done, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            words = f"The answer of a worker cannot be sent from its process ({type(error).__name__}: {error})."
            done = TaskResult(chunk.first, done.started, error=TypeError(words))
            message = pickle.dumps(done, protocol=pickle.HIGHEST_PROTOCOL)
        if done.error is not None:  # then nobody needs what lies in the pipe
            numbers[CANCELLED] = 1
        try:
            pipe.send_bytes(message)
        except OSError:  # nobody is there to take it
            return


def _leave_with(sentinel: int) -> None:
    """End this process when its employer is gone, who may have been killed."""
    connection.wait([sentinel])
    os._exit(1)
