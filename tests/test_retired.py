"""Names of 0.2 answer with one sentence that names the new one; none is ignored silently."""

import importlib
from dataclasses import dataclass, replace

import numpy as np
import pytest

import goldstein as gs
from goldstein import retired
from goldstein.methods import Context, MethodState
from goldstein.methods.method import Step
from goldstein.testing import check_method


@pytest.mark.parametrize("module", retired.MODULES)
def test_a_module_that_is_gone(module):
    with pytest.raises(ModuleNotFoundError, match=f"{module} is called {retired.MODULES[module]} since"):
        importlib.import_module(module)
    importlib.import_module(retired.MODULES[module])


NAMES = [(module, name) for module, names in retired.NAMES.items() for name in names]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_in_a_module(module, name):
    new = retired.NAMES[module][name]
    with pytest.raises(ImportError, match=f"{module}.{name} is called {new} since"):
        exec(f"from {module} import {name}", {})
    assert hasattr(importlib.import_module(module), new)


MOVED = [(module, name) for module, names in retired.MOVED.items() for name in names]


@pytest.mark.parametrize(("module", "name"), MOVED)
def test_a_name_that_left_the_package(module, name):
    with pytest.raises(ImportError, match=f"{module}.{name} left the package in goldstein 0.3: see studies/"):
        exec(f"from {module} import {name}", {})
    assert hasattr(importlib.import_module(module.replace("goldstein", "studies")), name)


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (gs.Needs, "reach"),
        (gs.Needs, "narrow"),
        (gs.Needs, "favourite"),
        (gs.Needs, "judging"),
        (Context, "earlier"),
        (gs.Query, "memory"),
        (gs.Query, "cut"),
        (Step, "offer"),
        (Step, "norm"),
        (Step, "size"),
        (Step, "noise"),
        (Step, "remarks"),
        (Step, "notices"),
        (Step, "underway"),
    ],
)
def test_a_field(kind, field):
    with pytest.raises(TypeError, match=rf"{kind.__name__}\({field}=...\) is called \w+"):
        kind(np.zeros(1), **{field: 1})
    one = gs.Needs() if kind is gs.Needs else kind(np.zeros((1, 1)))
    with pytest.raises(AttributeError, match=rf"{kind.__name__}.{field} is called \w+"):
        getattr(one, field)
    assert not hasattr(one, "no_such_field")


def test_states_make_steps_by_another_name():
    with pytest.raises(AttributeError, match=r"MethodState\.step is called make_step"):
        MethodState(np.zeros(2)).step(None)


def test_a_method_with_a_retired_member_is_refused():
    @dataclass(frozen=True)
    class Old(gs.GFM):
        name = "old"

        @classmethod
        def guess(cls, scale, given):
            return cls(1.0, 0.1)

    for call in (gs.register, lambda kind: check_method(kind(0.1, 0.1))):
        with pytest.raises(TypeError, match=r"Old\.guess is called from_scale since"):
            call(Old)


def test_other_mistakes_are_answered_as_ever():
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        gs.Query(np.zeros((1, 1)), colour=1)
    assert replace(gs.Needs(), query_radius=1.0).query_radius == 1.0


@pytest.mark.parametrize("kind", [gs.Sift, gs.SINGD, gs.PSINGD, gs.INGD, gs.PINGD, gs.CuttingPlane, gs.O2NC])
def test_settings_of_methods(kind):
    with pytest.raises(TypeError, match=r"\(step=...\) is called fd_step since"):
        kind(step=1e-6)
    if kind is gs.Sift:
        with pytest.raises(TypeError, match="is called max_evals_per_sample since"):
            kind(1.0, cap=10)
