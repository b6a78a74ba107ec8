"""Further classical nonsmooth functions of any dimension, in the form of `goldstein.problems.classical`.

The constants are upper bounds; where the gradient grows exponentially (`chained_cb3_1`, `brown2`) they are as large as
the gradients on that ball are, and a smaller `ball` brings them down.

References
----------
[1] M. Haarala, K. Miettinen, M. M. Mäkelä, New limited memory bundle method for large-scale nonsmooth
    optimization, Optimization Methods and Software 19, 2004 (ten problems; the number after [1, is that of the list).
[2] M. Gürbüzbalaban, M. L. Overton, On Nesterov's nonsmooth Chebyshev-Rosenbrock functions, Nonlinear
    Analysis 75, 2012.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
from scipy.linalg import hilbert, solve_banded

from goldstein import arguments
from goldstein.oracle import Array, Deterministic
from goldstein.problems.base import Problem, deterministic, one_hot, radius
from goldstein.problems.classical import chain, chebyshev_start, linked


def chebyshev_rosenbrock(d: int = 4, ball: float | None = None) -> Problem:
    """Nesterov's nonsmooth Chebyshev-Rosenbrock function, smooth in its first term.

    f(x) = (x₁ − 1)²/4 + Σ |x_{i+1} − 2x_i² + 1| from (−1, 1, …, 1), f(x0) = 1, minimum 0 at (1, …, 1), its only
    stationary point [2]. The way there follows a highly oscillating manifold. Nonconvex.
    """
    x0, one = chebyshev_start(d)
    R = radius(ball, x0, one)
    # Σ s_i (e_{i+1} − 4 x_i e_i) with signs s_i, after the first term.
    bound = (2 + R) / 2 + np.sqrt(d - 1) + 4 * (np.sqrt(d) + R)
    return deterministic("chebyshev_rosenbrock", _chebyshev, _chebyshev_grad, x0, one, bound, ball=R)


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


def mxhilb(d: int = 10) -> Problem:
    """MXHILB [1, 2]: f(x) = max_i |Σ_j x_j/(i + j − 1)|, convex, minimum 0 at 0, from (1, …, 1).

    Nearly flat in most directions: the Hilbert matrix is singular to rounding from d = 13 on.
    """
    H = hilbert(arguments.count("d", d))
    bound = np.linalg.norm(H[0])  # the first row is the longest
    start, zero = np.ones(d), np.zeros(d)
    return deterministic("mxhilb", partial(_mxhilb, H=H), partial(_mxhilb_grad, H=H), start, zero, bound, convex=True)


def chained_cb3_1(d: int = 10, ball: float | None = None) -> Problem:
    """Chained CB3 I [1, 4]: f(x) = Σ max(x_i⁴ + x_{i+1}², (2−x_i)² + (2−x_{i+1})², 2e^{x_{i+1}−x_i}), convex.

    Minimum 2(d − 1) at (1, …, 1), from (2, …, 2). With d = 2, the CB3 of Lukšan and Vlček.
    """
    x0, one = np.full(chain(d), 2.0), np.ones(d)
    R = radius(ball, x0, one)
    first, second = _cb3_bounds(d, R)
    # Each link follows one of the three pieces: its square is at most the sum of the three.
    bound = np.linalg.norm(first) + np.linalg.norm(second)
    return deterministic("chained_cb3_1", _cb3_1, _cb3_1_grad, x0, one, bound, 2.0 * (d - 1), R, convex=True)


def chained_cb3_2(d: int = 10, ball: float | None = None) -> Problem:
    """Chained CB3 II [1, 5]: the largest of the three sums over the chain of CB3, convex.

    f(x) = max(Σ x_i⁴ + x_{i+1}², Σ (2−x_i)² + (2−x_{i+1})², Σ 2e^{x_{i+1}−x_i}), minimum 2(d − 1) at (1, …, 1),
    from (2, …, 2).
    """
    x0, one = np.full(chain(d), 2.0), np.ones(d)
    R = radius(ball, x0, one)
    first, second = _cb3_bounds(d, R)
    bound = (first + second).max()
    return deterministic("chained_cb3_2", _cb3_2, _cb3_2_grad, x0, one, bound, 2.0 * (d - 1), R, convex=True)


def active_faces(d: int = 10) -> Problem:
    """Number of active faces [1, 6]: f(x) = max(g(Σx_i), g(x_1), …, g(x_d)), g(y) = ln(|y| + 1), nonconvex.

    Minimum 0 at 0, from (1, …, 1). Lipschitz everywhere, with constant √d near 0.
    """
    x0 = np.ones(arguments.count("d", d))
    return deterministic("active_faces", _faces, _faces_grad, x0, np.zeros(d), np.sqrt(d))


def brown2(d: int = 10, ball: float | None = None) -> Problem:
    """Nonsmooth Brown function 2 [1, 7]: f(x) = Σ |x_i|^(x_{i+1}²+1) + |x_{i+1}|^(x_i²+1), nonconvex.

    Minimum 0 at 0, from (−1, 1, −1, …). The Lipschitz constant of the default ball is astronomical, and
    inf beyond d ≈ 190: give a small `ball` if it is to be used.
    """
    x0 = np.where(np.arange(chain(d)) % 2, 1.0, -1.0)
    R = radius(ball, x0, np.zeros(d))
    with np.errstate(over="ignore"):
        m = np.float64(1 + R)  # no coordinate is larger on the ball
        link = (m**2 + 1) * m ** (m**2) + 2 * m * max(np.exp(-1.0), np.log(m) * m ** (m**2 + 1))
        bound = 2 * np.sqrt(d - 1) * link
    return deterministic("brown2", _brown, _brown_grad, x0, np.zeros(d), bound, ball=R)


def chained_mifflin2(d: int = 10, ball: float | None = None) -> Problem:
    """Chained Mifflin 2 [1, 8]: f(x) = Σ −x_i + 2y_i + 1.75|y_i|, y_i = x_i² + x_{i+1}² − 1, from (−1, …, −1).

    Listed as nonconvex in the literature, but convex: 2y + 1.75|y| = max(3.75y, 0.25y) is convex and increasing
    and y_i is convex. So the minimum is computed to rounding from its dual: −34.795 for d = 50, −140.86
    for 200, −706.55 for 1000, as tabled. With d = 2, the Mifflin 2 of Lukšan and Vlček, −1 at (1, 0).
    """
    x0 = np.full(chain(d), -1.0)
    best, f_star = _mifflin2_minimum(d)
    R = radius(ball, x0, best)
    bound = np.sqrt(d - 1) + 15 * (np.linalg.norm(x0) + R)
    return deterministic("chained_mifflin2", _mifflin2, _mifflin2_grad, x0, best, bound, f_star, R, convex=True)


def chained_crescent2(d: int = 10, ball: float | None = None) -> Problem:
    """Chained crescent II [1, 10]: f(x) = Σ max(a_i, b_i) with the a_i and b_i of `chained_crescent1`, nonconvex."""
    oracle = Deterministic(_crescent2, vectorized=True, grad=_crescent2_grad)
    return replace(chained_crescent1(d, ball), name="chained_crescent2", oracle=oracle)


def _mxhilb(X: Array, H: Array) -> Array:
    return np.asarray(np.abs(X @ H).max(axis=1))


def _mxhilb_grad(X: Array, H: Array) -> Array:
    rows = X @ H
    active = np.abs(rows).argmax(axis=1)
    return np.asarray(np.sign(rows[np.arange(len(X)), active])[:, None] * H[active])


def _cb3_pieces(X: Array) -> Array:
    a, b = X[:, :-1], X[:, 1:]
    return np.stack([a**4 + b**2, (2 - a) ** 2 + (2 - b) ** 2, 2 * np.exp(b - a)])


def _cb3_slopes(X: Array) -> tuple[Array, Array]:
    a, b = X[:, :-1], X[:, 1:]
    steep = 2 * np.exp(b - a)
    return np.stack([4 * a**3, 2 * (a - 2), -steep]), np.stack([2 * b, 2 * (b - 2), steep])


def _cb3_bounds(d: int, R: float) -> tuple[Array, Array]:
    """Bound, for each piece, the norms of all first and of all second components on the ball."""
    # (Σ x_i⁶)^½ = ‖x‖₆³, and ‖·‖₆ ≤ ‖·‖; x_{i+1} − x_i ≤ √2 R.
    exponential = 2 * np.sqrt(d - 1) * np.exp(np.sqrt(2) * R)
    first = np.array([4 * (2 * d ** (1 / 6) + R) ** 3, 2 * R, exponential])
    return first, np.array([2 * (2 * np.sqrt(d) + R), 2 * R, exponential])


def _cb3_1(X: Array) -> Array:
    return np.asarray(_cb3_pieces(X).max(axis=0).sum(axis=1))


def _cb3_1_grad(X: Array) -> Array:
    active = _cb3_pieces(X).argmax(axis=0)[None]
    first, second = (np.take_along_axis(slopes, active, axis=0)[0] for slopes in _cb3_slopes(X))
    return linked(first, second)


def _cb3_2(X: Array) -> Array:
    return np.asarray(_cb3_pieces(X).sum(axis=2).max(axis=0))


def _cb3_2_grad(X: Array) -> Array:
    active = _cb3_pieces(X).sum(axis=2).argmax(axis=0)
    first, second = (slopes[active, np.arange(len(X))] for slopes in _cb3_slopes(X))
    return linked(first, second)


def _faces(X: Array) -> Array:
    largest = np.maximum(np.abs(X).max(axis=1), np.abs(X.sum(axis=1)))
    return np.asarray(np.log1p(largest))


def _faces_grad(X: Array) -> Array:
    total = X.sum(axis=1)
    active = np.abs(X).argmax(axis=1)
    y = X[np.arange(len(X)), active]
    by_sum = np.abs(total) > np.abs(y)
    pick = np.where(by_sum[:, None], 1.0, one_hot(active, X.shape[1]))
    y = np.where(by_sum, total, y)
    return np.asarray(pick * (np.sign(y) / (1 + np.abs(y)))[:, None])


def _brown(X: Array) -> Array:
    a, b = np.abs(X[:, :-1]), np.abs(X[:, 1:])
    return np.asarray((a ** (b**2 + 1) + b ** (a**2 + 1)).sum(axis=1))


def _brown_grad(X: Array) -> Array:
    def slope(x: Array, y: Array) -> Array:
        """Derivative in x of |x|^(y²+1) + |y|^(x²+1); y ln|y| → 0 at 0."""
        a, b = np.abs(x), np.abs(y)
        log = np.log(b, out=np.zeros_like(b), where=b > 0)
        return np.asarray((b**2 + 1) * a ** (b**2) * np.sign(x) + 2 * x * log * b ** (a**2 + 1))

    return linked(slope(X[:, :-1], X[:, 1:]), slope(X[:, 1:], X[:, :-1]))


def _mifflin2(X: Array) -> Array:
    y = X[:, :-1] ** 2 + X[:, 1:] ** 2 - 1
    return np.asarray((2 * y + 1.75 * np.abs(y) - X[:, :-1]).sum(axis=1))


def _mifflin2_grad(X: Array) -> Array:
    a, b = X[:, :-1], X[:, 1:]
    slope = 4 + 3.5 * np.sign(a**2 + b**2 - 1)
    return linked(slope * a - 1, slope * b)


def _mifflin2_minimum(d: int) -> tuple[Array, float]:
    """Minimiser and minimum of chained Mifflin 2, from its dual.

    max(3.75y, 0.25y) is the maximum of wy over 0.25 ≤ w ≤ 3.75. For fixed weights w the sum is minimal at
    x_i = 1/(2(w_{i−1} + w_i)), with w_0 = 0, and x_d = 0; its value −Σ 1/(4(w_{i−1} + w_i)) − Σ w_i is concave in w.
    """

    def negative_dual(w: Array) -> tuple[float, Array]:
        pairs = w + np.r_[0.0, w[:-1]]
        pull = 1 / (4 * pairs**2)
        return float((0.25 / pairs + w).sum()), 1 - pull - np.r_[pull[1:], 0.0]

    low, high = 0.25, 3.75
    w = np.full(d - 1, 0.5)
    for _ in range(100):  # projected Newton; a dozen steps are usual
        value, slope = negative_dual(w)
        free = ~(((w == low) & (slope > 0)) | ((w == high) & (slope < 0)))
        curvature = 0.5 / (w + np.r_[0.0, w[:-1]]) ** 3
        diagonal = np.where(free, curvature + np.r_[curvature[1:], 0.0], 1.0)
        beside = np.where(free[:-1] & free[1:], curvature[1:], 0.0)
        bands = np.stack([np.r_[0.0, beside], diagonal, np.r_[beside, 0.0]])
        step = solve_banded((1, 1), bands, np.where(free, slope, 0.0))
        length, allowed = 1.0, value * (1 + 1e-14)
        while length > 1e-10 and negative_dual(np.clip(w - length * step, low, high))[0] > allowed:
            length /= 2
        w = np.clip(w - length * step, low, high)
        if np.abs(step[free]).max(initial=0.0) < 1e-14:
            break
    x = np.r_[0.5 / (w + np.r_[0.0, w[:-1]]), 0.0]
    return x, -negative_dual(w)[0]


def _crescent2(X: Array) -> Array:
    p, q = crescent_pieces(X)
    return np.asarray(np.maximum(p, q).sum(axis=1))


def _crescent2_grad(X: Array) -> Array:
    p, q = crescent_pieces(X)
    return crescent_gradient(X, p >= q)


def _chebyshev(X: Array) -> Array:
    links = np.abs(X[:, 1:] - 2 * X[:, :-1] ** 2 + 1)
    return np.asarray((X[:, 0] - 1) ** 2 / 4 + links.sum(axis=1))


def _chebyshev_grad(X: Array) -> Array:
    sign = np.sign(X[:, 1:] - 2 * X[:, :-1] ** 2 + 1)
    grad = linked(-4 * X[:, :-1] * sign, sign)
    grad[:, 0] += (X[:, 0] - 1) / 2
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
