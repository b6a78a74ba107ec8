"""Sifting in machine code."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
from numba import njit
from numba.extending import overload

from goldstein.compiled.pieces import average, call, count_value
from goldstein.norms import HUGE
from goldstein.oracle.stats import DOUBLE, SINGLE

Intervals = namedtuple("Intervals", ["low", "high", "left", "right"])  # ends, and v there
Closed = namedtuple("Closed", ["low", "high", "difference"])

inlined = njit(inline="always", error_model="numpy")


def evaluate(F, args, i, x, top, reached, count, point, values):
    """Write F at x, its first `reached` coordinates from `top`, into `values`, `count` times; `point` is the query."""
    raise NotImplementedError


# No reference counts in here, as in `pieces.pair`.
@overload(evaluate, jit_options={"_nrt": False, "error_model": "numpy"})
def _evaluate(F, args, i, x, top, reached, count, point, values):
    def level(F, args, i, x, top, reached, count, point, values):
        for k in range(count):
            edge = float(reached[k])
            for j in range(x.size):
                on = top[j]
                off = x[j]
                point[j] = on if float(j) < edge else off  # both are read, so that this runs in vector registers
            values[k] = call(F, point, i, args)

    return level


@njit
def random_order(rng, order):
    """Fill `order` with the stable order of as many uniform numbers: what np.argsort gives, by buckets.

    About one number falls into each bucket, and within a bucket the order is found by insertion.
    """
    n = order.size
    numbers = rng.random(n)
    ends = np.zeros(n + 1, np.int64)
    for i in range(n):
        ends[int(numbers[i] * n) + 1] += 1  # (1 − 2⁻⁵³)·n is not rounded up to n
    for i in range(n):
        ends[i + 1] += ends[i]
    for i in range(n):
        bucket = int(numbers[i] * n)
        order[ends[bucket]] = i
        ends[bucket] += 1
    for k in range(1, n):
        i = order[k]
        place = k
        while place > 0 and numbers[order[place - 1]] > numbers[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i


@inlined
def draw_batch(rng, n, order, state, indices, resample, units):
    """Draw the components of a batch, then the steps of the walks that are not used again."""
    if n > 0:
        for k in range(indices.size):
            if state.place == n:
                random_order(rng, order)
                state.place = 0
            indices[k] = order[state.place]
            state.place += 1
    for k in range(resample.size):
        if resample[k]:
            for j in range(units.shape[1]):
                u = 2.0 * rng.random()
                units[k, j] = u - 0.5 if u >= 1.0 else -0.5 - u


@inlined
def value_roundoff(settings, tally):
    """Return `Facts.roundoff`, by the facts before the chunk and its tally."""
    coarse = settings.double + tally.double == 0
    coarse = coarse and settings.single + tally.single >= settings.short_values
    return max(settings.coarsest, SINGLE if coarse else DOUBLE)


@inlined
def gradient_scale(state):
    """Return the root mean square of ‖g‖ over the components that were not flat; 0 before there is one."""
    return np.sqrt(state.sum_sq_norm / state.n_active) if state.n_active > 0 else 0.0


@inlined
def difference_step(d, roundoff, scale, settings, state):
    """Return h: the one given, a small part of R, or as much as the rounding errors of the values ask for."""
    if settings.fd_step > 0:
        return settings.fd_step
    if scale == 0:
        return settings.min_fd_step if roundoff == DOUBLE else settings.max_fd_step
    level = state.magnitude / state.n_estimates
    needed = settings.roundoff_factor * np.sqrt(float(d)) * roundoff * level / scale
    return max(settings.min_fd_step, min(needed, settings.max_fd_step))


@inlined
def set_ends(x, unit, h, closest, top, step):
    """Write where a walk ends, and its steps as they are after rounding."""
    for j in range(x.size):
        least = closest * abs(x[j])
        top[j] = x[j] + unit[j] * (h if h > least else least)
        step[j] = top[j] - x[j]


@inlined
def select(m, rounding, tolerance, level, inner, closed, n_closed):
    """Copy the intervals that have to be opened to `inner`, close the others; return how many of each there are."""
    opened = 0
    for i in range(m):  # no branch that a processor could guess wrong: what is not kept is written over
        difference = level.right[i] - level.left[i]
        size = abs(difference)
        differs = size > rounding
        keep = differs & (size > tolerance) & (level.high[i] - level.low[i] > 1)
        inner.low[opened] = level.low[i]
        inner.high[opened] = level.high[i]
        inner.left[opened] = level.left[i]
        inner.right[opened] = level.right[i]
        opened += keep
        closed.low[n_closed] = level.low[i]
        closed.high[n_closed] = level.high[i]
        closed.difference[n_closed] = difference
        n_closed += differs ^ keep
    return opened, n_closed


@njit
def close_small(affordable, opened, inner, closed, n_closed):
    """Close the open intervals but the `affordable` whose ends differ most, the first among equals; count them."""
    order = np.argsort(-np.abs(inner.right[:opened] - inner.left[:opened]), kind="mergesort")
    keep = np.zeros(opened, np.bool_)
    keep[order[:affordable]] = True
    kept = 0
    for i in range(opened):
        if keep[i]:
            inner.low[kept] = inner.low[i]
            inner.high[kept] = inner.high[i]
            inner.left[kept] = inner.left[i]
            inner.right[kept] = inner.right[i]
            kept += 1
        else:
            closed.low[n_closed] = inner.low[i]
            closed.high[n_closed] = inner.high[i]
            closed.difference[n_closed] = inner.right[i] - inner.left[i]
            n_closed += 1
    return n_closed


@inlined
def halve(opened, inner, middle, values, level, tally):
    """Write both halves of the open intervals to `level`; return whether all values in the middle are finite."""
    usable = True
    for i in range(opened):
        v = values[i]
        usable &= count_value(tally, v)
        level.low[2 * i] = inner.low[i]
        level.high[2 * i] = middle[i]
        level.left[2 * i] = inner.left[i]
        level.right[2 * i] = v
        level.low[2 * i + 1] = middle[i]
        level.high[2 * i + 1] = inner.high[i]
        level.left[2 * i + 1] = v
        level.right[2 * i + 1] = inner.right[i]
    return usable


@inlined
def estimate(n_closed, closed, step, g):
    """Write the gradient of a walk; return ‖g‖² and max |g_j|."""
    g[:] = 0.0
    for i in range(n_closed):
        for j in range(closed.low[i], closed.high[i]):
            g[j] = closed.difference[i] / step[j]
    largest = 0.0
    for j in range(g.size):
        largest = max(largest, abs(g[j]))
    return sum_of_squares(g), largest


@inlined
def add_estimate(batch, total, g, length, clip, n_closed):
    """Clip the gradient of a walk and add it to the batch."""
    if length > clip:
        for j in range(g.size):
            g[j] *= clip / length
        length = clip
    batch.sum_sq_norm += length * length
    if n_closed:
        if not batch.changed:
            total[:] = 0.0
        batch.changed = 1
        for j in range(g.size):
            total[j] += g[j]


@inlined
def sum_of_squares(v):
    """Return ‖v‖², summed in order."""
    squared = 0.0
    for j in range(v.size):
        squared += v[j] * v[j]
    return squared


@inlined
def distance(x, origin):
    """Return ‖x − origin‖², summed in order."""
    squared = 0.0
    for j in range(x.size):
        squared += (x[j] - origin[j]) * (x[j] - origin[j])
    return squared


@inlined
def share(nfev, nit, settings):
    """Return the share of the run that is over."""
    return min(max(nfev / settings.evals, nit / settings.iterations), 1.0)


@inlined
def step_length(nfev_before, nfev, settings, state):
    """Return R (1 − u)^decay √u at the middle of the batch."""
    length = state.radius
    if settings.decay > 0:
        before = share(nfev_before, state.nit - 1, settings)
        u = 0.5 * (before + share(nfev, state.nit, settings))
        rest = 1.0 - u
        length *= rest if settings.decay == 1 else rest**settings.decay
        length *= np.sqrt(u)
    return length


@inlined
def update(length, batch, total, squares, g, x, step):
    """Take the step of diagonal AdaGrad."""
    for j in range(x.size):
        slope = total[j] / batch.count
        squares[j] += slope * slope
        g[j] = slope
        before = x[j]
        ahead = before - length * (slope / np.sqrt(squares[j]))
        x[j] = ahead if squares[j] > 0 else before
        step[j] = x[j] - before


@inlined
def grow(net, moving, settings, state):
    """Let R grow with the distance travelled; `net` is its square, the random walk of the steps taken off."""
    if net > 0:
        travelled = settings.growth * np.sqrt(net / moving)
        state.radius = max(state.radius, min(travelled, 2 * state.radius))


@inlined
def add_batch(state, batch):
    """Add the sums of a batch to those of the run."""
    state.sum_sq_norm += batch.sum_sq_norm
    state.n_estimates += batch.count
    state.n_active += batch.n_active
    state.magnitude += batch.magnitude
    state.below_roundoff += batch.below_roundoff
    state.value = batch.value / batch.count


@inlined
def clear(batch):
    """Set a batch to zero."""
    batch.sum_sq_norm = 0.0
    batch.magnitude = 0.0
    batch.value = 0.0
    batch.count = 0
    batch.n_active = 0
    batch.below_roundoff = 0
    batch.changed = 0


@njit(cache=True, nogil=True, error_model="numpy")
def sift(F, args, rng, n, x, mean, count, limits, arrays, nfev, settings, state, batch, tally):
    """Do `iterations` iterations, or fewer; return how many, and how many values they took.

    They end as soon as `soft` values are made, and before `limit` could be exceeded.

    It draws in the order of the plain path: the random order of the components when the last one is exhausted, then
    the steps of the walks that are not used again. Changes x, mean, the arrays and the records in place.
    """
    iterations, max_cost, max_evals_per_sample, soft, limit = limits
    origin, squares, g, units, resample, order = arrays
    d = x.size
    b = resample.size
    top, step, point, row, total = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    level = Intervals(np.empty(d + 1, np.int64), np.empty(d + 1, np.int64), np.empty(d + 1), np.empty(d + 1))
    inner = Intervals(np.empty(d + 1, np.int64), np.empty(d + 1, np.int64), np.empty(d + 1), np.empty(d + 1))
    closed = Closed(np.empty(d + 1, np.int64), np.empty(d + 1, np.int64), np.empty(d + 1))
    middle, values = np.empty(d + 1, np.int64), np.empty(d + 1)
    away = distance(x, origin)
    moving = np.count_nonzero(squares)
    indices = np.zeros(b, np.int64)
    used = 0
    done = 0
    while done < iterations and used < soft and used + b * max_cost <= limit:
        average(mean, count + done + 1, x)
        draw_batch(rng, n, order, state, indices, resample, units)
        scale = gradient_scale(state)
        roundoff = value_roundoff(settings, tally)
        h = difference_step(d, roundoff, scale, settings, state)
        tolerance = settings.tolerance * h * scale
        clip = settings.clip_factor * scale if state.n_active >= settings.clip_after else np.inf
        nfev_before = nfev + used
        clear(batch)
        for k in range(b):
            set_ends(x, units[k], h, settings.next, top, step)
            middle[0] = 0
            middle[1] = d
            evaluate(F, args, indices[k], x, top, middle, 2, point, values)
            first = values[0]
            last = values[1]
            usable = count_value(tally, first)
            usable &= count_value(tally, last)
            rounding = settings.zero * roundoff * abs(first)
            level.low[0] = 0
            level.high[0] = d
            level.left[0] = first
            level.right[0] = last
            n_values = 2
            n_closed = 0
            m = 1
            while usable:
                opened, n_closed = select(m, rounding, tolerance, level, inner, closed, n_closed)
                affordable = max_evals_per_sample - n_values
                if opened > affordable:
                    n_closed = close_small(affordable, opened, inner, closed, n_closed)
                    opened = affordable
                if opened == 0:
                    break
                for i in range(opened):
                    middle[i] = (inner.low[i] + inner.high[i]) // 2
                evaluate(F, args, indices[k], x, top, middle, opened, point, values)
                usable &= halve(opened, inner, middle, values, level, tally)
                n_values += opened
                m = 2 * opened
            used += n_values
            squared = 0.0
            if n_closed:
                squared, largest = estimate(n_closed, closed, step, row)
                usable &= largest < HUGE
            flat = squared == 0 if d == 1 else n_values == 2
            resample[k] = not (n > 0 and usable and flat and (state.nit + 1) % settings.reuse_period)
            if usable:
                add_estimate(batch, total, row, np.sqrt(squared), clip, n_closed)
                batch.count += 1
                batch.magnitude += abs(first)
                batch.value += first
                batch.n_active += not flat
                batch.below_roundoff += 0 < abs(last - first) <= rounding
        done += 1
        state.nit += 1
        if batch.count == 0:
            continue
        add_batch(state, batch)
        state.step_size = step_length(nfev_before, nfev + used, settings, state)
        g[:] = 0.0
        if batch.changed:
            update(state.step_size, batch, total, squares, g, x, step)
        if settings.growth > 0:
            if batch.changed:
                state.walk += sum_of_squares(step)
                away = distance(x, origin)
                moving = np.count_nonzero(squares)
            grow(away - state.walk, moving, settings, state)
    return done, used
