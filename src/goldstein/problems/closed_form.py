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
from goldstein.problems.base import Problem, one_hot


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


def capped_ridge(d: int = 10, direction: npt.ArrayLike | None = None) -> Problem:
    """Capped absolute value, f(x) = min(|e·x|, 1): nonconvex, 1-Lipschitz, flat where |e·x| ≥ 1.

    With s = e·x, dist(0, ∂_δ f(x)) is 0 if |s| ≤ δ or |s| ≥ 1 − δ and 1 otherwise. The flat part is
    stationary without being minimal. ∇f_δ(x) = [P(0 < s + δU < 1) − P(−1 < s + δU < 0)] e.

    Parameters
    ----------
    d, direction
        As in `ridge`.
    """
    e = _unit(d, direction)
    return Problem(
        name="capped_ridge",
        oracle=Deterministic(partial(_capped, e=e), vectorized=True, grad=partial(_capped_grad, e=e)),
        x0=e / 2,
        f_star=0.0,
        lipschitz=1.0,
        minimiser=np.zeros(d),
        distance=partial(_capped_distance, e=e),
        smoothed_gradient=partial(_capped_smoothed, e=e),
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
        smoothed_gradient=_cone_smoothed,
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
        smoothed_gradient=_shell_smoothed,
    )


def l1(d: int = 10, value_scale: float = 1.0, coordinate_scale: float = 1.0) -> Problem:
    """Sum of absolute values from x0 = 0, f(x) = a ‖x/c − 1‖₁ with value scale a and coordinate scale c.

    The scalings leave the problem the same up to units, f(x; a, c) = a f(x/c; 1, 1): a method that tunes
    itself should behave the same on all of them. Each component of ∇f_δ is that of a `ridge`.

    Parameters
    ----------
    d : int
    value_scale, coordinate_scale : float
        Positive numbers a and c.
    """
    d = arguments.count("d", d)
    value_scale = arguments.positive("value_scale", value_scale)
    coordinate_scale = arguments.positive("coordinate_scale", coordinate_scale)
    scales: dict[str, Any] = {"a": value_scale, "c": coordinate_scale}
    return Problem(
        name="l1",
        oracle=Deterministic(partial(_l1, **scales), vectorized=True, grad=partial(_l1_grad, **scales)),
        x0=np.zeros(d),
        f_star=0.0,
        lipschitz=float(value_scale / coordinate_scale * np.sqrt(d)),
        convex=True,
        minimiser=np.full(d, float(coordinate_scale)),
        smoothed_gradient=partial(_l1_smoothed, **scales),
    )


def max_coordinate(d: int = 10) -> Problem:
    """Largest coordinate at 0, f(x) = max_i x_i: a trap for certificates, unbounded below.

    At x0 = 0 all coordinates tie and dist(0, ∂_δ f(0)) = 1/√d for every δ ≥ 0: small in high dimension
    although no minimiser exists. In general it is 1/√m with m the number of coordinates that are largest
    somewhere on the ball.
    """
    d = arguments.count("d", d)
    return Problem(
        name="max_coordinate",
        oracle=Deterministic(_largest, vectorized=True, grad=_largest_grad),
        x0=np.zeros(d),
        f_star=-np.inf,
        lipschitz=1.0,
        convex=True,
        distance=_largest_distance,
    )


def negative_abs() -> Problem:
    """f(x) = −|x| in one variable, at its maximum 0: stationary, yet nothing to stop at by value.

    dist(0, ∂_δ f(x)) is 0 if |x| ≤ δ and 1 otherwise; ∇f_δ(x) = −sign(x) min(1, |x|/δ).
    """
    return Problem(
        name="negative_abs",
        oracle=Deterministic(_negative_abs, vectorized=True, grad=_negative_abs_grad),
        x0=np.zeros(1),
        f_star=-np.inf,
        lipschitz=1.0,
        distance=partial(_ridge_distance, e=np.ones(1)),
        smoothed_gradient=_negative_abs_smoothed,
    )


def _unit(d: int, direction: npt.ArrayLike | None) -> Array:
    d = arguments.count("d", d)
    e = np.ones(d) if direction is None else arguments.reals("direction", direction, f"a vector of {d} finite numbers")
    length = np.linalg.norm(e)
    if e.shape != (d,) or not 0 < length < np.inf:
        raise ValueError(f"direction must be a vector of {d} finite numbers, not all 0; got shape {e.shape}.")
    return e / length


def _marginal(t: Any, d: int) -> Any:
    """Distribution function of U less a half, P(0 < U < t), odd in t."""
    return np.sign(t) * betainc(0.5, (d + 1) / 2, np.minimum(1.0, np.square(t))) / 2


def _ridge(X: Array, e: Array) -> Array:
    return np.abs(X @ e)


def _ridge_grad(X: Array, e: Array) -> Array:
    return np.sign(X @ e)[:, None] * e


def _ridge_distance(x: Array, delta: float, e: Array) -> float:
    return float(abs(e @ x) > delta)


def _ridge_smoothed(x: Array, delta: float, e: Array) -> Array:
    return np.asarray(2 * _marginal((e @ x) / arguments.positive("delta", delta), e.size) * e)


def _capped(X: Array, e: Array) -> Array:
    return np.asarray(np.minimum(np.abs(X @ e), 1.0))


def _capped_grad(X: Array, e: Array) -> Array:
    s = X @ e
    return (np.sign(s) * (np.abs(s) < 1))[:, None] * e


def _capped_distance(x: Array, delta: float, e: Array) -> float:
    return float(delta < abs(e @ x) < 1 - delta)


def _capped_smoothed(x: Array, delta: float, e: Array) -> Array:
    delta, s, d = arguments.positive("delta", delta), float(e @ x), e.size
    rising, edge, falling = (_marginal((kink - s) / delta, d) for kink in (1.0, 0.0, -1.0))
    return np.asarray((rising - edge) - (edge - falling)) * e


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


def _cone_smoothed(x: Array, delta: float) -> Array:
    return _radial_smoothed(x, delta, hole=0.0)


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


def _shell_smoothed(x: Array, delta: float) -> Array:
    return _radial_smoothed(x, delta, hole=1.0)


def _l1(X: Array, a: float, c: float) -> Array:
    return np.asarray(a * np.abs(X / c - 1).sum(axis=1))


def _l1_grad(X: Array, a: float, c: float) -> Array:
    return a / c * np.sign(X - c)


def _l1_smoothed(x: Array, delta: float, a: float, c: float) -> Array:
    return np.asarray(a / c * 2 * _marginal((np.asarray(x) - c) / arguments.positive("delta", delta), x.size))


def _largest(X: Array) -> Array:
    return np.asarray(X.max(axis=1))


def _largest_grad(X: Array) -> Array:
    return one_hot(X.argmax(axis=1), X.shape[1])


def _largest_distance(x: Array, delta: float) -> float:
    """Count the coordinates i that the ball can make largest, m; the hull of m unit vectors is 1/√m away.

    The nearest point where x_i is largest raises x_i and lowers all that stay above to a common level t,
    the mean of them; it costs (t − x_i)² + Σ_j (x_j − t)₊².
    """
    down = np.sort(x)[::-1]
    totals = np.cumsum(down)
    reachable = 0
    for value in x:
        levels = (value + np.r_[0.0, totals[:-1]]) / np.arange(1, x.size + 1)
        t = float(levels.max())
        reachable += bool(np.hypot(t - value, np.linalg.norm(np.maximum(x - t, 0))) <= delta)
    return 1 / float(np.sqrt(max(reachable, 1)))


def _negative_abs(X: Array) -> Array:
    return -np.abs(X[:, 0])


def _negative_abs_grad(X: Array) -> Array:
    return -np.sign(X)


def _negative_abs_smoothed(x: Array, delta: float) -> Array:
    return np.asarray(-np.clip(np.asarray(x) / arguments.positive("delta", delta), -1, 1))
