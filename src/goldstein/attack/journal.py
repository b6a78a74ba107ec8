"""The journal of an attack: the images that are done, so that after a kill they are not asked for again.

Random numbers of an image come from the seed and its pixels, so images know nothing of each other: those that are done
are taken from the file, and the others are attacked as ever.

====== ==============================================================================================================
record what it holds
====== ==============================================================================================================
HEADER what makes the attack (JSON): images, labels, targets, method, set, budget, seed; the model is not compared
IMAGE  an image that is done: its place and its counts, what went wrong with it (JSON), and its pixels
====== ==============================================================================================================
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

import goldstein
from goldstein.arguments import printable
from goldstein.attack.result import AttackResult
from goldstein.run.records import MAGIC, MALFORMED, Record, Records, malformed

HEADER = 0
IMAGE = 64  # no kind of record that a run has
LENGTH = struct.Struct("<I")  # of the JSON text, after which the pixels come
SYNC = 1.0  # seconds after which what was written is forced to the disk
ABOUT = "an attack"
COUNTED = ("queries", "queries_estimation", "predicted", "labels")
FINGERPRINTS = ("images", "labels", "targets")
FLAGS = ("success", "misclassified")


class AttackJournal(AbstractContextManager["AttackJournal"]):
    """Where an attack keeps the images that are done; the file of another `identity` (JSON types) is refused."""

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"journal must be a path, got {type(path).__name__}.")
        self.path = Path(path)
        self._identity = json.loads(json.dumps(identity))
        self._records = Records(self.path, SYNC)
        self._done: list[Record] = []
        try:
            self._open()
        except BaseException:
            self._records.close()
            raise

    def _open(self) -> None:
        """Compare the header and find the images; a torn tail is cut off."""
        end = len(MAGIC)
        for record in self._records.read():
            if end == len(MAGIC):
                self._compare(record)
            elif record.kind == IMAGE:
                self._done.append(record)
            end = record.end
        self._records.cut(end)
        if end == len(MAGIC):
            header = {"about": ABOUT, "version": goldstein.__version__, **self._identity}
            self._records.append(HEADER, json.dumps(header).encode(), at_once=True)

    def _compare(self, record: Record) -> None:
        try:
            before = json.loads(record.content)
            ours = record.kind == HEADER and before["about"] == ABOUT
        except MALFORMED:
            ours = False
        if not ours:
            raise ValueError(f"{self.path} is not the journal of an attack: choose another file.")
        for name, now in self._identity.items():
            then = before.get(name)
            if then == now:
                continue
            differs = f"its {name} was {then!r:.200}, now it is {now!r:.200}"
            if name in FINGERPRINTS:
                differs = f"its {name} were others"
            raise ValueError(f"{self.path} is the journal of another attack: {differs}.")

    def restore(self, result: AttackResult) -> set[int]:
        """Put the images that are done into a result; return which they are."""
        done = set()
        for record in self._done:
            try:
                done.add(_restore_image(result, record.content))
            except MALFORMED:
                raise malformed(self.path, record.start) from None
        self._done.clear()
        return done

    def keep(self, result: AttackResult, index: int) -> None:
        """Write down an image that is done."""
        about: dict[str, Any] = {"index": index, "error": result.errors.get(index)}
        about |= {name: int(getattr(result, name)[index]) for name in COUNTED}
        about |= {name: bool(getattr(result, name)[index]) for name in FLAGS}
        text = json.dumps(about).encode()
        self._records.append(IMAGE, LENGTH.pack(len(text)) + text + result.x[index].astype("<f4").tobytes())

    def __exit__(self, *exc: object) -> None:
        self._records.force()
        self._records.close()


def _restore_image(result: AttackResult, content: bytes) -> int:
    """Put an image into a result; return which it is."""
    (length,) = LENGTH.unpack_from(content)
    start = LENGTH.size + length
    about = json.loads(content[LENGTH.size : start])
    index = int(about["index"])
    if index < 0:
        raise IndexError
    result.x[index] = np.frombuffer(content, np.float32, offset=start).reshape(result.x.shape[1:])
    for name in (*COUNTED, *FLAGS):
        getattr(result, name)[index] = about[name]
    if about["error"] is not None:
        result.errors[index] = printable(str(about["error"]))
    return index
