"""Every check of an argument, once.

A check returns the value in plain form (float, int, a fresh array), or says in one sentence what was expected and what
was given: TypeError for the wrong kind, ValueError for the wrong size. Numbers of NumPy are numbers; bools, strings,
complex and masked ones are none.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def keep(settings: Any, **values: Any) -> None:
    """Store checked values in a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def number(name: str, value: Any, wanted: str = "a number", fits: Callable[[float], bool] | None = None) -> float:
    """Return a number that is not NaN and that `fits`."""
    value = _unpacked(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _wrong(TypeError, name, wanted, value)
    try:
        plain = float(value)
    except OverflowError:  # a whole number beyond floating point
        plain = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if math.isnan(plain) or not (fits is None or fits(plain)):
        raise _wrong(ValueError, name, wanted, value)
    return plain


def positive(name: str, value: Any, wanted: str = "a positive number") -> float:
    """Return a positive finite number."""
    return number(name, value, wanted, lambda given: 0 < given < math.inf)


def optional_positive(name: str, value: Any) -> float | None:
    """Return a positive finite number, or None."""
    return None if value is None else positive(name, value, "a positive number or None")


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return number(name, value, "a finite number of at least 0", lambda given: 0 <= given < math.inf)


def share(name: str, value: Any, wanted: str = "a number between 0 and 1") -> float:
    """Return a number strictly between 0 and 1, such as a probability."""
    return number(name, value, wanted, lambda given: 0 < given < 1)


def confidence(value: Any) -> float:
    """Return a confidence of at least 1/2 and below 1."""
    return number("confidence", value, "a number of at least 0.5 and below 1", lambda given: 0.5 <= given < 1)


def count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`."""
    return _whole(name, value, least, f"a whole number of at least {least}")


def optional_count(name: str, value: Any, least: int = 1) -> int | None:
    """Return a whole number of at least `least`, or None."""
    return None if value is None else _whole(name, value, least, f"a whole number of at least {least} or None")


def flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise _wrong(TypeError, name, "True or False", value)
    return bool(value)


def one_of(name: str, value: Any, names: Collection[str]) -> str:
    """Return one of some names."""
    return _named(name, value, names, "one of")


def optional_one_of(name: str, value: Any, names: Collection[str]) -> str | None:
    """Return one of some names, or None."""
    return None if value is None else _named(name, value, names, "None or one of")


def optional_callable(name: str, value: Any) -> Any:
    """Return a callable, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a callable or None, got {type(value).__name__}.")
    return value


def generator(rng: Any) -> np.random.Generator:
    """Return a generator: itself, or a new one from a seed (None: from the system)."""
    if isinstance(rng, np.random.Generator):
        return rng
    wanted = "a seed (a whole number ≥ 0) or a numpy.random.Generator"
    return np.random.default_rng(None if rng is None else _whole("rng", rng, 0, wanted))


def reals(name: str, value: Any, wanted: str) -> Array:
    """Return real numbers as a fresh array of any shape; they may be infinite or NaN."""
    try:
        given = np.asarray(value)
        if np.ma.is_masked(value) or not _all_real(given):
            raise TypeError
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(TypeError, name, wanted, value) from None


def point(name: str, value: Any) -> Array:
    """Return a fresh finite vector; a number is a vector with one entry."""
    x = np.atleast_1d(reals(name, value, "a vector of real numbers"))
    if x.ndim != 1 or x.size == 0:
        raise ValueError(f"{name} must be a vector with at least one entry, got shape {x.shape}.")
    if not np.isfinite(x).all():
        raise ValueError(f"{name} must be finite in every coordinate, got {shown(value)}.")
    return x


def optional_scales(name: str, value: Any, d: int) -> Array | None:
    """Return d positive numbers that have inverses, from d of them or one for all, or None."""
    if value is None:
        return None
    wanted = f"a positive number or {d} of them"
    scales = reals(name, value, wanted)
    if scales.shape not in ((), (d,)) or not (np.isfinite(scales) & (scales > 0)).all():
        raise _wrong(ValueError, name, wanted, value)
    smallest = np.finfo(np.float64).tiny
    if scales.min() < smallest:
        raise ValueError(f"{name} must be at least {smallest:.3g}, below which 1/{name} overflows, got {shown(value)}.")
    return np.broadcast_to(scales, (d,)).copy()


def interval(name: str, value: Any, wanted: str) -> tuple[float, float]:
    """Return two numbers of which the first is smaller."""
    try:
        low, high = value
        ends = number(name, low), number(name, high)
    except (TypeError, ValueError):
        raise _wrong(TypeError, name, wanted, value) from None
    if not ends[0] < ends[1]:
        raise _wrong(ValueError, name, wanted, value)
    return ends


def exceptions(name: str, value: Any) -> tuple[type[Exception], ...]:
    """Return types of exceptions, from one of them or several."""
    several = isinstance(value, Iterable) and not isinstance(value, type)
    kinds = tuple(value) if several else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise TypeError(f"{name} must be exception types, such as {name}=(ValueError, ArithmeticError).")
    return kinds


def shown(value: Any) -> str:
    """Return what was given, in one line that is not too long."""
    return " ".join(repr(value).split())[:80]


def _wrong(kind: type[Exception], name: str, wanted: str, value: Any) -> Exception:
    return kind(f"{name} must be {wanted}, got {shown(value)}.")


def _unpacked(value: Any) -> Any:
    """Return the number in an array without axes; anything else, masked arrays too, as it is."""
    return value[()] if type(value) is np.ndarray and value.ndim == 0 else value


def _whole(name: str, value: Any, least: int, wanted: str) -> int:
    value = _unpacked(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _wrong(TypeError, name, wanted, value)
    if value < least:
        raise _wrong(ValueError, name, wanted, value)
    return int(value)


def _named(name: str, value: Any, names: Collection[str], wanted: str) -> str:
    if isinstance(value, str) and value in names:
        return value
    kind = ValueError if isinstance(value, str) else TypeError
    raise kind(f"{name} must be {wanted} {', '.join(names)}; got {shown(value)}.")


def _all_real(given: npt.NDArray[Any]) -> bool:
    if given.dtype.kind == "O":
        return all(isinstance(entry, Real) and not isinstance(entry, bool) for entry in given.flat)
    return given.dtype.kind in "iuf"


def takes(fun: Callable[..., Any], count: int) -> bool:
    """Whether a callable can be called with so many arguments; true of one that does not tell."""
    try:
        known = inspect.signature(fun, follow_wrapped=False)
    except (TypeError, ValueError):  # some that are not written in Python
        return True
    try:
        known.bind(*[None] * count)
    except TypeError:
        return False
    return True


def signature(fun: Callable[..., Any]) -> str:
    """Return a callable as one would write it, with its parameters.

    Examples
    --------
    >>> def cost(order, seed): ...
    >>> signature(cost)
    'cost(order, seed)'
    """
    name = getattr(fun, "__name__", type(fun).__name__)
    parameters = ", ".join(
        str(one.replace(annotation=one.empty))
        for one in inspect.signature(fun, follow_wrapped=False).parameters.values()
    )
    return f"{name}({parameters})"


def raise_if_retired(module: str, name: str, retired: dict[str, str]) -> None:
    """Say what a retired name of a module is called now; any other is an AttributeError."""
    if name in retired:
        raise ImportError(f"{module}.{name} is now called {retired[name]}.", name=module)
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
