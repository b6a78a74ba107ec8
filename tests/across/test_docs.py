"""The public names: documented, with examples that run, strict about their arguments, and light to import."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs

ROOT = Path(__file__).parents[2]
TEXTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
OPTIONAL = {"numba", "sklearn", "matplotlib", "torch", "typer", "rich", "ray", "distributed", "pandas", "art", "simopt"}
MODULES = sorted(m.name for m in pkgutil.walk_packages(gs.__path__, "goldstein.") if not m.name.endswith("__main__"))
PUBLIC = {name: getattr(gs, name) for name in gs.__all__}
BASES = {"ManyResults", "Method", "Oracle", "Query", "Result", "Status"}  # made by the library, or to be subclassed


@pytest.mark.parametrize("name", ["goldstein", *MODULES])
def test_the_examples_in_the_docstrings_run(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if error.name and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"{name} needs {error.name}")
        raise
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_is(name):
    said = (PUBLIC[name].__doc__ or "").strip().split("\n")[0]
    assert len(said) > 15
    assert said.endswith((".", ":", ","))


@pytest.mark.parametrize("name", [n for n, it in PUBLIC.items() if not inspect.ismodule(it) and n not in BASES])
def test_every_class_and_function_that_users_call_shows_an_example(name):
    assert ">>>" in PUBLIC[name].__doc__


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_the_sessions_in_the_texts_run_and_the_programs_compile(path):
    if path.stem in OPTIONAL:
        pytest.importorskip(path.stem)
    assert doctest.testfile(str(path), module_relative=False).failed == 0
    for program in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL):
        if ">>>" not in program:
            compile(program, path.name, "exec")


@pytest.mark.parametrize(
    "program",
    [
        "import goldstein",
        "import goldstein as gs; gs.minimize(lambda x: abs(x).sum(), [1, 2], gs.GFM(0.1, 0.01), max_evals=50, rng=0)",
    ],
    ids=["import", "minimize"],
)
def test_no_optional_package_is_imported_before_it_is_needed(program):
    program += f"\nimport sys; print(*sorted({OPTIONAL} & set(sys.modules)))"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.split() == []


def fun(x, xi=0):
    return 0.0


WRONG = [
    (lambda: gs.Deterministic(3), "Deterministic needs a callable, got int"),
    (lambda: gs.Deterministic(fun, grad=1), "grad must be a callable or None, got int"),
    (lambda: gs.FiniteSum(fun, 0), "n must be a whole number of at least 1, got 0"),
    (lambda: gs.FiniteSum(fun, 2.0), "n must be a whole number of at least 1, got 2.0"),
    (lambda: gs.Expectation(fun, 5), "sample must be a callable"),
    (lambda: gs.Seeded("simulator"), "Seeded needs a callable, got str"),
    (lambda: gs.Unreplayable(None), "Unreplayable needs a callable, got NoneType"),
    (lambda: gs.GFM(0.1, "fast"), "step_size must be a positive number or a rule"),
    (lambda: gs.GFM(np.inf, 0.1), "delta must be a positive number, got inf"),
    (lambda: gs.GFM(0.1, 0.1, 0), "batch_size must be a whole number of at least 1, got 0"),
    (lambda: gs.GFM(0.1, 0.1, 1, estimator="loo"), "needs batch_size of at least one group, got 1"),
    (lambda: gs.GFMPlus(0.1, 0.1, 0, 1), "epoch_length must be a whole number of at least 1, got 0"),
    (lambda: gs.GFMPlus(0.1, 0.1, 5, 1, large_batch_size=2.5), "large_batch_size must be a whole number"),
    (lambda: gs.WarmStart(gs.GFM(0.1, 0.1), "gfm"), "WarmStart takes two method objects, got str"),
    (lambda: gs.WarmStart(gs.GFM(0.1, 0.1), gs.GFM(0.1, 0.1), 0), "iterations must be a whole number"),
    (lambda: gs.stop.Target(np.nan), "fun must be a number, got nan"),
    (lambda: gs.projection.L2Ball(np.zeros(2), 0.0), "radius must be a positive number, got 0.0"),
    (lambda: gs.projection.Box([0, 2], [1, 1]), "Bounds are crossed: lower 2.0 above upper 1.0 at 1"),
    (lambda: gs.projection.Knapsack([1, 0]), "weights must be positive numbers, got"),
    (lambda: gs.steps.LinearDecay(-1.0), "step_size must be a positive number, got -1.0"),
    (lambda: gs.steps.HalveOnPlateau(0.1, patience=0), "patience must be a whole number of at least 1, got 0"),
    (lambda: gs.minimize(len, [1.0], extend=1), "extend must be True or False, got 1"),
    (lambda: gs.minimize(len, [1.0], max_time=0), "max_time must be a positive number or None"),
    (lambda: gs.minimize(len, [1.0], max_fail=-1), "max_fail must be a whole number of at least 0 or None"),
    (lambda: gs.minimize(len, [1.0], timeout=1.0), "timeout needs workers"),
    (lambda: gs.minimize(len, [1.0], retries=0.5), "retries must be a whole number"),
    (lambda: gs.minimize(len, [1.0], journal=7), "journal must be a path or a Journal"),
    (lambda: gs.Journal("x", sync=-1), "sync must be a number of seconds"),
    (lambda: gs.Journal("x", snapshots=np.nan), "snapshots must be a number of seconds"),
]


@pytest.mark.parametrize(("make", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_every_public_name_checks_its_arguments(make, sentence):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=sentence) as caught:
        make()
    assert str(caught.value).endswith(".")
