"""What runs where a worker is: a task that came once, and the chunks that come after it.

It is what a fresh process imports first, so it imports little.
"""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass, replace

from goldstein.oracle.tasks import Chunk, Task, TaskResult

KEPT = 2  # tasks that a process remembers: the one at hand, and one of a run beside it

_tasks: dict[str, Task] = {}  # the newest is last


@dataclass
class TaskUnknown:
    """The answer of a worker who has not got the task: nothing was evaluated."""


def keep(key: str, task: Task) -> None:
    """Remember a task in this process."""
    _tasks.pop(key, None)
    _tasks[key] = task


def forget(key: str) -> None:
    """Remember it no more."""
    _tasks.pop(key, None)


def new_key() -> str:
    """Return a name for a task that no other has; it tells in which process it was made."""
    return f"{os.getpid()}-{os.urandom(8).hex()}"


def work(key: str, chunk: Chunk, packed: bytes | None = None) -> TaskResult | TaskUnknown:
    """Answer a chunk by the task of that name, which a worker gets as bytes when it has not got it."""
    if packed is not None and key not in _tasks:
        keep(key, pickle.loads(packed))
        for old in list(_tasks)[:-KEPT]:
            forget(old)
    task = _tasks.get(key)
    if task is None:
        return TaskUnknown()
    done = task(chunk)
    at_home = key.startswith(f"{os.getpid()}-")
    return done if at_home else sendable(done)


def sendable(done: TaskResult) -> TaskResult:
    """Return an outcome that can travel: an exception that cannot be sent is put into words."""
    if done.error is None:
        return done
    try:
        pickle.loads(pickle.dumps(done.error))
    except Exception:
        words = RuntimeError(f"{type(done.error).__name__}: {done.error}")
        point = getattr(done.error, "point", None)
        if point is not None:
            words.point = point  # type: ignore[attr-defined]
        return replace(done, error=words)
    return done


def pack(task: Task) -> bytes:
    """Return a task as bytes that any process can read; say what is wrong when that cannot be."""
    try:
        try:
            import cloudpickle
        except ImportError:
            return pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        packed: bytes = cloudpickle.dumps(task)
        return packed
    except Exception as error:
        raise TypeError(
            f"The function cannot be sent to workers in other processes ({type(error).__name__}: {error}); define it "
            "at the top of a module, install cloudpickle, or use threads as workers."
        ) from error
