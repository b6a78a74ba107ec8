"""The loop of ZO-O2NC in machine code, for the one loop of the library (extra: compiled).

Its random numbers are those of the plain path, so that both give the same run to rounding.
"""

from __future__ import annotations

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
        from goldstein.studies import svm_kernels as k

        m: ZOO2NC = self.method
        for name in ("position", "displacement", "points", "gradients"):
            setattr(state, name, getattr(state, name).copy())
        memory = np.array([state.done, state.squares, state.block_norm, 0.0])
        radius = m.displacement or (m.delta - m.margin()) / m.block_length
        eta = -1.0 if m.step_size is None else float(m.step_size)
        settings = (etas.size, m.batch_size, float(m.margin()), float(radius), m.block_length, eta)
        arrays = (state.x, state.position, state.displacement, state.points, state.gradients)
        self._compiled(k.zo_o2nc, context.rng, self.n, *settings, *arrays, memory, tally)
        state.done, state.squares = int(memory[k.DONE]), float(memory[k.SQUARES])
        state.block_norm, etas[-1] = float(memory[k.BLOCK_NORM]), memory[k.STEP]
