"""GFM+, Algorithm 2 of the paper: GFM with the recursive variance-reduced estimator; PAGE and STORM as switches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.methods.kernel import CompiledKernel
from goldstein.methods.method import Context, Kernel, Needs, Scale, Step, Unsupported
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.oracle import Array, Oracle, Query
from goldstein.state import LATER
from goldstein.steps import Calibrated, StepRule

RESTARTS = ("clock", "coin")
WARN_AFTER = 100  # corrections


@dataclass
class GFMPlusState(SmoothedState):
    """State of GFM+."""

    v: Array = LATER  # the recursive estimate v_{t−1}; None before the first large batch
    x_prev: Array = LATER  # x_{t−1}, at which v_{t−1} was taken
    age: int = 0  # steps since the last large batch, t mod m; 0 asks for one
    change: float = 0.0  # Σ ‖g(x_t; w_i, ξ_i) − g(x_{t−1}; w_i, ξ_i)‖² over all corrections
    level: float = 0.0  # Σ ‖g(x_t; w_i, ξ_i)‖² over them
    corrections: int = 0  # directions in those sums


@dataclass(frozen=True)
class GFMPlus(ZerothOrder):
    """Gradient-free method with the stochastic recursive estimator of SPIDER/SARAH.

    v_t = g(x_t; S') with |S'| = b' every m steps, else v_t = v_{t−1} + g(x_t; S) − g(x_{t−1}; S) with |S| = b and the
    same S at both points; x_{t+1} = x_t − η v_t. A large batch costs 2b' values, a correction 4b.

    Parameters
    ----------
    delta : float
        Smoothing radius δ.
    step_size : float or StepRule
        η, or a rule from `goldstein.steps`.
    epoch_length : int
        m, steps from one large batch to the next; 1 is GFM with batches of b'.
    batch_size : int
        b, pairs in a correction.
    large_batch_size : int, optional
        b', pairs in a large batch; None: m · b.
    restart : {"clock", "coin"}
        When v is taken from a large batch again: every m steps, or (PAGE) at each step with probability 1/m.
    momentum : float, optional
        a in (0, 1] (STORM): v_t = g(x_t; S) + (1 − a)(v_{t−1} − g(x_{t−1}; S)), and only the first batch is large; m
        then only sets the default of b'. With a = 1 the past is forgotten, as in GFM. None: as above.
    directions, estimator
        See `ZerothOrder`.

    Notes
    -----
    Line 1 of the printed algorithm computes v_0 before S' is drawn, and line 5 computes it again; it is left out.
    The previous point is stored before the step, so that the correction compares two different points.

    References
    ----------
    Chen, Xu, Luo (2023). Faster gradient-free algorithms for nonsmooth nonconvex stochastic optimization. ICML.

    Li, Bao, Zhang, Richtárik (2021). PAGE: a simple and optimal probabilistic gradient estimator for nonconvex
    optimization. ICML. Cutkosky, Orabona (2019). Momentum-based variance reduction in non-convex SGD. NeurIPS (STORM).

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> method = gs.GFMPlus(delta=0.1, step_size=0.02, epoch_length=10, batch_size=5)
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), method, max_evals=10_000, rng=0)
    >>> bool(res.fun < 0.5)
    True
    """

    delta: float
    step_size: float | StepRule
    epoch_length: int
    batch_size: int
    large_batch_size: int | None = None
    restart: str = "clock"
    momentum: float | None = None
    name: ClassVar[str] = "gfm+"

    def __post_init__(self) -> None:
        self._check("epoch_length", "batch_size", "large_batch_size")
        arguments.one_of("restart", self.restart, RESTARTS)
        if self.momentum is not None:
            expected = "a number in (0, 1] or None"
            arguments.check(self, arguments.number, "momentum", expected=expected, fits=lambda v: 0 < v <= 1)
            if self.restart == "coin":
                raise ValueError("With momentum only the first batch is large: there is no restart to toss for.")
        _ = self._rule

    @property
    def needs(self) -> Needs:
        return replace(super().needs, replay="evaluates the same ξ at two iterates", horizon=self._ahead)

    @property
    def _large(self) -> int:
        """b', pairs in a large batch."""
        return self.large_batch_size or self.epoch_length * self.batch_size

    def init(self, x: Array, context: Context) -> GFMPlusState:
        return GFMPlusState(x, rule=self._rule.init())

    def ask(self, state: GFMPlusState, context: Context, limit: int | None) -> Query | None:
        coin = self.restart == "coin"  # PAGE
        if state.age == 0 or (coin and context.rng.random() * self.epoch_length < 1):  # Alg. 2, line 3
            return self._query([state.x], self._large, context, limit, "large")  # Alg. 2, line 4
        return self._query([state.x, state.x_prev], self.batch_size, context, limit, "correction")  # Alg. 2, line 7

    def tell(self, state: GFMPlusState, context: Context, query: Query, values: Array) -> Step:
        iterate = state.x
        reading = self._read(state, context, query, values)
        if not reading.empty:
            if query.aux.purpose == "large":
                v = reading.estimate()  # Alg. 2, line 5
            else:
                if self.momentum is None:
                    v = state.v + reading.estimate(0) - reading.estimate(1)  # Alg. 2, line 8
                else:  # theory: STORM
                    v = reading.estimate(0) + (1 - self.momentum) * (state.v - reading.estimate(1))
                here, before = reading.coefficients
                state.change += float(np.sum((here - before) ** 2))
                state.level += float(here @ here)
                state.corrections += here.size
            state.v = v
            state.x_prev = state.x
            state.age = self._age(state.age, query.aux.purpose)
            self._step(state, context, v)  # Alg. 2, line 10
        state.nit += 1
        return self._make_step(state, iterate)

    def _age(self, age: int, purpose: str) -> int:
        """Return the steps since the last large batch; only the clock brings them back to 0."""
        if self.restart == "coin":
            return 1 if purpose == "large" else age + 1
        return age + 1 if self.momentum is not None else (age + 1) % self.epoch_length

    def _make_step(self, state: SmoothedState, iterate: Array | None, completed: int = 1, **more: Any) -> Step:
        assert isinstance(state, GFMPlusState)
        warnings = None
        if state.corrections >= WARN_AFTER and 2 * state.change > state.level:
            warnings = {"correction": _useless(state)}
        return super()._make_step(state, iterate, completed, warnings=warnings, **more)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> GFMPlus:
        # A δ so large that a correction carries less noise than a fresh estimate, which at 0.01 radii it does not.
        settings = {"delta": max(0.1 * scale.radius, scale.floor), "epoch_length": 10, "batch_size": 5, **options}
        m = settings["epoch_length"]
        b = settings["batch_size"]
        epoch = 2 * (settings.get("large_batch_size") or m * b) + 4 * b * (m - 1)
        return cls(**{"step_size": Calibrated(scale.radius, max(1, m * scale.evals // epoch)), **settings})

    def kernel(self, oracle: Oracle) -> Kernel:
        if self.restart != "clock" or self.momentum is not None:
            raise Unsupported("The compiled loop of gfm+ has neither the coin of PAGE nor the momentum of STORM.")
        self._check_compilable()
        return _Compiled(self, oracle, min(2 * self._large, 4 * self.batch_size), self._rule)


def _useless(state: GFMPlusState) -> str:
    ratio = state.change / state.level if state.level else np.inf
    return (
        f"The corrections of gfm+ do not reduce variance here: ‖g(x_t; S) − g(x_(t−1); S)‖² is {ratio:.2g} of "
        "‖g(x_t; S)‖² on average, so one correction adds more noise than a fresh batch at the same cost has. "
        "Use a smaller step, a larger delta, or gfm."
    )


class _Compiled(CompiledKernel):
    """Algorithm 2 in machine code."""

    def used(self, state: GFMPlusState, k: int) -> Array:
        restart = (state.age + np.arange(k)) % self.method.epoch_length == 0
        return np.cumsum(np.where(restart, 2 * self.method._large, 4 * self.method.batch_size))

    def call(self, state: GFMPlusState, context: Context, mean: Array, count: int, steps: Array, tally: Any) -> int:
        from goldstein.compiled.gfm_plus import gfm_plus  # which needs numba

        m: GFMPlus = self.method
        state.v = np.zeros_like(state.x) if state.v is None else state.v.copy()
        state.x_prev = state.x.copy() if state.x_prev is None else state.x_prev.copy()
        settings = (steps, m.batch_size, float(m.delta), tally, m._large, m.epoch_length, state.age)
        arrays = (state.v, state.x_prev)
        age, done = self.compiled(gfm_plus, context.rng, self.n, state.x, mean, count, *settings, *arrays)
        state.age = int(age)
        return int(done)

    def write_back(self, state: GFMPlusState, steps: Array, tally: Any) -> None:
        super().write_back(state, steps, tally)
        state.change += float(tally["change"])
        state.level += float(tally["level"])
        state.corrections += int(tally["corrections"])
