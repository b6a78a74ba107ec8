"""What counting needs to know of values: how many, how large, and how precise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

DOUBLE = 2.0**-53  # unit rounding error of float64
SINGLE = 2.0**-24  # and of float32
HALF = 2.0**-11  # and of float16
SHORT_BITS = 12  # a value of so few significant bits is no evidence of any precision

Array = npt.NDArray[np.float64]


@dataclass(slots=True)
class Tally:
    """What counting needs to know of some values."""

    asked: int = 0
    finite: int = 0
    total: float = 0.0  # of the finite ones, as the next two
    magnitude: float = 0.0  # sum of the absolute values
    lowest: float = np.inf
    single: int = 0  # values that tell their precision: those that fit into float32,
    double: int = 0  # and those that do not
    roundoff: float = DOUBLE  # relative rounding error of the type in which they came
    half: int = 0  # values so short that they may be of half precision, and not whole; 0 if any is longer

    @classmethod
    def of(cls, values: Array, roundoff: float = DOUBLE, *, precise: bool = False) -> Tally:
        """Return the tally of values; `precise`: their precision is known already, so that nothing need be measured."""
        numbers = np.isfinite(values)
        finite = values if numbers.all() else values[numbers]
        if not finite.size:
            return cls(len(values), roundoff=roundoff)
        single, double, half = (0, 0, 0)
        if not precise:
            single, double = evidence(finite)
            if not single and not double:
                half = int(np.count_nonzero(finite != np.floor(finite)))
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(finite.sum())
            magnitude = float(np.abs(finite).sum())
        return cls(len(values), finite.size, total, magnitude, float(finite.min()), single, double, roundoff, half)


def evidence(values: Array) -> tuple[int, int]:
    """Return how many values can only be of single precision, and how many must be of double precision.

    A value that survives the way to float32 and back says that it is single, unless it is a whole number or has so few
    significant bits that it says nothing.
    """
    with np.errstate(over="ignore", under="ignore"):
        long = values.astype(np.float32) != values
    double = int(np.count_nonzero(long))
    short = values[~long]
    mantissa = np.frexp(short)[0] * 2.0**SHORT_BITS
    telling = (mantissa != np.floor(mantissa)) & (short != np.floor(short))
    return int(np.count_nonzero(telling)), double
