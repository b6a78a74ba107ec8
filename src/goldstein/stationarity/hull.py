"""The shortest element of a hull of gradients: an upper bound on dist(0, ∂_δ f(x)).

∂_δ f(x) is the convex hull of all Clarke subgradients on the ball of radius δ around x. The hull of finitely many
gradients from that ball is a part of it, so its shortest element is at least as long as that of ∂_δ f(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from goldstein import arguments
from goldstein.criterion import Check
from goldstein.estimate.smoothing import ball
from goldstein.facts import Facts
from goldstein.norms import norm
from goldstein.oracle import Array, Deterministic, Oracle, Query
from goldstein.stationarity.draws import Gradients, Source, Values, asked, counted, drive, portions, rounding_error
from goldstein.stationarity.norm import LEAST, Moments, NormEstimate, estimate, gather
from goldstein.stationarity.rounding import ValueStep, as_centre, as_oracle, needs_gradients, points_that_fit

AT_ONCE = 1_000  # points up to which one call of NNLS solves the whole problem
GAP = 1e-14  # relative Frank-Wolfe gap at which weights are optimal to rounding
JITTER = 1e-3  # relative perturbation of a direction
HAIR = 2.0**-12  # by this share a ball is made smaller; wherever it has room for points, that is more than rounding
RHO = 0.1  # smoothing radius of a hull of smoothed gradients, as a share of δ


@dataclass(frozen=True, eq=False)
class Hull:
    """The shortest element of a hull of gradients, as `min_norm_hull` returns it.

    Attributes
    ----------
    bound : float
        Upper bound on dist(0, ∂_δ f(x)): ‖g*‖ for exact gradients, `estimate.upper` for noisy ones. Infinite if the
        function turns out to answer in a precision in which the ball has no room for n random points.
    element : ndarray, shape (d,)
        g* = Σ λ_i g_i. For noisy gradients it is too short, because the weights were fitted to their noise.
    weights : ndarray, shape (k,)
        λ ≥ 0 with sum 1.
    points, gradients : ndarray, shape (k, d)
        y_i in the ball and g_i; not finite where the gradient failed, and then λ_i = 0.
    bracket : tuple of float, or None
        (lo, hi) around the distance from 0 to the hull of these g_i: hi = ‖g*‖ and lo = min_i g_i·g*/‖g*‖, equal to
        rounding when λ is optimal. lo is no bound for ∂_δ f(x), which may hold shorter elements. None for noisy
        gradients.
    estimate : NormEstimate or None
        For noisy gradients: the norm of Σ λ_i ∇f(y_i), from draws that had no part in the choice of λ.
    nfev, ngev, nfail : int
        Values and gradients asked for, and how many of them failed.
    """

    bound: float
    element: Array
    weights: Array
    points: Array
    gradients: Array
    bracket: tuple[float, float] | None = None
    estimate: NormEstimate | None = None
    nfev: int = 0
    ngev: int = 0
    nfail: int = 0

    def __str__(self) -> str:
        how = ""
        kind = "gradients"
        if self.estimate is not None:
            how = f", at confidence {self.estimate.confidence:g}"
            kind = "estimated gradients"
        used = int((self.weights > 0).sum())
        return (
            f"dist(0, ∂_δ f(x)) ≤ {self.bound:.4g}{how}\n"
            f"by the shortest element of a hull of {len(self.weights):,} {kind}, {used:,} of which carry weight\n"
            f"{asked(self.nfev, self.ngev, self.nfail)}"
        )


def min_norm_hull(
    oracle: Oracle | Callable[[Array], Array],
    x: npt.ArrayLike,
    delta: float,
    n: int,
    *,
    rng: int | np.random.Generator | None = None,
    points: npt.ArrayLike | None = None,
    batch: int = 100,
    confidence: float = 0.95,
    use: str | None = None,
    rho: float | None = None,
) -> Hull:
    """Bound dist(0, ∂_δ f(x)) by the shortest element of a hull of gradients.

    The gradients are taken at n points uniform in the ball of radius δ around x, at x itself, and at `points`. With
    exact gradients, ‖g*‖ = min over λ of ‖Σ λ_i ∇f(y_i)‖ is a rigorous bound if f is differentiable at every y_i, or
    its gradient there is a Clarke subgradient. Random points are such with probability 1; x and `points` are the
    caller's word. With noisy gradients the minimum is too small, because λ is fitted to their noise: then λ comes from
    one batch at each point, and ‖Σ λ_i ∇f(y_i)‖ is estimated from a second one.

    Parameters
    ----------
    oracle : Oracle or callable
        An oracle, or the gradient of a function without noise, `grad(x) -> (d,)`.
    x : array_like, shape (d,)
        The point.
    delta : float
        Radius δ.
    n : int
        Random points.
    rng : int or Generator, optional
        Seed or generator.
    points : array_like, shape (k, d), optional
        Further points of the ball, such as those of a descent method's last steps.
    batch : int, optional
        Draws at each point for λ, and again at each point of positive weight for the estimate; at least 4. Exact
        gradients need none.
    confidence : float, optional
        Of the bound for noisy gradients.
    use : {None, "gradients", "values"}, optional
        "values": two-point estimates of ∇f_ρ at points of the ball of radius δ − ρ, whose hull lies in ∂_δ f(x) too.
        None: gradients if the oracle has them.
    rho : float, optional
        ρ, below δ; δ/10 by default.

    References
    ----------
    A. A. Goldstein, Optimization of Lipschitz continuous functions, Mathematical Programming 13, 1977.
    J. V. Burke, A. S. Lewis, M. L. Overton, A robust gradient sampling algorithm for nonsmooth, nonconvex
    optimization, SIAM Journal on Optimization 15, 2005.
    G. Kornowski, O. Shamir, An algorithm with optimal dimension-dependence for zero-order nonsmooth nonconvex
    stochastic optimization, Journal of Machine Learning Research 25, 2024 (∂_ν f_ρ(x) ⊂ ∂_{ν+ρ} f(x)).

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.stationarity import min_norm_hull
    >>> hull = min_norm_hull(np.sign, [0.05, 2.0], delta=0.1, n=50, rng=0)  # |x_1| + |x_2|: one kink in reach
    >>> round(hull.bound, 12), hull.ngev
    (1.0, 51)
    """
    x = as_centre(x, delta)
    delta = float(delta)
    n = arguments.count("n", n, 1)
    batch = arguments.count("batch", batch, LEAST)
    confidence = arguments.confidence(confidence)
    rng = arguments.generator(rng)
    if not isinstance(oracle, Oracle) and callable(oracle):
        if use == "values":
            raise ValueError('use="values" needs an oracle; a gradient alone has no values.')
        oracle = Deterministic(_no_values, grad=oracle)
    oracle = as_oracle(oracle)
    radius = _smoothing(oracle, delta, use, rho)
    needed = 1 if radius else n  # smoothed gradients come from values, which no kink spoils
    x = as_centre(x, delta, needed)
    y = np.concatenate([random_points(x, delta - radius, n, rng), x[None], _points_in_ball(points, x, delta - radius)])
    facts = Facts()
    if not oracle.noisy and not radius:
        check = exact_hull(y)
    else:
        check = noisy_hull(oracle, radius, y, batch, lambda _: batch, rng, confidence)
    step = ValueStep()
    hull = drive(counted(check, facts, None if oracle.noisy else step), oracle)
    bound = hull.bound
    if step.size:
        bound += step.slope(x.size, radius)
    if points_that_fit(x, delta, facts.roundoff) < needed:
        bound = np.inf
    return replace(hull, bound=bound, nfev=facts.nfev, ngev=facts.ngev, nfail=facts.nfail)


def shortest(g: Array) -> Array:
    """Return weights λ ≥ 0 with sum 1 that make Σ λ_i g_i shortest; rows that are not finite get 0.

    The minimum over λ ≥ 0 of ‖G'λ‖² + (1'λ − 1)² has the same solution up to a factor: for λ = sμ with 1'μ = 1 the best
    s leaves ‖G'μ‖²/(1 + ‖G'μ‖²), which grows with ‖G'μ‖. So this is nonnegative least squares (Lawson and Hanson,
    1974). Beyond a thousand rows it runs on a working set, to which the rows with the smallest g_i·g* are added until
    none is below ‖g*‖² (P. Wolfe, Finding the nearest point in a polytope, Mathematical Programming 11, 1976).
    """
    weights = np.zeros(len(g))
    (fine,) = np.nonzero(np.isfinite(g).all(axis=1))
    if not fine.size:
        return weights
    rows = g[fine] / (float(np.abs(g[fine]).max()) or 1.0)
    length = np.linalg.norm(rows, axis=1)
    rows /= float(length.max()) or 1.0
    work = np.argsort(length, kind="stable")[:AT_ONCE]
    before = np.inf
    target = np.r_[np.zeros(g.shape[1]), 1.0]
    while True:
        k = work.size
        solution, _ = nnls(np.vstack([rows[work].T, np.ones(k)]), target, maxiter=30 * max(k, 10))
        solution /= solution.sum()
        element = solution @ rows[work]
        square = float(element @ element)
        slopes = rows @ element
        if square - float(slopes.min()) <= GAP or work.size == fine.size or square >= before:
            break
        before = square
        work = np.union1d(work[solution > 0], np.argsort(slopes)[: AT_ONCE // 2])
    weights[fine[work]] = solution
    return weights


def combination(weights: Array, g: Array) -> Array:
    """Return Σ λ_i g_i over the rows of positive weight; NaN without any."""
    used = weights > 0
    return np.asarray(weights[used] @ g[used]) if used.any() else np.full(g.shape[1], np.nan)


def exact_hull(points: Array) -> Check[Hull]:
    """Return the hull of exact gradients at points."""
    g = yield from gradients_at(points)
    weights = shortest(g)
    element = combination(weights, g)
    bound = norm(element)
    lower = 0.0
    if bound > 0:
        lower = max(float((g[np.isfinite(g).all(axis=1)] @ (element / bound)).min()), 0.0)
    if np.isnan(bound):
        bound = np.inf
    return Hull(bound, element, weights, points, g, bracket=(min(lower, bound), bound))


def gradients_at(points: Array) -> Check[Array]:
    """Return the exact gradients at points, shape (k, d)."""
    parts = [np.empty((0, points.shape[1]))]
    start = 0
    for k in portions(len(points), points.shape[1]):
        answer = yield Query(points[start : start + k], order=1)
        parts.append(answer.values)
        start += k
    return np.concatenate(parts)


def noisy_hull(
    oracle: Oracle,
    radius: float,
    points: Array,
    fit: int,
    checks: Callable[[int], int],
    rng: np.random.Generator,
    confidence: float,
) -> Check[Hull]:
    """Return the hull of noisy gradients: weights from `fit` draws at each point, their worth from independent draws.

    The draws are two-point estimates of radius `radius`, or gradients if it is 0. `checks(k)` says how many of them
    measure a combination of k points.
    """
    d = points.shape[1]
    source = _source(oracle, radius, points)
    total = np.zeros(points.shape)
    drawn = np.zeros((len(points), 1))
    for k in portions(fit, source.cost * d):
        draws = yield from source.each(rng, k)
        fine = np.isfinite(draws).all(axis=2, keepdims=True)
        total += np.where(fine, draws, 0.0).sum(axis=0)
        drawn += fine.sum(axis=0)
    g = np.divide(total, drawn, out=np.full(points.shape, np.nan), where=drawn > 0)
    weights = shortest(g)
    used = weights > 0
    moments = Moments(d)
    facts = Facts()
    if used.any():
        chosen = _source(oracle, radius, points[used])
        yield from counted(gather(moments, chosen, weights[used], checks(int(used.sum())), rng), facts)
    rounding = rounding_error(d, radius, facts) if radius else 0.0
    result = estimate(moments, facts, confidence, rounding, noisy=oracle.noisy)
    return Hull(result.upper, combination(weights, g), weights, points, g, estimate=result)


def _source(oracle: Oracle, radius: float, points: Array) -> Source:
    return Values(points, radius, oracle.sample) if radius else Gradients(points, oracle.sample)


def random_points(x: Array, radius: float, n: int, rng: np.random.Generator) -> Array:
    """Draw n uniform points of a ball, a hair smaller than asked for so that rounding leaves none outside."""
    return x + (1 - HAIR) * radius * ball(rng, n, x.size)


def segment_points(x: Array, radius: float, g: Array, n: int, rng: np.random.Generator) -> Array:
    """Draw n points on the way from x along −g to the edge of a ball.

    If f falls by less than radius·‖g‖ along the way, gradients there point away from g (Lebourg's mean value theorem),
    so they are what shortens a combination g best, where uniform points in high dimension miss the kinks. The direction
    is jittered, so that f is differentiable at the points with probability 1.
    """
    length = norm(g)
    if not 0 < length < np.inf:
        return random_points(x, radius, n, rng)
    v = g / length + JITTER * ball(rng, n, x.size)
    reach = (1 - HAIR) * radius * rng.random((n, 1))
    return np.asarray(x - reach * v / np.linalg.norm(v, axis=1, keepdims=True))


def _smoothing(oracle: Oracle, delta: float, use: str | None, rho: float | None) -> float:
    """Return the smoothing radius of a hull: 0 when it is one of gradients."""
    arguments.optional_one_of("use", use, ("values", "gradients"))
    if use == "gradients" or (use is None and oracle.differentiable):
        needs_gradients(oracle)
        if rho is not None:
            raise ValueError('rho belongs to use="values"; gradients are taken without smoothing.')
        return 0.0
    if rho is None:
        return RHO * delta
    return arguments.number("rho", rho, f"a number between 0 and delta = {delta:g}", lambda value: 0 < value < delta)


def _points_in_ball(points: npt.ArrayLike | None, x: Array, radius: float) -> Array:
    if points is None:
        return np.empty((0, x.size))
    rows = np.atleast_2d(arguments.reals("points", points, f"an array of shape (k, {x.size})"))
    if rows.ndim != 2 or rows.shape[1] != x.size:
        raise ValueError(f"points must be an array of shape (k, {x.size}), got shape {rows.shape}.")
    far = np.linalg.norm(rows - x, axis=1)
    if not (far <= radius).all():
        raise ValueError(f"points must lie within {radius:.6g} of x; the farthest is {far.max():.6g} away.")
    return rows


def _no_values(x: Any) -> float:
    raise TypeError("Only the gradient of this function is known.")
