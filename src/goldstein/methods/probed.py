"""Probed: a method by name, whose missing settings follow from a few counted probes.

Probing at x0 finds the length scale R of the function and its steepness G (`goldstein.methods.probe`). Radii and steps
follow from R, G and the budget; the user's options stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import sqrt
from typing import Any

from goldstein.methods.method import TRAVEL, Context, Kernel, Method, MethodState, Needs, Scale, Step
from goldstein.methods.probe import Probe
from goldstein.methods.staged import PROBE_STAGE, ProbeStageState, Staged, StagedKernel, StagedState
from goldstein.norms import HUGE, norm
from goldstein.oracle import Array, Oracle
from goldstein.state import MADE_AGAIN

FromScale = Callable[[Scale, Mapping[str, Any]], Method]
OPTIONS_HINT = "Settings were chosen from probes; options= sets them."
FARTHEST = 1e300  # a radius at most: beyond it lengths leave the range of floating point
NOMINAL = Scale(1.0, 0.0, 1000)  # a function of which nothing is known
SMALL = (Scale(1e-12, 0.0, 1000), Scale(2e-12, 0.0, 1000))  # what does not depend on these was given


@dataclass
class ProbedState(StagedState):
    """State of `Probed`: also the measured scale, a note on the settings, and the method that has them."""

    scale: Scale | None = None
    note: str = ""
    method: Method | None = field(default=None, metadata=MADE_AGAIN)


@dataclass(frozen=True)
class Probed(Staged):
    """A method by name with the user's options; the other settings are chosen after probing.

    Parameters
    ----------
    requested : str
        Name of the method.
    options : mapping
        Settings that stay as they are.
    build : callable
        Returns the method from a scale and the options.
    """

    requested: str
    options: Mapping[str, Any]
    build: FromScale = field(repr=False)

    def __post_init__(self) -> None:
        try:
            self.build(NOMINAL, self.options)
        except (ArithmeticError, TypeError):
            plain = self.build(NOMINAL, {})
            own = {f.name: self.options[f.name] for f in fields(plain) if f.name in self.options}
            replace(plain, **own)  # raises in a sentence if one of them is wrong
            raise

    @cached_property
    def _example(self) -> Method:
        """The method at some scale: what does not depend on numbers."""
        return self.build(NOMINAL, self.options)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.requested

    @property
    def needs(self) -> Needs:
        # A δ that is not in the options follows from the scale: nothing can be said of it beforehand.
        one, other = (self.build(scale, self.options).needs for scale in SMALL)
        pairs = one.pairs if one.pairs == other.pairs else 0.0
        query_radius = one.query_radius if one.query_radius == other.query_radius else 0.0
        return replace(self._example.needs, pairs=pairs, horizon=True, query_radius=query_radius, random_stop=None)

    def init(self, x: Array, context: Context) -> ProbedState:
        if context.max_evals is None and context.max_iter is None:
            raise ValueError(
                f"{self.requested} plans its steps for the budget: give max_evals or max_iter, or all settings."
            )
        if self._example.needs.query_radius and not self._example.needs.respects_bounds:
            Probe.check_room(self.requested, context.project)
        self._example.init(x, context)  # raises before anything is evaluated
        state = ProbedState(x, note=f"{self.requested} did not finish probing for its settings.")
        noisy = context.noisy and context.sample is None
        state.inner = ProbeStageState(x, probe=Probe.plan(x, self._budget(context), noisy, careful=True))
        if state.inner.probe.over:
            self._build(state, context)
        return state

    def _method(self, state: ProbedState) -> Method:
        if state.stage == 1:
            return PROBE_STAGE
        if state.method is None:
            assert state.scale is not None
            state.method = self.build(state.scale, self.options)
        return state.method

    def _stage_context(self, state: ProbedState, context: Context) -> Context:
        if state.stage == 1:
            return replace(context, max_evals=self._budget(context))
        evals = None if context.max_evals is None else max(1, context.max_evals - state.evals_before)
        return replace(context, max_evals=evals, nfev=context.nfev - state.evals_before)

    def _budget(self, context: Context) -> int:
        if context.max_evals is not None:
            return context.max_evals
        assert context.max_iter is not None
        return (1 if self._example.needs.gradients else 2) * context.max_iter

    def _advance(self, state: ProbedState, context: Context, step: Step) -> Step:
        if state.stage == 1 and state.inner.probe.over:
            self._build(state, context)
            step.x = state.inner.x
        step.notes = {"settings": state.note, **(step.notes or {})}
        if step.warnings:
            step.warnings = {key: f"{sentence} {OPTIONS_HINT}" for key, sentence in step.warnings.items()}
        return step

    def _build(self, state: ProbedState, context: Context) -> None:
        """Choose the settings by what probing found, and start the method."""
        probe: Probe = state.inner.probe
        d = state.x.size
        evals = max(self._budget(context) - context.nfev, 2)
        steep = (probe.steepest or probe.kink or 1.0) * sqrt(d)  # the root mean square slope along w is ‖∇F‖/√d
        steep = min(steep, HUGE)
        radius = probe.radius
        if probe.kink and not probe.steepest:  # x0 is a kink on all sides, which has no length of its own
            radius = norm(state.x) or 1.0
        radius = min(radius, FARTHEST)
        radius = max(radius / 2, TRAVEL * self.needs.query_radius)  # what is smaller than δ is smoothed away
        scale = Scale(radius, d * probe.floor, evals, steep, sqrt(d) * steep)
        reach = self.build(scale, self.options).needs.query_radius
        fitting = probe.fitting(reach, context.project)
        if fitting < reach and "delta" not in self.options:
            shrink = fitting / reach
            scale = replace(scale, radius=shrink * scale.radius, floor=shrink * scale.floor)
        state.scale = scale
        self._enter(state, context, state.x)
        method = self._method(state)
        reach = method.needs.query_radius
        state.note = f"Settings from {state.evals_before} probe evaluations: {method!r}."
        fixed = reach == self.needs.query_radius  # then the run has a note on it
        if context.project is not None and not fixed and not context.project.holds(reach):
            state.note = f"Queries may leave the allowed set by delta = {reach:.3g}. {state.note}"

    def kernel(self, oracle: Oracle) -> Kernel:
        outputs = self._example.kernel(oracle).outputs  # the method that will run differs in numbers only
        return StagedKernel(self, oracle, outputs)


def as_run(method: Method, state: MethodState) -> Method:
    """Return the method with the settings that it runs with; as it was asked for while these are not known."""
    if isinstance(method, Probed) and isinstance(state, ProbedState) and state.stage > 1:
        return method._method(state)
    return method
