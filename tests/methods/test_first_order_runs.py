"""The methods that take gradients: budgets, checkpoints, failures, and what is refused."""

import functools
from dataclasses import fields, replace

import numpy as np
import pytest
from first_order_models import (
    ALL,
    CERTIFYING,
    EXACT,
    FAR,
    STOCHASTIC,
    SUM,
    TILT,
    X0,
    kinky,
    kinky_grad,
)

import goldstein as gs
from goldstein.methods import METHODS

# Budgets, checkpoints, failures


class Counted:
    """A function and its gradient that count their calls."""

    def __init__(self):
        self.values = self.gradients = 0

    def fun(self, x, i=0):
        self.values += 1
        return kinky(x) + TILT[i] @ x

    def grad(self, x, i=0):
        self.gradients += 1
        return kinky_grad(x) + TILT[i]


@pytest.mark.parametrize("limit", ["max_evals", "max_iter"])
@pytest.mark.parametrize("name", ALL)
def test_every_value_and_gradient_is_counted_and_the_budget_is_kept(name, limit):
    for most in [*range(1, 30), 57, 333]:
        for kind in ("exact", "sum")[: 1 if name in CERTIFYING else 2]:
            count = Counted()
            oracle = {"exact": gs.Deterministic, "sum": functools.partial(gs.FiniteSum, n=6)}[kind](
                count.fun, grad=count.grad
            )
            res = gs.minimize(oracle, FAR, ALL[name], rng=1, output="last", **{limit: most})
            assert (res.nfev, res.ngev) == (count.values, count.gradients)
            if limit == "max_evals":
                assert res.nfev + res.ngev <= most
                assert res.nfev + res.ngev == most or most > 100
                assert res.status is gs.Status.MAX_EVALS
            else:
                assert res.nit == most
                assert res.ngev == most + ("singd" in name)  # which takes one before the first step
                assert res.status is gs.Status.MAX_ITER


@pytest.mark.parametrize("name", CERTIFYING)
def test_the_certificate_counts_if_the_budget_just_holds_it(name):
    method = replace(CERTIFYING[name], epsilon=0.4)
    whole = gs.minimize(EXACT, X0, method, rng=1)
    need = whole.nfev + whole.ngev
    assert need < 100
    for most, success in ((need, True), (need - 1, False)):
        res = gs.minimize(EXACT, X0, method, max_evals=most, rng=1)
        assert res.success == success
        assert res.nfev + res.ngev == most
        assert (res.x == whole.x).all()
    assert gs.minimize(EXACT, X0, method, max_iter=whole.nit, rng=1).success


def summary(res):
    parts = {name: repr(res[name]) for name in ("fun", "nfev", "ngev", "nit", "nfail", "success", "status", "message")}
    return parts | {"x": res.x.tobytes()} | {name: column.tobytes() for name, column in res.history.items()}


@pytest.mark.parametrize("half", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("output", [None, "random", "average"])
@pytest.mark.parametrize("name", ALL)
def test_a_resumed_run_equals_the_uninterrupted_one(name, output, half, tmp_path):
    def stop(intermediate_result):
        if intermediate_result.nfev + intermediate_result.ngev >= half:
            raise StopIteration

    oracle = EXACT if name in CERTIFYING else SUM
    keys = {"max_evals": 120, "output": output}
    method = replace(ALL[name], **({"epsilon": 1e-3} if name in CERTIFYING else {}))
    whole = gs.minimize(oracle, X0, method, rng=4, **keys)
    path = tmp_path / "run.npz"
    first = gs.minimize(oracle, X0, method, rng=4, callback=stop, journal=path, **keys)
    assert first.status is gs.Status.CALLBACK
    assert first.nfev + first.ngev < 120
    assert summary(gs.minimize(oracle, X0, method, rng=None, journal=path, **keys)) == summary(whole)


@pytest.mark.parametrize("name", CERTIFYING)
def test_a_certified_run_that_is_started_again_gives_the_same_result(name, tmp_path):
    once = gs.minimize(EXACT, X0, CERTIFYING[name], max_evals=20_000, rng=1, journal=tmp_path / "run.npz")
    again = gs.minimize(EXACT, X0, CERTIFYING[name], max_evals=20_000, journal=tmp_path / "run.npz")
    assert once.success
    assert summary(again) == summary(once)


@pytest.mark.parametrize("at", [2, 7, 30])
@pytest.mark.parametrize("name", ALL)
def test_wherever_ctrl_c_hits_the_run_can_go_on(name, at, tmp_path):
    calls = 0

    def interrupted(answer):
        def fun(*args):
            nonlocal calls
            calls += 1
            if calls == at:
                raise KeyboardInterrupt
            return answer(*args)

        return fun

    path, keys = tmp_path / "run.npz", {"max_iter": 40, "rng": 2}
    oracle = gs.Deterministic(interrupted(kinky), grad=interrupted(kinky_grad))
    assert gs.minimize(oracle, X0, ALL[name], journal=path, **keys).status is gs.Status.INTERRUPTED
    rest = gs.minimize(EXACT, X0, ALL[name], journal=path, **keys)
    whole = gs.minimize(EXACT, X0, ALL[name], **keys)
    assert (rest.x == whole.x).all()
    assert rest.nit == whole.nit


def failing(every):
    """Return an oracle of which one answer in so many fails, values and gradients alike."""
    calls = 0

    def unless(answer, failed):
        def fun(x):
            nonlocal calls
            calls += 1
            return failed if calls % every == 0 else answer(x)

        return fun

    return gs.Deterministic(unless(kinky, np.nan), grad=unless(kinky_grad, np.full(3, np.inf)))


@pytest.mark.parametrize("every", [3, 5, 7])
@pytest.mark.parametrize("name", ALL)
def test_failed_evaluations_are_survived(name, every):
    res = gs.minimize(failing(every), X0, ALL[name], max_evals=600, rng=0)
    assert res.nfail == (res.nfev + res.ngev) // every
    assert np.isfinite(res.x).all()
    assert kinky(res.x) < 0.75 * kinky(X0)
    assert res.success == (name in CERTIFYING and np.isfinite(res.fun))


@pytest.mark.parametrize("name", ALL)
def test_where_everything_fails_nothing_is_claimed(name):
    res = gs.minimize(failing(1), X0, ALL[name], max_evals=2000, rng=0)
    assert res.status is gs.Status.FAILING
    assert not res.success
    assert (res.x == X0).all()
    assert res.nfev + res.ngev <= 200


# What is refused


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_needed(name):
    needed = rf"{ALL[name].name} needs gradients, but this Deterministic oracle was given no grad=; gradients"
    calls = []
    with pytest.raises(ValueError, match=needed):
        gs.minimize(gs.Deterministic(calls.append), X0, ALL[name])
    assert calls == []


@pytest.mark.parametrize("name", CERTIFYING)
def test_exact_values_are_needed(name):
    with pytest.raises(ValueError, match=f"{name} needs exact values of f, but a FiniteSum oracle gives noisy ones"):
        gs.minimize(SUM, X0, CERTIFYING[name])
    with pytest.raises(ValueError, match=f"{name} is for problems without constraints"):
        gs.minimize(EXACT, X0, CERTIFYING[name], bounds=[(-2, 2)] * 3)


def test_the_stochastic_methods_stay_in_the_allowed_set():
    for name in ("singd", "psingd"):
        asked = []
        oracle = gs.Deterministic(kinky, grad=lambda x: asked.append(x) or kinky_grad(x))  # noqa: B023
        res = gs.minimize(oracle, X0, STOCHASTIC[name], bounds=[(1, 2), (-1, 1), (-1, 1)], max_iter=200, rng=0)
        assert res.x[0] == 1
        assert (np.array(asked)[:, 0] >= 1).all()


BAD = {
    "singd": [
        ({"delta": 0}, "delta must be a positive number, got 0"),
        ({"p": -1}, "p must be a positive number"),
        ({"q": np.inf}, "q must be a positive number"),
        ({"beta": 1.0}, r"beta must be a number in \[0, 1\)"),
        ({"perturb_radius": 1.0}, "perturb_radius must be a share of ‖m‖"),
    ],
    "psingd": [({"perturb_radius": None}, "psingd needs a perturb_radius")],
    "ingd": [
        ({"epsilon": 0}, "epsilon must be a positive number"),
        ({"delta": np.nan}, "delta must be a positive number"),
        ({"lipschitz": 0}, "lipschitz must be a positive number or None"),
    ],
    "pingd": [({"perturb_radius": 0}, "perturb_radius must be a share of ‖g‖")],
    "cutting-plane": [({"epsilon": -1}, "epsilon must be a positive number")],
    "o2nc": [
        ({"block_length": 2.5}, "block_length must be a whole number"),
        ({"learner": "sgd"}, "learner must be one of adagrad, ogd"),
        ({"learner": "ogd"}, "ogd needs a positive step_size"),
        ({"step_size": 0.1}, "adagrad finds its own step"),
    ],
}
GOOD = {name: {"delta": 0.1, "epsilon": 0.1} for name in ("ingd", "pingd", "cutting-plane")}
GOOD |= {name: {"delta": 0.1, "p": 1, "q": 1} for name in ("singd", "psingd")}
GOOD |= {"o2nc": {"delta": 0.1, "block_length": 2, "learner": "ogd", "step_size": 1.0}}
GOOD |= {"zo-o2nc": GOOD["o2nc"] | {"rho": 0.01, "displacement": 0.1, "batch_size": 1}}
MAY_BE_NONE = {("singd", "perturb_radius"), ("ingd", "lipschitz"), ("zo-o2nc", "rho"), ("zo-o2nc", "displacement")}
MAY_BE_NONE |= {(name, setting) for name in GOOD for setting in ("rho", "fd_step")}


@pytest.mark.parametrize("name", BAD)
def test_bad_settings_are_refused_in_one_sentence(name):
    good = {"delta": 0.1, "block_length": 2} if name == "o2nc" else GOOD[name]
    gs.minimize(EXACT, X0, name, options=good, max_evals=10, rng=0)
    for bad, words in BAD[name]:
        with pytest.raises((TypeError, ValueError), match=words) as caught:
            METHODS[name](**(good | bad))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", ["0.1", None, True, np.inf, np.nan, -1.0, [0.1], 1j], ids=repr)
@pytest.mark.parametrize("name", GOOD)
def test_whatever_is_no_proper_number_is_refused_by_the_name_of_its_setting(name, value):
    settings = [f.name for f in fields(METHODS[name]) if f.name not in ("learner", "directions", "estimator")]
    METHODS[name](**GOOD[name])
    for setting in settings:
        if value is None and (name, setting) in MAY_BE_NONE:
            continue
        with pytest.raises((TypeError, ValueError), match=rf"^[^.]*\b{setting}\b.*\.$") as caught:
            METHODS[name](**GOOD[name] | {setting: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["singd", "psingd"])
def test_the_answer_of_singd_is_the_one_of_its_theorem(name):
    """Not the last iterate, but the point K steps before an index drawn at random."""
    own, drawn, last = (
        gs.minimize(EXACT, X0, STOCHASTIC[name], max_evals=300, rng=0, output=rule) for rule in (None, "random", "last")
    )
    assert np.array_equal(own.x, drawn.x)
    assert not np.array_equal(own.x, last.x)


SHORT = {"o2nc": gs.O2NC(0.5, 50), "zo-o2nc": gs.ZOO2NC(0.5, 50)}


@pytest.mark.parametrize("limit", [{"max_evals": 40}, {"max_iter": 30}, {"max_iter": 30, "output": "random"}])
@pytest.mark.parametrize("name", SHORT)
def test_a_budget_below_one_block_is_said(name, limit):
    res = gs.minimize(EXACT, X0, SHORT[name], rng=0, **limit)
    assert np.array_equal(res.x, X0)
    assert res.nit <= 30 or "max_evals" in limit
    assert "No block was finished; the answer is the start." in res.message


@pytest.mark.parametrize("name", SHORT)
def test_the_norm_of_the_last_block_is_told(name):
    res = gs.minimize(EXACT, X0, SHORT[name], max_evals=1000, rng=0)
    assert "The mean gradient of the last block has norm 0." in res.message
