"""Maxima of quadratics, q_j(x) = ½ x·H_j x + g_j·x + c_j: the pieces of many nonsmooth test problems.

H has shape (m, d, d), g (m, d) and c (m,); with a further leading axis of g each row of X has slopes of its own.
"""

from __future__ import annotations

import numpy as np

from goldstein.oracle import Array


def pieces(X: Array, H: Array, g: Array, c: Array) -> Array:
    """Return q_j(X_k), shape (k, m)."""
    slopes = _slopes(X, H)
    return np.asarray(((slopes / 2 + g) * X[:, None, :]).sum(axis=2) + c)


def largest(X: Array, H: Array, g: Array, c: Array) -> Array:
    """Return max_j q_j(X_k), shape (k,)."""
    return np.asarray(pieces(X, H, g, c).max(axis=1))


def largest_grad(X: Array, H: Array, g: Array, c: Array) -> Array:
    """Return the gradient of the first piece that attains the maximum, shape (k, d)."""
    active = pieces(X, H, g, c).argmax(axis=1)
    return np.asarray((_slopes(X, H) + g)[np.arange(len(X)), active])


def lipschitz(H: Array, g: Array, centre: Array, ball: float) -> Array:
    """Return a Lipschitz constant of max_j q_j on a ball, max_j ‖H_j x + g_j‖ + ‖H_j‖ R, for each set of slopes."""
    at_centre = np.linalg.norm(H @ centre + g, axis=-1)
    curvature = np.abs(np.linalg.eigvalsh(H)).max(axis=-1)
    return np.asarray((at_centre + curvature * ball).max(axis=-1))


def _slopes(X: Array, H: Array) -> Array:
    """H_j X_k, shape (k, m, d)."""
    return np.asarray((H @ X[:, None, :, None])[..., 0])
