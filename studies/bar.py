"""The progress bar of a study."""

from __future__ import annotations

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def study_bar() -> Progress:
    """Return a bar that says what is being done, how much is done, how long it took and how long it will take."""
    said = TextColumn("{task.description:24}")
    return Progress(said, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
