"""A linear support vector classifier with a capped-ℓ₁ penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import validate_data

from goldstein import arguments
from goldstein.methods import Method
from goldstein.oracle import Array
from goldstein.problems.svm import capped_l1_svm
from goldstein.sklearn import training

ADVICE = "scale the features (StandardScaler), raise max_evals, or lower the regularisation or the step size"


class CappedL1SVC(ClassifierMixin, training.FromValues):  # type: ignore[misc]
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
        Most values of the loss of one row, for each run. None: the largest of 20 n (ten passes over the data, a pair of
        values for each row), 1000 (d + 2) and 50,000; for a batch of `partial_fit` no more than 5 n (d + 2).
    regularisation : float, optional
        λ ≥ 0. None: 10⁻⁵/n, as in the paper.
    cap : float
        α > 0.
    fit_intercept : bool
        Whether to learn an intercept; it is penalised like the other weights.
    class_weight : dict or "balanced", optional
        What the rows of each class count, beside their own weights; "balanced": so that all classes count the same.
    n_jobs : int, optional
        Classes that are learnt at a time, one against the rest, in threads: machine code (numba) makes use of them.
    verbose : int
        1: a line for each run.
    random_state : int, RandomState or None
        The same number gives the same fit, for any n_jobs.

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

    Scikit-learn's checks pass, but for the two that ask whether a weight of 2 gives the fit of a row that is there
    twice: rows are drawn at random, and so the fits agree in the loss but not in every digit.

    `partial_fit` minimises the loss of the rows it is given, from the present weights, and then moves the weights
    towards that answer by the share of these rows in the weight of all rows seen: the weights are the mean of the
    answers of all batches, and a late batch does not wipe out the early ones. Each call has one run for each row of
    `coef_`, so give it hundreds of rows: batches of ten are slow, and ten rows say little of where the weights belong.

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
        class_weight: Mapping[Any, float] | str | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.options = options
        self.max_evals = max_evals
        self.regularisation = regularisation
        self.cap = cap
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> CappedL1SVC:
        """Learn the weights from scratch; `sample_weight` is what each row counts."""
        with training.unless_it_fails(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
            check_classification_targets(y)
            self._check_flags()
            values = training.values_of_a_fit
            return self._begin(np.unique(y))._learn(X, np.asarray(y), sample_weight, values)

    def partial_fit(
        self,
        X: Any,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> CappedL1SVC:
        """Learn from one more batch of rows, of hundreds of rows if that can be (see Notes).

        `classes` are all labels that will ever come, needed at the first call; `sample_weight` is as in `fit`.
        """
        first = not hasattr(self, "classes_")
        if self.class_weight == "balanced":
            raise ValueError('class_weight="balanced" needs all rows at once: give partial_fit a dict of weights.')
        if first and classes is None:
            raise ValueError("The first call of partial_fit needs classes, all labels that will ever come.")
        with training.unless_it_fails(self):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            check_classification_targets(y)
            labels = self.classes_ if classes is None else np.unique(np.asarray(classes))
            if not first and not np.array_equal(labels, self.classes_):
                raise ValueError(f"classes are {self.classes_.tolist()} since the first call, got {labels.tolist()}.")
            strange = np.setdiff1d(y, labels)
            if strange.size:
                raise ValueError(f"y holds {strange.tolist()}, which are not among the classes {labels.tolist()}.")
            self._check_flags()
            if first:
                self._begin(labels)
            return self._learn(X, np.asarray(y), sample_weight, training.values_of_a_batch)

    def decision_function(self, X: Any) -> Array:
        """Return a_i·x + intercept for each row: shape (n,) for two classes, else (n, k)."""
        scores = self._scores(X)
        return scores[:, 0] if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _begin(self, classes: npt.NDArray[Any]) -> CappedL1SVC:
        """Forget everything; the weights are zero."""
        if len(classes) < 2:
            raise ValueError(f"CappedL1SVC needs at least 2 classes, got one class only: {classes.tolist()[0]!r}.")
        rows = 1 if len(classes) == 2 else len(classes)
        self.classes_ = classes
        self.weight_seen_ = 0.0
        self.coef_ = np.zeros((rows, self.n_features_in_))
        self.intercept_ = np.zeros(rows)
        self._rng = check_random_state(self.random_state)
        return self

    def _learn(
        self,
        X: Any,
        y: npt.NDArray[Any],
        sample_weight: npt.ArrayLike | None,
        values: Callable[[int, int], int],
    ) -> CappedL1SVC:
        """Minimise the loss of the rows given, from the present weights; then average with what was learnt before."""
        weights = self._weights(X, sample_weight)
        n = int(np.count_nonzero(weights))
        total = float(weights.sum())
        weights = weights * self._class_weights(y)
        if not weights.any():
            raise ValueError(f"class_weight is 0 for every class that the rows have, got {self.class_weight!r}.")
        rows, weights = training.copies(weights)
        X, y = X[rows], y[rows]
        share = total / (self.weight_seen_ + total)
        coef = self.coef_.copy()
        intercept = self.intercept_.copy()
        positives = self.classes_[-len(coef) :]
        starts = [np.append(coef[k], intercept[k] if self.fit_intercept else []) for k in range(len(coef))]
        seeds = [training.seed_from(self._rng) for _ in positives]

        def learn(positive: Any, start: Array, seed: int) -> Any:
            svm = capped_l1_svm(
                X,
                np.where(y == positive, 1.0, -1.0),
                1e-5 / n if self.regularisation is None else self.regularisation,
                self.cap,
                bias=self.fit_intercept,
                weights=weights,
            )
            return self._minimised(svm, start, values(n, X.shape[1]), seed, f"class {positive}: ")

        each = zip(positives, starts, seeds, strict=True)
        runs = Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(learn)(*one) for one in each)
        for k, (run, start) in enumerate(zip(runs, starts, strict=True)):
            mean = start + share * (training.answer(run, start, ADVICE) - start)
            coef[k] = mean[: X.shape[1]]
            intercept[k] = mean[-1] if self.fit_intercept else 0.0
        self.coef_ = coef
        self.intercept_ = intercept
        self.weight_seen_ += total
        self.history_ = [run.history for run in runs]
        self.n_iter_ = max(run.nit for run in runs)
        self.n_evals_ = sum(run.nfev for run in runs)
        return self

    def _class_weights(self, y: npt.NDArray[Any]) -> Array:
        """Return what each row counts by its class."""
        if self.class_weight is None:
            return np.ones(len(y))
        present = np.unique(y)
        rule = self.class_weight
        if isinstance(rule, Mapping):
            for label, weight in rule.items():
                arguments.not_negative(f"class_weight of {label!r}", weight)
            rule = {label: rule[label] for label in present.tolist() if label in rule}
        elif not isinstance(rule, str) or rule != "balanced":
            raise ValueError(
                f'class_weight must be "balanced", a dict from label to weight, or None; got {rule!r:.80}.'
            )
        each = compute_class_weight(rule, classes=present, y=y)
        return np.asarray(each[np.searchsorted(present, y)], np.float64)
