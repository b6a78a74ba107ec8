"""Algorithm 2 in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.pieces import add, average, draw, norm, pair, pick, step_size
from goldstein.norms import HUGE


@njit(cache=True, nogil=True, error_model="numpy")
def gfm_plus(F, args, rng, n, x, mean, count, etas, b, delta, tally, large, m, age, v, x_prev):
    """Algorithm 2 for `len(etas)` iterations; changes x, x_prev, v, mean and tally in place.

    Returns the age and how many iterations were done: it stops after one that failed altogether, since the next ones
    then cost other than planned.
    """
    d = x.size
    w, above, below, g = np.empty(d), np.empty(d), np.empty(d), np.zeros(d)
    indices = np.zeros(max(b, large), np.int64)
    done = 0
    for t in range(etas.size):
        done = t + 1
        average(mean, count + t + 1, x)
        restart = age == 0  # Alg. 2, line 3
        size = large if restart else b
        if n > 0:
            for k in range(size):  # Alg. 2, lines 4 and 7
                indices[k] = pick(rng, n)
        used, total, power, change = 0, 0.0, 0.0, 0.0
        late = 0.0  # what of w the sum g still lacks
        for k in range(size):
            inverse = draw(rng, w, late, g)
            late = 0.0
            radius = delta * inverse
            plus, minus, finite = pair(F, args, indices[k], x, w, radius, above, below, tally)
            c, before, here = d / (2 * delta) * (plus - minus), 0.0, plus + minus
            if not restart:
                plus, minus, also = pair(F, args, indices[k], x_prev, w, radius, above, below, tally)
                finite &= also  # a failure at x_{t−1} alone removes the whole term
                before = d / (2 * delta) * (plus - minus)
            if finite and abs(c) < HUGE and abs(before) < HUGE:
                total += here
                power += c * c
                change += (c - before) ** 2
                late = (c - before) * inverse
                used += 1
        if used:
            add(g, late, w)
            tally.sum_sq_norm += power
            tally.n_estimates += used
            tally.value = total / (2 * used)
            share, squared = 1.0 / used, 0.0
            if tally.calibrated:
                for j in range(d):
                    squared += (share * g[j] + (0.0 if restart else v[j])) ** 2
            eta = step_size(etas[t], squared, tally)
            if restart:
                for j in range(d):
                    v[j] = share * g[j]  # Alg. 2, line 5
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
                    g[j] = 0.0
            else:
                tally.change += change
                tally.level += power
                tally.corrections += used
                for j in range(d):
                    v[j] += share * g[j]  # Alg. 2, line 8
                    x_prev[j] = x[j]
                    x[j] -= eta * v[j]  # Alg. 2, line 10
                    g[j] = 0.0
            age = (age + 1) % m
        else:
            break
    tally.grad_norm = norm(v)
    return age, done
