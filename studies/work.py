"""The work of a study: pieces that run side by side and are saved as they come, and a bar that shows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.cells import Cells

if TYPE_CHECKING:
    from rich.progress import Progress

Result = dict[str, Any]
Reached = Callable[[float], None]  # told the share of a piece that is done; raises when nobody waits for the rest


@dataclass(frozen=True)
class Piece:
    """One piece of a study.

    Attributes
    ----------
    spec : mapping
        Plain data that determine the numbers: the method with its settings, the problem, the budget, the seed and the
        version of the study's computation. Whatever else changes, a saved piece with this spec is still good.
    cost : float
        What it takes, in the units of the progress bar.
    run : callable
        Return the result; its argument may be told on the way how much is done.
    """

    spec: Mapping[str, Any]
    cost: float
    run: Callable[[Reached], Mapping[str, Any]]


class Work:
    """Does pieces: those saved in the folder `cells` of `out` are read, the others are run by threads and saved.

    Parameters
    ----------
    out : Path
    jobs : int, optional
        Pieces at a time; None: as many as there are cores.
    advance : callable, optional
        Told what was done, in units of cost.
    each_thread : callable, optional
        Called once in each thread before its first piece.
    """

    def __init__(
        self,
        out: Path,
        jobs: int | None = None,
        advance: Callable[[float], Any] = lambda cost: None,
        each_thread: Callable[[], Any] | None = None,
    ) -> None:
        self.cells = Cells(out / "cells")
        self.jobs = jobs or os.cpu_count() or 1
        self.advance = advance
        self.each_thread = each_thread
        self.stopped = False

    def one(self, piece: Piece) -> Result:
        """Return the result of one piece."""
        return self.all([piece])[0]

    def all(self, pieces: Sequence[Piece], jobs: int | None = None) -> list[Result]:
        """Return the results of pieces in their order; `jobs` at a time if that is given."""
        found = [self.cells.get(piece.spec) for piece in pieces]
        missing = []
        for k, piece in enumerate(pieces):
            if found[k] is None:
                missing.append(k)
            else:
                self.advance(piece.cost)
        if missing:
            self._run(pieces, missing, found, jobs or self.jobs)
        return [result for result in found if result is not None]

    def _run(self, pieces: Sequence[Piece], missing: list[int], found: list[Result | None], jobs: int) -> None:
        pool = ThreadPoolExecutor(jobs, initializer=self.each_thread)
        try:
            futures = {pool.submit(self.run, pieces[k]): k for k in missing}
            for future in as_completed(futures):
                k = futures[future]
                found[k] = self.cells.put(pieces[k].spec, future.result())
        except BaseException:
            self.stopped = True
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def run(self, piece: Piece) -> Mapping[str, Any]:
        """Run a piece, saved or not, and say how much of it is done."""
        told = 0.0

        def reached(share: float) -> None:
            nonlocal told
            if self.stopped:  # do not go on to the end of a piece that nobody waits for
                raise InterruptedError
            self.advance(piece.cost * (share - told))
            told = share

        result = piece.run(reached)
        reached(1.0)
        return result


def study_bar() -> Progress:
    """Return a bar that says what is being done, how much is done, how long it took and how long it will take."""
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    said = TextColumn("{task.description:24}")
    return Progress(said, BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
