"""The loops of the methods in machine code; `goldstein.compiled` decides when they run.

Each kernel does whole iterations of its algorithm on the arrays of a method's state. It draws in the order of the
plain path (all b indices, then b × d normals), so both paths see the same random numbers. F is a first-class
function, so that one compiled kernel serves every F of the same signature and is found on disk by the next process.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

# What a kernel tells about the values it saw; the order of a tally.
FINE, TOTAL, LOWEST, MAGNITUDE, FAILED, POWER, DIRECTIONS, VALUE, NORM, CHANGE, LEVEL, CORRECTIONS = range(12)
TALLY = 12


def _call(F, q, i, args):
    """F(q, i, *args) for a finite sum, F(q, *args) for a deterministic function."""
    raise NotImplementedError


@overload(_call, inline="always")
def _call_overload(F, q, i, args):
    if isinstance(F, types.FunctionType) and len(F.signature.args) == len(args) + 1:
        return lambda F, q, i, args: F(q, *args)
    return lambda F, q, i, args: F(q, i, *args)


@njit(inline="always")
def _see(tally, value):
    """Count a value; return whether it is finite."""
    if not np.isfinite(value):
        tally[FAILED] += 1
        return False
    tally[FINE] += 1
    tally[TOTAL] += value
    tally[MAGNITUDE] += abs(value)
    tally[LOWEST] = min(tally[LOWEST], value)
    return True


@njit(inline="always")
def _draw(rng, w):
    """Fill w with normals and return 1/‖w‖."""
    squared = 0.0
    for j in range(w.size):
        z = rng.standard_normal()
        w[j] = z
        squared += z * z
    return 1.0 / np.sqrt(squared)


@njit(inline="always")
def _pair(F, args, i, x, w, radius, q, tally):
    """Return F(x + radius·w; i), F(x − radius·w; i) and whether both are finite."""
    for j in range(x.size):
        q[j] = x[j] + radius * w[j]
    plus = _call(F, q, i, args)
    for j in range(x.size):
        q[j] = x[j] - radius * w[j]
    minus = _call(F, q, i, args)
    if np.isfinite(plus) and np.isfinite(minus):
        tally[FINE] += 2
        tally[TOTAL] += plus + minus
        tally[MAGNITUDE] += abs(plus) + abs(minus)
        if plus < tally[LOWEST] or minus < tally[LOWEST]:
            tally[LOWEST] = min(plus, minus)
        return plus, minus, True
    _see(tally, plus)
    _see(tally, minus)
    return plus, minus, False


@njit(inline="always")
def _add(g, c, w, first):
    """Set g ← c·w for the first direction of a batch, g ← g + c·w for the others."""
    if first:
        for j in range(w.size):
            g[j] = c * w[j]
    else:
        for j in range(w.size):
            g[j] += c * w[j]


@njit(inline="always")
def _average(mean, count, x):
    """Take x into the running mean, if one is kept."""
    if mean.size:
        for j in range(x.size):
            mean[j] += (x[j] - mean[j]) / count


@njit(inline="always")
def _norm(v):
    squared = 0.0
    for j in range(v.size):
        squared += v[j] * v[j]
    return np.sqrt(squared)


@njit(cache=True, nogil=True, error_model="numpy")
def gfm(F, args, rng, n, x, mean, count, etas, b, delta, tally):
    """Algorithm 1 for `len(etas)` iterations with batches of b; changes x, mean and tally in place."""
    d = x.size
    w, q, own = np.empty(d), np.empty(d), np.empty(d if b > 1 else 0)
    g, scale = own, 0.0
    indices = np.zeros(b, np.int64)
    for t in range(etas.size):
        _average(mean, count + t + 1, x)
        if n > 0:
            for k in range(b):  # Alg. 1, line 2
                indices[k] = rng.integers(0, n)
        used, total = 0, 0.0
        for k in range(b):
            inverse = _draw(rng, w)
            plus, minus, fine = _pair(F, args, indices[k], x, w, delta * inverse, q, tally)
            if fine:
                c = d / (2 * delta) * (plus - minus)  # Definition 6
                tally[POWER] += c * c
                total += plus + minus
                if b == 1:
                    g = w  # nothing to add up: go along the direction itself
                    scale = c * inverse
                else:
                    _add(own, c * inverse, w, used == 0)
                used += 1
        if used:
            tally[DIRECTIONS] += used
            tally[VALUE] = total / (2 * used)
            scale = scale if b == 1 else 1.0 / used
            step = etas[t] * scale
            for j in range(d):
                x[j] -= step * g[j]  # Alg. 1, line 3
            if t == etas.size - 1:
                tally[NORM] = abs(scale) * _norm(g)


@njit(cache=True, nogil=True, error_model="numpy")
def gfm_plus(
    F,
    args,
    rng,
    n,
    x,
    mean,
    count,
    etas,
    b,
    delta,
    tally,
    large,
    m,
    age,
    v,
    x_prev,
):
    """Algorithm 2 for `len(etas)` iterations; changes x, x_prev, v, mean and tally in place and returns the age."""
    d = x.size
    w, q, g = np.empty(d), np.empty(d), np.empty(d)
    indices = np.zeros(max(b, large), np.int64)
    for t in range(etas.size):
        _average(mean, count + t + 1, x)
        restart = age == 0  # Alg. 2, line 3
        size = large if restart else b
        if n > 0:
            for k in range(size):  # Alg. 2, lines 4 and 7
                indices[k] = rng.integers(0, n)
        used, total, power, change = 0, 0.0, 0.0, 0.0
        for k in range(size):
            inverse = _draw(rng, w)
            radius = delta * inverse
            plus, minus, fine = _pair(F, args, indices[k], x, w, radius, q, tally)
            c, before = d / (2 * delta) * (plus - minus), 0.0
            if not restart:
                plus_before, minus_before, fine_before = _pair(F, args, indices[k], x_prev, w, radius, q, tally)
                fine &= fine_before  # a failure at x_{t−1} alone removes the whole term
                before = d / (2 * delta) * (plus_before - minus_before)
            if fine:
                total += plus + minus
                power += c * c
                change += (c - before) ** 2
                _add(g, (c - before) * inverse, w, used == 0)
                used += 1
        if used:
            tally[POWER] += power
            tally[DIRECTIONS] += used
            tally[VALUE] = total / (2 * used)
            share, eta = 1.0 / used, etas[t]
            if restart:
                for j in range(d):
                    v[j] = share * g[j]  # Alg. 2, line 5
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
            else:
                tally[CHANGE] += change
                tally[LEVEL] += power
                tally[CORRECTIONS] += used
                for j in range(d):
                    v[j] += share * g[j]  # Alg. 2, line 8
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
            age = (age + 1) % m
    tally[NORM] = _norm(v)
    return age


# What the segment of `Auto` carries along; the order of its memory.
RADIUS, WALK, MEAN, SUM, COUNT, STEP = range(6)
MEMORY = 6


@njit(cache=True, nogil=True, error_model="numpy")
def auto(F, args, rng, n, x, origin, memory, first, last, pairs, floor, smooth, grow, huge, tally):
    """Steps `first` to `last` of a segment of `Auto`; changes x, memory and tally in place."""
    d = x.size
    w, q = np.empty(d), np.empty(d)
    remember = max(50.0, 0.05 * pairs)
    for t in range(first, last):
        delta = max(smooth * memory[RADIUS], floor)
        i = rng.integers(0, n) if n > 0 else 0
        inverse = _draw(rng, w)
        plus, minus, fine = _pair(F, args, i, x, w, delta * inverse, q, tally)
        c = d / (2 * delta) * (plus - minus)  # Definition 6
        if not fine or not abs(c) < huge:
            continue
        tally[POWER] += c * c
        tally[DIRECTIONS] += 1
        tally[VALUE] = (plus + minus) / 2
        tally[NORM] = abs(c)
        memory[COUNT] += 1
        memory[SUM] += c * c
        memory[MEAN] += (c * c - memory[MEAN]) / min(remember, memory[COUNT])
        scale = max(memory[MEAN], 0.01 * memory[SUM] / memory[COUNT])
        eta = 2 * memory[RADIUS] * max(0.0, 1.0 - t / pairs) / np.sqrt(pairs * scale) if scale > 0 else 0.0
        memory[STEP] = eta
        step = eta * c * inverse
        away = 0.0
        for j in range(d):
            x[j] -= step * w[j]  # Alg. 1, line 3
            away += (x[j] - origin[j]) ** 2
        if grow > 0:
            memory[WALK] += (eta * c) ** 2
            net = away - memory[WALK]
            if net > (grow * memory[RADIUS]) ** 2:
                memory[RADIUS] = min(np.sqrt(net) / grow, 2 * memory[RADIUS])
