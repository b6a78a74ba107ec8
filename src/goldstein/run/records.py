"""A file of records that only grows: if its writer is killed, what was written before is still there.

Each record is a head (mark, kind, length and a checksum of these), its content and a checksum of that, written by one
call. A record that was cut off at the end of the file is a torn tail, which is dropped; anything else that does not
fit is damage, and is refused with its position. Plain data, nothing is pickled. The first line holds a version that
grows with each incompatible change.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn
from zlib import crc32

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

VERSION = 2
MAGIC = f"goldstein journal {VERSION}\n".encode()
MARK = b"\xf0g"
HEAD = struct.Struct("<2sBxI")  # mark, kind, length of the content
SUM = struct.Struct("<I")
FRAME = HEAD.size + SUM.size
CHUNK = 1 << 20
CLOSED = -1
RETRY = 0.05  # seconds after which a short look at the lock is over


MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error)
"""What nonsense with right checksums may raise when it is read."""


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
        f"{path} is damaged at byte {position}: it does not hold what was written. Nothing was changed; "
        "restore the file from a copy, or start anew with another file."
    )


def malformed(path: Path, position: int) -> DamagedError:
    """Return the refusal of a file whose checksums are right, and whose content no run has written."""
    return DamagedError(f"{path} is not a journal that goldstein wrote: its record at byte {position} is malformed.")


def check_regular(path: Path) -> None:
    """Refuse a device, a pipe or a socket, which cannot hold a journal; folders and missing files are for `open`."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise DamagedError(f"{path} is not a regular file, so it cannot hold a journal.")


def check_magic(beginning: bytes, path: Path, *, oldest: int = VERSION) -> bool:
    """Return False for a file that is as good as empty; refuse one that has not begun as records since `oldest`."""
    if MAGIC.startswith(beginning) and beginning != MAGIC:
        return False
    match = re.fullmatch(rb"goldstein journal (\d)\n", beginning)
    if match is None:
        raise DamagedError(f"{path} is not a goldstein journal: choose another file.")
    version = int(match[1])
    if version > VERSION:
        raise DamagedError(f"{path} is a journal of a later version of goldstein: update goldstein to read it.")
    if version < oldest:
        raise DamagedError(
            f"{path} is a journal of an earlier version of goldstein, which can be inspected but not continued: "
            "choose another file to start anew."
        )
    return True


class Records:
    """The file, open for writing and locked against other writers; forced to the disk every `sync` seconds."""

    def __init__(self, path: Path, sync: float) -> None:
        self._file = CLOSED
        self.path = path
        self.sync = sync
        check_regular(path)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
        except OSError as error:
            raise type(error)(error.errno, f"the journal cannot be written ({error.strerror})", str(path)) from None
        self.end = 0
        self._synced = time.monotonic()
        try:
            _lock(self._file, path)
            if not check_magic(os.read(self._file, len(MAGIC)), path):
                os.ftruncate(self._file, 0)
                self._write(MAGIC)
        except BaseException:
            os.close(self._file)
            raise
        self.end = len(MAGIC)
        _open.add(self)

    def read(self, start: int = len(MAGIC)) -> Iterator[Record]:
        with self.path.open("rb", buffering=CHUNK) as file:
            yield from scan(file, self.path, start)

    def cut(self, end: int) -> None:
        """Drop everything from a position on; what is appended next stands there."""
        self.end = end
        if os.fstat(self._file).st_size > end:
            os.ftruncate(self._file, end)

    def append(self, kind: int, content: bytes, *, at_once: bool = False) -> None:
        """Write a record by one call; force it to the disk if it is time, or `at_once`."""
        self._write(framed(kind, content))
        if at_once or time.monotonic() - self._synced >= self.sync:
            self.force()

    def _write(self, content: bytes) -> None:
        """Write at the end, all of it or nothing."""
        try:
            os.lseek(self._file, self.end, os.SEEK_SET)
            written = os.write(self._file, content)
        except OSError as error:
            self._refuse(error.strerror or str(error))
        if written < len(content):
            self._refuse("the file is too large or the disk is full")
        self.end += written

    def _refuse(self, reason: str) -> NoReturn:
        with suppress(OSError):
            os.ftruncate(self._file, self.end)
        raise OSError(f"{self.path} cannot be written: {reason}.")

    def force(self) -> None:
        """Force everything to the disk; refuse to go on if the file is no longer the one at its path."""
        os.fsync(self._file)
        self._synced = time.monotonic()
        if not self._in_place():
            raise OSError(
                f"{self.path} was deleted, renamed or replaced during the run, so that its values would be lost: "
                "start anew with another file, or put the file back."
            )

    def _in_place(self) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return False
        except OSError:  # a network that is away for a moment
            return True

    def close(self) -> None:
        """Unlock the file, also where a forked process has a copy of it, and close it."""
        if self._file != CLOSED:  # as in a forked process
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)
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


def _lock(file: int, path: Path) -> None:
    if fcntl is None:
        return
    for patience in (RETRY, 0.0):  # `is_being_written` may hold it for a moment
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(patience)
        else:
            return
    raise BlockingIOError(f"{path} is being written by another run: wait for it or choose another file.")


def is_being_written(path: Path) -> bool | None:
    """Whether a process has the file open for writing, on this machine at least; None where there are no locks."""
    if fcntl is None:
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
