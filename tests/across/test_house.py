"""Rules of the house that a reader would otherwise have to keep in mind."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import goldstein as gs

ROOT = Path(gs.__file__).parent
FILES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.py"))}
RETIRED_PHRASES = (  # quaint ways to say what has a plain word
    "used up",
    "as is usual",
    "the kind is",
    "looking took",
    "taken as such",
    "tell nothing",
    "of late",
    "goes on",
    "There is no room for the folder",
    "of no use",
    "took its worker",
    "see whether a worker",
    "Nothing is shown",
    "without end",
    "somebody else",
    "catch its breath",
    "so many",
    "nobody",
    "whatever",
    "whoever",
)
WRAPPERS = {"WarmStart": "methods/warm_start.py", "Probed": "methods/probed.py", "Auto": "methods/auto.py"}


def test_a_method_has_eight_public_members():
    assert sorted(m for m in dir(gs.Method) if not m.startswith("_")) == [
        "ask",
        "from_scale",
        "init",
        "kernel",
        "name",
        "needs",
        "start",
        "tell",
    ]


@pytest.mark.parametrize("file", FILES)
def test_nobody_asks_which_wrapper_a_method_is(file):
    """A wrapper composes the eight members, so that there is nothing to ask."""
    for node in ast.walk(ast.parse(FILES[file])):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            kinds = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            assert all(WRAPPERS[kind] == file for kind in kinds & WRAPPERS.keys()), ast.unparse(node)


@pytest.mark.parametrize("file", [file for file in FILES if not file.startswith("methods/")])
def test_nothing_outside_its_room_touches_what_a_method_keeps_to_itself(file):
    for node in ast.walk(ast.parse(FILES[file])):
        if isinstance(node, ast.Attribute) and re.fullmatch(r"_[a-z]\w*", node.attr):
            owner = ast.unparse(node.value)
            assert not owner.split(".")[-1].endswith("method"), f"{owner}.{node.attr}"


def messages(source: str) -> list[str]:
    """Return the texts of a program that are no docstrings."""
    tree = ast.parse(source)
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements
    ]


@pytest.mark.parametrize("file", FILES)
def test_retired_phrases_stand_in_no_message(file):
    found = [
        (phrase, text)
        for text in messages(FILES[file])
        for phrase in RETIRED_PHRASES
        if re.search(rf"\b{phrase}\b", text, flags=re.IGNORECASE)
    ]
    assert not found


def test_the_version_stands_in_one_place():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert gs.__version__ not in pyproject
    assert 'attr = "goldstein.__version__"' in pyproject


def test_make_installs_every_extra_that_tests_need():
    """Where an extra is missing its tests are skipped, which nobody would notice."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (for_the_demo, installed) = re.findall(
        r'constraints\.txt --editable "\.\[([a-z,]+)\]"', (root / "Makefile").read_text(encoding="utf-8")
    )
    assert set(for_the_demo.split(",")) < set(installed.split(","))
    assert extras["all"] == [f"goldstein[{','.join(extra for extra in extras if extra != 'all')}]"]
    assert set(installed.split(",")) == extras.keys() - {"all"}


def test_the_walk_of_a_call_names_files_and_functions_that_are_there():
    page = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
    hops = re.findall(r"^\| \d+ \| `([^`]+)` \| `([^`]+)`", page, flags=re.MULTILINE)
    assert len(hops) == 13
    for file, function in hops:
        for part in function.split("."):
            if part != "__call__":
                assert re.search(rf"(def|class) {part}\b", FILES[file]), f"{function} is not in {file}"


def test_the_oldest_versions_are_those_that_are_allowed():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = re.findall(
        r"^([a-z0-9-]+)==([0-9.]+)$", (root / "constraints-oldest.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    oldest = {name: version.split(".") for name, version in pins}
    extras = project["optional-dependencies"]
    tried = [
        *project["dependencies"],
        *(need for name in ("compiled", "sklearn", "plot", "report", "cli") for need in extras[name]),
    ]
    allowed = dict(need.split(">=") for need in tried)
    assert oldest.keys() - {"pyparsing"} == allowed.keys()  # which the oldest matplotlib needs at its own age
    for name, version in allowed.items():
        parts = version.split(".")
        assert oldest[name][: len(parts)] == parts
        assert set(oldest[name][len(parts) :]) <= {"0"}


def test_every_extra_has_its_use_in_the_check_of_the_wheel():
    from tests import check_wheel

    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert check_wheel.USES.keys() == extras.keys() - {"all"}
