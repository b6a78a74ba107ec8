"""Linear regression by absolute deviations that are capped, so that outliers count no more than the cap."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.extras import needed
from goldstein.oracle import Array, FiniteSum, Samples
from goldstein.problems.svm import LinearSum, as_features, margins, row_weights


class CappedRegression(LinearSum):
    """The problem that `capped_deviations` builds."""

    @property
    def jitted(self) -> Callable[..., float]:
        """Component F(x, i, *oracle.args) compiled by numba on first use."""
        return _jitted_component()


def capped_deviations(
    A: Any, y: npt.ArrayLike, cap: float = np.inf, bias: bool = True, weights: npt.ArrayLike | None = None
) -> CappedRegression:
    """Linear regression by capped absolute deviations, a finite sum; convex without a cap only.

    f(x) = (1/n) Σ_i c_i min(|y_i − a_i·x|, cap), from x0 = 0.

    `A` has a row for each sample and gets a column of ones if `bias`; a row counts at most `cap`, infinite for least
    absolute deviations; `weights` are the c_i ≥ 0, by default all 1.

    Examples
    --------
    >>> from goldstein.problems.regression import capped_deviations
    >>> problem = capped_deviations([[1.0], [2.0]], [1.0, 50.0], cap=3.0, bias=False)
    >>> problem.value([1.0])  # the first row is met, and the second counts 3
    1.5
    """
    features = as_features(A, bias)
    n, d = features.shape
    targets = arguments.reals("y", y, f"{n} real numbers")
    if targets.shape != (n,):
        raise ValueError(f"A has {n} rows but y has shape {targets.shape}.")
    most = arguments.number("cap", cap, "a positive number", lambda given: given > 0)
    counts = row_weights(weights, n)
    lengths = counts * np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    args = (features.data, features.indices, features.indptr, targets, counts, most)
    return CappedRegression(
        name="capped_deviations",
        oracle=FiniteSum(_components, n, args=args, vectorized=True),
        x0=np.zeros(d),
        f_star=float("nan"),
        lipschitz=float(np.sqrt(np.mean(lengths**2))),
        features=features,
    )


def _components(
    X: Array, i: Samples, data: Array, indices: Samples, indptr: Samples, y: Array, weights: Array, cap: float
) -> Array:
    """F(X_k; i_k) for each row k."""
    deviation = np.abs(y[i] - margins(X, i, data, indices, indptr))
    return np.asarray(weights[i] * np.minimum(deviation, cap))


@cache
def _jitted_component() -> Callable[..., float]:
    njit = needed("numba", "The compiled component").njit

    def component(x, i, data, indices, indptr, y, weights, cap):  # type: ignore[no-untyped-def]
        margin = 0.0
        for entry in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):  # unsigned: no index counts from the end
            margin += data[entry] * x[np.uint64(indices[entry])]
        return weights[i] * min(abs(y[i] - margin), cap)

    compiled: Callable[..., float] = njit(nogil=True)(component)
    return compiled
