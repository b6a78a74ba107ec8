"""The images that an attack may use: within a radius of the original, and with pixels in range.

The set is exact for the float32 images that the model sees and the user gets: |x − z| ≤ radius holds as NumPy evaluates
it, in single and in double precision.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.oracle import Array
from goldstein.projection import Projection

NORMS = ("linf", "l2")
ROUNDING = 4e-6  # relative error of a Euclidean norm of few pixels that is computed in float32, twice
TERM = 2.0**-24 / 16  # what each pixel adds to it, twice: a dot product has 16 running sums or more
PIXEL = 2.0**-22  # relative error of a pixel in float32, twice; it may also be moved to the next number within bounds
LARGEST = float(np.finfo(np.float32).max)

Rows = npt.NDArray[np.float32]


class Region:
    """The allowed images around one original.

    It is also the projection that keeps iterates in it. Queries around an iterate are projected too (`rows`), so it
    needs no margin: outside, the loss is extended by its value at the nearest allowed image. All but `shape` is flat:
    `center` is the original, `lower` and `upper` are the range of each pixel (for ℓ2 from the bounds alone), `start` is
    the allowed image next to the original, and `reach` how far each pixel of a corner of the ball is from it.
    """

    def __init__(self, image: npt.NDArray[Any], norm: str, radius: float, bounds: tuple[float, float]) -> None:
        self.norm = norm
        self.radius = float(radius)
        self.shape = image.shape
        image = image.ravel()
        self.center = image.astype(np.float64)
        self.reach = reach = self.radius
        if norm == "l2":
            self.reach = self.radius / math.sqrt(image.size)
            reach = np.inf
        with np.errstate(over="ignore", invalid="ignore"):  # pixels beyond float32, which are refused
            single = image.astype(np.float32)
            self.upper = _inwards(single, self.center, reach, bounds[1])
            self.lower = -_inwards(-single, -self.center, reach, -bounds[0])
        self.start: Rows = np.where(single < self.lower, self.lower, np.where(single > self.upper, self.upper, single))
        away = 0.0
        if norm == "l2":
            size = self.center.size
            values = float(np.abs(self.center).max(initial=0.0)) + self.radius  # no allowed pixel is larger
            self._slack = (ROUNDING + TERM * size) * self.radius + PIXEL * float(np.sqrt(size)) * values
            with np.errstate(over="ignore"):
                away = float(np.linalg.norm(self.start - self.center))
        if away > self.radius or not (self.lower <= self.upper).all():
            raise ValueError(
                f"No float32 image lies within {self.radius:g} of the original and in [{bounds[0]:g}, {bounds[1]:g}]: "
                "use a larger radius, or float32 images."
            )

    def __call__(self, x: Array, margin: float = 0.0) -> Array:
        """Return the allowed image next to x."""
        if self.norm == "linf":
            return np.asarray(np.minimum(np.maximum(x, self.lower), self.upper))
        return np.asarray(self._near(x[None])[0])

    def corner(self, signs: Array) -> Array:
        """Return the corner of the ball opposite to these signs."""
        return np.asarray(self.center - self.reach * np.sign(signs))

    def rows(self, points: Array) -> Rows:
        """Return each row as the allowed image next to it, in float32."""
        if self.norm == "l2":
            points = self._near(points)
        rows = points.astype(np.float32)
        np.maximum(rows, self.lower, out=rows)  # np.clip takes three times as long
        return np.minimum(rows, self.upper, out=rows)

    def holds(self, margin: float) -> bool:
        """Whether queries `margin` away stay inside: they are projected."""
        return True

    def scaled(self, scale: Array) -> Projection:
        """Refuse: an attack works in pixels."""
        raise TypeError("The region of an attack is in pixels and cannot be scaled.")

    def _near(self, points: Array) -> Array:
        """Project rows onto ball ∩ box: clip(z + t·(x − z)) with the largest t ≤ 1 that lies in the ball."""
        move = points - self.center
        room = np.maximum(np.where(move > 0, self.upper - self.center, self.center - self.lower), 0.0)
        length = np.abs(move)
        radius, edge = max(self.radius - self._slack, 0.0), max(self.radius - self._slack / 2, 0.0)
        inside = np.minimum(length, room)
        far = np.einsum("ij,ij->i", inside, inside) > edge**2  # beyond the radius, so that twice is once
        share = np.ones(len(points))
        for row in np.flatnonzero(far):
            share[row] = _share(length[row], room[row], radius)
        return np.asarray(np.clip(self.center + share[:, None] * move, self.lower, self.upper))


def _inwards(single: Rows, exact: Array, reach: float, bound: float) -> Rows:
    """Return the largest float32 numbers that lie at most `reach` above the pixels, and not above `bound`."""
    upper = np.minimum(exact + reach, min(bound, LARGEST)).astype(np.float32)
    few, wrong = upper, _beyond(upper, single, exact, reach, bound)
    places = np.flatnonzero(wrong)
    while places.size:
        few, single, exact = few[wrong], single[wrong], exact[wrong]
        few = few - np.spacing(np.maximum(np.abs(few), np.abs(single)))  # what the difference is exact to
        upper[places] = few
        wrong = _beyond(few, single, exact, reach, bound)
        places = places[wrong]
    return upper


def _beyond(upper: Rows, single: Rows, exact: Array, reach: float, bound: float) -> npt.NDArray[np.bool_]:
    """Return which numbers lie too far above the pixels, in single or in double precision, or above `bound`."""
    wrong = np.maximum(upper - single, upper - exact) > reach
    wrong |= upper > np.float64(bound)
    return np.asarray(wrong)


def _share(length: Array, room: Array, radius: float) -> float:
    """Solve Σ min(t·length_i, room_i)² = radius² for t."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        full = np.where(length > 0, room / length, np.inf)  # the t at which a pixel meets its bound
    order = np.argsort(full)
    met = np.concatenate([[0.0], np.cumsum(room[order] ** 2)[:-1]])
    free = np.cumsum((length[order] ** 2)[::-1])[::-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        t = np.sqrt(np.maximum(radius**2 - met, 0.0) / free)
    return float(t[np.argmax(t <= full[order])])
