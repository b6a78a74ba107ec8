"""What the methods that see only values share: directions, estimator, and the cutting of a last batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.estimate.smoothing import (
    DIRECTIONS,
    ESTIMATORS,
    Central,
    Directions,
    Estimator,
    LeaveOneOut,
    Mask,
    draw_sphere,
    mean_estimate,
)
from goldstein.methods.method import Context, Method, MethodState, Needs, Step, Unsupported, any_iterate
from goldstein.norms import HUGE
from goldstein.oracle import Array, Query
from goldstein.oracle.recipe import Joined
from goldstein.steps import LinearDecay, StepRule, as_rule

OPTIONAL = ("large_batch_size", "search")  # counts that may be None
Draw = Callable[[np.random.Generator, int, int], Array]


@dataclass
class Batch:
    """What belongs to a query: the directions, at how many iterates, and what it is for."""

    w: Array
    blocks: int
    purpose: Any = ""


@dataclass
class Reading:
    """What a batch says: coefficients at each iterate, over the directions that did not fail."""

    w: Array
    usable: Mask
    coefficients: list[Array]
    value: float

    @property
    def empty(self) -> bool:
        return not self.usable.any()

    def estimate(self, block: int = 0) -> Array:
        """Return the mini-batch estimate g(x; S) at one of the iterates (Definition 7)."""
        return mean_estimate(self.w, self.coefficients[block], self.usable)


@dataclass
class SmoothedState(MethodState):
    """State of a method that estimates ∇f_δ."""

    rule: Any = None  # memory of the step rule
    sum_sq_norm: float = 0.0  # Σ ‖g(x; w_i, ξ_i)‖²
    n_estimates: float = 0.0  # directions in that sum


@dataclass(frozen=True, kw_only=True)
class ZerothOrder(Method):
    """Base of the methods that see only values.

    Parameters
    ----------
    directions : {"iid", "orthogonal"}
        Independent directions, or orthonormal frames of them: less variance at the same cost once a batch
        has a sizeable share of d directions.
    estimator : {"central", "loo"} or an estimator from goldstein.estimate.smoothing
        Two values a direction, or one compared with the group (`LeaveOneOut`).
    """

    directions: str = "iid"
    estimator: str | Estimator = "central"

    def _check(self, *counts: str) -> None:
        """Validate the settings that all zeroth-order methods have, and these counts."""
        arguments.check(self, arguments.positive, "delta")
        for name in counts:
            arguments.check(self, arguments.optional_count if name in OPTIONAL else arguments.count, name)
        arguments.one_of("directions", self.directions, DIRECTIONS)
        if isinstance(self.estimator, str):
            arguments.one_of("estimator", self.estimator, ESTIMATORS)
        elif not isinstance(self.estimator, Estimator):
            raise TypeError(f"estimator must be a name or an estimator, got {type(self.estimator).__name__}.")
        for name in counts:
            count = getattr(self, name)
            if name.endswith("batch_size") and count is not None and not self._estimator.batch(count, True):
                raise ValueError(f"The leave-one-out estimator needs {name} of at least one group, got {count}.")

    @cached_property
    def _estimator(self) -> Estimator:
        return ESTIMATORS[self.estimator]() if isinstance(self.estimator, str) else self.estimator

    @cached_property
    def _rule(self) -> StepRule:
        return as_rule(self.step_size)  # type: ignore[attr-defined]

    @property
    def needs(self) -> Needs:
        leave_one_out = isinstance(self._estimator, LeaveOneOut)
        return Needs(
            replay="compares values under one ξ (leave-one-out)" if leave_one_out else "",
            pairs=self._radius,
            query_radius=self._radius,
            random_stop=any_iterate,
        )

    @property
    def _ahead(self) -> bool:
        """Whether the step rule must know where the run ends."""
        return isinstance(self._rule, LinearDecay) and self._rule.iterations is None

    @property
    def _radius(self) -> float:
        delta: float = self.delta  # type: ignore[attr-defined]
        return delta

    def _make_step(self, state: SmoothedState, iterate: Array | None, completed: int = 1, **more: Any) -> Step:
        """Return what a step says, with the noise of the estimates so far."""
        power = state.sum_sq_norm / max(state.n_estimates, 1)
        return state.make_step(
            iterate, completed, delta=self._radius, mean_sq_norm=power, n_estimates=state.n_estimates, **more
        )

    def _check_compilable(self) -> None:
        """Raise `Unsupported` where there is no machine code for these settings."""
        if self.directions != "iid" or not isinstance(self._estimator, Central):
            raise Unsupported("The compiled loops use independent directions and central differences only.")

    def _query(
        self, at: list[Array], b: int, context: Context, limit: int | None, purpose: str = "", draw: Draw | None = None
    ) -> Query | None:
        """Ask for the estimates of one batch S at each of the iterates `at`, cut to `limit` evaluations.

        The last batch is cut when at least half of it fits (noise grows by √2 at most), else not started;
        a run's very first batch is cut to what fits. `draw` gives the directions, if not the setting does.
        """
        estimator = self._estimator
        stochastic = context.sample is not None
        cost = estimator.evaluations * len(at)
        fits = estimator.batch(b if limit is None else min(b, limit // cost), stochastic)
        first = context.facts.counted == context.facts.nfev_diagnostic
        if fits == 0 or (2 * fits < b and not first):
            return None
        xi = estimator.draw(context.sample, context.rng, fits)
        w, directions = self._draw_directions(context, fits, at[0].size, draw)
        points = [estimator.points(x, w, self._radius) for x in at]
        recipe = None
        if directions is not None:
            recipe = Joined([estimator.recipe(x, directions, self._radius) for x in at])
        return Query(
            points[0] if len(points) == 1 else np.concatenate(points),
            xi if xi is None or len(at) == 1 else np.concatenate([xi] * len(at)),
            truncated=fits < b,
            aux=Batch(w, len(at), purpose),
            fresh=True,
            recipe=recipe,
        )

    def _draw_directions(self, context: Context, k: int, d: int, draw: Draw | None) -> tuple[Array, Directions | None]:
        """Draw k directions; return also how to draw them again, if they are many."""
        if draw is None and self.directions == "iid":
            return draw_sphere(context.rng, k, d)
        return (draw or DIRECTIONS[self.directions])(context.rng, k, d), None

    def _read(self, state: SmoothedState, context: Context, query: Query, values: Array) -> Reading:
        """Turn the values of a batch into coefficients; a failed value removes its (w_i, ξ_i) at every iterate."""
        estimator = self._estimator
        stochastic = context.sample is not None
        batch = query.aux
        blocks = values.reshape(batch.blocks, estimator.evaluations, -1)
        usable = estimator.usable(blocks, stochastic)
        d = query.points.shape[1]
        delta = self._radius
        with np.errstate(over="ignore", invalid="ignore"):  # values whose difference overflows are no estimate
            coefficients = [estimator.coefficients(block, usable, d, delta, stochastic) for block in blocks]
            power = max(float(c @ c) for c in coefficients)
            if not power < HUGE * HUGE:
                usable[usable] = (np.abs(np.stack(coefficients)) < HUGE).all(axis=0)
                coefficients = [estimator.coefficients(block, usable, d, delta, stochastic) for block in blocks]
            value = float(blocks[0][:, usable].mean()) if usable.any() else np.nan
        if not np.isnan(value):
            state.sum_sq_norm += float(coefficients[0] @ coefficients[0])
            state.n_estimates += coefficients[0].size
            state.value = value
        return Reading(batch.w, usable, coefficients, value)

    @np.errstate(over="ignore", invalid="ignore")
    def _step(self, state: SmoothedState, context: Context, v: Array) -> None:
        """Move along −v by the step rule, back into the allowed set, δ inside it."""
        squared = float(v @ v)
        eta = self._rule.size(state.rule, state.nit, context.progress(state.nit), state.value, squared)
        state.x = context.projected(state.x - eta * v, self._radius)
        state.step_size = eta
        state.grad_norm = float(np.sqrt(squared))
