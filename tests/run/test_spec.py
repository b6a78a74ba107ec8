"""What was asked for is written down once: an argument of `RunSpec` is found wherever a run is described."""

from dataclasses import dataclass

import numpy as np
import pytest

import goldstein as gs
from goldstein.run.inspection import inspect, stages_in
from goldstein.run.spec import RunSpec
from goldstein.run.stages import run

X0 = np.array([0.7, -0.3])


def value(x):
    return float(np.abs(x).sum())


@dataclass(frozen=True, eq=False, kw_only=True)
class Wider(RunSpec):
    """A spec with an argument that nobody has heard of."""

    colour: str = "red"


def minimize_wider(fun, x0, method="auto", *, colour="red", **settings):
    return run(Wider(fun=fun, x0=x0, method=method, colour=colour, **settings))


def test_a_new_argument_needs_no_other_place(tmp_path):
    path = tmp_path / "run.journal"
    res = minimize_wider(value, X0, gs.GFM(0.1, 0.01), colour="blue", max_evals=60, rng=0, journal=path)
    header = stages_in(path)[0].header
    assert header["colour"] == "blue"  # compared
    assert Wider.arguments_of(header["call"], value)["colour"] == "blue"  # made again
    assert res.settings["colour"] == "blue"
    assert inspect(path).settings["colour"] == "blue"
    page = res.report(tmp_path / "run.html").read_text(encoding="utf-8")
    assert "colour" in page
    assert "blue" in page
    with pytest.raises(ValueError, match="its colour was 'blue', now it is 'green'"):
        minimize_wider(value, X0, gs.GFM(0.1, 0.01), colour="green", max_evals=60, rng=0, journal=path)


def test_an_argument_that_has_its_default_is_not_shown():
    res = minimize_wider(value, X0, max_evals=60, rng=0)
    assert "colour" not in res.settings
    assert "retries" not in res.settings
    assert res.settings["max_evals"] == 60


def test_minimize_and_the_spec_have_the_same_arguments():
    import inspect as inspection
    from dataclasses import fields

    known = {one.name for one in fields(RunSpec) if one.init}
    assert set(inspection.signature(gs.minimize).parameters) == known
