"""The comparison of all methods marks the truly cheapest; measured guesses keep their budget and are near the truth."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goldstein as gs
from goldstein.problems import cone, least_absolute_deviations, ridge, shell
from goldstein.theory import PLANS, compare, estimate, plan
from studies.problems import capped_ridge, l1

GOAL = {"d": 10, "L": 1.0, "gap": 1.0, "delta": 0.5, "epsilon": 0.3}
CONVEX = {"ws-gfm", "ws-gfm+", "one-phase"}
patient = settings(deadline=None)
scales = st.floats(-2, 2).map(lambda e: 10.0**e)


def arguments(name):
    """Every way to ask for a plan of a method in a comparison."""
    ways = [{"learner": learner} for learner in ("ogd", "adagrad")] if name.endswith("o2nc") else [{}]
    return ways + [way | {"gradients": "sift"} for way in ways if name == "o2nc"]


# The comparison


@patient
@given(
    d=st.integers(1, 3000),
    L=scales,
    gap=scales,
    delta=scales,
    share=st.floats(-3, 0.3).map(lambda e: 10.0**e),
    radius=st.none() | scales,
    kind=st.sampled_from(["sharp", "paper"]),
)
def test_the_truly_cheapest_plan_is_marked(d, L, gap, delta, share, radius, kind):
    goal = {"d": d, "L": L, "gap": gap, "delta": delta, "epsilon": share * L, "radius": radius, "constants": kind}
    table = compare(**goal)
    costs, from_values = {}, {}
    for name in PLANS:
        if (name in CONVEX and radius is None) or (name == "cutting-plane" and d > 20):
            continue
        for more in arguments(name):
            made = plan(name, **goal, **more)
            costs[name, *more.values()] = made.evaluations
            if not made.method.needs.gradients:
                from_values[name, *more.values()] = made.evaluations
    assert sorted(row.plan.evaluations for row in table) == sorted(costs.values())
    assert table.cheapest.evaluations == min(costs.values())
    assert table.cheapest_from_values.evaluations == min(from_values.values())
    (first,) = (row for row in table if row.mark.startswith("cheapest") and row.mark != "cheapest from values")
    (best,) = (row for row in table if "from values" in row.mark)
    assert first.plan is table.cheapest
    assert best.plan is table.cheapest_from_values
    assert (first is best) == (first.mark == "cheapest, from values too")


def test_rows_come_cheapest_first_and_are_the_plans_themselves():
    table = compare(**GOAL, radius=1.0)
    rows = list(table)
    costs = [row.plan.evaluations for row in rows]
    assert costs == sorted(costs)
    assert len(table) == len(rows) == len(PLANS) + 4  # two methods have two learners, one of them sifts as well
    assert {row.plan.name for row in rows} == set(PLANS)
    by_name = {row.method: row for row in rows}
    assert by_name["zo-o2nc (ogd)"].plan.evaluations == 48928
    assert by_name["gfm+"].plan.evaluations == 191370
    assert by_name["zo-o2nc (adagrad)"].plan.method.learner == "adagrad"
    assert by_name["o2nc (ogd, sift)"].plan.method.gradients == "sift"


@pytest.mark.parametrize(
    ("change", "cheapest"),
    [
        ({"d": 10, "delta": 0.1, "epsilon": 0.9}, "gfm"),
        ({"d": 10, "delta": 0.1, "epsilon": 0.3}, "o2nc"),
        ({"d": 10, "delta": 0.1, "epsilon": 0.03}, "o2nc"),
        ({"d": 100, "delta": 0.1, "epsilon": 0.1}, "o2nc"),
        ({"d": 10, "delta": 0.1, "epsilon": 0.03, "constants": "paper"}, "o2nc"),
        ({"d": 100, "radius": 1.0, "gap": None, "delta": 0.1, "epsilon": 0.1}, "one-phase"),  # theory 3.4
        ({"d": 100, "radius": 100.0, "gap": None, "delta": 0.1, "epsilon": 0.1}, "ws-gfm"),
    ],
)
def test_known_winners_from_values(change, cheapest):
    """O2NC from values is O2NC that sifts."""
    assert compare(**GOAL | change).cheapest_from_values.name == cheapest


@pytest.mark.parametrize(
    ("change", "cheapest"),
    [
        ({"d": 10, "delta": 0.1, "epsilon": 0.3}, "gfm"),  # the cases of theory 2.1
        ({"d": 10, "delta": 0.1, "epsilon": 0.03}, "zo-o2nc"),
        ({"d": 100, "delta": 0.1, "epsilon": 0.1}, "zo-o2nc"),
        ({"d": 10, "delta": 0.1, "epsilon": 0.03, "constants": "paper"}, "gfm+"),
    ],
)
def test_known_winners_from_two_values_a_sample(change, cheapest):
    rows = [row for row in compare(**GOAL | change) if not row.gradients and "sift" not in row.method]
    assert rows[0].plan.name == cheapest


def test_sparsity_makes_the_sifted_rows_cheaper_and_no_others():
    dense = {row.method: row.plan.evaluations for row in compare(**GOAL)}
    sparse = {row.method: row.plan.evaluations for row in compare(**GOAL, sparsity=1)}
    for method, cost in sparse.items():
        assert (cost < dense[method]) == ("sift" in method)


def test_methods_for_convex_functions_are_listed_when_a_radius_is_given():
    without, with_radius = compare(**GOAL), compare(**GOAL, radius=1.0)
    assert CONVEX.isdisjoint(row.method for row in without)
    assert {row.method for row in with_radius} >= CONVEX
    assert all(name in without.left_out[0] for name in CONVEX)
    assert with_radius.left_out == ()
    for row in with_radius:
        assert ("convex f" in row.needs) == (row.method in CONVEX)


def test_the_cutting_plane_method_is_for_few_variables():
    assert "cutting-plane" in {row.method for row in compare(**GOAL | {"d": 20})}
    table = compare(**GOAL | {"d": 21})
    assert "cutting-plane" not in {row.method for row in table}
    assert "at most 20 variables" in str(table)


def test_every_row_says_what_it_needs_and_promises():
    for row in compare(**GOAL):
        assert row.needs == row.plan.oracle
        assert row.guarantee in row.plan.target
        assert row.plan.method.needs.gradients == ("gradients" in row.needs)
        assert row.plan.method.needs.exact == ("exact" in row.needs)
        compares = bool(row.plan.method.needs.replay or row.plan.method.needs.pairs)
        assert compares == (row.needs == "replayed values")  # two values of one ξ
        assert ("probability" in row.guarantee) == (not row.plan.exact and "sift" not in row.method)


@pytest.mark.parametrize("change", [{}, {"d": 1000, "epsilon": 1e-5, "delta": 1e-3}, {"d": 2, "epsilon": 5.0}])
def test_the_table_is_aligned(change):
    table = compare(**GOAL | change, radius=2.0)
    head, *lines = str(table).splitlines()
    lines = lines[: len(table)]
    assert head.split() == ["method", "needs", "evaluations", "expected", "guarantee"]
    for title in ("needs", "guarantee"):
        column = head.index(title)
        assert all(line[column] != " " and line[column - 2 : column] == "  " for line in lines)
    end = head.index("evaluations") + len("evaluations")
    for row, line in zip(table, lines, strict=True):
        assert line.startswith(row.method)
        assert line[:end].endswith(" " + row.cost)
        assert row.cost.startswith("≤ ") == (not row.plan.exact)
        assert line.endswith(row.mark)
        assert line == line.rstrip()
    assert sum("◀" in line for line in lines) in (1, 2)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"d": 2.5}, TypeError, "d must be a whole number"),
        ({"epsilon": 0}, ValueError, "epsilon must be a positive number"),
        ({"gap": None}, ValueError, "needs gap"),
        ({"constants": "good"}, ValueError, "constants must be one of sharp, paper"),
        ({"radius": -1}, ValueError, "radius must be a positive number"),
    ],
)
def test_a_comparison_checks_its_arguments(change, error, words):
    with pytest.raises(error, match=words):
        compare(**GOAL | change)


# Measured guesses


PROBLEMS = {make.__name__: make(8) for make in (ridge, cone, capped_ridge, shell, l1)}
PROBLEMS["lad"] = least_absolute_deviations()
FACTOR = 1.6


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_guess_of_L_is_within_a_factor_and_its_error_bar_is_honest(problem):
    """Within a factor 1.6, five standard errors: 62 pairs know L to about 10 %. Error probability 1e-4."""
    errors = []
    for seed in range(5):
        guess = estimate(problem.oracle, problem.x0, rng=seed)
        assert problem.lipschitz / FACTOR <= guess.L_guess <= problem.lipschitz * FACTOR
        assert 0.02 < guess.L_guess_stderr / guess.L_guess < 0.3
        errors.append((guess.L_guess - problem.lipschitz) / guess.L_guess_stderr)
        known = estimate(problem.oracle, problem.x0, f_lower=problem.f_star, rng=seed)
        assert problem.lipschitz / FACTOR <= known.L_guess <= problem.lipschitz * FACTOR
    assert max(np.abs(errors)) < 5


@pytest.mark.parametrize("problem", [problem for name, problem in PROBLEMS.items() if name != "lad"])
def test_no_slope_is_steeper_than_L(problem):
    guess = estimate(problem.oracle, problem.x0, rng=0)
    assert 0.4 * problem.lipschitz < guess.largest_slope <= problem.lipschitz * (1 + 1e-9)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_gap_is_never_exaggerated_and_found_by_half(problem):
    """On noiseless problems; on the noisy one up to four standard errors."""
    for seed in range(3):
        guess = estimate(problem.oracle, problem.x0, max_evals=4000, rng=seed)
        slack = 4 * guess.gap_guess_stderr
        assert (slack == 0) == (not problem.oracle.stochastic)
        assert problem.gap / 2 <= guess.gap_guess + slack
        assert guess.gap_guess - slack <= problem.gap * (1 + 1e-9)
        assert guess.gap_guess == pytest.approx(guess.f_start - guess.f_lowest)
        if not problem.oracle.stochastic:
            assert problem.value(guess.x_lowest) == pytest.approx(guess.f_lowest)


def test_a_known_lower_bound_makes_the_gap_exact():
    problem = PROBLEMS["shell"]
    guess = estimate(problem.oracle, problem.x0, f_lower=-0.5, rng=0)
    assert (guess.gap_guess, guess.gap_guess_stderr) == (pytest.approx(1.5), 0)
    np.testing.assert_array_equal(guess.x_lowest, problem.x0)
    few = least_absolute_deviations(n=20, d=3)
    guess = estimate(few.oracle, few.x0, f_lower=0, rng=0)  # few components: their mean is exact
    assert (guess.f_start, guess.gap_guess_stderr) == (pytest.approx(few.value(few.x0)), 0)


def test_values_are_compared_under_common_noise():
    """Noise of size 2 that every point shares leaves no error in the gap."""
    fun, oracle = FUNCTIONS["seeded"]
    guess = estimate(oracle(fun), np.full(4, 3.0), rng=0)
    assert guess.gap_guess_stderr < 1e-12
    assert guess.gap_guess == pytest.approx(12 - np.abs(guess.x_lowest).sum())


def test_a_guess_at_a_kink_sees_the_slopes_around_it():
    """At the minimiser of an even function both values of every pair around it are equal."""
    guess = estimate(PROBLEMS["cone"].oracle, np.zeros(8), rng=0)
    assert guess.L_guess == pytest.approx(1, rel=0.4)
    assert guess.gap_guess > 0  # something to plan with
    assert "no point lower than x0 was found" in guess.note
    np.testing.assert_array_equal(guess.x_lowest, np.zeros(8))


def counted(fun, failing):
    """A vectorised function that counts its values, of which a share fails, depending on the point."""

    def count(X, *xi):
        count.calls += len(X)
        return np.where((200 * X[:, 0] + 0.5) % 1 < failing, np.nan, fun(X, *xi))

    count.calls = 0
    return count


NOISE = np.random.default_rng(0).normal(size=(30, 4))
FUNCTIONS = {
    "deterministic": (lambda X: np.abs(X - 1).sum(axis=1), lambda F: gs.Deterministic(F, vectorized=True)),
    "finite sum": (
        lambda X, i: np.abs(X - NOISE[i]).sum(axis=1),
        lambda F: gs.FiniteSum(F, 30, vectorized=True),
    ),
    "expectation": (
        lambda X, xi: np.abs(X - xi).sum(axis=1),
        lambda F: gs.Expectation(F, lambda rng, k: rng.normal(size=(k, 4)), vectorized=True),
    ),
    "seeded": (lambda X, seed: np.abs(X).sum(axis=1) + seed % 7, lambda F: gs.Seeded(F, vectorized=True)),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
@pytest.mark.parametrize("f_lower", [None, -10.0])
@pytest.mark.parametrize("failing", [0.0, 0.1])
def test_every_evaluation_is_counted_and_the_budget_is_kept(kind, f_lower, failing):
    """Also when values fail in stripes of the space, though not at x0."""
    fun, oracle = FUNCTIONS[kind]
    for budget in (60, 61, 97, 200, 777, 1000):
        F = counted(fun, failing)
        guess = estimate(oracle(F), np.full(4, 3.0), f_lower=f_lower, max_evals=budget, rng=2)
        assert F.calls == guess.nfev <= budget
        assert failing or guess.nfev > 0.7 * budget
        assert 0 < guess.L_guess < 10


def test_guesses_are_repeatable_and_follow_the_units():
    here, again = (estimate(l1(4).oracle, np.full(4, 3.0), rng=5) for _ in range(2))
    assert str(here) == str(again)
    np.testing.assert_array_equal(here.x_lowest, again.x_lowest)
    scaled = estimate(l1(4, value_scale=8.0, coordinate_scale=4.0).oracle, np.full(4, 12.0), rng=5)
    assert scaled.L_guess == pytest.approx(2 * here.L_guess, rel=1e-9)
    assert scaled.gap_guess == pytest.approx(8 * here.gap_guess, rel=1e-6)


def test_guesses_say_that_they_are_guesses():
    guess = estimate(PROBLEMS["ridge"].oracle, PROBLEMS["ridge"].x0, rng=0)
    assert str(guess).startswith("Measured guesses (not bounds")
    assert f"guess of L          {guess.L_guess:.3g} ± " in str(guess)
    assert all("guess" in text for text in (estimate.__doc__, type(guess).__doc__))
    made = plan("gfm", d=8, L=guess.L_guess, gap=guess.gap_guess, delta=0.3, epsilon=0.5)
    assert made.evaluations > 0


@given(delta=st.floats(1e-3, 1e-1))
@settings(deadline=None, max_examples=10)
def test_slopes_of_a_piecewise_linear_function_do_not_depend_on_the_radius(delta):
    slope = np.array([3.0, -4.0])
    guess = estimate(
        gs.Deterministic(lambda X: X @ slope, vectorized=True), np.ones(2), delta=delta, f_lower=-1e9, rng=0
    )
    assert guess.delta == delta
    assert guess.L_guess == pytest.approx(5, rel=0.15)
    assert guess.largest_slope == pytest.approx(5, rel=0.01)


def noisy(x):
    return 0.0


@pytest.mark.parametrize(
    ("oracle", "x0", "more", "error", "words"),
    [
        (noisy, [0.0], {}, TypeError, r"takes an oracle, such as Deterministic\(f\), got function"),
        (gs.Unreplayable(noisy), [0.0], {}, ValueError, "an Unreplayable oracle cannot give"),
        (gs.Deterministic(noisy), [[0.0]], {}, ValueError, "x0 must be a vector"),
        (gs.Deterministic(noisy), [np.nan], {}, ValueError, "x0 must be finite"),
        (gs.Deterministic(noisy), [0.0], {"delta": 0.0}, ValueError, "delta must be a positive number"),
        (gs.Deterministic(noisy), [0.0], {"delta": "small"}, TypeError, "delta must be a positive number"),
        (gs.Deterministic(noisy), [0.0], {"max_evals": 59}, ValueError, "a whole number of at least 60, got 59"),
        (gs.Deterministic(noisy), [0.0], {"max_evals": 1e3}, TypeError, "max_evals must be a whole number"),
        (gs.Deterministic(noisy), [0.0], {"f_lower": np.inf}, ValueError, "f_lower must be a finite number"),
        (gs.Deterministic(noisy), [0.0], {"f_lower": "0"}, TypeError, "f_lower must be a finite number"),
        (gs.Deterministic(noisy), [0.0], {"f_lower": 1.0}, ValueError, "f_lower = 1 is no lower bound"),
        (gs.Deterministic(noisy), [0.0], {"rng": -1}, ValueError, "rng must be a seed"),
        (gs.Deterministic(lambda x: np.nan), [0.0], {}, ValueError, "failed, so nothing can be measured"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(oracle, x0, more, error, words):
    with pytest.raises(error, match=words) as caught:
        estimate(oracle, x0, **more)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("f_lower", [None, 0.0])
def test_a_start_that_cannot_be_bettered_has_a_gap_to_plan_with(f_lower):
    guess = estimate(gs.Deterministic(lambda x: abs(x).sum()), np.zeros(4), f_lower=f_lower, rng=0)
    assert guess.gap_guess == guess.L_guess * guess.delta > 0
    assert guess.f_lowest == guess.f_start == 0
    assert "so the gap is taken as L · delta" in str(guess)
    assert not re.search(r"± 0\b(?!\.)", str(guess))
    assert len(compare(d=4, L=guess.L_guess, gap=guess.gap_guess, delta=0.3, epsilon=0.5))


def test_a_flat_function_has_no_slope_and_no_gap():
    guess = estimate(gs.Deterministic(noisy), np.zeros(3), rng=0)
    assert (guess.L_guess, guess.L_guess_stderr, guess.gap_guess) == (0, 0, 0)
