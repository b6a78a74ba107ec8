"""Every method passes the public conformance checks, and goes down on every problem with a known answer."""

import warnings

import numpy as np
import pytest

import goldstein as gs
from goldstein.methods import METHODS, resolve
from goldstein.problems import catalogue
from goldstein.testing import CHECKS, check_method

PROBLEMS = {name: make() for name, make in catalogue().items()}
BY_NAME = ("auto", "gfm", "gfm+", "ws-gfm", "ws-gfm+", "one-phase", "zo-o2nc")  # no settings needed
WITH_SETTINGS = {
    "gfm, loo": gs.GFM(0.1, 0.02, 4, estimator="loo"),
    "gfm, orthogonal": gs.GFM(0.1, 0.02, 4, directions="orthogonal"),
    "gfm, plateau": gs.GFM(0.1, gs.steps.HalveOnPlateau(0.05)),
    "gfm+, coin": gs.GFMPlus(0.2, 0.02, 5, 4, restart="coin"),
    "gfm+, storm": gs.GFMPlus(0.2, 0.02, 5, 4, momentum=0.3),
    "zo-o2nc, ogd": gs.ZOO2NC(0.5, 10, step_size=0.01, learner="ogd"),
    "o2nc": gs.O2NC(0.5, 10),
    "singd": gs.SINGD(delta=0.5, p=20.0, q=20.0),
    "psingd": gs.PSINGD(delta=0.5, p=20.0, q=20.0),
    "ingd": gs.INGD(delta=0.1, epsilon=0.1, lipschitz=2.0),
    "pingd": gs.PINGD(delta=0.1, epsilon=0.1),
    "cutting-plane": gs.CuttingPlane(delta=0.1, epsilon=0.1),
}


def test_every_name_is_in_the_matrix():
    given = {name.split(",")[0] for name in WITH_SETTINGS}
    assert set(METHODS) == set(BY_NAME) | (given & set(METHODS))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", [*BY_NAME, *WITH_SETTINGS])
@pytest.mark.parametrize("stochastic", [False, True], ids=["deterministic", "sum"])
def test_conformance(name, check, stochastic):
    from goldstein.testing import _Counted

    method = WITH_SETTINGS[name] if name in WITH_SETTINGS else resolve(name, None)
    refusal = method.refusal(_Counted().oracle(stochastic))
    if refusal is None:
        check(method, stochastic)
    else:
        with pytest.raises(ValueError, match="needs"):
            gs.minimize(_Counted().oracle(stochastic), np.ones(4), method, max_evals=50)


def test_the_public_check_finds_a_method_that_cheats():
    class Cheat(gs.GFM):
        def ask(self, state, context, limit):
            return super().ask(state, context, None)  # does not mind the budget

    with pytest.raises(AssertionError, match="budget_is_kept on a deterministic function"):
        check_method(Cheat(0.1, 0.02, 30))


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("name", BY_NAME)
def test_no_method_by_name_ends_above_its_start(name, problem):
    """Without any settings, 4,000 evaluations: on no problem does the answer lie above f(x0) beyond noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        res = gs.minimize(problem.oracle, problem.x0, name, max_evals=4000, rng=0)
    start = problem.value(problem.x0)
    assert problem.value(res.x) <= start + 0.02 * max(abs(start), abs(problem.gap))
    assert problem.value(res.x) >= problem.f_star - 1e-6 * max(1.0, abs(problem.f_star))
    assert res.nfev <= 4000
