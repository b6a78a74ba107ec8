"""Machine code of the SVM study (extra: compiled): ZO-O2NC, the convention of the public code, subgradient descent."""

# mypy: ignore-errors
# numba reads these functions, not the type checker

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.kernels import DIRECTIONS, NORM, POWER, VALUE, _draw, _norm, _pair

# What `zo_o2nc` carries along besides arrays; the order of its memory.
DONE, SQUARES, BLOCK_NORM, STEP = range(4)
MEMORY = 4


@njit(cache=True, nogil=True, error_model="numpy")
def zo_o2nc(
    F, args, rng, n, steps, b, rho, radius, length, eta, x, position, displacement, points, gradients, memory, tally
):
    """Do `steps` iterations of ZO-O2NC; change the arrays, the memory and the tally in place.

    It draws in the order of the plain path: the place on the segment, then all b indices, then b × d normals.
    """
    d = x.size
    w, q, g, z, reached = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    indices = np.zeros(b, np.int64)
    for _ in range(steps):
        place = rng.random()
        for j in range(d):
            reached[j] = position[j] + displacement[j]
            z[j] = position[j] + place * (reached[j] - position[j])
        if n > 0:
            for i in range(b):
                indices[i] = rng.integers(0, n)
        g[:] = 0.0
        used, total = 0, 0.0
        for i in range(b):
            inverse = _draw(rng, w)
            plus, minus, fine = _pair(F, args, indices[i], z, w, rho * inverse, q, tally)
            if fine:
                c = d / (2 * rho) * (plus - minus)  # Definition 6
                tally[POWER] += c * c
                used += 1
                total += plus + minus
                for j in range(d):
                    g[j] += c * inverse * w[j]
        if used == 0:
            continue
        tally[DIRECTIONS] += used
        tally[VALUE] = total / (2 * used)
        g /= used
        squared = 0.0
        for j in range(d):
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
        play = _norm(displacement)
        if play > radius:
            displacement *= radius / play
        memory[DONE] += 1
        memory[STEP], tally[NORM] = step, np.sqrt(squared)
        if memory[DONE] == length:  # restart the learner; the mean of the block's points is the answer so far
            memory[BLOCK_NORM] = _norm(gradients) / length
            for j in range(d):
                x[j] = points[j] / length
                displacement[j] = points[j] = gradients[j] = 0.0
            memory[DONE] = memory[SQUARES] = 0.0


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def differences(x, S, W, delta, data, indices, indptr, signed, lam, cap):
    """f_S(x + δw) − f_S(x − δw) for every direction w, a column of W; f_S is the mean over the samples S."""
    count = W.shape[1]
    out, along = np.zeros(count), np.empty(count)
    for i in S:
        margin = 0.0
        along[:] = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            value, j = data[entry], indices[entry]
            margin += value * x[j]
            for k in range(count):
                along[k] += value * W[j, k]
        slack, slope = abs(signed[i]) - signed[i] * margin, delta * signed[i]
        for k in range(count):
            change = slope * along[k]
            out[k] += max(0.0, slack - change) - max(0.0, slack + change)
    out /= S.size
    for j in range(x.size):
        for k in range(count):
            step = delta * W[j, k]
            out[k] += lam * (min(abs(x[j] + step), cap) - min(abs(x[j] - step), cap))
    return out


@njit(cache=True, nogil=True)
def estimate(rng, x, count, samples, delta, n, args):
    """The mean over `count` directions of d/(2δ)·(f_S(x + δw) − f_S(x − δw))·w, with one batch S for all of them."""
    S, W = np.empty(samples, np.int64), np.empty((x.size, count))
    for i in range(samples):
        S[i] = rng.integers(0, n)
    for k in range(count):
        squared = 0.0
        for j in range(x.size):
            W[j, k] = rng.standard_normal()
            squared += W[j, k] ** 2
        for j in range(x.size):
            W[j, k] /= np.sqrt(squared)
    apart, v = differences(x, S, W, delta, *args), np.zeros(x.size)
    for j in range(x.size):
        for k in range(count):
            v[j] += W[j, k] * apart[k]
    return x.size / (2 * delta * count) * v


@njit(cache=True, nogil=True)
def public_epochs(rng, one, other, epochs, x, delta, eta, m, b, n, work_out, args):
    """Move x by whole epochs of the public convention; return the largest entry of any correction worked out."""
    largest = 0.0
    for _ in range(epochs):
        v = estimate(rng, x, m * b, m * b, delta, n, args)
        x -= eta * v
        previous = x.copy()  # the point just reached, not the one left
        for _ in range(m):
            if work_out:
                here = estimate(one, x, b, m * b, delta, n, args)
                correction = here - estimate(other, previous, b, m * b, delta, n, args)
                largest = max(largest, np.abs(correction).max())
                v += correction
            x -= eta * v
            previous[:] = x
    return largest


@njit(cache=True, nogil=True)
def descent(rng, steps, first, x, n, data, indices, indptr, signed, lam, cap):
    """Subgradient steps on the hinge, which are as sparse as the rows, with a step size that falls to zero."""
    for t in range(steps):
        i = rng.integers(0, n)
        margin = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            margin += data[entry] * x[indices[entry]]
        if signed[i] * margin < abs(signed[i]):
            step = first * (1.0 - t / steps) * signed[i]
            for entry in range(indptr[i], indptr[i + 1]):
                x[indices[entry]] += step * data[entry]
