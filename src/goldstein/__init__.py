"""Minimise noisy, nonsmooth, nonconvex functions from their values alone, and say how stationary the answer is."""

import ast
import logging
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from goldstein import retired

__version__ = "0.3.0"


def _homes() -> dict[str, str]:
    """Return in which module each public name is found, as `__init__.pyi` says."""
    tree = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOME = _homes()
__all__ = sorted(_HOME)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Fetch a name when it is first asked for, so that a worker, who needs none of them, starts quickly."""
    home = _HOME.get(name, "goldstein")
    if home != "goldstein" and name != "smoothing":
        value = getattr(import_module(home), name)
    else:
        try:
            value = import_module(f"{home}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{home}.{name}":  # an optional package is missing
                raise
            gone = error.msg if error.name in retired.MODULES else f"module 'goldstein' has no attribute {name!r}"
            raise AttributeError(gone) from None
    globals()[name] = value
    return value


class _Package(ModuleType):
    """The package, in which `minimize` is the function, also when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "minimize" and isinstance(value, ModuleType):
            value = value.minimize
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
retired.install()
logging.getLogger("goldstein").addHandler(logging.NullHandler())  # what is heard is for the application to say
