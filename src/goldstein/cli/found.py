"""From words on the command line to what they mean: functions, points, bounds and options."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import typer

from goldstein.cli.polite import described
from goldstein.oracle import Array


def found(function: str, option: str) -> Any:
    """Return what `module:name` names; modules in the current folder are found, also by workers."""
    module, _, name = function.partition(":")
    if not module or not name:
        raise typer.BadParameter(f"{option} takes module:function, such as my_model:loss; got {function!r}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        thing: Any = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise typer.BadParameter(f"{module} needs {error.name}, which is not installed.") from None
        raise typer.BadParameter(f"There is no module {module!r} on the path or in the current folder.") from None
    except Exception as error:
        raise typer.BadParameter(f"The module {module!r} cannot be imported: {described(error)}.") from None
    for part in name.split("."):
        if not hasattr(thing, part):
            raise typer.BadParameter(f"The module {module!r} has no {name!r}.")
        thing = getattr(thing, part)
    return thing


def point(x0: str, dim: int | None) -> Array:
    """Return a start: numbers with commas between them, one number for all of `dim`, or a file of numbers.

    Examples
    --------
    >>> point("1,-2.5", None), point("0", 3)
    (array([ 1. , -2.5]), array([0., 0., 0.]))
    """
    try:
        x = np.array([float(number) for number in x0.split(",")])
    except ValueError:
        x = _numbers_in(x0)
    if dim is None:
        return x
    if x.size not in (1, dim):
        raise typer.BadParameter(f"--x0 has {x.size} numbers and --dim is {dim}.")
    return np.broadcast_to(x, (dim,)).copy()


def _numbers_in(x0: str) -> Array:
    path = Path(x0)
    if not path.is_file():
        wanted = "numbers with commas between them, such as 0,0.5,-1, or a file with numbers (.npy, or text)"
        raise typer.BadParameter(f"--x0 takes {wanted}; got {x0!r}.")
    try:
        x = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, delimiter="," if "," in _start(path) else None)
    except ValueError:
        raise typer.BadParameter(f"{path} holds no vector of numbers.") from None
    return np.atleast_1d(np.asarray(x))


def _start(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline()


def box(bounds: str | None, d: int) -> list[tuple[float, float]] | None:
    """Return bounds from lower:upper, once for all variables or with commas for each; an empty side is open.

    Examples
    --------
    >>> box("0:1", 2), box(":1,-2:", 2)
    ([(0.0, 1.0), (0.0, 1.0)], [(-inf, 1.0), (-2.0, inf)])
    """
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
            wanted = "lower:upper, such as 0:1, or one for each variable with commas between them"
            raise typer.BadParameter(f"--bounds takes {wanted}; got {side!r}.") from None
    if len(sides) not in (1, d):
        raise typer.BadParameter(f"--bounds has {len(sides)} pairs for {d} variables.")
    return sides * d if len(sides) == 1 else sides


def options(given: Iterable[str]) -> dict[str, Any] | None:
    """Return settings of a method from name=value, each value as Python reads it, or else a text.

    Examples
    --------
    >>> options(["delta=0.1", "estimator=loo"])
    {'delta': 0.1, 'estimator': 'loo'}
    """
    settings = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--option takes name=value, such as delta=0.1; got {word!r}.")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    return settings or None


def pair(name: str, words: str | None) -> tuple[float, float] | None:
    """Return two numbers with a comma between them."""
    if words is None:
        return None
    try:
        first, second = (float(word) for word in words.split(","))
    except ValueError:
        raise typer.BadParameter(f"{name} takes two numbers with a comma between them; got {words!r}.") from None
    return first, second


def exceptions(names: Iterable[str]) -> list[type[Exception]]:
    """Return exceptions of Python by their names."""
    kinds = []
    for name in names:
        kind = getattr(builtins, name, None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise typer.BadParameter(f"--catch takes an exception of Python, such as ValueError; got {name!r}.")
        kinds.append(kind)
    return kinds
