"""What both estimators do: runs of `minimize` on rows with weights, and nothing left behind by a call that fails."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from goldstein import arguments
from goldstein.methods import Method, resolve
from goldstein.methods.kernel import compilable
from goldstein.minimize import minimize
from goldstein.oracle import Array, FiniteSum
from goldstein.problems.svm import LinearSum
from goldstein.run.result import Result

LEAST = 50_000  # values of a fit at least: below a tenth of a second in machine code


class FromValues(BaseEstimator):  # type: ignore[misc]
    """A linear model that is learnt from values of its loss."""

    method: str | Method
    options: Mapping[str, Any] | None
    max_evals: int | None
    fit_intercept: bool
    verbose: int
    coef_: Array
    intercept_: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_flags(self) -> None:
        """Refuse switches that are neither on nor off."""
        arguments.flag("fit_intercept", self.fit_intercept)
        if not isinstance(self.verbose, bool | np.bool_):
            arguments.count("verbose", self.verbose, least=0)

    def _weights(self, X: Any, sample_weight: npt.ArrayLike | None) -> Array:
        """Return what each row counts."""
        weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("sample_weight is 0 for every row, so that there is nothing to learn from.")
        return weights

    def _scores(self, X: Any) -> Array:
        """Return a_i·x + intercept for each row, and each row of `coef_`."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def _minimised(
        self, loss: LinearSum, start: Array, values: int, seed: int, about: str = "", unit: float = 1.0
    ) -> Result:
        """Minimise a loss with `values` evaluations unless the user set max_evals; print a line if verbose."""
        method = resolve(self.method, self.options)
        budget = values if self.max_evals is None else self.max_evals
        run = minimize(_oracle(loss, method), start, method, max_evals=budget, rng=seed)
        if self.verbose:
            name = type(self).__name__
            print(f"[{name}] {about}loss {unit * run.fun:.6g} after {run.nfev:,} evaluations", flush=True)
        return run


@contextmanager
def unless_it_fails(estimator: Any) -> Iterator[None]:
    """Leave every attribute, and the random numbers to come, as they were when a call fails."""
    before = vars(estimator).copy()
    rng = getattr(estimator, "_rng", None)
    state = None if rng is None else rng.get_state()
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        if rng is not None:
            rng.set_state(state)
        raise


def values_of_a_fit(n: int, d: int) -> int:
    """Return how many values learning d features from n rows may take: ten passes, and enough for few rows."""
    return max(20 * n, 1000 * (d + 2), LEAST)


def values_of_a_batch(n: int, d: int) -> int:
    """Return how many values learning from a batch may take: five gradients of each row, as for a fit at most."""
    return min(5 * n * (d + 2), values_of_a_fit(n, d))


def copies(weights: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Return which rows to draw from evenly, and what each counts, with mean 1.

    A row of c times the mean weight is there about c times, at least once, and its copies share its weight: at most
    twice as many rows as before, none of them of more than three times the mean weight.
    """
    used = np.flatnonzero(weights)
    times = np.maximum(1, np.rint(weights[used] / weights[used].mean())).astype(np.intp)
    shared = np.repeat(weights[used] / times, times)
    return np.repeat(used, times), shared / shared.mean()


def seed_from(rng: np.random.RandomState) -> int:
    """Return the seed of a run."""
    return int(rng.randint(np.iinfo(np.int32).max))


def answer(result: Result, start: Array, advice: str) -> Array:
    """Return the weights that a run has found, those of the start if it diverged; warn if either is of no use."""
    finite = bool(np.isfinite(result.x).all())
    if not finite or not result.x.any():
        what = "found no weights better than zero" if finite else "diverged, so that the weights stay as they were"
        warnings.warn(f"The run {what}: {advice}.", ConvergenceWarning, stacklevel=4)  # where fit is called
    return result.x if finite else start


def _oracle(loss: LinearSum, method: Method) -> FiniteSum:
    """Return the form of the loss that the method runs fastest on."""
    assert isinstance(loss.oracle, FiniteSum)
    try:
        compiled = loss.compiled
    except ImportError:
        return loss.oracle
    return compiled if compilable(method, compiled) else loss.oracle
