"""Probed: a method given by name, whose missing settings are chosen from a few counted probes.

Probing at x0 finds the length scale R of the function (`goldstein.methods.probe`). Radii and steps follow from R and
from the budget; what the user gave stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goldstein.methods.base import Context, Method, MethodState
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.o2nc import ZOO2NC
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.probe import Probe
from goldstein.methods.warm_start import WarmStart
from goldstein.oracle import Oracle
from goldstein.query import Array, Query
from goldstein.state import State
from goldstein.steps import Calibrated

Settings = dict[str, Any]


@dataclass
class Scale(State):
    """What the settings follow from: the length scale, the least sensible δ, and the evaluations left."""

    radius: float
    floor: float
    evals: int


def _gfm(scale: Scale, given: Settings) -> GFM:
    settings = {"delta": max(1e-3 * scale.radius, scale.floor), "batch_size": 1, **given}
    iterations = max(1, scale.evals // (2 * settings["batch_size"]))
    return GFM(**{"step_size": Calibrated(scale.radius, iterations), **settings})


def _gfm_plus(scale: Scale, given: Settings) -> GFMPlus:
    settings = {"delta": max(1e-2 * scale.radius, scale.floor), "epoch_length": 10, "batch_size": 5, **given}
    m, b = settings["epoch_length"], settings["batch_size"]
    epoch = 2 * (settings.get("large_batch_size") or m * b) + 4 * b * (m - 1)
    return GFMPlus(**{"step_size": Calibrated(scale.radius, max(1, m * scale.evals // epoch)), **settings})


def _warm_start(second: Callable[[Scale, Settings], Method]) -> Callable[[Scale, Settings], WarmStart]:
    def build(scale: Scale, given: Settings) -> WarmStart:
        half = replace(scale, evals=scale.evals // 2)
        parts = {"first": _gfm(half, {}), "second": second(replace(half, radius=scale.radius / 3), {}), **given}
        return WarmStart(**parts)

    return build


def _one_phase(scale: Scale, given: Settings) -> OnePhase:
    settings = {"delta": max(1e-3 * scale.radius, scale.floor), "batch_size": 1, **given}
    iterations = max(1, scale.evals // (2 * settings["batch_size"]))
    return OnePhase(**{"step_size": Calibrated(scale.radius, iterations), **settings})


def _zo_o2nc(scale: Scale, given: Settings) -> ZOO2NC:
    settings = {"delta": max(0.1 * scale.radius, scale.floor), "batch_size": 1, **given}
    steps = max(1, scale.evals // (2 * settings["batch_size"]))
    # All blocks together can travel (steps / M)·δ: M must leave room for a few R, and is steps^{2/3} at most.
    room = int(steps * settings["delta"] / (5 * scale.radius))
    return ZOO2NC(**{"block_length": max(1, min(int((0.1 * steps) ** (2 / 3)), room)), **settings})


BUILDERS: dict[str, Callable[[Scale, Settings], Method]] = {
    "gfm": _gfm,
    "gfm+": _gfm_plus,
    "ws-gfm": _warm_start(_gfm),
    "ws-gfm+": _warm_start(_gfm_plus),
    "one-phase": _one_phase,
    "zo-o2nc": _zo_o2nc,
}


@dataclass
class ProbedState(MethodState):
    """State of a probed method: the probe, what it found and cost, and the state of the method that was built."""

    probe: Probe = None  # type: ignore[assignment]
    scale: Scale | None = None
    spent: int = 0
    leaves: bool = False
    inner: Any = None


class Probed(Method):
    """A method by name with the settings given; the others are chosen after probing.

    Parameters
    ----------
    wanted : str
        Name of the method.
    given : mapping
        Settings of its constructor that stay as they are.
    """

    wanted: str
    given: Settings

    def __init__(self, wanted: str, given: Settings) -> None:
        # What the method needs and how it answers does not depend on the settings that are still open.
        example = BUILDERS[wanted](Scale(1.0, 0.0, 1000), given)
        for name, value in {"wanted": wanted, "given": given, "example": example, "_built": (None, example)}.items():
            object.__setattr__(self, name, value)

    example: Method
    _built: tuple[Scale | None, Method]

    def __repr__(self) -> str:
        return f"Probed({self.wanted!r}, {self.given!r})"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the method that was asked for."""
        return self.wanted

    @property
    def output(self) -> str:  # type: ignore[override]
        """The output rule of the method that was asked for."""
        return self.example.output

    @property
    def uses_horizon(self) -> bool:
        return True

    def built(self, state: ProbedState) -> Method:
        """Return the method with all its settings, once probing is over."""
        if self._built[0] is not state.scale:
            assert state.scale is not None
            object.__setattr__(self, "_built", (state.scale, BUILDERS[self.wanted](state.scale, self.given)))
        return self._built[1]

    def refusal(self, oracle: Oracle) -> str | None:
        return self.example.refusal(oracle)

    def init(self, x: Array, context: Context) -> ProbedState:
        noisy = context.noisy and context.sample is None
        state = ProbedState(x, probe=Probe.plan(x, self._budget(context), noisy))
        if state.probe.over:
            self._build(state, context)
        return state

    def ask(self, state: ProbedState, context: Context, limit: int | None) -> Query | None:
        if state.inner is not None:
            return self.built(state).ask(state.inner, self._stage(state, context), limit)
        query = state.probe.ask(state.x, context)
        return query if limit is None or len(query) <= limit else None

    def tell(self, state: ProbedState, context: Context, query: Query, values: Array) -> None:
        if state.inner is None:
            state.probe.tell(query, values)
            if state.probe.over:
                self._build(state, context.after(query))
        else:
            self.built(state).tell(state.inner, self._stage(state, context), query, values)
            self._after(state)

    def _after(self, state: ProbedState) -> None:
        inner = state.inner
        state.x, state.nit, state.value = inner.x, inner.nit, inner.value
        state.step, state.gradient_norm = inner.step, inner.gradient_norm

    def _build(self, state: ProbedState, context: Context) -> None:
        state.spent = context.nfev
        evals = max(self._budget(context) - state.spent, 2)
        state.scale = Scale(state.probe.radius / 2, state.x.size * state.probe.floor, evals)
        method = self.built(state)
        shrink = state.probe.fitting(method.margin(), context.project) / method.margin()
        if shrink < 1 and "delta" not in self.given:
            state.scale = Scale(shrink * state.scale.radius, shrink * state.scale.floor, evals)
            method = self.built(state)
        state.leaves = context.project is not None and not context.project.holds(method.margin())
        state.inner = method.init(context.projected(state.x, method.margin()), self._stage(state, context))
        state.x = state.inner.x

    def _stage(self, state: ProbedState, context: Context) -> Context:
        evals = None if context.max_evals is None else max(1, context.max_evals - state.spent)
        return replace(context, max_evals=evals, nfev=context.nfev - state.spent)

    def _budget(self, context: Context) -> int:
        if context.max_evals is not None:
            return context.max_evals
        if context.max_iter is None:
            raise ValueError(
                f"{self.wanted} chooses its steps by the budget: give the run max_evals or max_iter, or all settings."
            )
        return 2 * context.max_iter

    def offer(self, state: ProbedState, left: Array) -> Array | None:
        return None if state.inner is None else self.built(state).offer(state.inner, left)

    def random_stop(self, rng: np.random.Generator, max_iter: int) -> int | None:
        return None  # not before the settings are known

    def gauge(self, state: ProbedState) -> tuple[float, float]:
        return (0.0, 0.0) if state.inner is None else self.built(state).gauge(state.inner)

    def complaints(self, state: ProbedState) -> dict[str, str]:
        return {} if state.inner is None else self.built(state).complaints(state.inner)

    def report(self, state: ProbedState) -> list[str]:
        if state.inner is None:
            return [f"{self.wanted} was still probing for its settings."]
        method = self.built(state)
        leaves = [f"Queries may leave the allowed set by delta = {method.margin():.3g}."] if state.leaves else []
        return [*leaves, f"{state.spent} evaluations of probing chose {method!r}."]
