"""A file of records that only grows: whatever kills its writer, what was written before is there.

Each record is a head (mark, kind, length and a checksum of these), its content and a checksum of that, written by one
call. A record that was cut off at the end of the file is a torn tail, which is dropped; anything else that does not
fit is damage, and is refused with its position. Plain data, nothing is pickled.
"""

from __future__ import annotations

import os
import struct
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from zlib import crc32

MAGIC = b"goldstein journal 1\n"
MARK = b"\xf0g"
HEAD = struct.Struct("<2sBxI")  # mark, kind, length of the content
SUM = struct.Struct("<I")
FRAME = HEAD.size + SUM.size
ZIP = b"PK\x03\x04"  # how the checkpoints of earlier versions begin
CHUNK = 1 << 20
CLOSED = -1
LOOK = 0.05  # seconds after which nobody is only looking


class DamagedError(ValueError):
    """A file of records is not what was written."""


@dataclass
class Record:
    """One record: where it begins and ends in the file, its kind and its content."""

    start: int
    end: int
    kind: int
    content: bytes


def framed(kind: int, content: bytes) -> bytes:
    """Return a record as it stands in the file."""
    head = HEAD.pack(MARK, kind, len(content))
    return b"".join((head, SUM.pack(crc32(head)), content, SUM.pack(crc32(content))))


def scan(file: IO[bytes], path: Path, start: int = len(MAGIC)) -> Iterator[Record]:
    """Yield the records of a file from a position on; end where its tail is torn."""
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(start)
    position = start
    while position < size:
        head = file.read(FRAME)
        if len(head) < FRAME:
            return
        mark, kind, length = HEAD.unpack(head[: HEAD.size])
        if mark != MARK or SUM.unpack(head[HEAD.size :]) != (crc32(head[: HEAD.size]),):
            if _nothing_but_zeros(head, file):  # space that was set aside when the machine went down
                return
            raise _damaged(path, position)
        end = position + FRAME + length + SUM.size
        if end > size:
            return
        body = file.read(length + SUM.size)
        if len(body) < length + SUM.size:  # it was cut off just now, by a run that goes on
            return
        content = body[:length]
        if SUM.unpack(body[length:]) != (crc32(content),):
            if end == size or _nothing_but_zeros(file.read(1), file):  # it never reached the disk as a whole
                return
            raise _damaged(path, position)
        yield Record(position, end, kind, content)
        position = end


def _nothing_but_zeros(head: bytes, file: IO[bytes]) -> bool:
    chunk = head
    while chunk:
        if chunk.strip(b"\0"):
            return False
        chunk = file.read(CHUNK)
    return True


def _damaged(path: Path, position: int) -> DamagedError:
    return DamagedError(
        f"{path} is damaged at byte {position}: what stands there is not what was written. Nothing was changed; "
        "restore the file from a copy, or begin anew with another file."
    )


def check_magic(beginning: bytes, path: Path) -> bool:
    """Return whether a file has begun as a file of records, False if it is as good as empty; refuse any other file."""
    if beginning == MAGIC:
        return True
    if MAGIC.startswith(beginning):
        return False
    if beginning.startswith(ZIP):
        raise DamagedError(
            f"{path} is a checkpoint of an earlier version, which is not read any more: give journal= another file, "
            "and the run begins anew."
        )
    raise DamagedError(f"{path} is not a goldstein journal: give journal= another file.")


class Records:
    """The file, open for writing and locked, so that nobody else writes into it.

    Parameters
    ----------
    path : Path
        It is made when there is none.
    sync : float
        Seconds after which what was written is forced to the disk.
    """

    def __init__(self, path: Path, sync: float) -> None:
        self._file = CLOSED
        self.path = path
        self.sync = sync
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise type(error)(error.errno, f"the journal cannot be written ({error.strerror})", str(path)) from None
        try:
            _lock(self._file, path)
            begun = check_magic(os.read(self._file, len(MAGIC)), path)
        except BaseException:
            os.close(self._file)
            raise
        if not begun:
            os.ftruncate(self._file, 0)
            self._write(MAGIC, 0)
        self.end = len(MAGIC)
        self._synced = time.monotonic()
        _open.add(self)

    def read(self, start: int = len(MAGIC)) -> Iterator[Record]:
        """Yield the records from a position on."""
        with self.path.open("rb", buffering=CHUNK) as file:
            yield from scan(file, self.path, start)

    def cut(self, end: int) -> None:
        """Drop everything from a position on; what is appended next stands there."""
        self.end = end
        if os.fstat(self._file).st_size > end:
            os.ftruncate(self._file, end)

    def append(self, kind: int, content: bytes, *, at_once: bool = False) -> None:
        """Write a record by one call; force it to the disk if it is time, or `at_once`."""
        record = framed(kind, content)
        written = self._write(record, self.end)
        if written < len(record):
            os.ftruncate(self._file, self.end)
            raise OSError(f"The disk is full: {self.path} could not be written.")
        self.end += written
        if at_once or time.monotonic() - self._synced >= self.sync:
            self.force()

    def _write(self, content: bytes, position: int) -> int:
        os.lseek(self._file, position, os.SEEK_SET)
        return os.write(self._file, content)

    def force(self) -> None:
        """Force everything to the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Unlock the file, also where a forked process has a copy of it, and close it."""
        if self._file != CLOSED:  # as in a forked process
            _unlock(self._file)
            os.close(self._file)
            self._file = CLOSED


_open: weakref.WeakSet[Records] = weakref.WeakSet()


def _close_copies() -> None:
    """Close what a forked process has inherited, which would keep a file locked when its writer is killed."""
    for records in list(_open):
        if records._file != CLOSED:
            with suppress(OSError):
                os.close(records._file)
            records._file = CLOSED


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


def _unlock(file: int) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    fcntl.flock(file, fcntl.LOCK_UN)


def _lock(file: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not on Windows
        return
    for patience in (LOOK, 0.0):  # somebody may have looked whether it is locked, and that takes no time
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(patience)
        else:
            return
    raise BlockingIOError(f"{path} is being written by another run; wait for it or give journal= another file.")


def is_being_written(path: Path) -> bool | None:
    """Whether a process has the file open for writing, on this machine at least; None where there are no locks."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        return None
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no such thing on this file system
            return None
        fcntl.flock(file, fcntl.LOCK_UN)
    return False
