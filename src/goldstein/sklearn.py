"""A scikit-learn classifier trained from values of its loss alone (extra: sklearn)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.extras import how_to_install
from goldstein.methods import Method, resolve
from goldstein.methods.method import Refusal
from goldstein.minimize import minimize
from goldstein.oracle import Array, FiniteSum
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.run.result import Result

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_random_state
    from sklearn.utils.extmath import safe_sparse_dot
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
except ModuleNotFoundError as error:
    raise ImportError(f"goldstein.sklearn needs scikit-learn: {how_to_install('sklearn')}.", name="sklearn") from error


class CappedL1SVC(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Linear support vector classifier with a capped-ℓ₁ penalty, trained without gradients.

    Minimises (1/n) Σ_i c_i max(0, 1 − b_i (a_i·x)) + λ Σ_j min(|x_j|, α) over the weights x, the last of which is the
    intercept: the problem of the GFM+ paper. Two classes need one run; more are told apart one against the rest.

    Parameters
    ----------
    method : str or Method
        As in `goldstein.minimize`. "auto" needs no settings: it finds gradients of the loss of single rows from
        values, by bisection (`goldstein.Sift`).
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
    history_ : list of goldstein.run.history.History
        The course of each run of the last call, one for each row of `coef_`.
    n_iter_ : int
        Iterations of the longest run of the last call.
    n_evals_ : int
        Values of the loss of one row that the last call asked for.
    weight_seen_ : float
        Total weight of the rows learnt from; their number, without weights.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Features should have similar scales (`StandardScaler`): "auto" has a step size for each weight, but begins with the
    same for all, and methods with two-point estimates go in all directions alike.
    A `ConvergenceWarning` says when it has found nothing better than zero weights, or has diverged.

    Sample weights c_i, scaled to mean 1, multiply the hinge. A heavy row is split into copies that share its weight, so
    that it is drawn more often instead of counting more at once; the loss is the same. Rows of weight 0 are left out.
    With numba the loop is compiled; without, the same steps are made more slowly.

    `partial_fit` minimises the loss of the rows it is given, from the present weights, and then moves the weights
    towards that answer by the share of these rows in the weight of all rows seen: the weights are the mean of the
    answers of all batches, and a late batch does not wipe out the early ones.

    A call that fails leaves the estimator as it was.

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
        with self._unless_it_fails():
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
            check_classification_targets(y)
            return self._begin(np.unique(y))._learn(X, np.asarray(y), sample_weight)

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
        with self._unless_it_fails():
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            check_classification_targets(y)
            known = np.unique(np.asarray(classes)) if classes is not None else self.classes_
            if not first and not np.array_equal(known, self.classes_):
                raise ValueError(f"classes are {self.classes_.tolist()} since the first call, got {known.tolist()}.")
            strange = np.setdiff1d(y, known)
            if strange.size:
                raise ValueError(f"y holds {strange.tolist()}, which are not among the classes {known.tolist()}.")
            if first:
                self._begin(known)
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

    @contextmanager
    def _unless_it_fails(self) -> Iterator[None]:
        """Leave every attribute, and the random numbers to come, as they were when a call fails."""
        before, rng = vars(self).copy(), getattr(self, "_rng", None)
        state = None if rng is None else rng.get_state()
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            if rng is not None:
                rng.set_state(state)
            raise

    def _begin(self, classes: npt.NDArray[Any]) -> CappedL1SVC:
        """Forget everything; the weights are zero."""
        if len(classes) < 2:
            raise ValueError(f"CappedL1SVC needs at least 2 classes, got one class only: {classes[0]!r}.")
        rows = 1 if len(classes) == 2 else len(classes)
        self.classes_, self.weight_seen_ = classes, 0.0
        self.coef_, self.intercept_ = np.zeros((rows, self.n_features_in_)), np.zeros(rows)
        self._rng = check_random_state(self.random_state)
        return self

    def _learn(self, X: Any, y: npt.NDArray[Any], sample_weight: npt.ArrayLike | None) -> CappedL1SVC:
        """Minimise the loss of the rows given, from the present weights; then average with what was learnt before."""
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        n, total = int(np.count_nonzero(weights)), float(weights.sum())
        if not n:
            raise ValueError("sample_weight is 0 for every row, so that there is nothing to learn from.")
        rows, weights = _copies(weights)
        X, y = X[rows], y[rows]
        share = total / (self.weight_seen_ + total)
        coef, intercept, runs = self.coef_.copy(), self.intercept_.copy(), []
        for k, positive in enumerate(self.classes_[-len(coef) :]):
            svm = capped_l1_svm(
                X,
                np.where(y == positive, 1.0, -1.0),
                1e-5 / n if self.regularisation is None else self.regularisation,
                self.cap,
                bias=self.fit_intercept,
                weights=weights,
            )
            start = np.append(coef[k], intercept[k] if self.fit_intercept else [])
            run = self._run(svm, start, n)
            mean = start + share * (_answer(run, start) - start)
            coef[k] = mean[: X.shape[1]]
            intercept[k] = mean[-1] if self.fit_intercept else 0.0
            runs.append(run)
        self.coef_, self.intercept_ = coef, intercept
        self.weight_seen_ += total
        self.history_ = [run.history for run in runs]
        self.n_iter_ = max(run.nit for run in runs)
        self.n_evals_ = sum(run.nfev for run in runs)
        return self

    def _run(self, svm: SVM, start: Array, n: int) -> Result:
        method = resolve(self.method, self.options)
        budget = max(20 * n, 1000 * (svm.dim + 1)) if self.max_evals is None else self.max_evals
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        return minimize(_oracle(svm, method), start, method, max_evals=budget, rng=seed)


def _copies(weights: Array) -> tuple[npt.NDArray[np.intp], Array]:
    """Return which rows to draw from evenly, and what each counts, with mean 1.

    A row of c times the mean weight is there about c times, at least once, and its copies share its weight: at most
    twice as many rows as before, none of them of more than three times the mean weight.
    """
    used = np.flatnonzero(weights)
    times = np.maximum(1, np.rint(weights[used] / weights[used].mean())).astype(np.intp)
    shared = np.repeat(weights[used] / times, times)
    return np.repeat(used, times), shared / shared.mean()


def _answer(run: Result, start: Array) -> Array:
    """Return the weights that a run has found, those of the start if it diverged; warn if either is of no use."""
    finite = bool(np.isfinite(run.x).all())
    if not finite or not run.x.any():
        what = "found no weights better than zero" if finite else "diverged, so that the weights stay as they were"
        advice = "scale the features (StandardScaler), raise max_evals, or lower the regularisation or the step size"
        warnings.warn(f"The run {what}: {advice}.", ConvergenceWarning, stacklevel=4)
    return run.x if finite else start


def _oracle(svm: SVM, method: Method) -> FiniteSum:
    """Return the form of the loss that the method runs fastest on."""
    assert isinstance(svm.oracle, FiniteSum)
    try:
        compiled = svm.compiled
    except ImportError:
        return svm.oracle
    kernel = method.kernel(compiled)
    return svm.oracle if isinstance(kernel, Refusal) else compiled
