"""Results saved as they come: one small file for each piece of a study, so that a stopped study goes on where it was.

A piece is named by plain data that says all it depends on. Its file is written whole or not at all, and holds nothing
that differs from one run to the next, such as times.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


class Cells:
    """The pieces of a study in a folder; git is told to leave them alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n")
        for torn in folder.glob("*.tmp"):
            if not _alive(torn.name.partition("-")[0]):  # of a process that was killed
                torn.unlink(missing_ok=True)

    def get(self, spec: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the result of a piece; None when it is not there yet."""
        path = self._path(spec)
        if not path.is_file():
            return None
        try:
            saved = json.loads(path.read_text())
        except ValueError:  # torn by a machine that went down
            return None
        result: dict[str, Any] = saved["result"]
        return result if saved["spec"] == _plain(spec) else None

    def put(self, spec: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the result of a piece; return it as it will be read."""
        text = json.dumps({"spec": _plain(spec), "result": _plain(result)}, ensure_ascii=False)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=f"{os.getpid()}-", suffix=".tmp")
        with os.fdopen(handle, "w") as out:
            out.write(text + "\n")
        os.replace(name, self._path(spec))
        kept: dict[str, Any] = json.loads(text)["result"]
        return kept

    def _path(self, spec: Mapping[str, Any]) -> Path:
        text = json.dumps(_plain(spec), sort_keys=True, ensure_ascii=False)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _alive(pid: str) -> bool:
    """Whether the process that began a file is still at work."""
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True


def _plain(value: Any) -> Any:
    """Return nested data as JSON knows it; a number that is not finite becomes None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value
