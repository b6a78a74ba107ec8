"""What the methods that take gradients share: where the gradients come from.

They come from the oracle, or from values alone: then each gradient that a method asks for is found by a walk through
the coordinates and its bisection (`goldstein.estimate.sift`), in rounds of values, and the method is told the gradient
when the last round is over. The method itself does not know the difference.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.estimate import sift
from goldstein.estimate.smoothing import Along, draw_ball
from goldstein.methods.method import Context, Method, MethodState, Needs, Scale, Step, check_rho
from goldstein.norms import norms
from goldstein.oracle import DOUBLE, Array, Query, Samples
from goldstein.oracle.recipe import Clipped, Joined
from goldstein.state import LATER, State

SOURCES = ("oracle", "sift")
FD_STEP = 1e-5  # h, in ρ, where rounding allows it
MAX_FD_STEP = 0.1  # √d·h at most, in ρ, however coarse the values are
FARTHEST = 1.5  # |h_j| at most, in h
ROUNDOFF_FACTOR = 100.0  # h at least, in rounding errors √d·u|F| of a gradient over its size
WARN_AFTER = 50  # gradients, most of which differ by rounding alone, before the warning


@dataclass
class Sifted(State):
    """Gradients from values: the query that is being sifted, and what the values have shown so far."""

    points: Array = LATER  # points, samples, memory: of the method's own query
    samples: Samples | None = None
    memory: Any = None
    bisection: sift.Sift | None = None  # the bisection that is under way
    fd_step: float = 0.0  # its h
    sum_sq_norm: float = 0.0  # sum of ‖g‖² over all gradients
    n_estimates: float = 0.0  # how many those are
    n_active: float = 0.0  # how many of them were not 0
    magnitude: float = 0.0  # sum of |v(0)| over them
    below_roundoff: int = 0  # those whose ends differ by rounding alone

    @property
    def level(self) -> float:
        return self.magnitude / max(self.n_estimates, 1.0)

    def rounding(self, d: int, roundoff: float) -> float:
        """Return the rounding error of a gradient, √d·u|F|/h."""
        return sqrt(d) * roundoff * self.level / self.fd_step if self.fd_step else 0.0

    @np.errstate(over="ignore", invalid="ignore")
    def finish(self) -> tuple[Query, Array]:
        """Return the method's query and its gradients, NaN where a value failed; nothing is under way any more."""
        bisection = self.bisection
        assert bisection is not None
        gradients = bisection.gradients()
        fine = ~bisection.failed & np.isfinite(gradients).all(axis=1)
        sizes = norms(gradients[fine])
        self.sum_sq_norm += float((sizes * sizes).sum())
        self.n_estimates += sizes.size
        self.n_active += int((sizes > 0).sum())
        self.magnitude += float(np.abs(bisection.first[fine]).sum())
        self.below_roundoff += int(bisection.below_roundoff[fine].sum())
        query = Query(self.points, self.samples, order=1, aux=self.memory)
        self.points = LATER
        self.samples = None
        self.memory = None
        self.bisection = None
        return query, np.where(fine[:, None], gradients, np.nan)

    def annotate(self, step: Step, d: int) -> Step:
        """Return a step with the noise of the gradients so far, and what they have shown to be wrong."""
        mean = self.sum_sq_norm / max(self.n_estimates, 1.0)
        delta = sqrt(d) * self.fd_step  # so that d·u|F|/δ is √d·u|F|/h
        warnings = dict(step.warnings or {})
        if self.n_estimates >= WARN_AFTER and 2 * self.below_roundoff > self.n_estimates:
            warnings.setdefault("precision", self._roundoff_warning())
        return replace(step, delta=delta, mean_sq_norm=mean, n_estimates=self.n_estimates, warnings=warnings or None)

    def _roundoff_warning(self) -> str:
        share = self.below_roundoff / self.n_estimates
        return (
            f"Rounding errors of F (|F| about {self.level:.2g}) hide {share:.0%} of the gradients at "
            f"fd_step={self.fd_step:.3g}: use larger fd_step and rho, higher precision, or subtract a constant from F."
        )


@dataclass
class Batch:
    """The memory of the first round: the method's query and its bisection with h."""

    query: Query
    bisection: sift.Sift
    fd_step: float


@dataclass
class FirstOrderState(MethodState):
    """State of a method that takes gradients; `sifted` is None when they come from the oracle."""

    sifted: Sifted | None = None


@dataclass(frozen=True, kw_only=True)
class FirstOrder(Method):
    """Base of the methods that take gradients.

    Parameters
    ----------
    gradients : {"oracle", "sift"}
        The oracle's own gradients; or from values alone: for a gradient at y, F(y + ρ'u + Σ_{j<k} h_j e_j; ξ) at k = 0
        and k = d, and in the middle of every interval of k whose ends differ, all with one ξ. That takes d + 1 values
        at most, 2 where F(·; ξ) is flat and about s·(log₂(d/s) + 2) where s coordinates matter; see docs/sifting.md.
    rho : float, optional
        ρ, for "sift": all values for a gradient at y lie within ρ of y (ρ' is ρ less the length of the walk), and
        their mean is near ∇f_ρ'(y), which lies in ∂_ρ f(y). What the method does itself stays within δ − ρ.
        None: a small part of δ.
    fd_step : float, optional
        h, for "sift": h_j = ±U(½, 3/2)·h. None: 1e-5·ρ, or as much as rounding errors of F ask for.
    """

    gradients: str = "oracle"
    rho: float | None = None
    fd_step: float | None = None

    _share: ClassVar[float] = 0.05  # ρ, in δ, when it is not given

    def _check_source(self) -> None:
        """Check δ, and the settings that say where gradients come from."""
        arguments.check(self, arguments.positive, "delta")
        arguments.one_of("gradients", self.gradients, SOURCES)
        for name in ("rho", "fd_step"):
            if self.gradients == "oracle" and getattr(self, name) is not None:
                raise ValueError(f'{name} is for gradients="sift"; the oracle\'s own gradients need none.')
        check_rho(self)
        arguments.check(self, arguments.optional_positive, "fd_step")

    @property
    def _radius(self) -> float:
        """ρ: how far from a point the values for its gradient lie; 0 for the oracle's own."""
        if self.gradients == "oracle":
            return 0.0
        delta: float = self.delta  # type: ignore[attr-defined]
        return self._share * delta if self.rho is None else self.rho

    def _with_source(self, needs: Needs) -> Needs:
        """Return the needs of a method that takes gradients, with this source of them."""
        if self.gradients == "oracle":
            return replace(needs, gradients=True, sifting=True)
        reach = max(needs.query_radius, self._radius)
        return replace(needs, replay="evaluates the same ξ at several points", query_radius=reach, respects_bounds=True)

    @classmethod
    def _affordable(cls, scale: Scale, options: Mapping[str, Any]) -> int:
        """Return how many gradients the evaluations left buy, if all of them are dense."""
        if options.get("gradients") != "sift":
            return scale.evals
        d = (scale.estimate / scale.gradient) ** 2
        return max(1, int(scale.evals / (d + 1)))

    def init(self, x: Array, context: Context) -> Any:
        state = self._init(x, context)
        if self.gradients == "sift":
            state.sifted = Sifted()
            walk_length = self._walk_length(self._fd_step(state.sifted, context, x.size), x.size)
            if walk_length >= self._radius:
                raise ValueError(
                    f"A walk of fd_step = {self.fd_step:g} through {x.size} coordinates is {walk_length:.3g} long: it "
                    f"must be shorter than rho = {self._radius:g}."
                )
        return state

    def ask(self, state: Any, context: Context, limit: int | None) -> Query | None:
        sifted: Sifted | None = state.sifted
        if sifted is None:
            return self._ask(state, context, limit)
        if sifted.bisection is not None:
            affordable = limit is None or sifted.bisection.pending <= limit
            return sifted.bisection.query() if affordable else None
        query = self._ask(state, context, limit)
        if query is None or query.order == 0:
            return query
        if limit is not None and limit < 2 * len(query):
            return None
        batch = self._start_batch(sifted, context, query)
        first = batch.bisection.query()
        first.aux = batch
        return first

    def tell(self, state: Any, context: Context, query: Query, values: Array) -> Step:
        sifted: Sifted | None = state.sifted
        batch = query.aux
        if isinstance(batch, Batch) and sifted is not None:
            sifted.points = batch.query.points
            sifted.samples = batch.query.samples
            sifted.memory = batch.query.aux
            sifted.bisection = batch.bisection
            sifted.fd_step = batch.fd_step
        if sifted is None or sifted.bisection is None:
            return self._tell(state, context, query, values)
        sifted.bisection.tell(values)
        if not sifted.bisection.over:
            return sifted.annotate(state.make_step(completed=0, partial=True), state.x.size)
        query, gradients = sifted.finish()
        return sifted.annotate(self._tell(state, context, query, gradients), state.x.size)

    @abstractmethod
    def _init(self, x: Array, context: Context) -> Any:
        """Return the state at the start point."""

    @abstractmethod
    def _ask(self, state: Any, context: Context, limit: int | None) -> Query | None:
        """Return the next query, for values or for gradients."""

    @abstractmethod
    def _tell(self, state: Any, context: Context, query: Query, values: Array) -> Step:
        """Take the answer of a query of the method's own, and return what the step says."""

    @np.errstate(over="ignore", invalid="ignore")
    def _start_batch(self, sifted: Sifted, context: Context, query: Query) -> Batch:
        """Draw where the walks for a query begin and how they go, in this order."""
        k, d = query.points.shape
        h = self._fd_step(sifted, context, d)
        away = self._radius - self._walk_length(h, d)
        u, directions = draw_ball(context.rng, k, d)
        y = query.points + away * u
        bounds = context.bounds(d)
        if bounds is not None:  # narrower than 2ρ, perhaps
            y = np.clip(y, *bounds)
        unit, stream = sift.draw_units(context.rng, k, d)
        walk = sift.walk(y, unit, h, bounds)
        if directions is not None and stream is not None:
            starts = [Along(x, away, directions.rows(row, row + 1)) for row, x in enumerate(query.points)]
            base = Joined(starts) if bounds is None else Clipped(Joined(starts), bounds)
            walk.origin = sift.Origin(base, [stream.rows(row, row + 1) for row in range(k)], h, bounds)
        return Batch(query, sift.Sift.of(walk, query.samples, roundoff=context.facts.roundoff), h)

    def _fd_step(self, sifted: Sifted, context: Context, d: int) -> float:
        """Return h: a small part of ρ, or as much as the rounding errors of the values ask for."""
        if self.fd_step is not None:
            return self.fd_step
        h = FD_STEP * self._radius
        if sifted.sum_sq_norm:
            scale = sqrt(sifted.sum_sq_norm / sifted.n_active)
            h = max(h, ROUNDOFF_FACTOR * sqrt(d) * context.facts.roundoff * sifted.level / scale)
        elif context.facts.roundoff > DOUBLE:  # short steps would show nothing, and the scale would stay unknown
            h = self._radius
        return min(h, MAX_FD_STEP * self._radius / sqrt(d))

    @staticmethod
    def _walk_length(h: float, d: int) -> float:
        return FARTHEST * sqrt(d) * h
