"""Support vector machine with the capped-ℓ₁ regulariser, the nonconvex nonsmooth problem of the GFM+ paper.

References
----------
L. Chen, J. Xu, L. Luo, Faster gradient-free algorithms for nonsmooth nonconvex stochastic optimization,
ICML 2023 (section on experiments: λ = 10⁻⁵/n, α = 2).
T. Zhang, Analysis of multi-stage convex relaxation for sparse regularization, JMLR 11, 2010 (capped ℓ₁).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from goldstein import arguments
from goldstein.extras import needed
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems.base import Problem

# From this many rows per distinct sample on, a product per sample beats gathering each row's own features.
SHARED_ROWS = 64
# Largest number of intermediate entries held at a time.
CHUNK = 1 << 22


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearSum(Problem):
    """A finite sum whose components see x through a row of features, in two forms: `oracle` and `compiled`."""

    features: sparse.csr_array = field(repr=False)

    @property
    def jitted(self) -> Callable[..., float]:
        """Component F(x, i, *oracle.args) compiled by numba on first use: nopython, no allocation."""
        raise NotImplementedError

    @property
    def compiled(self) -> FiniteSum:
        """The oracle made of `jitted`, for compiled loops; needs numba."""
        assert self.oracle.n is not None
        return FiniteSum(self.jitted, self.oracle.n, args=self.oracle.args)


@dataclass(frozen=True, eq=False, kw_only=True)
class SVM(LinearSum):
    """The problem that `capped_l1_svm` builds.

    Attributes
    ----------
    features : scipy.sparse.csr_array, shape (n, d)
        Rows a_i, the bias column included.
    labels : ndarray, shape (n,)
        b_i, −1 or +1.
    weights : ndarray, shape (n,)
        c_i ≥ 0, what the hinge of row i counts.
    regularisation, cap : float
        λ and α.

    Notes
    -----
    `oracle` is vectorised. `compiled` is the same finite sum with a scalar, numba-jitted component. Both
    take `oracle.args` = (data, indices, indptr, signed, λ, α), the CSR arrays of `features` first; signed_i = b_i c_i
    is label and weight in one: c_i max(0, 1 − b_i m) = max(0, |signed_i| − signed_i m).
    """

    labels: Array = field(repr=False)
    weights: Array = field(repr=False)
    regularisation: float
    cap: float

    @property
    def jitted(self) -> Callable[..., float]:
        """Component F(x, i, *oracle.args) compiled by numba on first use: nopython, no allocation."""
        return _jitted_component()

    def accuracy(self, x: npt.ArrayLike) -> float:
        """Share of the rows on whose label the sign of a_i·x agrees; 0 counts as +1."""
        margins = self.features @ self._points(x)
        return float(np.mean(np.where(margins >= 0, 1.0, -1.0) == self.labels))

    def _mean(self, X: Array, order: int) -> Array:
        """Full loss or its gradient through sparse products, a chunk of points at a time."""
        chunk = max(1, CHUNK // len(self.labels))
        parts = [self._mean_of_chunk(X[start : start + chunk], order) for start in range(0, len(X), chunk)]
        return np.concatenate(parts) if parts else np.empty(X.shape if order else 0)

    def _mean_of_chunk(self, X: Array, order: int) -> Array:
        signed = (self.labels * self.weights)[:, None]
        slack = np.abs(signed) - signed * (self.features @ X.T)
        if order == 0:
            return np.asarray(np.maximum(slack, 0).mean(axis=0) + self.regularisation * _capped(X, self.cap))
        pull = np.where(slack > 0, -signed, 0.0) / len(self.labels)
        return np.asarray((self.features.T @ pull).T + self.regularisation * _capped_grad(X, self.cap))


def capped_l1_svm(
    A: Any,
    b: npt.ArrayLike,
    regularisation: float | None = None,
    cap: float = 2.0,
    bias: bool = True,
    f_star: float = np.nan,
    weights: npt.ArrayLike | None = None,
) -> SVM:
    """Support vector machine with a capped-ℓ₁ regulariser, a finite sum of nonconvex components.

    f(x) = (1/n) Σ_i c_i max(0, 1 − b_i a_i·x) + λ Σ_j min(|x_j|, α), from x0 = (1, …, 1).

    Every component F(x; i) = c_i max(0, 1 − b_i a_i·x) + λ Σ_j min(|x_j|, α) carries the whole regulariser, so that
    its mean over i is f. The regulariser counts all coordinates of x, that of the bias included. The Lipschitz
    constant is the root mean square of the components' constants c_i ‖a_i‖ + λ√d and holds everywhere.

    Parameters
    ----------
    A : array_like or scipy.sparse array, shape (n, features)
        One row per sample, kept as CSR.
    b : array_like, shape (n,)
        Labels, −1 or +1.
    regularisation : float, optional
        λ ≥ 0; by default 10⁻⁵/n.
    cap : float
        α > 0.
    bias : bool
        Append a column of ones to A.
    f_star : float
        Infimum of f, if you know it.
    weights : array_like, shape (n,), optional
        c_i ≥ 0; by default all 1, as in the paper.

    Returns
    -------
    SVM
        A `Problem` with `accuracy(x)`, and `compiled` for machine code.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.problems import capped_l1_svm
    >>> svm = capped_l1_svm(np.eye(2), [1, -1], regularisation=0.1)
    >>> round(svm.value(svm.x0), 12)  # mean of the hinges 0 and 3, and 0.1 for each of 3 coordinates
    1.8
    """
    features, labels = as_features(A, bias), _labels(b)
    n, d = features.shape
    if labels.size != n:
        raise ValueError(f"A has {n} rows but b has {labels.size} labels.")
    if regularisation is None:
        regularisation = 1e-5 / n
    lam = arguments.not_negative("regularisation", regularisation)
    alpha = arguments.number("cap", cap, "a positive number", lambda given: given > 0)
    counts = row_weights(weights, n)
    args = (features.data, features.indices, features.indptr, labels * counts, lam, alpha)
    lengths = counts * np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    return SVM(
        name="capped_l1_svm",
        oracle=FiniteSum(_components, n, args=args, vectorized=True, grad=_component_grads),
        x0=np.ones(d),
        f_star=float(f_star),
        lipschitz=float(np.sqrt(np.mean((lengths + lam * np.sqrt(d)) ** 2))),
        features=features,
        labels=labels,
        weights=counts,
        regularisation=lam,
        cap=alpha,
    )


def as_features(A: Any, bias: bool) -> sparse.csr_array:
    """Return A as CSR of our own, float64, without duplicates, its columns sorted; the bias comes last."""
    matrix = sparse.csr_array(A, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] == 0:
        raise ValueError(f"A must be a matrix with at least one row, got shape {matrix.shape}.")
    if bias:
        ones = sparse.csr_array(np.ones((matrix.shape[0], 1)))
        matrix = sparse.hstack([matrix, ones], format="csr")
    else:
        matrix = matrix.copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise ValueError("A holds NaN or infinite entries.")
    if max(matrix.nnz, *matrix.shape) < 2**31:  # one type of index, so that one compiled loop serves all matrices
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def _labels(b: npt.ArrayLike) -> Array:
    labels = np.array(b, dtype=np.float64)
    if labels.ndim != 1 or not np.isin(labels, (-1.0, 1.0)).all():
        values = np.unique(labels)[:5].tolist()
        raise ValueError(f"b must be a vector of labels −1 and +1, got shape {labels.shape} with values {values}.")
    return labels


def row_weights(weights: npt.ArrayLike | None, n: int) -> Array:
    """Return what each of n rows counts, all 1 if nothing is said."""
    if weights is None:
        return np.ones(n)
    counts = np.array(weights, dtype=np.float64)
    if counts.shape != (n,) or not (np.isfinite(counts) & (counts >= 0)).all():
        raise ValueError(f"weights must be {n} numbers of at least 0, one for each row of A.")
    return counts


def _capped(X: Array, cap: float) -> Array:
    """Σ_j min(|x_j|, α) for each row."""
    clipped = np.clip(X, -cap, cap)
    return np.asarray(np.abs(clipped, out=clipped) @ np.ones(X.shape[1]))


def _capped_grad(X: Array, cap: float) -> Array:
    return np.asarray(np.sign(X) * (np.abs(X) < cap))


def _components(
    X: Array, i: Samples, data: Array, indices: Samples, indptr: Samples, signed: Array, lam: float, cap: float
) -> Array:
    """F(X_k; i_k) for each row k."""
    slack = np.abs(signed[i]) - signed[i] * margins(X, i, data, indices, indptr)
    return np.asarray(np.maximum(slack, 0) + lam * _capped(X, cap))


def _component_grads(
    X: Array, i: Samples, data: Array, indices: Samples, indptr: Samples, signed: Array, lam: float, cap: float
) -> Array:
    """∇F(X_k; i_k) for each row k, where it exists."""
    grad = lam * _capped_grad(X, cap)
    active = np.flatnonzero(signed[i] * margins(X, i, data, indices, indptr) < np.abs(signed[i]))
    entries, row = _entries(i[active], indptr)
    # Columns of one sample are distinct, so that no entry is addressed twice.
    grad[active[row], indices[entries]] -= signed[i[active]][row] * data[entries]
    return grad


def margins(X: Array, i: Samples, data: Array, indices: Samples, indptr: Samples) -> Array:
    """a_{i_k}·X_k for each row k."""
    # A look at the first rows spares the usual case, one sample per row or per pair, the cost of sorting.
    if len(i) >= SHARED_ROWS and len(set(i[:SHARED_ROWS].tolist())) < SHARED_ROWS // 4:
        distinct = np.unique(i)
        if SHARED_ROWS * len(distinct) <= len(i):
            return _margins_by_sample(X, i, distinct, data, indices, indptr)
    out = np.empty(len(X))
    chunk = max(1, CHUNK * (len(indptr) - 1) // max(1, len(data)))
    for start in range(0, len(X), chunk):
        rows = slice(start, start + chunk)
        entries, row = _entries(i[rows], indptr)
        products = data[entries] * X[rows][row, indices[entries]]
        out[rows] = np.bincount(row, weights=products, minlength=len(i[rows]))
    return out


def _margins_by_sample(
    X: Array, i: Samples, distinct: Samples, data: Array, indices: Samples, indptr: Samples
) -> Array:
    """The same, one matrix-vector product for all rows that share a sample."""
    out = np.empty(len(X))
    for sample in distinct:
        entries = slice(indptr[sample], indptr[sample + 1])
        rows = slice(None) if len(distinct) == 1 else np.flatnonzero(i == sample)
        out[rows] = X[rows][:, indices[entries]] @ data[entries]
    return out


def _entries(i: Samples, indptr: Samples) -> tuple[Samples, Samples]:
    """Where the features of samples i_0, i_1, … lie in the CSR arrays, and which k each belongs to."""
    start = indptr[i].astype(np.intp)
    count = indptr[np.asarray(i) + 1] - start
    row = np.repeat(np.arange(len(i)), count)
    before = np.cumsum(count) - count
    return np.arange(row.size) + (start - before)[row], row


@cache
def _jitted_component() -> Callable[..., float]:
    njit = needed("numba", "The compiled component").njit

    @njit(fastmath={"reassoc"})  # this sum may be reordered, so that it runs in vector registers
    def capped(x, cap):  # type: ignore[no-untyped-def]
        total = 0.0
        for j in range(x.size):
            total += min(abs(x[j]), cap)
        return total

    def component(x, i, data, indices, indptr, signed, lam, cap):  # type: ignore[no-untyped-def]
        margin = 0.0
        for entry in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):  # unsigned: no index counts from the end
            margin += data[entry] * x[np.uint64(indices[entry])]
        return max(0.0, abs(signed[i]) - signed[i] * margin) + lam * capped(x, cap)

    compiled: Callable[..., float] = njit(nogil=True)(component)
    return compiled
