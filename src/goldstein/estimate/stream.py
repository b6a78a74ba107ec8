"""Rows of random numbers, and where in a generator's stream they stand, so that they can be drawn again elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from goldstein.oracle import Array
from goldstein.state import BIT_GENERATORS, generator

NORMAL = "standard_normal"
UNIFORM = "random"
NUMBERS = 2**13  # from one saved state to the next; saving takes a hundredth of the time of drawing them
MANY = 2**14  # numbers that it may be cheaper to draw again than to send


@dataclass(eq=False)
class Stream:
    """Where rows of random numbers stand in a generator's stream."""

    kind: str  # how they are drawn: a method of the generator
    d: int
    states: tuple[Mapping[str, Any], ...]  # of the generator, before the first row and every further `every` of them
    every: int
    first: int  # the rows meant, counted from the first state
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def rows(self, first: int, last: int) -> Stream:
        """Return the place of the rows from `first` up to `last`; one state is all that they need."""
        before = min((self.first + first) // self.every, len(self.states) - 1)
        skipped = self.first + first - before * self.every
        return Stream(self.kind, self.d, (self.states[before],), self.every, skipped, skipped + last - first)

    def numbers(self) -> Array:
        """Draw the rows again."""
        rng = generator(self.states[0])
        return np.asarray(getattr(rng, self.kind)((self.last, self.d))[self.first :])


def draw_rows(kind: str, rng: np.random.Generator, k: int, d: int) -> tuple[Array, Stream | None]:
    """Draw k rows of d numbers; return also where they stand in the stream, if they are many."""
    draw = getattr(rng, kind)
    if k * d < MANY or type(rng.bit_generator).__name__ not in BIT_GENERATORS:
        return draw((k, d)), None
    every = max(1, NUMBERS // d)
    rows = np.empty((k, d))
    states = []
    for first in range(0, k, every):
        states.append(rng.bit_generator.state)
        draw(out=rows[first : first + every])
    return rows, Stream(kind, d, tuple(states), every, 0, k)
