"""A further finite sum of nonsmooth components, in the form of `goldstein.problems.stochastic`."""

from __future__ import annotations

import numpy as np

from goldstein import arguments
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems.base import Problem, radius
from goldstein.problems.stochastic import Seed, dot, root_mean_square


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


def _phase(X: Array, i: Samples, A: Array, squares: Array) -> Array:
    return np.asarray(np.abs(dot(X, A[i]) ** 2 - squares[i]))


def _phase_grad(X: Array, i: Samples, A: Array, squares: Array) -> Array:
    product = dot(X, A[i])
    return np.asarray((2 * np.sign(product**2 - squares[i]) * product)[:, None] * A[i])
