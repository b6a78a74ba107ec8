"""Methods by name: a method of a user's own is added as CONTRIBUTING says; what is said of settings and needs."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import goldstein as gs
from goldstein.methods import METHODS, Context, MethodState, registry

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([3.0, -2.0, 0.5, 4.0])
ORACLE = gs.Deterministic(lambda x: float(abs(x - 1).sum()), grad=lambda x: np.sign(x - 1))
NOISY = gs.FiniteSum(lambda x, i: float(abs(x - 1).sum() + np.sin(i)), 30)
FIRST = gs.GFM(0.05, 0.01)


@dataclass(frozen=True)
class Walk(gs.Method):
    """A method as CONTRIBUTING describes one: a frozen dataclass of settings with init, ask and tell."""

    length: float
    name: ClassVar[str] = "walk"

    def init(self, x, context: Context) -> MethodState:
        return MethodState(x)

    def ask(self, state, context: Context, limit):
        if limit is not None and limit < 2:
            return None
        step = self.length * context.rng.normal(size=state.x.size)
        return gs.Query(np.stack([state.x, state.x + step]), aux=state.x + step)

    def tell(self, state, context: Context, query, values) -> gs.Step:
        left = state.x
        if values[1] < values[0]:
            state.x = query.aux
        state.nit += 1
        return state.make_step(left)


@pytest.fixture
def registered(monkeypatch):
    """One registration; taken back after the test."""
    monkeypatch.setattr("goldstein.methods.registry.METHODS", {**METHODS})
    monkeypatch.setattr("goldstein.methods.registry._FROM_SCALE", {**registry._FROM_SCALE})
    gs.register(Walk)


def test_a_method_of_ones_own_runs_by_name(registered):
    res = gs.minimize(ORACLE, X0, "walk", options={"length": 0.1}, max_evals=500, rng=0)
    assert res.fun < 8.5
    assert res.nfev <= 500


def test_a_method_of_ones_own_says_which_setting_is_missing(registered):
    """It has no way to choose its settings, so a missing one is named in a sentence: no KeyError from inside."""
    with pytest.raises((TypeError, ValueError), match="length"):
        gs.minimize(ORACLE, X0, "walk", max_evals=500, rng=0)


def test_a_method_of_ones_own_runs_many_times(registered):
    many = gs.minimize_many(ORACLE, X0, "walk", options={"length": 0.1}, max_evals=200, seeds=2)
    assert len(many) == 2


CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_a_method_is_added_word_for_word_as_contributing_says():
    """The section holds a whole program: what it defines and registers runs by its name, with and without settings."""
    section = CONTRIBUTING.read_text(encoding="utf-8").split("## How to add a method")[1].split("\n## ")[0]
    programs = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert programs, "CONTRIBUTING shows no program that adds a method."
    scope: dict = {"__name__": "contributed"}
    for program in programs:
        exec(compile(program, str(CONTRIBUTING), "exec"), scope)
    own = [
        kind
        for kind in scope.values()
        if isinstance(kind, type) and issubclass(kind, gs.Method) and kind.__module__ == "contributed"
    ]
    assert own, "The program defines no method."
    for kind in own:
        res = gs.minimize(ORACLE, X0, kind.name, max_evals=500, rng=0)
        assert res.method is not None
        assert 0 < res.nfev + res.ngev <= 500


# What is said about settings that were guessed, and about oracles that will not do


@pytest.mark.parametrize("name", ["gfm+", "ws-gfm+"])
@pytest.mark.filterwarnings("always")
def test_what_is_wrong_with_guessed_settings_is_not_laid_at_the_users_door(name):
    f = gs.Deterministic(lambda x: float(abs(x - 1).sum()))
    with pytest.warns(RuntimeWarning, match="do not reduce variance.* were chosen from probes"):
        gs.minimize(f, np.zeros(4), name, options={"delta": 1e-3}, max_evals=10_000, rng=0)


def test_gfm_plus_by_name_takes_a_delta_at_which_its_corrections_pay():
    """So that it does not warn of what it has chosen itself."""
    f = gs.Deterministic(lambda x: float(abs(x - 1).sum()))
    gs.minimize(f, np.zeros(4), "gfm+", max_evals=10_000, rng=0)


def test_a_method_that_can_sift_says_so_where_that_would_do():
    values, seeded = gs.Deterministic(np.sum), gs.Seeded(lambda x, seed: float(x.sum()))
    sifting = 'gradients="sift" in options'
    o2nc, pingd = gs.O2NC(0.5, 5).needs, gs.PINGD(0.5, 0.5).needs
    assert sifting in o2nc.unsupported("o2nc", values)
    assert sifting in o2nc.unsupported("o2nc", seeded)
    assert sifting not in o2nc.unsupported("o2nc", gs.Unreplayable(np.sum))
    assert sifting in pingd.unsupported("pingd", values)
    assert sifting not in pingd.unsupported("pingd", seeded)
    res = gs.minimize(values, np.ones(2), "o2nc", options={"gradients": "sift"}, max_evals=500, rng=0)
    assert res.nfev > 0


def test_refusals_name_the_phase_and_the_article():
    mixed = gs.WarmStart(gs.PINGD(0.5, 0.5), gs.GFM(0.1, 0.1))
    with pytest.raises(ValueError, match=r"^ws-gfm after pingd needs gradients"):
        gs.minimize(gs.Deterministic(np.sum), np.ones(2), mixed, max_evals=100)
    exact = gs.PINGD(0.5, 0.5, gradients="sift").needs
    assert "but a Seeded oracle" in exact.unsupported("pingd", gs.Seeded(lambda x, seed: float(x.sum())))
    assert "but an Expectation oracle" in exact.unsupported(
        "pingd", gs.Expectation(lambda x, xi: float(x.sum()), lambda rng, k: rng.random(k))
    )
