"""What the loops share: values that are counted, directions, averages, and calibrated steps.

Loops that are kept on disk do not notice a change in here: after one, remove the caches (`make clean`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import overload
from numba.np.random.random_methods import buffered_bounded_lemire_uint32

from goldstein.oracle.stats import SHORT_BITS


def call(F, q, i, args):
    """F(q, i, *args) for a finite sum, F(q, *args) for a deterministic function."""
    raise NotImplementedError


@overload(call, inline="always")
def _call(F, q, i, args):
    if isinstance(F, types.FunctionType) and len(F.signature.args) == len(args) + 1:
        return lambda F, q, i, args: F(q, *args)
    return lambda F, q, i, args: F(q, i, *args)


@njit
def gauge(tally, value):
    """Take note whether a value fits into float32, and whether that tells anything; see `oracle.stats.evidence`."""
    if np.float64(np.float32(value)) != value:
        tally.double += 1
    elif value != np.floor(value):
        mantissa = math.frexp(value)[0] * 2.0**SHORT_BITS
        if mantissa != np.floor(mantissa):
            tally.single += 1


@njit(inline="always")
def count_value(tally, value):
    """Count a value; return whether it is finite."""
    if not np.isfinite(value):
        tally.failed += 1
        return False
    tally.finite += 1
    tally.total += value
    tally.magnitude += abs(value)
    tally.lowest = min(tally.lowest, value)
    if tally.double == 0:
        gauge(tally, value)
    return True


@njit(inline="always")
def pick(rng, n):
    """rng.integers(0, n), the same number, without the array that numba makes for it."""
    if 1 < n < 0xFFFFFFFF:
        return np.int64(buffered_bounded_lemire_uint32(rng.bit_generator, n - 1))
    return rng.integers(0, n)


@njit(inline="always")
def draw(rng, w, late, target):
    """Add late·w to `target`, fill w with normals and return 1/‖w‖: one pass, so that memory is fetched meanwhile."""
    squared = 0.0
    if late == 0.0:
        for j in range(w.size):
            z = rng.standard_normal()
            w[j] = z
            squared += z * z
    else:
        for j in range(w.size):
            target[j] += late * w[j]
            z = rng.standard_normal()
            w[j] = z
            squared += z * z
    return 1.0 / np.sqrt(squared)


def pair(F, args, i, x, w, radius, above, below, tally):
    """Return F(x + radius·w; i), F(x − radius·w; i) and whether both are finite; `above` and `below` are the query."""
    raise NotImplementedError


# No reference counts in here: they would be a fifth of the time.
@overload(pair, jit_options={"_nrt": False, "error_model": "numpy"})
def _pair(F, args, i, x, w, radius, above, below, tally):
    def both(F, args, i, x, w, radius, above, below, tally):
        for j in range(x.size):
            above[j] = x[j] + radius * w[j]
            below[j] = x[j] - radius * w[j]
        plus = call(F, above, i, args)
        minus = call(F, below, i, args)
        if np.isfinite(plus) and np.isfinite(minus):
            tally.finite += 2
            tally.total += plus + minus
            tally.magnitude += abs(plus) + abs(minus)
            if plus < tally.lowest or minus < tally.lowest:
                tally.lowest = min(plus, minus)
            if tally.double == 0:
                gauge(tally, plus)
                gauge(tally, minus)
            return plus, minus, True
        count_value(tally, plus)
        count_value(tally, minus)
        return plus, minus, False

    return both


@njit(inline="always")
def add(target, late, w):
    """Add late·w to `target`."""
    for j in range(w.size):
        target[j] += late * w[j]


@njit(inline="always")
def average(mean, count, x):
    """Take x into the running mean, if one is kept."""
    if mean.size:
        for j in range(x.size):
            mean[j] += (x[j] - mean[j]) / count


@njit(inline="always")
def norm(v):
    """Return ‖v‖."""
    squared = 0.0
    for j in range(v.size):
        squared += v[j] * v[j]
    return np.sqrt(squared)


@njit(inline="always")
def step_size(eta, squared, tally):
    """Return the step: eta, and with `Calibrated` eta over the root of the mean of ‖v‖² so far."""
    if not tally.calibrated:
        return eta
    tally.count += 1
    tally.sum += squared
    tally.mean += (squared - tally.mean) / min(tally.span, tally.count)
    scale = max(tally.mean, 0.01 * tally.sum / tally.count)
    tally.eta = eta / np.sqrt(scale) if scale > 0 else 0.0
    return tally.eta
