"""Timing: the best of several, so that a busy machine counts least."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(work: Callable[[], Any], repeats: int = 5) -> float:
    """Return the shortest wall time of `repeats` calls, in seconds; one call before warms up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
