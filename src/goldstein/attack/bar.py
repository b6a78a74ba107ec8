"""A progress bar over images (extra: cli)."""

from __future__ import annotations

from typing import Any


class Bar:
    """A context manager that gives a callable `show(done, n)`."""

    def __init__(self, n: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("images"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns)
        self._task = self._progress.add_task("images", total=n)

    def __enter__(self) -> Any:
        self._progress.start()
        return lambda done, n: self._progress.update(self._task, completed=done)

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()
