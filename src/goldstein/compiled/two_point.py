"""The segments of `TwoPoint` in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.pieces import draw, pair, pick
from goldstein.compiled.tally import DIRECTIONS, NORM, POWER, VALUE

# What the segment of `TwoPoint` carries along; the order of its memory.
RADIUS, WALK, MEAN, SUM, COUNT, STEP = range(6)


@njit(cache=True, nogil=True, error_model="numpy")
def two_point(F, args, rng, n, x, origin, memory, first, last, pairs, floor, smooth, decay, grow, huge, tally):
    """Steps `first` to `last` of a segment of `TwoPoint`; changes x, memory and tally in place."""
    d = x.size
    w, above, below = np.empty(d), np.empty(d), np.empty(d)
    remember = max(50.0, 0.05 * pairs)
    for t in range(first, last):
        delta = max(smooth * memory[RADIUS], floor)
        i = pick(rng, n) if n > 0 else 0
        inverse = draw(rng, w, 0.0, x)
        plus, minus, finite = pair(F, args, i, x, w, delta * inverse, above, below, tally)
        c = d / (2 * delta) * (plus - minus)  # Definition 6
        if not finite or not abs(c) < huge:
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
