"""The estimators are scikit-learn's like any other, and thin shells around the library."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import HuberRegressor, QuantileRegressor, SGDClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import goldstein as gs
from goldstein.problems import capped_l1_svm, regression, svm
from goldstein.sklearn import CappedL1SVC, RobustRegressor
from goldstein.sklearn.training import copies

WAIVED = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}
CHECKS = """
import json, warnings
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.linear_model import SGDClassifier
from goldstein.sklearn import CappedL1SVC, RobustRegressor
waived = PER_ESTIMATOR_XFAIL_CHECKS[SGDClassifier]
results = check_estimator(THIS_ONE, expected_failed_checks=waived, on_skip=None, on_fail=None)
print(json.dumps([(r["check_name"], r["status"], repr(r["exception"])[:500]) for r in results]))
"""


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def quick(**settings):
    return CappedL1SVC(**{"max_evals": 20_000, "random_state": 0, **settings})


@pytest.mark.parametrize("estimator", ["CappedL1SVC()", "RobustRegressor()", "RobustRegressor(cap=2.0)"])
def test_every_check_of_scikit_learn_but_two_passes_and_none_is_skipped(estimator):
    # In a process of its own, since one check runs only when this variable is set before scipy is imported.
    process = subprocess.run(
        [sys.executable, "-c", CHECKS.replace("THIS_ONE", estimator)],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    results = json.loads(process.stdout.splitlines()[-1])
    assert len(results) > 50
    assert [result for result in results if result[1] not in ("passed", "xfail")] == []
    assert {name for name, status, _ in results if status == "xfail"} == WAIVED


def test_two_classes_are_told_apart_and_what_was_learnt_can_be_seen(cancer):
    X, y = cancer
    model = CappedL1SVC(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.96
    assert model.coef_.shape == (1, 30)
    assert model.intercept_.shape == (1,)
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 30
    (history,) = model.history_
    assert history.nfev[-1] <= model.n_evals_ <= 50_000
    assert model.n_iter_ > 1000  # each takes at most as many values as there are weights, and one more
    scores = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    assert (model.predict(X) == (scores > 0)).all()


def test_it_is_a_thin_shell_the_answer_is_that_of_minimize(cancer):
    X, y = cancer
    problem = capped_l1_svm(X, np.where(y == 1, 1.0, -1.0), 0.01, 1.5)
    model = quick(regularisation=0.01, cap=1.5).fit(X, y)
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    run = gs.minimize(problem.compiled, np.zeros(31), max_evals=20_000, rng=seed)
    assert np.append(model.coef_, model.intercept_).tolist() == run.x.tolist()
    assert problem.value(run.x) < 0.2


def test_more_classes_are_told_apart_one_against_the_rest(iris):
    X, y = iris
    model = quick().fit(X, y)
    assert model.score(X, y) > 0.85
    assert model.coef_.shape == (3, 4)
    assert len(model.history_) == 3
    assert model.n_evals_ <= 60_000
    assert model.decision_function(X).shape == (150, 3)
    assert set(model.predict(X)) == {"setosa", "versicolor", "virginica"}


def test_sparse_rows_give_the_fit_of_dense_ones(cancer):
    X, y = cancer
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = quick().fit(X, y)
    for kind in (sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        model = quick().fit(kind(X), y)
        assert (model.coef_ == dense.coef_).all()
        np.testing.assert_allclose(model.decision_function(kind(X)), dense.decision_function(X), rtol=1e-9)


def test_without_an_intercept_the_scores_go_through_the_origin(cancer):
    X, y = cancer
    model = quick(fit_intercept=False).fit(X, y)
    assert model.intercept_.tolist() == [0]
    assert model.decision_function(np.zeros((1, 30))) == [0]
    assert model.score(X, y) > 0.9


def test_the_same_seed_gives_the_same_fit_and_another_another(cancer):
    X, y = cancer
    fits = [quick(random_state=seed).fit(X, y).coef_ for seed in (1, 1, 2)]
    assert (fits[0] == fits[1]).all()
    assert (fits[0] != fits[2]).any()
    again = quick(random_state=1)
    assert (again.fit(X, y).coef_ == again.fit(X, y).coef_).all()
    state = np.random.RandomState(1)
    assert (quick(random_state=state).fit(X, y).coef_ == fits[0]).all()
    assert (quick(random_state=state).fit(X, y).coef_ != fits[0]).any()


@pytest.mark.parametrize("budget", [1_000, 5_001])
def test_the_budget_is_kept(cancer, budget):
    model = quick(max_evals=budget).fit(*cancer)
    assert 0.9 * budget < model.n_evals_ <= budget


def test_any_method_runs_by_name_or_as_an_object(cancer):
    X, y = cancer
    named = quick(method="gfm", options={"delta": 0.01, "step_size": 0.002}).fit(X, y)
    given = quick(method=gs.GFM(0.01, 0.002)).fit(X, y)
    assert (named.coef_ == given.coef_).all()
    assert named.score(X, y) > 0.9
    gradients = quick(method=gs.O2NC(delta=0.1, block_length=10), max_evals=2_000).fit(X, y)
    assert gradients.score(X, y) > 0.9


def test_without_numba_the_fit_is_the_same_to_rounding(cancer, monkeypatch):
    X, y = cancer
    with_numba = quick(max_evals=3_000, method=gs.GFM(0.1, 0.01)).fit(X, y)
    svm._jitted_component.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    without = quick(max_evals=3_000, method=gs.GFM(0.1, 0.01)).fit(X, y)
    svm._jitted_component.cache_clear()
    np.testing.assert_allclose(without.coef_, with_numba.coef_, rtol=1e-6, atol=1e-9)


def test_rows_of_weight_zero_are_left_out_and_only_ratios_of_weights_count(cancer):
    X, y = cancer
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    used = weights > 0
    everything = CappedL1SVC(random_state=0).fit(X, y, weights)
    assert (everything.coef_ == CappedL1SVC(random_state=0).fit(X[used], y[used], weights[used]).coef_).all()
    assert (everything.coef_ == CappedL1SVC(random_state=0).fit(X, y, 8 * weights).coef_).all()
    equal = quick().fit(X, y, np.full(len(y), 4.0))
    assert (equal.coef_ == quick().fit(X, y).coef_).all()


def test_weights_move_the_fit_as_repeated_rows_do():
    # One feature, labels that cannot be separated: the majority by weight decides the sign.
    X, y = np.tile([[1.0], [1.0], [-1.0], [-1.0]], (25, 1)), np.tile([1, 0, 0, 1], 25)
    for weights, sign in ((np.tile([3, 1, 3, 1], 25), 1), (np.tile([1, 3, 1, 3], 25), -1)):
        model = quick(fit_intercept=False).fit(X, y, weights)
        assert np.sign(model.coef_[0, 0]) == sign
        repeated = quick(fit_intercept=False).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        assert model.coef_[0, 0] == pytest.approx(repeated.coef_[0, 0], abs=0.05)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tail", [0.6, 1.0])
def test_a_few_heavy_rows_do_not_spoil_the_fit(cancer, tail, seed):
    X, y = cancer
    weights = np.random.default_rng(0).pareto(tail, len(y)) + 1e-9
    full = capped_l1_svm(X, np.where(y == 1, 1.0, -1.0), weights=weights / weights.mean())
    model = CappedL1SVC(random_state=seed).fit(X, y, weights)
    assert full.value(np.append(model.coef_, model.intercept_)) < 0.1
    assert model.score(X, y, weights) > 0.98
    assert model.n_evals_ <= 50_000


@pytest.mark.parametrize("tail", [0.3, 1.0, 3.0])
def test_rows_split_by_weight_have_the_weighted_loss_and_no_row_counts_much_more_than_another(cancer, tail):
    X, y = cancer
    rng = np.random.default_rng(1)
    weights = rng.pareto(tail, len(y)) * (rng.random(len(y)) < 0.8)
    rows, shared = copies(weights)
    assert len(rows) < 2 * np.count_nonzero(weights)
    assert shared.mean() == pytest.approx(1, rel=1e-12)
    assert shared.max() <= 3
    np.testing.assert_allclose(np.bincount(rows, shared, len(y)) / len(rows), weights / weights.sum(), rtol=1e-9)
    whole = quick(regularisation=0.01).fit(X, y, weights)
    point, used = np.append(whole.coef_, whole.intercept_), weights > 0
    even = weights[used] / weights[used].mean()
    split = capped_l1_svm(X[rows], np.where(y[rows] == 1, 1.0, -1.0), 0.01, weights=shared)
    plain = capped_l1_svm(X[used], np.where(y[used] == 1, 1.0, -1.0), 0.01, weights=even)
    assert split.value(point) == pytest.approx(plain.value(point), rel=1e-9)


@pytest.mark.parametrize("weight", [0.1, 1.0, 3.0])
def test_even_weights_split_nothing(weight):
    rows, shared = copies(np.full(1001, weight))
    assert rows.tolist() == list(range(1001))
    np.testing.assert_allclose(shared, 1, rtol=1e-12)


def test_without_a_regularisation_given_copies_of_rows_do_not_change_it(cancer, monkeypatch):
    X, y = cancer
    given = []

    def spy(*args, **kwargs):
        given.append(args[2])
        return capped_l1_svm(*args, **kwargs)

    monkeypatch.setattr("goldstein.sklearn.classifier.capped_l1_svm", spy)
    quick(max_evals=100).fit(X, y, np.arange(len(y), dtype=float) ** 4)
    assert given == [1e-5 / (len(y) - 1)]


def test_a_run_that_finds_nothing_says_so():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"no weights better than zero: scale the features") as caught:
        models = [CappedL1SVC("two-point", max_evals=32_000, random_state=seed).fit(X, y) for seed in range(3)]
    assert len(caught) == sum(not model.coef_.any() for model in models) > 0
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_run_that_diverges_says_so_and_leaves_the_weights_as_they_were(cancer):
    X, y = cancer
    model = quick().partial_fit(X[:100], y[:100], [0, 1])
    before = model.coef_.tolist(), model.intercept_.tolist()
    model.set_params(method=gs.GFM(0.001, 1e308), max_evals=200)
    with pytest.warns(ConvergenceWarning, match="diverged, so that the weights stay as they were"):
        model.partial_fit(X, 1 - y)
    assert (model.coef_.tolist(), model.intercept_.tolist()) == before


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_a_run_that_finds_something_does_not_warn(cancer):
    model = quick().fit(*cancer)
    model.partial_fit(*cancer)


def failures(X, y):
    """Calls that fail, at one stage or another."""
    return {
        "one class": lambda model: model.fit(X, np.ones(len(y))),
        "another width": lambda model: model.fit(X[:, :3], y, np.zeros(len(y))),
        "no weight": lambda model: model.partial_fit(X, y, [0, 1], np.zeros(len(y))),
        "strange label": lambda model: model.partial_fit(X, y + 1, [0, 1]),
        "no method": lambda model: model.set_params(method="adam").partial_fit(X, y, [0, 1]),
        "no budget": lambda model: model.set_params(max_evals=0).partial_fit(X, y, [0, 1]),
    }


@pytest.mark.parametrize("how", failures(np.zeros((1, 1)), np.zeros(1)))
@pytest.mark.parametrize("fitted", [False, True])
def test_a_call_that_fails_leaves_the_estimator_as_it_was(cancer, how, fitted):
    X, y = cancer
    model, twin = ((quick().fit(X, y) if fitted else quick()) for _ in range(2))
    with pytest.raises(ValueError, match=r"\w"):
        failures(X, y)[how](model)
    model.set_params(**twin.get_params())
    assert vars(model).keys() == vars(twin).keys()
    if fitted:
        assert (model.predict(X) == twin.predict(X)).all()
    else:
        with pytest.raises(NotFittedError):
            model.predict(X)
    assert (model.partial_fit(X, y, [0, 1]).coef_ == twin.partial_fit(X, y, [0, 1]).coef_).all()


def test_batches_count_by_their_weight():
    X, y = np.tile([[1.0], [-1.0]], (50, 1)), np.tile([1, 0], 50)
    signs = {}
    for weight in (0.001, 1000.0):
        model = quick(fit_intercept=False).partial_fit(X, y, [0, 1], np.ones(100))
        first = model.coef_[0, 0]
        model.partial_fit(X, 1 - y, sample_weight=np.full(100, weight))  # the opposite
        assert model.weight_seen_ == pytest.approx(100 * (1 + weight))
        signs[weight] = np.sign(model.coef_[0, 0])
    assert first > 0
    assert signs == {0.001: 1, 1000.0: -1}


def test_batches_together_learn_what_the_whole_does(cancer):
    X, y = cancer
    order = np.random.default_rng(0).permutation(len(y))
    model = quick(max_evals=5_000)
    for batch in np.array_split(order, 6):
        model.partial_fit(X[batch], y[batch], classes=[0, 1])
    assert model.weight_seen_ == len(y)
    assert model.score(X, y) > 0.94
    first = quick().partial_fit(X, y, classes=[0, 1])
    assert (first.coef_ == quick().fit(X, y).coef_).all()


def test_a_late_batch_moves_the_weights_by_its_share_only(cancer):
    X, y = cancer
    model = quick().partial_fit(X, y, [0, 1])
    before = np.append(model.coef_, model.intercept_)
    problem = capped_l1_svm(X[:63], np.where(y[:63] == 1, -1.0, 1.0))
    model.partial_fit(X[:63], 1 - y[:63])
    rng = np.random.RandomState(0)
    seed = [int(rng.randint(np.iinfo(np.int32).max)) for _ in range(2)][1]
    batch = gs.minimize(problem.compiled, before, max_evals=20_000, rng=seed).x
    after = np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(after, before + 63 / (63 + len(y)) * (batch - before), rtol=1e-12)
    assert model.score(X, y) > 0.9


def test_fit_forgets_what_was_learnt_before(cancer, iris):
    model = quick().fit(*iris)
    assert (model.fit(*cancer).coef_ == quick().fit(*cancer).coef_).all()
    model.partial_fit(*cancer)
    assert (model.fit(*cancer).coef_ == quick().fit(*cancer).coef_).all()


@pytest.mark.filterwarnings("ignore:The run found no weights better than zero")  # the largest regularisation
def test_it_works_in_pipelines_and_grid_search():
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), CappedL1SVC(max_evals=5_000, random_state=0))
    grid = {"cappedl1svc__regularisation": [1e-6, 1e-3, 10.0], "cappedl1svc__cap": [0.5, 2.0]}
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["cappedl1svc__regularisation"] < 1
    assert search.best_score_ > 0.9


def test_it_can_be_cloned_and_stored(cancer):
    X, y = cancer
    model = quick(cap=1.0, options={}).fit(X, y)
    assert clone(model).get_params() == model.get_params()
    twin = pickle.loads(pickle.dumps(model))
    assert (twin.predict(X) == model.predict(X)).all()
    assert (twin.partial_fit(X, y).coef_ == model.partial_fit(X, y).coef_).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X, y: quick().fit(X, np.ones(len(y))), "needs at least 2 classes, got one class only"),
        (lambda X, y: quick().fit(X, y, np.zeros(len(y))), "0 for every row|at least one non-zero"),
        (lambda X, y: quick().fit(X, y, -np.ones(len(y))), "[Nn]egative"),
        (lambda X, y: quick().partial_fit(X, y), "first call of partial_fit needs classes"),
        (lambda X, y: quick().partial_fit(X, y, [1, 2]), r"y holds \[0\], which are not among the classes \[1, 2\]"),
        (lambda X, y: quick().fit(X, y).partial_fit(X, y, [0, 1, 2]), r"classes are \[0, 1\] since the first call"),
        (lambda X, y: quick(method="adam").fit(X, y), "Unknown method 'adam'"),
        (lambda X, y: quick(max_evals=0).fit(X, y), "max_evals must be a whole number"),
        (lambda X, y: quick(cap=-1).fit(X, y), "cap must be a positive number"),
        (lambda X, y: quick().fit(X, np.full(len(y), "a")), "got one class only: 'a'.$"),
        (lambda X, y: quick(class_weight={0: -1}).fit(X, y), "class_weight of 0 must be a finite number of at least 0"),
        (lambda X, y: quick(class_weight={0: np.nan}).fit(X, y), "class_weight of 0 must be a finite number"),
        (lambda X, y: quick(class_weight={0: "1"}).fit(X, y), "class_weight of 0 must be a finite number"),
        (lambda X, y: quick(class_weight={0: 0, 1: 0}).fit(X, y), "class_weight is 0 for every class"),
        (lambda X, y: quick(class_weight="auto").fit(X, y), 'class_weight must be "balanced", a dict'),
        (lambda X, y: quick(fit_intercept="no").fit(X, y), "fit_intercept must be True or False, got 'no'"),
        (lambda X, y: quick(fit_intercept=2).partial_fit(X, y, [0, 1]), "fit_intercept must be True or False, got 2"),
        (lambda X, y: quick(verbose="x").fit(X, y), "verbose must be a whole number of at least 0, got 'x'"),
        (lambda X, y: RobustRegressor(fit_intercept="no").fit(X, y), "fit_intercept must be True or False, got 'no'"),
    ],
)
def test_bad_input_gets_one_sentence(cancer, call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call(*cancer)


def test_few_rows_are_learnt_as_they_are():
    X, y = load_iris(return_X_y=True)
    model = CappedL1SVC(random_state=0, verbose=False).fit(X, y)
    assert model.score(X, y) > 0.94
    assert 140_000 < model.n_evals_ <= 150_000


def test_a_small_batch_costs_little(cancer):
    X, y = cancer
    model = CappedL1SVC(random_state=0)
    for size in (10, 50, 569):
        model.partial_fit(X[:size], y[:size], [0, 1])
        most = min(5 * size * 32, 50_000)
        assert 0.9 * most < model.n_evals_ <= most


def test_digits_are_learnt_as_well_as_by_scikit_learns_own():
    X, y = load_digits(return_X_y=True)
    ours = []
    theirs = []
    for seed in range(2):
        train, test, train_y, test_y = train_test_split(X, y, random_state=seed)
        scaled = StandardScaler().fit(train)
        rows = scaled.transform(train)
        ours.append(CappedL1SVC(random_state=seed).fit(rows, train_y).score(scaled.transform(test), test_y))
        theirs.append(SGDClassifier(random_state=seed).fit(rows, train_y).score(scaled.transform(test), test_y))
    assert np.mean(ours) > 0.93
    assert np.mean(ours) > np.mean(theirs) - 0.01


def test_classes_count_as_they_are_told_to(cancer):
    X, y = cancer
    plain = quick().fit(X, y)
    told = quick(class_weight={0: 1, 1: 3}).fit(X, y)
    weighted = quick().fit(X, y, np.where(y == 1, 3.0, 1.0))
    assert (told.coef_ == weighted.coef_).all()
    assert (told.coef_ != plain.coef_).any()
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:12]])
    recall = {
        kind: quick(class_weight=kind, regularisation=1e-3).fit(X[rare], y[rare]).predict(X[y == 1]).mean()
        for kind in (None, "balanced")
    }
    assert recall["balanced"] > recall[None]
    named = quick(class_weight="balanced").fit(*labelled(X, y))
    assert (named.coef_ == quick(class_weight="balanced").fit(X, y).coef_).all()
    with pytest.raises(ValueError, match="needs all rows at once: give partial_fit a dict of weights"):
        quick(class_weight="balanced").partial_fit(X, y, [0, 1])
    batch = quick(class_weight={0: 1, 1: 3}).partial_fit(X, y, [0, 1])
    assert (batch.coef_ == told.coef_).all()


def labelled(X, y):
    return X, np.array(["bad", "good"])[y]


def test_the_number_of_jobs_changes_nothing_but_the_time(iris):
    X, y = iris
    assert (quick(n_jobs=3).fit(X, y).coef_ == quick().fit(X, y).coef_).all()


def test_progress_is_told_when_it_is_asked_for(iris, line, capsys):
    quick().fit(*iris)
    assert capsys.readouterr().out == ""
    quick(verbose=1).fit(*iris)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("[CappedL1SVC] class setosa: loss ")
    RobustRegressor(cap=2.0, verbose=1, max_evals=2000, random_state=0).fit(*line)
    (told,) = capsys.readouterr().out.splitlines()
    assert told.startswith("[RobustRegressor] loss ")


# The regressor


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, 3.0 + X @ [1.0, -2.0, 0.0, 0.5] + 0.1 * rng.laplace(size=300)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_without_a_cap_it_is_least_absolute_deviations(line, scale):
    X, y = line
    model = RobustRegressor(max_evals=100_000, random_state=0).fit(X, scale * y)
    best = QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y)
    ours = np.abs(scale * y - model.predict(X)).mean() / scale
    lowest = np.abs(y - best.predict(X)).mean()
    assert lowest - 1e-9 <= ours < 1.01 * lowest
    assert model.n_evals_ <= 100_000
    assert model.history_.nfev[-1] <= model.n_evals_


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cap", [1.0, 2.0])
def test_with_a_cap_nonsense_is_ignored_that_bends_everything_else(seed, cap):
    rng = np.random.default_rng(seed)
    wanted = np.array([1.0, -2.0, 0.0, 0.5])
    X = rng.normal(size=(300, 4))
    y = 3.0 + X @ wanted + 0.1 * rng.laplace(size=300)
    X[:60] += 10.0
    y[:60] = -100.0
    capped = RobustRegressor(cap=cap, random_state=seed).fit(X, y)
    assert np.abs(capped.coef_ - wanted).max() < 0.1
    assert abs(capped.intercept_ - 3.0) < 0.1
    assert np.abs(RobustRegressor(random_state=0).fit(X, y).coef_ - wanted).max() > 0.5
    assert np.abs(HuberRegressor().fit(X, y).coef_ - wanted).max() > 0.5


UNITS = np.array([1.0, 1e4, 1e-3, 50.0])
OFFSETS = np.array([0.0, 1e5, 2.0, -1000.0])


@pytest.mark.parametrize("cap", [None, 2.0])
def test_features_in_any_units_and_far_from_zero_give_the_same_fit(line, cap):
    X, y = line
    plain = RobustRegressor(cap=cap, random_state=0).fit(X, y)
    moved = RobustRegressor(cap=cap, random_state=0).fit(X * UNITS + OFFSETS, y)
    np.testing.assert_allclose(moved.coef_ * UNITS, plain.coef_, atol=0.02)
    np.testing.assert_allclose(moved.predict(X * UNITS + OFFSETS), plain.predict(X), atol=0.05)
    assert moved.score(X * UNITS + OFFSETS, y) > 0.99


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_years_are_features(kind, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.uniform(1950, 2020, (200, 1))
    y = 0.5 * X[:, 0] + rng.normal(size=200)
    model = RobustRegressor(fit_intercept=fit_intercept, random_state=0).fit(kind(X), y)
    assert model.score(X, y) > 0.98
    assert model.coef_ == pytest.approx([0.5], abs=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_outliers_in_the_features_do_not_decide_on_their_units(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4))
    y = 3.0 + X @ [1.0, -2.0, 0.0, 0.5]
    X[:60] += 1e6
    y[:60] = -100.0
    model = RobustRegressor(cap=2.0, random_state=seed).fit(X * UNITS, y)
    assert np.abs(model.coef_ * UNITS - [1.0, -2.0, 0.0, 0.5]).max() < 0.1


def test_features_that_are_seldom_there_are_learnt_and_constant_ones_are_left_alone():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.random((500, 4)) < [0.5, 0.2, 0.05, 0.02], np.full((500, 1), 7.0)]).astype(float)
    y = X[:, :4] @ [1.0, -2.0, 0.5, 3.0] + 0.1 * rng.normal(size=500)
    for kind in (np.asarray, sparse.csr_array):
        model = RobustRegressor(random_state=0).fit(kind(X), y)
        np.testing.assert_allclose(model.coef_, [1.0, -2.0, 0.5, 3.0, 0.0], atol=0.1)


def test_the_features_that_were_given_stay_as_they_are(line):
    X, y = line
    for given in (X.copy(), sparse.csc_array(X), sparse.csr_array(X)):
        RobustRegressor(max_evals=5_000, random_state=0).fit(given, y)
        assert ((given if isinstance(given, np.ndarray) else given.toarray()) == X).all()


def test_a_regressor_that_finds_nothing_is_not_told_to_lower_a_regularisation(line):
    with pytest.warns(ConvergenceWarning, match=r"better than zero: raise max_evals, or lower the step size") as caught:
        RobustRegressor(max_evals=100, random_state=0).fit(*line)
    assert "regularisation" not in str(caught[0].message)


def test_the_budget_of_the_regressor_is_kept(line):
    model = RobustRegressor(cap=2.0, max_evals=1001, random_state=0).fit(*line)
    assert 900 < model.n_evals_ <= 1001


def test_sparse_rows_and_weights_are_taken(line):
    X, y = line
    thin = np.where(np.abs(X) > 0.5, X, 0.0)
    dense = RobustRegressor(random_state=0).fit(thin, y)
    model = RobustRegressor(random_state=0).fit(sparse.csr_array(thin), y)
    assert (model.coef_ == dense.coef_).all()
    np.testing.assert_allclose(model.predict(sparse.csr_array(thin)), dense.predict(thin), rtol=1e-9)
    weights = np.where(np.arange(300) < 60, 0.0, 1.0)
    spoilt = y.copy()
    spoilt[:60] = 1e3
    kept = RobustRegressor(random_state=0).fit(X, spoilt, weights)
    assert (kept.coef_ == RobustRegressor(random_state=0).fit(X[60:], y[60:]).coef_).all()
    through = RobustRegressor(fit_intercept=False, random_state=0).fit(X, y - 3.0)
    assert through.intercept_ == 0.0
    assert np.abs(through.coef_ - [1.0, -2.0, 0.0, 0.5]).max() < 0.05


def test_without_numba_the_regressor_learns_the_same_to_rounding(line, monkeypatch):
    settings = {"method": gs.GFM(0.1, 0.01), "max_evals": 3000, "random_state": 0}
    with_numba = RobustRegressor(cap=2.0, **settings).fit(*line)
    regression._jitted_component.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    without = RobustRegressor(cap=2.0, **settings).fit(*line)
    regression._jitted_component.cache_clear()
    np.testing.assert_allclose(without.coef_, with_numba.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "weights", "sentence"),
    [
        ({"cap": -1.0}, None, "cap must be a positive number or None"),
        ({"max_evals": 0}, None, "max_evals must be a whole number"),
        ({"method": "adam"}, None, "Unknown method 'adam'"),
        ({}, 0.0, "0 for every row|at least one non-zero"),
    ],
)
def test_bad_settings_of_the_regressor_get_one_sentence_and_leave_it_as_it_was(line, settings, weights, sentence):
    X, y = line
    model = RobustRegressor(**settings)
    with pytest.raises(ValueError, match=sentence):
        model.fit(X, y, None if weights is None else np.full(len(y), weights))
    assert vars(model).keys() == vars(RobustRegressor()).keys()
