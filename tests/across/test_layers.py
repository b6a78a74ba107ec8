"""The rooms of the package stand in an order, and no import goes upwards, not even a late one; see CONTRIBUTING.md."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import goldstein

ROOT = Path(goldstein.__file__).parent
# From the lowest to the highest; rooms in one line know nothing of each other.
ORDER = [
    ["arguments", "norms", "warnings", "extras", "retired"],
    ["oracle"],
    ["state", "compiled", "report", "torch"],
    ["facts", "output", "projection", "steps", "estimate", "criterion", "problems", "plot"],
    ["stationarity"],
    ["methods", "stop"],
    ["run"],
    ["minimize", "attack"],
    ["many", "theory", "testing", "sklearn", "simopt"],
    ["demo"],
    ["cli"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
# What may be imported late, inside a function: rooms that need an optional package as soon as they are imported.
OPTIONAL = {"compiled": "numba", "cli": "typer", "demo": "scikit-learn", "plot": "matplotlib", "report": "jinja2"} | {
    "theory": "its own time"
}


def modules():
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


MODULES = dict(modules())


def imported(node):
    """Return the modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name.removeprefix("goldstein.") for alias in node.names if alias.name.startswith("goldstein.")]
    if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "goldstein":
        return []
    base = node.module.removeprefix("goldstein").removeprefix(".")
    found = []
    for alias in node.names:
        whole = f"{base}.{alias.name}".removeprefix(".")
        found.append(whole if whole in MODULES else base)
    return found


def edges(nodes):
    return sorted({target for node in nodes for target in imported(node) if target})


def running(tree):
    """Return the nodes of a module but for imports that only the type checker reads."""
    typing = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    left_out = {id(inner) for node in typing for inner in ast.walk(node)}
    return [node for node in ast.walk(tree) if id(node) not in left_out]


EVERY = {name: edges(running(ast.parse(path.read_text()))) for name, path in MODULES.items()}


def room(module):
    return module.split(".")[0]


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_no_import_goes_upwards(module):
    assert room(module) in LEVEL, f"{room(module)} has no place in the order of rooms"
    for target in EVERY[module]:
        below = LEVEL[room(target)] < LEVEL[room(module)]
        assert below or room(target) == room(module), f"{module} imports {target}, which stands above or beside it"


def test_no_module_imports_itself_on_a_detour():
    inside = {name: [target for target in targets if target != name] for name, targets in EVERY.items() if name}
    assert list(TopologicalSorter(inside).static_order())  # raises CycleError


@pytest.mark.parametrize("module", [name for name in MODULES if name])
def test_late_imports_are_for_optional_packages(module):
    functions = [node for node in ast.walk(ast.parse(MODULES[module].read_text())) if isinstance(node, ast.FunctionDef)]
    late = edges(node for function in functions for node in ast.walk(function))
    for target in late:
        assert room(target) in OPTIONAL, f"{module} imports {target} inside a function"


def test_an_edge_upwards_would_be_seen():
    tree = ast.parse("def f():\n    from goldstein.run.session import Session\n    from goldstein import minimize\n")
    assert edges(ast.walk(tree)) == ["minimize", "run.session"]
    assert LEVEL["run"] > LEVEL["methods"]
