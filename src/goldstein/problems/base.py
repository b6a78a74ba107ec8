"""A test problem: an oracle, a start, and what is known about the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.oracle import Array, Deterministic, FiniteSum, Query


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A function to minimise, with its known answers.

    Every function it holds is vectorised and can be pickled, so that worker processes can take it.

    Attributes
    ----------
    name : str
    oracle : Deterministic or FiniteSum
        Vectorised; with gradients, which exist almost everywhere. Where f is not differentiable
        `oracle.grad` returns an element of the Clarke subdifferential or the gradient of one active piece.
    x0 : ndarray, shape (d,)
        The customary start, read-only.
    f_star : float
        The infimum of f; -inf if f is unbounded below, NaN if unknown. For a nonconvex function of the
        Lukšan-Vlček set it is the best known value; the docstring says so.
    lipschitz : float
        Lipschitz constant L on the ball of radius `ball` around `x0`: an upper bound on the norm of
        every gradient there. For a finite sum, the root mean square of the components' constants,
        which is what E L(ξ)² ≤ L² asks for.
    ball : float
        Radius on which `lipschitz` holds; inf if it holds everywhere.
    convex : bool
    minimiser : ndarray, shape (d,), or None
        A point with f(minimiser) = f_star to rounding; there may be others.
    distance : callable or None
        `distance(x, delta)` = dist(0, ∂_δ f(x)), exact, with ∂_δ f(x) Goldstein's subdifferential: the
        convex hull of all Clarke subgradients on the closed ball of radius δ around x.
    smoothed_gradient : callable or None
        `smoothed_gradient(x, delta)` = ∇f_δ(x), exact to 1e-10, with f_δ(x) = E f(x + δu) and u uniform
        on the unit ball.

    Examples
    --------
    >>> from goldstein.problems import ridge
    >>> problem = ridge(4)
    >>> problem.value(problem.x0), problem.gap, problem.distance(problem.x0, 0.1)
    (1.0, 1.0, 1.0)
    """

    name: str
    oracle: Deterministic | FiniteSum = field(repr=False)
    x0: Array = field(repr=False)
    f_star: float
    lipschitz: float
    ball: float = np.inf
    convex: bool = False
    minimiser: Array | None = field(default=None, repr=False)
    distance: Callable[[Array, float], float] | None = field(default=None, repr=False)
    smoothed_gradient: Callable[[Array, float], Array] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for attribute in ("x0", "minimiser"):
            point = getattr(self, attribute)
            if point is not None:
                point = np.array(point, dtype=np.float64)
                point.flags.writeable = False
                object.__setattr__(self, attribute, point)

    @property
    def dim(self) -> int:
        """Number of variables, d."""
        return self.x0.size

    @property
    def gap(self) -> float:
        """How far the start lies above the infimum, Δ = f(x0) − f_star."""
        return float(self.value(self.x0)) - self.f_star

    def value(self, x: npt.ArrayLike) -> Any:
        """Return the exact objective f: a float for one point, shape (k,) for a batch of shape (k, d)."""
        points = self._points(x)
        values = self._mean(np.atleast_2d(points), order=0)
        return float(values[0]) if points.ndim == 1 else values

    def gradient(self, x: npt.ArrayLike) -> Array:
        """Return the exact gradient of f where it exists: shape (d,) for one point, (k, d) for a batch."""
        points = self._points(x)
        gradients = self._mean(np.atleast_2d(points), order=1)
        return gradients[0] if points.ndim == 1 else gradients

    def _points(self, x: npt.ArrayLike) -> Array:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dim:
            raise ValueError(
                f"{self.name} has {self.dim} variables: a point of shape ({self.dim},) or a batch of shape "
                f"(k, {self.dim}) is needed, got shape {points.shape}."
            )
        return points

    def _mean(self, X: Array, order: int) -> Array:
        """Answer for the rows of X, averaged over all components of a finite sum."""
        n = self.oracle.n
        if n is None:
            return self.oracle.evaluate(Query(X, order=order)).values
        out = np.empty(X.shape if order else len(X))
        every = np.arange(n)
        for row, x in enumerate(X):
            query = Query(np.broadcast_to(x, (n, x.size)), every, order)
            out[row] = self.oracle.evaluate(query).values.mean(axis=0)
        return out


Vectorised = Callable[[Array], Array]


def deterministic(
    name: str,
    fun: Vectorised,
    grad: Vectorised,
    x0: npt.ArrayLike,
    minimiser: npt.ArrayLike,
    lipschitz: Any,
    f_star: float = 0.0,
    ball: float = np.inf,
    convex: bool = False,
) -> Problem:
    """Return the problem of a vectorised function without noise."""
    return Problem(
        name=name,
        oracle=Deterministic(fun, vectorized=True, grad=grad),
        x0=np.asarray(x0),
        f_star=float(f_star),
        lipschitz=float(lipschitz),
        ball=float(ball),
        convex=convex,
        minimiser=np.asarray(minimiser),
    )


def one_hot(active: npt.NDArray[np.intp], d: int) -> Array:
    """Return the unit vectors e_{active[k]} as rows, shape (k, d)."""
    rows = np.zeros((len(active), d))
    rows[np.arange(len(active)), active] = 1.0
    return rows


def radius(ball: float | None, x0: Array, minimiser: Array) -> float:
    """Return the radius of the ball on which a Lipschitz constant is stated.

    By default it contains every point within 1 of the minimiser, so that a method that has arrived
    may still query δ ≤ 1 around it.
    """
    if ball is None:
        return float(np.linalg.norm(np.asarray(x0) - minimiser)) + 1.0
    return arguments.positive("ball", ball, "the radius around x0, a positive number")
