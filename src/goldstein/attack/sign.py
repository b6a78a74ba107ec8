"""A search for signs from coarse to fine, then dual averaging: the library's default method for attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.attack.region import Region
from goldstein.attack.tiles import CoarseToFine, tiles
from goldstein.estimate.smoothing import Central, LeaveOneOut
from goldstein.methods.method import Context, Needs, Step
from goldstein.methods.zeroth_order import Batch, Draw, SmoothedState, ZerothOrder
from goldstein.oracle import Array, Query

STEPS = ("sign", "euclidean")


@dataclass
class SignState(SmoothedState):
    """State of `SignAveraging`.

    Attributes
    ----------
    origin, dual, opposite : ndarray
        The original z; G, the sum of the unit estimates; and, for the search, the corner with all signs of G turned
        over.
    best : float
        The value at x while the search goes on.
    place, changed : int
        How many tiles the search has tried, and how many it had when it last turned one over.
    joint : ndarray or None
        The G that changes several tiles at once, to be tried next.
    averaged : int
        Estimates in G.
    """

    origin: Array = field(default_factory=lambda: np.empty(0))
    dual: Array = field(default_factory=lambda: np.empty(0))
    opposite: Array = field(default_factory=lambda: np.empty(0))
    best: float = np.nan
    place: int = 0
    changed: int = 0
    joint: Array | None = None
    averaged: int = 0


@dataclass(frozen=True)
class SignAveraging(ZerothOrder):
    """Dual averaging that knows the ball: x = proj(z − κ sign(G)), G the running sum of unit-normalised estimates.

    A linear function has its minimum over an ℓ∞ ball at a corner, so the step goes there at once, and what is averaged
    is the gradient. Before that comes a search from coarse to fine: signs of whole tiles of the image are turned over
    wherever that lowers the loss, and G starts from the signs found. Every image that is asked for can be the answer.

    Parameters
    ----------
    delta : float, optional
        Smoothing radius δ of the estimates, in pixels.
    batch_size : int, optional
        Directions in an estimate.
    step : {None, "sign", "euclidean"}, optional
        "sign": x = proj(z − κ sign(G)). "euclidean": x = proj(z − κ √d G/‖G‖), the same length along G itself (ℓ2: κ
        G/‖G‖). None: the sign for ℓ∞, Euclidean for ℓ2.
    search : int or None, optional
        Tiles a side at which the search ends; it goes through 1, 2, 4, … None: no search.
    group : int, optional
        Tiles that the search tries at one iterate, at most, and no more than a sixteenth of the grid's, so that coarse
        grids are gone through one by one. Those that lower the loss are then turned over together, unless that is
        worse than the best of them alone.
    rounds : int, optional
        How often the search goes from coarse to fine before averaging begins.
    weight : float, optional
        Size of the entries that G starts with after a search; a unit estimate has entries of about 1/√d.
    resolution : int or None, optional
        Tiles a side on which the first directions of averaging are constant; None: pixels from the start.
    release : int, optional
        Estimates after which directions are free of those tiles.
    estimator : {"loo", "central"}, optional
        One value for each direction compared with their mean, or two.
    directions : {"iid", "orthogonal"}, optional
        As in `GFM`.
    shape, norm, radius
        Of the images and the ball; `attack` sets them.

    Notes
    -----
    Most images are won by the search; averaging is what goes on when the search has found nothing more to turn over.
    The search is a relative of SignHunter, with square tiles in the place of halves of the pixel list, several tiles to
    an iterate, and a second round.

    References
    ----------
    Al-Dujaili, O'Reilly (2020). Sign bits are all you need for black-box attacks. ICLR.

    Nesterov (2009). Primal-dual subgradient methods for convex problems. Mathematical Programming 120.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.attack import SignAveraging, attack
    >>> def model(x):
    ...     return np.stack([0.5 - x[:, 0, 0], x[:, 0, 0] - 0.5], axis=1)
    >>> attack(model, np.full((1, 4, 4), 0.4), [0], method=SignAveraging(search=None)).success
    array([ True])
    """

    delta: float = 0.1
    batch_size: int = 20
    step: str | None = None
    search: int | None = 32
    group: int = 8
    rounds: int = 2
    weight: float = 0.1
    resolution: int | None = None
    release: int = 20
    estimator: str | Central | LeaveOneOut = "loo"
    shape: tuple[int, ...] | None = None
    norm: str = "linf"
    radius: float = 0.2
    name: ClassVar[str] = "sign averaging"

    def __post_init__(self) -> None:
        self._check(
            self.delta,
            batch_size=self.batch_size,
            search=self.search,
            group=self.group,
            rounds=self.rounds,
            resolution=self.resolution,
            release=self.release,
        )
        arguments.optional_one_of("step", self.step, STEPS)
        arguments.keep(
            self,
            weight=arguments.positive("weight", self.weight),
            radius=arguments.positive("radius", self.radius),
        )

    @property
    def needs(self) -> Needs:
        return replace(super().needs, exact=True)

    def _ball(self, context: Context) -> Ball:
        """Return the ball around the original: what the attack says of it, else the settings."""
        region = context.project
        if isinstance(region, Region):
            return _ball(region.shape, region.norm, region.radius, self.search, self.rounds, self.group)
        if self.search is not None and self.shape is None:
            raise ValueError("A search needs the shape of the images: use the method in attack, or give shape=.")
        return _ball(self.shape or (), self.norm, self.radius, self.search, self.rounds, self.group)

    def init(self, x: Array, context: Context) -> SignState:
        region = context.project
        origin = region.center if isinstance(region, Region) else x.copy()  # x may be where another method ended
        state = SignState(x, origin=origin, dual=np.zeros(x.size))
        ball = self._ball(context)
        if ball.tiles is not None:
            state.dual = np.full(x.size, -self.weight)
            self._move(state, context, ball)
        return state

    def ask(self, state: SignState, context: Context, limit: int | None) -> Query | None:
        ball = self._ball(context)
        if not _searching(state, ball):
            return self._query([state.x], self.batch_size, context, limit, "estimate", self._draw(state, ball))
        if limit is not None and limit < 1:
            return None
        if math.isnan(state.best):
            corner = ball.corner(state.origin, state.dual)
            return Query(corner[None], aux=Batch(state.dual, 1, "start"), fresh=True)
        if state.joint is not None:
            corner = ball.corner(state.origin, state.joint)
            return Query(corner[None], aux=Batch(state.joint, 1, "joint"), fresh=True)
        tiles = ball.tiles
        place = state.place
        assert tiles is not None
        stop = tiles.stop(place) if limit is None else min(tiles.stop(place), place + limit)
        # in the l2 ball pixels hang together
        base = state.x if ball.norm == "linf" else ball.corner(state.origin, state.dual)
        points = np.empty((stop - place, base.size))
        points[:] = base
        pixels, entries = tiles.entries(place, stop)
        points.ravel()[entries] = state.opposite[pixels]
        return Query(points, aux=Batch(state.dual, 1, "tiles"), fresh=True)

    def tell(self, state: SignState, context: Context, query: Query, values: Array) -> Step:
        ball = self._ball(context)
        left = state.x
        dual = state.dual
        purpose = query.aux.purpose
        if purpose == "estimate":
            reading = self._read(state, context, query, values)
            if not reading.empty:
                self._average(state, reading.estimate())
        elif purpose == "tiles":
            _turn(state, ball, values)
        elif math.isnan(state.best) or values[0] < state.best:  # the start, or lower than the best tile alone
            state.dual = query.aux.w
            state.best = float(values[0])
        if purpose == "joint":
            state.joint = None
            state.changed = state.place
        if state.dual is not dual or not _searching(state, ball):
            self._move(state, context, ball)
        state.nit += 1
        return self._make_step(state, left) if state.n_estimates else state.make_step(left)

    def _average(self, state: SignState, estimate: Array) -> None:
        state.grad_norm = float(np.linalg.norm(estimate))
        if state.grad_norm > 0:
            state.dual = state.dual + estimate / state.grad_norm
        state.averaged += 1

    def _move(self, state: SignState, context: Context, ball: Ball) -> None:
        """Go from the origin to where G points."""
        dual = state.dual
        origin = state.origin
        length = ball.length(dual.size)
        searching = _searching(state, ball)
        step = self.step or ("sign" if ball.norm == "linf" else "euclidean")
        if step == "sign" or searching:
            move = length * np.sign(dual)
            if searching:
                state.opposite = origin + move
        else:
            norm = float(np.linalg.norm(dual)) or 1.0
            move = length * np.sqrt(dual.size) / norm * dual
        state.x = context.projected(origin - move, 0.0)
        state.step_size = length

    def _draw(self, state: SignState, ball: Ball) -> Draw | None:
        """Return how directions are drawn: constant on tiles until they are released."""
        if self.resolution is None or state.averaged >= self.release or not ball.shape:
            return None
        number = tiles(ball.shape, self.resolution)
        count = int(number.max()) + 1

        def coarse(rng: np.random.Generator, k: int, d: int) -> Array:
            w = rng.standard_normal((k, count))[:, number]
            return np.asarray(w / np.linalg.norm(w, axis=1, keepdims=True))

        return coarse


@dataclass(frozen=True)
class Ball:
    """The ball around an original, and the tiles of the search through it; None without a search."""

    shape: tuple[int, ...]
    norm: str
    radius: float
    tiles: CoarseToFine | None

    def length(self, d: int) -> float:
        """Return how far a corner lies from the origin in each pixel."""
        return self.radius if self.norm == "linf" else self.radius / float(np.sqrt(d))

    def corner(self, origin: Array, dual: Array) -> Array:
        """Return the corner of the ball to which G points."""
        return np.asarray(origin - self.length(dual.size) * np.sign(dual))


@lru_cache(maxsize=64)
def _ball(shape: tuple[int, ...], norm: str, radius: float, search: int | None, rounds: int, group: int) -> Ball:
    found = None if search is None else CoarseToFine(shape, search, rounds, group)
    return Ball(shape, norm, radius, found)


def _searching(state: SignState, ball: Ball) -> bool:
    """Whether the search goes on: not once every tile has been tried at the same signs."""
    tiles = ball.tiles
    if tiles is None or state.joint is not None:
        return tiles is not None
    return state.place < tiles.total and state.place - state.changed < tiles.round


def _turn(state: SignState, ball: Ball, values: Array) -> None:
    """Turn over the tile that lowers the loss most; if others do too, try all of them together next."""
    dual = state.dual
    tiles = ball.tiles
    assert tiles is not None
    lower = (values < state.best).nonzero()[0]
    if lower.size:
        first = int(lower[values[lower].argmin()])
        state.best = float(values[first])
        state.dual = _turned(dual, [tiles[state.place + first]])
        if lower.size > 1:
            state.joint = _turned(dual, [tiles[state.place + int(row)] for row in lower])
    state.place += len(values)
    state.changed = state.place if lower.size else state.changed
    state.value = state.best


def _turned(dual: Array, parts: list[npt.NDArray[np.intp]]) -> Array:
    """Return G with other signs on some tiles."""
    turned = dual.copy()
    for pixels in parts:
        turned[pixels] *= -1
    return turned
