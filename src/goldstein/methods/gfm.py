"""GFM, Algorithm 1 of the paper (Lin, Zheng and Jordan 2022), with mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from goldstein.methods.method import Context
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.oracle import Array, Query
from goldstein.steps import StepRule


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
        self._check(self.delta, batch_size=self.batch_size)
        _ = self._rule

    def init(self, x: Array, context: Context) -> SmoothedState:
        return SmoothedState(x, rule=self._rule.init())

    def ask(self, state: SmoothedState, context: Context, limit: int | None) -> Query | None:
        return self._query([state.x], self.batch_size, context, limit)  # Alg. 1, line 2

    def tell(self, state: SmoothedState, context: Context, query: Query, values: Array) -> None:
        reading = self._read(state, context, query, values)
        if not reading.empty:
            self._step(state, context, reading.estimate())  # Alg. 1, line 3
        state.nit += 1
