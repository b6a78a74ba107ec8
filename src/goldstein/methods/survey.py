"""The survey: what kind of function this is, from a few counted probes around x0.

1. repeats (only where there is no ξ): do all calls at x0 give the same value? if not, it is fresh noise
2. near: F at c ± rw and at c, r = 1e-6, 1e-4, 1e-2 of the length of x0, for the same few (w, ξ); c is x0, or beside it
   where a bound is near; the differences say how steep F is, and whether x0 lies on a kink
3. farther, only while nothing has changed yet: r = 0.1, 0.3, 1
4. walks: along a few w, in eight pieces; the piece of the largest change is bisected: a jump keeps its height, a slope
   does not
5. for functions without jumps: the radius at which the even part |F₊ + F₋ − 2F₀|, which is kinks and curvature, is half
   of the odd part |F₊ − F₋|, which is slope, along half of the directions; farther outwards only while it is smaller

No query lies farther from x0 than one of these steps asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.estimate.smoothing import Central, draw_sphere
from goldstein.methods.initial_sigma import widths
from goldstein.methods.method import Context
from goldstein.norms import root_mean_square
from goldstein.oracle import DOUBLE, SINGLE, Array, Query
from goldstein.oracle.recipe import Joined, Repeated
from goldstein.oracle.stats import evidence
from goldstein.projection import Box
from goldstein.state import State

EXACT = "exact"
REPLAYED = "replayed"
JUMPS = "jumps"
FRESH = "fresh"
FAILED = "the function failed at x0"
KINDS = (EXACT, REPLAYED, JUMPS, FRESH)

NEAR = (1e-6, 1e-4, 1e-2)  # first radii, in lengths of x0
FARTHER = (0.1, 0.3, 1.0)
PAIRS_SHARE, FEWEST_PAIRS, MOST_PAIRS = 300, 2, 10  # directions: one for so many evaluations, within limits
REPEATS_SHARE, MOST_REPEATS = 100, 44  # 0.9⁴⁴ = 1 %: noise in a tenth of the calls is seen
WALKS = (500, 500, 1500)  # budgets that allow one more walk
STRIDE = 0.5  # length of a walk, in lengths of x0
PIECES = 8  # of a walk
HALVINGS, LAST = 12, 4  # of its largest piece, and those of them in which a jump keeps its height
KEPT = 0.5  # share of the height that counts as kept: of a slope 1/16 is left
STEEPER = 3.0  # slopes at different radii that differ by such a factor are a vote for jumps
BENT = 0.5  # even over odd part at the radius of kinks, in half of the directions
ON_KINK = 0.05  # even over odd part at the smallest radius: x0 lies on a kink
KINK_RADIUS = 0.5  # radius taken then, in lengths of x0: the kink says nothing about it
BISECTIONS = 3  # on log r
CLEAR = 100.0  # a change stands out when it is so many rounding errors
REPLAYS = 2  # values at x0 that a simulator gives again for the same ξ, to see whether it replays its noise
REPLAY_ROUNDING = 1e-6  # relative difference of two such values that may be rounding, in single precision too
SHORT_VALUES = 10  # so many values that fit into float32 are evidence of single precision


@dataclass
class Survey(State):
    """What is known so far.

    Attributes
    ----------
    length : float
        The length of x0, or of its box, in which radii are measured.
    repeats, replays, pairs, walks : int
        Calls at x0, calls there with a ξ that was used before, pairs of points at each radius, and walks.
    requested : str
        The kind that the user has named, "" if none: then only the radius is looked for.
    phase : str
        "repeat", "near", "farther", "walk", "halve", "again", "radius" or "over".
    kind, reason : str
        What was found, and how it showed.
    doubt : bool
        There may be jumps.
    replayed : bool
        The same ξ gave the same values at the same point.
    noise : str
        How noise showed where there should be none.
    radius : float
        Of the query at hand; in the end the length scale found, for the caller (`scale`).
    low, high : float
        It lies between them.
    kink : bool
        x0 lies on a kink.
    w, samples, centre, here
        Directions and ξ of the pairs, where they are centred and the values there.
    first : ndarray or None
        The values of the near pairs, to be asked for again.
    changed, behind : ndarray or None
        How much F changed along each w at the largest radius so far; `behind`: only along −w.
    slopes : list of float
        Root mean square slopes at the near radii that stand out from rounding.
    ends, values : ndarray, shape (2, walks), or None
        Of the piece of each walk that is being bisected; `heights` are the changes some halvings before the last one,
        and `walked` is the number of walks on which anything changed.
    single, double : int
        Values that tell something about their precision.
    level : float
        Largest |F| seen.
    """

    length: float
    repeats: int
    replays: int
    pairs: int
    walks: int
    requested: str
    phase: str
    kind: str = ""
    reason: str = ""
    doubt: bool = False
    replayed: bool = True
    noise: str = ""
    radius: float = 0.0
    low: float = 0.0
    high: float = np.inf
    kink: bool = False
    bisections: int = 0
    w: Array | None = None
    samples: Any = None
    centre: Array | None = None
    here: Array | None = None
    first: Array | None = None
    changed: Array | None = None
    behind: npt.NDArray[np.bool_] | None = None
    slopes: list[float] = field(default_factory=list)
    ends: Array | None = None
    values: Array | None = None
    heights: Array | None = None
    walked: int = 0
    halvings: int = 0
    single: int = 0
    double: int = 0
    level: float = 0.0

    @classmethod
    def plan(cls, x0: Array, context: Context, budget: int, requested: str) -> Survey:
        """Return a survey that costs a tenth of the budget or less, but for the smallest budgets."""
        pairs = min(max(budget // PAIRS_SHARE, FEWEST_PAIRS), MOST_PAIRS)
        walks = sum(budget >= enough for enough in WALKS)
        repeats = 0
        if not context.noisy and not requested:
            repeats = min(budget // REPEATS_SHARE, MOST_REPEATS)
        replays = 0
        if context.sample is not None and context.n is None and not requested:
            replays = REPLAYS
        length = length_of(x0, context)
        return cls(length, repeats, replays, pairs, walks, requested, "repeat" if repeats > 1 else "near")

    @property
    def over(self) -> bool:
        """Whether there is nothing left to ask."""
        return self.phase == "over"

    @property
    def scale(self) -> float:
        """The length scale found: how far from x0 the function stops looking linear."""
        if self.kink or not self.low:
            return KINK_RADIUS * self.length
        if self.high == np.inf:
            return self.low * self.length
        return sqrt(self.low * self.high) * self.length

    @property
    def rounding(self) -> float:
        """The change of F that stands out from its rounding errors."""
        unit = SINGLE if not self.double and self.single >= SHORT_VALUES else DOUBLE
        return CLEAR * unit * self.level

    def ask(self, x0: Array, context: Context) -> Query:
        """Return the next query; every point of it is in the allowed set."""
        if self.phase == "repeat":
            return Query(np.broadcast_to(context.projected(x0, 0.0), (self.repeats, x0.size)))
        if self.phase == "near":
            return self._ask_near(x0, context)
        if self.phase == "again":
            assert self.w is not None
            return self._query(_both(self.centre, NEAR[0] * self.length * self.w), 2, context)
        if self.phase in ("farther", "radius"):
            return self._ask_pairs(x0, context)
        if self.phase == "walk":
            t = np.arange(PIECES + 1.0)[:, None] / PIECES
            return self._ask_walks(np.broadcast_to(t, (PIECES + 1, self._walking.size)), context)
        assert self.ends is not None
        return self._ask_walks(self.ends.mean(axis=0)[None], context)

    def _ask_near(self, x0: Array, context: Context) -> Query:
        w, directions = draw_sphere(context.rng, self.pairs, x0.size)
        samples = None if context.sample is None else context.sample(context.rng, self.pairs)
        centre = context.projected(x0, NEAR[-1] * self.length)
        points = [_both(centre, r * self.length * w) for r in NEAR]
        alone = centre[None] if samples is None else np.tile(centre, (self.pairs + self.replays, 1))
        rows = np.concatenate([*points, alone])
        recipe = None
        if context.project is not None:
            rows = np.stack([context.project(row) for row in rows])
        elif directions is not None:
            around = [Central().recipe(centre, directions, r * self.length) for r in NEAR]
            recipe = Joined([*around, Repeated(centre, len(alone))])
        xi = None if samples is None else np.concatenate([samples] * 7 + [samples[: self.replays]])
        return Query(rows, xi, aux=(w, samples, centre), recipe=recipe)

    def _ask_pairs(self, x0: Array, context: Context) -> Query:
        """Ask for pairs at the radius at hand, and for their centre if it has to move away from a bound."""
        assert self.w is not None
        r = self.radius * self.length
        centre = context.projected(x0, r)
        points = _both(centre, r * self.w)
        parts = 2
        if not np.array_equal(centre, self.centre):  # type: ignore[arg-type]
            alone = centre[None] if self.samples is None else np.tile(centre, (self.pairs, 1))
            points = np.concatenate([points, alone])
            parts = 3
        return self._query(points, parts, context, centre)

    def _query(self, points: Array, parts: int, context: Context, memory: Any = None) -> Query:
        if context.project is not None:
            points = np.stack([context.project(point) for point in points])
        xi = None if self.samples is None else np.concatenate([self.samples] * parts)
        return Query(points, xi, aux=memory)

    @property
    def _walking(self) -> Any:
        """The pairs that are walked along: those that changed most."""
        assert self.changed is not None
        return np.argsort(-self.changed, kind="stable")[: self.walks]

    def _ask_walks(self, t: Array, context: Context) -> Query:
        """Ask for points of the walks: t has one row for each point of a walk, and a column for each walk."""
        assert self.w is not None
        chosen = self._walking
        stride = max(STRIDE, self.radius) * self.length
        assert self.behind is not None
        w = np.where(self.behind[chosen, None], -self.w[chosen], self.w[chosen])
        points = (self.centre + (t * stride)[:, :, None] * w).reshape(-1, self.w.shape[1])
        if context.project is not None:
            points = np.stack([context.project(point) for point in points])
        xi = None if self.samples is None else np.concatenate([self.samples[chosen]] * len(t))
        return Query(points, xi)

    def tell(self, query: Query, values: Array) -> None:
        """Take the answer, and decide what to ask next."""
        finite = values[np.isfinite(values)]
        if finite.size:
            self.level = max(self.level, float(np.abs(finite).max()))
            if not self.double:
                single, double = evidence(finite)
                self.single += single
                self.double += double
        values = np.where(np.isfinite(values), values, np.nan)
        with np.errstate(over="ignore", invalid="ignore"):
            getattr(self, f"_tell_{self.phase}")(query, values)

    def _tell_repeat(self, query: Query, values: Array) -> None:
        finite = np.sort(values[~np.isnan(values)])
        if not finite.size:  # probes nearby would fail as well, and too many failures end a run
            self._decide(JUMPS, FAILED)
            return
        self.phase = "near"
        if finite.size > 1 and finite[-1] - finite[0] > self.rounding:
            shown = f"{finite[0]:.6g} and {finite[-1]:.6g}"
            self._call_noisy(f"The function gave {shown} in {values.size} calls at the same point")

    def _call_noisy(self, showing: str) -> None:
        self.noise = f"{showing}, so it is taken as noise that cannot be replayed; if it takes a seed, use Seeded."
        self._decide(FRESH, "calls at the same point differed")

    def _tell_near(self, query: Query, values: Array) -> None:
        self.w, self.samples, self.centre = query.aux
        k = self.pairs
        pairs = values[: 2 * k * len(NEAR)].reshape(len(NEAR), 2, k)
        here = values[2 * k * len(NEAR) :]
        self.here = np.broadcast_to(here[: here.size - self.replays], (k,))
        self.first = pairs[0]
        if np.isnan(self.here).all():
            self._decide(JUMPS, FAILED)
            return
        if self.replays and self._differ(here[: self.replays], here[-self.replays :]):
            self.replayed = False
            self._decide(FRESH, "the same ξ gave different values at the same point")
            return
        for r, (plus, minus) in zip(NEAR, pairs, strict=True):
            self.changed = self._take_change(plus, minus)
            differences = (plus - minus)[~np.isnan(plus - minus)]
            steep = root_mean_square(differences) if differences.size else 0.0
            if steep > self.rounding:
                self.slopes.append(steep / r)
            if not self.requested or self.requested == EXACT or self.requested == REPLAYED:
                self._take_bend(r, plus, minus)
        self.kink = self._on_kink(pairs[0])
        self.radius = NEAR[-1]
        assert self.changed is not None
        if not (self.changed > self.rounding).any():
            self._go_farther("farther")
        else:
            self._walk()

    def _differ(self, values: Array, again: Array) -> bool:
        """Whether values of the same ξ at the same point differ by more than rounding."""
        rounding = np.maximum(REPLAY_ROUNDING * np.maximum(np.abs(values), np.abs(again)), self.rounding)
        return bool((np.abs(again - values) > rounding).any())

    def _take_change(self, plus: Array, minus: Array) -> Array:
        """Return how much F changed along each w, and note where it did so on the other side alone: walks go there."""
        assert self.here is not None
        self.behind = (np.abs(plus - self.here) <= self.rounding) & (np.abs(minus - self.here) > self.rounding)
        return _change(plus, minus, self.here)

    def _walk(self) -> None:
        """Look for jumps, unless the kind was requested or it would cost too much."""
        self.phase = "walk"
        if self.requested or not self.walks:
            self._after_walks()

    def _on_kink(self, smallest: Array) -> bool:
        """Whether F bends at the centre itself."""
        odd, even = _parts(smallest[0], smallest[1], self.here)
        return bool(even.sum() > max(ON_KINK * odd.sum(), self.rounding))

    def _take_bend(self, r: float, plus: Array, minus: Array) -> bool:
        """Take pairs into the search for the length scale; return whether F looked bent."""
        odd, even = _parts(plus, minus, self.here)
        changing = np.maximum(odd, even) > self.rounding
        bent = not odd.size
        if changing.any():
            bent = bool(np.mean(even[changing] > BENT * odd[changing]) >= 0.5)
        if bent:
            self.high = min(self.high, r)
        elif r < self.high:
            self.low = max(self.low, r)
        return bent

    def _tell_farther(self, query: Query, values: Array) -> None:
        plus, minus = self._take_pairs(query, values)
        self.changed = self._take_change(plus, minus)
        self._take_bend(self.radius, plus, minus)
        if (self.changed > self.rounding).any():
            self._walk()
        else:
            self._go_farther("farther")

    def _take_pairs(self, query: Query, values: Array) -> tuple[Array, Array]:
        k = self.pairs
        self.centre = query.aux
        if values.size > 2 * k:
            self.here = np.broadcast_to(values[2 * k :], (k,))
        return values[:k], values[k : 2 * k]

    def _go_farther(self, phase: str) -> None:
        """Ask at the next radius outwards, or end there."""
        farther = [r for r in FARTHER if r > self.radius]
        if farther:
            self.radius = farther[0]
            self.phase = phase
        elif phase == "farther":
            self._decide(self.requested or JUMPS, f"no change within {self.radius:.3g} |x0| of x0")
        else:
            self.phase = "over"

    def _tell_walk(self, query: Query, values: Array) -> None:
        along = values.reshape(PIECES + 1, -1)
        changes = np.abs(np.diff(along, axis=0))
        piece = np.argmax(np.nan_to_num(changes, nan=-1.0), axis=0)
        walk = np.arange(along.shape[1])
        self.ends = np.stack([piece, piece + 1.0]) / PIECES
        self.values = np.stack([along[piece, walk], along[piece + 1, walk]])
        self.walked = int((changes[piece, walk] > self.rounding).sum())
        self.phase = "halve"

    def _tell_halve(self, query: Query, values: Array) -> None:
        assert self.ends is not None
        assert self.values is not None
        middle = self.ends.mean(axis=0)
        later = np.abs(self.values[1] - values) > np.abs(values - self.values[0])
        self.ends = np.where(later, [middle, self.ends[1]], [self.ends[0], middle])
        self.values = np.where(later, [values, self.values[1]], [self.values[0], values])
        self.halvings += 1
        if self.halvings == HALVINGS - LAST:
            self.heights = np.abs(self.values[1] - self.values[0])
        if self.halvings == HALVINGS:
            self._judge_jumps()

    def _judge_jumps(self) -> None:
        assert self.values is not None
        assert self.heights is not None
        left = np.abs(self.values[1] - self.values[0])
        votes = int((left > np.maximum(KEPT * self.heights, self.rounding)).sum())
        found = f"{votes} of {self.walked} walks found a jump"
        if len(self.slopes) > 1 and max(self.slopes) > STEEPER * min(self.slopes):
            votes += 1
            found = f"{found} and slopes differ by more than {STEEPER:g} times between radii"
        if votes >= min(2, max(self.walked, 1)):
            self.reason = found
            self.phase = "again"
            if self.samples is not None:
                self._decide(JUMPS, found)
            return
        self.doubt = votes == 1
        self._after_walks()

    def _tell_again(self, query: Query, values: Array) -> None:
        assert self.first is not None
        again = values.reshape(2, -1)
        different = np.abs(again - self.first) > self.rounding
        if different.any() or (np.isnan(again) != np.isnan(self.first)).any():
            self._call_noisy("The function gave different values at the same points")
        else:
            self._decide(JUMPS, self.reason)

    def _after_walks(self) -> None:
        """No jumps: look for the length scale."""
        self.kind = self.requested or (EXACT if self.samples is None else REPLAYED)
        self.reason = "no jumps found" if self.walks else "the budget is too small to look for jumps"
        if self.kink:
            self.reason = f"{self.reason}, x0 lies on a kink"
            self.phase = "over"
        elif self.high < np.inf:
            self._bisect()
        else:
            self._go_farther("radius")

    def _tell_radius(self, query: Query, values: Array) -> None:
        plus, minus = self._take_pairs(query, values)
        bent = self._take_bend(self.radius, plus, minus)
        if bent or self.high < np.inf:
            self._bisect()
        else:
            self._go_farther("radius")

    def _bisect(self) -> None:
        if self.bisections == BISECTIONS or not self.low or self.high <= 2 * self.low:
            self.phase = "over"
            return
        self.bisections += 1
        self.radius = sqrt(self.low * self.high)
        self.phase = "radius"

    def _decide(self, kind: str, reason: str) -> None:
        self.kind = kind
        self.reason = reason
        self.phase = "over"


def length_of(x0: Array, context: Context) -> float:
    """Return the length in which radii are measured: that of x0 (of ones if x0 = 0), or of a box that is smaller."""
    length = float(np.linalg.norm(x0))
    if isinstance(context.project, Box):
        wide = np.broadcast_to(widths(context.project), x0.shape)
        across = float(np.linalg.norm(wide)) / 2
        if np.isfinite(across) and across > 0:
            return min(length, across) or across
    return length or sqrt(x0.size)


def _both(centre: Array | None, steps: Array) -> Array:
    """Return centre + steps and centre − steps, one after the other."""
    assert centre is not None
    return np.concatenate([centre + steps, centre - steps])


def _change(plus: Array, minus: Array, here: Array) -> Array:
    """Return how much F changed along each direction, on either side."""
    apart = np.stack([np.abs(plus - minus), np.abs(plus - here), np.abs(minus - here)])
    return np.asarray(np.nan_to_num(apart, nan=0.0).max(axis=0))


def _parts(plus: Array, minus: Array, here: Array | None) -> tuple[Array, Array]:
    """Return the odd and the even parts of those pairs that did not fail."""
    assert here is not None
    odd = np.abs(plus - minus)
    even = np.abs(plus + minus - 2 * here)
    fine = ~(np.isnan(odd) | np.isnan(even))
    return odd[fine], even[fine]
