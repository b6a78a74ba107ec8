"""The README does what it says: its program, its command, every call in its table, and the numbers that it names."""

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMAND = "import sys; from goldstein.cli import main; sys.argv[0] = 'goldstein'; main()"


def blocks(text, language):
    every = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in every if name == language]


def without_numbers(text):
    return [re.sub(r"-?\d[\d,.]*", "#", line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with the program of the README, after it was run."""
    folder = tmp_path_factory.mktemp("shop")
    (program,) = blocks(README, "python")
    (folder / "shop.py").write_text(program)
    return folder, program


def test_the_program_prints_what_the_readme_shows_and_leaves_a_report(shop):
    pytest.importorskip("jinja2")
    folder, program = shop
    process = subprocess.run([sys.executable, "shop.py"], cwd=folder, capture_output=True, text=True, check=True)
    shown = next(block for block in blocks(README, "") if "f(x)" in block)
    assert without_numbers(process.stdout) == without_numbers(shown)
    assert (folder / "run.html").stat().st_size > 5000
    assert len([line for line in program.splitlines() if line.strip()]) <= 10


def test_the_command_does_the_same(shop):
    pytest.importorskip("typer")
    pytest.importorskip("jinja2")
    folder, _ = shop
    (line,) = blocks(README, "sh")
    words = line.split()
    assert words[0] == "goldstein"
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, *words[1:], "--json"], cwd=folder, capture_output=True, text=True, check=True
    )
    told = json.loads(process.stdout)
    namespace = {"__name__": "shop"}
    exec((folder / "shop.py").read_text(), namespace)
    res = gs.minimize(gs.Seeded(namespace["cost"]), np.full(3, 10.0), bounds=[(0, 100)] * 3, max_evals=5000, rng=0)
    assert told["x"] == res.x.tolist()
    assert np.abs(res.x - 17.06).max() < 3  # the 4/9 quantile of the demand


ROWS = re.findall(r"^\| ([^|]+) \| (.+) \|$", README.split("## What do you have?")[1].split("## ")[0], re.MULTILINE)[2:]


def names():
    """What the calls in the table are about."""
    rng = np.random.default_rng(0)

    def F(x, xi=0):
        return float(np.abs(x).sum() + 0.1 * np.sin(xi))

    def model(x):
        light = x.mean(axis=(1, 2))
        return np.stack([0.5 - light, light - 0.5], axis=1)

    return {
        "gs": gs,
        "np": np,
        "goldstein": importlib.import_module("goldstein"),
        "scipy": importlib.import_module("scipy.optimize") and importlib.import_module("scipy"),
        "f": F,
        "F": F,
        "x0": np.ones(2),
        "x": np.full(2, 0.01),
        "d": 2,
        "n": 5,
        "N": 200,
        "delta": 0.1,
        "epsilon": 0.5,
        "sample": lambda rng, k: rng.normal(size=k),
        "values": np.array([1.0, 2.0]),
        "model": model,
        "images": rng.random((2, 4, 4)),
        "labels": [0, 1],
    }


def test_the_table_has_its_rows():
    assert len(ROWS) >= 14


@pytest.mark.parametrize(("have", "call"), ROWS, ids=[have for have, _ in ROWS])
def test_every_call_in_the_table_runs(have, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = names()
    if "plot" in call:
        pytest.importorskip("matplotlib")
    for code in re.findall(r"`([^`]+)`", call):
        if code.startswith("goldstein attack "):
            continue  # tests/cli/test_commands.py runs it
        if code.startswith("@"):
            assert callable(eval(code[1:], namespace))
        elif code.startswith("goldstein.") and "(" not in code:
            module, _, name = code.rpartition(".")
            try:
                assert callable(getattr(importlib.import_module(module), name))
            except ImportError as error:
                pytest.skip(str(error))
        elif re.match(r"\w+=", code):
            eval(f"dict({code})", namespace)
        else:
            importlib.import_module("goldstein.attack.core")
            exec(compile(ast.parse(code), have, "exec"), namespace)


def test_the_skeleton_of_a_method_in_contributing_runs():
    (program,) = blocks(CONTRIBUTING, "python")
    namespace = {"__name__": "contributed"}
    try:
        exec(compile(program, "CONTRIBUTING.md", "exec", dont_inherit=True), namespace)
        assert namespace["res"].fun < 0.5
    finally:
        gs.methods.METHODS.pop("walk", None)


def test_the_picture_shows_what_is_said_of_it():
    svm = json.loads((ROOT / "results" / "svm" / "results.json").read_text())["datasets"]["a9a"]
    cma = json.loads((ROOT / "results" / "why.json").read_text())
    assert cma["max_evals"] == 2 * svm["pairs"]
    ends = [end for method in svm["methods"].values() for end in method["ends"] if end is not None]
    lowest = min(*svm["reference"].values(), *ends)
    default = svm["methods"]["auto"]["mean"] - lowest
    others = [svm["methods"]["GFM"]["mean"], svm["methods"]["GFM+"]["mean"], cma["cma"]["mean"]]
    assert all(mean - lowest > 10 * default for mean in others)
    assert "ends more than ten times closer to the lowest known loss" in README
    assert len(cma["cma"]["tuning"]) == 16
    assert len(cma["seeds"]) == 5
    assert len(svm["methods"]["auto"]["ends"]) == 20
    assert (ROOT / "results" / "why.svg").stat().st_size > 1000


def test_the_share_of_cases_is_that_of_the_study():
    (share,) = re.findall(r"(\d+ of \d+) cases \(80 %\)", README)
    report = (ROOT / "results" / "peers" / "table.md").read_text(encoding="utf-8")
    assert f"Within 2 × of the best untuned method, all: {share} cells (80%)" in report


def test_a_few_of_the_runs_of_cma_come_out_again():
    pytest.importorskip("cmaes")
    from goldstein.problems import capped_l1_svm
    from studies import why

    rng = np.random.default_rng(0)
    A = rng.normal(size=(300, 6))
    svm = capped_l1_svm(A, np.sign(A @ rng.normal(size=6)))
    one, two = (why.cma(svm, 0.3, 10, 1, 20_000) for _ in range(2))
    assert one == two
    assert one["nfev"][-1] <= 20_000
    assert one["loss"][-1] < 0.8 * one["loss"][0]


def test_the_changelog_begins_with_this_version():
    head = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE).group(1)
    assert head.startswith(gs.__version__)
    assert f"v{gs.__version__}" in head
