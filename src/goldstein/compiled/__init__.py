"""The loops of the methods in machine code, one file an algorithm (extra: compiled).

Each does whole iterations of its algorithm on the arrays of a method's state. It draws in the order of the plain path
(all b indices, then b × d normals), so both paths see the same random numbers. F is a first-class function, so that one
compiled loop serves every F of the same signature and is found on disk by the next process.
"""

from __future__ import annotations

import sys
from typing import Any


def is_jitted(fun: Any) -> bool:
    """Whether numba has compiled `fun`, without importing numba."""
    if "numba" not in sys.modules:
        return False
    from numba.core.dispatcher import Dispatcher

    return isinstance(fun, Dispatcher)
