"""Parse the words of the command line: functions, points, bounds and options."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from zlib import crc32

import numpy as np
import typer

from goldstein.cli.errors import FAILED, describe, end, exit_call
from goldstein.oracle import Array

AsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON.")]
Out = Annotated[Path | None, typer.Option(help="File for the answer x, .npy or .txt.")]
Progress = Annotated[bool, typer.Option(help="Show a line while it runs, on a terminal.")]
Report = Annotated[Path | None, typer.Option(help="Page about the run, such as run.html.")]
Workers = Annotated[int | None, typer.Option(help="Processes that evaluate; -1: all cores.")]


def load_object(function: str, option: str) -> Any:
    """Return what `module:name` or `file.py:name` names; modules in the current folder are found, also by workers."""
    module, _, name = function.rpartition(":")
    if not module or not name:
        raise typer.BadParameter(f"{option} takes module:function, such as my_model:loss; got {function!r}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    is_file = module.endswith(".py") or "/" in module or os.sep in module
    try:
        thing: Any = _import_file(Path(module)) if is_file else import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise typer.BadParameter(f"{module} needs {error.name}, which is not installed.") from None
        raise typer.BadParameter(f"There is no module {module!r} on the path or in the current folder.") from None
    except SystemExit as error:
        end(f"The module {module!r} called {exit_call(error)} when it was imported.", FAILED)
    except typer.BadParameter:
        raise
    except Exception as error:
        raise typer.BadParameter(f"The module {module!r} cannot be imported: {describe(error)}.") from None
    for part in name.split("."):
        if not hasattr(thing, part):
            raise typer.BadParameter(f"The module {module!r} has no {name!r}.{_shadowed(module)}")
        thing = getattr(thing, part)
    return thing


def _import_file(path: Path) -> ModuleType:
    """Import a file, like Python does a program: what lies beside it is found, too."""
    file = (path if path.suffix == ".py" else path.with_name(path.name + ".py")).resolve()
    if not file.is_file():
        raise typer.BadParameter(f"There is no file {file}.")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    if file.stem.isidentifier() and _place(file.stem) == file:
        return import_module(file.stem)
    name = f"{file.stem}_{crc32(bytes(file)):08x}"  # its own is taken, or is none
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _place(module: str) -> Path | None:
    """Return the file that a module is, or would be, imported from."""
    with suppress(ImportError, ValueError):
        spec = find_spec(module)
        if spec is not None and spec.origin is not None and spec.has_location:
            return Path(spec.origin).resolve()
    return None


def _shadowed(module: str) -> str:
    """Return a sentence when a module is not the file of that name in the current folder."""
    file = Path.cwd() / f"{module.replace('.', os.sep)}.py"
    place = _place(module) if "/" not in module and os.sep not in module else file
    if not file.is_file() or place == file.resolve():
        return ""
    return f" It is {place or 'built into Python'}, and not the file in this folder: name that as {file.name}:…"


def parse_point(x0: str, dim: int | None) -> Array:
    """Return a start: numbers with commas between them, one number for all of `dim`, or a file of numbers."""
    try:
        x = np.array([float(number) for number in x0.split(",")])
    except ValueError:
        x = _read_numbers(x0)
    if dim is None:
        return x
    if x.size not in (1, dim):
        raise typer.BadParameter(f"--x0 has {x.size} numbers and --dim is {dim}.")
    return np.broadcast_to(x, (dim,)).copy()


def _read_numbers(x0: str) -> Array:
    path = Path(x0)
    if not path.is_file():
        expected = "numbers with commas between them, such as 0,0.5,-1, or a file with numbers (.npy, or text)"
        raise typer.BadParameter(f"--x0 takes {expected}; got {x0!r}.")
    try:
        if path.suffix == ".npy":
            return np.atleast_1d(np.load(path))
        with path.open(encoding="utf-8", errors="replace") as file:
            delimiter = "," if "," in file.readline() else None
        return np.atleast_1d(np.loadtxt(path, delimiter=delimiter))
    except ValueError:
        raise typer.BadParameter(f"{path} holds no vector of numbers.") from None


def parse_bounds(bounds: str | None, d: int) -> list[tuple[float, float]] | None:
    """Return bounds from lower:upper, once for all variables or with commas for each; an empty side is open."""
    if bounds is None:
        return None
    sides = []
    for side in bounds.split(","):
        lower, colon, upper = side.partition(":")
        try:
            if not colon:
                raise ValueError
            sides.append((float(lower or -np.inf), float(upper or np.inf)))
        except ValueError:
            expected = "lower:upper, such as 0:1, or one for each variable with commas between them"
            raise typer.BadParameter(f"--bounds takes {expected}; got {side!r}.") from None
    if len(sides) not in (1, d):
        raise typer.BadParameter(f"--bounds has {len(sides)} pairs for {d} variables.")
    return sides * d if len(sides) == 1 else sides


def parse_options(words: Iterable[str]) -> dict[str, Any] | None:
    """Return settings of a method from name=value, each value as Python reads it, or else a text."""
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--option takes name=value, such as delta=0.1; got {word!r}.")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    return settings or None


def parse_pair(name: str, words: str | None) -> tuple[float, float] | None:
    """Return two numbers with a comma between them."""
    if words is None:
        return None
    try:
        first, second = (float(word) for word in words.split(","))
    except ValueError:
        raise typer.BadParameter(f"{name} takes two numbers with a comma between them; got {words!r}.") from None
    return first, second


def parse_exceptions(names: Iterable[str]) -> list[type[Exception]]:
    """Return exceptions of Python by their names, and others as module:name."""
    kinds = []
    for name in names:
        kind = load_object(name, "--catch") if ":" in name else getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            expected = "an exception of Python, such as ValueError, or module:name"
            raise typer.BadParameter(f"--catch takes {expected}; got {name!r}.")
        kinds.append(kind)
    return kinds
