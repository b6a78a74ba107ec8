"""A pool of processes: each with a pipe of its own, so that one that dies or hangs takes nobody with it.

A process answers its parts in order, and writes into shared memory which part it is in and how many rows of that it has
begun. So when it dies it is known what it was doing: that part is lost, and one that only lay in its pipe is given to
somebody else.
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

from goldstein.oracle.oracles import Meter
from goldstein.oracle.parts import Done, Lost, Part, Task
from goldstein.oracle.worker import pack, sendable, unpack

AHEAD = 65_536 if sys.platform == "linux" else 4_096  # bytes that fit into a pipe while nobody reads it
GOODBYE = 2.0  # seconds that a process without work may take to leave

TAKEN, BEGUN, RECALLED = range(3)  # what a process and its employer share: numbers, three for each process
SHARED = 3


class SharedMeter(Meter):
    """A meter that others can read, also when its process is dead."""

    def __init__(self, numbers: Any, at: int) -> None:
        self._numbers = numbers
        self._at = at

    @property
    def started(self) -> int:
        """Rows of the part at hand that were begun."""
        return int(self._numbers[self._at])

    @started.setter
    def started(self, rows: int) -> None:
        self._numbers[self._at] = rows


@dataclass(eq=False)
class Worker:
    """A process of the pool, and the parts that it was given and has not answered."""

    process: Any
    pipe: connection.Connection
    numbers: Any
    answered: int = 0
    parts: deque[tuple[int, bytes]] = field(default_factory=deque)

    def begun(self) -> int:
        """Return how many rows were begun of the part that comes next; for a process that no longer runs."""
        if self.numbers[TAKEN] == self.answered:
            return 0
        return int(self.numbers[BEGUN])

    def end(self) -> None:
        """Stop it, whatever it is doing, and the programs that it has started."""
        if self.process.pid is not None:
            if hasattr(os, "killpg") and self.process.exitcode is None:
                with suppress(ProcessLookupError, PermissionError):  # it has no group of its own yet, or has just ended
                    os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.join()
        self.pipe.close()


class Pool:
    """A crew of processes on this machine; one that dies is replaced.

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
        self._lost: dict[int, Lost] = {}
        self._tickets = itertools.count()
        self._task: Any = None

    def employ(self, task: Task) -> None:
        """Take on a task: a forked process inherits it, others get it as bytes, packed once."""
        forks = self._context.get_start_method() == "fork"
        self._task = task if forks else pack(task)

    def begin(self, part: Part) -> int:
        """Put a part in flight: to a process that is free, or into the pipe of one that will be next."""
        ticket = next(self._tickets)
        self._waiting.append((ticket, pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)))
        self._hand_out()
        return ticket

    def ended(self, seconds: float | None) -> Iterable[tuple[int, Done | Lost]]:
        """Wait until a process has answered or died."""
        self._hand_out()  # what a dead one left
        if self._workers and not self._lost:
            pipes = [worker.pipe for worker in self._workers]
            sentinels = [worker.process.sentinel for worker in self._workers]
            connection.wait([*pipes, *sentinels], seconds)
        ends: list[tuple[int, Done | Lost]] = []
        for worker in list(self._workers):
            ends += self._heard(worker)
        ends += self._lost.items()
        self._lost = {}
        self._hand_out()
        return ends

    def recall(self) -> None:
        """Let nobody begin with what waits or lies in a pipe."""
        for ticket, _ in self._waiting:
            self._lost[ticket] = Lost("it was taken back", begun=0)
        self._waiting.clear()
        for worker in self._workers:
            worker.numbers[RECALLED] = 1

    def give_up(self, ticket: int) -> int:
        """Stop a part by ending its process; what else was in its pipe goes to somebody else."""
        if ticket in self._lost:
            return self._lost.pop(ticket).begun or 0
        for entry in self._waiting:
            if entry[0] == ticket:
                self._waiting.remove(entry)
                return 0
        for worker in self._workers:
            if any(ticket == given for given, _ in worker.parts):
                self._bury(worker, "it was stopped")
                return self.give_up(ticket)
        return 0

    def begun(self, ticket: int) -> int | None:
        """Return how many rows of a part were begun by now; None while no process works on it."""
        for worker in self._workers:
            if worker.parts and worker.parts[0][0] == ticket:
                working = worker.numbers[TAKEN] > worker.answered and not worker.pipe.poll()
                return int(worker.numbers[BEGUN]) if working else None
        return None

    def close(self) -> None:
        """Let everybody go; whoever is busy is stopped."""
        self._waiting.clear()
        idle = [worker for worker in self._workers if not worker.parts]
        for worker in idle:
            with suppress(OSError):
                worker.pipe.send_bytes(pickle.dumps(None))
        for worker in idle:
            worker.process.join(GOODBYE)
        for worker in self._workers:
            worker.end()
        self._workers.clear()
        self._lost.clear()

    def _hand_out(self) -> None:
        """Give what waits to those who are free, then to those who have one part, if it is small."""
        while self._waiting:
            ticket, message = self._waiting[0]
            worker = self._free(len(message))
            if worker is None:
                return
            self._waiting.popleft()
            if not worker.parts:
                worker.numbers[RECALLED] = 0
            worker.parts.append((ticket, message))
            try:
                worker.pipe.send_bytes(message)
            except OSError:  # it is dead: its part is lost, and was not begun
                self._bury(worker, _died(worker))
            except BaseException:  # Ctrl-C in the middle of a message, which nobody could read
                self._bury(worker, "it was stopped")
                raise

    def _free(self, size: int) -> Worker | None:
        """Return who takes the next part; always the same when all are free, so that noise goes on where it was."""
        for worker in self._workers:
            if not worker.parts:
                return worker
        if len(self._workers) < self.size:
            return self._hired()
        if size <= AHEAD:
            for worker in self._workers:
                if len(worker.parts) == 1 and len(worker.parts[0][1]) <= AHEAD:
                    return worker
        return None

    def _hired(self) -> Worker:
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

    def _heard(self, worker: Worker) -> list[tuple[int, Done | Lost]]:
        """Return what a process has answered; one that is dead is buried after its last word."""
        ends: list[tuple[int, Done | Lost]] = []
        alive = worker.process.is_alive()
        try:
            while worker.pipe.poll():
                done: Done = pickle.loads(worker.pipe.recv_bytes())
                ticket, _ = worker.parts.popleft()
                worker.answered += 1
                skipped = done.answer is None and done.error is None
                ends.append((ticket, Lost("it was taken back", begun=0) if skipped else done))
        except (EOFError, OSError):
            alive = False
            worker.process.join(GOODBYE)
        except BaseException:  # Ctrl-C in the middle of a message: the rest of it is no message
            self._bury(worker, "it was stopped")
            raise
        if not alive:
            self._bury(worker, _died(worker))
        return ends

    def _bury(self, worker: Worker, reason: str) -> None:
        """Take a process off the list: the part that it was in is lost, and others that it had are not."""
        worker.end()
        self._workers.remove(worker)
        if worker.parts:
            ticket, _ = worker.parts.popleft()
            self._lost[ticket] = Lost(reason, worker.begun())
        self._waiting.extendleft(reversed(worker.parts))
        worker.parts.clear()


def _died(worker: Worker) -> str:
    code = worker.process.exitcode
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code}"


def _serve(pipe: connection.Connection, numbers: Any, task: Task | bytes) -> None:
    """Answer parts, one after the other, until nobody is there who wants them."""
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
            part: Part | None = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        if part is None:
            return
        meter = SharedMeter(numbers, BEGUN)
        meter.started = 0
        numbers[TAKEN] += 1
        if numbers[RECALLED]:
            done = Done(part.place, 0)
        else:
            part.query.fresh = True  # nobody else has these arrays
            done = sendable(task(part, meter))
        try:
            message = pickle.dumps(done, protocol=pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            words = f"The answer of a worker cannot be sent from its process ({type(error).__name__}: {error})."
            done = Done(part.place, done.started, error=TypeError(words))
            message = pickle.dumps(done, protocol=pickle.HIGHEST_PROTOCOL)
        if done.error is not None:  # then nobody needs what lies in the pipe
            numbers[RECALLED] = 1
        try:
            pipe.send_bytes(message)
        except OSError:  # nobody is there to take it
            return


def _leave_with(sentinel: int) -> None:
    """End this process when its employer is gone, who may have been killed."""
    connection.wait([sentinel])
    os._exit(1)
