"""WarmStart, Algorithms 3 and 4 of the paper: one method starts where another ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.methods.gfm import GFM
from goldstein.methods.method import Context, Kernel, Method, Needs, Scale, Step, Unsupported
from goldstein.methods.staged import Staged, StagedKernel, StagedState
from goldstein.oracle import Array, Oracle
from goldstein.output import Average

ALONE = (
    "The first phase of {} iterations takes the whole run, so that the second does not begin and the answer is where "
    "the first ends: give a larger budget, or fewer iterations."
)


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
    The average, not the last iterate, is what Theorem 2's proof bounds for convex f. Only iterates of the second
    phase may be the answer, unless the first takes the whole run, with a warning. By name, `ws-gfm` and `ws-gfm+` also
    take `delta`, of the second phase; the first has a smaller one of its own.

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
        arguments.check(self, arguments.optional_count, "iterations")

    @property
    def name(self) -> str:  # type: ignore[override]
        """ws-gfm+ when the second phase is GFM+, else ws- and its name; a first phase that is not GFM is named, too."""
        return f"ws-{self.second.name}" + ("" if self.first.name == GFM.name else f" after {self.first.name}")

    @property
    def needs(self) -> Needs:
        first = self.first.needs
        second = self.second.needs
        return replace(
            second,
            replay=first.replay or second.replay,
            pairs=first.pairs or second.pairs,
            gradients=first.gradients or second.gradients,
            sifting=first.sifting or second.sifting,
            exact=first.exact or second.exact,
            horizon=self.iterations is None or first.horizon or second.horizon,
            query_radius=max(first.query_radius, second.query_radius),
            random_stop=None if second.random_stop is None else self._any_of_the_second,
        )

    def _any_of_the_second(self, rng: np.random.Generator, max_iter: int) -> int:
        first = min(self.iterations or max_iter // 2, max_iter - 1)
        later = self.second.needs.random_stop
        assert later is not None
        return first + later(rng, max_iter - first)

    def init(self, x: Array, context: Context) -> StagedState:
        if self.iterations is None and context.max_evals is None and context.max_iter is None:
            raise ValueError("WarmStart with iterations=None switches halfway: give the run max_evals or max_iter.")
        state = StagedState(x, average=Average())
        state.inner = self.first.init(x, self._stage_context(state, context))
        return state

    def _method(self, state: StagedState) -> Method:
        return self.first if state.stage == 1 else self.second

    def _stage_context(self, state: StagedState, context: Context) -> Context:
        if state.stage == 2:
            return self._remaining(state, context)
        if self.iterations is not None:
            return replace(context, max_iter=self.iterations)
        stage = replace(context)
        if stage.max_evals is not None:
            stage.max_evals //= 2
        if stage.max_iter is not None:
            stage.max_iter //= 2
        return stage

    def _advance(self, state: StagedState, context: Context, step: Step) -> Step:
        if state.stage == 2:
            return step
        over = self._stage_context(state, context).progress(state.inner.nit)
        if (over is not None and over >= 1) or step.done is not None:
            assert state.average is not None
            self._enter(state, context, state.average.answer(state.inner.x))  # Algs. 3 and 4, line 1
            if state.no_second:  # which a larger budget has put right, in a run that went on
                step = replace(step, notes={**(step.notes or {}), "phase": "The second phase has begun after all."})
        elif self._never_over(state, context):
            state.no_second = True
            message = {"phase": ALONE.format(self.iterations)}
            step = replace(step, warnings={**(step.warnings or {}), **message}, notes={**(step.notes or {}), **message})
        return replace(step, x=state.inner.x, iterate=None, done=None, candidates=None)

    def _never_over(self, state: StagedState, context: Context) -> bool:
        """Whether the first phase takes the whole run; in evaluations that is told when half of them are made."""
        if self.iterations is None or not state.inner.nit:
            return False
        if context.max_iter is not None and self.iterations > context.max_iter:
            return True
        evals = context.max_evals
        if evals is None or 2 * context.nfev < evals:
            return False
        return bool(context.nfev * self.iterations > evals * state.inner.nit)

    @classmethod
    def _options(cls) -> list[str]:
        return [*super()._options(), "delta"]

    @classmethod
    def _complete(cls, options: Mapping[str, Any]) -> bool:
        return "delta" not in options and super()._complete(options)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> WarmStart:
        raise ValueError("WarmStart alone does not say which methods: use ws-gfm or ws-gfm+, or give both phases.")

    def kernel(self, oracle: Oracle) -> Kernel:
        if "average" not in self.first.kernel(oracle).outputs:
            raise Unsupported(
                f"The compiled loop of {self.first.name} keeps no average to start the second phase from."
            )
        return StagedKernel(self, oracle, self.second.kernel(oracle).outputs)


def ws_from_scale(second: type[Method], scale: Scale, options: Mapping[str, Any]) -> WarmStart:
    """Return Algorithm 4 (`second` is GFM) or 3 (GFM+), with the phases that were not given."""
    half = replace(scale, evals=scale.evals // 2)
    nearer = replace(half, radius=scale.radius / 3)
    phases = dict(options)
    of_the_second = {"delta": phases.pop("delta")} if "delta" in phases else {}
    if of_the_second and "second" in phases:
        raise ValueError("delta is for the second phase, and the one given has its own: leave delta out.")
    return WarmStart(
        **{"first": GFM.from_scale(half, {}), "second": second.from_scale(nearer, of_the_second), **phases}
    )
