"""A call of `minimize` as plain data, in the header of its journal, so that it can be made again from that alone.

Plain data are numbers, strings, arrays and what is made of them, and the library's own settings: methods, step rules,
criteria and sets. What else was given (functions, methods and criteria of the user's own) is only named.
"""

from __future__ import annotations

import base64
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np

from goldstein.methods.method import Method
from goldstein.methods.registry import METHODS, resolve
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle, Seeded, Unreplayable

FEW = 1000  # numbers that are written as such; more of them as bytes
MOST_BYTES = 100_000  # of `args` that are worth a copy in every journal
BARE = "bare"
KEYS = {
    "function",
    "oracle",
    "x0",
    "method",
    "args",
    "projection",
    "x_scale",
    "output",
    "stop",
    "stationarity",
    "catch",
}
KEYS |= {"max_fail", "compiled", "missing"}
ORACLES = {kind.__name__: kind for kind in (Deterministic, Seeded, Unreplayable)}


@dataclass(frozen=True)
class ByName:
    """A method as the user named it, with what was given of its settings."""

    name: str
    options: Mapping[str, Any]


class NotPlainError(TypeError):
    """Something is no plain data; it says what."""


def described(
    fun: Any, x0: Array, method: Method | ByName, *, args: tuple[Any, ...] = (), **settings: Any
) -> dict[str, Any]:
    """Return a call in plain data; `missing` names what of it is none.

    Parameters
    ----------
    fun : Oracle or callable
        What is minimised: only its name and its kind are kept.
    x0 : ndarray, shape (d,)
        The start, as it was given.
    method : Method or ByName
        As it was given.
    args : tuple
        Further arguments of the function; kept if they are plain.
    **settings
        Further arguments of `minimize`.
    """
    call: dict[str, Any] = {"function": name_of(fun), "oracle": _oracle(fun)}
    missing = []
    size = sum(getattr(one, "nbytes", 0) for one in args)
    if size > MOST_BYTES:
        missing.append(f"args ({size:,} bytes)")
        args = ()
    for name, value in {"x0": x0, "method": method, "args": args, **settings}.items():
        try:
            call[name] = _plain(value)
        except NotPlainError as error:
            missing.append(f"{name} ({error})")
    return {**call, "missing": missing}


def made_again(call: Mapping[str, Any] | None, fun: Any) -> dict[str, Any]:
    """Return the arguments of `minimize` for a call in plain data and its function.

    Parameters
    ----------
    call : mapping
        What `described` has returned.
    fun : Oracle or callable
        An oracle is taken as it is, a callable is made into the kind of oracle that the call had.
    """
    if call is None:
        raise ValueError("it does not say by which call it was made")
    unknown = call.keys() - KEYS
    if unknown:
        raise ValueError(f"its header has unknown entries: {', '.join(sorted(unknown)):.200}")
    missing = [name for name in call["missing"] if not (name.startswith("args ") and isinstance(fun, Oracle))]
    if missing:
        raise ValueError(f"what it was given is no plain data: {', '.join(missing)}")
    again = {
        name: _made(value) for name, value in call.items() if name not in ("function", "oracle", "missing", "args")
    }
    args = () if isinstance(fun, Oracle) else _made(call["args"])
    again["fun"] = fun if isinstance(fun, Oracle) else _wrapped(fun, call["oracle"], args)
    if not isinstance(again["fun"], Oracle):
        again["args"] = args
    return again


def name_of(fun: Any) -> str:
    """Return where a function is found, as module:name, or what it is."""
    bare = fun.fun if isinstance(fun, Oracle) else fun
    name = getattr(bare, "__qualname__", None)
    module = getattr(bare, "__module__", None)
    return f"{module}:{name}" if name and module else type(bare).__name__


def _oracle(fun: Any) -> dict[str, Any]:
    if not isinstance(fun, Oracle):
        return {"kind": BARE}
    grad = fun.grad is not None
    return {"kind": type(fun).__name__, "n": fun.n, "vectorized": fun.vectorized, "grad": grad}


def _wrapped(fun: Any, oracle: Mapping[str, Any], args: Any) -> Any:
    kind = oracle["kind"]
    if kind == BARE:
        return fun
    if oracle["grad"] or (kind not in ORACLES and kind != FiniteSum.__name__):
        more = " with gradients" if oracle["grad"] else ""
        raise ValueError(f"its function was of the kind {kind}{more}, so an oracle of that kind is needed")
    if kind == FiniteSum.__name__:
        return FiniteSum(fun, oracle["n"], args, oracle["vectorized"])
    return ORACLES[kind](fun, args, oracle["vectorized"])


def _plain(value: Any) -> Any:
    """Return a value in JSON types; what JSON has no type for is a dict with one key that tells which."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return _plain_array(value)
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_plain(item) for item in value]}
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _plain(item) for key, item in value.items()}}
    if isinstance(value, type) and value.__module__ == "builtins":
        return {"builtin": value.__name__}
    if isinstance(value, ByName):
        return {"by name": value.name, "options": {key: _plain(item) for key, item in value.options.items()}}
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
    made_with = {one.name: _plain(getattr(value, one.name)) for one in fields(value) if one.init}
    return {"settings": f"{kind.__module__}:{kind.__qualname__}", "with": made_with}


def _made(plain: Any) -> Any:
    """Undo `_plain`."""
    if not isinstance(plain, dict):
        return plain
    if "array" in plain:
        return _made_array(plain)
    if "list" in plain:
        return [_made(item) for item in plain["list"]]
    if "tuple" in plain:
        return tuple(_made(item) for item in plain["tuple"])
    if "dict" in plain:
        return {key: _made(item) for key, item in plain["dict"].items()}
    if "builtin" in plain:
        kind = getattr(builtins, plain["builtin"], None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            raise ValueError("its header names something that is no exception")
        return kind
    if "by name" in plain:
        return _by_name(plain["by name"], {key: _made(item) for key, item in plain["options"].items()})
    return _made_settings(plain)


def _made_array(plain: Mapping[str, Any]) -> Array:
    if "numbers" in plain:
        return np.array(plain["numbers"], plain["array"])
    flat = np.frombuffer(base64.b64decode(plain["bytes"]), plain["array"])
    return flat.reshape(plain["shape"]).copy()


def _by_name(name: str, options: Mapping[str, Any]) -> Method:
    if name not in METHODS:
        raise ValueError(f"its method {name!r} is not registered where the function comes from")
    return resolve(name, options)


def _made_settings(plain: Mapping[str, Any]) -> Any:
    module, _, name = plain["settings"].partition(":")
    kind: Any = getattr(import_module(module), name, None) if module.startswith("goldstein.") else None
    if not (isinstance(kind, type) and is_dataclass(kind)):
        raise ValueError(f"{plain['settings']} is unknown to this version")
    return kind(**{key: _made(item) for key, item in plain["with"].items()})
