"""Files from the network: downloaded once over https, resumed where they broke off, verified, of a known size."""

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
from typing import IO, Any, cast

BLOCK = 1 << 20
TIMEOUT = 60.0

Progress = Callable[[str, int, int | None], Any]


class ChecksumError(ValueError):
    """A file is not the one it should be."""


class _TooLongError(ChecksumError):
    """A file has more bytes than it should, so that it is wrong whatever may still come."""


class DownloadError(ConnectionError):
    """A file could not be downloaded."""


@dataclass(frozen=True)
class File:
    """One file: where it is, and what it holds.

    Attributes
    ----------
    name, url : str
        A name that ends in .gz or .bz2 is that of a compressed file.
    sha256 : str
        The hash of the content, once decompressed.
    size : int
        How many bytes the content has, once decompressed.
    packed : int
        The most bytes that the file itself may have when it is downloaded; `size` if it is not compressed.
    """

    name: str
    url: str
    sha256: str
    size: int
    packed: int


def verify(path: Path, file: File) -> bytes:
    """Return what a file holds, decompressed, or say that it is not the right file.

    It is decompressed block by block, and no further than one byte beyond the size it should have.
    """
    blocks = []
    digest = hashlib.sha256()
    remaining = file.size
    with path.open("rb") as raw:
        try:
            stream = _decompressed(raw, file.name)
            while block := stream.read(min(BLOCK, remaining + 1)):
                remaining -= len(block)
                if remaining < 0:
                    break
                digest.update(block)
                blocks.append(block)
        except (OSError, EOFError, ValueError, zlib.error) as error:
            raise ChecksumError(f"{path} is damaged ({error}); delete it and fetch it again.") from error
    if remaining < 0:
        raise _TooLongError(f"{path} is not the file it should be: it holds more than the expected {file.size} bytes.")
    found = digest.hexdigest()
    if found != file.sha256:
        raise ChecksumError(
            f"{path} is not the file it should be: its content has SHA-256 {found[:12]}…, expected {file.sha256[:12]}…."
        )
    return b"".join(blocks)


def _decompressed(raw: IO[bytes], name: str) -> IO[bytes]:
    """Return a stream of what a file holds, as its name says how it is compressed."""
    suffix = Path(name).suffix
    if suffix == ".bz2":
        return cast(IO[bytes], bz2.open(raw))
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(raw))
    return raw


def download(file: File, path: Path, progress: Progress | None = None) -> bytes:
    """Download to a `.part` file, going on where a broken download ended; verify, move into place, return the content.

    A wrong file at `path` is replaced. A part that was resumed and turns out wrong is thrown away, and the download
    starts once more from the beginning. A download ends as soon as it is longer than the file should be.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with _locked(path.parent):
        if path.is_file():  # by another process, while this one waited
            with contextlib.suppress(ChecksumError):
                return verify(path, file)
        try:
            content = _completed(file, part, progress)
            os.replace(part, path)
        finally:
            if part.is_file() and not part.stat().st_size:  # nothing to go on from
                part.unlink()
    return content


def _completed(file: File, part: Path, progress: Progress | None) -> bytes:
    """Add what a part lacks, from the beginning if what it had was wrong, and return the content, verified."""
    while True:
        resumed, length = _append(file, part, progress)
        try:
            if length is not None and length > file.packed:
                raise _TooLongError(f"it is longer than the expected {file.packed} bytes.")
            return verify(part, file)
        except ChecksumError as error:
            if length is None and not isinstance(error, _TooLongError):
                raise _broken(file, f"it ended after {part.stat().st_size} bytes, too early") from error
            part.unlink()
            if not resumed:
                raise ChecksumError(
                    f"{file.url} gave another file than it should, which was not kept: {error}"
                ) from error


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes from downloading into the same folder at the same time, where the system can."""
    with (folder / ".lock").open("w") as lock:
        with contextlib.suppress(ImportError):  # Windows has no fcntl
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _append(file: File, part: Path, progress: Progress | None) -> tuple[bool, int | None]:
    """Add what a part still lacks; return whether it kept earlier bytes, and how long the file is, if that is known.

    Of a file that is too long, at most one byte too many is taken.
    """
    with part.open("ab") as out:
        have = out.seek(0, os.SEEK_END)
        try:
            with _open(file.url, have) as answer:
                begin, total = _extent(answer, have)
                if begin > have:  # bytes between are lacking: as it is, the part is of no use
                    return True, have
                have = out.truncate(begin)
                if total is not None and total > file.packed:
                    return begin > 0, total
                while have <= file.packed and (block := answer.read(min(BLOCK, file.packed + 1 - have))):
                    out.write(block)
                    out.flush()
                    have += len(block)
                    if progress is not None:
                        progress(file.name, have, total)
                if total is not None and have < total:
                    raise ConnectionError(f"the connection broke after {have} of {total} bytes")
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, urllib.error.HTTPError) and error.code == 416:  # nothing left to send
                return True, have
            raise _broken(file, error) from error
    if have >= file.packed:
        return begin > 0, have
    return begin > 0, total


def _open(url: str, start: int) -> Any:
    """Ask for the bytes of a file from `start` on, over https and nothing else."""
    _demand_https(url)
    headers = {"User-Agent": "goldstein"}
    if start:
        headers["Range"] = f"bytes={start}-"
    opener = urllib.request.build_opener(_OnlyToHttps)
    return opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)


class _OnlyToHttps(urllib.request.HTTPRedirectHandler):
    """Follow a redirect to https only, and leave its body unread, which may have any length."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        fp.close()
        _demand_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _demand_https(url: str) -> None:
    if not url.lower().startswith("https://"):
        raise ConnectionError(f"{url} is no https address")


def _extent(answer: Any, have: int) -> tuple[int, int | None]:
    """Return at which byte of the file an answer begins, and how long the file is, if that is known."""
    number = r"\d{1,18}"
    said = re.fullmatch(rf"bytes ({number})-{number}/({number}|\*)", answer.headers.get("Content-Range", "").strip())
    if answer.status != 206:
        begin = 0
    elif said:
        begin = int(said[1])
    else:
        begin = have
    if said and said[2] != "*":
        return begin, int(said[2])
    length = re.fullmatch(number, answer.headers.get("Content-Length", "").strip())
    return begin, None if length is None else begin + int(length[0])


def _broken(file: File, why: object) -> DownloadError:
    return DownloadError(
        f"{file.name} could not be downloaded from {file.url} ({why}). What came is kept, and the next try goes "
        "on from there; without a network, put the file into a folder and name it by GOLDSTEIN_DATA or an argument."
    )
