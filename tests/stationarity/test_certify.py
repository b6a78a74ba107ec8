"""`certify` is honest: certified is true, supported is rarely false, and no word goes beyond what was shown.

Randomised claims run on fixed seeds. "Error probability" is the chance, over seeds, that correct code would fail.
"""

import doctest
import importlib
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import goldstein as gs
from goldstein.stationarity import certify
from goldstein.stationarity.certificate import GAUGES
from studies import problems

ERROR = 1e-4  # error probability of one randomised check


def values_only(oracle):
    return gs.Deterministic(oracle.fun, vectorized=True)


class Counting:
    """Wraps an oracle so that every row that reaches the user's function is counted."""

    def __init__(self, oracle):
        self.oracle, self.rows = oracle, 0
        oracle.fun, oracle.grad = self._wrap(oracle.fun), oracle.grad and self._wrap(oracle.grad)

    def _wrap(self, fun):
        def counted(X, *args):
            self.rows += len(X)
            return fun(X, *args)

        return counted


def noisy(d, gradient=True, slope=1.0):
    """F(x; ξ) = slope·e·x + ξ·x with mean slope·e·x: dist(0, ∂_δ f) = slope everywhere."""
    a = slope * np.ones(d) / np.sqrt(d)
    return gs.Expectation(
        lambda X, xi: X @ a + (X * xi).sum(axis=1),
        lambda rng, k: rng.standard_normal((k, d)),
        vectorized=True,
        grad=(lambda X, xi: a + xi) if gradient else None,
    )


MAKERS = [problems.ridge, problems.cone, problems.shell, problems.capped_ridge, problems.max_coordinate]


@settings(max_examples=150, deadline=None)
@given(
    make=st.sampled_from(MAKERS),
    d=st.integers(1, 6),
    scale=st.sampled_from([0.0, 0.05, 0.3, 1.0, 3.0]),
    delta=st.floats(1e-3, 1.5),
    epsilon=st.floats(1e-6, 1.2),
    gap=st.booleans(),
    max_evals=st.integers(1, 400),
    seed=st.integers(0, 2**32 - 1),
)
def test_certified_is_never_false(make, d, scale, delta, epsilon, gap, max_evals, seed):
    """The exact distance is known in closed form; gradient hulls and value gaps are never below it."""
    problem, rng = make(d), np.random.default_rng(seed)
    x = scale * rng.normal(size=d)
    f_lower = problem.f_star if gap else None
    result = certify(problem.oracle, x, delta, epsilon, f_lower=f_lower, max_evals=max_evals, rng=rng)
    distance = problem.distance(x, delta)
    if result.answer == "certified":
        assert distance <= epsilon
        assert result.method in ("value gap", "gradient hull")
    if result.method in ("value gap", "gradient hull"):
        assert result.bound >= distance - 1e-12
    assert (result.answer == "not shown") == (result.bound > epsilon)


@pytest.mark.parametrize(
    ("problem", "x", "delta", "epsilon", "answer"),
    [
        (problems.ridge(6), [0.1] * 6, 0.3, 0.01, "certified"),  # |s| = 0.245 within 0.3
        (problems.ridge(6), [0.2] * 6, 0.3, 0.99, "not shown"),  # |s| = 0.49
        (problems.ridge(6), [0.2] * 6, 0.3, 1.0, "not shown"),  # the bound has a margin for rounding
        (problems.cone(3), [0.0, 0.125, 0.0], 0.1, 0.65, "certified"),  # √(1 − 0.8²) = 0.6
        (problems.cone(3), [0.0, 0.125, 0.0], 0.1, 0.59, "not shown"),
        (problems.cone(3), [0.0, 0.09, 0.0], 0.1, 0.01, "certified"),
        (problems.shell(4), [0.45] * 4, 0.2, 0.01, "certified"),  # ‖x‖ = 0.9, the sphere is in reach
        (problems.shell(4), [0.0] * 4, 0.2, 0.01, "certified"),  # local maximum
        (problems.shell(4), [0.25] * 4, 0.2, 0.9, "not shown"),  # √(1 − 0.4²) = 0.917
        (problems.capped_ridge(4), [2.0] * 4, 0.2, 0.01, "certified"),  # flat
        (problems.capped_ridge(4), [0.25] * 4, 0.2, 0.9, "not shown"),  # s = 0.5
        (problems.max_coordinate(4), [0.0] * 4, 0.2, 0.51, "certified"),  # 1/√4
        (problems.max_coordinate(4), [0.0] * 4, 0.2, 0.49, "not shown"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_answers_agree_with_the_exact_distance(problem, x, delta, epsilon, answer):
    result = certify(problem.oracle, x, delta, epsilon, max_evals=2_000, rng=0)
    assert result.answer == answer
    assert (problem.distance(np.array(x), delta) <= epsilon) or answer == "not shown"


def test_kinks_that_uniform_points_miss_are_found_along_the_way():
    problem = problems.ridge(50)  # at s = δ/2 a uniform point lies beyond the kink once in 5000
    assert certify(problem.oracle, 0.05 * problem.x0, 0.1, 1e-6, max_evals=500, rng=0).answer == "certified"
    assert certify(values_only(problem.oracle), 0.05 * problem.x0, 0.1, 0.4, rng=0).answer == "supported"


@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("gap", [False, True])
def test_supported_is_rarely_false(gradient, d, gap):
    """dist = 1 > ε = 0.98, and so is (f(x) − f_lower)/δ: a false answer has probability 5 % at most.

    Error probability 1e-4.
    """
    oracle, delta, x = noisy(d, gradient), 0.4, np.full(d, 0.3)
    f_lower = 0.3 * np.sqrt(d) - delta if gap else None  # the lowest value on the ball
    wrong = 0
    for seed in range(120):
        result = certify(oracle, x, delta, 0.98, f_lower=f_lower, max_evals=1_500, rng=seed)
        assert result.answer != "certified"
        wrong += result.answer == "supported"
    assert wrong <= binom.ppf(1 - ERROR, 120, 0.05)


@pytest.mark.parametrize("gradient", [False, True])
def test_supported_is_found_where_it_is_true(gradient):
    result = certify(noisy(3, gradient, slope=0.1), np.zeros(3), 0.4, 0.35, max_evals=20_000, rng=0)
    assert (result.answer, result.method) == ("supported", "smoothed gradient")
    assert 0.1 <= result.bound <= 0.35
    assert result.nfev + result.ngev < 20_000  # it stops when it has seen enough
    assert (result.ngev > 0) == gradient


def clarke_points(d):
    """The points with x_{i+1} = 2|x_i| − 1 on whose way a coordinate before the last is 0."""
    points = []
    for j in range(1, d):
        for signs in itertools.product((1, -1), repeat=j - 1):
            x = 0.0
            for sign in signs:
                x = sign * (x + 1) / 2
            chain = [x]
            while len(chain) < d:
                chain.append(2 * abs(chain[-1]) - 1)
            points.append(chain)
    return np.array(points)


TRAPS = [(problems.negative_abs(), np.zeros((1, 1))), (problems.chebyshev_rosenbrock_linear(4), clarke_points(4))]
FORBIDDEN = re.compile("minim|stationary", re.IGNORECASE)


@pytest.mark.parametrize(("problem", "points"), TRAPS, ids=["negative_abs", "chebyshev_rosenbrock_linear"])
def test_points_that_are_no_minimum_pass_and_are_not_called_one(problem, points):
    assert len(np.unique(points, axis=0)) == len(points) == (1 if problem.dim == 1 else 7)
    for x in points:
        exact = certify(problem.oracle, x, 0.1, 0.05, rng=0)
        assert exact.answer == "certified"
        sampled = certify(values_only(problem.oracle), x, 0.1, 0.9, max_evals=100_000, rng=0)
        assert sampled.answer == "supported"
        for result in (exact, sampled):
            assert not FORBIDDEN.search(result.message)
            assert "local maxima" in result.message


def test_messages_say_no_more_than_was_shown():
    seen = set()
    for max_evals, epsilon in itertools.product((1, 300), (0.01, 0.5, 2.0)):
        for oracle in (problems.cone(2).oracle, values_only(problems.cone(2).oracle), noisy(2)):
            result = certify(oracle, np.ones(2), 0.1, epsilon, max_evals=max_evals, rng=0)
            assert result.message.lower().startswith(result.answer)
            assert not FORBIDDEN.search(result.message)
            assert ("at confidence 0.95" in result.message) == (result.answer == "supported")
            if result.answer == "not shown" and result.method:
                assert "the claim may hold" in result.message
            seen.add(result.answer)
    assert seen == {"certified", "supported", "not shown"}


def oracles():
    lad = problems.least_absolute_deviations(n=40, d=3)
    yield "deterministic", lambda: gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True)
    yield "gradients", lambda: gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True, grad=np.sign)
    yield "finite sum", lambda: gs.FiniteSum(lad.oracle.fun, 40, lad.oracle.args, True, lad.oracle.grad)
    yield "values", lambda: gs.FiniteSum(lad.oracle.fun, 40, lad.oracle.args, True)
    yield "expectation", lambda: noisy(3)
    yield "seeded", lambda: gs.Seeded(lambda X, seed: X[:, 0] * (seed % 3), vectorized=True)
    yield "unreplayable", lambda: gs.Unreplayable(lambda X: X[:, 0] + np.cos(1e9 * X[:, 1]), vectorized=True)


@pytest.mark.parametrize(("name", "make"), list(oracles()), ids=[name for name, _ in oracles()])
@pytest.mark.parametrize("f_lower", [None, -10.0])
def test_budgets_are_kept_to_the_last_evaluation(name, make, f_lower):
    for max_evals in (*range(1, 10), 59, 60, 61, 79, 80, 81, 119, 121, 240, 500, 1_111):
        oracle = make()
        counting = Counting(oracle)
        result = certify(oracle, np.ones(3), 0.1, 1e-5, f_lower=f_lower, max_evals=max_evals, rng=0)
        assert result.nfev + result.ngev == counting.rows <= max_evals
        assert result.answer == "not shown"
    assert counting.rows > 500  # and large ones are used


def test_value_gap_is_certified_only_if_f_is_exact():
    lad = problems.least_absolute_deviations(n=100, d=3)
    x, near = lad.minimiser + 0.01, {"delta": 0.5, "epsilon": 0.2, "f_lower": lad.f_star}
    full = certify(lad.oracle, x, max_evals=200, rng=0, **near)
    assert (full.answer, full.method, full.nfev, full.ngev) == ("certified", "value gap", GAUGES + 100, 0)
    assert full.bound == pytest.approx((lad.value(x) - lad.f_star) / 0.5)
    sampled = certify(lad.oracle, x, max_evals=199, rng=0, **near)
    assert sampled.answer != "certified"
    many = gs.FiniteSum(lambda X, i: np.abs(X[:, 0]) + 1e-3 * (-1.0) ** i, 10**6, vectorized=True)
    result = certify(many, [0.01], 0.5, 0.1, f_lower=0.0, max_evals=1_000, rng=0)
    assert (result.answer, result.method, result.nfev) == ("supported", "value gap", GAUGES + (1_000 - GAUGES) // 4)
    one = certify(gs.Deterministic(lambda x: abs(x[0])), [0.01], 0.5, 0.1, f_lower=0.0, max_evals=1, rng=0)
    assert (one.answer, one.nfev, one.bound) == ("certified", 1, pytest.approx(0.02))


def test_a_lower_bound_above_f_is_an_error():
    for oracle in (gs.Deterministic(lambda x: 1.0), gs.FiniteSum(lambda x, i: 1.0 + i / 1000, 500)):
        with pytest.raises(ValueError, match="no lower bound"):
            certify(oracle, [0.0], 0.5, 0.1, f_lower=20.0, max_evals=1_000, rng=0)


def test_an_unbounded_function_has_no_value_gap():
    result = certify(problems.max_coordinate(2).oracle, np.zeros(2), 0.1, 0.1, f_lower=-np.inf, max_evals=100, rng=0)
    assert (result.answer, result.nfev) == ("not shown", GAUGES)


def test_failed_evaluations_support_nothing():
    def patchy(X):  # fails in about 5 % of all places
        return np.where(np.sin(1e9 * X[:, 0]) > 0.99, np.nan, 0.0)

    def patchy_grad(X):
        return np.where(X[:, :1] > 0.05, np.nan, 0.0 * X)

    blind = certify(gs.Deterministic(patchy, vectorized=True), np.zeros(2), 0.1, 0.5, max_evals=20_000, rng=0)
    assert blind.answer == "not shown"
    assert 0 < blind.nfail < 0.1 * blind.nfev
    # Gradients that did come are exact all the same.
    exact = certify(gs.Deterministic(patchy, (), True, patchy_grad), np.zeros(2), 0.1, 0.5, max_evals=2_000, rng=0)
    assert exact.answer == "certified"
    nowhere = gs.Deterministic(patchy, (), True, lambda X: np.full(X.shape, np.nan))
    assert certify(nowhere, np.zeros(2), 0.1, 0.5, max_evals=500, rng=0).answer == "not shown"


def test_rounding_is_not_mistaken_for_flatness():
    shifted = gs.Deterministic(lambda X: 1e12 + X[:, 0], vectorized=True)  # differences drown in rounding
    result = certify(shifted, np.zeros(3), 1e-6, 0.5, max_evals=2_000, rng=0)
    assert result.answer == "not shown"


def test_equal_seeds_give_equal_certificates():
    one, two = (certify(noisy(3), np.zeros(3), 0.1, 0.5, max_evals=2_000, rng=7) for _ in range(2))
    assert one == two


BAD = [
    ({"oracle": "abs"}, "oracle such as"),
    ({"x": [np.inf]}, "x must be finite"),
    ({"x": [1e30]}, "lost in the rounding"),
    ({"delta": -1.0}, "delta must be a positive number"),
    ({"epsilon": 0.0}, "epsilon must be a positive number"),
    ({"epsilon": "small"}, "epsilon must be a positive number"),
    ({"f_lower": np.nan}, "f_lower must be a number"),
    ({"f_lower": np.inf}, "f_lower must be a number below f"),
    ({"confidence": 0.2}, "confidence must be"),
    ({"max_evals": 0}, "max_evals must be a whole number"),
    ({"rng": -1}, "rng must be"),
]


@pytest.mark.parametrize(("bad", "sentence"), BAD)
def test_bad_arguments_are_answered_before_any_evaluation(bad, sentence):
    def never(x):
        raise AssertionError("evaluated")

    good = {"oracle": gs.Deterministic(never), "x": [0.0], "delta": 0.1, "epsilon": 0.1}
    with pytest.raises((ValueError, TypeError), match=re.escape(sentence)):
        certify(**{**good, **bad})


@pytest.mark.parametrize("module", ["norm", "hull", "certificate", "criterion"])
def test_examples_run(module):
    failed, attempted = doctest.testmod(importlib.import_module(f"goldstein.stationarity.{module}"))
    assert attempted > 0
    assert failed == 0


# Gradients that are wrong


WRONG = {
    "nothing": lambda X: np.zeros_like(X),
    "twice": lambda X: 2 * np.sign(X),
    "the other way": lambda X: -np.sign(X),
    "one coordinate": lambda X: np.sign(X) * np.r_[-1.0, np.ones(X.shape[1] - 1)],
}


@pytest.mark.parametrize("error", WRONG)
def test_gradients_that_do_not_agree_with_the_values_are_not_believed(error):
    """None of the points that are compared lies next to a kink."""
    wrong = gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True, grad=WRONG[error])
    right = gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True, grad=np.sign)
    for x in (np.zeros(3), np.array([0.01, -0.02, 0.3])):
        believed = certify(right, x, delta=0.5, epsilon=0.1, rng=0)
        assert believed.answer == "certified"
        found = certify(wrong, x, delta=0.5, epsilon=0.1, rng=0)
        assert found.answer == "not shown"
        assert "grad does not agree with differences of f" in found.message
        assert found.nfev + found.ngev < believed.nfev + believed.ngev
    assert certify(wrong, np.zeros(3), 0.5, 0.1, f_lower=0.0, rng=0).answer == "certified", "by values alone"


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("shift", [0.0, 1e3])
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 1.0])
def test_right_gradients_are_not_taken_for_wrong_ones_by_rounding(scale, shift, delta):
    """Values that are small beside what they are computed from, a constant that swamps them, and tiny balls."""
    slopes = np.random.default_rng(1).normal(size=(40, 4))
    x = np.array([1.0, -20.0, 3.0, 0.5])

    def value(X):
        return scale * np.abs((X - x) @ slopes.T).max(axis=1) + shift

    def gradient(X):
        products = (X - x) @ slopes.T
        k = np.abs(products).argmax(axis=1)
        return scale * np.sign(products[np.arange(len(X)), k])[:, None] * slopes[k]

    found = certify(gs.Deterministic(value, vectorized=True, grad=gradient), x, delta, 0.5 * scale, rng=0)
    assert "does not agree" not in found.message
