"""Linear regression that outliers do not bend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from goldstein import arguments
from goldstein.methods import Method
from goldstein.oracle import Array
from goldstein.problems.regression import capped_deviations
from goldstein.sklearn import training

ADVICE = "raise max_evals, or lower the step size if the method has one"
SMALLEST = 1e-150  # of the size of a feature; beyond, it is left as it is


class RobustRegressor(RegressorMixin, training.FromValues):  # type: ignore[misc]
    """Linear regression by capped absolute deviations, trained without gradients.

    Minimises (1/n) Σ_i c_i min(|y_i − a_i·x|, cap · s) over the weights x and the intercept, s being the median
    distance of y from its median: least absolute deviations without a cap, and with one a loss to which an outlier, in
    y or in a, adds no more than the cap. That is not convex, and has no gradient where it bends.

    Parameters
    ----------
    method : str or Method
        As in `goldstein.minimize`.
    options : mapping, optional
        Settings of a method given by name.
    max_evals : int, optional
        Most values of the loss of one row. None: the largest of 20 n, 1000 (d + 2) and 50,000.
    cap : float, optional
        What a row counts at most, in units of s; 2 is a good start, and below 1 few rows pull at first. None: no cap,
        least absolute deviations.
    fit_intercept : bool
        Whether to learn an intercept.
    verbose : int
        1: a line when the run is over.
    random_state : int, RandomState or None
        The same number gives the same fit.

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
        The weights.
    intercept_ : float
        The intercept; 0 without `fit_intercept`.
    history_ : goldstein.run.history.History
        The course of the run.
    n_iter_ : int
        Iterations.
    n_evals_ : int
        Values of the loss of one row that were asked for.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Features need no scaling: inside, each has the median 0 and the size 1, both from medians, so that outliers do not
    matter, and the weights come back in the units of the features. Without an intercept, and for sparse features that
    have zeros, only the size is changed. Sample weights work as in `CappedL1SVC`.
    The run starts from zero weights and the median of y, where rows beyond the cap pull nothing; from the answer
    without a cap, which outliers have bent already, it often ends among them.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.sklearn import RobustRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=200)
    >>> X[:40] += 10
    >>> y[:40] = -50  # a fifth of the rows is nonsense
    >>> model = RobustRegressor(cap=2.0, random_state=0).fit(X, y)
    >>> bool(np.abs(model.coef_ - [1.0, -2.0, 0.5]).max() < 0.1)
    True
    """

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        options: Mapping[str, Any] | None = None,
        max_evals: int | None = None,
        cap: float | None = None,
        fit_intercept: bool = True,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.options = options
        self.max_evals = max_evals
        self.cap = cap
        self.fit_intercept = fit_intercept
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> RobustRegressor:
        """Learn the weights; `sample_weight` is what each row counts."""
        with training.unless_it_fails(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
            self._check_flags()
            cap = arguments.optional_positive("cap", self.cap)
            rows, weights = training.copies(self._weights(X, sample_weight))
            return self._learn(X[rows], np.asarray(y, np.float64)[rows], weights, cap)

    def predict(self, X: Any) -> Array:
        """Return a_i·x + intercept for each row."""
        return self._scores(X)

    def _learn(self, X: Any, y: Array, weights: Array, cap: float | None) -> RobustRegressor:
        """Minimise in units in which y and the features are of size 1; there is no penalty that would notice."""
        X, middle, unit = _scaled(X, centred=self.fit_intercept)
        centre = float(np.median(y)) if self.fit_intercept else 0.0
        distances = np.abs(y - centre)
        scale = float(np.median(distances)) or float(distances.mean()) or 1.0
        most = np.inf if cap is None else cap
        loss = capped_deviations(X, (y - centre) / scale, most, bias=self.fit_intercept, weights=weights)
        seed = training.seed_from(check_random_state(self.random_state))
        values = training.values_of_a_fit(len(y), X.shape[1])
        run = self._minimised(loss, loss.x0, values, seed, unit=scale)
        x = training.answer(run, loss.x0, ADVICE) if distances.any() else loss.x0
        self.coef_ = scale * x[: X.shape[1]] / unit
        self.intercept_ = centre + scale * float(x[-1]) - float(self.coef_ @ middle) if self.fit_intercept else 0.0
        self.history_ = run.history
        self.n_iter_ = run.nit
        self.n_evals_ = run.nfev
        return self


def _scaled(X: Any, *, centred: bool) -> tuple[Any, Array, Array]:
    """Return features with the median 0, if `centred`, and the size 1; with them the medians and the sizes.

    The size of a feature is its median distance from 0 among the rows where it is not 0, so that outliers count no more
    than others, and a feature that is seldom there has one too. A sparse feature that has a 0 is not centred.
    One that is 0 then in every row has no bound to its size, and so the weight 0.
    """
    n, d = X.shape
    thin = sparse.issparse(X)
    X = sparse.csc_array(X, copy=True) if thin else np.array(X)
    middle = np.zeros(d)
    unit = np.ones(d)
    for j in range(d):
        column = X.data[X.indptr[j] : X.indptr[j + 1]] if thin else X[:, j]
        if centred and len(column) == n:
            middle[j] = np.median(column)
            column -= middle[j]
        sizes = np.abs(column[column != 0])
        size = float(np.median(sizes)) if sizes.size else np.inf
        unit[j] = size if SMALLEST < size < 1 / SMALLEST or not sizes.size else 1.0
        column /= unit[j]
    return X, middle, unit
