"""A search for signs from coarse to fine, then dual averaging: the library's default method for attacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from goldstein import retired
from goldstein.attack.region import Region
from goldstein.attack.tiles import CoarseToFine
from goldstein.estimate.smoothing import Central, LeaveOneOut
from goldstein.methods.method import Context, Needs, Step
from goldstein.methods.zeroth_order import Batch, SmoothedState, ZerothOrder
from goldstein.oracle import Array, Query

ROUNDS = 2  # how often the search goes from coarse to fine before averaging begins
WEIGHT = 0.1  # size of the entries that G starts with after a search; a unit estimate has entries of about 1/√d


@dataclass
class SignState(SmoothedState):
    """State of `SignAveraging`."""

    dual: Array = field(default_factory=lambda: np.empty(0))  # G, the sum of the unit estimates
    best: float = np.nan  # the value at x during the search
    tried: int = 0  # tiles so far
    changed: int = 0  # how many were tried when a sign was last changed
    joint: Array | None = None  # the G that changes several tiles at once, to be tried next


@retired.fields("step", "rounds", "weight", "resolution", "release", "shape", "norm", "radius")
@dataclass(frozen=True)
class SignAveraging(ZerothOrder):
    """Dual averaging that knows the ball: x = proj(z − κ sign(G)), G the running sum of unit-normalised estimates.

    A linear function has its minimum over an ℓ∞ ball at a corner, so the step goes there at once, and what is averaged
    is the gradient. Before that comes a search from coarse to fine: signs of whole tiles of the image are changed
    where that lowers the loss, and G starts from these signs. Every image that is asked for can be the answer. In an ℓ2
    ball averaging takes the step κ G/‖G‖. The method works in `attack` only.

    Parameters
    ----------
    delta : float, optional
        Smoothing radius δ of the estimates, in pixels.
    batch_size : int, optional
        Directions in an estimate.
    search : int or None, optional
        Tiles a side at which the search ends; it goes through 1, 2, 4, … None: no search.
    group : int, optional
        Most tiles that the search tries at one iterate; at most a sixteenth of the grid's, so that coarse grids are
        searched tile by tile. Those that lower the loss are then changed together, unless that is worse than the best
        of them alone.
    estimator : {"loo", "central"}, optional
        One value for each direction compared with their mean, or two.
    directions : {"iid", "orthogonal"}, optional
        As in `GFM`.

    Notes
    -----
    Most images are won by the search; averaging continues when no sign is left to change. The search is a relative of
    SignHunter, with square tiles in the place of halves of the pixel list, several tiles to an iterate, and a second
    round.

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
    search: int | None = 32
    group: int = 8
    estimator: str | Central | LeaveOneOut = "loo"
    name: ClassVar[str] = "sign averaging"

    def __post_init__(self) -> None:
        self._check("batch_size", "search", "group")

    @property
    def needs(self) -> Needs:
        return replace(super().needs, exact=True)

    def _region(self, context: Context) -> Region:
        """Return the ball around the original."""
        if not isinstance(context.project, Region):
            raise ValueError("SignAveraging works on images in a ball: use it as the method of goldstein.attack.")
        return context.project

    def _tiles(self, region: Region) -> CoarseToFine | None:
        """Return the tiles of the search; None: no search."""
        return None if self.search is None else _tiles(region.shape, self.search, self.group)

    def init(self, x: Array, context: Context) -> SignState:
        region = self._region(context)
        if self.search is None:
            return SignState(x, dual=np.zeros(x.size))
        state = SignState(x, dual=np.full(x.size, -WEIGHT))
        self._move(state, context, region)
        return state

    def ask(self, state: SignState, context: Context, limit: int | None) -> Query | None:
        region = self._region(context)
        tiles = self._tiles(region)
        if tiles is None or not _searching(state, tiles):
            return self._query([state.x], self.batch_size, context, limit, "estimate")
        if limit is not None and limit < 1:
            return None
        if math.isnan(state.best):
            return Query(region.corner(state.dual)[None], aux=Batch(state.dual, 1, "start"), fresh=True)
        if state.joint is not None:
            return Query(region.corner(state.joint)[None], aux=Batch(state.joint, 1, "joint"), fresh=True)
        stop = tiles.stop(state.tried)
        if limit is not None:
            stop = min(stop, state.tried + limit)
        # projected onto an l2 ball, a corner depends on all pixels
        base = state.x if region.norm == "linf" else region.corner(state.dual)
        points = np.empty((stop - state.tried, base.size))
        points[:] = base
        pixels, entries = tiles.entries(state.tried, stop)
        points.ravel()[entries] = region.center[pixels] + region.reach * np.sign(state.dual[pixels])
        return Query(points, aux=Batch(state.dual, 1, "tiles"), fresh=True)

    def tell(self, state: SignState, context: Context, query: Query, values: Array) -> Step:
        region = self._region(context)
        tiles = self._tiles(region)
        previous = state.x
        dual = state.dual
        purpose = query.aux.purpose
        if purpose == "estimate":
            reading = self._read(state, context, query, values)
            if not reading.empty:
                _average(state, reading.estimate())
        elif purpose == "tiles":
            assert tiles is not None
            _change_signs(state, tiles, values)
        elif math.isnan(state.best) or values[0] < state.best:  # the start, or lower than the best tile alone
            state.dual = query.aux.w
            state.best = float(values[0])
        if purpose == "joint":
            state.joint = None
            state.changed = state.tried
        if state.dual is not dual or tiles is None or not _searching(state, tiles):
            self._move(state, context, region)
        state.nit += 1
        return self._make_step(state, previous) if state.n_estimates else state.make_step(previous)

    def _move(self, state: SignState, context: Context, region: Region) -> None:
        """Go from the original to where G points."""
        tiles = self._tiles(region)
        if region.norm == "linf" or (tiles is not None and _searching(state, tiles)):
            x = region.corner(state.dual)
        else:
            norm = float(np.linalg.norm(state.dual)) or 1.0
            x = region.center - region.reach * np.sqrt(state.dual.size) / norm * state.dual
        state.x = context.projected(x, 0.0)
        state.step_size = region.reach


@lru_cache(maxsize=64)
def _tiles(shape: tuple[int, ...], search: int, group: int) -> CoarseToFine:
    return CoarseToFine(shape, search, ROUNDS, group)


def _searching(state: SignState, tiles: CoarseToFine) -> bool:
    """Whether the search continues: until every tile has been tried at the same signs."""
    if state.joint is not None:
        return True
    return state.tried < tiles.total and state.tried - state.changed < tiles.round


def _average(state: SignState, estimate: Array) -> None:
    state.grad_norm = float(np.linalg.norm(estimate))
    if state.grad_norm > 0:
        state.dual = state.dual + estimate / state.grad_norm


def _change_signs(state: SignState, tiles: CoarseToFine, values: Array) -> None:
    """Change the tile that lowers the loss most; if others do too, try all of them together next."""
    dual = state.dual
    lower = (values < state.best).nonzero()[0]
    parts = [tiles[state.tried + int(row)] for row in lower]
    state.tried += len(values)
    if parts:
        first = int(values[lower].argmin())
        state.best = float(values[lower[first]])
        state.dual = _flipped(dual, parts[first : first + 1])
        state.changed = state.tried
    if len(parts) > 1:
        state.joint = _flipped(dual, parts)
    state.value = state.best


def _flipped(dual: Array, parts: list[npt.NDArray[np.intp]]) -> Array:
    """Return G with other signs on some tiles."""
    flipped = dual.copy()
    for pixels in parts:
        flipped[pixels] *= -1
    return flipped
