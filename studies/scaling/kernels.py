"""Whole runs of the scaling study in machine code (extra: compiled).

GFM and GFM+ are the library's own compiled loops. ZO-O2NC and SINGD, which have none there, draw the same random
numbers in the same order as the library's, so that both give the same run.
"""

# mypy: ignore-errors
# numba reads these functions, not the type checker

from __future__ import annotations

import numpy as np
from numba import njit

from goldstein.compiled.gfm import gfm as library_gfm
from goldstein.compiled.gfm_plus import gfm_plus as library_gfm_plus
from goldstein.compiled.tally import TALLY

FIRST_CHECK = 40  # evaluations
CHUNK = 8192  # steps whose sizes are written down at a time

# What a run tells besides its hits; the order of its facts.
EVALUATIONS, STEPS, RATIO, NOISE, ERROR, CHECKS = range(6)
FACTS = 6

# Compiled anew: the library's own copies hold forms for other functions, which numba would try on `component` first.
gfm = njit(nogil=True, error_model="numpy")(library_gfm.py_func)
gfm_plus = njit(nogil=True, error_model="numpy")(library_gfm_plus.py_func)


@njit(cache=True, nogil=True, error_model="numpy")
def component(x, i, xi, reach, well):
    """F(x; i): the mean of ||x_j − ξ_ij| − well| times √(their number), and if reach > 0 a slope along x_0."""
    first, total = 0, 0.0
    if reach > 0:
        first = 1
        t = x[0]
        total = np.log1p(reach) - (np.log1p(min(t, reach)) if t > 0 else t)
    kinks = 0.0
    for j in range(first, x.size):
        kinks += abs(abs(x[j] - xi[i, j]) - well)
    return total + kinks / np.sqrt(x.size - first)


@njit(inline="always")
def _read(table, low, width, t):
    """Interpolate in a table that is constant beyond its ends."""
    place = (t - low) / width
    if place <= 0:
        return table[0]
    k = int(place)
    if k >= table.size - 1:
        return table[table.size - 1]
    return table[k] + (place - k) * (table[k + 1] - table[k])


@njit(cache=True, nogil=True, error_model="numpy")
def smoothed(x, k, gauge, out):
    """Write ∇f_ρ(x) for the k-th radius ρ of the gauge into `out`."""
    reach, radii, nodes, weights, tables, low, width = gauge
    first = 0
    if reach > 0:
        first, slope = 1, 0.0
        for q in range(nodes.size):
            t = x[0] + radii[k] * nodes[q]
            slope -= weights[q] * (1.0 if t <= 0 else (1.0 / (1.0 + t) if t < reach else 0.0))
        out[0] = slope
    scale = 1.0 / np.sqrt(x.size - first)
    for j in range(first, x.size):
        out[j] = scale * _read(tables[k], low, width, x[j])


@njit(cache=True, nogil=True, error_model="numpy")
def bound(x, gauge, out):
    """Return the shortest of ∇f_ρ(x) over the radii ρ ≤ δ of the gauge, each an element of ∂_δ f(x)."""
    best = np.inf
    for k in range(gauge[1].size):
        smoothed(x, k, gauge, out)
        best = min(best, np.sqrt(np.sum(out * out)))
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _check(x, evals, targets, below, hits, gauge, out):
    """Note which targets two consecutive checks have met; return whether the last, the smallest, is among them."""
    value = bound(x, gauge, out)
    for k in range(targets.size):
        if hits[k] > 0:
            continue
        if value > targets[k]:
            below[k] = 0
        elif below[k]:
            hits[k] = evals
        else:
            below[k] = 1
    return hits[-1] > 0


@njit(nogil=True, error_model="numpy")
def hit_gfm(args, rng, n, x, eta, decay, delta, targets, limit, growth, gauge, hits, facts):
    """Run GFM until the bound is at most the last target or `limit` evaluations are used; decay: η/√(t + 1)."""
    tallies, none, out = np.zeros(1, TALLY), np.empty(0), np.empty(x.size)
    below, etas = np.zeros(targets.size, np.int64), np.empty(CHUNK)
    steps, due = 0, float(FIRST_CHECK)
    while 2 * steps < limit:
        last = int(np.ceil(min(due, limit) / 2))
        while steps < last:
            size = min(CHUNK, last - steps)
            for k in range(size):
                etas[k] = eta / np.sqrt(steps + k + 1.0) if decay else eta
            gfm(component, args, rng, n, x, none, 0, etas[:size], 1, delta, tallies[0])
            steps += size
        due = max(2 * steps * growth, 2.0 * steps + 1)
        if _check(x, 2 * steps, targets, below, hits, gauge, out):
            break
    facts[EVALUATIONS], facts[STEPS] = 2 * steps, steps
    facts[RATIO], facts[NOISE] = np.nan, tallies[0].sum_sq_norm / tallies[0].n_estimates
    facts[ERROR] = facts[NOISE]  # at stationarity; one pair makes up a whole estimate


@njit(nogil=True, error_model="numpy")
def hit_gfm_plus(args, rng, n, x, eta, m, b, delta, targets, limit, growth, gauge, hits, facts):
    """Run GFM+ with b' = m·b; the facts hold the ratio of corrections and the mean of ‖v − ∇f_δ‖² at the checks."""
    tallies, none, out = np.zeros(1, TALLY), np.empty(0), np.empty(x.size)
    below, etas = np.zeros(targets.size, np.int64), np.full(CHUNK, eta)
    v, before = np.zeros(x.size), x.copy()
    steps, evals, due, age, checks, error = 0, 0, float(FIRST_CHECK), 0, 0, 0.0
    while evals < limit:
        size = 0
        while size < CHUNK and evals < due:
            evals += 2 * m * b if (age + size) % m == 0 else 4 * b
            size += 1
        age, _ = gfm_plus(
            component, args, rng, n, x, none, 0, etas[:size], b, delta, tallies[0], m * b, m, age, v, before
        )
        steps += size
        if evals < due:
            continue
        due = max(evals * growth, evals + 1.0)
        smoothed(before, 0, gauge, out)  # v was taken at the point before the last step
        error += np.sum((v - out) ** 2)
        checks += 1
        if _check(x, evals, targets, below, hits, gauge, out) or not np.isfinite(x[0]):
            break
    facts[EVALUATIONS], facts[STEPS], facts[CHECKS] = evals, steps, checks
    facts[RATIO] = tallies[0].change / tallies[0].level if tallies[0].level > 0 else np.nan
    facts[NOISE] = tallies[0].sum_sq_norm / tallies[0].n_estimates
    facts[ERROR] = error / checks if checks else np.nan


@njit(inline="always")
def _o2nc_step(F, args, rng, n, x, play, points, gradients, w, z, q, rho, radius, eta, squares):
    """One step of O2NC on f_ρ; returns the sum of ‖g‖² in the block so far."""
    d, share = x.size, rng.random()
    i = rng.integers(0, n) if n > 0 else 0
    norm = 0.0
    for j in range(d):
        w[j] = rng.standard_normal()
        norm += w[j] * w[j]
    inverse = 1.0 / np.sqrt(norm)
    for j in range(d):
        z[j] = x[j] + share * play[j]
        x[j] += play[j]
        points[j] += z[j]
        q[j] = z[j] + rho * inverse * w[j]
    plus = F(q, i, *args)
    for j in range(d):
        q[j] = z[j] - rho * inverse * w[j]
    c = d / (2 * rho) * (plus - F(q, i, *args))
    squares += c * c
    step = eta
    if eta == 0.0:  # AdaGrad-norm: √2 D / √(Σ‖g‖²)
        step = np.sqrt(2.0) * radius / np.sqrt(squares) if squares > 0 else 0.0
    size = 0.0
    for j in range(d):
        g = c * inverse * w[j]
        gradients[j] += g
        play[j] -= step * g
        size += play[j] * play[j]
    size = np.sqrt(size)
    if size > radius:
        for j in range(d):
            play[j] *= radius / size
    return squares


@njit(cache=True, nogil=True, error_model="numpy")
def hit_zo_o2nc(args, rng, n, x, eta, M, delta, targets, limit, growth, gauge, hits, facts):
    """Run ZO-O2NC with blocks of M steps, ρ = δ/20 and D = (δ − ρ)/M; the answer is the mean of the newest block."""
    d, rho = x.size, delta / 20
    radius = (delta - rho) / M
    out, below = np.empty(d), np.zeros(targets.size, np.int64)
    play, points, gradients = np.zeros(d), np.zeros(d), np.zeros(d)
    w, z, q = np.empty(d), np.empty(d), np.empty(d)
    evals, due, power = 0, float(FIRST_CHECK), 0.0
    while evals < limit:
        play[:], points[:], gradients[:], squares = 0.0, 0.0, 0.0, 0.0
        for _ in range(M):
            squares = _o2nc_step(
                component, args, rng, n, x, play, points, gradients, w, z, q, rho, radius, eta, squares
            )
        evals += 2 * M
        power += squares
        if evals < due:
            continue
        due = max(evals * growth, evals + 1.0)
        if _check(points / M, evals, targets, below, hits, gauge, out):
            break
    facts[EVALUATIONS], facts[STEPS], facts[RATIO] = evals, evals // 2, np.nan
    facts[NOISE] = facts[ERROR] = power / max(evals // 2, 1)


@njit(cache=True, nogil=True, error_model="numpy")
def zo_o2nc_blocks(shape, rng, x, eta, M, blocks, rho, radius, means, norms):
    """Run planned ZO-O2NC on a closed form; write the mean point and the norm of the mean estimate of each block."""
    d = x.size
    play, points, gradients = np.zeros(d), np.zeros(d), np.zeros(d)
    w, z, q = np.empty(d), np.empty(d), np.empty(d)
    for k in range(blocks):
        play[:], points[:], gradients[:], squares = 0.0, 0.0, 0.0, 0.0
        for _ in range(M):
            squares = _o2nc_step(
                closed_form, (shape,), rng, 0, x, play, points, gradients, w, z, q, rho, radius, eta, squares
            )
        means[k] = points / M
        norms[k] = np.sqrt(np.sum((gradients / M) ** 2))


RIDGE, CAPPED_RIDGE, CONE, SHELL = range(4)


@njit(inline="always")
def _coordinate(x, shape):
    """Return e·x with e = (1, …, 1)/√d, or ‖x‖: what the closed forms are functions of."""
    s = 0.0
    for j in range(x.size):
        s += x[j] if shape <= CAPPED_RIDGE else x[j] * x[j]
    return s / np.sqrt(x.size) if shape <= CAPPED_RIDGE else np.sqrt(s)


@njit(cache=True, nogil=True, error_model="numpy")
def closed_form(x, i, shape):
    """Value of the closed-form problem `shape`; i is not used."""
    s = _coordinate(x, shape)
    if shape == RIDGE:
        return abs(s)
    if shape == CAPPED_RIDGE:
        return min(abs(s), 1.0)
    return s if shape == CONE else abs(s - 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def planned_value(x, shape):
    """Value of the closed-form problem `shape`, as `Deterministic` asks for it."""
    return closed_form(x, 0, shape)


@njit(inline="always")
def _gradient(x, shape, out):
    s, d = _coordinate(x, shape), x.size
    if shape == RIDGE:
        out[:] = np.sign(s) / np.sqrt(d)
    elif shape == CAPPED_RIDGE:
        out[:] = (np.sign(s) if abs(s) < 1.0 else 0.0) / np.sqrt(d)
    else:
        scale = 0.0 if s == 0 else (1.0 if shape == CONE else np.sign(s - 1.0)) / s
        for j in range(d):
            out[j] = scale * x[j]


@njit(cache=True, nogil=True, error_model="numpy")
def singd_points(shape, rng, x, p, q, beta, perturb, indices, points):
    """Run SINGD (perturb > 0: PSINGD) on a closed form; write x_j for the rising 1-based `indices` into `points`."""
    d = x.size
    m, g, y, ahead, u = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    _gradient(x, shape, m)
    t, k = 1, 0
    while True:
        while k < indices.size and indices[k] == t:
            points[k] = x
            k += 1
        if k == indices.size:
            return
        ahead[:] = m
        if perturb > 0:
            norm = 0.0
            for j in range(d):
                u[j] = rng.standard_normal()
                norm += u[j] * u[j]
            reach = perturb * np.sqrt(np.sum(m * m)) * rng.random() ** (1.0 / d) / np.sqrt(norm)
            for j in range(d):
                ahead[j] += reach * u[j]
        size = p * np.sqrt(np.sum(ahead * ahead)) + q
        share = rng.random()
        for j in range(d):
            ahead[j] = x[j] - ahead[j] / size  # Alg. 2, line 3
            y[j] = x[j] + share * (ahead[j] - x[j])  # Alg. 2, line 4
        _gradient(y, shape, g)
        for j in range(d):
            m[j] = beta * m[j] + (1 - beta) * g[j]  # Alg. 2, line 5
            x[j] = ahead[j]
        t += 1
