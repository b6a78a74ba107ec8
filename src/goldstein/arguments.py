"""Every check of an argument, once.

A check returns the value in plain form (float, int, a fresh array), or raises an `ArgumentError`: a TypeError for the
wrong kind, a ValueError for the wrong size. Numbers of NumPy are numbers; bools, strings, complex and masked ones are
not.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable
from numbers import Integral, Real
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
P = ParamSpec("P")
T = TypeVar("T")


class ArgumentError(Exception):
    """An argument is wrong; it is also a ValueError (`WrongValueError`) or a TypeError (`WrongTypeError`).

    Examples
    --------
    >>> error = WrongValueError("max_evals", "a whole number of at least 1", "0")
    >>> str(error)
    'max_evals must be a whole number of at least 1, got 0.'
    >>> error.as_option("--max-evals")
    '--max-evals must be a whole number of at least 1, got 0.'
    """

    def __init__(self, name: str, expected: str, got: str | None = None, hint: str = "") -> None:
        super().__init__(name, expected, got, hint)
        self.name = name  # as it is called in Python
        self.expected = expected
        self.got = got  # None: left out of the sentence
        self.hint = hint  # what to do
        self.optional = False  # whether it may be None, too

    def __str__(self) -> str:
        return self._sentence(self.name, " or None" if self.optional else "")

    def as_option(self, option: str) -> str:
        """Return the sentence about an option of the command line, which is left out rather than None."""
        return self._sentence(option, "")

    def _sentence(self, name: str, alternative: str) -> str:
        got = "" if self.got is None else f", got {self.got}"
        hint = f": {self.hint}" if self.hint else ""
        return f"{name} must be {self.expected}{alternative}{got}{hint}."


class WrongValueError(ArgumentError, ValueError):
    """An argument of the right kind has a wrong value."""


class WrongTypeError(ArgumentError, TypeError):
    """An argument is of the wrong kind."""


def printable(text: str) -> str:
    r"""Return foreign text in one line, without control characters: messages of exceptions, headers of journals.

    Examples
    --------
    >>> printable("no\nway \x1b[31mred")
    'no way [31mred'
    """
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def keep(settings: Any, **values: Any) -> None:
    """Store checked values in a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(settings, name, value)


def check(settings: Any, function: Callable[..., Any], *names: str, **more: Any) -> None:
    """Check these fields of a frozen dataclass by a function of this module, and store what it returns."""
    keep(settings, **{name: function(name, getattr(settings, name), **more) for name in names})


def number(name: str, value: Any, expected: str = "a number", fits: Callable[[float], bool] = lambda x: True) -> float:
    """Return a number that is not NaN and that `fits`."""
    value = _unpacked(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise WrongTypeError(name, expected, shown(value))
    try:
        plain = float(value)
    except OverflowError:  # a whole number beyond floating point
        plain = math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if math.isnan(plain) or not fits(plain):
        raise WrongValueError(name, expected, shown(value))
    return plain


def positive(name: str, value: Any, expected: str = "a positive number") -> float:
    """Return a positive finite number."""
    return number(name, value, expected, lambda x: 0 < x < math.inf)


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return number(name, value, "a finite number of at least 0", lambda x: 0 <= x < math.inf)


def share(name: str, value: Any, expected: str = "a number between 0 and 1") -> float:
    """Return a number strictly between 0 and 1, such as a probability."""
    return number(name, value, expected, lambda x: 0 < x < 1)


def confidence(value: Any) -> float:
    """Return a confidence of at least 1/2 and below 1."""
    return number("confidence", value, "a number of at least 0.5 and below 1", lambda x: 0.5 <= x < 1)


def count(name: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`."""
    return _whole(name, value, least, f"a whole number of at least {least}")


def flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool | np.bool_):
        raise WrongTypeError(name, "True or False", shown(value))
    return bool(value)


def one_of(name: str, value: Any, names: Collection[str]) -> str:
    """Return one of some names."""
    if isinstance(value, str) and value in names:
        return value
    kind = WrongValueError if isinstance(value, str) else WrongTypeError
    raise kind(name, f"one of {', '.join(names)}", shown(value))


def function(name: str, value: Any) -> Any:
    """Return a callable."""
    if not callable(value):
        raise WrongTypeError(name, "a callable", type(value).__name__)
    return value


def generator(rng: Any) -> np.random.Generator:
    """Return a generator: itself, or a new one from a seed (None: from the system)."""
    if isinstance(rng, np.random.Generator):
        return rng
    expected = "a seed (a whole number ≥ 0) or a numpy.random.Generator"
    return np.random.default_rng(None if rng is None else _whole("rng", rng, 0, expected))


def reals(name: str, value: Any, expected: str) -> Array:
    """Return real numbers as a fresh array of any shape; they may be infinite or NaN."""
    try:
        entries = np.asarray(value)
        if np.ma.is_masked(value) or not _all_real(entries):
            raise TypeError
        return np.array(entries, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise WrongTypeError(name, expected, shown(value)) from None


def point(name: str, value: Any) -> Array:
    """Return a fresh finite vector; a number is a vector with one entry."""
    x = np.atleast_1d(reals(name, value, "a vector of real numbers"))
    if x.ndim != 1 or x.size == 0:
        raise WrongValueError(name, "a vector with at least one entry", f"shape {x.shape}")
    if not np.isfinite(x).all():
        raise WrongValueError(name, "finite in every coordinate", shown(value))
    return x


def scales(name: str, value: Any, d: int) -> Array:
    """Return d positive numbers that have inverses, from d of them or one for all."""
    expected = f"a positive number or {d} of them"
    sizes = reals(name, value, expected)
    if sizes.shape not in ((), (d,)) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise WrongValueError(name, expected, shown(value))
    smallest = np.finfo(np.float64).tiny
    if sizes.min() < smallest:
        raise WrongValueError(name, f"at least {smallest:.3g}, below which 1/{name} overflows", shown(value))
    return np.broadcast_to(sizes, (d,)).copy()


def interval(name: str, value: Any, expected: str) -> tuple[float, float]:
    """Return two numbers of which the first is smaller."""
    try:
        low, high = value
        ends = number(name, low), number(name, high)
    except (TypeError, ValueError):
        raise WrongTypeError(name, expected, shown(value)) from None
    if not ends[0] < ends[1]:
        raise WrongValueError(name, expected, shown(value))
    return ends


def exceptions(name: str, value: Any) -> tuple[type[Exception], ...]:
    """Return types of exceptions, from one of them or several."""
    several = isinstance(value, Iterable) and not isinstance(value, type)
    kinds = tuple(value) if several else (value,)
    if not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
        raise WrongTypeError(name, "exception types, such as (ValueError, ArithmeticError)")
    return kinds


def _optional(check: Callable[Concatenate[str, Any, P], T]) -> Callable[Concatenate[str, Any, P], T | None]:
    """Return the same check for an argument that may be None."""

    def checked(name: str, value: Any, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return None if value is None else check(name, value, *args, **kwargs)
        except ArgumentError as error:
            error.optional = True
            raise

    return checked


optional_callable = _optional(function)
optional_count = _optional(count)
optional_one_of = _optional(one_of)
optional_positive = _optional(positive)
optional_scales = _optional(scales)


def shown(value: Any) -> str:
    """Return a value in one line that is not too long."""
    return printable(repr(value)[:1000])[:80]


def _unpacked(value: Any) -> Any:
    """Return the number in an array without axes; anything else, masked arrays too, as it is."""
    return value[()] if type(value) is np.ndarray and value.ndim == 0 else value


def _whole(name: str, value: Any, least: int, expected: str) -> int:
    value = _unpacked(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise WrongTypeError(name, expected, shown(value))
    if value < least:
        raise WrongValueError(name, expected, shown(value))
    return int(value)


def _all_real(entries: npt.NDArray[Any]) -> bool:
    if entries.dtype.kind == "O":
        return all(isinstance(entry, Real) and not isinstance(entry, bool) for entry in entries.flat)
    return entries.dtype.kind in "iuf"


def takes(fun: Callable[..., Any], count: int) -> bool:
    """Whether a callable can be called with `count` arguments; true where its signature cannot be read."""
    try:
        parameters = inspect.signature(fun, follow_wrapped=False)
    except (TypeError, ValueError):  # some callables written in C
        return True
    try:
        parameters.bind(*[None] * count)
    except TypeError:
        return False
    return True


def signature(fun: Callable[..., Any]) -> str:
    """Return a callable as one would write it, with its parameters."""
    name = getattr(fun, "__name__", type(fun).__name__)
    parameters = ", ".join(
        str(one.replace(annotation=one.empty))
        for one in inspect.signature(fun, follow_wrapped=False).parameters.values()
    )
    return f"{name}({parameters})"
