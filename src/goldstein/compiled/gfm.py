"""Algorithm 1 in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.pieces import add, average, draw, norm, pair, pick, step_size
from goldstein.norms import HUGE


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
            add(target, late, w)
            late = 0.0
            average(mean, count + t + 1, x)
        if n > 0:
            for k in range(b):  # Alg. 1, line 2
                indices[k] = pick(rng, n)
        used, total, c = 0, 0.0, 0.0
        for k in range(b):
            inverse = draw(rng, w, late, target)
            late = 0.0
            plus, minus, finite = pair(F, args, indices[k], x, w, delta * inverse, above, below, tally)
            c = d / (2 * delta) * (plus - minus)  # Definition 6
            if finite and abs(c) < HUGE:
                tally.sum_sq_norm += c * c
                total += plus + minus
                late = c * inverse
                used += 1
        if used:
            tally.n_estimates += used
            tally.value = total / (2 * used)
            if b == 1:
                late *= -step_size(etas[t], c * c, tally)  # Alg. 1, line 3, done when the next direction is drawn
                tally.grad_norm = abs(c)
            else:
                add(g, late, w)
                late = 0.0
                if t == etas.size - 1 or tally.calibrated:
                    tally.grad_norm = norm(g) / used
                step = step_size(etas[t], tally.grad_norm**2, tally) / used
                for j in range(d):
                    x[j] -= step * g[j]  # Alg. 1, line 3
                    g[j] = 0.0
    add(target, late, w)
