"""Further finite sums of nonsmooth components, in the form of `goldstein.problems.stochastic`."""

from __future__ import annotations

from functools import partial

import numpy as np

from goldstein import arguments
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems.base import Problem, radius
from goldstein.problems.stochastic import Seed, dot, root_mean_square
from studies.problems import quadratics


def robust_phase_retrieval(n: int = 200, d: int = 10, ball: float | None = None, rng: Seed = 0) -> Problem:
    """Robust phase retrieval, f(x) = (1/n) Σ |(a_i·x)² − (a_i·x*)²|: nonconvex, weakly convex.

    Gaussian rows a_i, x* = (1, …, 1)/√d, minimum 0 at ±x*, and x0 is uniform on the unit sphere. The Lipschitz
    constant holds on the ball of radius `ball` around x0.

    Parameters
    ----------
    n, d : int
        Number of components and of variables; n of a few d makes ±x* the only minimisers.
    ball : float, optional
        By default the ball contains x* and every point within 1 of it.
    rng : int or numpy.random.Generator
        The same seed gives the same problem.

    References
    ----------
    J. C. Duchi, F. Ruan, Solving (most) of a set of quadratic equalities: composite optimization for robust
    phase retrieval, Information and Inference 8, 2019.
    """
    n, d, rng = arguments.count("n", n), arguments.count("d", d), arguments.generator(rng)
    A = rng.standard_normal((n, d))
    best = np.full(d, 1 / np.sqrt(d))
    start = rng.standard_normal(d)
    x0 = start / np.linalg.norm(start)
    R = radius(ball, x0, best)
    lengths = np.linalg.norm(A, axis=1)
    return Problem(
        name="robust_phase_retrieval",
        oracle=FiniteSum(_phase, n, args=(A, (A @ best) ** 2), vectorized=True, grad=_phase_grad),
        x0=x0,
        f_star=0.0,
        lipschitz=root_mean_square(2 * lengths * (np.abs(A @ x0) + lengths * R)),
        ball=R,
        minimiser=best,
    )


def max_of_quadratics(n: int = 50, d: int = 10, pieces: int = 4, ball: float | None = None, rng: Seed = 0) -> Problem:
    """Mean of maxima of random quadratics, f(x) = (1/n) Σ_i max_j [g_ij·z + ½ z·H_j z], z = x − x*: nonconvex.

    Slopes and Hessians are random and then shifted so that some weights λ_j > 0, Σ λ_j = 1, give Σ_j λ_j g_ij = 0 for
    each i and Σ_j λ_j H_j = I. Every component is therefore at least ‖z‖²/2 although its pieces are indefinite:
    minimum 0 at x* = (1, …, 1) only, from x0 = 0. The Hessians are common to all components, so that
    averaging does not make f convex.

    Parameters
    ----------
    n, d : int
        Number of components and of variables.
    pieces : int
        Quadratics under each maximum, at least 2.
    ball : float, optional
        Radius around x0 on which the Lipschitz constant holds; by default up to x* and 1 beyond.
    rng : int or numpy.random.Generator
        The same seed gives the same problem.

    References
    ----------
    A. S. Lewis, M. L. Overton, Nonsmooth optimization via quasi-Newton methods, Mathematical Programming 141,
    2013 (maxima of random quadratics with a known minimiser).
    """
    n, d, rng = arguments.count("n", n), arguments.count("d", d), arguments.generator(rng)
    pieces = arguments.count("pieces", pieces, least=2)
    weights = rng.dirichlet(np.full(pieces, 2.0))
    g = rng.standard_normal((n, pieces, d))
    g -= (weights @ g)[:, None]
    H = rng.standard_normal((pieces, d, d))
    H = (H + np.swapaxes(H, 1, 2)) / np.sqrt(2 * d)
    H += np.eye(d) - np.tensordot(weights, H, axes=1)
    x0, best = np.zeros(d), np.ones(d)
    R = radius(ball, x0, best)
    return Problem(
        name="max_of_quadratics",
        oracle=FiniteSum(
            partial(_quadratics, centre=best),
            n,
            args=(H, g),
            vectorized=True,
            grad=partial(_quadratics_grad, centre=best),
        ),
        x0=x0,
        f_star=0.0,
        lipschitz=root_mean_square(quadratics.lipschitz(H, g, x0 - best, R)),
        ball=R,
        minimiser=best,
    )


def _phase(X: Array, i: Samples, A: Array, squares: Array) -> Array:
    return np.asarray(np.abs(dot(X, A[i]) ** 2 - squares[i]))


def _phase_grad(X: Array, i: Samples, A: Array, squares: Array) -> Array:
    product = dot(X, A[i])
    return np.asarray((2 * np.sign(product**2 - squares[i]) * product)[:, None] * A[i])


def _quadratics(X: Array, i: Samples, H: Array, g: Array, centre: Array) -> Array:
    return quadratics.largest(X - centre, H, g[i], np.zeros(g.shape[1]))


def _quadratics_grad(X: Array, i: Samples, H: Array, g: Array, centre: Array) -> Array:
    return quadratics.largest_grad(X - centre, H, g[i], np.zeros(g.shape[1]))
