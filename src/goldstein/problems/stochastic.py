"""Finite sums of nonsmooth components, drawn at random, with known minima."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from goldstein import arguments
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems import quadratics
from goldstein.problems.base import Problem, radius

Seed = int | np.random.Generator


def least_absolute_deviations(n: int = 1000, d: int = 20, noise: float = 0.5, rng: Seed = 0) -> Problem:
    """Least absolute deviations, f(x) = (1/n) Σ |a_i·x − b_i|: convex, Lipschitz everywhere.

    Rows a_i are standard Gaussian and b_i = Σ_j a_ij + noise · N(0, 1), from x0 = 0. The minimum of the finite
    sum is the value of a linear program, solved exactly; with noise its minimiser is near (1, …, 1).

    Parameters
    ----------
    n, d : int
        Number of components and of variables.
    noise : float
        Standard deviation of the noise in b.
    rng : int or numpy.random.Generator
        The same seed gives the same problem.

    References
    ----------
    P. Bloomfield, W. L. Steiger, Least Absolute Deviations, Birkhäuser, 1983.
    """
    n, d, rng = arguments.count("n", n), arguments.count("d", d), arguments.generator(rng)
    noise = arguments.not_negative("noise", noise)
    A = rng.standard_normal((n, d))
    b = A.sum(axis=1) + noise * rng.standard_normal(n)
    best = _least_absolute(A, b)
    return Problem(
        name="least_absolute_deviations",
        oracle=FiniteSum(_deviation, n, args=(A, b), vectorized=True, grad=_deviation_grad),
        x0=np.zeros(d),
        f_star=float(np.abs(A @ best - b).mean()),
        lipschitz=root_mean_square(np.linalg.norm(A, axis=1)),
        convex=True,
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


def root_mean_square(constants: Array) -> float:
    """Return the Lipschitz constant of a finite sum, from those of its components."""
    return float(np.sqrt(np.mean(constants**2)))


def _least_absolute(A: Array, b: Array) -> Array:
    """Minimise Σ u_i + v_i subject to A x + u − v = b and u, v ≥ 0: at a solution u_i + v_i = |a_i·x − b_i|."""
    n, d = A.shape
    identity = sparse.eye_array(n)
    cost = np.r_[np.zeros(d), np.ones(2 * n)]
    bounds = [(None, None)] * d + [(0, None)] * (2 * n)
    equations = sparse.hstack([sparse.csr_array(A), identity, -identity], format="csr")
    solution = linprog(cost, A_eq=equations, b_eq=b, bounds=bounds, method="highs")
    if not solution.success or solution.x is None:
        raise RuntimeError(f"The linear program of least_absolute_deviations failed: {solution.message}")
    return np.asarray(solution.x)[:d]


def _deviation(X: Array, i: Samples, A: Array, b: Array) -> Array:
    return np.asarray(np.abs(dot(X, A[i]) - b[i]))


def _deviation_grad(X: Array, i: Samples, A: Array, b: Array) -> Array:
    return np.asarray(np.sign(dot(X, A[i]) - b[i])[:, None] * A[i])


def _quadratics(X: Array, i: Samples, H: Array, g: Array, centre: Array) -> Array:
    return quadratics.largest(X - centre, H, g[i], np.zeros(g.shape[1]))


def _quadratics_grad(X: Array, i: Samples, H: Array, g: Array, centre: Array) -> Array:
    return quadratics.largest_grad(X - centre, H, g[i], np.zeros(g.shape[1]))


def dot(X: Array, rows: Array) -> Array:
    """Return the product of each row of X with its own row."""
    return np.asarray(np.einsum("kd,kd->k", X, rows))
