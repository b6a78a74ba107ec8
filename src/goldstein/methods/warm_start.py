"""WarmStart, Algorithms 3 and 4 of the paper: one method starts where another ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.method import Context, Method, MethodState
from goldstein.oracle import Array, Oracle, Query
from goldstein.output import Average


@dataclass
class WarmStartState(MethodState):
    """State of a warm-started run: which phase it is in, that phase's state, and phase 1's running average."""

    phase: int = 1
    inner: Any = None
    average: Any = None
    switched_at: int = 0
    nit_first: int = 0


@dataclass(frozen=True)
class WarmStart(Method):
    """Run `first`, hand its average iterate to `second` (WS-GFM and WS-GFM+, for convex f).

    Parameters
    ----------
    first, second : Method
        GFM and GFM make WS-GFM (Algorithm 4), GFM and GFMPlus make WS-GFM+ (Algorithm 3). Each has its own δ.
    iterations : int, optional
        T_0, iterations of the first phase; None: half of `max_evals` (or of `max_iter`).

    Notes
    -----
    The average, not the last iterate, is what Theorem 4's proof bounds for convex f. Only iterates of the second
    phase may be the answer.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> method = gs.WarmStart(gs.GFM(0.01, 0.02), gs.GFMPlus(0.1, 0.02, 10, 5))
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), method, max_evals=4000, rng=0)
    >>> bool(res.fun < 1)
    True
    """

    first: Method
    second: Method
    iterations: int | None = None

    def __post_init__(self) -> None:
        for phase in (self.first, self.second):
            if not isinstance(phase, Method):
                raise TypeError(f"WarmStart takes two method objects, got {type(phase).__name__}.")
        arguments.keep(self, iterations=arguments.optional_count("iterations", self.iterations))

    @property
    def name(self) -> str:  # type: ignore[override]
        """ws-gfm+ when the second phase is GFM+, else ws- and the second phase's name."""
        return "ws-gfm+" if isinstance(self.second, GFMPlus) else f"ws-{self.second.name}"

    @property
    def uses_horizon(self) -> bool:
        return self.iterations is None or self.first.uses_horizon or self.second.uses_horizon

    def refusal(self, oracle: Oracle) -> str | None:
        return self.first.refusal(oracle) or self.second.refusal(oracle)

    def caution(self, oracle: Oracle) -> str | None:
        return self.first.caution(oracle) or self.second.caution(oracle)

    def finished(self, state: WarmStartState) -> str | None:
        return self.second.finished(state.inner) if state.phase == 2 else None

    def complaints(self, state: WarmStartState) -> dict[str, str]:
        return (self.first, self.second)[state.phase - 1].complaints(state.inner)

    def gauge(self, state: WarmStartState) -> tuple[float, float]:
        return (self.first, self.second)[state.phase - 1].gauge(state.inner)

    def margin(self) -> float:
        return max(self.first.margin(), self.second.margin())

    def offer(self, state: WarmStartState, left: Array) -> Array | None:
        if state.phase == 1 or state.nit == state.nit_first:  # what was left belongs to the first phase
            return None
        return self.second.offer(state.inner, left)

    def random_stop(self, rng: np.random.Generator, max_iter: int) -> int | None:
        first = min(self.iterations or max_iter // 2, max_iter - 1)
        later = self.second.random_stop(rng, max_iter - first)
        return None if later is None else first + later

    def init(self, x: Array, context: Context) -> WarmStartState:
        if self.iterations is None and context.max_evals is None and context.max_iter is None:
            raise ValueError("WarmStart with iterations=None switches halfway: give the run max_evals or max_iter.")
        return WarmStartState(x, inner=self.first.init(x, self._stage(None, context)), average=Average())

    def _stage(self, state: WarmStartState | None, context: Context) -> Context:
        """Return the context of the current phase: its own share of the budget and its own count."""
        evals, iters = context.max_evals, context.max_iter
        if state is None or state.phase == 1:
            half_evals = evals // 2 if evals is not None and self.iterations is None else evals
            half_iters = self.iterations or (iters // 2 if iters is not None else None)
            return replace(context, max_evals=half_evals, max_iter=half_iters)
        return replace(
            context,
            max_evals=None if evals is None else max(1, evals - state.switched_at),
            max_iter=None if iters is None else max(1, iters - state.nit_first),
            nfev=context.nfev - state.switched_at,
            earlier=context.earlier + state.switched_at,
        )

    def ask(self, state: WarmStartState, context: Context, limit: int | None) -> Query | None:
        stage = self._stage(state, context)
        if state.phase == 2:
            return self.second.ask(state.inner, stage, limit)
        return self.first.ask(state.inner, stage, limit)

    def tell(self, state: WarmStartState, context: Context, query: Query, values: Array) -> None:
        left, phase = state.inner.x, (self.first, self.second)[state.phase - 1]
        phase.tell(state.inner, self._stage(state, context), query, values)
        if state.phase == 1:
            state.average.leave(left, state.inner.value, context.rng)
        self._after(state, context.after(query))

    def _after(self, state: WarmStartState, context: Context) -> None:
        """Bring the outer state up to date, and go over to the second phase when the first is over."""
        inner = state.inner
        state.nit = state.nit_first + inner.nit
        state.value, state.step, state.gradient_norm = inner.value, inner.step, inner.gradient_norm
        over = self._stage(state, context).progress(inner.nit)
        if state.phase == 1 and over is not None and over >= 1:
            x1 = state.average.answer(inner.x)  # Algs. 3 and 4, line 1
            state.phase, state.average, state.switched_at, state.nit_first = 2, None, context.nfev, inner.nit
            state.inner = self.second.init(context.projected(x1, self.second.margin()), self._stage(state, context))
        state.x = state.inner.x
