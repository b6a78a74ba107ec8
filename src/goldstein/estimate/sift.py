"""Sifting: the gradient of a component F(·; ξ) from values, by a walk and its bisection.

The walk goes from y to y + h, one coordinate after another, all with the same ξ:

    v(k) = F(y + Σ_{j<k} h_j e_j; ξ), k = 0, …, d,    g_j = (v(j + 1) − v(j)) / h_j.

v(0) and v(d) are asked first. Where the two ends of an interval agree, nothing inside it changed, and it stays closed;
where they differ its middle is asked, and both halves are bisected. It never takes more than d + 1 values, and 2 where
the component is flat. The levels of the bisections of many ξ are asked together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.estimate.stream import UNIFORM, Stream, draw_rows
from goldstein.oracle import DOUBLE, Array, Query, Samples
from goldstein.oracle.coordinates import Bounds
from goldstein.oracle.recipe import Joined, Recipe
from goldstein.state import MADE_AGAIN, State

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ZERO = 1e-14 / DOUBLE  # rounding errors of v(0): a difference of fewer is none
NEXT = 1e-15  # the least step of a coordinate, in parts of it: a few floating point numbers on
AT_ONCE = 2**22  # numbers in one query, so that a level of many coordinates does not fill the memory


def draw_units(rng: np.random.Generator, k: int, d: int) -> tuple[Array, Stream | None]:
    """Draw k × d steps ±U(½, 3/2): two effects cancel with probability 0. Return also from where, if many."""
    u, stream = draw_rows(UNIFORM, rng, k, d)
    return _signed(u), stream


def _signed(u: Array) -> Array:
    """Return U(0, 1) as ±U(½, 3/2)."""
    u = 2.0 * u
    up = u >= 1.0
    return np.where(up, u - 0.5, -0.5 - u)


@dataclass(frozen=True, eq=False)
class Origin:
    """What some walks are made from."""

    base: Recipe  # y: one row, or one for each walk
    units: Sequence[Stream]  # from where the steps of each walk were drawn
    length: float  # length, bounds: as in `walk`
    bounds: Bounds | None

    def only(self, which: Whole) -> Origin:
        """Return what these walks are made from."""
        base = self.base
        if len(base) > 1:
            base = Joined([base.rows(k, k + 1) for k in which.tolist()])
        return replace(self, base=base, units=[self.units[k] for k in which.tolist()])

    def walk(self) -> Walk:
        unit = _signed(np.concatenate([stream.numbers() for stream in self.units]))
        return walk(self.base.points(), unit, self.length, self.bounds)


@dataclass(frozen=True, eq=False)
class Places:
    """The recipe of points on walks: of which walk each is, and how many of its coordinates are switched on."""

    origin: Origin
    which: Whole
    reached: Whole

    def __len__(self) -> int:
        return self.which.size

    def rows(self, first: int, last: int) -> Places:
        needed, which = np.unique(self.which[first:last], return_inverse=True)
        return Places(self.origin.only(needed), which, self.reached[first:last])

    def points(self) -> Array:
        return self.origin.walk().points(self.which, self.reached)


@dataclass
class Walk(State):
    """Where some walks start and end."""

    base: Array  # base, top: shape (1, d) or (k, d): y, one row if it is the same for all walks, and y + h
    top: Array
    coordinates: Whole  # shape (m,): the coordinates that a walk goes along, in its order; the others are fixed
    forced: Whole | None = None  # shape (k, m + 1): how many coordinates before each had no choice of the sign of h_j
    origin: Origin | None = field(default=None, metadata=MADE_AGAIN)  # what they were made from, if they are long

    def steps(self) -> Array:
        """Return h, as it is after rounding, in the order of the walk; shape (k, m)."""
        h = self.top - self.base
        return h if self.coordinates.size == h.shape[1] else h[:, self.coordinates]

    def points(self, which: Whole, reached: Whole) -> Array:
        """Return the points of these walks with their first `reached` coordinates switched on."""
        base = self.base if len(self.base) == 1 else self.base[which]
        last = self.coordinates.size
        small = np.min_scalar_type(last)  # a mask is made the faster, the shorter the numbers are
        place = np.full(self.top.shape[1], last, small)  # in the walk; a fixed coordinate is never reached
        place[self.coordinates] = np.arange(last, dtype=small)
        points = self.top.take(which, axis=0)
        np.copyto(points, base, where=place >= reached.astype(small)[:, None])
        return points


@np.errstate(over="ignore", invalid="ignore")
def walk(y: Array, unit: Array, length: float, bounds: Bounds | None = None) -> Walk:
    """Return the walks from y, shape (1, d) or (k, d), with steps `length` · `unit`, shape (k, d).

    Within bounds, (lower, upper) of shape (d,), the sign of h_j is the one that stays inside, and a step is as long as
    there is room for; coordinates whose bounds are equal are not walked along. Steps that would be lost in the rounding
    of y are made longer.
    """
    d = y.shape[1]
    h = unit * np.maximum(length, NEXT * np.abs(y))
    if bounds is None:
        return Walk(y, y + h, np.arange(d))
    lower, upper = bounds
    size = np.abs(h)
    above = upper - y
    below = y - lower
    forced = (size > above) | (size > below)
    inwards = np.where(above >= below, np.minimum(size, above), -np.minimum(size, below))
    top = np.clip(y + np.where(forced, inwards, h), lower, upper)
    coordinates = np.flatnonzero(lower < upper)
    before = np.zeros((len(h), coordinates.size + 1), np.int64)
    np.cumsum(forced[:, coordinates], axis=1, out=before[:, 1:])
    return Walk(y, top, coordinates, before if before.any() else None)


@dataclass
class Sift(State):
    """The bisection of some walks, a level at a time: `query`, evaluate, `tell`, until it is `over`."""

    walk: Walk  # where the walks start and end
    samples: Any  # shape (k, ...): the ξ of each walk
    # an interval whose ends differ by no more stays closed, and its coordinates get the random-sign estimate
    # (v(hi) − v(lo))/h_j; not where the sign of an h_j in it was forced
    tolerance: float
    # values for one ξ, at most; 2 at least. The intervals whose ends differ most are opened first, and those that
    # are left over keep the random-sign estimate
    max_evals_per_sample: int | None
    roundoff: float  # relative rounding error of the values
    g: Array  # shape (k, m): the estimates so far, in the order of the walk
    first: Array  # shape (k,): v(0)
    n_values: Whole  # shape (k,): values that each ξ has taken
    failed: Mask  # shape (k,): walks on which a value failed; nothing more is asked of them
    below_roundoff: Mask  # shape (k,): walks whose ends differ, but by no more than rounding
    steps: Array  # shape (k, m): h, in the order of the walk
    # the open intervals, shape (intervals,): of which walk, from where to where, and v there
    row: Whole = field(default_factory=lambda: np.empty(0, np.int64))
    low: Whole = field(default_factory=lambda: np.empty(0, np.int64))
    high: Whole = field(default_factory=lambda: np.empty(0, np.int64))
    left: Array = field(default_factory=lambda: np.empty(0))
    right: Array = field(default_factory=lambda: np.empty(0))
    answers: Array = field(default_factory=lambda: np.empty(0))  # values of the present level that were told already
    started: bool = False

    @classmethod
    def of(
        cls,
        walk: Walk,
        samples: Samples | None = None,
        tolerance: float = 0.0,
        max_evals_per_sample: int | None = None,
        roundoff: float = DOUBLE,
    ) -> Sift:
        """Return the bisection of `walk` before anything is asked."""
        k = len(walk.top)
        if max_evals_per_sample is not None and max_evals_per_sample > walk.coordinates.size:
            max_evals_per_sample = None  # no walk takes more values than that
        return cls(
            walk,
            samples,
            tolerance,
            max_evals_per_sample,
            roundoff,
            g=np.zeros((k, walk.coordinates.size)),
            first=np.full(k, np.nan),
            n_values=np.zeros(k, np.int64),
            failed=np.zeros(k, np.bool_),
            below_roundoff=np.zeros(k, np.bool_),
            steps=walk.steps(),
        )

    @property
    def over(self) -> bool:
        """Whether every interval is closed."""
        return self.started and not self.row.size

    @property
    def pending(self) -> int:
        """Values that the present level still takes."""
        level = self.row.size if self.started else 2 * len(self.walk.top)
        return level - self.answers.size

    @property
    def flat(self) -> Mask:
        """Which walks were closed as a whole: their ends agree, or differ by no more than the tolerance."""
        if self.g.shape[1] == 1:
            return np.asarray(self.g[:, 0] == 0)
        return np.asarray(self.n_values == 2)

    def query(self) -> Query:
        """Return what to ask next: a level of the bisection, or as much of it as a query may hold."""
        rows, reached = self._level()
        d = self.walk.top.shape[1]
        part = slice(self.answers.size, self.answers.size + max(1, AT_ONCE // d))
        rows = rows[part]
        reached = reached[part]
        samples = None if self.samples is None else self.samples[rows]
        origin = self.walk.origin
        recipe = None if origin is None else Places(origin, rows, reached)
        return Query(self.walk.points(rows, reached), samples, fresh=True, recipe=recipe)

    def _level(self) -> tuple[Whole, Whole]:
        """Return the walks of the values of this level, and how many of their coordinates are switched on."""
        if self.started:
            return self.row, (self.low + self.high) // 2
        k = len(self.walk.top)
        rows = np.arange(k)
        return np.concatenate([rows, rows]), np.repeat([0, self.walk.coordinates.size], k)

    def tell(self, values: Array) -> None:
        """Take the values of the last query; not finite: failed."""
        self.answers = np.concatenate([self.answers, values])
        if self.pending:
            return
        rows, middle = self._level()
        values = self.answers
        self.answers = np.empty(0)
        self.n_values += np.bincount(rows, minlength=self.n_values.size)
        finite = np.isfinite(values)
        if not finite.all():
            self.failed[rows[~finite]] = True
        if self.started:
            row = _interleave(self.row, self.row)
            low = _interleave(self.low, middle)
            high = _interleave(middle, self.high)
            left = _interleave(self.left, values)
            right = _interleave(values, self.right)
        else:
            self.started = True
            left, right = values.reshape(2, -1)
            self.first = left
            with np.errstate(over="ignore", invalid="ignore"):
                size = np.abs(right - left)
            self.below_roundoff = (size > 0) & (size <= ZERO * self.roundoff * np.abs(left))
            row = rows[: left.size]
            low = np.zeros(left.size, np.int64)
            high = middle[left.size :]
        with np.errstate(over="ignore", invalid="ignore"):
            self._sort(row, low, high, left, right)

    def _sort(self, row: Whole, low: Whole, high: Whole, left: Array, right: Array) -> None:
        """Keep the intervals that have to be opened; give the coordinates of the others their estimate."""
        difference = right - left
        size = np.abs(difference)
        rounding = ZERO * self.roundoff * np.abs(self.first)
        differs = size > rounding.take(row)
        if self.failed.any():
            differs &= ~self.failed.take(row)
        small = size <= self.tolerance
        if self.walk.forced is not None:
            small &= self.walk.forced[row, high] == self.walk.forced[row, low]
        opened = differs & ~small & (high - low > 1)
        if self.max_evals_per_sample is not None:
            opened &= self._affordable(row, size, opened, self.max_evals_per_sample)
        self._estimate(row, low, high, difference, np.flatnonzero(differs & ~opened))
        rows = np.flatnonzero(opened)
        self.row = row.take(rows)
        self.low = low.take(rows)
        self.high = high.take(rows)
        self.left = left.take(rows)
        self.right = right.take(rows)

    def _affordable(self, row: Whole, size: Array, candidates: Mask, limit: int) -> Mask:
        """Return which intervals the limit leaves values for: those whose ends differ most, the first among equals."""
        affordable = limit - self.n_values
        if (np.bincount(row[candidates], minlength=affordable.size) <= affordable).all():
            return np.ones(row.size, np.bool_)
        which = np.flatnonzero(candidates)
        order = which[np.lexsort((which, -size[which], row[which]))]
        owner = row[order]
        rank = np.arange(order.size) - np.searchsorted(owner, owner)
        keep = np.zeros(row.size, np.bool_)
        keep[order[rank < affordable[owner]]] = True
        return keep

    def _estimate(self, row: Whole, low: Whole, high: Whole, difference: Array, closed: Whole) -> None:
        """Give the coordinates of closed intervals (v(hi) − v(lo))/h_j: a leaf its difference, others a random sign."""
        first = low.take(closed)
        place = row.take(closed) * self.steps.shape[1] + first  # in the table of all walks, row after row
        difference = difference.take(closed)
        width = high.take(closed) - first
        total = int(width.sum())
        if total > width.size:
            start = np.cumsum(width) - width
            place = np.arange(total) + np.repeat(place - start, width)
            difference = np.repeat(difference, width)
        np.put(self.g, place, difference / self.steps.take(place))

    def gradients(self) -> Array:
        """Return the estimates, one row a walk, as far as they go; zero along fixed coordinates. Shape (k, d)."""
        walk = self.walk
        d = walk.top.shape[1]
        if walk.coordinates.size == d:
            return self.g
        whole = np.zeros((len(self.g), d))
        whole[:, walk.coordinates] = self.g
        return whole


def _interleave(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a_0, b_0, a_1, b_1, …"""
    mixed = np.empty(2 * a.size, a.dtype)
    mixed[0::2] = a
    mixed[1::2] = b
    return mixed
