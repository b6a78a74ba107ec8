"""Files from the network: downloaded once, resumed where they broke off, and verified."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BLOCK = 1 << 20
TIMEOUT = 60.0

Progress = Callable[[str, int, int | None], Any]


class ChecksumError(ValueError):
    """A file is not the one it should be."""


class DownloadError(ConnectionError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class File:
    """One file: where it is, and the SHA-256 of what it holds once decompressed."""

    name: str
    url: str
    sha256: str


def verify(path: Path, file: File) -> bytes:
    """Return what a file holds, decompressed, or say that it is not the right file."""
    raw = path.read_bytes()
    try:
        content = {".bz2": bz2.decompress, ".gz": gzip.decompress}.get(Path(file.name).suffix, bytes)(raw)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ChecksumError(f"{path} is damaged ({error}); delete it and fetch it again.") from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise ChecksumError(
            f"{path} is not the file it should be: its content has SHA-256 {found[:12]}…, expected {file.sha256[:12]}…."
        )
    return content


def download(file: File, path: Path, progress: Progress | None = None) -> bytes:
    """Download to a `.part` file, going on where a broken download ended; verify, move into place, return the content.

    A wrong file at `path` is replaced. A part that was resumed and turns out wrong is thrown away, and the download
    starts once more from the beginning.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with _locked(path.parent):
        if path.is_file():  # by another process, while this one waited
            with contextlib.suppress(ChecksumError):
                return verify(path, file)
        content = None
        while content is None:
            resumed, whole = _append(file, part, progress)
            try:
                content = verify(part, file)
            except ChecksumError as error:
                if not whole:
                    raise _broken(file, f"it ended after {part.stat().st_size} bytes, too early") from error
                part.unlink()
                if not resumed:
                    raise ChecksumError(
                        f"{file.url} gave another file than it should, which was not kept: {error}"
                    ) from error
        os.replace(part, path)
    return content


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from downloading into the same folder at the same time, where the system can."""
    with (folder / ".lock").open("w") as lock:
        with contextlib.suppress(ImportError):  # Windows has no fcntl
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _append(file: File, part: Path, progress: Progress | None) -> tuple[bool, bool]:
    """Add what a part still lacks; return whether it kept earlier bytes, and whether the server has nothing to add."""
    with part.open("ab") as out:
        have = out.seek(0, os.SEEK_END)
        headers = {"User-Agent": "goldstein"} | ({"Range": f"bytes={have}-"} if have else {})
        try:
            with urllib.request.urlopen(urllib.request.Request(file.url, headers=headers), timeout=TIMEOUT) as answer:
                begin, total = _extent(answer, have)
                if begin > have:  # bytes between are lacking: as it is, the part is of no use
                    return True, True
                have = out.truncate(begin)
                while block := answer.read(BLOCK):
                    out.write(block)
                    out.flush()
                    have += len(block)
                    if progress is not None:
                        progress(file.name, have, total)
                if total is not None and have < total:
                    raise ConnectionError(f"the connection broke after {have} of {total} bytes")
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 416:  # nothing left to send
                return True, True
            raise _broken(file, error) from error
    return begin > 0, total is not None


def _extent(answer: Any, have: int) -> tuple[int, int | None]:
    """Return at which byte of the file an answer begins, and how long the file is, if that is known."""
    said = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    begin = 0 if answer.status != 206 else int(said[1]) if said else have
    if said and said[2] != "*":
        return begin, int(said[2])
    length = answer.headers.get("Content-Length")
    return begin, None if length is None else begin + int(length)


def _broken(file: File, why: object) -> DownloadError:
    return DownloadError(
        f"{file.name} could not be downloaded from {file.url} ({why}). What came is kept, and the next try goes "
        "on from there; without a network, put the file into a folder and name it by GOLDSTEIN_DATA or an argument."
    )
