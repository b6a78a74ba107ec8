"""The loops of the methods in machine code; `goldstein.compiled` decides when they run.

Each kernel does whole iterations of its algorithm on the arrays of a method's state. It draws in the order of the
plain path (all b indices, then b × d normals), so both paths see the same random numbers. F is a first-class
function, so that one compiled kernel serves every F of the same signature and is found on disk by the next process.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload
from numba.np.random.random_methods import buffered_bounded_lemire_uint32

# What a kernel tells about the values it saw; the order of a tally.
FINE, TOTAL, LOWEST, MAGNITUDE, FAILED, POWER, DIRECTIONS, VALUE, NORM, CHANGE, LEVEL, CORRECTIONS = range(12)
TALLY = 12
# What the rule `Calibrated` measures, if the tally has room for it: running mean of ‖v‖², its span, and the step.
SQUARE, SQUARES_SUM, SQUARES_SEEN, SPAN, ETA = range(TALLY, TALLY + 5)


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
def _pick(rng, n):
    """rng.integers(0, n), the same number, without the array that numba makes for it."""
    if 1 < n < 0xFFFFFFFF:
        return np.int64(buffered_bounded_lemire_uint32(rng.bit_generator, n - 1))
    return rng.integers(0, n)


@njit(inline="always")
def _draw(rng, w, late, target):
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


def _pair(F, args, i, x, w, radius, above, below, tally):
    """Return F(x + radius·w; i), F(x − radius·w; i) and whether both are finite; `above` and `below` are the query."""
    raise NotImplementedError


# No reference counts in here: they would be a fifth of the time.
@overload(_pair, jit_options={"_nrt": False, "error_model": "numpy"})
def _pair_overload(F, args, i, x, w, radius, above, below, tally):
    def pair(F, args, i, x, w, radius, above, below, tally):
        for j in range(x.size):
            above[j] = x[j] + radius * w[j]
            below[j] = x[j] - radius * w[j]
        plus = _call(F, above, i, args)
        minus = _call(F, below, i, args)
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

    return pair


@njit(inline="always")
def _add(target, late, w):
    for j in range(w.size):
        target[j] += late * w[j]


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


@njit(inline="always")
def _size(eta, squared, tally):
    """Return the step: eta, and with `Calibrated` eta over the root of the mean of ‖v‖² so far."""
    if tally.size == TALLY:
        return eta
    tally[SQUARES_SEEN] += 1
    tally[SQUARES_SUM] += squared
    tally[SQUARE] += (squared - tally[SQUARE]) / min(tally[SPAN], tally[SQUARES_SEEN])
    scale = max(tally[SQUARE], 0.01 * tally[SQUARES_SUM] / tally[SQUARES_SEEN])
    tally[ETA] = eta / np.sqrt(scale) if scale > 0 else 0.0
    return tally[ETA]


@njit(cache=True, nogil=True, error_model="numpy")
def gfm(F, args, rng, n, x, mean, count, etas, b, delta, tally):
    """Algorithm 1 for `len(etas)` iterations with batches of b; changes x, mean and tally in place."""
    d = x.size
    w, above, below, g = np.zeros(d), np.empty(d), np.empty(d), np.zeros(d if b > 1 else 0)  # w: 0 · NaN is no 0
    target = x if b == 1 else g  # a batch of one has nothing to add up: x goes along the direction itself
    late = 0.0  # what of w the target still lacks
    indices = np.zeros(b, np.int64)
    for t in range(etas.size):
        if mean.size:
            _add(target, late, w)
            late = 0.0
            _average(mean, count + t + 1, x)
        if n > 0:
            for k in range(b):  # Alg. 1, line 2
                indices[k] = _pick(rng, n)
        used, total, c = 0, 0.0, 0.0
        for k in range(b):
            inverse = _draw(rng, w, late, target)
            late = 0.0
            plus, minus, fine = _pair(F, args, indices[k], x, w, delta * inverse, above, below, tally)
            if fine:
                c = d / (2 * delta) * (plus - minus)  # Definition 6
                tally[POWER] += c * c
                total += plus + minus
                late = c * inverse
                used += 1
        if used:
            tally[DIRECTIONS] += used
            tally[VALUE] = total / (2 * used)
            if b == 1:
                late *= -_size(etas[t], c * c, tally)  # Alg. 1, line 3, done when the next direction is drawn
                tally[NORM] = abs(c)
            else:
                _add(g, late, w)
                late = 0.0
                if t == etas.size - 1 or tally.size > TALLY:
                    tally[NORM] = _norm(g) / used
                step = _size(etas[t], tally[NORM] ** 2, tally) / used
                for j in range(d):
                    x[j] -= step * g[j]  # Alg. 1, line 3
                    g[j] = 0.0
    _add(target, late, w)


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
    w, above, below, g = np.empty(d), np.empty(d), np.empty(d), np.zeros(d)
    indices = np.zeros(max(b, large), np.int64)
    for t in range(etas.size):
        _average(mean, count + t + 1, x)
        restart = age == 0  # Alg. 2, line 3
        size = large if restart else b
        if n > 0:
            for k in range(size):  # Alg. 2, lines 4 and 7
                indices[k] = _pick(rng, n)
        used, total, power, change = 0, 0.0, 0.0, 0.0
        late = 0.0  # what of w the sum g still lacks
        for k in range(size):
            inverse = _draw(rng, w, late, g)
            late = 0.0
            radius = delta * inverse
            plus, minus, fine = _pair(F, args, indices[k], x, w, radius, above, below, tally)
            c, before, here = d / (2 * delta) * (plus - minus), 0.0, plus + minus
            if not restart:
                plus, minus, also = _pair(F, args, indices[k], x_prev, w, radius, above, below, tally)
                fine &= also  # a failure at x_{t−1} alone removes the whole term
                before = d / (2 * delta) * (plus - minus)
            if fine:
                total += here
                power += c * c
                change += (c - before) ** 2
                late = (c - before) * inverse
                used += 1
        if used:
            _add(g, late, w)
            tally[POWER] += power
            tally[DIRECTIONS] += used
            tally[VALUE] = total / (2 * used)
            share, squared = 1.0 / used, 0.0
            if tally.size > TALLY:
                for j in range(d):
                    squared += (share * g[j] + (0.0 if restart else v[j])) ** 2
            eta = _size(etas[t], squared, tally)
            if restart:
                for j in range(d):
                    v[j] = share * g[j]  # Alg. 2, line 5
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
                    g[j] = 0.0
            else:
                tally[CHANGE] += change
                tally[LEVEL] += power
                tally[CORRECTIONS] += used
                for j in range(d):
                    v[j] += share * g[j]  # Alg. 2, line 8
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
                    g[j] = 0.0
            age = (age + 1) % m
    tally[NORM] = _norm(v)
    return age


# What the segment of `Auto` carries along; the order of its memory.
RADIUS, WALK, MEAN, SUM, COUNT, STEP = range(6)
MEMORY = 6


@njit(cache=True, nogil=True, error_model="numpy")
def auto(F, args, rng, n, x, origin, memory, first, last, pairs, floor, smooth, decay, grow, huge, tally):
    """Steps `first` to `last` of a segment of `Auto`; changes x, memory and tally in place."""
    d = x.size
    w, above, below = np.empty(d), np.empty(d), np.empty(d)
    remember = max(50.0, 0.05 * pairs)
    for t in range(first, last):
        delta = max(smooth * memory[RADIUS], floor)
        i = _pick(rng, n) if n > 0 else 0
        inverse = _draw(rng, w, 0.0, x)
        plus, minus, fine = _pair(F, args, i, x, w, delta * inverse, above, below, tally)
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
        left = max(0.0, 1.0 - t / pairs) ** decay
        eta = 2 * memory[RADIUS] * left / np.sqrt(pairs * scale) if scale > 0 else 0.0
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


# What `zo_o2nc` carries along besides arrays; the order of its memory.
DONE, SQUARES, BLOCK_NORM, PLAYED = range(4)


@njit(cache=True, nogil=True, error_model="numpy")
def zo_o2nc(
    F, args, rng, n, steps, b, rho, radius, length, eta, x, position, displacement, points, gradients, memory, tally
):
    """Do `steps` iterations of ZO-O2NC; change the arrays, the memory and the tally in place.

    It draws in the order of the plain path: the place on the segment, then all b indices, then b × d normals.
    """
    d = x.size
    w, above, below, g, z, reached = np.empty(d), np.empty(d), np.empty(d), np.zeros(d), np.empty(d), np.empty(d)
    indices = np.zeros(b, np.int64)
    for _ in range(steps):
        place = rng.random()
        for j in range(d):
            reached[j] = position[j] + displacement[j]
            z[j] = position[j] + place * (reached[j] - position[j])
        if n > 0:
            for i in range(b):
                indices[i] = _pick(rng, n)
        used, total, late = 0, 0.0, 0.0
        for i in range(b):
            inverse = _draw(rng, w, late, g)
            late = 0.0
            plus, minus, fine = _pair(F, args, indices[i], z, w, rho * inverse, above, below, tally)
            if fine:
                c = d / (2 * rho) * (plus - minus)  # Definition 6
                tally[POWER] += c * c
                used += 1
                total += plus + minus
                late = c * inverse
        if used == 0:
            continue
        tally[DIRECTIONS] += used
        tally[VALUE] = total / (2 * used)
        squared = 0.0
        for j in range(d):
            g[j] = (g[j] + late * w[j]) / used
            position[j] = reached[j]
            squared += g[j] * g[j]
        memory[SQUARES] += squared
        step = eta
        if eta < 0:  # AdaGrad-norm
            step = np.sqrt(2.0) * radius / np.sqrt(memory[SQUARES]) if memory[SQUARES] > 0 else 0.0
        for j in range(d):
            displacement[j] -= step * g[j]
            points[j] += z[j]
            gradients[j] += g[j]
            g[j] = 0.0
        play = _norm(displacement)
        if play > radius:
            displacement *= radius / play
        memory[DONE] += 1
        memory[PLAYED], tally[NORM] = step, np.sqrt(squared)
        if memory[DONE] == length:  # restart the learner; the mean of the block's points is the answer so far
            memory[BLOCK_NORM] = _norm(gradients) / length
            for j in range(d):
                x[j] = points[j] / length
                displacement[j] = points[j] = gradients[j] = 0.0
            memory[DONE] = memory[SQUARES] = 0.0
