"""Timing: the best of several, so that a busy machine counts least."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest wall time of `repeats` calls, in seconds; one call before warms up."""
    return together(work, repeats=repeats)[0]


def together(*works: Callable[[], Any], repeats: int = 7) -> list[float]:
    """Return the shortest wall time of each, all in turn, so that a slow minute of the machine meets all of them."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(1 + repeats):
        for work, seen in zip(works, times, strict=True):
            start = time.perf_counter()
            work()
            if turn:
                seen.append(time.perf_counter() - start)
    return [min(seen) for seen in times]


def ratio(work: Callable[[], Any], floor: Callable[[], Any], repeats: int = 15) -> tuple[float, float, float]:
    """Return the median wall times of two, timed in turn, and the median of their ratios: a busy machine meets both."""
    pairs = []
    for turn in range(1 + repeats):
        seconds = []
        for one in (work, floor):
            start = time.perf_counter()
            one()
            seconds.append(time.perf_counter() - start)
        if turn:
            pairs.append(seconds)
    return (
        median(seconds for seconds, _ in pairs),
        median(least for _, least in pairs),
        median(seconds / least for seconds, least in pairs),
    )
