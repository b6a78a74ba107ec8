"""A scikit-learn classifier trained from values of its loss alone (extra: sklearn)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from goldstein.compiled import obstacle
from goldstein.methods import Method, resolve
from goldstein.minimize import minimize
from goldstein.oracle import FiniteSum
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.query import Array
from goldstein.result import Result


class CappedL1SVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear support vector classifier with a capped-ℓ₁ penalty, trained without gradients.

    Minimises (1/n) Σ_i c_i max(0, 1 − b_i (a_i·x)) + λ Σ_j min(|x_j|, α) over the weights x, the last of which is the
    intercept: the problem of the GFM+ paper. Two classes need one run; more are told apart one against the rest.

    Parameters
    ----------
    method : str or Method
        As in `goldstein.minimize`; "auto" needs no settings.
    options : mapping, optional
        Settings of a method given by name.
    max_evals : int, optional
        Most values of the loss of one row, for each run. None: the larger of 20 n (ten passes over the data, a pair of
        values for each row) and 1000 (d + 1).
    regularisation : float, optional
        λ ≥ 0. None: 10⁻⁵/n, as in the paper.
    cap : float
        α > 0.
    fit_intercept : bool
        Whether to learn an intercept; it is penalised like the other weights.
    random_state : int, RandomState or None
        The same number gives the same fit.

    Attributes
    ----------
    classes_ : ndarray, shape (k,)
        The labels.
    coef_ : ndarray, shape (1, d) for two classes, else (k, d)
        The weights.
    intercept_ : ndarray, shape (1,) or (k,)
        The intercepts; zeros without `fit_intercept`.
    history_ : list of goldstein.history.History
        The course of each run of the last call, one for each row of `coef_`.
    n_iter_ : int
        Iterations of the longest run of the last call.
    n_evals_ : int
        Values of the loss of one row that the last call asked for.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Sample weights c_i, scaled to mean 1, multiply the hinge; rows of weight 0 are left out. Rows are still drawn
    evenly, so that one seed sees the same rows whatever the weights, and the loop stays in machine code. With numba
    the loop is compiled; without, the same steps are made more slowly.

    `partial_fit` minimises the loss of the rows it is given, from the present weights, and then moves the weights
    towards that answer by the share of these rows in all rows seen: the weights are the mean of the answers of all
    batches, and a late batch does not wipe out the early ones.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from goldstein.sklearn import CappedL1SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), CappedL1SVC(random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        method: str | Method = "auto",
        *,
        options: Mapping[str, Any] | None = None,
        max_evals: int | None = None,
        regularisation: float | None = None,
        cap: float = 2.0,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.options = options
        self.max_evals = max_evals
        self.regularisation = regularisation
        self.cap = cap
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> CappedL1SVC:
        """Learn the weights from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix}, shape (n, d)
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            What each row counts; None: all the same.

        Returns
        -------
        CappedL1SVC
            The estimator itself.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._rng = check_random_state(self.random_state)
        self.n_seen_ = 0
        return self._learn(X, np.asarray(y), sample_weight)

    def partial_fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> CappedL1SVC:
        """Learn from one more batch of rows.

        Parameters
        ----------
        X : {array-like, sparse matrix}, shape (n, d)
        y : array-like, shape (n,)
        classes : array-like, shape (k,), optional
            All labels that will ever come; needed at the first call.
        sample_weight : array-like, shape (n,), optional
            What each row counts; None: all the same.

        Returns
        -------
        CappedL1SVC
            The estimator itself.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("The first call of partial_fit needs classes, all labels that will ever come.")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
        check_classification_targets(y)
        known = np.unique(np.asarray(classes)) if classes is not None else self.classes_
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes are {self.classes_.tolist()} since the first call, got {known.tolist()}.")
        strange = np.setdiff1d(y, known)
        if strange.size:
            raise ValueError(f"y holds {strange.tolist()}, which are not among the classes {known.tolist()}.")
        if first:
            self.classes_, self.n_seen_ = known, 0
            self._rng = check_random_state(self.random_state)
        return self._learn(X, np.asarray(y), sample_weight)

    def decision_function(self, X: Any) -> Array:
        """Return a_i·x + intercept for each row: shape (n,) for two classes, else (n, k)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return np.asarray(scores[:, 0] if len(self.coef_) == 1 else scores)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _learn(self, X: Any, y: npt.NDArray[Any], sample_weight: npt.ArrayLike | None) -> CappedL1SVC:
        """Minimise the loss of the rows given, from the present weights; then average with what was learnt before."""
        if len(self.classes_) < 2:
            raise ValueError(f"CappedL1SVC needs at least 2 classes, got one class only: {self.classes_[0]!r}.")
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = np.flatnonzero(weights > 0)
        if not used.size:
            raise ValueError("sample_weight is 0 for every row, so that there is nothing to learn from.")
        X, y, weights = X[used], y[used], weights[used] / weights[used].mean()
        if self.n_seen_ == 0:
            rows = 1 if len(self.classes_) == 2 else len(self.classes_)
            self.coef_, self.intercept_ = np.zeros((rows, X.shape[1])), np.zeros(rows)
        self.n_seen_ += used.size
        share, runs = used.size / self.n_seen_, []
        for row, positive in enumerate(self.classes_[-len(self.coef_) :]):
            svm = capped_l1_svm(
                X,
                np.where(y == positive, 1.0, -1.0),
                self.regularisation,
                self.cap,
                bias=self.fit_intercept,
                weights=weights,
            )
            start = np.append(self.coef_[row], self.intercept_[row] if self.fit_intercept else [])
            run = self._run(svm, start)
            mean = start + share * (run.x - start)
            self.coef_[row] = mean[: X.shape[1]]
            self.intercept_[row] = mean[-1] if self.fit_intercept else 0.0
            runs.append(run)
        self.history_ = [run.history for run in runs]
        self.n_iter_ = max(run.nit for run in runs)
        self.n_evals_ = sum(run.nfev for run in runs)
        return self

    def _run(self, svm: SVM, start: Array) -> Result:
        method = resolve(self.method, self.options)
        budget = max(20 * len(svm.labels), 1000 * (svm.dim + 1)) if self.max_evals is None else self.max_evals
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        return minimize(_oracle(svm, method), start, method, max_evals=budget, rng=seed)


def _oracle(svm: SVM, method: Method) -> FiniteSum:
    """Return the form of the loss that the method runs fastest on."""
    assert isinstance(svm.oracle, FiniteSum)
    try:
        compiled = svm.compiled
    except ImportError:
        return svm.oracle
    reason = obstacle(method, compiled, constrained=False, scaled=False, output=method.output)
    return compiled if reason is None else svm.oracle
