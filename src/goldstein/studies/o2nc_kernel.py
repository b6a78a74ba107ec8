"""The loop of ZO-O2NC in machine code, for the one loop of the library (extra: compiled).

It draws in the order of the plain path (the place on the segment, then all b indices, then b × d normals), so that
both give the same run to rounding.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from goldstein.compiled import _Kernel
from goldstein.evaluate import Evaluator
from goldstein.loop import Session, drive
from goldstein.methods.base import Context
from goldstein.methods.o2nc import ZOO2NC, O2NCState
from goldstein.oracle import FiniteSum
from goldstein.query import Array
from goldstein.result import Result

# What the kernel carries along besides arrays; the order of its memory.
DONE, SQUARES, BLOCK_NORM, STEP, NORM = range(5)


def minimize_zo_o2nc(oracle: FiniteSum, x0: Array, method: ZOO2NC, *, max_evals: int, rng: int, monitor: Any) -> Result:
    """Do what `minimize` does with this method, in machine code; the oracle's function must be jitted."""
    session = Session(
        method,
        np.array(x0),
        oracle,
        rng=np.random.default_rng(rng),
        max_evals=max_evals,
        monitor=monitor,
        kernel=_ZOO2NC(method, oracle),
    )
    with Evaluator(oracle) as evaluate:
        return drive(session, evaluate)


class _ZOO2NC(_Kernel):
    def _costs(self, state: O2NCState, k: int) -> Array:
        return np.full(k, 2 * self.method.batch_size)

    def _steps(self, state: O2NCState, context: Context, used: Array) -> Array:
        return np.zeros(used.size)

    def _call(self, state: O2NCState, context: Context, mean: Array, count: int, etas: Array, tally: Array) -> None:
        m: ZOO2NC = self.method
        for name in ("position", "displacement", "points", "gradients"):
            setattr(state, name, getattr(state, name).copy())
        memory = np.array([state.done, state.squares, state.block_norm, 0.0, 0.0])
        radius = m.displacement or (m.delta - m.margin()) / m.block_length
        eta = -1.0 if m.step_size is None else float(m.step_size)
        settings = (etas.size, m.batch_size, float(m.margin()), float(radius), m.block_length, eta)
        arrays = (state.x, state.position, state.displacement, state.points, state.gradients)
        self._compiled(_jitted_loop(), context.rng, self.n, *settings, *arrays, memory, tally)
        state.done, state.squares = int(memory[DONE]), float(memory[SQUARES])
        state.block_norm, etas[-1] = float(memory[BLOCK_NORM]), memory[STEP]


@cache
def _jitted_loop() -> Any:
    from numba import njit

    from goldstein.compiled import kernels as k

    draw, pair, size = k._draw, k._pair, k._norm
    POWER, DIRECTIONS, VALUE, LENGTH = k.POWER, k.DIRECTIONS, k.VALUE, k.NORM

    @njit(nogil=True, error_model="numpy")
    def zo_o2nc(  # type: ignore[no-untyped-def]
        F, args, rng, n, steps, b, rho, radius, length, eta, x, position, displacement, points, gradients, memory, tally
    ):
        """Do `steps` iterations; change the arrays, the memory and the tally in place."""
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
                inverse = draw(rng, w)
                plus, minus, fine = pair(F, args, indices[i], z, w, rho * inverse, q, tally)
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
            play = size(displacement)
            if play > radius:
                displacement *= radius / play
            memory[DONE] += 1
            memory[STEP], tally[LENGTH] = step, np.sqrt(squared)
            if memory[DONE] == length:  # restart the learner; the mean of the block's points is the answer so far
                memory[BLOCK_NORM] = size(gradients) / length
                for j in range(d):
                    x[j] = points[j] / length
                    displacement[j] = points[j] = gradients[j] = 0.0
                memory[DONE] = memory[SQUARES] = 0.0

    return zo_o2nc
