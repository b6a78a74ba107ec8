"""Sift: descent along component gradients that are found from values by bisection."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments, retired
from goldstein.compiled.tally import SIFT, SIFT_BATCH, SIFT_SETTINGS, new_record, new_tally, record_of, write_back
from goldstein.estimate import sift
from goldstein.estimate.smoothing import Along, draw_ball
from goldstein.estimate.stream import Stream
from goldstein.facts import SHORT_VALUES
from goldstein.methods.kernel import CHUNK, CompiledKernel, locate, tally_of
from goldstein.methods.method import (
    Chunk,
    ChunkResult,
    Context,
    Kernel,
    Method,
    MethodState,
    Needs,
    Scale,
    Step,
    Unsupported,
    any_iterate,
)
from goldstein.norms import HUGE, norm
from goldstein.oracle import DOUBLE, Array, Oracle, Query, Samples
from goldstein.oracle.recipe import Recipe, Repeated
from goldstein.output import Average
from goldstein.projection import Box
from goldstein.state import LATER, MADE_AGAIN

FD_STEP = 1e-5  # h, in radii, where rounding allows it
MAX_FD_STEP = 0.1  # h at most, in radii, however coarse the values are
ROUNDOFF_FACTOR = 100.0  # h at least, in rounding errors √d·u|F| of an estimate over its size
TOLERANCE = 0.01  # of an interval, in h times the size of a gradient
DENSE_ABOVE = 100  # coordinates beyond which the tolerance shrinks, so that closed intervals add 4 % to E‖g‖² at most
BUDGET_SHARE, MIN_EVALS_PER_SAMPLE = 40, 4  # values for one ξ: a fortieth of the budget, at least 4
WARN_AFTER = 50  # components before rounding is judged beside the size of gradients
RADIUS_FACTOR = 1.4  # R that is guessed, in radii of kinks over √d
REUSE_PERIOD = 4  # batches, at most, that use the steps of a walk on which nothing changed
CLIP_FACTOR, CLIP_AFTER = 10.0, 10  # ‖g‖ is clipped at 10 times its root mean square, after 10 estimates
GROWTH = 2.0  # and how it grows: the best R is about this many times the distance to the solution
LONG_RUN, GROWTH_POWER = 3000, 0.25  # with more gradients than this the growth rises with this power of them
MIN_ITERATIONS = 10_000  # iterations that a guessed batch leaves, even if all components are dense
MAX_BATCH = 16
UNLIMITED = sys.maxsize


@dataclass
class SiftState(MethodState):
    """State of `Sift`."""

    origin: Array = LATER
    radius: float = 0.0  # R
    walk: float = 0.0  # the sum of ‖step‖² so far
    squares: Array = LATER  # G_j, the sum of g_j² so far
    bisection: sift.Sift | None = None  # the bisection that is under way
    progress: float = 0.0  # share of the run that was over when it began
    units: Array | None = None  # shape (batch, d): steps of the walks in units of h
    # which of them are drawn anew for the next batch: those of flat components are used again, but for every fourth
    # batch (effects that cancel on a walk would do so for ever)
    resample: sift.Mask | None = None
    # from where each of the units was drawn, for points that are made again elsewhere; None where that is unknown
    streams: list[Stream | None] | None = field(default=None, metadata=MADE_AGAIN)
    order: sift.Whole | None = None  # order, place: the components of a finite sum in random order, and the next one
    place: int = 0
    sum_sq_norm: float = 0.0  # sum of ‖g‖² over all ξ
    n_estimates: float = 0.0  # how many those are
    n_active: float = 0.0  # how many of them were not flat
    magnitude: float = 0.0  # sum of |v(0)| over them
    below_roundoff: int = 0  # those whose ends differ by rounding alone
    set_note: str = ""  # by how much queries may leave the allowed set

    @property
    def scale(self) -> float:
        """The root mean square of ‖g‖ over the components that were not flat; 0 before there is one."""
        return sqrt(self.sum_sq_norm / self.n_active) if self.n_active else 0.0


@dataclass
class Batch:
    """A new batch: its bisection, the units of its steps, and the order of the components after it."""

    bisection: sift.Sift
    units: Array
    streams: list[Stream | None] | None
    order: sift.Whole | None
    place: int


@retired.fields(step="fd_step", cap="max_evals_per_sample")
@dataclass(frozen=True)
class Sift(Method):
    """Descent along component gradients from values: a walk through the coordinates for each ξ, and its bisection.

    For each ξ of a batch, v(k) = F(y + Σ_{j<k} h_j e_j; ξ) is asked at k = 0 and k = d, and then in the middle of every
    interval whose ends differ: g_j = (v(j + 1) − v(j))/h_j, h_j = ±U(½, 3/2)·h with random signs. That takes d + 1
    values at most, 2 where the component is flat, and about s·(log₂(d/s) + 2) where s coordinates matter. With g the
    mean over the batch, G_j the sum of all g_j² and u the share of the budget that is used,

        x_j ← x_j − R (1 − u) g_j √(u / G_j)    where g_j ≠ 0,
        R ← max(R, growth · r),  r² = (‖x − x0‖² − Σ‖steps‖²) / #{j: G_j > 0}, at most twofold at once.

    r is how far a coordinate has travelled, the random walk of the steps taken off. An R that is too small moves x
    steadily in one direction, and so grows by powers; one that is large enough stays.

    Parameters
    ----------
    radius : float
        R at the start: with T iterations a coordinate can travel about R√T/2.
    fd_step : float, optional
        h. None: 1e-5·R, or as much as rounding errors of F ask for, √d·u|F|/h being 1 % of ‖g‖.
    batch_size : int, optional
        ξ in each iteration. Without ξ and without `rho` all walks of a batch would be one, and there is one.
    decay : float, optional
        Power of 1 − u. 0: steps R g_j / √G_j, which need no budget to be planned for.
    tolerance : float, optional
        An interval whose ends differ by no more than tolerance · h · scale stays closed, and its coordinates get the
        random-sign estimate (v(hi) − v(lo))/h_j; scale is the root mean square of ‖g‖ over components that were not
        flat. None: 0.01, beyond 100 coordinates 0.1/√d.
    rho : float, optional
        ρ > 0: the walks start at y = x + ρu, u uniform in the unit ball, and estimate ∇f_ρ(x), up to h.
    growth : float, optional
        R grows with the distance travelled; 0: it stays as it is.
    max_evals_per_sample : int, optional
        Values for one ξ, at most; the intervals that are left then keep the random-sign estimate. None: a fortieth of
        the budget, 4 at least.

    Notes
    -----
    Differences of up to 1e-14·|v(0)| count as none. Within bounds the signs of h_j are those that stay inside, so a
    start on the boundary is an ordinary start; where a sign was not free to choose, an interval is opened for any
    tolerance. A ξ with a failed value is left out of the batch. A finite sum is sampled in random order without
    replacement. ‖g‖ is cut at ten times its root mean square so far: one spike, near a pole say, would make all later
    steps of its coordinates tiny.

    What is known about the estimates (the bias goes to zero with h, E‖g‖² ≤ L² up to the tolerance) is for ρ > 0; the
    default sifts at x itself.

    References
    ----------
    Sparse gradients from few values are known for smooth deterministic f whose own gradient is sparse: Cai, McKenzie,
    Yin, Zhang (2022), ZORO: zeroth-order regularized optimization method, SIAM J. Optim.; Grapiglia, McKenzie (2025),
    ZORO-FA; Qiu, Tong (2024), GraCe, ICML. Here the sparsity is that of one component, under a ξ that is replayed, and
    nothing is assumed to be smooth. The steps are those of AdaGrad: Duchi, Hazan, Singer (2011), JMLR.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> def F(X, i):
    ...     return np.abs((rows[i] * (X - 1)).sum(axis=1))
    >>> oracle = gs.FiniteSum(F, 100, vectorized=True)
    >>> res = gs.minimize(oracle, np.zeros(3), gs.Sift(radius=1.0), max_evals=4000, rng=0)
    >>> bool(np.allclose(res.x, 1, atol=0.05))
    True
    """

    radius: float
    fd_step: float | None = None
    batch_size: int = 1
    decay: float = 1.0
    tolerance: float | None = None
    rho: float = 0.0
    max_evals_per_sample: int | None = None
    growth: float = 0.0
    name: ClassVar[str] = "sift"

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "radius")
        arguments.check(self, arguments.optional_positive, "fd_step")
        arguments.check(self, arguments.count, "batch_size")
        arguments.check(self, arguments.not_negative, "decay", "rho", "growth")
        if self.tolerance is not None:
            arguments.check(self, arguments.not_negative, "tolerance")
        arguments.check(self, arguments.optional_count, "max_evals_per_sample", least=2)

    @property
    def needs(self) -> Needs:
        return Needs(
            replay="evaluates the same ξ at several points",
            horizon=self.decay > 0 or self.max_evals_per_sample is None,
            query_radius=self.rho,
            respects_bounds=True,
            random_stop=any_iterate,
        )

    def init(self, x: Array, context: Context) -> SiftState:
        if self.decay > 0 and context.progress(0) is None:
            raise ValueError("sift plans its steps for the budget: give the run max_evals or max_iter, or decay=0.")
        state = SiftState(x, radius=self.radius, squares=np.zeros(x.size))
        margin = self._margin(state, context)
        if margin and context.project is not None and not context.project.holds(margin):
            state.set_note = f"Queries may leave the allowed set by delta = {margin:.3g}."
        state.x = context.projected(x, margin)
        state.origin = state.x
        return state

    def ask(self, state: SiftState, context: Context, limit: int | None) -> Query | None:
        remaining = UNLIMITED if limit is None else limit
        if state.bisection is not None:
            return state.bisection.query() if state.bisection.pending <= remaining else None
        bounds = context.bounds(state.x.size)
        free = state.x.size if bounds is None else int((bounds[0] < bounds[1]).sum())
        if free == 0 or remaining < 2:
            return None
        size = self._batch(context)
        cap = self._max_evals_per_sample(context)
        most = min(free + 1, cap)
        fits = min(size, max(1, remaining // most))
        batch = self._start_batch(state, context, fits, min(cap, remaining))
        query = batch.bisection.query()
        query.aux = batch
        query.truncated = fits < size or remaining < most
        return query

    def tell(self, state: SiftState, context: Context, query: Query, values: Array) -> Step:
        if query.aux is not None:
            batch: Batch = query.aux
            state.bisection = batch.bisection
            state.units = batch.units
            state.streams = batch.streams
            state.order = batch.order
            state.place = batch.place
            state.progress = context.progress(state.nit) or 0.0
        assert state.bisection is not None
        state.bisection.tell(values)
        if not state.bisection.over:
            return self._make_step(state, context, None, 0)
        iterate = state.x
        state.nit += 1
        self._update(state, context.after(query), state.bisection)
        state.bisection = None
        return self._make_step(state, context, iterate, 1)

    def _start_batch(self, state: SiftState, context: Context, size: int, cap: int) -> Batch:
        """Draw the ξ of a batch, the steps of their walks and, with ρ > 0, where they start, in this order."""
        d = state.x.size
        samples, order, place = _draw(state, context, size)
        units, streams = self._units(state, context)
        y = state.x[None]
        base: Recipe | None = Repeated(state.x, 1)
        if self.rho:
            u, directions = draw_ball(context.rng, size, d)
            y = state.x + self.rho * u
            base = None if directions is None else Along(state.x, self.rho, directions)
        h = self._fd_step(state, context)
        bounds = context.bounds(d)
        walk = sift.walk(y, units[:size], h, bounds)
        drawn = [stream for stream in (streams or [])[:size] if stream is not None]
        if base is not None and len(drawn) == size:
            walk.origin = sift.Origin(base, drawn, h, bounds)
        tolerance = self._tolerance(d) * h * state.scale
        return Batch(sift.Sift.of(walk, samples, tolerance, cap, context.facts.roundoff), units, streams, order, place)

    def _units(self, state: SiftState, context: Context) -> tuple[Array, list[Stream | None] | None]:
        """Return steps in units of h, drawn anew but for components that were flat; and from where, if many."""
        size = self._batch(context)
        d = state.x.size
        resample = np.ones(size, np.bool_)
        units = np.empty((size, d))
        if state.units is not None and state.resample is not None:
            resample = state.resample
            units = state.units.copy()
        units[resample], stream = sift.draw_units(context.rng, int(resample.sum()), d)
        if stream is None:
            return units, None
        streams: list[Stream | None] = [None] * size
        if state.streams is not None:
            streams = list(state.streams)
        for place, row in enumerate(np.flatnonzero(resample).tolist()):
            streams[row] = stream.rows(place, place + 1)
        return units, streams

    @np.errstate(over="ignore", invalid="ignore")
    def _update(self, state: SiftState, context: Context, bisection: sift.Sift) -> None:
        """Take the estimates of a batch into the step of diagonal AdaGrad; those that failed are left out."""
        gradients = bisection.gradients()
        usable = ~bisection.failed & (np.abs(gradients).max(axis=1) < HUGE)
        flat = usable & bisection.flat
        state.resample = np.ones(self._batch(context), np.bool_)
        if context.sample is not None and state.nit % REUSE_PERIOD:  # without ξ the same walk would say the same again
            state.resample[: flat.size] = ~flat
        if not usable.any():
            return
        gradients = gradients[usable]
        count = len(gradients)
        lengths = np.sqrt(_sum((gradients * gradients).T))
        usual = CLIP_FACTOR * state.scale if state.n_active >= CLIP_AFTER else np.inf
        spikes = lengths > usual
        gradients[spikes] *= (usual / lengths[spikes])[:, None]
        lengths[spikes] = usual
        state.sum_sq_norm += _sum(lengths * lengths)
        state.n_estimates += count
        state.n_active += count - int(flat.sum())
        state.magnitude += _sum(np.abs(bisection.first[usable]))
        state.below_roundoff += int(bisection.below_roundoff[usable].sum())
        state.value = _sum(bisection.first[usable]) / count
        g = _sum(gradients) / count
        state.grad_norm = norm(g)
        state.step_size = self._step_size(state, context)
        state.squares = state.squares + g * g
        moving = state.squares > 0  # where g_j = 0, x_j stays as it is
        ahead = state.x.copy()
        ahead[moving] -= state.step_size * (g[moving] / np.sqrt(state.squares[moving]))
        iterate = state.x
        state.x = context.projected(ahead, self._margin(state, context))
        if self.growth:
            self._grow(state, iterate, int(moving.sum()))

    def _grow(self, state: SiftState, iterate: Array, moving: int) -> None:
        """Let R grow with the distance travelled, the random walk of the steps taken off."""
        step = state.x - iterate
        away = state.x - state.origin
        state.walk += _sum(step * step)
        net = _sum(away * away) - state.walk
        if net > 0:
            travelled = self.growth * sqrt(net / moving)
            state.radius = max(state.radius, min(travelled, 2 * state.radius))

    def _step_size(self, state: SiftState, context: Context) -> float:
        """Return R (1 − u) √u at the middle of the last batch."""
        if self.decay == 0:
            return state.radius
        u = 0.5 * (state.progress + (context.progress(state.nit) or 0.0))
        rest = 1.0 - u
        return float(state.radius * rest**self.decay * sqrt(u))

    def _fd_step(self, state: SiftState, context: Context) -> float:
        """Return h: a small part of R, or as much as the rounding errors of the values ask for."""
        if self.fd_step is not None:
            return self.fd_step
        h = FD_STEP * self.radius
        if not state.scale:  # of coarse values short steps would show nothing, and the scale would stay unknown
            return h if context.facts.roundoff == DOUBLE else MAX_FD_STEP * self.radius
        level = state.magnitude / state.n_estimates
        needed = ROUNDOFF_FACTOR * sqrt(state.x.size) * context.facts.roundoff * level / state.scale
        return max(h, min(needed, MAX_FD_STEP * self.radius))

    def _tolerance(self, d: int) -> float:
        if self.tolerance is not None:
            return self.tolerance
        return TOLERANCE * min(1.0, sqrt(DENSE_ABOVE / d))

    def _batch(self, context: Context) -> int:
        return 1 if context.sample is None and not self.rho else self.batch_size

    def _max_evals_per_sample(self, context: Context) -> int:
        if self.max_evals_per_sample is not None:
            return self.max_evals_per_sample
        if context.max_evals is None:
            return UNLIMITED
        return max(MIN_EVALS_PER_SAMPLE, context.max_evals // BUDGET_SHARE)

    def _margin(self, state: SiftState, context: Context) -> float:
        """Return how far queries lie from the iterate, where no sign keeps them inside the allowed set."""
        if isinstance(context.project, Box):
            return self.rho
        return self.rho + 1.5 * sqrt(state.x.size) * self._fd_step(state, context)

    def _make_step(self, state: SiftState, context: Context, iterate: Array | None, completed: int) -> Step:
        delta = 0.0
        power = 0.0
        warnings = None
        if state.n_estimates >= WARN_AFTER:
            delta = sqrt(state.x.size) * self._fd_step(state, context)  # so that d·u|F|/δ is √d·u|F|/h
            power = state.sum_sq_norm / state.n_estimates
            if state.below_roundoff > max(state.n_active, WARN_AFTER / 4):
                warnings = {"precision": self._roundoff_warning(state, context)}
        notes = {"set": state.set_note} if state.set_note else None
        return state.make_step(
            iterate,
            completed,
            delta=delta,
            mean_sq_norm=power,
            n_estimates=state.n_estimates,
            warnings=warnings,
            notes=notes,
            partial=state.bisection is not None,
        )

    def _roundoff_warning(self, state: SiftState, context: Context) -> str:
        share = state.below_roundoff / state.n_estimates
        level = state.magnitude / state.n_estimates
        return (
            f"Rounding errors of F (|F| about {level:.2g}) hide the differences of {share:.0%} of the components at "
            f"fd_step={self._fd_step(state, context):.3g}: use a larger one, higher precision, or subtract a constant."
        )

    def kernel(self, oracle: Oracle) -> Kernel:
        if self.rho:
            raise Unsupported("The compiled loop of sift walks from x itself, with rho = 0.")
        return _Compiled(self, oracle, 2)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> Sift:
        root = scale.estimate / scale.gradient  # √d
        batch = batch_for(scale.evals, root * root)
        growth = growth_for(scale.evals, root * root)
        return cls(**{"radius": 2 * scale.radius / root, "batch_size": batch, "growth": growth, **options})


class _Compiled(CompiledKernel):
    """Whole iterations in machine code; a bisection that was begun the plain way is ended the plain way.

    What an iteration costs is known when it is over, so a plan is the most that may fit, and the iterations end where
    the evaluations planned for are made.
    """

    _edge = math.inf

    def plan(self, state: SiftState, context: Context, limit: int | None, until: float, most: int | None) -> int:
        method: Sift = self.method
        highest = method._batch(context) * min(state.x.size + 1, method._max_evals_per_sample(context))
        if state.bisection is not None or (limit is not None and limit < highest):
            return 0
        soft = max(1, min(until, CHUNK))
        self._edge = context.nfev + soft
        iterations = math.ceil(soft / (2 * method._batch(context)))
        return iterations if most is None else min(iterations, most)

    def run(self, state: SiftState, context: Context, chunk: Chunk) -> ChunkResult:
        """Do the iterations; since they differ in cost, this calls the loop itself."""
        from goldstein.compiled import sift as loop  # which needs numba

        method: Sift = self.method
        d = state.x.size
        size = method._batch(context)
        state.x = state.x.copy()
        state.squares = state.squares.copy()
        state.units = np.empty((size, d)) if state.units is None else state.units.copy()
        state.resample = np.ones(size, np.bool_) if state.resample is None else state.resample.copy()
        state.streams = None
        if self.n and state.order is None:
            state.order = np.empty(self.n, np.int64)
            state.place = self.n
        order = np.empty(0, np.int64) if state.order is None else state.order  # long, hence not copied
        record = record_of(SIFT, state)
        tally = new_tally()
        g = np.full(d, np.nan)
        mean = chunk.mean or Average(np.empty(0))
        mean.mean = state.x.copy() if mean.mean is None else mean.mean.copy()
        cap = method._max_evals_per_sample(context)
        soft = math.ceil(min(self._edge - context.nfev, CHUNK))
        limits = (chunk.iterations, min(d + 1, cap), cap, soft, UNLIMITED if chunk.limit is None else chunk.limit)
        arrays = (state.origin, state.squares, g, state.units, state.resample, order)
        records = (context.nfev, self._settings(d, context), record, new_record(SIFT_BATCH), tally)
        inputs = (self.n, state.x, mean.mean, mean.count, limits, arrays, *records)
        with locate(state):
            done, used = self.compiled(loop.sift, context.rng, *inputs)
        mean.count += done
        write_back(record, state)
        if not np.isnan(g[0]):
            state.grad_norm = norm(g)
        context.nfev += used
        counted = tally_of(tally)
        after = replace(context, facts=context.facts.after(counted))
        return ChunkResult(method._make_step(state, after, None, done), counted)

    def _settings(self, d: int, context: Context) -> Any:
        method: Sift = self.method
        return new_record(
            SIFT_SETTINGS,
            growth=method.growth,
            fd_step=method.fd_step or 0.0,
            decay=method.decay,
            tolerance=method._tolerance(d),
            evals=np.inf if context.max_evals is None else max(context.max_evals, 1),
            iterations=np.inf if context.max_iter is None else max(context.max_iter, 1),
            min_fd_step=FD_STEP * method.radius,
            max_fd_step=MAX_FD_STEP * method.radius,
            roundoff_factor=ROUNDOFF_FACTOR,
            zero=sift.ZERO,
            next=sift.NEXT,
            clip_factor=CLIP_FACTOR,
            short_values=SHORT_VALUES,
            single=context.facts.single,
            double=context.facts.double,
            coarsest=context.facts.coarsest,
            clip_after=CLIP_AFTER,
            reuse_period=REUSE_PERIOD,
        )


def batch_for(evals: int, d: float) -> int:
    """Return how many ξ to take at once: larger batches are faster, but leave fewer iterations."""
    return int(min(max(evals // (MIN_ITERATIONS * (d + 1)), 1), MAX_BATCH))


def radius_for(kink: float, d: float) -> float:
    """Return a first R for a function that stops looking linear at the radius `kink`."""
    return RADIUS_FACTOR * kink / sqrt(d)


def growth_for(evals: int, d: float) -> float:
    """Return how much the radius grows with the distance travelled."""
    return float(GROWTH * max(1.0, evals / (d + 1) / LONG_RUN) ** GROWTH_POWER)


def _draw(state: SiftState, context: Context, size: int) -> tuple[Samples | None, sift.Whole | None, int]:
    """Return the ξ of a batch, and the random order and place in it from which the next ones are taken."""
    if context.sample is None:
        return None, None, 0
    if context.n is None:
        return context.sample(context.rng, size), None, 0
    order = state.order
    place = state.place
    drawn = np.empty(size, np.int64)
    done = 0
    while done < size:
        if order is None or place == order.size:
            order = np.argsort(context.rng.random(context.n), kind="stable")
            place = 0
        taken = min(size - done, order.size - place)
        drawn[done : done + taken] = order[place : place + taken]
        done += taken
        place += taken
    return drawn, order, place


def _sum(a: Array) -> Any:
    """Return the sum over the first axis, one after the other, as a loop in machine code does it."""
    return np.add.accumulate(a, axis=0)[-1]
