"""Linear regression that outliers do not bend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from goldstein import arguments
from goldstein.methods import Method
from goldstein.oracle import Array
from goldstein.problems.regression import capped_deviations
from goldstein.run.result import Result
from goldstein.sklearn import training


class RobustRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
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
        Most values of the loss of one row. None: the larger of 20 n and 1000 (d + 1).
    cap : float, optional
        What a row counts at most, in units of s. None: no cap, least absolute deviations. With a cap the answer without
        one is found first, on half of the evaluations, and is where the run starts.
    fit_intercept : bool
        Whether to learn an intercept.
    verbose : int
        1: a line for each run.
    random_state : int, RandomState or None
        The same number gives the same fit.

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
        The weights.
    intercept_ : float
        The intercept; 0 without `fit_intercept`.
    history_ : list of goldstein.run.history.History
        The course of each run.
    n_iter_ : int
        Iterations of all runs.
    n_evals_ : int
        Values of the loss of one row that were asked for.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Features should have similar scales (`StandardScaler`). Sample weights work as in `CappedL1SVC`.

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
        """Learn the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix}, shape (n, d)
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            What each row counts; None: all the same.

        Returns
        -------
        RobustRegressor
            The estimator itself.
        """
        with training.unless_it_fails(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
            cap = arguments.optional_positive("cap", self.cap)
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            if not weights.any():
                raise ValueError("sample_weight is 0 for every row, so that there is nothing to learn from.")
            rows, weights = training.copies(weights)
            return self._learn(X[rows], np.asarray(y, np.float64)[rows], weights, cap)

    def predict(self, X: Any) -> Array:
        """Return a_i·x + intercept for each row."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_, dense_output=True) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _learn(self, X: Any, y: Array, weights: Array, cap: float | None) -> RobustRegressor:
        """Minimise in units in which y is of size 1, first without the cap and then with it."""
        centre = float(np.median(y)) if self.fit_intercept else 0.0
        distances = np.abs(y - centre)
        scale = float(np.median(distances)) or float(distances.mean()) or 1.0
        scaled = (y - centre) / scale
        rng = check_random_state(self.random_state)
        d = X.shape[1] + bool(self.fit_intercept)
        budget = max(20 * len(y), 1000 * (d + 1))
        if self.max_evals is not None:
            budget = arguments.count("max_evals", self.max_evals)
        caps = [np.inf] if cap is None else [np.inf, cap]
        x = np.zeros(d)
        runs: list[Result] = []
        for number, most in enumerate(caps):
            loss = capped_deviations(X, scaled, most, bias=self.fit_intercept, weights=weights)
            part = max(1, (budget - sum(run.nfev for run in runs)) // (len(caps) - number))
            chosen: dict[str, Any] = {"method": self.method, "options": self.options, "max_evals": part}
            run = training.run(loss, x, len(y), seed=training.seed_from(rng), **chosen)
            if self.verbose:
                said = "" if np.isinf(most) else f", cap {most:g}"
                loss_now = run.fun * scale
                print(f"[RobustRegressor] loss {loss_now:.6g}{said} after {run.nfev:,} evaluations", flush=True)
            x = run.x if np.isfinite(run.x).all() else x
            runs.append(run)
        self.coef_ = scale * x[: X.shape[1]]
        self.intercept_ = centre + scale * float(x[-1]) if self.fit_intercept else 0.0
        self.history_ = [run.history for run in runs]
        self.n_iter_ = sum(run.nit for run in runs)
        self.n_evals_ = sum(run.nfev for run in runs)
        return self
