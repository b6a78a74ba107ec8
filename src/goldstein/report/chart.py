"""Charts as SVG text: lines, a band and a point with its error, on linear or logarithmic axes.

Colours are those of the page around it (`currentColor` and classes), so that one picture serves light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from goldstein.oracle import Array
from goldstein.report.curves import is_logarithmic

WIDTH = 720
LEFT = 64  # room for the numbers of the vertical axis
RIGHT = 16
TOP = 12
BOTTOM = 40  # room for the numbers of the horizontal axis and its name
EARLY = 10  # the first tenth of a run may lie off a linear axis,
TALL = 5.0  # if that makes the rest five times taller
LARGEST = 8e307  # an axis ends here, so that its length is a float,
SMALLEST = 1e-300  # and is not shorter than this
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True)
class Line:
    """A curve, broken where y is not finite; its look is "main", "faint" or "dots"."""

    x: Array
    y: Array
    name: str
    look: str = "main"


@dataclass(frozen=True)
class Band:
    """What lies between two curves."""

    x: Array
    low: Array
    high: Array
    name: str


@dataclass(frozen=True)
class Point:
    """A point with its error to both sides; 0 or NaN: none is drawn."""

    x: float
    y: float
    error: float
    name: str


@dataclass(frozen=True)
class Chart:
    """A picture of a run against its evaluations."""

    name: str  # of the vertical axis
    description: str  # the picture in words, for those who do not see it
    lines: Sequence[Line]
    band: Band | None = None
    point: Point | None = None
    marks: Sequence[float] = ()  # evaluations at which something was chosen; numbered from 1
    height: int = 300  # where the width is 720

    def svg(self, key: str) -> str:
        """Return the picture as SVG; `key` sets the ids of this one apart from those of others on the page."""
        across = Axis.over(_finite([*(line.x for line in self.lines), [0.0]]), LEFT, WIDTH - RIGHT)
        up = self._vertical()
        parts = [
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="{key}-t {key}-d">',
            f'<title id="{key}-t">{escape(self.name)}</title><desc id="{key}-d">{escape(self.description)}</desc>',
            *_grid(across, up, self.height),
        ]
        if self.band is not None:
            parts.append(_area(self.band, across, up))
        for number, place in enumerate(self.marks, 1):
            x = across(place)
            parts.append(f'<path class="mark" d="M{x:.1f} {TOP}V{self.height - BOTTOM}"/>')
            parts.append(f'<text x="{x + 4:.1f}" y="{TOP + 11}">{number}</text>')
        parts.extend(_curve(line, across, up) for line in self.lines)
        if self.point is not None:
            parts.append(_point(self.point, across, up))
        parts.append("</svg>")
        return "\n".join(parts)

    @property
    def title(self) -> str:
        """What is on the vertical axis, and how."""
        return f"{self.name}, on a logarithmic axis" if self._vertical().log else self.name

    def legend(self) -> list[tuple[str, str]]:
        """Return the classes and the names of what is drawn."""
        named = [(line.look, line.name) for line in self.lines]
        if self.band is not None:
            named.append(("band", self.band.name))
        if self.point is not None:
            named.append(("point", self.point.name))
        return named

    def _vertical(self) -> Axis:
        curves: list[Any] = [line.y for line in self.lines]
        if self.band is not None:
            curves += [self.band.low, self.band.high]
        if self.point is not None:
            curves.append([self.point.y])
        bottom = self.height - BOTTOM
        values = _finite(curves)
        if is_logarithmic(values):
            return Axis.over(values[values > 0], bottom, TOP, log=True)
        if self.point is not None:
            error = float(np.nan_to_num(self.point.error))
            y = float(self.point.y)
            curves.append(np.clip([y - error, y + error], -LARGEST, LARGEST))
        late = _finite(y[len(y) // EARLY :] if len(y) > EARLY else y for y in curves)
        early_is_wild = 0 < TALL * _span(late) < _span(values)
        return Axis.over(late if early_is_wild else _finite(curves), bottom, TOP)


@dataclass(frozen=True)
class Axis:
    """From numbers to places in the picture."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    @classmethod
    def over(cls, values: Array, start: float, end: float, *, log: bool = False) -> Axis:
        """Return an axis on which finite values have their places."""
        if not values.size:
            return cls(0.0, 1.0, start, end, False)
        if log:
            return cls(math.log10(values.min()), math.log10(values.max()), start, end, True)
        low, high = np.clip([values.min(), values.max()], -LARGEST, LARGEST).tolist()
        if not high - low > max(1e-12 * max(abs(low), abs(high)), SMALLEST):
            room = abs(low) / 10 if abs(low) > SMALLEST else 1.0
            low -= room
            high += room
        return cls(low, high, start, end, False)

    def __call__(self, value: float) -> float:
        """Return the place of a number; what lies outside has its place at the edge."""
        if self.log:
            value = math.log10(value) if value > 0 else -math.inf
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return round numbers on the axis."""
        if not self.log:
            return _round_numbers(self.low, self.high)
        decades = range(math.ceil(self.low - 1e-9), math.floor(self.high + 1e-9) + 1)
        if len(decades) >= 3:
            step = math.ceil(len(decades) / 7)
            return [10.0**power for power in decades if power % step == 0]
        several = [first * 10.0**power for power in range(decades.start - 1, decades.stop) for first in (1, 2, 5)]
        inside = [tick for tick in several if tick > 0 and self.low <= math.log10(tick) <= self.high]
        return inside[:: math.ceil(len(inside) / 6) or 1]


def _finite(curves: Iterable[Any]) -> Array:
    """Return the finite values of all curves."""
    values = np.concatenate([np.zeros(0), *(np.asarray(curve, float) for curve in curves)])
    return np.asarray(values[np.isfinite(values)])


def _span(values: Array) -> float:
    """Return the distance of the largest and the smallest value, finite."""
    if not values.size:
        return 0.0
    return float(min(values.max(), LARGEST)) - float(max(values.min(), -LARGEST))


def _round_numbers(low: float, high: float) -> list[float]:
    """Return four to nine round numbers between two others."""
    rough = (high - low) / 6
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def short(value: float) -> str:
    """Return a number of evaluations in few letters, 1,500 as 1.5k."""
    for size, letter in UNITS:
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _grid(across: Axis, up: Axis, height: int) -> list[str]:
    parts = []
    bottom = height - BOTTOM
    for tick in up.ticks():
        y = up(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.6g}</text>')
    for tick in across.ticks():
        x = across(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {bottom}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{height - 4}" text-anchor="middle">evaluations</text>')
    return parts


def _curve(line: Line, across: Axis, up: Axis) -> str:
    path = _path(line.x, line.y, across, up)
    if line.look == "dots":
        path = "".join(f"M{place}h0" for place in path.replace("L", "M").split("M")[1:])
    return f'<path class="{line.look}" d="{path}"/>'


def _path(xs: Array, ys: Array, across: Axis, up: Axis) -> str:
    path = ""
    pen = "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isfinite(y):
            path += f"{pen}{across(x):.1f} {up(y):.1f}"
            pen = "L"
        else:
            pen = "M"
    return path


def _area(band: Band, across: Axis, up: Axis) -> str:
    fine = np.isfinite(band.low) & np.isfinite(band.high)
    there = _path(band.x[fine], band.high[fine], across, up)
    back = _path(band.x[fine][::-1], band.low[fine][::-1], across, up).replace("M", "L", 1)
    return f'<path class="band" d="{there}{back}Z"/>' if there else ""


def _point(point: Point, across: Axis, up: Axis) -> str:
    if not math.isfinite(point.y):
        return ""
    x = across(point.x)
    circle = f'<circle class="point" cx="{x:.1f}" cy="{up(point.y):.1f}" r="4"/>'
    if not point.error > 0:
        return circle
    error = min(float(point.error), LARGEST)
    y = float(point.y)  # whose sum with the error may be infinite, without a warning
    ends = f"M{x:.1f} {up(y - error):.1f}V{up(y + error):.1f}"
    return f'<path class="main" d="{ends}"/>{circle}'
