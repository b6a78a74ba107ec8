"""Further functions whose Goldstein distance or smoothed gradient is known, as in `goldstein.problems.closed_form`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.oracle import Array, Deterministic
from goldstein.problems.base import Problem, one_hot
from goldstein.problems.closed_form import marginal, ridge


def capped_ridge(d: int = 10, direction: npt.ArrayLike | None = None) -> Problem:
    """Capped absolute value, f(x) = min(|e·x|, 1): nonconvex, 1-Lipschitz, flat where |e·x| ≥ 1.

    With s = e·x, dist(0, ∂_δ f(x)) is 0 if |s| ≤ δ or |s| ≥ 1 − δ and 1 otherwise. The flat part is
    stationary without being minimal. ∇f_δ(x) = [P(0 < s + δU < 1) − P(−1 < s + δU < 0)] e.

    Parameters
    ----------
    d, direction
        As in `ridge`.
    """
    e = ridge(d, direction).x0
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
        distance=ridge(1).distance,
        smoothed_gradient=_negative_abs_smoothed,
    )


def _capped(X: Array, e: Array) -> Array:
    return np.asarray(np.minimum(np.abs(X @ e), 1.0))


def _capped_grad(X: Array, e: Array) -> Array:
    s = X @ e
    return (np.sign(s) * (np.abs(s) < 1))[:, None] * e


def _capped_distance(x: Array, delta: float, e: Array) -> float:
    return float(delta < abs(e @ x) < 1 - delta)


def _capped_smoothed(x: Array, delta: float, e: Array) -> Array:
    delta, s, d = arguments.positive("delta", delta), float(e @ x), e.size
    rising, edge, falling = (marginal((kink - s) / delta, d) for kink in (1.0, 0.0, -1.0))
    return np.asarray((rising - edge) - (edge - falling)) * e


def _l1(X: Array, a: float, c: float) -> Array:
    return np.asarray(a * np.abs(X / c - 1).sum(axis=1))


def _l1_grad(X: Array, a: float, c: float) -> Array:
    return a / c * np.sign(X - c)


def _l1_smoothed(x: Array, delta: float, a: float, c: float) -> Array:
    return np.asarray(a / c * 2 * marginal((np.asarray(x) - c) / arguments.positive("delta", delta), x.size))


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
