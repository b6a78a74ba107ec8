"""The settings of methods are checked here, each in one sentence: what was given, and what was expected."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any


def check_number(
    name: str, value: Any, wanted: str = "a positive number", *, high: float = inf, zero: bool = False
) -> None:
    """Refuse what is not a number between 0 and `high`, neither of them included; 0 is, if `zero`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be {wanted}, got {value!r:.80}.")
    if not (0 < float(value) < high or (zero and value == 0)):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")


def check_count(name: str, value: Any) -> None:
    """Refuse what is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r:.80}.")


def check_optional(name: str, value: Any) -> None:
    """Refuse what is neither a positive number nor None."""
    if value is not None:
        check_number(name, value, "a positive number or None")
