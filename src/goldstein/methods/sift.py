"""Sift: descent along component gradients that are found from values by bisection."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.compiled.tally import DOUBLES, LOWEST, SINGLES, TALLY
from goldstein.estimate import sift
from goldstein.estimate.smoothing import Along, noted_ball
from goldstein.estimate.stream import Stream
from goldstein.methods.kernel import CHUNK, CompiledKernel, tally_of, why_not_compilable
from goldstein.methods.method import (
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
from goldstein.oracle import DOUBLE, SINGLE, Array, Oracle, Query, Samples
from goldstein.oracle.recipe import Recipe, Repeated
from goldstein.oracle.stats import evidence
from goldstein.output import Average
from goldstein.projection import Box
from goldstein.state import MADE_AGAIN

STEP = 1e-5  # h, in radii, where rounding allows it
LONGEST = 0.1  # h at most, in radii, however coarse the values are
PRECISION = 100.0  # h at least, in rounding errors √d·u|F| of an estimate over its size
TOLERANCE = 0.01  # of an interval, in h times the size of a gradient
DENSE = 100  # coordinates beyond which the tolerance shrinks, so that closed intervals add 4 % to E‖g‖² at most
CAP_SHARE, CAP_LEAST = 40, 4  # one part in so many of the budget for one ξ, and so many values at least
SHORT_VALUES = 10  # so many values that fit into float32 are evidence of single precision
SEEN = 50  # so many components tell how large gradients are, beside which rounding is judged
FIRST = 1.4  # R that is guessed, in radii of kinks over √d
REUSED = 4  # so many batches at most use the steps of a walk on which nothing changed
SPIKE, USUAL = 10.0, 10  # ‖g‖ is cut at so many times its root mean square, once there are so many
GROWTH = 2.0  # and how it grows: the best R is about this many times the distance to the solution
LONG, LONGER = 3000, 0.25  # more gradients than this forgive a large radius: the growth rises with this power of them
ITERATIONS = 10_000  # a guessed batch leaves so many, even if all components are dense
LARGEST_BATCH = 16


@dataclass
class SiftState(MethodState):
    """State of `Sift`.

    Attributes
    ----------
    origin : ndarray, shape (d,)
        x0.
    radius, walk : float
        R, and the sum of ‖step‖² so far.
    squares : ndarray, shape (d,)
        G_j, the sum of g_j² so far.
    sifting : estimate.sift.Sift or None
        The bisection that is under way.
    began : int
        Evaluations before it.
    units, stale : ndarrays, shape (batch, d) and (batch,), or None
        Steps of the walks in units of h, and which of them are drawn anew for the next batch: those of flat components
        are used again, but for every fourth batch (effects that cancel on a walk would do so for ever).
    streams : list or None
        From where each of the units was drawn, if somebody far away will need it and it is known.
    order, place
        The components of a finite sum in random order, and the next one.
    power, directions, active : float
        Sum of ‖g‖² over all ξ, how many those are, and how many of them were not flat.
    magnitude : float
        Sum of |v(0)| over them.
    drowned : int
        Those whose ends differ by rounding alone.
    single, double : int
        Values that tell something about their precision.
    remark : str
        By how much queries may leave the allowed set.
    """

    origin: Array = None  # type: ignore[assignment]
    radius: float = 0.0
    walk: float = 0.0
    squares: Array = None  # type: ignore[assignment]
    sifting: sift.Sift | None = None
    began: int = 0
    units: Array | None = None
    stale: sift.Mask | None = None
    streams: list[Stream | None] | None = field(default=None, metadata=MADE_AGAIN)
    order: sift.Whole | None = None
    place: int = 0
    power: float = 0.0
    directions: float = 0.0
    active: float = 0.0
    magnitude: float = 0.0
    drowned: int = 0
    single: int = 0
    double: int = 0
    remark: str = ""

    @property
    def scale(self) -> float:
        """The root mean square of ‖g‖ over the components that were not flat; 0 before there is one."""
        return sqrt(self.power / self.active) if self.active else 0.0

    @property
    def roundoff(self) -> float:
        """Relative rounding error of the values, as they show."""
        return SINGLE if not self.double and self.single >= SHORT_VALUES else DOUBLE


@dataclass
class Begun:
    """A batch that was begun: its bisection, the units of its steps, and the order of the components after it."""

    sifting: sift.Sift
    units: Array
    streams: list[Stream | None] | None
    order: sift.Whole | None
    place: int


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
    step : float, optional
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
    cap : int, optional
        Values for one ξ, at most; the intervals that are left then keep the random-sign estimate. None: a fortieth of
        the budget, 4 at least.

    Notes
    -----
    Differences of up to 1e-14·|v(0)| count as none. Within bounds the signs of h_j are those that stay inside, so a
    start on the boundary is an ordinary start; where a sign was not free to choose, an interval is opened whatever the
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
    step: float | None = None
    batch_size: int = 1
    decay: float = 1.0
    tolerance: float | None = None
    rho: float = 0.0
    cap: int | None = None
    growth: float = 0.0
    name: ClassVar[str] = "sift"

    def __post_init__(self) -> None:
        tolerance = self.tolerance
        arguments.keep(
            self,
            radius=arguments.positive("radius", self.radius),
            step=arguments.optional_positive("step", self.step),
            batch_size=arguments.count("batch_size", self.batch_size),
            decay=arguments.not_negative("decay", self.decay),
            tolerance=None if tolerance is None else arguments.not_negative("tolerance", tolerance),
            rho=arguments.not_negative("rho", self.rho),
            cap=arguments.optional_count("cap", self.cap, least=2),
            growth=arguments.not_negative("growth", self.growth),
        )

    @property
    def needs(self) -> Needs:
        return Needs(
            replay="evaluates the same ξ at several points",
            horizon=self.decay > 0 or self.cap is None,
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
            state.remark = f"Queries may leave the allowed set by delta = {margin:.3g}."
        state.x = context.projected(x, margin)
        state.origin = state.x
        return state

    def ask(self, state: SiftState, context: Context, limit: int | None) -> Query | None:
        if state.sifting is not None:
            affordable = limit is None or state.sifting.pending <= limit
            return state.sifting.query() if affordable else None
        free = _free(state.x.size, context)
        if free == 0 or (limit is not None and limit < 2):
            return None
        size = self._batch(context)
        cap = self._cap(context)
        most = _most(free, cap)
        fits = size if limit is None else min(size, max(1, limit // most))
        if limit is not None and limit < most:
            cap = limit
        begun = self._begin(state, context, fits, cap)
        query = begun.sifting.query()
        query.aux = begun
        query.truncated = fits < size or (limit is not None and limit < most)
        return query

    def tell(self, state: SiftState, context: Context, query: Query, values: Array) -> Step:
        if query.aux is not None:
            begun: Begun = query.aux
            state.sifting = begun.sifting
            state.units = begun.units
            state.streams = begun.streams
            state.order = begun.order
            state.place = begun.place
            state.began = context.nfev
        if not state.double:
            single, double = evidence(values[np.isfinite(values)])
            state.single += single
            state.double += double
        assert state.sifting is not None
        state.sifting.tell(values)
        if not state.sifting.over:
            return self._told(state, None, 0)
        left = state.x
        state.nit += 1
        self._move(state, context.after(query), state.sifting)
        state.sifting = None
        return self._told(state, left, 1)

    def _begin(self, state: SiftState, context: Context, size: int, cap: int | None) -> Begun:
        """Draw the ξ of a batch, the steps of their walks and, with ρ > 0, where they start, in this order."""
        d = state.x.size
        samples, order, place = _draw(state, context, size)
        units, streams = self._units(state, context)
        y = state.x[None]
        base: Recipe | None = Repeated(state.x, 1)
        if self.rho:
            u, directions = noted_ball(context.rng, size, d, context.recipes)
            y = state.x + self.rho * u
            base = None if directions is None else Along(state.x, self.rho, directions)
        h = self._step(state)
        bounds = _bounds(d, context)
        walk = sift.walk(y, units[:size], h, bounds)
        known = [stream for stream in (streams or [])[:size] if stream is not None]
        if base is not None and len(known) == size:
            walk.origin = sift.Origin(base, known, h, bounds)
        tolerance = self._tolerance(d) * h * state.scale
        return Begun(sift.Sift.of(walk, samples, tolerance, cap, state.roundoff), units, streams, order, place)

    def _units(self, state: SiftState, context: Context) -> tuple[Array, list[Stream | None] | None]:
        """Return the steps of a batch in units of h: those of components that were flat, others drawn anew.

        Return also from where each was drawn, if that is wanted.
        """
        size = self._batch(context)
        d = state.x.size
        stale = np.ones(size, np.bool_)
        units = np.empty((size, d))
        if state.units is not None and state.stale is not None:
            stale = state.stale
            units = state.units.copy()
        units[stale], stream = sift.noted_units(context.rng, int(stale.sum()), d, context.recipes)
        if stream is None:
            return units, None
        streams: list[Stream | None] = [None] * size
        if state.streams is not None:
            streams = list(state.streams)
        for place, row in enumerate(np.flatnonzero(stale).tolist()):
            streams[row] = stream.rows(place, place + 1)
        return units, streams

    def _move(self, state: SiftState, context: Context, sifting: sift.Sift) -> None:
        """Take the estimates of a batch into the step of diagonal AdaGrad; those that failed are left out."""
        gradients = sifting.gradients()
        with np.errstate(invalid="ignore"):
            usable = ~sifting.failed & (np.abs(gradients).max(axis=1) < HUGE)
        flat = usable & sifting.flat
        state.stale = np.ones(self._batch(context), np.bool_)
        if context.sample is not None and state.nit % REUSED:  # without ξ the same walk would say the same again
            state.stale[: flat.size] = ~flat
        if not usable.any():
            return
        gradients = gradients[usable]
        count = len(gradients)
        lengths = np.sqrt(_total((gradients * gradients).T))
        usual = SPIKE * state.scale if state.active >= USUAL else np.inf
        spikes = lengths > usual
        gradients[spikes] *= (usual / lengths[spikes])[:, None]
        lengths[spikes] = usual
        state.power += _total(lengths * lengths)
        state.directions += count
        state.active += count - int(flat.sum())
        state.magnitude += _total(np.abs(sifting.first[usable]))
        state.drowned += int(sifting.drowned[usable].sum())
        state.value = _total(sifting.first[usable]) / count
        g = _total(gradients) / count
        state.grad_norm = norm(g)
        state.step_size = self._length(state, context)
        state.squares = state.squares + g * g
        moving = state.squares > 0  # where g_j = 0, x_j stays as it is
        ahead = state.x.copy()
        ahead[moving] -= state.step_size * (g[moving] / np.sqrt(state.squares[moving]))
        left = state.x
        state.x = context.projected(ahead, self._margin(state, context))
        if self.growth:
            self._grow(state, left, int(moving.sum()))

    def _grow(self, state: SiftState, left: Array, moving: int) -> None:
        """Let R grow with the distance travelled, the random walk of the steps taken off."""
        step = state.x - left
        away = state.x - state.origin
        state.walk += _total(step * step)
        net = _total(away * away) - state.walk
        if net > 0:
            travelled = self.growth * sqrt(net / moving)
            state.radius = max(state.radius, min(travelled, 2 * state.radius))

    def _length(self, state: SiftState, context: Context) -> float:
        """Return R (1 − u) √u at the middle of the batch that was told."""
        if self.decay == 0:
            return state.radius
        before = _share(state.began, state.nit - 1, context)
        after = _share(context.nfev, state.nit, context)
        u = 0.5 * (before + after)
        left = 1.0 - u
        return float(state.radius * (left if self.decay == 1 else left**self.decay) * sqrt(u))

    def _step(self, state: SiftState) -> float:
        """Return h: a small part of R, or as much as the rounding errors of the values ask for."""
        if self.step is not None:
            return self.step
        h = STEP * self.radius
        if not state.active:
            return h
        level = state.magnitude / state.directions
        needed = PRECISION * sqrt(state.x.size) * state.roundoff * level / state.scale
        return max(h, min(needed, LONGEST * self.radius))

    def _tolerance(self, d: int) -> float:
        if self.tolerance is not None:
            return self.tolerance
        return TOLERANCE * min(1.0, sqrt(DENSE / d))

    def _batch(self, context: Context) -> int:
        return 1 if context.sample is None and not self.rho else self.batch_size

    def _cap(self, context: Context) -> int | None:
        if self.cap is not None or context.max_evals is None:
            return self.cap
        return max(CAP_LEAST, context.max_evals // CAP_SHARE)

    def _margin(self, state: SiftState, context: Context) -> float:
        """Return how far queries lie from the iterate, where no sign keeps them inside the allowed set."""
        if isinstance(context.project, Box):
            return self.rho
        return self.rho + 1.5 * sqrt(state.x.size) * self._step(state)

    def _told(self, state: SiftState, iterate: Array | None, completed: int) -> Step:
        delta = 0.0
        power = 0.0
        warnings = None
        if state.directions >= SEEN:
            delta = sqrt(state.x.size) * self._step(state)  # so that d·u|F|/δ is √d·u|F|/h
            power = state.power / state.directions
            if state.drowned > max(state.active, SEEN / 4):
                warnings = {"precision": self._drowning(state)}
        notes = {"set": state.remark} if state.remark else None
        return state.make_step(
            iterate,
            completed,
            delta=delta,
            mean_sq_norm=power,
            n_estimates=state.directions,
            warnings=warnings,
            notes=notes,
            partial=state.sifting is not None,
        )

    def _drowning(self, state: SiftState) -> str:
        share = state.drowned / state.directions
        level = state.magnitude / state.directions
        return (
            f"Rounding errors of F (|F| about {level:.2g}) hide the differences of {share:.0%} of the components at "
            f"step={self._step(state):.3g}: use a larger step, higher precision, or subtract a constant from F."
        )

    def kernel(self, oracle: Oracle) -> Kernel | Unsupported:
        if self.rho:
            return Unsupported("The compiled loop of sift walks from x itself, with rho = 0.")
        reason = why_not_compilable(oracle)
        return _Compiled(self, oracle, 2) if reason is None else Unsupported(reason)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> Sift:
        root = scale.estimate / scale.gradient  # √d
        batch = batch_for(scale.evals, root * root)
        return cls(
            **{
                "radius": 2 * scale.radius / root,
                "batch_size": batch,
                "growth": growth_for(scale.evals, root * root),
                **options,
            }
        )


class _Compiled(CompiledKernel):
    """Whole iterations in machine code; a bisection that was begun the plain way is ended the plain way.

    What an iteration costs is known when it is over, so a plan is the most that may fit, and the iterations end where
    the evaluations planned for are made.
    """

    _edge = math.inf

    def plan(self, state: SiftState, context: Context, limit: int | None, until: float, most: int | None) -> int:
        method: Sift = self.method
        dearest = method._batch(context) * _most(state.x.size, method._cap(context))
        if state.sifting is not None or (limit is not None and limit < dearest):
            return 0
        soft = max(1, min(until, CHUNK))
        self._edge = context.nfev + soft
        iterations = math.ceil(soft / (2 * method._batch(context)))
        return iterations if most is None else min(iterations, most)

    def call(self, state: SiftState, context: Context, mean: Array, count: int, steps: Array, tally: Array) -> int:
        raise NotImplementedError  # iterations differ in cost: `run` calls the loop itself

    def told(self, state: SiftState, completed: int) -> Step:
        return self.method._told(state, None, completed)  # type: ignore[no-any-return]

    def run(
        self,
        state: SiftState,
        context: Context,
        iterations: int,
        limit: int | None,
        mean: Average | None,
        stop: Callable[[], bool],
    ) -> ChunkResult:
        from goldstein.compiled import sift as loop  # which needs numba

        method: Sift = self.method
        d = state.x.size
        size = method._batch(context)
        cap = method._cap(context)
        units = np.empty((size, d)) if state.units is None else state.units.copy()
        stale = np.ones(size, np.bool_) if state.stale is None else state.stale.copy()
        order = np.empty(self.n, np.int64) if state.order is None else state.order  # long, and nobody else's
        place = self.n if state.order is None else state.place
        sums = (state.power, state.directions, state.active, state.magnitude, state.drowned)
        seen = (state.single, state.double, context.nfev, state.nit, state.value, state.step_size, place)
        memory = np.array([*sums, *seen, state.radius, state.walk], float)
        settings = self._settings(d, context)
        gradient = np.full(d, np.nan)
        squares = state.squares.copy()
        x = state.x.copy()
        tally = np.zeros(TALLY)
        tally[LOWEST] = np.inf
        average = np.empty(0)
        left = 0
        if mean is not None:
            average = x.copy() if mean.mean is None else mean.mean.copy()
            left = mean.count
        most = _most(d, cap)
        unlimited = np.iinfo(np.int64).max
        soft = math.ceil(min(self._edge - context.nfev, CHUNK))
        limits = (iterations, most, unlimited if cap is None else cap, soft, unlimited if limit is None else limit)
        arrays = (state.origin, squares, gradient, units, stale, order, settings, memory, tally)
        done, used = self.compiled(loop.sift, context.rng, self.n, x, average, left, *limits, *arrays)
        if mean is not None:
            mean.mean = average
            mean.count += done
        state.x = x
        state.squares = squares
        state.units = units
        state.streams = None
        state.stale = stale
        if self.n:
            state.order = order
            state.place = int(memory[loop.PLACE])
        state.power, state.directions, state.active, state.magnitude = (float(number) for number in memory[:4])
        state.drowned = int(memory[loop.DROWNED])
        state.single += int(tally[SINGLES])
        state.double += int(tally[DOUBLES])
        state.nit = int(memory[loop.NIT])
        state.value = float(memory[loop.VALUE])
        state.step_size = float(memory[loop.LENGTH])
        state.radius = float(memory[loop.NOW])
        state.walk = float(memory[loop.WALK])
        if not np.isnan(gradient[0]):
            state.grad_norm = norm(gradient)
        context.nfev += used
        return ChunkResult(self.told(state, done), tally_of(tally))

    def _settings(self, d: int, context: Context) -> Array:
        """Return what the loop is told, in its order."""
        method: Sift = self.method
        evals = np.inf if context.max_evals is None else max(context.max_evals, 1)
        iterations = np.inf if context.max_iter is None else max(context.max_iter, 1)
        radius = method.radius
        given = (method.growth, method.step or 0.0, method.decay, method._tolerance(d), evals, iterations)
        known = (STEP * radius, LONGEST * radius, PRECISION, SHORT_VALUES, sift.ZERO, sift.NEXT)
        return np.array([*given, *known, SPIKE, USUAL, REUSED], float)


def batch_for(evals: int, d: float) -> int:
    """Return how many ξ to take at once: larger batches are faster, but leave fewer iterations."""
    return int(min(max(evals // (ITERATIONS * (d + 1)), 1), LARGEST_BATCH))


def radius_for(kink: float, d: float) -> float:
    """Return a first R for a function that stops looking linear at the radius `kink`."""
    return FIRST * kink / sqrt(d)


def growth_for(evals: int, d: float) -> float:
    """Return how much the radius grows with the distance travelled, in a run of so many evaluations."""
    return float(GROWTH * max(1.0, evals / (d + 1) / LONG) ** LONGER)


def _most(free: int, cap: int | None) -> int:
    """Return what one ξ costs at most."""
    return free + 1 if cap is None else min(free + 1, cap)


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


def _bounds(d: int, context: Context) -> tuple[Array, Array] | None:
    """Return the bounds of a box, one for each coordinate; None without them."""
    box = context.project
    if not isinstance(box, Box):
        return None
    return np.broadcast_to(np.asarray(box.lower), (d,)), np.broadcast_to(np.asarray(box.upper), (d,))


def _free(d: int, context: Context) -> int:
    """Return how many coordinates are not fixed by their bounds."""
    bounds = _bounds(d, context)
    return d if bounds is None else int((bounds[0] < bounds[1]).sum())


def _share(nfev: int, nit: int, context: Context) -> float:
    """Return the share of the run that is over after so many evaluations and iterations."""
    evals = nfev / max(context.max_evals, 1) if context.max_evals is not None else 0.0
    iterations = nit / max(context.max_iter, 1) if context.max_iter is not None else 0.0
    return min(max(evals, iterations), 1.0)


def _total(a: Array) -> Any:
    """Return the sum over the first axis, one after the other, as a loop in machine code does it."""
    return np.add.accumulate(a, axis=0)[-1]
