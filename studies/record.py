"""What a result file says about itself, how results and documents are written, and which results can be kept."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("goldstein", "numpy", "scipy", "numba", "scikit-learn", "torch", "adversarial-robustness-toolbox")


class Refusal(ValueError):
    """What a study cannot do, in one sentence."""


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


def check_markers(docs: Path | None, begin: str, end: str) -> None:
    """Raise when a Markdown file has no place for a study's tables: before the study, not after it."""
    if docs is not None:
        page = docs.read_text()
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            raise Refusal(f"{docs} must hold the markers {begin} and {end} once each, in this order.")


def fill(docs: Path, begin: str, end: str, text: str) -> None:
    """Put the text between the markers of a Markdown file."""
    check_markers(docs, begin, end)
    block = re.compile(f"{re.escape(begin)}.*{re.escape(end)}", re.DOTALL)
    write_whole(docs, block.sub(lambda _: f"{begin}\n\n{text}\n{end}", docs.read_text()))


def earlier(out: Path, only: Sequence[str], known: Iterable[str], same: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the results in `out` of which all is kept but the methods `only`; None when `only` names none.

    `same` holds what those results must have in common with this run.
    """
    if not only:
        return None
    names = list(known)
    unknown = next((name for name in only if name not in names), None)
    if unknown is not None:
        raise Refusal(f"The study has no {unknown!r}; it has {'; '.join(names)}.")
    path = out / "results.json"
    if not path.is_file():
        raise Refusal(f"There are no results in {out} to keep: run the whole study first.")
    found: dict[str, Any] = json.loads(path.read_text())
    for key, value in same.items():
        if found.get(key) != value:
            raise Refusal(f"The results in {out} are of another study: {key} is {found.get(key)}, here {value}.")
    return found
