"""Small nonsmooth test problems of Lukšan and Vlček, each with its customary start and best known value.

Included are those whose formula was checked against the tabled value: the minimisers below satisfy the
optimality conditions to rounding. The rest of the set of 25 stands elsewhere or is left out: Crescent, CB3,
LQ and Mifflin 2 are `chained_crescent1`, `chained_cb3_1`, `chained_lq` and `chained_mifflin2` with d = 2; MAXQ and
MXHILB are `maxq` and `mxhilb`; Rosenbrock is smooth; Colville 1 and HS78 are unbounded below, so that their
tabled values are not infima; TR48 needs a table of 48 × 48 costs; Shell Dual was not checked.

References
----------
[1] L. Lukšan, J. Vlček, Test problems for nonsmooth unconstrained and linearly constrained optimization,
    Technical Report V-798, Institute of Computer Science, Academy of Sciences of the Czech Republic, 2000.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import hilbert

from goldstein import arguments
from goldstein.oracle import Array
from goldstein.problems.base import Problem, deterministic, one_hot, radius
from studies.problems import quadratics


def cb2(ball: float | None = None) -> Problem:
    """CB2 [1]: f(x) = max(x₁² + x₂⁴, (2 − x₁)² + (2 − x₂)², 2e^{x₂−x₁}), convex, minimum 1.9522245."""
    x0, best = np.array([1.0, -0.1]), np.array([1.1390376519926626, 0.8995599383953928])
    R = radius(ball, x0, best)
    bound = max(
        np.hypot(2 * (1 + R), 4 * (0.1 + R) ** 3),
        2 * (np.linalg.norm(x0 - 2) + R),
        np.sqrt(8) * np.exp(-1.1 + np.sqrt(2) * R),
    )
    return deterministic("cb2", _cb2, _cb2_grad, x0, best, bound, 1.9522244938706588, R, convex=True)


def demyanov_malozemov(ball: float | None = None) -> Problem:
    """DEM [1]: f(x) = max(5x₁ + x₂, −5x₁ + x₂, x₁² + x₂² + 4x₂), convex, minimum −3 at (0, −3)."""
    H = [np.zeros((2, 2)), np.zeros((2, 2)), 2 * np.eye(2)]
    g = [[5, 1], [-5, 1], [0, 4]]
    return _quadratic("demyanov_malozemov", H, g, [0, 0, 0], [1, 1], [0, -3], -3.0, ball)


def ql(ball: float | None = None) -> Problem:
    """QL [1]: f(x) = ‖x‖² + 10 max(0, 4 − 4x₁ − x₂, 6 − x₁ − 2x₂), convex, minimum 7.2 at (1.2, 2.4)."""
    H = [2 * np.eye(2)] * 3
    g = [[0, 0], [-40, -10], [-10, -20]]
    return _quadratic("ql", H, g, [0, 40, 60], [-1, 5], [1.2, 2.4], 7.2, ball)


def mifflin1(ball: float | None = None) -> Problem:
    """Mifflin 1 [1]: f(x) = −x₁ + 20 max(‖x‖² − 1, 0), convex, minimum −1 at (1, 0)."""
    H = [np.zeros((2, 2)), 40 * np.eye(2)]
    g = [[-1, 0], [-1, 0]]
    return _quadratic("mifflin1", H, g, [0, -20], [0.8, 0.6], [1, 0], -1.0, ball)


def rosen_suzuki(ball: float | None = None) -> Problem:
    """Rosen-Suzuki [1]: f = f₁ + 10 max(0, f₂, f₃, f₄), convex, minimum −44 at (0, 1, 2, −1).

    f₁ = x₁² + x₂² + 2x₃² + x₄² − 5x₁ − 5x₂ − 21x₃ + 7x₄, f₂ = ‖x‖² + x₁ − x₂ + x₃ − x₄ − 8,
    f₃ = x₁² + 2x₂² + x₃² + 2x₄² − x₁ − x₄ − 10, f₄ = 2x₁² + x₂² + x₃² + 2x₁ − x₂ − x₄ − 5.
    """
    curvature = np.array([[1, 1, 2, 1], [1, 1, 1, 1], [1, 2, 1, 2], [2, 1, 1, 0]], dtype=np.float64)
    slope = np.array([[-5, -5, -21, 7], [1, -1, 1, -1], [-1, 0, 0, -1], [2, -1, 0, -1]], dtype=np.float64)
    penalties = np.array([[1, 0, 0, 0], [1, 10, 0, 0], [1, 0, 10, 0], [1, 0, 0, 10]])
    H = [np.diag(2 * row) for row in penalties @ curvature]
    g = penalties @ slope
    c = penalties @ np.array([0, -8, -10, -5])
    return _quadratic("rosen_suzuki", H, g, c, np.zeros(4), [0, 1, 2, -1], -44.0, ball)


def shor(ball: float | None = None) -> Problem:
    """Shor [1]: f(x) = max_i b_i ‖x − a_i‖² over ten points in R⁵, convex, minimum 22.600162."""
    a = np.array(
        [
            [0, 2, 1, 1, 3, 0, 1, 1, 0, 1],
            [0, 1, 2, 4, 2, 2, 1, 0, 0, 1],
            [0, 1, 1, 1, 1, 1, 1, 1, 2, 2],
            [0, 1, 1, 2, 0, 0, 1, 2, 1, 0],
            [0, 3, 2, 2, 1, 1, 1, 1, 0, 0],
        ]
    ).T
    b = np.array([1, 5, 10, 2, 4, 3, 1.7, 2.5, 6, 3.5])
    best = [1.1243510101866154, 0.9794615993136555, 1.4777077519642634, 0.9202334858848578, 1.1242915880048427]
    H = b[:, None, None] * (2 * np.eye(5))
    c = b * (a**2).sum(axis=1)
    return _quadratic("shor", H, -2 * b[:, None] * a, c, [0, 0, 0, 0, 1], best, 22.6001620957709, ball)


def maxquad(ball: float | None = None) -> Problem:
    """Maxquad [1]: f(x) = max_{k ≤ 5} x·A_k x − b_k·x in R¹⁰, convex, minimum −0.8414083, from 0.

    (A_k)_ij = e^{i/j} cos(ij) sin k for i < j, (A_k)_ii = i |sin k|/10 + Σ_{j≠i} |(A_k)_ij|, (b_k)_i = e^{i/k} sin(ik).
    """
    i, k = np.arange(1, 11), np.arange(1, 6)[:, None]
    low, high = np.minimum(i, i[:, None]), np.maximum(i, i[:, None])
    off = np.exp(low / high) * np.cos(low * high) * (1 - np.eye(10)) * np.sin(k)[:, :, None]
    diagonal = i / 10 * np.abs(np.sin(k)) + np.abs(off).sum(axis=2)
    A = off + diagonal[:, :, None] * np.eye(10)
    best = [
        *(-0.12625658077472546, -0.03437830256204082, -0.00685719832698151, 0.02636065824633788),
        *(0.06729492268974151, -0.27839950075199377, 0.07421866454469363, 0.1385240478372969),
        *(0.08403122312533241, 0.03858030977273084),
    ]
    b = np.exp(i / k) * np.sin(i * k)
    return _quadratic("maxquad", 2 * A, -b, np.zeros(5), np.zeros(10), best, -0.8414083345964143, ball)


def wolfe(ball: float | None = None) -> Problem:
    """Wolfe [1], on which steepest descent stalls: convex, minimum −8 at (−1, 0), from (3, 2).

    f(x) = 5√(9x₁² + 16x₂²) if x₁ ≥ |x₂|, 9x₁ + 16|x₂| if 0 < x₁ < |x₂|, 9x₁ + 16|x₂| − x₁⁹ if x₁ ≤ 0.
    """
    x0, best = np.array([3.0, 2.0]), np.array([-1.0, 0.0])
    R = radius(ball, x0, best)
    # √337 where x₁ = |x₂|; to the left of the axis the slope in x₁ is 9 − 9x₁⁸ with x₁ ≥ 3 − R.
    bound = np.hypot(16, max(9, 9 * max(R - 3, 0) ** 8 - 9))
    return deterministic("wolfe", _wolfe, _wolfe_grad, x0, best, bound, -8.0, R, convex=True)


def el_attar(ball: float | None = None) -> Problem:
    """El-Attar [1]: ℓ₁ fit of a damped oscillation, nonconvex, best known value 0.5598131.

    f(x) = Σ_i |x₁ e^{−x₂t_i} cos(x₃t_i + x₄) + x₅ e^{−x₆t_i} − y_i| with t_i = 0, 0.1, …, 5 and
    y = e^{−t}/2 − e^{−2t} + e^{−3t}/2 + 1.5e^{−1.5t} sin 7t + e^{−2.5t} sin 5t.
    """
    x0 = np.array([2.0, 2.0, 7.0, 0.0, -2.0, 1.0])
    best = [
        *(2.240744496027604, 1.8576883749357285, 6.770049175627613),
        *(-1.6448984351305604, 0.16589197189004967, 0.7422845234249847),
    ]
    R = radius(ball, x0, np.array(best))
    t, high = 0.1 * np.arange(51), 2 + R
    oscillation = np.exp(2 * (R - 2) * t) * (max(1, high**2) + (high * t) ** 2)
    decay = np.exp(2 * (R - 1) * t) * (1 + (high * t) ** 2)
    bound = np.sqrt(oscillation + decay).sum()
    return deterministic("el_attar", _el_attar, _el_attar_grad, x0, best, bound, 0.5598130653607185, R)


def gill(ball: float | None = None) -> Problem:
    """Gill [1]: f = max(f₁, f₂, f₃) in R¹⁰, nonconvex, best known value 9.7857721, from (−0.1, …, −0.1).

    f₁ = Σ (x_i − 1)² + 10⁻³ (Σ x_i² − 1/4)², f₃ = Σ_{i≥2} 100 (x_i − x_{i−1}²)² + (1 − x_i)², and with t_i = i/29
    f₂ = Σ_{i≤29} [Σ_j (j−1) x_j t_i^{j−2} − (Σ_j x_j t_i^{j−1})² − 1]² + x₁² + (x₂ − x₁² − 1)². The report prints
    Σ (x_i² − 1/4)² in f₁; its tabled value belongs to the penalty function of Gill and Murray, used here.
    """
    x0 = np.full(10, -0.1)
    best = [
        *(-0.6022145102789158, 0.49069845948876606, 0.3095573548312006, 0.14162317167782507),
        *(0.05420359650764021, 0.02864741228662978, 0.01971447576069346, 0.01368116521179217),
        *(0.0087293614617314, 0.00446612742412839),
    ]
    R = radius(ball, x0, np.array(best))
    rho, from_one = float(np.linalg.norm(x0)) + R, float(np.linalg.norm(x0 - 1)) + R
    slope, power = (np.linalg.norm(rows, axis=1) for rows in _gill_rows())
    residual = slope * rho + (power * rho) ** 2 + 1
    bound = max(
        2 * from_one + 4e-3 * max(0.25, rho**2 - 0.25) * rho,
        (2 * residual * (slope + 2 * power**2 * rho)).sum()
        + 2 * rho
        + 2 * (rho + rho**2 + 1) * np.sqrt(1 + 4 * rho**2),
        200 * (rho + rho**2) * (1 + 2 * rho) + 2 * from_one,
    )
    return deterministic("gill", _gill, _gill_grad, x0, best, bound, 9.785772080817834, R)


def steiner2() -> Problem:
    """Steiner 2 [1]: weighted lengths of a network with six free nodes in the plane, convex, minimum 16.703838.

    f(x) = ‖z₁‖ + Σ_j p_j ‖z_j − a_j‖ + Σ_j q_j ‖z_j − z_{j+1}‖ + ‖z₆ − (5.5, −1)‖ with z_j = (x_j, x_{j+6}).
    """
    z0 = np.zeros((6, 2))
    ahead = np.vstack([_STEINER_NODES[1:], _STEINER_END])
    for j in range(6):
        z0[j] = (z0[j - 1] * (j > 0) + _STEINER_NODES[j] + ahead[j]) / 3
    best = np.array([[0, 2], [1.7276944740309188, 2.281322954753341], *[[4, -0.5]] * 4])
    # Each node is pulled with at most the sum of the weights that meet in it.
    pulls = _STEINER_P + np.r_[1, _STEINER_Q] + np.r_[_STEINER_Q, 1]
    bound = np.linalg.norm(pulls)
    return deterministic(
        "steiner2", _steiner, _steiner_grad, z0.T.ravel(), best.T.ravel(), bound, 16.703837553679037, convex=True
    )


def maxl(d: int = 20) -> Problem:
    """MAXL [1]: f(x) = max_i |x_i|, convex, 1-Lipschitz, minimum 0 at 0, from the start of `maxq`."""
    index = np.arange(1, arguments.count("d", d) + 1)
    x0 = np.where(index <= d // 2, index, -index)
    return deterministic("maxl", _maxl, _maxl_grad, x0, np.zeros(d), 1.0, convex=True)


def goffin(d: int = 50) -> Problem:
    """Goffin [1]: f(x) = d max_i x_i − Σ x_i, convex, minimum 0 wherever all x_i agree, from x_i = i − (d + 1)/2."""
    x0 = np.arange(1, arguments.count("d", d) + 1) - (d + 1) / 2
    return deterministic("goffin", _goffin, _goffin_grad, x0, np.zeros(d), np.sqrt(d * (d - 1)), convex=True)


def l1hilb(d: int = 10) -> Problem:
    """L1HILB [1]: f(x) = Σ_i |Σ_j x_j/(i + j − 1)|, convex, minimum 0 at 0, from (1, …, 1)."""
    H = hilbert(arguments.count("d", d))
    bound = np.linalg.norm(H.sum(axis=0))  # H is positive: no choice of signs gives a longer H s
    start, zero = np.ones(d), np.zeros(d)
    return deterministic("l1hilb", partial(_l1hilb, H=H), partial(_l1hilb_grad, H=H), start, zero, bound, convex=True)


def _quadratic(
    name: str, H: Any, g: Any, c: Any, x0: Any, minimiser: Any, f_star: float, ball: float | None
) -> Problem:
    """Maximum of convex quadratics, see `quadratics`."""
    H, g, c, start = (np.asarray(values, dtype=np.float64) for values in (H, g, c, x0))
    R = radius(ball, start, np.asarray(minimiser))
    data = {"H": H, "g": g, "c": c}
    fun, grad = partial(quadratics.largest, **data), partial(quadratics.largest_grad, **data)
    bound = quadratics.lipschitz(H, g, start, R)
    return deterministic(name, fun, grad, start, minimiser, bound, f_star, R, convex=True)


def _cb2_pieces(X: Array) -> Array:
    a, b = X.T
    return np.stack([a**2 + b**4, (2 - a) ** 2 + (2 - b) ** 2, 2 * np.exp(b - a)])


def _cb2(X: Array) -> Array:
    return np.asarray(_cb2_pieces(X).max(axis=0))


def _cb2_grad(X: Array) -> Array:
    a, b = X.T
    steep = 2 * np.exp(b - a)
    slopes = np.stack([[2 * a, 4 * b**3], [2 * (a - 2), 2 * (b - 2)], [-steep, steep]])
    return np.asarray(slopes[_cb2_pieces(X).argmax(axis=0), :, np.arange(len(X))])


def _wolfe(X: Array) -> Array:
    a, b = X[:, 0], np.abs(X[:, 1])
    right = 5 * np.hypot(3 * a, 4 * b)
    return np.asarray(np.where(a >= b, right, 9 * a + 16 * b - np.minimum(a, 0) ** 9))


def _wolfe_grad(X: Array) -> Array:
    a, b = X[:, 0], np.abs(X[:, 1])
    length = np.maximum(np.hypot(3 * a, 4 * b), np.finfo(np.float64).tiny)
    right = a >= b
    along = np.where(right, 45 * a / length, 9 - 9 * np.minimum(a, 0) ** 8)
    across = np.where(right, 80 * b / length, 16.0)
    return np.stack([along, np.sign(X[:, 1]) * across], axis=1)


_TIMES = 0.1 * np.arange(51)
_SIGNAL = (
    np.exp(-_TIMES) / 2
    - np.exp(-2 * _TIMES)
    + np.exp(-3 * _TIMES) / 2
    + 1.5 * np.exp(-1.5 * _TIMES) * np.sin(7 * _TIMES)
    + np.exp(-2.5 * _TIMES) * np.sin(5 * _TIMES)
)


def _el_attar_terms(X: Array) -> tuple[Array, ...]:
    x1, x2, x3, x4, x5, x6 = X.T[:, :, None]
    damping, phase, decay = np.exp(-x2 * _TIMES), x3 * _TIMES + x4, np.exp(-x6 * _TIMES)
    wave, quarter = damping * np.cos(phase), damping * np.sin(phase)
    return x1, x5, wave, quarter, decay, x1 * wave + x5 * decay - _SIGNAL


def _el_attar(X: Array) -> Array:
    return np.asarray(np.abs(_el_attar_terms(X)[-1]).sum(axis=1))


def _el_attar_grad(X: Array) -> Array:
    x1, x5, wave, quarter, decay, residual = _el_attar_terms(X)
    sign = np.sign(residual)
    slopes = [wave, -_TIMES * x1 * wave, -_TIMES * x1 * quarter, -x1 * quarter, decay, -_TIMES * x5 * decay]
    return np.stack([(sign * slope).sum(axis=1) for slope in slopes], axis=1)


def _gill_rows() -> tuple[Array, Array]:
    """Rows of the derivative and of the polynomial Σ x_j t^{j−1} at t = 1/29, …, 1."""
    power = (np.arange(1, 30) / 29)[:, None] ** np.arange(10)
    slope = np.hstack([np.zeros((29, 1)), np.arange(1, 10) * power[:, :-1]])
    return slope, power


def _gill_residuals(X: Array) -> tuple[Array, Array, Array, Array]:
    slope, power = _gill_rows()
    value = X @ power.T
    ode = X @ slope.T - value**2 - 1
    start = X[:, 1] - X[:, 0] ** 2 - 1
    return value, ode, start, X[:, 1:] - X[:, :-1] ** 2


def _gill_pieces(X: Array) -> Array:
    _, ode, start, valley = _gill_residuals(X)
    penalty = ((X - 1) ** 2).sum(axis=1) + 1e-3 * ((X**2).sum(axis=1) - 0.25) ** 2
    watson = (ode**2).sum(axis=1) + X[:, 0] ** 2 + start**2
    rosenbrock = (100 * valley**2 + (1 - X[:, 1:]) ** 2).sum(axis=1)
    return np.stack([penalty, watson, rosenbrock])


def _gill(X: Array) -> Array:
    return np.asarray(_gill_pieces(X).max(axis=0))


def _gill_grad(X: Array) -> Array:
    slope, power = _gill_rows()
    value, ode, start, valley = _gill_residuals(X)
    penalty = 2 * (X - 1) + 4e-3 * ((X**2).sum(axis=1, keepdims=True) - 0.25) * X
    watson = 2 * ode @ slope - 4 * (ode * value) @ power
    watson[:, 0] += 2 * X[:, 0] - 4 * start * X[:, 0]
    watson[:, 1] += 2 * start
    rosenbrock = np.zeros_like(penalty)
    rosenbrock[:, :-1] -= 400 * valley * X[:, :-1]
    rosenbrock[:, 1:] += 200 * valley - 2 * (1 - X[:, 1:])
    gradients = np.stack([penalty, watson, rosenbrock])
    return np.asarray(gradients[_gill_pieces(X).argmax(axis=0), np.arange(len(X))])


_STEINER_NODES = np.array([[0, 2], [2, 3], [3, -1], [4, -0.5], [5, 2], [6, 2]])
_STEINER_END = np.array([5.5, -1.0])
_STEINER_P = np.array([2.0, 1, 1, 5, 1, 1])
_STEINER_Q = np.array([1.0, 1, 2, 3, 2])
_STEINER_WEIGHTS = np.concatenate([[1.0], _STEINER_P, _STEINER_Q, [1.0]])


def _steiner_edges(X: Array) -> Array:
    """Vectors along the thirteen edges, shape (k, 13, 2)."""
    z = X.reshape(-1, 2, 6).transpose(0, 2, 1)
    return np.concatenate([z[:, :1], z - _STEINER_NODES, z[:, :-1] - z[:, 1:], z[:, 5:] - _STEINER_END], axis=1)


def _steiner(X: Array) -> Array:
    return np.asarray(np.linalg.norm(_steiner_edges(X), axis=2) @ _STEINER_WEIGHTS)


def _steiner_grad(X: Array) -> Array:
    edges = _steiner_edges(X)
    length = np.linalg.norm(edges, axis=2, keepdims=True)
    pull = np.divide(edges, length, out=np.zeros_like(edges), where=length > 0) * _STEINER_WEIGHTS[:, None]
    grad = pull[:, 1:7].copy()
    grad[:, 0] += pull[:, 0]
    grad[:, :-1] += pull[:, 7:12]
    grad[:, 1:] -= pull[:, 7:12]
    grad[:, 5] += pull[:, 12]
    return np.asarray(grad.transpose(0, 2, 1).reshape(len(X), 12))


def _maxl(X: Array) -> Array:
    return np.asarray(np.abs(X).max(axis=1))


def _maxl_grad(X: Array) -> Array:
    return np.asarray(one_hot(np.abs(X).argmax(axis=1), X.shape[1]) * np.sign(X))


def _goffin(X: Array) -> Array:
    return np.asarray(X.shape[1] * X.max(axis=1) - X.sum(axis=1))


def _goffin_grad(X: Array) -> Array:
    d = X.shape[1]
    return np.asarray(d * one_hot(X.argmax(axis=1), d) - 1)


def _l1hilb(X: Array, H: npt.NDArray[np.float64]) -> Array:
    return np.asarray(np.abs(X @ H).sum(axis=1))


def _l1hilb_grad(X: Array, H: npt.NDArray[np.float64]) -> Array:
    return np.asarray(np.sign(X @ H) @ H)
