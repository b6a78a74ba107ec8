"""Sifting in machine code."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from goldstein.compiled.pieces import average, call, count_value
from goldstein.compiled.tally import DOUBLES, SINGLES
from goldstein.norms import HUGE
from goldstein.oracle.tally import DOUBLE, SINGLE

# What a run carries along besides arrays; the order of its memory.
POWER, DIRECTIONS, ACTIVE, MAGNITUDE, DROWNED, SINGLE_SEEN, DOUBLE_SEEN, NFEV, NIT, VALUE, LENGTH, PLACE = range(12)
NOW, WALK = 12, 13  # R, and the sum of squared steps
# What it is told: the order of its settings.
GROWTH, STEP, DECAY, TOLERANCE, EVALS, ITERATIONS, SHORTEST, LONGEST, PRECISION, SHORT_VALUES, ZERO, NEXT = range(12)
SPIKE, USUAL, REUSED = 12, 13, 14


def value_at(F, args, i, x, top, reached, point):
    """Return F at x with its first `reached` coordinates taken from `top`; `point` is the query, written anew."""
    raise NotImplementedError


# No reference counts in here, as in `pieces.pair`.
@overload(value_at, jit_options={"_nrt": False, "error_model": "numpy"})
def _value_at(F, args, i, x, top, reached, point):
    def value(F, args, i, x, top, reached, point):
        for j in range(reached):
            point[j] = top[j]
        for j in range(reached, x.size):
            point[j] = x[j]
        return call(F, point, i, args)

    return value


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
def within_cap(keep, size, m, wanted, affordable):
    """Keep the `affordable` intervals whose ends differ most, the first among equals."""
    chosen = np.empty(wanted, np.int64)
    sizes = np.empty(wanted)
    k = 0
    for i in range(m):
        if keep[i]:
            chosen[k] = i
            sizes[k] = -size[i]
            keep[i] = False
            k += 1
    order = np.argsort(sizes, kind="mergesort")
    for i in range(affordable):
        keep[chosen[order[i]]] = True


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
    left, right, size = np.empty(d + 1), np.empty(d + 1), np.empty(d + 1)
    keep = np.empty(d + 1, np.bool_)
    low_in, high_in = np.empty(d + 1, np.int64), np.empty(d + 1, np.int64)
    left_in, right_in = np.empty(d + 1), np.empty(d + 1)
    indices = np.zeros(b, np.int64)
    closest = settings[NEXT]
    used = 0
    done = 0
    while done < iterations and used < soft and used + b * most <= limit:
        average(mean, count + done + 1, x)
        for k in range(b if n > 0 else 0):
            if memory[PLACE] == n:
                order[:] = np.argsort(rng.random(n), kind="mergesort")
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
        usable_walks, power, magnitude, value, active, drowned = 0, 0.0, 0.0, 0.0, 0, 0
        total[:] = 0.0
        for k in range(b):
            for j in range(d):
                least = closest * abs(x[j])
                top[j] = x[j] + units[k, j] * (h if h > least else least)
                step[j] = top[j] - x[j]
                row[j] = 0.0
            first = value_at(F, args, indices[k], x, top, 0, point)
            last = value_at(F, args, indices[k], x, top, d, point)
            asked = 2
            usable = count_value(tally, first)
            usable &= count_value(tally, last)
            rounding = settings[ZERO] * roundoff * abs(first)
            ends = abs(last - first)
            low[0], high[0], left[0], right[0] = 0, d, first, last
            m = 1
            while usable:
                wanted = 0
                for i in range(m):
                    size[i] = abs(right[i] - left[i])
                    keep[i] = size[i] > rounding and size[i] > tolerance and high[i] - low[i] > 1
                    wanted += keep[i]
                if asked + wanted > cap:
                    within_cap(keep, size, m, wanted, cap - asked)
                opened = 0
                for i in range(m):
                    if keep[i]:
                        low_in[opened], high_in[opened] = low[i], high[i]
                        left_in[opened], right_in[opened] = left[i], right[i]
                        opened += 1
                    elif size[i] > rounding:
                        difference = right[i] - left[i]
                        for j in range(low[i], high[i]):
                            row[j] = difference / step[j]
                if opened == 0:
                    break
                for i in range(opened):
                    middle = (low_in[i] + high_in[i]) // 2
                    v = value_at(F, args, indices[k], x, top, middle, point)
                    usable &= count_value(tally, v)
                    low[2 * i], high[2 * i], left[2 * i], right[2 * i] = low_in[i], middle, left_in[i], v
                    low[2 * i + 1], high[2 * i + 1] = middle, high_in[i]
                    left[2 * i + 1], right[2 * i + 1] = v, right_in[i]
                asked += opened
                m = 2 * opened
            used += asked
            squared = 0.0
            for j in range(d):
                if row[j] != 0:  # few are not
                    usable &= abs(row[j]) < HUGE
                    squared += row[j] * row[j]
            flat = row[0] == 0 if d == 1 else asked == 2
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
        moving, walked, away = 0, 0.0, 0.0
        for j in range(d):
            slope = total[j] / usable_walks
            sum_of_squares = squares[j] + slope * slope
            g[j] = slope
            squares[j] = sum_of_squares
            if sum_of_squares > 0:
                before = x[j]
                x[j] = before - length * (slope / np.sqrt(sum_of_squares))
                moving += 1
                walked += (x[j] - before) * (x[j] - before)
                away += (x[j] - origin[j]) * (x[j] - origin[j])
        if settings[GROWTH] > 0:
            memory[WALK] += walked
            net = away - memory[WALK]
            if net > 0:
                travelled = settings[GROWTH] * np.sqrt(net / moving)
                memory[NOW] = max(memory[NOW], min(travelled, 2 * memory[NOW]))
    return done, used
