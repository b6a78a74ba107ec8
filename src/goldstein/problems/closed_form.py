"""Functions whose Goldstein distance and smoothed gradient are known in closed form.

Throughout, u is uniform on the unit ball of R^d and U = e·u is its component along a unit vector e. Its
density is κ (1 − t²)^((d−1)/2) with κ = Γ(d/2 + 1) / (√π Γ((d+1)/2)), so that P(|U| ≤ t) = I_{t²}(1/2, (d+1)/2)
with I the regularised incomplete beta function. A Lipschitz f has ∇f_δ(x) = E ∇f(x + δu).

References
----------
A. A. Goldstein, Optimization of Lipschitz continuous functions, Mathematical Programming 13, 1977.
T. Lin, Z. Zheng, M. I. Jordan, Gradient-free methods for deterministic and stochastic nonsmooth nonconvex
optimization, NeurIPS 2022 (∇f_δ(x) ∈ ∂_δ f(x)).
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.special import betainc, gammaln

from goldstein import arguments
from goldstein.oracle import Array, Deterministic
from goldstein.problems.base import Problem


def ridge(d: int = 10, direction: npt.ArrayLike | None = None) -> Problem:
    """Absolute value of one component, f(x) = |e·x|: convex, 1-Lipschitz, minimal on a hyperplane.

    With s = e·x, dist(0, ∂_δ f(x)) is 0 if |s| ≤ δ and 1 otherwise, and
    ∇f_δ(x) = sign(s) I_{min(1, s²/δ²)}(1/2, (d+1)/2) e.

    Parameters
    ----------
    d : int
    direction : array_like, shape (d,), optional
        Direction of e; by default all components are equal.
    """
    e = _unit(d, direction)
    return Problem(
        name="ridge",
        oracle=Deterministic(partial(_ridge, e=e), vectorized=True, grad=partial(_ridge_grad, e=e)),
        x0=e,
        f_star=0.0,
        lipschitz=1.0,
        convex=True,
        minimiser=np.zeros(d),
        distance=partial(_ridge_distance, e=e),
        smoothed_gradient=partial(_ridge_smoothed, e=e),
    )


def cone(d: int = 10) -> Problem:
    """Euclidean norm, f(x) = ‖x‖: convex, 1-Lipschitz, one kink at the minimiser.

    With r = ‖x‖, dist(0, ∂_δ f(x)) is 0 if r ≤ δ and √(1 − δ²/r²) otherwise (1 if d = 1): the gradients on
    the ball fill a cap of unit vectors of angle arcsin(δ/r). With V = r² + δ² + 2rδU, ∇f_δ(x) = E[1/√V] x, an
    integral over one variable; it equals min(1/r, 1/δ) ₂F₁(1/2, (1−d)/2; d/2 + 1; min(r/δ, δ/r)²) x.
    """
    d = arguments.count("d", d)
    return Problem(
        name="cone",
        oracle=Deterministic(_cone, vectorized=True, grad=_cone_grad),
        x0=_unit(d, None),
        f_star=0.0,
        lipschitz=1.0,
        convex=True,
        minimiser=np.zeros(d),
        distance=_cone_distance,
        smoothed_gradient=partial(_radial_smoothed, hole=0.0),
    )


def shell(d: int = 10) -> Problem:
    """Distance to the unit sphere, f(x) = |‖x‖ − 1|: nonconvex, 1-Lipschitz, local maximum at 0.

    With r = ‖x‖, dist(0, ∂_δ f(x)) is 0 if |r − 1| ≤ δ or r ≤ δ and √(1 − δ²/r²) otherwise (1 if d = 1). With
    V = r² + δ² + 2rδU, ∇f_δ(x) = E[sign(V − 1) / √V] x, an integral over one variable.
    """
    d = arguments.count("d", d)
    return Problem(
        name="shell",
        oracle=Deterministic(_shell, vectorized=True, grad=_shell_grad),
        x0=2 * _unit(d, None),
        f_star=0.0,
        lipschitz=1.0,
        minimiser=_unit(d, None),
        distance=_shell_distance,
        smoothed_gradient=partial(_radial_smoothed, hole=1.0),
    )


def _unit(d: int, direction: npt.ArrayLike | None) -> Array:
    d = arguments.count("d", d)
    e = np.ones(d) if direction is None else arguments.reals("direction", direction, f"a vector of {d} finite numbers")
    length = np.linalg.norm(e)
    if e.shape != (d,) or not 0 < length < np.inf:
        raise ValueError(f"direction must be a vector of {d} finite numbers, not all 0; got shape {e.shape}.")
    return e / length


def marginal(t: Any, d: int) -> Any:
    """Distribution function of U less a half, P(0 < U < t), odd in t."""
    return np.sign(t) * betainc(0.5, (d + 1) / 2, np.minimum(1.0, np.square(t))) / 2


def _ridge(X: Array, e: Array) -> Array:
    return np.abs(X @ e)


def _ridge_grad(X: Array, e: Array) -> Array:
    return np.sign(X @ e)[:, None] * e


def _ridge_distance(x: Array, delta: float, e: Array) -> float:
    return float(abs(e @ x) > delta)


def _ridge_smoothed(x: Array, delta: float, e: Array) -> Array:
    return np.asarray(2 * marginal((e @ x) / arguments.positive("delta", delta), e.size) * e)


def _cone(X: Array) -> Array:
    return np.asarray(np.linalg.norm(X, axis=1))


def _cone_grad(X: Array) -> Array:
    r = np.linalg.norm(X, axis=1, keepdims=True)
    # At 0 every vector of the unit ball is a subgradient; 0 is the one without a preferred direction.
    return np.asarray(np.divide(X, r, out=np.zeros_like(X, dtype=np.float64), where=r > 0))


def _cone_distance(x: Array, delta: float) -> float:
    r = float(np.linalg.norm(x))
    if r <= delta:
        return 0.0
    # In one dimension the gradient keeps its sign on the whole ball.
    return 1.0 if x.size == 1 else float(np.sqrt((1 - delta / r) * (1 + delta / r)))


def _radial_smoothed(x: Array, delta: float, hole: float) -> Array:
    """Return E[sign(‖y‖ − hole) y/‖y‖] with y = x + δu.

    In polar coordinates around 0, the points at distance t from it that lie in the ball form a spherical
    cap, whose mean direction is known; with V = t² it leaves E[sign(V − hole²) / √V] x.
    """
    delta, r, d = arguments.positive("delta", delta), float(np.linalg.norm(x)), x.size
    if r == 0:
        return np.zeros(d)
    log_kappa = gammaln(d / 2 + 1) - gammaln((d + 1) / 2) - np.log(np.pi) / 2

    # U = cos θ turns the endpoint singularities of its density into the smooth weight sin^d θ.
    def integrand(theta: float) -> float:
        v = (r - delta) ** 2 + 4 * r * delta * np.cos(theta / 2) ** 2
        return float(np.exp(log_kappa) * np.sin(theta) ** d / np.sqrt(v)) if v > 0 else 0.0

    # V falls with θ and passes hole² here; the weight peaks at π/2, ever more sharply as d grows.
    crossing = float(np.arccos(np.clip((hole**2 - r**2 - delta**2) / (2 * r * delta), -1, 1)))
    cuts = sorted({0.0, crossing, np.pi / 2, np.pi})
    mean = 0.0
    for low, high in pairwise(cuts):
        part = float(quad(integrand, low, high, epsabs=1e-12, epsrel=1e-11, limit=400)[0])
        mean += part if high <= crossing else -part
    return mean * np.asarray(x)


def _shell(X: Array) -> Array:
    return np.abs(_cone(X) - 1)


def _shell_grad(X: Array) -> Array:
    return np.sign(_cone(X) - 1)[:, None] * _cone_grad(X)


def _shell_distance(x: Array, delta: float) -> float:
    touches = abs(float(np.linalg.norm(x)) - 1) <= delta
    return 0.0 if touches else _cone_distance(x, delta)
