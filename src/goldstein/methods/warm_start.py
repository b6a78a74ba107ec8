"""WarmStart, Algorithms 3 and 4 of the paper: one method starts where another ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.method import Context, Kernel, Method, Needs, Refusal, Scale, Step
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.oracle import Array, Oracle
from goldstein.output import Average


@dataclass(frozen=True)
class WarmStart(Staged):
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
        return f"ws-{self.second.name}"

    @property
    def needs(self) -> Needs:
        first = self.first.needs
        second = self.second.needs
        return replace(
            second,
            replay=first.replay or second.replay,
            pairs=first.pairs or second.pairs,
            gradients=first.gradients or second.gradients,
            exact=first.exact or second.exact,
            horizon=self.iterations is None or first.horizon or second.horizon,
            reach=max(first.reach, second.reach),
            random_stop=None if second.random_stop is None else self._any_of_the_second,
        )

    def _any_of_the_second(self, rng: np.random.Generator, max_iter: int) -> int:
        """Draw one of the second phase's answers."""
        first = min(self.iterations or max_iter // 2, max_iter - 1)
        later = self.second.needs.random_stop
        assert later is not None
        return first + later(rng, max_iter - first)

    def init(self, x: Array, context: Context) -> StagedState:
        if self.iterations is None and context.max_evals is None and context.max_iter is None:
            raise ValueError("WarmStart with iterations=None switches halfway: give the run max_evals or max_iter.")
        state = StagedState(x, average=Average())
        state.inner = self.first.init(x, self._share(state, context))
        return state

    def _method(self, state: StagedState) -> Method:
        return self.first if state.stage == 1 else self.second

    def _share(self, state: StagedState, context: Context) -> Context:
        if state.stage == 2:
            return self._rest(state, context)
        evals = context.max_evals
        iterations = context.max_iter
        if self.iterations is not None:
            return replace(context, max_iter=self.iterations)
        return replace(
            context,
            max_evals=None if evals is None else evals // 2,
            max_iter=None if iterations is None else iterations // 2,
        )

    def _went(self, state: StagedState, context: Context, step: Step) -> Step:
        if state.stage == 2:
            return step
        over = self._share(state, context).progress(state.inner.nit)
        if (over is not None and over >= 1) or step.done is not None:
            assert state.average is not None
            self._enter(state, context, state.average.answer(state.inner.x))  # Algs. 3 and 4, line 1
        return replace(step, x=state.inner.x, offer=None, done=None, candidates=None)

    @classmethod
    def guess(cls, scale: Scale, given: Mapping[str, Any]) -> WarmStart:
        raise ValueError("WarmStart alone does not say which methods: use ws-gfm or ws-gfm+, or give both phases.")

    def kernel(self, oracle: Oracle) -> Kernel | Refusal:
        for phase in (self.first, self.second):
            found = phase.kernel(oracle)
            if isinstance(found, Refusal):
                return found
            if phase is self.first and "average" not in found.outputs:
                return Refusal(f"The compiled loop of {phase.name} keeps no average to start the second phase from.")
        return StagedKernel(self, oracle, self.second)


def guess_ws_gfm(scale: Scale, given: Mapping[str, Any]) -> WarmStart:
    """Return Algorithm 4 with the phases that were not given."""
    return _guess(GFM, scale, given)


def guess_ws_gfm_plus(scale: Scale, given: Mapping[str, Any]) -> WarmStart:
    """Return Algorithm 3 with the phases that were not given."""
    return _guess(GFMPlus, scale, given)


def _guess(second: type[Method], scale: Scale, given: Mapping[str, Any]) -> WarmStart:
    half = replace(scale, evals=scale.evals // 2)
    nearer = replace(half, radius=scale.radius / 3)
    return WarmStart(**{"first": GFM.guess(half, {}), "second": second.guess(nearer, {}), **given})
