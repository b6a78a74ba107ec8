"""Optional packages: imported where they are used, and named in one sentence where they are missing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

EXTRAS = {
    "numba": "compiled",
    "sklearn": "sklearn",
    "matplotlib": "plot",
    "jinja2": "report",
    "typer": "cli",
    "rich": "cli",
    "torch": "torch",
    "ray": "ray",
    "distributed": "dask",
    "simopt": "simopt",
    "onnxruntime": "onnx",
    "PIL": "onnx",
}
ELSEWHERE = {"art": "adversarial-robustness-toolbox"}  # in no extra


def needed(module: str, user: str) -> Any:
    """Return an optional module such as "matplotlib.figure", or say who needs it and how it is installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if (error.name or "").partition(".")[0] != package:  # it is there, and something that it needs is not
            raise
        raise ImportError(f"{user} needs {package}: {how_to_install(package)}.", name=package) from None


def check_installed(modules: Sequence[str], user: str) -> None:
    """Say in one sentence which of some optional packages are missing, and how they are installed together."""
    missing = [module for module in modules if not _is_installed(module)]
    if missing:
        extras = ",".join(EXTRAS[module] for module in missing)
        raise ImportError(f"{user} needs {' and '.join(missing)}: pip install 'goldstein[{extras}]'.", name=missing[0])


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # it is blocked
        return False


def how_to_install(package: str) -> str:
    """Return the command that installs an optional package."""
    if package in EXTRAS:
        return f"pip install 'goldstein[{EXTRAS[package]}]'"
    return f"pip install {ELSEWHERE.get(package, package)}"
