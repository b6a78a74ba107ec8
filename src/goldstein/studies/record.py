"""What a result file says about itself: by which command it was made, and with which versions."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
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
    return {"command": command, "versions": versions}
