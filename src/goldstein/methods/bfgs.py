"""BFGS for functions without noise that need not be smooth, on differences of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.methods.method import Context, Method, MethodState, Needs, Scale, Step, any_iterate
from goldstein.methods.quasi_newton import LBFGS, DenseInverseHessian, InverseHessian
from goldstein.norms import HUGE, norm
from goldstein.oracle import Array, Query
from goldstein.projection import Box
from goldstein.state import LATER, State

C1, C2 = 1e-4, 0.5  # c1 and c2 of the weak Wolfe conditions
MAX_TRIALS = 40  # of one line search, at most
FIRST_STEP = 0.1  # length of the first step, in radii
FD_STEP = 1e-6  # step of a difference, in lengths of the last step over √d
FD_STEP_ALONG_LINE = 1e-4  # the same along a line
ROUNDOFF_POWER = 0.75  # power of the rounding error u in steps of differences: their own relative error is u^¼
SMALLEST_STEP = 10.0  # least step, in rounding errors of x
CURVATURE_SHARE = 0.1  # share of the decrease predicted that s·y must reach
MAX_RETAKES = 2  # of a gradient that does not agree with its line search
RETAKE_FACTOR = 1 / 30  # step of the differences of a gradient that is taken again
PERTURBATION = 1e-3  # how far beside the point a gradient is taken after a failed search, in lengths of the last step
SHRINK, MAX_SHRINKS = 0.1, 4  # factor for a fresh search that fails, and how often
RESTART_DECADES = 4.0  # decades of the radius within which restarts are drawn
MAX_RETRIES = 4  # for a value that failed
ROUNDOFF_SHARE = 0.03  # share of rounding errors in a gradient with which it is taken again with longer differences
FLAT_FACTOR = 100.0  # factor between steps of differences that are all exactly 0
MAX_NUMBERS = 2**22  # in one query, and in a whole inverse Hessian
MIN_CURVATURE = 1e-290  # curvature that has an inverse
LBFGS_PAIRS = 30  # of the limited-memory form
MAX_STEP = 4.0  # length of a step, in what was travelled so far, in lengths of x0 or in radii


@dataclass
class Differences(State):
    """A gradient in the making."""

    base: Array  # where it is taken
    value: float  # f there; NaN until that is known
    steps: Array  # h with its signs, 0 where there is none to take
    slopes: Array  # what is known of the gradient, NaN where nothing is
    size: float  # |h_j|, as far as bounds allow
    tries: Array  # shape (d,): how often the value of each coordinate failed


@dataclass
class LineSearch(State):
    """A bisection for the weak Wolfe conditions."""

    direction: Array  # shape (d,): p
    slope: float  # g·p
    most: float  # the longest t
    t: float  # t, low, high: the trial, and between which t it lies
    low: float = 0.0
    high: float = np.inf
    trials: int = 0  # how many there were
    accepted: Array = LATER  # the point at `low`
    accepted_value: float = np.nan  # f there


@dataclass
class BFGSState(MethodState):
    """State of BFGS; `x` is the lowest point seen and `value` is f there."""

    origin: Array = LATER  # x0
    point: Array = LATER  # the iterate x_k
    fun: float = np.nan  # f(x_k)
    phase: str = "value"  # what is asked next: "value" f(x_k), "gradient", "search" a trial; "done": nothing can move
    differences: Differences = LATER  # the gradient that is under way, or was last
    search: LineSearch = LATER  # the same of the line search
    inverse: InverseHessian = field(default_factory=DenseInverseHessian)  # H
    gradient: Array = LATER  # of the last line search
    s: Array | None = None  # the step whose curvature is to be learnt with the next gradient
    curvature_threshold: float = 0.0  # how large s·y must be
    length: float = 1.0  # ‖s‖ of the last step, which differences and new beginnings are made by
    retakes: int = 0  # gradients taken again
    failures: int = 0  # line searches that failed in a row
    tries: int = 0  # values that failed in a row
    warnings: dict[str, str] = field(default_factory=dict)  # what is wrong with the function, in words


@dataclass(frozen=True)
class BFGS(Method):
    """BFGS with a weak-Wolfe line search on differences of values, for functions without noise.

    ::

        1   H = (0.1 r/‖g‖) I, g = differences at x
        2   repeat
        3       p = −H g;  t = 1, between 0 and ∞
        4       repeat                                                          # Lewis and Overton, Algorithm 2.6
        5           if f(x + tp) > f(x) + 1e-4 t g·p: t becomes the upper end
        6           else if (f(x + (t+e)p) − f(x + tp))/e < 0.5 g·p: t becomes the lower end
        7           else leave
        8           t = the middle, or twice the lower end while there is no upper one, ‖tp‖ ≤ 4 max(‖x − x0‖, ‖x0‖, r)
        9       s = tp;  x = x + s;  g⁺ = differences at x;  y = g⁺ − g;  g = g⁺
        10      if s·y ≥ 0.1 t |g·p|: H = max(1, s·y / y·Hy) H                  # Al-Baali 1998
        11          H = (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ, ρ = 1/s·y          # Nocedal and Wright, eq. 6.17
        12      if the line search failed: g again, beside x; then H = (‖s‖/‖g‖) I, shorter and shorter; then a restart,
                x = lowest point + r 10^U(−4, 0) N(0, I)/√d

    On nonsmooth functions the eigenvalues of H that belong to kinks go to zero, which is what makes BFGS fast there: it
    learns along which directions f has to stay on its ridge (Lewis and Overton). A gradient costs d values in one
    query, the slope at a trial (line 6) only one more value, not d. The answer is the lowest point seen.

    Parameters
    ----------
    radius : float
        r, how far from x0 the function stops looking linear; the first step has a tenth of it.
    memory : int, optional
        Pairs (s, y) that stand for H; None: the whole matrix up to d = 2048, and 30 pairs beyond.

    Notes
    -----
    A difference has the step h = max(10⁻⁶ ‖s‖/√d, u^¾ |f| √d/‖g‖, 10 u ‖x‖) with a random sign, u the rounding error
    of the values as they show it. Where s·y is too small for line 10, a difference has met a kink: the gradient is
    taken again beside x with a thirtieth of h, twice at most.

    In a box (`bounds`) the line search follows the projection of x + tp, variables that the gradient presses against a
    bound are held there, and differences choose their signs so that no value is asked outside. Other sets are refused.

    A trial that fails counts as no descent; a difference that fails is asked again on the other side or nearer.

    References
    ----------
    Lewis, Overton (2013). Nonsmooth optimization via quasi-Newton methods. Mathematical Programming 141.

    Nocedal, Wright (2006). Numerical optimization, second edition. Springer.

    Al-Baali (1998). Numerical experience with a class of self-scaling quasi-Newton algorithms. Journal of Optimization
    Theory and Applications 96.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: abs(x - 1).sum(), np.arange(5.0), gs.BFGS(radius=1.0), max_evals=2000, rng=0)
    >>> bool(res.fun < 1e-9)
    True
    """

    radius: float
    memory: int | None = None
    name: ClassVar[str] = "bfgs"

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "radius")
        arguments.check(self, arguments.optional_count, "memory")

    @property
    def needs(self) -> Needs:
        return Needs(exact=True, random_stop=any_iterate)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> BFGS:
        return cls(**{"radius": 2 * scale.radius, **options})

    def init(self, x: Array, context: Context) -> BFGSState:
        if not (context.project is None or isinstance(context.project, Box)):
            kind = type(context.project).__name__.lstrip("_")
            raise ValueError(f"{self.name} takes bounds but no other set, got a projection of type {kind}; use gfm.")
        return BFGSState(x, origin=x, point=x, inverse=self._inverse(x.size), length=FIRST_STEP * self.radius)

    def _inverse(self, d: int) -> InverseHessian:
        if self.memory is not None:
            return LBFGS(self.memory)
        return DenseInverseHessian() if d * d <= MAX_NUMBERS else LBFGS(LBFGS_PAIRS)

    @np.errstate(over="ignore", invalid="ignore")
    def ask(self, state: BFGSState, context: Context, limit: int | None) -> Query | None:
        most = np.inf if limit is None else limit
        if state.phase == "value" and most >= 1:
            return Query(state.point[None])
        if state.phase == "gradient" and most >= 1:
            return self._ask_differences(state, context, most)
        if state.phase == "search" and most >= 2:
            return self._ask_trial(state, context)
        return None

    def _ask_differences(self, state: BFGSState, context: Context, most: float) -> Query:
        """Ask for what is still unknown of a gradient: one row for each coordinate, the base first if it is unknown."""
        differences = state.differences
        d = differences.base.size
        coordinates = np.flatnonzero(np.isnan(differences.slopes))
        if np.isnan(differences.value):
            coordinates = np.concatenate([[-1], coordinates])
        cut = most < coordinates.size
        coordinates = coordinates[: int(min(most, max(2, MAX_NUMBERS // d)))]
        points = np.tile(differences.base, (coordinates.size, 1))
        rows = np.flatnonzero(coordinates >= 0)
        points[rows, coordinates[rows]] += differences.steps[coordinates[rows]]
        if context.project is not None:
            points = context.project(points)  # the sum may be rounded out of the box
        return Query(points, truncated=cut, aux=coordinates)

    def _ask_trial(self, state: BFGSState, context: Context) -> Query:
        """Ask for f at t and a little farther along the line (lines 5 and 6)."""
        search = state.search
        least = max(
            self._visible_step(state, context, -search.slope),
            self._smallest_step(state, context) / norm(search.direction),
        )
        ends = [search.t, search.t + max(FD_STEP_ALONG_LINE * search.t, least)]
        points = [context.projected(state.point + t * search.direction, 0.0) for t in ends]
        return Query(np.stack(points), aux=ends)

    @np.errstate(over="ignore", invalid="ignore")
    def tell(self, state: BFGSState, context: Context, query: Query, values: Array) -> Step:
        values = np.where(np.abs(values) < HUGE, values, np.nan)
        incumbent = context.facts.incumbent
        if incumbent.x is not None:
            state.x = incumbent.x
            state.value = incumbent.fun
        if state.phase == "value":
            completed = self._take_value(state, context, float(values[0]))
        elif state.phase == "gradient":
            completed = self._take_differences(state, context, query, values)
        else:
            completed = self._take_trial(state, context, query, values)
        state.nit += completed
        return state.make_step(state.x if completed else None, completed, warnings=dict(state.warnings))

    def _take_value(self, state: BFGSState, context: Context, value: float) -> int:
        if np.isnan(value):
            state.tries += 1
            return self._restart(state, context) if state.tries >= MAX_RETRIES else 0
        state.tries = 0
        state.fun = value
        lower, upper = self._bounds(state, context)
        if not (lower < upper).any():
            state.phase = "done"
            return 1
        self._start_gradient(state, context, state.point, value)
        return 0

    def _bounds(self, state: BFGSState, context: Context) -> tuple[Array, Array]:
        d = state.point.size
        return context.bounds(d) or (np.full(d, -np.inf), np.full(d, np.inf))

    def _start_gradient(
        self, state: BFGSState, context: Context, base: Array, value: float = np.nan, size: float | None = None
    ) -> None:
        """Begin a gradient at `base` with differences of this size; None: by the last step and rounding."""
        if size is None:
            size = self._fd_step(state, context)
        lower, upper = self._bounds(state, context)
        sign = np.where(context.rng.random(base.size) < 0.5, -1.0, 1.0)
        steps = _inside(base, sign * size, lower, upper)
        slopes = np.where(lower < upper, np.nan, 0.0)
        state.differences = Differences(base, value, steps, slopes, size, np.zeros(base.size))
        state.phase = "gradient"

    def _fd_step(self, state: BFGSState, context: Context) -> float:
        """Return the step of a difference: small beside the last step, but not lost in rounding."""
        size = max(FD_STEP * state.length / np.sqrt(state.point.size), self._smallest_step(state, context))
        if state.gradient is None:
            return float(size)
        visible = self._visible_step(state, context, norm(state.gradient) / np.sqrt(state.point.size))
        return float(max(size, min(visible, FIRST_STEP * self.radius)))

    def _take_differences(self, state: BFGSState, context: Context, query: Query, values: Array) -> int:
        differences = state.differences
        coordinates = query.aux
        if coordinates[0] < 0:
            differences.value = float(values[0])
            coordinates = coordinates[1:]
            values = values[1:]
        if np.isnan(differences.value):
            return self._retry_elsewhere(state, context, differences.size)
        state.tries = 0
        rows = query.points[-coordinates.size :] if coordinates.size else query.points[:0]
        steps = rows[np.arange(coordinates.size), coordinates] - differences.base[coordinates]  # as they really were
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            slopes = (values - differences.value) / steps
        failed = ~(np.abs(slopes) < HUGE)
        differences.slopes[coordinates] = np.where(failed, np.nan, slopes)
        if failed.any():
            self._retry(state, context, differences, coordinates[failed])
        if np.isnan(differences.slopes).any():
            return 0
        return self._take_gradient(state, context, differences)

    def _retry_elsewhere(self, state: BFGSState, context: Context, size: float) -> int:
        """Take the gradient at another point beside x, since the value at this one failed."""
        state.tries += 1
        if state.tries >= MAX_RETRIES:
            return self._restart(state, context)
        self._start_gradient(state, context, self._perturb(state, context, size), size=size)
        return 0

    def _retry(self, state: BFGSState, context: Context, differences: Differences, failed: Any) -> None:
        """Turn the steps of differences that failed round, and make them shorter; give up after a few times."""
        differences.tries[failed] += 1
        lower, upper = self._bounds(state, context)
        shorter = np.where(differences.tries > 1, -SHRINK, -1.0) * differences.steps
        differences.steps[failed] = _inside(differences.base, shorter, lower, upper)[failed]
        differences.slopes[failed[differences.tries[failed] >= MAX_RETRIES]] = 0.0

    def _take_gradient(self, state: BFGSState, context: Context, differences: Differences) -> int:
        """Learn from a gradient and search along it, or take it again."""
        g = differences.slopes
        again = self._longer_step(state, context, g, differences.size)
        if again is not None:
            if again > self.radius:
                return self._restart(state, context)
            self._start_gradient(state, context, state.point, state.fun, again)
            return 0
        if state.s is not None:
            y = np.where(state.s == 0, 0.0, g - state.gradient)  # what is held at a bound says nothing
            curvature = float(state.s @ y)
            if curvature >= state.curvature_threshold and curvature > MIN_CURVATURE:
                state.inverse.update(state.s, y)  # lines 10 and 11
            elif state.retakes < MAX_RETAKES:
                state.retakes += 1
                size = max(RETAKE_FACTOR * differences.size, self._smallest_step(state, context))
                self._start_gradient(state, context, self._perturb(state, context, differences.size), size=size)
                return 0
            state.s = None
        state.retakes = 0
        state.gradient = g
        state.grad_norm = norm(g)
        if state.inverse.is_identity:
            state.inverse.reset(state.length / state.grad_norm)  # line 1
        return self._start_search(state, context)

    def _longer_step(self, state: BFGSState, context: Context, g: Array, size: float) -> float | None:
        """Return the step with which a gradient must be taken again, if differences of this size are lost."""
        steep = norm(g)
        if steep == 0:
            if size * FLAT_FACTOR > self.radius:
                state.warnings["flat"] = (
                    f"All differences of steps up to {size:.3g} around a point are exactly 0: F is flat there, or its "
                    f"slope is lost in its rounding errors (|F| about {abs(state.fun):.2g})."
                )
            return size * FLAT_FACTOR
        each = steep / np.sqrt(g.size)
        most = FIRST_STEP * self.radius
        rounding = context.facts.roundoff * abs(state.fun) / each
        if rounding > 0.1 * most and state.nit == 0:
            state.warnings["precision"] = (
                f"Rounding errors of F (|F| about {abs(state.fun):.2g}) make up {rounding / most:.0%} of its "
                f"differences within {most:.3g} of x0: use higher precision, or subtract a constant from F."
            )
        if rounding <= ROUNDOFF_SHARE * size or size >= most or state.retakes >= MAX_RETAKES:
            return None
        state.retakes += 1
        return min(self._visible_step(state, context, each), most)

    def _visible_step(self, state: BFGSState, context: Context, slope: float) -> float:
        """Return the step along which a slope stands out from the rounding errors of values."""
        return float(context.facts.roundoff**ROUNDOFF_POWER * abs(state.fun) / slope)

    def _smallest_step(self, state: BFGSState, context: Context) -> float:
        """Return the least step that the rounding of x allows."""
        return SMALLEST_STEP * context.facts.roundoff * norm(state.point)

    def _perturb(self, state: BFGSState, context: Context, size: float) -> Array:
        """Draw a point beside x, about so far away in each coordinate."""
        return context.projected(state.point + size * context.rng.standard_normal(state.point.size), 0.0)

    def _start_search(self, state: BFGSState, context: Context) -> int:
        g = state.gradient
        lower, upper = self._bounds(state, context)
        at_lower = state.point <= lower
        at_upper = state.point >= upper
        held = (at_lower & (g >= 0)) | (at_upper & (g <= 0))
        p = -np.where(held, 0.0, state.inverse.dot(np.where(held, 0.0, g)))  # line 3
        p = np.where((at_lower & (p < 0)) | (at_upper & (p > 0)), 0.0, p)  # would leave the box at once
        slope = float(g @ p)
        if not (slope < 0 and np.isfinite(p).all()):
            return self._fail(state, context)
        travelled = norm(state.point - state.origin)
        most = MAX_STEP * max(travelled, norm(state.origin), self.radius) / norm(p)  # no leap into the unknown
        state.search = LineSearch(p, slope, most, min(1.0, most))
        state.phase = "search"
        return 0

    def _take_trial(self, state: BFGSState, context: Context, query: Query, values: Array) -> int:
        search = state.search
        search.trials += 1
        t, beyond = query.aux
        value = float(values[0])
        ahead = float(values[1])
        sufficient = state.fun + C1 * t * search.slope  # may be rounded to f(x)
        if not (value <= sufficient and value < state.fun):  # line 5; a value that failed is no descent
            search.high = t
        else:
            search.low = t
            search.accepted = query.points[0].copy()
            search.accepted_value = value
            if not (ahead - value) / (beyond - t) < C2 * search.slope:  # line 6
                return self._accept(state, context)
        if search.accepted is not None and (search.trials >= MAX_TRIALS or search.low == search.most):
            return self._accept(state, context)
        lost = t * -search.slope < context.facts.roundoff * abs(state.fun)  # a descent would be lost in rounding
        if search.accepted is None and (lost or search.trials >= MAX_TRIALS):
            return self._fail(state, context)
        twice = min(2 * search.low, search.most)
        search.t = twice if search.high == np.inf else (search.low + search.high) / 2  # line 8
        return 0

    def _accept(self, state: BFGSState, context: Context) -> int:
        """Go to the point that the line search has accepted (line 9)."""
        search = state.search
        state.s = search.accepted - state.point
        state.curvature_threshold = -CURVATURE_SHARE * float(state.gradient @ state.s)
        straight = np.array_equal(search.accepted, state.point + search.low * search.direction)
        state.retakes = 0 if straight else MAX_RETAKES  # a path that a bound has bent need not agree with its end
        state.step_size = search.low
        state.length = norm(state.s)
        state.point = search.accepted
        state.fun = search.accepted_value
        state.failures = 0
        self._start_gradient(state, context, state.point, state.fun)
        return 1

    def _fail(self, state: BFGSState, context: Context) -> int:
        """Do what a failed line search asks for (line 12)."""
        state.failures += 1
        state.s = None
        if state.failures > 1 + MAX_SHRINKS:
            return self._restart(state, context)
        if state.failures > 1:
            if state.inverse.is_identity:
                state.length *= SHRINK
            state.inverse.reset(state.length)  # scaled by the gradient to come
        size = PERTURBATION * state.length / np.sqrt(state.point.size)
        self._start_gradient(state, context, self._perturb(state, context, size))
        return 0

    def _restart(self, state: BFGSState, context: Context) -> int:
        """Begin anew at a random point around the lowest one; that ends an iteration too."""
        d = state.point.size
        far = self.radius * 10 ** (-RESTART_DECADES * context.rng.random())
        state.point = context.projected(state.x + far * context.rng.standard_normal(d) / np.sqrt(d), 0.0)
        state.phase = "value"
        state.gradient = LATER
        state.s = None
        state.length = FIRST_STEP * far
        state.inverse.reset(state.length)
        state.failures = 0
        state.retakes = 0
        state.tries = 0
        return 1


def _inside(base: Array, steps: Array, lower: Array, upper: Array) -> Array:
    """Return the steps, on the other side where they would leave the box, cut where neither side has room."""
    steps = np.where(_leaves(base + steps, lower, upper), -steps, steps)
    farther = np.where(upper - base >= base - lower, upper, lower)
    return np.where(_leaves(base + steps, lower, upper), farther - base, steps)


def _leaves(x: Array, lower: Array, upper: Array) -> Any:
    """Return which coordinates lie outside of the box."""
    return (x < lower) | (x > upper)
