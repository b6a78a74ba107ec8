"""Checkpoints: a run on disk as plain data, written so that the file is whole or the old one.

One `.npz` file holds the arrays and a JSON text with everything else; nothing is pickled. It is written beside its
place and moved there in one step, so a crash in the middle of writing leaves the checkpoint before it.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.run.snapshot import Snapshot
from goldstein.state import pack, unpack

FORMAT = 2


class Checkpoint:
    """Where and how often a run is saved.

    Parameters
    ----------
    path : str or Path
        The file. If it exists when the run starts, the run goes on from it.
    every : float, optional
        Seconds between two savings. The end of the run is always saved.

    Examples
    --------
    >>> import numpy as np, goldstein as gs, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "run.npz"
    >>> method = gs.GFM(0.01, 0.005)
    >>> f = lambda x: abs(x).sum()
    >>> half = gs.minimize(f, np.ones(3), method, max_iter=50, rng=0, checkpoint=path)
    >>> whole = gs.minimize(f, np.ones(3), method, max_iter=100, rng=0, checkpoint=path)
    >>> again = gs.minimize(f, np.ones(3), method, max_iter=100, rng=0)
    >>> bool((whole.x == again.x).all())
    True
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 60.0) -> None:
        self.path = Path(path)
        every = arguments.number("every", every, "a number of seconds ≥ 0", lambda given: given >= 0)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"The checkpoint's folder {self.path.parent} does not exist.")
        self.every = float(every)
        self._saved = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._saved >= self.every

    def save(self, content: Snapshot) -> None:
        """Write a snapshot in one step."""
        arrays: dict[str, Any] = {}
        text = json.dumps({"format": FORMAT, "content": pack(content, arrays)})
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, json=np.frombuffer(text.encode(), np.uint8), **arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        self._saved = time.monotonic()

    def load(self) -> Snapshot | None:
        """Return what was saved last; None when there is no file."""
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files if name != "json"}
                head = json.loads(file["json"].tobytes().decode())
        except Exception as error:
            raise ValueError(f"{self.path} is not a goldstein checkpoint, or it is damaged: {error}") from error
        if head.get("format") != FORMAT:
            raise ValueError(f"{self.path} has checkpoint format {head.get('format')}, this version reads {FORMAT}.")
        try:
            content = unpack(head["content"], arrays)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is not a goldstein checkpoint, or it is damaged: {error!r}") from error
        if not isinstance(content, Snapshot):
            raise ValueError(f"{self.path} holds no run.")
        return content

    def compare(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        """Refuse to go on with another run than the one that was saved."""
        for key, value in now.items():
            if before.get(key) != value:
                raise ValueError(
                    f"The checkpoint {self.path} belongs to another run: its {key} was {before.get(key)!r:.200}, now "
                    f"it is {value!r:.200}."
                )
