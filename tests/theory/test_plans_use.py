"""Plans in use: bad arguments, running and showing."""

import importlib
import math

import numpy as np
import pytest
from theory_arguments import SMALL, counted, plan

from goldstein import theory
from goldstein.oracle import Deterministic
from goldstein.theory.planning import PLANS
from goldstein.theory.plans import written

# Input


@pytest.mark.parametrize(
    ("method", "change", "error", "words"),
    [
        ("sgd", {}, ValueError, "gfm, gfm\\+, ws-gfm, ws-gfm\\+, one-phase"),
        ("gfm", {"constants": "exact"}, ValueError, "constants must be one of sharp, paper"),
        ("gfm", {"parameters": "tuned"}, ValueError, "parameters must be one of repaired, printed"),
        ("gfm", {"L": 0}, ValueError, "L must be a positive number"),
        ("gfm", {"delta": -1.0}, ValueError, "delta must be a positive number"),
        ("gfm", {"epsilon": math.nan}, ValueError, "epsilon must be a positive number"),
        ("gfm", {"epsilon": math.inf}, ValueError, "epsilon must be a positive number"),
        ("gfm", {"gap": 0}, ValueError, "gap must be a positive number"),
        ("ws-gfm", {"radius": 0}, ValueError, "radius must be a positive number"),
        ("gfm", {"d": 0}, ValueError, "d must be a whole number of at least 1, got 0"),
        ("gfm", {"d": 2.5}, TypeError, "d must be a whole number of at least 1, got 2.5"),
        ("gfm", {"d": True}, TypeError, "d must be a whole number"),
        ("gfm", {"L": "1"}, TypeError, "L must be a positive number, got '1'"),
        ("gfm", {"gap": None}, ValueError, '"gfm" needs gap'),
        ("ws-gfm", {}, ValueError, '"ws-gfm" needs radius'),
        ("ws-gfm+", {}, ValueError, '"ws-gfm\\+" needs radius'),
        ("one-phase", {}, ValueError, '"one-phase" needs radius'),
        ("gfm", {"batch_size": 0}, ValueError, "batch_size must be a whole number of at least 1"),
        ("gfm+", {"batch_size": 4}, ValueError, 'batch_size can be chosen for gfm only, not for "gfm\\+"'),
        ("gfm", {"L": 1e200}, ValueError, "range of floating point"),
        ("gfm", {"epsilon": 1e-90}, ValueError, "range of floating point"),
        ("gfm+", {"epsilon": 1e-170}, ValueError, "range of floating point"),
        ("gfm", {"d": 10**400}, ValueError, "range of floating point"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(method, change, error, words):
    with pytest.raises(error, match=words) as caught:
        theory.plan(method, **SMALL | change)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_numpy_numbers_and_easy_goals_are_welcome():
    p = theory.plan("gfm", d=np.int64(3), L=np.float32(2), gap=1, delta=np.float64(0.5), epsilon=5)
    assert type(p.parameters["delta"]) is float
    assert p.iterations >= 1


def test_constants_check_their_arguments():
    with pytest.raises(ValueError, match="delta must be a positive number"):
        theory.constants(3, 1, 0)
    with pytest.raises(ValueError, match="kind must be one of sharp, paper"):
        theory.constants(3, 1, 1, kind="best")


# Running and showing


def test_run_hands_the_plan_to_minimize(monkeypatch):
    seen = {}
    module = importlib.import_module("goldstein.theory.plans")
    monkeypatch.setattr(module, "minimize", lambda fun, x0, **kwargs: seen.update(kwargs))
    p = plan("one-phase", d=3, L=1, delta=0.5, epsilon=0.5, radius=1)
    p.run(abs, np.zeros(3), rng=7, max_evals=11, workers=2)
    assert seen == {
        "method": p.method,
        "max_iter": p.iterations,
        "max_evals": 11,
        "output": "average",
        "rng": 7,
        "workers": 2,
    }


def test_run_takes_exactly_the_evaluations_it_plans():
    values = 0

    def norm(X):
        nonlocal values
        values += len(X)
        return np.linalg.norm(X, axis=1)

    oracle, x0 = Deterministic(norm, vectorized=True), np.array([1.0, 0, 0])
    one = plan("one-phase", d=3, L=1, delta=0.5, epsilon=0.5, radius=1)
    one.run(oracle, x0, rng=0)
    assert values - one.evaluations in (0, 1)  # the value at the answer may be asked for at the end

    plus = plan("gfm+", d=3, L=1, delta=0.5, epsilon=0.5, gap=1)
    shape = [plus.parameters[k] for k in ("epoch_length", "batch_size", "large_batch_size")]
    for seed in range(5):
        values = 0
        result = plus.run(oracle, x0, rng=seed)
        assert result.nit < plus.iterations
        assert values - counted(result.nit, *shape) in (0, 1)


def test_run_refuses_what_would_not_end():
    p = plan("gfm", d=100, L=1, delta=0.1, epsilon=0.01, gap=1)
    with pytest.raises(ValueError, match=rf"{p.evaluations:,} evaluations.*max_evals"):
        p.run(abs, np.zeros(100))


def test_run_wants_the_dimension_of_the_plan():
    with pytest.raises(ValueError, match="for d = 10, but x0 has 3 entries"):
        plan("gfm", **SMALL).run(abs, np.zeros(3))


def test_a_plan_shows_what_it_is():
    text = str(plan("gfm+", **SMALL))
    for part in ("gfm+", "E‖∇f_δ(x_out)‖² ≤ ε²", "sharp", "epoch_length", "247", "764", "191,370", "95,666"):
        assert part in text
    starts = {len(line) - len(line[2:].split("  ", 1)[1].lstrip()) for line in text.splitlines()[1:]}
    assert len(starts) == 1, "the second column is aligned"
    assert "paper" in str(plan("gfm+", **SMALL, constants="paper"))
    assert "E dist(0, ∂_δ f(x_out)) ≤ ε" in str(plan("one-phase", **SMALL, radius=1))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1050, "1,050"),
        (1050.0, "1,050"),
        (1050.5, "1,050.5"),
        (10793.26, "10,793.3"),
        (33495150.0, "33,495,150"),
        (295338.04, "295,338"),
        (0.0962056789, "0.0962057"),
        (10**15, "1e+15"),
        ("ogd", "ogd"),
    ],
)
def test_numbers_of_plans_are_written_alike(number, text):
    assert written(number) == text


@pytest.mark.parametrize("name", ["output", "method", "options", "max_iter"])
def test_run_says_what_the_plan_decides(name):
    with pytest.raises(ValueError, match=f"^{name} is decided by the plan: leave it out"):
        plan("gfm", **SMALL).run(abs, np.zeros(10), **{name: None})


def test_a_plan_says_when_any_point_will_do():
    for name in PLANS:
        easy, hard = (plan(name, **SMALL | {"radius": 2.0, "epsilon": epsilon}) for epsilon in (1.0, 0.9))
        assert "any point will do" in easy.note
        assert "any point will do" not in hard.note


def test_noise_that_changes_nothing_is_said_to():
    for name in ("singd", "psingd"):
        assert "noise changes nothing" in plan(name, **SMALL, noise=0.1).note
        assert "noise" not in plan(name, **SMALL).note
        assert "noise" not in plan(name, **SMALL, noise=0.1, constants="paper").note
    assert plan("o2nc", **SMALL, noise=0.1).note == ""


def test_the_paper_claims_nothing_of_a_method_that_it_has_not():
    for name in ("ws-gfm+", "one-phase"):
        goal = SMALL | {"radius": 1.0, "epsilon": 0.05, "parameters": "printed"}
        assert ("the paper claims" in plan(name, **goal).target) == (name != "one-phase")


def test_a_plan_cannot_be_changed():
    with pytest.raises(AttributeError):
        plan("gfm", **SMALL).iterations = 1
