"""What a result file says about itself: by which command it was made, from which code, and with which versions."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("goldstein", "numpy", "scipy", "numba", "scikit-learn", "torch", "adversarial-robustness-toolbox")


def provenance(command: str) -> dict[str, Any]:
    """Return the command and the versions of Python and of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"command": command, "code": code(), "versions": versions}


@cache
def code() -> str:
    """Return a short hash of all the source of this package: results of other code are other results."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    torn = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    torn.write_text(text)
    os.replace(torn, path)
