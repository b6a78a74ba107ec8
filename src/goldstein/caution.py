"""Warnings that point at the user's line, however deep in the library they come from."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

ROOT = str(Path(__file__).parent)


def warn(sentence: str, kind: type[Warning] = RuntimeWarning) -> None:
    """Warn at the line that called into this package."""
    level = 1
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(ROOT):
        level += 1
        frame = frame.f_back  # type: ignore[assignment]
    warnings.warn(sentence, kind, stacklevel=level)
