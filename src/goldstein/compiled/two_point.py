"""The segments of `TwoPoint` in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.pieces import draw, pair, pick


@njit(cache=True, nogil=True, error_model="numpy")
def two_point(F, args, rng, n, x, origin, state, first, last, pairs, floor, smooth, decay, grow, huge, tally):
    """Steps `first` to `last` of a segment of `TwoPoint`; changes x and the records in place."""
    d = x.size
    w, above, below = np.empty(d), np.empty(d), np.empty(d)
    remember = max(50.0, 0.05 * pairs)
    for t in range(first, last):
        delta = max(smooth * state.radius, floor)
        i = pick(rng, n) if n > 0 else 0
        inverse = draw(rng, w, 0.0, x)
        plus, minus, finite = pair(F, args, i, x, w, delta * inverse, above, below, tally)
        c = d / (2 * delta) * (plus - minus)  # Definition 6
        if not finite or not abs(c) < huge:
            continue
        tally.sum_sq_norm += c * c
        tally.n_estimates += 1
        tally.value = (plus + minus) / 2
        tally.grad_norm = abs(c)
        state.count += 1
        state.total += c * c
        state.mean += (c * c - state.mean) / min(remember, state.count)
        scale = max(state.mean, 0.01 * state.total / state.count)
        rest = max(0.0, 1.0 - t / pairs) ** decay
        eta = 2 * state.radius * rest / np.sqrt(pairs * scale) if scale > 0 else 0.0
        state.step_size = eta
        step = eta * c * inverse
        away = 0.0
        for j in range(d):
            x[j] -= step * w[j]  # Alg. 1, line 3
            away += (x[j] - origin[j]) ** 2
        if grow > 0:
            state.walk += (eta * c) ** 2
            net = away - state.walk
            if net > (grow * state.radius) ** 2:
                state.radius = min(np.sqrt(net) / grow, 2 * state.radius)
