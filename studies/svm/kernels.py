"""Machine code of the SVM study (extra: compiled): the convention of the public code, subgradient descent."""

# mypy: ignore-errors
# numba reads these functions, not the type checker

from __future__ import annotations

import numpy as np
from numba import njit


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
