"""Projections onto the sets that iterates must stay in.

A projection is a callable `project(x, margin=0.0)`: the nearest point of the set shrunk by `margin`, so that
x ± δw with ‖w‖ = 1 stays inside when the margin is δ. Any callable x -> x does too, without that promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds

from goldstein import arguments
from goldstein.oracle import Array
from goldstein.oracle.coordinates import Coordinates


@runtime_checkable
class Projection(Protocol):
    """A set that knows how to keep a margin."""

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        """Return the nearest point of the set that lies `margin` inside."""

    def holds(self, margin: float) -> bool:
        """Whether every point of the shrunk set really lies `margin` inside."""
        return margin == 0

    def scaled(self, scale: Array) -> Projection:
        """Return the same set in the coordinates x / scale."""
        return _Callable(self, scale)


@dataclass(frozen=True, eq=False)
class Box(Projection):
    """The box lower ≤ x ≤ upper; infinite sides allowed.

    Where a side is narrower than twice the margin, the iterate stays at its middle and x ± δw may leave the box;
    `minimize` refuses such a δ. Variables whose bounds are equal are no variables of its run.

    Parameters
    ----------
    lower, upper : array_like
        The bounds, ±inf where there is none; a number holds for all coordinates.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> gs.projection.Box(0.0, 1.0)(np.array([-2.0, 0.5, 3.0]), margin=0.25)
    array([0.25, 0.5 , 0.75])
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike

    def __post_init__(self) -> None:
        expected = "real numbers, ±inf where there is none"
        lower = arguments.reals("Lower bounds", self.lower, expected)
        upper = arguments.reals("Upper bounds", self.upper, expected)
        lower, upper = np.broadcast_arrays(lower, upper)
        if np.isnan(lower).any() or np.isnan(upper).any():
            raise ValueError("Bounds must not be NaN; use ±inf where there is none.")
        if (lower > upper).any():
            where = int(np.argmax(lower > upper))
            raise ValueError(
                f"Bounds are crossed: lower {lower.flat[where]} above upper {upper.flat[where]} at {where}."
            )
        if (lower == np.inf).any() or (upper == -np.inf).any():
            raise ValueError("Bounds must leave room for a finite point: no lower bound is inf and no upper one -inf.")
        arguments.keep(self, lower=lower, upper=upper)

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        lower, upper = self._inwards(margin)
        narrow = lower > upper
        if narrow.any():
            middle = np.where(narrow, self.lower, 0.0) / 2 + np.where(narrow, self.upper, 0.0) / 2
            lower = np.where(narrow, middle, lower)
            upper = np.where(narrow, middle, upper)
        return np.clip(x, lower, upper)

    def bounds(self, d: int) -> tuple[Array, Array]:
        """Return both bounds of each of d coordinates."""
        return np.full(d, self.lower, float), np.full(d, self.upper, float)

    def _inwards(self, margin: float) -> tuple[Array, Array]:
        """Return the bounds moved inwards, by a little more than the margin so that rounding cannot leave the box."""
        lower = np.asarray(self.lower)
        upper = np.asarray(self.upper)
        if margin == 0:
            return lower, upper
        slack = 8 * np.finfo(float).eps
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite bound stays infinite
            return (
                lower + (margin + slack * np.where(np.isfinite(lower), np.abs(lower) + margin, 0.0)),
                upper - (margin + slack * np.where(np.isfinite(upper), np.abs(upper) + margin, 0.0)),
            )

    def holds(self, margin: float) -> bool:
        lower, upper = self._inwards(margin)
        return bool((lower <= upper).all())

    def scaled(self, scale: Array) -> Box:
        return Box(np.asarray(self.lower) / scale, np.asarray(self.upper) / scale)


def linf_ball(
    center: npt.ArrayLike, radius: float, lower: npt.ArrayLike = -np.inf, upper: npt.ArrayLike = np.inf
) -> Box:
    """Return the `Box` of points within `radius` of `center` in every coordinate, cut to lower ≤ x ≤ upper.

    Parameters
    ----------
    center : array_like, shape (d,)
        The middle.
    radius : float
        Largest change of a coordinate.
    lower, upper : array_like, optional
        Bounds that hold besides.
    """
    radius = _length("radius", radius)
    middle = arguments.reals("center", center, "a vector of real numbers")
    return Box(np.maximum(middle - radius, lower), np.minimum(middle + radius, upper))


@dataclass(frozen=True, eq=False)
class L2Ball(Projection):
    """The points within `radius` of `center` in Euclidean distance.

    Parameters
    ----------
    center : array_like, shape (d,)
        The middle.
    radius : float
        The radius.
    """

    center: npt.ArrayLike
    radius: float

    def __post_init__(self) -> None:
        center = arguments.reals("center", self.center, "a vector of real numbers")
        arguments.keep(self, center=center, radius=_length("radius", self.radius))

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        offset = x - np.asarray(self.center)
        length = float(np.linalg.norm(offset))
        radius = max(self.radius - margin, 0.0)
        return x if length <= radius else np.asarray(self.center + offset * (radius / length))

    def holds(self, margin: float) -> bool:
        return self.radius >= margin


@dataclass(frozen=True, eq=False)
class Simplex(Projection):
    """The points with x ≥ 0 and Σx = total; it has no inside, so x ± δw leaves it by δ.

    Parameters
    ----------
    total : float, optional
        What the coordinates add up to.
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        arguments.keep(self, total=arguments.positive("total", self.total))

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        ordered = np.sort(x)[::-1]
        excess = (np.cumsum(ordered) - self.total) / np.arange(1, x.size + 1)
        return np.asarray(np.maximum(x - excess[np.nonzero(ordered > excess)[0][-1]], 0.0))


@dataclass(frozen=True, eq=False)
class Knapsack(Projection):
    """The points with x ≥ 0 and weights·x ≤ total.

    Where the margin does not fit, the iterate stays at the point that keeps the largest one that does.

    Parameters
    ----------
    weights : array_like, shape (d,)
        Positive numbers.
    total : float, optional
        What weights·x may be at most.
    """

    weights: npt.ArrayLike
    total: float = 1.0

    def __post_init__(self) -> None:
        weights = arguments.point("weights", self.weights)
        if not (weights > 0).all():
            raise ValueError(f"weights must be positive numbers, got {arguments.shown(self.weights)}.")
        arguments.keep(self, weights=weights, total=arguments.positive("total", self.total))

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        weights = np.asarray(self.weights)
        slack = 1 + 8 * np.finfo(float).eps  # so that rounding cannot leave the set
        inwards = min(margin * slack, self.total / _room_for_one(weights))
        return inwards + _knapsack(x - inwards, weights, self.total - inwards * slack * _room_for_one(weights))

    def holds(self, margin: float) -> bool:
        return margin * _room_for_one(np.asarray(self.weights)) <= self.total

    def scaled(self, scale: Array) -> Knapsack:
        return Knapsack(np.asarray(self.weights) * scale, self.total)


def _room_for_one(weights: Array) -> float:
    """Return how much of the total a margin of 1 takes: at the bounds x ≥ 0, and at the face weights·x = total."""
    return float(weights.sum() + np.linalg.norm(weights))


def _knapsack(x: Array, weights: Array, total: float) -> Array:
    """Return the nearest point with x ≥ 0 and weights·x ≤ total."""
    inside = np.maximum(x, 0.0)
    if weights @ inside <= total:
        return inside
    if total <= 0:
        return np.zeros_like(x)
    ratio = x / weights
    order = np.argsort(-ratio)  # coordinates leave the face in this order as the multiplier falls
    ordered = weights[order]
    multipliers = (np.cumsum(ordered * x[order]) - total) / np.cumsum(ordered**2)
    last = np.flatnonzero(ratio[order] > multipliers)[-1:]
    multiplier = multipliers[last[0]] if last.size else multipliers[0]
    nearest = np.maximum(x - multiplier * weights, 0.0)
    return np.asarray(nearest * min(1.0, total / (weights @ nearest) * (1 - 8 * np.finfo(float).eps)))


@dataclass(frozen=True, eq=False)
class _Callable(Projection):
    """A user's own projection x -> x, with x / scale as coordinates."""

    project: Callable[[Array], Any]
    scale: Array | None = None

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        answer = self.project(x.copy() if self.scale is None else x * self.scale)  # it may work in place
        out = arguments.reals("What projection returns", answer, "a vector of real numbers")
        if out.shape != x.shape:
            raise ValueError(f"projection returned shape {out.shape} for a point of shape {x.shape}.")
        if not np.isfinite(out).all() and np.isfinite(x).all():
            raise ValueError(f"projection returned {arguments.shown(out)} for a finite point.")
        return out if self.scale is None else out / self.scale

    def scaled(self, scale: Array) -> Projection:
        return _Callable(self.project, scale)


def _length(name: str, value: Any) -> float:
    """Return a positive number that may be infinite."""
    return arguments.number(name, value, "a positive number", lambda number: number > 0)


def as_projection(bounds: Any, projection: Any, d: int) -> Projection | None:
    """Read the `bounds` and `projection` arguments of `minimize`; None when the whole space is allowed."""
    if bounds is not None and projection is not None:
        raise ValueError("Give bounds or projection, not both: a Box is a projection too.")
    if bounds is not None:
        return _box(bounds, d)
    if projection is None:
        return None
    if isinstance(projection, Projection):
        for name in ("lower", "center", "weights"):
            size = np.size(getattr(projection, name, 0.0))
            if size not in (1, d):
                raise ValueError(f"The projection is for {size} coordinates, but x0 has {d}.")
        return projection
    if not callable(projection):
        raise TypeError(f"projection must be a callable x -> x, got {type(projection).__name__}.")
    return _Callable(projection)


def _box(bounds: Any, d: int) -> Box:
    if isinstance(bounds, Bounds):
        box = Box(bounds.lb, bounds.ub)
    else:
        pairs = list(bounds) if isinstance(bounds, Iterable) and not np.ma.is_masked(bounds) else []
        if len(pairs) != d or any(np.size(pair) != 2 for pair in pairs):
            raise ValueError(f"bounds must be a scipy Bounds or {d} pairs (lower, upper), one for each coordinate.")
        box = Box(
            [-np.inf if low is None else low for low, _ in pairs],
            [np.inf if high is None else high for _, high in pairs],
        )
    if np.shape(box.lower) not in ((), (1,), (d,)):
        raise ValueError(f"bounds have {np.size(box.lower)} entries for {d} coordinates.")
    return box


def coordinates_of(x: Array, scale: Array | None, allowed: Projection | None) -> Coordinates | None:
    """Return the coordinates of a run from x: without what bounds fix, and in units of `scale`; None: x as it is."""
    if not isinstance(allowed, Box):
        return None if scale is None else Coordinates(x, scale=scale)
    lower, upper = bounds = allowed.bounds(x.size)
    free = np.flatnonzero(lower < upper)
    if free.size == x.size:
        return None if scale is None else Coordinates(x, scale=scale, bounds=bounds)
    return Coordinates(np.clip(x, lower, upper), free, None if scale is None else scale[free], bounds)


def in_coordinates(allowed: Projection | None, coordinates: Coordinates | None) -> Projection | None:
    """Return an allowed set in the coordinates of a run; None: the run may go everywhere."""
    if allowed is None or coordinates is None:
        return allowed
    if not isinstance(allowed, Box):
        return allowed if coordinates.scale is None else allowed.scaled(coordinates.scale)
    lower, upper = map(coordinates.inside, allowed.bounds(coordinates.whole.size))
    if coordinates.free is not None and np.isinf(lower).all() and np.isinf(upper).all():
        return None
    return Box(lower, upper)


def as_plain_data(projection: Projection | None) -> Any:
    """Return a set as plain data: its name and its numbers."""
    if projection is None:
        return None
    plain: dict[str, Any] = {"kind": type(projection).__name__}
    for name in ("lower", "upper", "center", "radius", "weights", "total"):
        number = getattr(projection, name, None)
        if number is not None:
            plain[name] = np.asarray(number).tolist()
    project = getattr(projection, "project", None)
    if project is not None:
        plain["callable"] = getattr(project, "__qualname__", type(project).__name__)
    return plain
