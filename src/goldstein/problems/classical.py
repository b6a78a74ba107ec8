"""Classical nonsmooth test functions of any dimension.

Every constructor takes the dimension `d` and, if the function is not Lipschitz on the whole space, `ball`:
the radius around x0 on which the Lipschitz constant is stated, by default up to the minimiser and 1 beyond.
The constants are upper bounds.

References
----------
[1] M. Haarala, K. Miettinen, M. M. Mäkelä, New limited memory bundle method for large-scale nonsmooth
    optimization, Optimization Methods and Software 19, 2004 (ten problems; the number after [1, is that of the list).
[2] M. Gürbüzbalaban, M. L. Overton, On Nesterov's nonsmooth Chebyshev-Rosenbrock functions, Nonlinear
    Analysis 75, 2012.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.oracle import Array
from goldstein.problems.base import Problem, deterministic, one_hot, radius


def chebyshev_rosenbrock(d: int = 4, ball: float | None = None) -> Problem:
    """Nesterov's nonsmooth Chebyshev-Rosenbrock function, smooth in its first term.

    f(x) = (x₁ − 1)²/4 + Σ |x_{i+1} − 2x_i² + 1| from (−1, 1, …, 1), f(x0) = 1, minimum 0 at (1, …, 1), its only
    stationary point [2]. The way there follows a highly oscillating manifold. Nonconvex.
    """
    x0, one = _chebyshev_start(d)
    R = radius(ball, x0, one)
    # Σ s_i (e_{i+1} − 4 x_i e_i) with signs s_i, after the first term.
    bound = (2 + R) / 2 + np.sqrt(d - 1) + 4 * (np.sqrt(d) + R)
    return deterministic("chebyshev_rosenbrock", _chebyshev, _chebyshev_grad, x0, one, bound, ball=R)


def chebyshev_rosenbrock_linear(d: int = 4) -> Problem:
    """Nesterov's Chebyshev-Rosenbrock function, piecewise linear.

    f(x) = |x₁ − 1|/4 + Σ |x_{i+1} − 2|x_i| + 1| from (−1, 1, …, 1), f(x0) = 1/2, minimum 0 at (1, …, 1). It has
    2^(d−1) Clarke stationary points, of which one is a minimiser [2]: a method may well certify
    stationarity at another one. Nonconvex; Lipschitz everywhere.
    """
    x0, one = _chebyshev_start(d)
    # Components of the gradient: at most 1/4 + 2, then 1 + 2 each, and 1.
    bound = np.sqrt(2.25**2 + 9 * (d - 2) + 1)
    return deterministic("chebyshev_rosenbrock_linear", _chebyshev_linear, _chebyshev_linear_grad, x0, one, bound)


def maxq(d: int = 20, ball: float | None = None) -> Problem:
    """MAXQ [1, 1]: f(x) = max_i x_i², convex, minimum 0 at 0.

    Starts at x_i = i for i ≤ d/2 and −i beyond.
    """
    index = np.arange(1, arguments.count("d", d) + 1)
    x0 = np.where(index <= d // 2, index, -index)
    R = radius(ball, x0, np.zeros(d))
    return deterministic("maxq", _maxq, _maxq_grad, x0, np.zeros(d), 2 * (d + R), ball=R, convex=True)


def chained_lq(d: int = 10, ball: float | None = None) -> Problem:
    """Chained LQ [1, 3]: f(x) = Σ −x_i − x_{i+1} + max(0, x_i² + x_{i+1}² − 1), convex.

    Minimum −(d − 1)√2 at x_i = 1/√2, from x_i = −1/2. With d = 2, the LQ of Lukšan and Vlček.
    """
    x0, best = np.full(chain(d), -0.5), np.full(d, np.sqrt(0.5))
    R = radius(ball, x0, best)
    bound = np.sqrt(4 * d - 6) + 4 * (np.linalg.norm(x0) + R)
    f_star = -(d - 1) * np.sqrt(2)
    return deterministic("chained_lq", _lq, _lq_grad, x0, best, bound, f_star, R, convex=True)


def chained_crescent1(d: int = 10, ball: float | None = None) -> Problem:
    """Chained crescent I [1, 9]: f(x) = max(Σ a_i, Σ b_i), nonconvex, minimum 0 at 0, from (−1.5, 2, −1.5, …).

    a_i = x_i² + (x_{i+1} − 1)² + x_{i+1} − 1 and b_i = −x_i² − (x_{i+1} − 1)² + x_{i+1} + 1, so that
    (3a_i + b_i)/4 = (x_i² + x_{i+1}²)/2. With d = 2, the Crescent of Lukšan and Vlček.
    """
    x0 = np.where(np.arange(chain(d)) % 2, 2.0, -1.5)
    R = radius(ball, x0, np.zeros(d))
    bound = 4 * (np.linalg.norm(x0) + R) + 3 * np.sqrt(d - 1)
    return deterministic("chained_crescent1", _crescent1, _crescent1_grad, x0, np.zeros(d), bound, ball=R)


def chain(d: int) -> int:
    """Check the number of variables of a chain."""
    return arguments.count("d", d, least=2)


def linked(first: Array, second: Array) -> Array:
    """Gradient of a chain: link i gives `first[:, i]` to x_i and `second[:, i]` to x_{i+1}."""
    grad = np.zeros((len(first), first.shape[1] + 1))
    grad[:, :-1] += first
    grad[:, 1:] += second
    return grad


def _chebyshev_start(d: int) -> tuple[Array, Array]:
    x0 = np.ones(chain(d))
    x0[0] = -1.0
    return x0, np.ones(d)


def _chebyshev(X: Array) -> Array:
    links = np.abs(X[:, 1:] - 2 * X[:, :-1] ** 2 + 1)
    return np.asarray((X[:, 0] - 1) ** 2 / 4 + links.sum(axis=1))


def _chebyshev_grad(X: Array) -> Array:
    sign = np.sign(X[:, 1:] - 2 * X[:, :-1] ** 2 + 1)
    grad = linked(-4 * X[:, :-1] * sign, sign)
    grad[:, 0] += (X[:, 0] - 1) / 2
    return grad


def _chebyshev_linear(X: Array) -> Array:
    links = np.abs(X[:, 1:] - 2 * np.abs(X[:, :-1]) + 1)
    return np.asarray(np.abs(X[:, 0] - 1) / 4 + links.sum(axis=1))


def _chebyshev_linear_grad(X: Array) -> Array:
    sign = np.sign(X[:, 1:] - 2 * np.abs(X[:, :-1]) + 1)
    grad = linked(-2 * np.sign(X[:, :-1]) * sign, sign)
    grad[:, 0] += np.sign(X[:, 0] - 1) / 4
    return grad


def _maxq(X: Array) -> Array:
    return np.asarray((X**2).max(axis=1))


def _maxq_grad(X: Array) -> Array:
    active = np.abs(X).argmax(axis=1)
    return one_hot(active, X.shape[1]) * 2 * X


def _lq(X: Array) -> Array:
    a, b = X[:, :-1], X[:, 1:]
    return np.asarray((np.maximum(a**2 + b**2 - 1, 0) - a - b).sum(axis=1))


def _lq_grad(X: Array) -> Array:
    a, b = X[:, :-1], X[:, 1:]
    outside = a**2 + b**2 > 1
    return linked(2 * a * outside - 1, 2 * b * outside - 1)


def crescent_pieces(X: Array) -> tuple[Array, Array]:
    """Return the a_i and the b_i."""
    a, b = X[:, :-1], X[:, 1:]
    disc = a**2 + (b - 1) ** 2
    return disc + b - 1, -disc + b + 1


def crescent_gradient(X: Array, first_active: npt.NDArray[np.bool_]) -> Array:
    """Return the gradient of Σ a_i over the links where the first piece is active, of Σ b_i over the others."""
    sign = np.where(first_active, 1.0, -1.0)
    return linked(sign * 2 * X[:, :-1], sign * 2 * (X[:, 1:] - 1) + 1)


def _crescent1(X: Array) -> Array:
    p, q = crescent_pieces(X)
    return np.asarray(np.maximum(p.sum(axis=1), q.sum(axis=1)))


def _crescent1_grad(X: Array) -> Array:
    p, q = crescent_pieces(X)
    return crescent_gradient(X, (p.sum(axis=1) >= q.sum(axis=1))[:, None])
