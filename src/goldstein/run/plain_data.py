"""Arguments of a call as plain data in the header of a journal, and back; what a stranger wrote there runs nothing."""

from __future__ import annotations

import base64
import builtins
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from goldstein.methods.method import Method
from goldstein.methods.registry import METHODS, resolve
from goldstein.oracle import Array

NUMBERS = "biuf"  # kinds of NumPy's types
FEW = 1000  # numbers that are written as such; more of them as bytes
EXCEPTIONS = {
    name: kind for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, Exception)
}


@dataclass(frozen=True)
class ByName:
    """A method by name, with its options."""

    name: str
    options: Mapping[str, Any]


class NotPlainError(TypeError):
    """Something is no plain data; it says what."""


def to_plain(value: Any) -> Any:
    """Return a value in JSON types; what JSON has no type for is a dict with one key that tells which."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        return _plain_array(value)
    if isinstance(value, list | tuple):
        return {type(value).__name__: [to_plain(item) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: to_plain(item) for key, item in value.items()}}
    if isinstance(value, type) and value in EXCEPTIONS.values():
        return {"exception": value.__name__}
    if isinstance(value, ByName):
        return {"by name": value.name, "options": {key: to_plain(item) for key, item in value.options.items()}}
    return _plain_settings(value)


def _plain_array(value: Array) -> dict[str, Any]:
    kind = value.dtype.str
    if value.size <= FEW:
        return {"array": kind, "numbers": value.tolist()}
    return {"array": kind, "shape": list(value.shape), "bytes": base64.b64encode(value.tobytes()).decode()}


def _plain_settings(value: Any) -> dict[str, Any]:
    """Return the library's own settings: the name of a class, and what it is made with."""
    kind = type(value)
    if not (is_dataclass(value) and kind.__module__.startswith("goldstein.")):
        raise NotPlainError(f"a {kind.__module__}.{kind.__qualname__}")
    made_with = {one.name: to_plain(getattr(value, one.name)) for one in fields(value) if one.init}
    return {"settings": f"{kind.__module__}:{kind.__qualname__}", "with": made_with}


def from_plain(plain: Any) -> Any:
    """Undo `to_plain`; this makes nothing but data, exceptions of Python and settings of this package."""
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return _array(plain)
    if "list" in plain:
        return [from_plain(item) for item in plain["list"]]
    if "tuple" in plain:
        return tuple(from_plain(item) for item in plain["tuple"])
    if "dict" in plain:
        return {key: from_plain(item) for key, item in plain["dict"].items()}
    if "exception" in plain:
        if plain["exception"] not in EXCEPTIONS:
            raise ValueError("its header names something that is no exception of Python")
        return EXCEPTIONS[plain["exception"]]
    if "by name" in plain:
        return _by_name(plain["by name"], {key: from_plain(item) for key, item in plain["options"].items()})
    return _settings(plain)


def _array(plain: Mapping[str, Any]) -> Array:
    kind = np.dtype(plain["array"])
    if kind.kind not in NUMBERS:
        raise ValueError("its header has an array that holds no numbers")
    if "numbers" in plain:
        return np.array(plain["numbers"], kind)
    flat = np.frombuffer(base64.b64decode(plain["bytes"]), kind)
    return flat.reshape(plain["shape"]).copy()


def _by_name(name: str, options: Mapping[str, Any]) -> Method:
    if name not in METHODS:
        raise ValueError(f"its method {name!r} is not registered where the function comes from")
    return resolve(name, options)


def _settings(plain: Mapping[str, Any]) -> Any:
    module, _, name = plain["settings"].partition(":")
    kind: Any = None
    if module.startswith("goldstein."):
        with suppress(ImportError):
            kind = getattr(import_module(module), name, None)
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"{plain['settings']:.200} is unknown to this version")
    return kind(**{key: from_plain(item) for key, item in plain["with"].items()})
