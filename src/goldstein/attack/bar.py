"""A progress bar over images (extra: cli)."""

from __future__ import annotations

from typing import Any

from goldstein.extras import needed


class Bar:
    """A context manager that gives a callable `show(done, n)`."""

    def __init__(self, n: int) -> None:
        rich = needed("rich.progress", "A progress bar")
        columns = (rich.TextColumn("images"), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
        self._progress = rich.Progress(*columns)
        self._task = self._progress.add_task("images", total=n)

    def __enter__(self) -> Any:
        self._progress.start()
        return lambda done, n: self._progress.update(self._task, completed=done)

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()
