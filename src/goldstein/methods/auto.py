"""Auto: looks at the function first, and then runs the method for its kind.

======== ======================================================= ==================================================
kind     how it shows                                            what runs
======== ======================================================= ==================================================
exact    no noise, no jumps                                      BFGS, raced against CMA-ES
replayed F(·; ξ) is continuous, and ξ can be replayed            sifting, raced against CMA-ES in doubt
jumps    F(·; ξ) jumps, or does not change where it was probed   CMA-ES in blocks, a ξ for each block
fresh    every call has noise of its own                         CMA-ES in blocks
======== ======================================================= ==================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from goldstein import arguments
from goldstein.methods.bfgs import BFGS
from goldstein.methods.cma import BlockCMA
from goldstein.methods.kernel import check_compilable
from goldstein.methods.method import START, Context, Kernel, Method, Needs, Step, Unsupported
from goldstein.methods.portfolio import Portfolio
from goldstein.methods.sift import Sift, batch_for, growth_for, radius_for
from goldstein.methods.staged import PROBE_STAGE, ProbeStageState, Staged, StagedKernel, StagedState
from goldstein.methods.survey import EXACT, FRESH, JUMPS, KINDS, KINK_RADIUS, REPLAYED, Survey, length_of
from goldstein.oracle import Array, FiniteSum, Oracle, Query
from goldstein.projection import Box
from goldstein.state import LATER, MADE_AGAIN

MIN_SURVEY_BUDGET = 150  # evaluations below which a survey would cost too much
MIN_GRADIENTS = 3  # that BFGS must be able to afford
METHOD_NAMES = {EXACT: "BFGS", REPLAYED: "sifting", JUMPS: "CMA-ES in blocks", FRESH: "CMA-ES in blocks"}
AS_REQUESTED = "as requested"


@dataclass
class AutoState(StagedState):
    """State of `Auto`."""

    origin: Array = LATER  # x0
    kind: str = ""  # kind, radius, doubt, replayed: by the survey, see `Verdict` and `Survey.scale`
    radius: float = 1.0
    evals: int = 0  # evaluations for the chosen method
    doubt: bool = False
    replayed: bool = True  # if not, every value gets a ξ of its own
    note: str = ""  # what was chosen and why
    last_resort: str = START  # the name of the origin among the candidates
    method: Method | None = field(default=None, metadata=MADE_AGAIN)  # the chosen method


@dataclass(frozen=True)
class Auto(Staged):
    """The default, which needs no settings: give it a function, a start and a budget.

    A survey of a few counted probes around x0 finds out what kind of function it is, and the method for that kind takes
    the rest of the budget. In doubt two methods are raced, and nothing they reached is lost. The message of the result
    says what was chosen and why.

    Parameters
    ----------
    kind : {None, "exact", "replayed", "jumps", "fresh"}, optional
        The kind of function, if you know it; None: as the survey finds it. "exact": without noise and jumps (BFGS,
        raced against CMA-ES); "replayed": the same ξ can be evaluated at several points, and F is continuous
        (sifting); "jumps": F may jump; "fresh": every call has noise of its own (both: CMA-ES in blocks).

    Notes
    -----
    The steps are planned for the budget, so `max_evals` (or `max_iter`) must be the real one.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: np.abs(np.floor(x) - 7).sum(), np.zeros(4), max_evals=5000, rng=0)
    >>> float(res.fun)
    0.0
    """

    kind: str | None = None
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        arguments.optional_one_of("kind", self.kind, KINDS)

    @property
    def needs(self) -> Needs:
        return BlockCMA().needs  # the answer is chosen as CMA-ES does

    def init(self, x: Array, context: Context) -> AutoState:
        state = AutoState(x, origin=x)
        self._check(context)
        kind = self.kind
        if kind is None and context.noisy and context.sample is None:
            kind = FRESH
        if kind in (JUMPS, FRESH):
            reason = AS_REQUESTED if self.kind else "its noise cannot be replayed"
            self._choose(state, context, kind, reason)
        elif _budget(x.size, context) < MIN_SURVEY_BUDGET:
            state.radius = KINK_RADIUS * length_of(x, context)
            kind = kind or (JUMPS if context.noisy else EXACT)
            reason = AS_REQUESTED if self.kind else "assumed, the budget is too small to test"
            self._choose(state, context, kind, reason)
        else:
            state.inner = ProbeStageState(x, probe=Survey.plan(x, context, _budget(x.size, context), self.kind or ""))
        return state

    def _check(self, context: Context) -> None:
        if context.max_evals is None and context.max_iter is None:
            raise ValueError("auto plans its steps for the budget: give max_evals or max_iter.")
        if self.kind == EXACT and context.noisy:
            raise ValueError('kind="exact" is for functions without noise, and this one is noisy.')
        if self.kind == REPLAYED and context.noisy and context.sample is None:
            raise ValueError('kind="replayed" needs a ξ that can be replayed: use FiniteSum, Expectation or Seeded.')

    def _method(self, state: AutoState) -> Method:
        if state.stage == 1:
            return PROBE_STAGE
        if state.method is None:
            state.method = self._chosen(state)
        return state.method

    def _chosen(self, state: AutoState) -> Method:
        if state.kind == EXACT:
            return Portfolio(BFGS(state.radius), BlockCMA())
        if state.kind != REPLAYED:
            return BlockCMA()
        d = state.x.size
        batch_size = batch_for(state.evals, d)
        sifting = Sift(radius_for(state.radius, d), batch_size=batch_size, growth=growth_for(state.evals, d))
        return Portfolio(sifting, BlockCMA()) if state.doubt else sifting

    def _stage_context(self, state: AutoState, context: Context) -> Context:
        stage = self._remaining(state, context)
        if state.kind == FRESH and not stage.noisy:
            stage.facts = replace(stage.facts, noisy=True)
        if not state.replayed:
            stage.sample = None
        return stage

    def ask(self, state: StagedState, context: Context, limit: int | None) -> Query | None:
        assert isinstance(state, AutoState)
        query = super().ask(state, context, limit)
        if query is not None and not state.replayed:
            assert context.sample is not None
            return replace(query, samples=context.sample(context.rng, len(query)))
        return query

    def _advance(self, state: AutoState, context: Context, step: Step) -> Step:
        if state.stage == 1:
            survey: Survey = state.inner.probe
            if survey.over:
                verdict = survey.verdict
                step.noisy = verdict.noise
                state.radius = survey.scale
                state.doubt = verdict.doubt
                state.replayed = verdict.replayed
                self._choose(state, context, verdict.kind, AS_REQUESTED if self.kind else verdict.reason)
            step.x = state.inner.x
        elif step.noisy:
            state.origin = step.x  # the lowest point so far, in the place of x0 from now on
            state.last_resort = "lowest point before noise showed"
            self._choose(state, context, FRESH, "calls at the same point differed")
            step.x = state.inner.x
            step.candidates = None
        candidates = dict(step.candidates or {"last iterate": step.x, START: state.origin})
        candidates.popitem()
        step.candidates = {**candidates, state.last_resort: state.origin}
        if state.note:
            step.notes = {"choice": state.note, **(step.notes or {})}
        return step

    def _choose(self, state: AutoState, context: Context, kind: str, reason: str) -> None:
        small = _budget(state.x.size, context) < MIN_GRADIENTS * (state.x.size + 1)
        if kind == EXACT and small:
            kind = JUMPS
            reason = "the budget is too small for gradients"
        if kind == EXACT and not (context.project is None or isinstance(context.project, Box)):
            kind = JUMPS
            reason = "BFGS takes no set other than a box"
        state.kind = kind
        state.method = None
        state.evals = _budget(state.x.size, context) - context.nfev
        cost = context.nfev
        self._enter(state, context, state.origin)
        probes = f"; {cost} probe evaluations" if cost else ""
        raced = ", raced against CMA-ES" if kind == EXACT or (kind == REPLAYED and state.doubt) else ""
        state.note = f'auto ran {METHOD_NAMES[kind]}{raced}. Kind "{kind}": {reason}{probes}.'

    def kernel(self, oracle: Oracle) -> Kernel:
        check_compilable(oracle)
        if not isinstance(oracle, FiniteSum):
            raise Unsupported("auto has a compiled loop for sums only.")
        return StagedKernel(self, oracle, Kernel.outputs)


def _budget(d: int, context: Context) -> int:
    """Return for how many evaluations the run is planned."""
    evals = context.planned_evals(d + 1)
    assert evals is not None
    return evals
