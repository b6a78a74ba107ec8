"""What flows between a method and its evaluator: points out, answers back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import retired
from goldstein.oracle.coordinates import Coordinates
from goldstein.oracle.recipe import Outside, Recipe, Repeated
from goldstein.oracle.stats import DOUBLE, Array, Tally

Samples = npt.NDArray[Any]
Sampler = Callable[[np.random.Generator, int], Samples]

LONG = 2**16  # bytes of an array that another machine is better sent in a shorter form, or once only


@retired.fields(memory="aux", cut="truncated")
@dataclass(eq=False)
class Query:
    """A batch of evaluations that a method asks for; it is not changed after that.

    Attributes
    ----------
    points : ndarray, shape (k, d)
        Where F is to be evaluated.
    samples : ndarray, shape (k, ...), or None
        The ξ of each row: an index (`FiniteSum`), a draw (`Expectation`), a seed (`Seeded`).
        Rows with the same ξ must see the same noise. None when there is no ξ to choose.
    order : int
        0: the value F(x; ξ), answered with shape (k,). 1: the gradient, answered with shape (k, d).
    truncated : bool
        The batch is smaller than the method asked for, because the budget ends here.
    aux : object
        What the method needs to read the answer (its directions, say). Not for the evaluator.
    fresh : bool
        The arrays were made for this query alone, so that a function may work in place on them.
    recipe : Recipe or None
        How the points are made, if they are long; workers on other machines are sent it instead.
    """

    points: Array
    samples: Samples | None = None
    order: int = 0
    truncated: bool = False
    aux: Any = None
    fresh: bool = False
    recipe: Recipe | None = None

    def __len__(self) -> int:
        return len(self.points)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the answer."""
        if self.order == 0:
            return (len(self.points),)
        return self.points.shape

    def rows(self, first: int, last: int) -> Query:
        """Return the part from row `first` up to `last`, without `aux`."""
        samples = None if self.samples is None else self.samples[first:last]
        recipe = None if self.recipe is None else self.recipe.rows(first, last)
        return Query(self.points[first:last], samples, self.order, fresh=self.fresh, recipe=recipe)

    def failed(self) -> Answer:
        """Return the answer when every evaluation has failed."""
        return Answer(np.full(self.shape, np.nan))

    def compact(self) -> Query | CompactQuery:
        """Return what is best sent to another machine: a recipe in the place of long points."""
        recipe = self.recipe
        if recipe is None and self.points.strides[0] == 0:
            recipe = Repeated(self.points[0], len(self.points))
        if recipe is None or self.points.nbytes < LONG:
            return self
        return CompactQuery(recipe, self.samples, self.order)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"recipe": None}

    def handed_out(self) -> Query:
        """Return what the user's function may have: arrays of its own, and nothing of the method's."""
        if self.fresh:
            return Query(self.points, self.samples, self.order, self.truncated, fresh=True)
        samples = None if self.samples is None else self.samples.copy()
        return Query(self.points.copy(), samples, self.order, self.truncated, fresh=True)

    def outside(self, coordinates: Coordinates) -> Query:
        """Return a query of a run as the user sees it."""
        recipe = None if self.recipe is None else Outside(self.recipe, coordinates)
        return Query(coordinates.outside(self.points), self.samples, self.order, self.truncated, recipe=recipe)


@dataclass(eq=False)
class CompactQuery:
    """A query whose points are still to be made."""

    recipe: Recipe
    samples: Samples | None
    order: int

    def expanded(self) -> Query:
        return Query(self.recipe.points(), self.samples, self.order)


@dataclass(eq=False)
class Answer:
    """What came back for a query.

    Attributes
    ----------
    values : ndarray, shape (k,) for values or (k, d) for gradients
        Not finite: the evaluation failed.
    roundoff : float
        Relative rounding error of the type in which they came.
    reason : str
        The first exception that was caught among them, in words; "": none was.
    """

    values: Array
    roundoff: float = DOUBLE
    reason: str = field(default="", kw_only=True)

    def tally(self, *, precise: bool = False) -> Tally:
        """Return what counting needs to know of the values; `precise`: their precision is known already."""
        return Tally.of(self.values, self.roundoff, precise=precise)

    def inside(self, coordinates: Coordinates) -> Answer:
        """Return gradients of the user's as the run sees them."""
        return replace(self, values=coordinates.slopes(self.values))

    def joined(self, others: Sequence[Answer]) -> Answer:
        """Return this answer and those to the rows that follow as one."""
        every = [self, *others]
        values = np.concatenate([answer.values for answer in every])
        reasons = [answer.reason for answer in every if answer.reason]
        return Answer(values, max(answer.roundoff for answer in every), reason=reasons[0] if reasons else "")
