"""Inverse Hessians learnt from steps: a whole matrix, or the last few pairs that would have made it.

Both hold H with H y = s for the last step s and the change y of the gradient along it, and stay positive definite as
long as s·y > 0. `reset` makes H a multiple of the identity again, which the first pair scales to its own size.

BFGS mends an H that is too large within a few steps, and one that is too small only slowly. So before a pair is taken
in, H grows by s·y / y·Hy if that is above 1 (Oren and Luenberger 1974; upwards only: Al-Baali 1998): a start on a steep
wall is forgotten. Scaling downwards at every pair, as the limited form does for smooth functions, would take H out of
the directions along which f has no kinks (Asl and Overton 2020).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goldstein.norms import norm
from goldstein.oracle import Array
from goldstein.state import State


@dataclass
class DenseInverseHessian(State):
    """H as a matrix, d² numbers."""

    scale: float = 1.0  # H is scale · I while there is no matrix
    matrix: Array | None = None  # H once a step was learnt

    def reset(self, scale: float) -> None:
        """Make H = scale · I."""
        self.scale = scale
        self.matrix = None

    @property
    def is_identity(self) -> bool:
        """Whether nothing was learnt since H was a multiple of the identity."""
        return self.matrix is None

    def dot(self, v: Array) -> Array:
        return self.scale * v if self.matrix is None else self.matrix @ v

    def update(self, s: Array, y: Array) -> None:
        """Take in a step s and the change y of the gradient along it, s·y > 0 (Nocedal and Wright 2006, eq. 6.17)."""
        if self.matrix is None:
            self.scale = first_scale(s, y)
            self.matrix = self.scale * np.eye(s.size)
        Hy = self.matrix @ y
        more = growth(s, y, Hy)
        if more > 1:
            self.matrix *= more
            Hy *= more
        rho = 1 / float(s @ y)
        cross = np.outer(rho * s, Hy)
        self.matrix -= cross
        self.matrix -= cross.T
        self.matrix += np.outer((rho + rho * float(y @ Hy) * rho) * s, s)


@dataclass
class LBFGS(State):
    """H from the last pairs (s, y), 2 · max_pairs · d numbers."""

    max_pairs: int  # pairs that are kept
    scale: float = 1.0  # H is scale · I before the pairs are taken in
    S: Array | None = None  # S, Y: shape (k, d): the pairs, oldest first
    Y: Array | None = None

    def reset(self, scale: float) -> None:
        self.scale = scale
        self.S = None
        self.Y = None

    @property
    def is_identity(self) -> bool:
        return self.S is None

    def dot(self, v: Array) -> Array:
        """Return H v by the two loops (Nocedal and Wright 2006, Algorithm 7.4)."""
        if self.S is None or self.Y is None:
            return self.scale * v
        pairs = list(zip(self.S, self.Y, strict=True))
        q = v.copy()
        weights = []
        for s, y in reversed(pairs):
            weight = float(s @ q) / float(s @ y)
            q -= weight * y
            weights.append(weight)
        r = self.scale * q
        for (s, y), weight in zip(pairs, reversed(weights), strict=True):
            r += (weight - float(y @ r) / float(s @ y)) * s
        return r

    def update(self, s: Array, y: Array) -> None:
        """Take in a step s and the change y of the gradient along it, s·y > 0; the oldest pair goes."""
        if self.S is None or self.Y is None:
            self.scale = first_scale(s, y)
            self.S = s[None].copy()
            self.Y = y[None].copy()
        else:
            self.scale *= growth(s, y, self.dot(y))
            self.S = np.concatenate([self.S, s[None]])[-self.max_pairs :]
            self.Y = np.concatenate([self.Y, y[None]])[-self.max_pairs :]


def first_scale(s: Array, y: Array) -> float:
    """Return s·y / y·y, the size of H along y (Nocedal and Wright 2006, eq. 6.20)."""
    size = norm(y)
    return float(s @ (y / size)) / size


def growth(s: Array, y: Array, Hy: Array) -> float:
    """Return by which factor H is too small along y; 1 if it is not."""
    return max(1.0, float(s @ y) / float(y @ Hy))


InverseHessian = DenseInverseHessian | LBFGS
