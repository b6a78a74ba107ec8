"""All forms of the capped-ℓ₁ support vector machine are one function."""

import pickle
import re
import sys
from math import sqrt

import numpy as np
import pytest
from scipy import sparse

from goldstein.oracle import Query
from goldstein.problems import Problem, capped_l1_svm, svm

N, FEATURES = 60, 9


def data(rng=0, density=0.3):
    """Sparse rows, some of them empty, with labels."""
    rng = np.random.default_rng(rng)
    A = rng.standard_normal((N, FEATURES)) * (rng.random((N, FEATURES)) < density)
    A[[0, 7, 8, N - 1]] = 0.0
    return A, rng.choice([-1.0, 1.0], N)


def naive(A, b, x, i, regularisation, cap):
    margin = sum(a * v for a, v in zip(A[i], x, strict=True))
    return max(0.0, 1 - b[i] * margin) + regularisation * sum(min(abs(v), cap) for v in x)


def points(k, d, rng=1):
    """Coordinates on both sides of the cap, and some at 0."""
    rng = np.random.default_rng(rng)
    X = 3 * rng.standard_normal((k, d))
    X[rng.random((k, d)) < 0.1] = 0.0
    return X


@pytest.fixture(params=["bias", "no bias"])
def case(request):
    A, b = data()
    bias = request.param == "bias"
    problem = capped_l1_svm(A, b, regularisation=0.3, cap=1.5, bias=bias)
    return problem, np.hstack([A, np.ones((N, 1))]) if bias else A, b


def test_every_component_is_hinge_plus_the_whole_regulariser(case):
    problem, A, b = case
    X, i = points(200, problem.dim), np.arange(200) % N
    expected = [naive(A, b, x, k, 0.3, 1.5) for x, k in zip(X, i, strict=True)]
    np.testing.assert_allclose(problem.oracle.evaluate(Query(X, i)).values, expected, rtol=1e-13, atol=1e-13)


def test_the_full_loss_is_the_mean_of_the_components(case):
    problem, A, b = case
    X = points(7, problem.dim)
    hinge = np.maximum(0, 1 - b * (X @ A.T)).mean(axis=1)
    expected = hinge + 0.3 * np.minimum(np.abs(X), 1.5).sum(axis=1)
    np.testing.assert_allclose(problem.value(X), expected, rtol=1e-13)
    np.testing.assert_allclose(problem.value(X[3]), expected[3], rtol=1e-13)
    np.testing.assert_allclose(Problem._mean(problem, X, 0), expected, rtol=1e-13)
    assert problem.value(np.empty((0, problem.dim))).shape == (0,)


def test_the_full_gradient_is_the_mean_of_the_components_gradients(case):
    problem, _, _ = case
    X = points(5, problem.dim)
    np.testing.assert_allclose(problem.gradient(X), Problem._mean(problem, X, 1), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(problem.gradient(X[2]), problem.gradient(X)[2], rtol=1e-13)


def test_gradients_are_the_slopes_of_the_components(case):
    problem, _, _ = case
    rng = np.random.default_rng(2)
    i = np.arange(3 * N) % N
    X, V = 1.5 * rng.standard_normal((3 * N, problem.dim)), rng.standard_normal((3 * N, problem.dim))

    def ask(points, order=0):
        return problem.oracle.evaluate(Query(points, i, order)).values

    slopes = (ask(X + 1e-7 * V) - ask(X - 1e-7 * V)) / 2e-7
    np.testing.assert_allclose((ask(X, 1) * V).sum(axis=1), slopes, atol=1e-6)
    assert (np.abs(X) > 1.5).any()
    assert (ask(X) > 0.3 * np.minimum(np.abs(X), 1.5).sum(axis=1) + 1e-9).any()


def test_the_compiled_component_agrees_with_the_vectorised_one(case):
    pytest.importorskip("numba")
    problem, _, _ = case
    X, i = points(3 * N, problem.dim), np.arange(3 * N) % N
    expected = problem.oracle.evaluate(Query(X, i)).values
    scalar = [problem.jitted(x, k, *problem.oracle.args) for x, k in zip(X, i.tolist(), strict=True)]
    np.testing.assert_allclose(scalar, expected, rtol=1e-13)
    np.testing.assert_allclose(problem.compiled.evaluate(Query(X, i)).values, expected, rtol=1e-13)
    assert problem.jitted.nopython_signatures


def test_the_compiled_component_runs_inside_a_compiled_loop_without_allocating():
    numba = pytest.importorskip("numba")
    A, b = data()
    problem = capped_l1_svm(A, b)
    F, args = problem.jitted, problem.oracle.args

    @numba.njit
    def total(F, x, n, data, indices, indptr, labels, lam, cap):
        out = 0.0
        for i in range(n):
            out += F(x, i, data, indices, indptr, labels, lam, cap)
        return out

    x = points(1, problem.dim)[0]
    assert total(F, x, N, *args) / N == pytest.approx(problem.value(x), rel=1e-13)
    machine_code = "".join(F.inspect_asm().values())
    assert machine_code
    assert "NRT_MemInfo_alloc" not in machine_code


def test_without_numba_everything_but_the_compiled_form_works(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    svm._jitted_component.cache_clear()
    problem = capped_l1_svm(*data())
    assert problem.value(problem.x0) > 0
    with pytest.raises(ImportError, match=re.escape("goldstein[compiled]")):
        _ = problem.jitted


@pytest.mark.parametrize("distinct", [1, 3])
def test_rows_that_share_a_few_samples_take_a_shortcut_to_the_same_values(case, monkeypatch, distinct):
    problem, A, b = case
    i = np.array([5, 0, 11])[np.arange(400) % distinct]
    X = points(400, problem.dim)
    taken = []
    shortcut = svm._margins_by_sample
    monkeypatch.setattr(svm, "_margins_by_sample", lambda *args: taken.append(1) or shortcut(*args))
    expected = [naive(A, b, x, k, 0.3, 1.5) for x, k in zip(X, i, strict=True)]
    np.testing.assert_allclose(problem.oracle.evaluate(Query(X, i)).values, expected, rtol=1e-13)
    assert taken


def test_large_batches_are_cut_into_chunks_that_change_nothing(case, monkeypatch):
    problem, _, _ = case
    X, i = points(500, problem.dim), np.random.default_rng(3).integers(0, N, 500)
    whole = problem.oracle.evaluate(Query(X, i)).values, problem.value(X), problem.gradient(X)
    monkeypatch.setattr(svm, "CHUNK", 7)
    parts = problem.oracle.evaluate(Query(X, i)).values, problem.value(X), problem.gradient(X)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist, sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_every_form_of_the_matrix_gives_the_same_problem(form):
    A, b = data()
    x = points(1, FEATURES + 1)[0]
    problem = capped_l1_svm(form(A), b.astype(int))
    assert isinstance(problem.features, sparse.csr_array)
    assert problem.value(x) == pytest.approx(capped_l1_svm(A, b).value(x), rel=1e-14)


def test_repeated_entries_are_added_and_the_users_matrix_is_left_alone():
    A = sparse.csr_array((np.array([1.0, 2.0, 0.0, 4.0]), np.array([2, 2, 1, 0]), np.array([0, 2, 4])), shape=(2, 3))
    for bias in (True, False):
        problem = capped_l1_svm(A, [1, -1], regularisation=0, bias=bias)
        x = np.full(problem.dim, 0.1)
        F = problem.oracle.evaluate(Query(np.stack([x, x]), np.array([0, 1]))).values
        np.testing.assert_allclose(F, [1 - 0.3 - 0.1 * bias, 1 + 0.4 + 0.1 * bias], rtol=1e-13)
        G = problem.oracle.evaluate(Query(np.stack([x, x]), np.array([0, 1]), 1)).values
        np.testing.assert_allclose(G[:, :3], [[0, 0, -3], [4, 0, 0]])
        problem.features.data[:] = 9
    assert A.nnz == 4
    assert A.data.tolist() == [1, 2, 0, 4]


def test_the_defaults_are_those_of_the_paper_with_the_bias_counted():
    A, b = data()
    problem = capped_l1_svm(A, b)
    assert problem.regularisation == pytest.approx(1e-5 / N, rel=1e-15)
    assert problem.cap == 2.0
    assert problem.dim == FEATURES + 1
    assert (problem.x0 == 1).all()
    assert np.isnan(problem.f_star)
    assert not problem.convex
    # The weight of the bias is regularised like any other: α λ far out, on every coordinate.
    far = np.zeros(problem.dim)
    far[-1] = 100.0
    hinge = np.maximum(0, 1 - 100 * b).mean()
    assert problem.value(far) - hinge == pytest.approx(2 * 1e-5 / N, abs=1e-13)
    assert capped_l1_svm(A, b, regularisation=1.0).value(far) - hinge == pytest.approx(2, rel=1e-12)


def test_the_lipschitz_constant_is_the_root_mean_square_over_components(case):
    problem, A, _ = case
    constants = np.linalg.norm(A, axis=1) + 0.3 * sqrt(problem.dim)
    assert problem.lipschitz == pytest.approx(np.sqrt(np.mean(constants**2)), rel=1e-13)
    assert problem.ball == np.inf
    X = np.vstack([points(50, problem.dim), 0.1 * points(50, problem.dim)])
    for x in X:
        G = problem.oracle.evaluate(Query(np.tile(x, (N, 1)), np.arange(N), 1)).values
        assert np.sqrt((G**2).sum(axis=1).mean()) <= problem.lipschitz


def test_weights_multiply_the_hinges_and_nothing_else():
    A, b = data()
    weights = np.random.default_rng(3).integers(0, 4, N).astype(float)
    plain, weighted = capped_l1_svm(A, b, 0.3, 1.5), capped_l1_svm(A, b, 0.3, 1.5, weights=weights)
    X = points(5, plain.dim)
    penalty = 0.3 * np.minimum(np.abs(X), 1.5).sum(axis=1)
    for x, regulariser in zip(X, penalty, strict=True):
        each = Query(np.tile(x, (N, 1)), np.arange(N))
        hinges = plain.oracle.evaluate(each).values - regulariser
        expected = weights * hinges + regulariser
        np.testing.assert_allclose(weighted.oracle.evaluate(each).values, expected, rtol=1e-12, atol=1e-13)
        assert weighted.value(x) == pytest.approx(expected.mean(), rel=1e-13)
        slopes = weighted.oracle.evaluate(Query(each.points, each.samples, 1)).values
        np.testing.assert_allclose(slopes.mean(axis=0), weighted.gradient(x), rtol=1e-12, atol=1e-14)
    repeated = capped_l1_svm(np.repeat(A, weights.astype(int), axis=0), np.repeat(b, weights.astype(int)), 0.3, 1.5)
    scaled = capped_l1_svm(A, b, 0.3, 1.5, weights=weights / weights.mean())
    np.testing.assert_allclose(scaled.value(X), repeated.value(X), rtol=1e-12)
    np.testing.assert_allclose(scaled.gradient(X), repeated.gradient(X), rtol=1e-11, atol=1e-13)


def test_the_compiled_component_knows_the_weights_too():
    pytest.importorskip("numba")
    A, b = data()
    problem = capped_l1_svm(sparse.csr_array(A), b, 0.3, 1.5, weights=np.arange(N) % 3)
    X, i = points(3 * N, problem.dim), np.arange(3 * N) % N
    expected = problem.oracle.evaluate(Query(X, i)).values
    np.testing.assert_allclose(problem.compiled.evaluate(Query(X, i)).values, expected, rtol=1e-13)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_indices_of_any_type_give_one_type_of_problem(kind):
    A, b = data()
    matrix = sparse.csr_array(A)
    matrix.indices, matrix.indptr = matrix.indices.astype(kind), matrix.indptr.astype(kind)
    for bias in (True, False):
        args = capped_l1_svm(matrix, b, bias=bias).oracle.args
        assert args[1].dtype == args[2].dtype == np.int32
    assert matrix.indices.dtype == kind


def test_accuracy_counts_the_right_signs():
    problem = capped_l1_svm(np.array([[1.0], [2.0], [-1.0], [0.0]]), [1, -1, -1, 1], bias=False)
    assert problem.accuracy(np.array([1.0])) == 0.75
    assert problem.accuracy(np.array([-1.0])) == 0.5


def test_a_known_infimum_can_be_given_and_the_problem_travels():
    A, b = data()
    problem = capped_l1_svm(A, b, f_star=0.0)
    assert problem.gap == problem.value(np.ones(FEATURES + 1))
    twin = pickle.loads(pickle.dumps(problem))
    assert twin.value(problem.x0) == problem.value(problem.x0)
    assert twin.accuracy(problem.x0) == problem.accuracy(problem.x0)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda A, b: capped_l1_svm(A, b[:-1]), "A has 60 rows but b has 59 labels"),
        (lambda A, b: capped_l1_svm(A, (b + 1) / 2), "labels −1 and +1"),
        (lambda A, b: capped_l1_svm(A, b, regularisation=-1), "regularisation must be a finite number of at least 0"),
        (lambda A, b: capped_l1_svm(A, b, cap=0), "cap must be a positive number"),
        (lambda A, b: capped_l1_svm(A[0], b), "A must be a matrix"),
        (lambda A, b: capped_l1_svm(A, b, weights=b), "weights must be 60 numbers of at least 0"),
        (lambda A, b: capped_l1_svm(A, b, weights=[1.0]), "weights must be 60 numbers of at least 0"),
        (lambda A, b: capped_l1_svm(np.full_like(A, np.nan), b), "NaN or infinite"),
        (lambda A, b: capped_l1_svm(A, b).accuracy(np.ones(3)), "has 10 variables"),
    ],
)
def test_bad_input_gets_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        call(*data())
