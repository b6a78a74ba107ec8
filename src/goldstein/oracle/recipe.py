"""Recipes: how the points of a query are made, where the points themselves would be too much to send.

A recipe is a small value from which a worker makes the same points again, bit for bit. Methods that draw long points
attach one to the query; what has none is sent as points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from goldstein.oracle.coordinates import Bounds, Coordinates
from goldstein.oracle.stats import Array


class Recipe(Protocol):
    """How some points are made."""

    def __len__(self) -> int:
        """Return how many points there are."""

    def rows(self, first: int, last: int) -> Recipe:
        """Return the recipe of the points from `first` up to `last`."""

    def points(self) -> Array:
        """Make the points; shape (k, d)."""


@dataclass(frozen=True, eq=False)
class Repeated:
    """The same point a number of times."""

    point: Array
    times: int

    def __len__(self) -> int:
        return self.times

    def rows(self, first: int, last: int) -> Repeated:
        return replace(self, times=last - first)

    def points(self) -> Array:
        return np.tile(self.point, (self.times, 1))


@dataclass(frozen=True, eq=False)
class Joined:
    """The points of some recipes, one after the other."""

    pieces: Sequence[Recipe]

    def __len__(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def rows(self, first: int, last: int) -> Recipe:
        inside = []
        start = 0
        for piece in self.pieces:
            end = start + len(piece)
            if start < last and first < end:
                inside.append(piece.rows(max(first, start) - start, min(last, end) - start))
            start = end
        return inside[0] if len(inside) == 1 else Joined(inside)

    def points(self) -> Array:
        return np.concatenate([piece.points() for piece in self.pieces])


@dataclass(frozen=True, eq=False)
class _Changed:
    """The points of a recipe, changed row by row."""

    recipe: Recipe

    def __len__(self) -> int:
        return len(self.recipe)

    def rows(self, first: int, last: int) -> Recipe:
        changed: Recipe = replace(self, recipe=self.recipe.rows(first, last))  # type: ignore[assignment]
        return changed


@dataclass(frozen=True, eq=False)
class Clipped(_Changed):
    """The points of a recipe, moved into bounds."""

    bounds: Bounds

    def points(self) -> Array:
        return np.clip(self.recipe.points(), *self.bounds)


@dataclass(frozen=True, eq=False)
class Outside(_Changed):
    """The points of a recipe of a run, as the user sees them."""

    coordinates: Coordinates

    def points(self) -> Array:
        return self.coordinates.outside(self.recipe.points())
