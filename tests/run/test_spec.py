"""What was asked for is written down once: an argument of `RunSpec` is found wherever a run is described."""

import ast
from dataclasses import dataclass, fields
from pathlib import Path

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

    known = {one.name for one in fields(RunSpec) if one.init}
    assert set(inspection.signature(gs.minimize).parameters) == known


def lists_of_arguments(tree, names):
    """Yield the line of each list, table, signature or call that names eight or more arguments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            every = [one.arg for one in (*node.args.args, *node.args.kwonlyargs)]
        elif isinstance(node, ast.Call):
            every = [one.arg for one in node.keywords]
        elif isinstance(node, ast.Dict):
            every = [one.value for one in node.keys if isinstance(one, ast.Constant)]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            every = [one.value for one in node.elts if isinstance(one, ast.Constant)]
        else:
            continue
        if len(names.intersection(every)) >= 8:
            yield node.lineno


def test_there_is_no_other_list_of_the_arguments_of_minimize():
    known = {one.name for one in fields(RunSpec) if one.init}
    root = Path(gs.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for _ in lists_of_arguments(ast.parse(path.read_text(encoding="utf-8")), known)
    }
    assert found == {"minimize.py", "run/spec.py", "cli/minimize.py", "cli/journal.py"}
