"""Warnings that point at the user's line, however deep in the library they come from."""

from __future__ import annotations

import sys
import warnings

BETWEEN = {"goldstein", "scipy", "typer", "click"}  # packages that may stand between the user's line and the warning


def warn(sentence: str, kind: type[Warning] = RuntimeWarning) -> None:
    """Warn at the line that called into this package."""
    level = 1
    frame = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in BETWEEN:
        level += 1
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(sentence, kind, stacklevel=level)
