"""A classical nonsmooth test function of any dimension; further ones are in studies/problems of the repository.

References
----------
[1] M. Gürbüzbalaban, M. L. Overton, On Nesterov's nonsmooth Chebyshev-Rosenbrock functions, Nonlinear
    Analysis 75, 2012.
"""

from __future__ import annotations

import numpy as np

from goldstein import arguments
from goldstein.oracle import Array
from goldstein.problems.base import Problem, deterministic


def chebyshev_rosenbrock_linear(d: int = 4) -> Problem:
    """Nesterov's Chebyshev-Rosenbrock function, piecewise linear.

    f(x) = |x₁ − 1|/4 + Σ |x_{i+1} − 2|x_i| + 1| from (−1, 1, …, 1), f(x0) = 1/2, minimum 0 at (1, …, 1). It has
    2^(d−1) Clarke stationary points, of which one is a minimiser [1]: a method may well certify
    stationarity at another one. Nonconvex; Lipschitz everywhere.
    """
    x0, one = chebyshev_start(d)
    # Components of the gradient: at most 1/4 + 2, then 1 + 2 each, and 1.
    bound = np.sqrt(2.25**2 + 9 * (d - 2) + 1)
    return deterministic("chebyshev_rosenbrock_linear", _chebyshev_linear, _chebyshev_linear_grad, x0, one, bound)


def chain(d: int) -> int:
    """Check the number of variables of a chain."""
    return arguments.count("d", d, least=2)


def linked(first: Array, second: Array) -> Array:
    """Gradient of a chain: link i gives `first[:, i]` to x_i and `second[:, i]` to x_{i+1}."""
    grad = np.zeros((len(first), first.shape[1] + 1))
    grad[:, :-1] += first
    grad[:, 1:] += second
    return grad


def chebyshev_start(d: int) -> tuple[Array, Array]:
    """Return the start and the minimiser."""
    x0 = np.ones(chain(d))
    x0[0] = -1.0
    return x0, np.ones(d)


def _chebyshev_linear(X: Array) -> Array:
    links = np.abs(X[:, 1:] - 2 * np.abs(X[:, :-1]) + 1)
    return np.asarray(np.abs(X[:, 0] - 1) / 4 + links.sum(axis=1))


def _chebyshev_linear_grad(X: Array) -> Array:
    sign = np.sign(X[:, 1:] - 2 * np.abs(X[:, :-1]) + 1)
    grad = linked(-2 * np.sign(X[:, :-1]) * sign, sign)
    grad[:, 0] += np.sign(X[:, 0] - 1) / 4
    return grad
