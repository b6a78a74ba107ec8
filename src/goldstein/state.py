"""States: what changes in a run, as plain data.

A state is a dataclass whose fields are numbers, strings, None, arrays or other states. That is all a snapshot
needs: `pack` splits a state into JSON-ready structure and arrays, `unpack` puts it together again. No pickle.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LATER: Any = None
"""The default of a field that is set before it is read."""

MADE_AGAIN = {"packed": False}
"""The metadata of a field that is left out when a state is packed, and has its default when it is unpacked."""

BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


class State:
    """Base of everything that is remembered between iterations."""

    kinds: ClassVar[dict[str, type[State]]] = {}

    def __init_subclass__(cls) -> None:
        State.kinds[f"{cls.__module__}.{cls.__qualname__}"] = cls


def pack(value: Any, arrays: dict[str, Array], path: str = "state") -> Any:
    """Return the structure of `value` in JSON types; arrays go into `arrays` under their path."""
    if isinstance(value, State):
        names = [f.name for f in fields(value) if f.metadata.get("packed", True)]  # type: ignore[arg-type]
        inside = {name: pack(getattr(value, name), arrays, f"{path}.{name}") for name in names}
        return {"kind": f"{type(value).__module__}.{type(value).__qualname__}", "fields": inside}
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, Mapping):
        return {"dict": {key: pack(item, arrays, f"{path}.{key}") for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {"list": [pack(item, arrays, f"{path}.{k}") for k, item in enumerate(value)]}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"A state holds plain data only; {path} is a {type(value).__name__}.")


def unpack(packed: Any, arrays: dict[str, Array]) -> Any:
    """Undo `pack`; lists come back as lists."""
    if not isinstance(packed, dict):
        return packed
    if "kind" in packed:
        if packed["kind"] not in State.kinds:
            raise ValueError(f"Unknown state {packed['kind']}; import the module that defines it before loading.")
        inside = {name: unpack(item, arrays) for name, item in packed["fields"].items()}
        return State.kinds[packed["kind"]](**inside)
    if "array" in packed:
        return arrays[packed["array"]]
    if "dict" in packed:
        return {key: unpack(item, arrays) for key, item in packed["dict"].items()}
    return [unpack(item, arrays) for item in packed["list"]]


def second_generator(rng: np.random.Generator) -> np.random.Generator:
    """Return a generator for what must not change the trajectory, fixed by the state of `rng` but not drawn from it."""
    arrays: dict[str, Any] = {}
    digest = hashlib.sha256(json.dumps(pack(rng.bit_generator.state, arrays)).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()))


def later_generator(rng: np.random.Generator, stage: int) -> np.random.Generator:
    """Return the generator of a later stage of a run, from that of its first one as it was in the beginning."""
    digest = hashlib.sha256(f"{stage} {json.dumps(plain_state(rng))}".encode())
    return np.random.default_rng(int.from_bytes(digest.digest()))


def plain_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a generator in JSON types."""
    arrays: dict[str, Any] = {}
    packed = pack(rng.bit_generator.state, arrays)
    return {"state": packed, "arrays": {name: [str(array.dtype), array.tolist()] for name, array in arrays.items()}}


def from_plain_state(plain: Mapping[str, Any]) -> np.random.Generator:
    """Undo `plain_state`."""
    arrays = {name: np.array(numbers, dtype) for name, (dtype, numbers) in plain["arrays"].items()}
    return generator(unpack(plain["state"], arrays))


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a generator in a given state."""
    kind = BIT_GENERATORS.get(state["bit_generator"])
    if kind is None:
        raise ValueError(f"{state['bit_generator']!r:.80} is no bit generator of NumPy.")
    bits = kind()
    bits.state = state
    return np.random.Generator(bits)
