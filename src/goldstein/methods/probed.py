"""Probed: a method given by name, whose missing settings are chosen from a few counted probes.

Probing at x0 finds the length scale R of the function and its steepness G (`goldstein.methods.probe`). Radii and steps
follow from R, G and the budget; what the user gave stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np

from goldstein.methods.cutting_plane import CuttingPlane
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.ingd import INGD, PINGD, Certifying
from goldstein.methods.method import Context, Method, MethodState
from goldstein.methods.o2nc import O2NC, ZOO2NC
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.probe import Probe
from goldstein.methods.singd import PSINGD, SINGD
from goldstein.methods.warm_start import WarmStart
from goldstein.oracle import Array, Oracle, Query
from goldstein.state import State
from goldstein.steps import Calibrated

Settings = dict[str, Any]
TARGET = 0.1  # ε, in lengths of the gradients around x0
TRAVEL = 5  # radii that a run must be able to travel


@dataclass
class Scale(State):
    """What the settings follow from: the length scale R, the least sensible δ, the evaluations left, and the steepness.

    `gradient` is the root mean square of ‖∇F(x; ξ)‖ around x0; that of a two-point estimate is `estimate`, √d larger.
    """

    radius: float
    floor: float
    evals: int
    gradient: float = 1.0
    estimate: float = 1.0


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
    least = 2 * (given.get("rho") or 0.0)
    settings = {"delta": max(0.1 * scale.radius, scale.floor, least), "batch_size": 1, **given}
    settings = _blocks(scale, settings, max(1, scale.evals // (2 * settings["batch_size"])))
    if _lacks_step(settings):
        D = ZOO2NC(**{**settings, "step_size": 1.0}).play_radius
        settings["step_size"] = D / (scale.estimate * sqrt(settings["block_length"]))
    return ZOO2NC(**settings)


def _o2nc(scale: Scale, given: Settings) -> O2NC:
    settings = _blocks(scale, {"delta": 0.1 * scale.radius, **given}, scale.evals)
    if _lacks_step(settings):  # η = D/(G √M), D = δ/M
        settings["step_size"] = settings["delta"] / (scale.gradient * settings["block_length"] ** 1.5)
    return O2NC(**settings)


def _lacks_step(settings: Settings) -> bool:
    return settings.get("learner") == "ogd" and settings.get("step_size") is None


def _blocks(scale: Scale, settings: Settings, steps: int) -> Settings:
    """Add a block length M; all blocks together can travel (steps / M)·δ, which must be a few R."""
    room = int(steps * settings["delta"] / (TRAVEL * scale.radius))
    return {"block_length": max(1, min(int((0.1 * steps) ** (2 / 3)), room)), **settings}


def _singd(kind: type[SINGD]) -> Callable[[Scale, Settings], SINGD]:
    def build(scale: Scale, given: Settings) -> SINGD:
        delta = given.get("delta", 0.1 * scale.radius)
        memory = log(16 / TARGET)  # (1 − β)·p·δ by the theorem, so that what is older than K steps is forgotten
        # A step along a full gradient is 1/(2p) long. The answer is drawn from the whole run, of which a fifth is to
        # travel a few R; p is at most the theorem's.
        p = given.get("p", min(scale.evals / (10 * TRAVEL * scale.radius), 64 * memory / (delta * TARGET**2)))
        beta = max(0.0, 1 - memory / (p * delta))
        return kind(**{"delta": delta, "p": p, "q": scale.gradient * p, "beta": beta, **given})

    return build


def _certifying(kind: type[Certifying]) -> Callable[[Scale, Settings], Certifying]:
    def build(scale: Scale, given: Settings) -> Certifying:
        return kind(**{"delta": 0.1 * scale.radius, "epsilon": TARGET * scale.gradient, **given})

    return build


BUILDERS: dict[str, Callable[[Scale, Settings], Method]] = {
    "gfm": _gfm,
    "gfm+": _gfm_plus,
    "ws-gfm": _warm_start(_gfm),
    "ws-gfm+": _warm_start(_gfm_plus),
    "one-phase": _one_phase,
    "zo-o2nc": _zo_o2nc,
    "o2nc": _o2nc,
    "singd": _singd(SINGD),
    "psingd": _singd(PSINGD),
    "ingd": _certifying(INGD),
    "pingd": _certifying(PINGD),
    "cutting-plane": _certifying(CuttingPlane),
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
    def sees_values(self) -> bool:  # type: ignore[override]
        """Whether the method that was asked for sees values; the probes do not count."""
        return self.example.sees_values

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
        budget, noisy = self._budget(context), context.noisy and context.sample is None
        self.example.init(x, context)  # what the method cannot do is said before anything is evaluated
        state = ProbedState(x, probe=Probe.plan(x, budget, noisy, careful=True))
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
        d, probe = state.x.size, state.probe
        steep = (probe.steepest or probe.kink or 1.0) * sqrt(d)  # the root mean square slope along w is ‖∇F‖/√d
        if probe.kink and not probe.steepest:  # x0 is a kink on all sides, which has no length of its own
            radius = float(np.linalg.norm(state.x)) or 1.0
        else:
            radius = probe.radius
        state.scale = scale = Scale(radius / 2, d * probe.floor, evals, steep, sqrt(d) * steep)
        method = self.built(state)
        margin, fitting = method.margin(), probe.fitting(method.margin(), context.project)
        if fitting < margin and "delta" not in self.given:
            shrink = fitting / margin
            state.scale = replace(scale, radius=shrink * scale.radius, floor=shrink * scale.floor)
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
        return (1 if self.example.needs_gradient else 2) * context.max_iter

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
        return [*leaves, f"{state.spent} evaluations of probing chose {method!r}.", *method.report(state.inner)]

    def finished(self, state: ProbedState) -> str | None:
        return None if state.inner is None else self.built(state).finished(state.inner)

    def certificate(self, state: ProbedState) -> Any:
        return None if state.inner is None else self.built(state).certificate(state.inner)

    def standing(self, state: ProbedState) -> Array:
        return state.x if state.inner is None else self.built(state).standing(state.inner)
