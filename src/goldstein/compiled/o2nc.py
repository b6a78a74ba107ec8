"""ZO-O2NC in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.pieces import draw, norm, pair, pick
from goldstein.norms import HUGE


@njit(cache=True, nogil=True, error_model="numpy")
def zo_o2nc(
    F, args, rng, n, steps, b, rho, radius, length, eta, x, position, displacement, points, gradients, state, tally
):
    """Do `steps` iterations of ZO-O2NC; change the arrays and the records in place.

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
                indices[i] = pick(rng, n)
        used, total, late = 0, 0.0, 0.0
        for i in range(b):
            inverse = draw(rng, w, late, g)
            late = 0.0
            plus, minus, finite = pair(F, args, indices[i], z, w, rho * inverse, above, below, tally)
            c = d / (2 * rho) * (plus - minus)  # Definition 6
            if finite and abs(c) < HUGE:
                tally.sum_sq_norm += c * c
                used += 1
                total += plus + minus
                late = c * inverse
        if used == 0:
            continue
        tally.n_estimates += used
        tally.value = total / (2 * used)
        squared = 0.0
        for j in range(d):
            g[j] = (g[j] + late * w[j]) / used
            position[j] = reached[j]
            squared += g[j] * g[j]
        state.squares += squared
        step = eta
        if eta < 0:  # AdaGrad-norm
            step = np.sqrt(2.0) * radius / np.sqrt(state.squares) if state.squares > 0 else 0.0
        for j in range(d):
            displacement[j] -= step * g[j]
            points[j] += z[j]
            gradients[j] += g[j]
            g[j] = 0.0
        play = norm(displacement)
        if play > radius:
            displacement *= radius / play
        state.done += 1
        state.step_size = step
        tally.grad_norm = np.sqrt(squared)
        if state.done == length:  # restart the learner; the mean of the block's points is the answer so far
            state.block_norm = norm(gradients) / length
            for j in range(d):
                x[j] = points[j] / length
                displacement[j] = points[j] = gradients[j] = 0.0
            state.done = 0
            state.squares = 0.0
