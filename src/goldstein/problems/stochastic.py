"""Finite sums of nonsmooth components, drawn at random, with known minima."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from goldstein import arguments
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems.base import Problem

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


def dot(X: Array, rows: Array) -> Array:
    """Return the product of each row of X with its own row."""
    return np.asarray(np.einsum("kd,kd->k", X, rows))
