"""What a results file says about itself, how it is written, and which results can be kept."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = (
    *("goldstein", "numpy", "scipy", "numba", "scikit-learn", "torch", "adversarial-robustness-toolbox"),
    *("cma", "cmaes", "nevergrad", "coco-experiment", "simoptlib"),
)
FILE = "results.json"


class Unsupported(ValueError):
    """What a study cannot do, in one sentence."""


def command(study: str, **options: object) -> str:
    """Return the command that runs a study; True stands for an option without a value, None and False for none.

    Examples
    --------
    >>> command("attack", quick=True, images=None, max_queries=500)
    'python -m studies attack --quick --max-queries 500'
    """
    words = ["python -m studies", study]
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(str(value))
    return " ".join(words)


def provenance(made_by: str) -> dict[str, Any]:
    """Return the command, the commit of the code, and the versions of Python and of the packages installed.

    They say where numbers came from; which saved pieces are good does not depend on them.
    """
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {"command": made_by, "code": commit(), "versions": versions}


@cache
def commit() -> str:
    """Return the short id of the commit that is checked out, marked when files differ from it."""
    ask = ["git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        return subprocess.run(ask, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    torn = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    torn.write_text(text)
    os.replace(torn, path)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record for people and programs."""
    write_whole(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def finite(value: Any) -> float | None:
    """Return a number as JSON has it: None when it is not finite."""
    return float(value) if np.isfinite(value) else None


def number(value: float | None) -> float:
    """Read a number that JSON may not have had: None was not finite."""
    return np.inf if value is None else float(value)


def save(results: Mapping[str, Any], out: Path) -> None:
    """Write the results of a study."""
    write_whole(out / FILE, json.dumps(results, ensure_ascii=False, separators=(",", ":")) + "\n")


def read(out: Path) -> dict[str, Any]:
    """Read the results of a study."""
    results: dict[str, Any] = json.loads((out / FILE).read_text())
    return results


def earlier(out: Path, only: Sequence[str], known: Iterable[str], same: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the results in `out` of which all is kept but the methods `only`; None when `only` names none.

    `same` holds what those results must have in common with this run. `again` then names the code that ran `only`.
    """
    if not only:
        return None
    names = list(known)
    unknown = next((name for name in only if name not in names), None)
    if unknown is not None:
        raise Unsupported(f"The study has no {unknown!r}; it has {'; '.join(names)}.")
    if not (out / FILE).is_file():
        raise Unsupported(f"There are no results in {out} to keep: run the whole study first.")
    found = read(out)
    for key, value in same.items():
        if found.get(key) != value:
            raise Unsupported(f"The results in {out} are of another study: {key} is {found.get(key)}, here {value}.")
    found["again"] = found.get("again", {}) | dict.fromkeys(only, commit())
    return found
