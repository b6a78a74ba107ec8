"""GFM, Algorithm 1 of the paper (Lin, Zheng and Jordan 2022), with mini-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from goldstein.methods.kernel import CompiledKernel
from goldstein.methods.method import Context, Kernel, Needs, Scale, Step
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.oracle import Array, Oracle, Query
from goldstein.steps import Calibrated, StepRule


@dataclass(frozen=True)
class GFM(ZerothOrder):
    """Gradient-free method: stochastic gradient descent on f_δ with two-point estimates.

    x_{t+1} = x_t − η g(x_t; S_t), S_t a fresh batch of pairs (w_i, ξ_i). An iteration costs 2 · batch_size values.

    Parameters
    ----------
    delta : float
        Smoothing radius δ.
    step_size : float or StepRule
        η, or a rule from `goldstein.steps`.
    batch_size : int, optional
        Pairs in each estimate; 1 is Algorithm 1.
    directions, estimator
        See `ZerothOrder`.

    References
    ----------
    Lin, Zheng, Jordan (2022). Gradient-free methods for deterministic and stochastic nonsmooth nonconvex
    optimization. NeurIPS. Chen, Xu, Luo (2023), Algorithm 1.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), gs.GFM(0.01, 0.005), max_evals=4000, rng=0)
    >>> bool(res.fun < 0.5)
    True
    """

    delta: float
    step_size: float | StepRule
    batch_size: int = 1
    name: ClassVar[str] = "gfm"

    def __post_init__(self) -> None:
        self._check("batch_size")
        _ = self._rule

    @property
    def needs(self) -> Needs:
        return replace(super().needs, horizon=self._ahead)

    def init(self, x: Array, context: Context) -> SmoothedState:
        return SmoothedState(x, rule=self._rule.init())

    def ask(self, state: SmoothedState, context: Context, limit: int | None) -> Query | None:
        return self._query([state.x], self.batch_size, context, limit)  # Alg. 1, line 2

    def tell(self, state: SmoothedState, context: Context, query: Query, values: Array) -> Step:
        iterate = state.x
        reading = self._read(state, context, query, values)
        if not reading.empty:
            self._step(state, context, reading.estimate())  # Alg. 1, line 3
        state.nit += 1
        return self._make_step(state, iterate)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> GFM:
        settings = {"delta": max(1e-3 * scale.radius, scale.floor), "batch_size": 1, **options}
        iterations = max(1, scale.evals // (2 * settings["batch_size"]))
        return cls(**{"step_size": Calibrated(scale.radius, iterations), **settings})

    def kernel(self, oracle: Oracle) -> Kernel:
        self._check_compilable()
        return _Compiled(self, oracle, 2 * self.batch_size, self._rule)


class _Compiled(CompiledKernel):
    """Algorithm 1 in machine code."""

    def call(self, state: SmoothedState, context: Context, mean: Array, count: int, steps: Array, tally: Any) -> int:
        from goldstein.compiled.gfm import gfm  # which needs numba

        settings = (self.method.batch_size, float(self.method.delta))
        self.compiled(gfm, context.rng, self.n, state.x, mean, count, steps, *settings, tally)
        return steps.size
