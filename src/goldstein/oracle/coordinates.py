"""The coordinates of a run: the variables that are free to move, each in its own unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldstein.oracle.stats import Array

Bounds = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """How the points of a run lie in the user's space.

    Examples
    --------
    >>> import numpy as np
    >>> held = Coordinates(np.array([1.0, 7.0, 3.0]), free=np.array([0, 2]), scale=np.array([10.0, 1.0]))
    >>> held.inside(held.whole)
    array([0.1, 3. ])
    >>> held.outside(np.array([0.2, 4.0]))
    array([2., 7., 4.])
    """

    whole: Array  # a point of the user's, from which the variables that do not move are taken
    free: npt.NDArray[np.intp] | None = None  # the places of those that do; None: all
    scale: Array | None = None  # what is 1 inside the run, for each of these; None: 1
    bounds: Bounds | None = None  # of all variables; what rounding would take out of them is moved back

    def inside(self, x: Array) -> Array:
        """Return a point of the user's, as the run sees it."""
        moving = x if self.free is None else x[self.free]
        return moving if self.scale is None else moving / self.scale

    def outside(self, points: Array) -> Array:
        """Return a point of the run, or several of shape (k, …), as the user sees them; a copy."""
        moving = points.copy() if self.scale is None else points * self.scale
        if self.free is None:
            out = moving
        else:
            out = np.tile(self.whole, (*points.shape[:-1], 1)) if points.ndim > 1 else self.whole.copy()
            out[..., self.free] = moving
        return out if self.bounds is None else np.clip(out, *self.bounds, out=out)

    def slopes(self, gradients: Array) -> Array:
        """Return the user's gradients, one a row, as the run sees them."""
        moving = gradients if self.free is None else gradients[:, self.free]
        return moving if self.scale is None else moving * self.scale
