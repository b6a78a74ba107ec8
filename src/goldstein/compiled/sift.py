"""Sifting in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from goldstein.compiled.pieces import average, call, count_value
from goldstein.compiled.tally import DOUBLES, SINGLES
from goldstein.norms import HUGE
from goldstein.oracle.stats import DOUBLE, SINGLE

# What a run carries along besides arrays; the order of its memory.
POWER, DIRECTIONS, ACTIVE, MAGNITUDE, DROWNED, SINGLE_SEEN, DOUBLE_SEEN, NFEV, NIT, VALUE, LENGTH, PLACE = range(12)
NOW, WALK = 12, 13  # R, and the sum of squared steps
# What it is told: the order of its settings.
GROWTH, STEP, DECAY, TOLERANCE, EVALS, ITERATIONS, SHORTEST, LONGEST, PRECISION, SHORT_VALUES, ZERO, NEXT = range(12)
SPIKE, USUAL, REUSED = 12, 13, 14


def evaluate(F, args, i, x, top, reached, count, point, values):
    """Write F at x with its first `reached` coordinates taken from `top`, for `count` numbers of them, into `values`.

    `point` is the query, written anew for each.
    """
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


@njit(inline="always")
def difference_step(d, roundoff, settings, memory):
    """Return h: the one given, a small part of R, or as much as the rounding errors of the values ask for."""
    if settings[STEP] > 0:
        return settings[STEP]
    if memory[ACTIVE] == 0:
        return settings[SHORTEST]
    level = memory[MAGNITUDE] / memory[DIRECTIONS]
    scale = np.sqrt(memory[POWER] / memory[ACTIVE])
    needed = settings[PRECISION] * np.sqrt(float(d)) * roundoff * level / scale
    return max(settings[SHORTEST], min(needed, settings[LONGEST]))


@njit(inline="always")
def share(nfev, nit, settings):
    """Return the share of the run that is over after so many evaluations and iterations."""
    return min(max(nfev / settings[EVALS], nit / settings[ITERATIONS]), 1.0)


@njit
def within_cap(affordable, opened, low, high, left, right, closed, low_shut, high_shut, shut):
    """Keep the `affordable` of the `opened` intervals whose ends differ most, the first among equals; shut the others.

    Return how many are shut then.
    """
    order = np.argsort(-np.abs(right[:opened] - left[:opened]), kind="mergesort")
    keep = np.zeros(opened, np.bool_)
    keep[order[:affordable]] = True
    kept = 0
    for i in range(opened):
        if keep[i]:
            low[kept], high[kept], left[kept], right[kept] = low[i], high[i], left[i], right[i]
            kept += 1
        else:
            low_shut[closed], high_shut[closed], shut[closed] = low[i], high[i], right[i] - left[i]
            closed += 1
    return closed


@njit(inline="always")
def sum_of_squares(v):
    """Return ‖v‖², summed in order."""
    squared = 0.0
    for j in range(v.size):
        squared += v[j] * v[j]
    return squared


@njit(inline="always")
def distance(x, origin):
    """Return ‖x − origin‖², summed in order."""
    squared = 0.0
    for j in range(x.size):
        squared += (x[j] - origin[j]) * (x[j] - origin[j])
    return squared


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


@njit(cache=True, nogil=True, error_model="numpy")
def sift(
    F,
    args,
    rng,
    n,
    x,
    mean,
    count,
    iterations,
    most,
    cap,
    soft,
    limit,
    origin,
    squares,
    g,
    units,
    stale,
    order,
    settings,
    memory,
    tally,
):
    """Do `iterations` iterations, or fewer; return how many, and how many values they took.

    They end as soon as `soft` values are made, and before `limit` could be exceeded.

    It draws in the order of the plain path: the random order of the components when the last one is exhausted, then
    the steps of the walks that are not used again. Changes x, mean, the arrays after `limit`, and the tally in place.
    """
    d = x.size
    b = stale.size
    top, step, point, row, total = np.empty(d), np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    low, high = np.empty(d + 1, np.int64), np.empty(d + 1, np.int64)
    left, right = np.empty(d + 1), np.empty(d + 1)
    low_in, high_in = np.empty(d + 1, np.int64), np.empty(d + 1, np.int64)
    left_in, right_in = np.empty(d + 1), np.empty(d + 1)
    middle, values = np.empty(d + 1, np.int64), np.empty(d + 1)
    low_shut, high_shut, shut = np.empty(d + 1, np.int64), np.empty(d + 1, np.int64), np.empty(d + 1)
    away = distance(x, origin)
    moving = np.count_nonzero(squares)
    indices = np.zeros(b, np.int64)
    closest = settings[NEXT]
    used = 0
    done = 0
    while done < iterations and used < soft and used + b * most <= limit:
        average(mean, count + done + 1, x)
        for k in range(b if n > 0 else 0):
            if memory[PLACE] == n:
                random_order(rng, order)
                memory[PLACE] = 0
            indices[k] = order[int(memory[PLACE])]
            memory[PLACE] += 1
        for k in range(b):
            if stale[k]:
                for j in range(d):
                    u = 2.0 * rng.random()
                    units[k, j] = u - 0.5 if u >= 1.0 else -0.5 - u
        coarse = memory[DOUBLE_SEEN] + tally[DOUBLES] == 0
        coarse = coarse and memory[SINGLE_SEEN] + tally[SINGLES] >= settings[SHORT_VALUES]
        roundoff = SINGLE if coarse else DOUBLE
        h = difference_step(d, roundoff, settings, memory)
        tolerance = 0.0
        if memory[ACTIVE] > 0:
            tolerance = settings[TOLERANCE] * h * np.sqrt(memory[POWER] / memory[ACTIVE])
        usual = np.inf
        if memory[ACTIVE] >= settings[USUAL]:
            usual = settings[SPIKE] * np.sqrt(memory[POWER] / memory[ACTIVE])
        began = memory[NFEV] + used
        usable_walks, power, magnitude, value, active, drowned, changed = 0, 0.0, 0.0, 0.0, 0, 0, False
        for k in range(b):
            for j in range(d):
                least = closest * abs(x[j])
                top[j] = x[j] + units[k, j] * (h if h > least else least)
                step[j] = top[j] - x[j]
            middle[0], middle[1] = 0, d
            evaluate(F, args, indices[k], x, top, middle, 2, point, values)
            first, last = values[0], values[1]
            asked = 2
            usable = count_value(tally, first)
            usable &= count_value(tally, last)
            rounding = settings[ZERO] * roundoff * abs(first)
            ends = abs(last - first)
            low[0], high[0], left[0], right[0] = 0, d, first, last
            m = 1
            closed = 0
            while usable:
                opened = 0
                for i in range(m):  # no branch that a processor could guess wrong: what is not kept is written over
                    difference = right[i] - left[i]
                    size = abs(difference)
                    differs = size > rounding
                    keep = differs & (size > tolerance) & (high[i] - low[i] > 1)
                    low_in[opened], high_in[opened] = low[i], high[i]
                    left_in[opened], right_in[opened] = left[i], right[i]
                    opened += keep
                    low_shut[closed], high_shut[closed], shut[closed] = low[i], high[i], difference
                    closed += differs ^ keep
                if asked + opened > cap:
                    inner = (low_in, high_in, left_in, right_in)
                    closed = within_cap(cap - asked, opened, *inner, closed, low_shut, high_shut, shut)
                    opened = cap - asked
                if opened == 0:
                    break
                for i in range(opened):
                    middle[i] = (low_in[i] + high_in[i]) // 2
                evaluate(F, args, indices[k], x, top, middle, opened, point, values)
                for i in range(opened):
                    v = values[i]
                    usable &= count_value(tally, v)
                    low[2 * i], high[2 * i], left[2 * i], right[2 * i] = low_in[i], middle[i], left_in[i], v
                    low[2 * i + 1], high[2 * i + 1] = middle[i], high_in[i]
                    left[2 * i + 1], right[2 * i + 1] = v, right_in[i]
                asked += opened
                m = 2 * opened
            used += asked
            squared = 0.0
            if closed:
                row[:] = 0.0
                for i in range(closed):
                    for j in range(low_shut[i], high_shut[i]):
                        row[j] = shut[i] / step[j]
                largest = 0.0
                for j in range(d):
                    largest = max(largest, abs(row[j]))
                usable &= largest < HUGE
                squared = sum_of_squares(row)
            flat = squared == 0 if d == 1 else asked == 2
            stale[k] = not (n > 0 and usable and flat and (memory[NIT] + 1) % settings[REUSED])
            if not usable:
                continue
            usable_walks += 1
            length = np.sqrt(squared)
            if length > usual:
                for j in range(d):
                    row[j] *= usual / length
                length = usual
            power += length * length
            magnitude += abs(first)
            value += first
            active += not flat
            drowned += 0 < ends <= rounding
            if closed:
                if not changed:
                    total[:] = 0.0
                changed = True
                for j in range(d):
                    total[j] += row[j]
        done += 1
        memory[NIT] += 1
        if usable_walks == 0:
            continue
        memory[POWER] += power
        memory[DIRECTIONS] += usable_walks
        memory[ACTIVE] += active
        memory[MAGNITUDE] += magnitude
        memory[DROWNED] += drowned
        memory[VALUE] = value / usable_walks
        length = memory[NOW]
        if settings[DECAY] > 0:
            before = share(began, memory[NIT] - 1, settings)
            u = 0.5 * (before + share(memory[NFEV] + used, memory[NIT], settings))
            rest = 1.0 - u
            length *= rest if settings[DECAY] == 1 else rest ** settings[DECAY]
            length *= np.sqrt(u)
        memory[LENGTH] = length
        g[:] = 0.0
        if changed:
            for j in range(d):
                slope = total[j] / usable_walks
                squares[j] += slope * slope
                g[j] = slope
                left_at = x[j]
                ahead = left_at - length * (slope / np.sqrt(squares[j]))
                x[j] = ahead if squares[j] > 0 else left_at
                step[j] = x[j] - left_at
        if settings[GROWTH] > 0:
            if changed:
                memory[WALK] += sum_of_squares(step)
                away = distance(x, origin)
                moving = np.count_nonzero(squares)
            net = away - memory[WALK]
            if net > 0:
                travelled = settings[GROWTH] * np.sqrt(net / moving)
                memory[NOW] = max(memory[NOW], min(travelled, 2 * memory[NOW]))
    return done, used
