"""The survey: what kind of function this is, from a few counted probes around x0.

1. repeats (only where there is no ξ): do all calls at x0 give the same value? if not, it is fresh noise
2. near: F at c ± rw and at c, r = 1e-6, 1e-4, 1e-2 of the length of x0, for the same few (w, ξ); c is x0, or beside it
   where a bound is near; the differences say how steep F is, and whether x0 lies on a kink
3. farther, only while nothing has changed yet: r = 0.1, 0.3, 1
4. walks: along a few w, in eight pieces; the piece of the largest change is bisected: a jump keeps its height, a slope
   does not
5. for functions without jumps: the radius at which the even part |F₊ + F₋ − 2F₀|, which is kinks and curvature, is half
   of the odd part |F₊ − F₋|, which is slope, along half of the directions; farther outwards only while it is smaller

No query lies farther from x0 than one of these steps asks for. Each step is a small state that asks, takes the answer
and says which step is next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from goldstein.estimate.smoothing import Central, draw_sphere
from goldstein.facts import SEED_ROUNDOFF, differ
from goldstein.methods.initial_sigma import widths
from goldstein.methods.method import Context, repeated
from goldstein.norms import root_mean_square
from goldstein.oracle import Array, Query
from goldstein.oracle.recipe import Joined, Repeated
from goldstein.projection import Box
from goldstein.state import LATER, State

EXACT = "exact"
REPLAYED = "replayed"
JUMPS = "jumps"
FRESH = "fresh"
FAILED = "the function failed at x0"
KINDS = (EXACT, REPLAYED, JUMPS, FRESH)

NEAR = (1e-6, 1e-4, 1e-2)  # first radii, in lengths of x0
FARTHER = (0.1, 0.3, 1.0)
PAIRS_SHARE, FEWEST_PAIRS, MOST_PAIRS = 300, 2, 10  # directions: one for this many evaluations, within limits
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
CLEAR = 100.0  # rounding errors that a change must have to stand out
REPLAYS = 2  # values at x0 that a simulator gives again for the same ξ, to see whether it replays its noise


@dataclass
class Verdict(State):
    """What was found: the kind and how it showed, whether F may jump, whether ξ is replayed, how noise showed."""

    kind: str = ""
    reason: str = ""
    doubt: bool = False
    replayed: bool = True
    noise: str = ""


@dataclass
class Pairs(State):
    """Directions w and their ξ, where the pairs c ± rw are centred, F(c; ξ), and F at the smallest pairs."""

    w: Array
    samples: Any
    centre: Array
    here: Array = LATER
    smallest: Array = LATER

    def query(self, points: Array, context: Context, centre: Array | None = None) -> Query:
        """Ask for whole sets of points, one for each ξ; `centre` is where they are centred."""
        times = 0 if self.samples is None else len(points) // len(self.samples)
        return Query(context.all_projected(points), repeated(self.samples, times), aux=centre)


@dataclass
class Survey(State):
    """What is known so far."""

    length: float  # the length of x0, or of its box, in which radii are measured
    requested: str  # the kind that the user has named, "" if none: then only the radius is looked for
    n_pairs: int  # n_pairs, n_walks: pairs of points at each radius, and walks
    n_walks: int
    step: Any  # what is asked next; None when the survey is over
    pairs: Pairs = LATER
    verdict: Verdict = field(default_factory=Verdict)
    level: float = 0.0  # largest |F| of its values
    uneven: bool = False  # slopes differ much between the near radii
    radius: float = NEAR[-1]  # the present one
    low: float = 0.0  # low, high: between which the length scale lies
    high: float = np.inf
    bisections: int = 0
    on_kink: bool = False  # x0 lies on a kink, which has no length

    @classmethod
    def plan(cls, x0: Array, context: Context, budget: int, requested: str) -> Survey:
        """Return a survey that costs a tenth of the budget or less, but for the smallest budgets."""
        pairs = min(max(budget // PAIRS_SHARE, FEWEST_PAIRS), MOST_PAIRS)
        walks = sum(budget >= enough for enough in WALKS)
        step: Any = Near()
        repeats = min(budget // REPEATS_SHARE, MOST_REPEATS)
        if not requested and not context.noisy and repeats > 1:
            step = Repeats(repeats)
        if not requested and context.sample is not None and context.n is None:
            step = Near(REPLAYS)
        return cls(length_of(x0, context), requested, pairs, walks, step)

    @property
    def over(self) -> bool:
        return self.step is None

    @property
    def scale(self) -> float:
        """The length scale found: how far from x0 the function stops looking linear."""
        if self.on_kink or not self.low:
            return KINK_RADIUS * self.length
        if self.high == np.inf:
            return self.low * self.length
        return sqrt(self.low * self.high) * self.length

    def ask(self, x0: Array, context: Context) -> Query:
        """Return the next query; every point of it is in the allowed set."""
        query: Query = self.step.ask(self, x0, context)
        return query

    def tell(self, context: Context, query: Query, values: Array) -> None:
        values = np.where(np.isfinite(values), values, np.nan)
        self.level = max(self.level, float(np.nanmax(np.abs(values), initial=0.0)))
        with np.errstate(over="ignore", invalid="ignore"):
            self.step.tell(self, context, query, values)

    def rounding(self, context: Context) -> float:
        """Return the change of F that stands out from its rounding errors."""
        return CLEAR * context.facts.roundoff * self.level

    def decide(self, kind: str, reason: str) -> None:
        self.verdict.kind = kind
        self.verdict.reason = reason
        self.step = None

    def call_noisy(self, values: str) -> None:
        """End with noise that should not be there."""
        self.verdict.noise = taken_as_noise(values)
        self.decide(FRESH, "calls at the same point differed")

    def take_bend(self, r: float, plus: Array, minus: Array, rounding: float) -> bool:
        """Take pairs into the search for the length scale; return whether F looked bent."""
        odd, even = self.parts(plus, minus)
        changing = np.maximum(odd, even) > rounding
        bent = not odd.size
        if changing.any():
            bent = bool(np.mean(even[changing] > BENT * odd[changing]) >= 0.5)
        if bent:
            self.high = min(self.high, r)
        elif r < self.high:
            self.low = max(self.low, r)
        return bent

    def parts(self, plus: Array, minus: Array) -> tuple[Array, Array]:
        """Return the odd and the even parts of those pairs that did not fail."""
        odd = np.abs(plus - minus)
        even = np.abs(plus + minus - 2 * self.pairs.here)
        usable = ~(np.isnan(odd) | np.isnan(even))
        return odd[usable], even[usable]

    def look_for_jumps(self, plus: Array, minus: Array, rounding: float) -> None:
        """Walk along the pairs that changed most, unless the kind was requested; farther out if none has changed."""
        ahead = np.abs(plus - self.pairs.here)
        behind = np.abs(minus - self.pairs.here)
        changed = np.nan_to_num(np.stack([np.abs(plus - minus), ahead, behind]), nan=0.0).max(axis=0)
        if not (changed > rounding).any():
            self.go_farther(Farther())
        elif self.requested or not self.n_walks:
            self.look_for_scale()
        else:
            chosen = np.argsort(-changed, kind="stable")[: self.n_walks]
            backwards = (ahead <= rounding) & (behind > rounding)  # F changed on that side alone
            w = np.where(backwards[chosen, None], -self.pairs.w[chosen], self.pairs.w[chosen])
            samples = None if self.pairs.samples is None else self.pairs.samples[chosen]
            self.step = Walks(Pairs(w, samples, self.pairs.centre), max(STRIDE, self.radius) * self.length)

    def look_for_scale(self) -> None:
        usual = EXACT if self.pairs.samples is None else REPLAYED
        reason = "no jumps found" if self.n_walks else "the budget is too small to look for jumps"
        if self.on_kink:
            reason = f"{reason}, x0 lies on a kink"
        self.decide(self.requested or usual, reason)
        if self.on_kink:
            return
        if self.high < np.inf:
            self.bisect()
        else:
            self.go_farther(Radius())

    def go_farther(self, step: Farther | Radius) -> None:
        """Ask at the next radius outwards, or end there."""
        farther = [r for r in FARTHER if r > self.radius]
        if farther:
            self.radius = farther[0]
            self.step = step
        elif isinstance(step, Farther):
            self.decide(self.requested or JUMPS, f"no change within {self.radius:.3g} |x0| of x0")
        else:
            self.step = None

    def bisect(self) -> None:
        """Ask between the radii that enclose the length scale, a few times."""
        if self.bisections == BISECTIONS or not self.low or self.high <= 2 * self.low:
            self.step = None
            return
        self.bisections += 1
        self.radius = sqrt(self.low * self.high)
        self.step = Radius()


@dataclass
class Repeats(State):
    """Step 1."""

    count: int

    def ask(self, survey: Survey, x0: Array, context: Context) -> Query:
        return Query(np.broadcast_to(context.projected(x0, 0.0), (self.count, x0.size)))

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        finite = np.sort(values[~np.isnan(values)])
        if not finite.size:  # probes nearby would fail as well, and too many failures end a run
            survey.decide(JUMPS, FAILED)
        elif context.facts.differ(finite[0], finite[-1]):
            both = f"{finite[0]:.6g} and {finite[-1]:.6g}"
            survey.call_noisy(f"{both} in {values.size} calls at the same point")
        else:
            survey.step = Near()


@dataclass
class Near(State):
    """Step 2; some of the values at the centre are asked for twice."""

    replays: int = 0

    def ask(self, survey: Survey, x0: Array, context: Context) -> Query:
        k = survey.n_pairs
        w, directions = draw_sphere(context.rng, k, x0.size)
        samples = context.draw(k)
        centre = context.projected(x0, NEAR[-1] * survey.length)
        alone = centre[None] if samples is None else np.tile(centre, (k + self.replays, 1))
        points = np.concatenate([*(_both(centre, r * survey.length * w) for r in NEAR), alone])
        recipe = None
        if context.project is None and directions is not None:
            around = [Central().recipe(centre, directions, r * survey.length) for r in NEAR]
            recipe = Joined([*around, Repeated(centre, len(alone))])
        xi = None if samples is None else np.concatenate([samples] * 7 + [samples[: self.replays]])
        return Query(context.all_projected(points), xi, aux=Pairs(w, samples, centre), recipe=recipe)

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        survey.pairs = pairs = query.aux
        k = survey.n_pairs
        near = values[: 2 * k * len(NEAR)].reshape(len(NEAR), 2, k)
        here = values[2 * k * len(NEAR) :]
        pairs.here = np.broadcast_to(here[: here.size - self.replays], (k,))
        pairs.smallest = near[0]
        if np.isnan(pairs.here).all():
            survey.decide(JUMPS, FAILED)
            return
        first = here[: self.replays]
        again = here[here.size - self.replays :]
        if (differ(first, again, SEED_ROUNDOFF) & context.facts.differ(first, again)).any():
            survey.verdict.replayed = False
            survey.decide(FRESH, "the same ξ gave different values at the same point")
            return
        rounding = survey.rounding(context)
        slopes = []
        for r, (plus, minus) in zip(NEAR, near, strict=True):
            differences = (plus - minus)[~np.isnan(plus - minus)]
            steep = root_mean_square(differences) if differences.size else 0.0
            if steep > rounding:
                slopes.append(steep / r)
            survey.take_bend(r, plus, minus, rounding)
        survey.uneven = len(slopes) > 1 and max(slopes) > STEEPER * min(slopes)
        odd, even = survey.parts(*near[0])
        survey.on_kink = bool(even.sum() > max(ON_KINK * odd.sum(), rounding))
        survey.look_for_jumps(plus, minus, rounding)


@dataclass
class Radius(State):
    """Step 5: pairs at the present radius, and their centre if it has to move away from a bound."""

    def ask(self, survey: Survey, x0: Array, context: Context) -> Query:
        pairs = survey.pairs
        r = survey.radius * survey.length
        centre = context.projected(x0, r)
        points = _both(centre, r * pairs.w)
        if not np.array_equal(centre, pairs.centre):
            alone = centre[None] if pairs.samples is None else np.tile(centre, (survey.n_pairs, 1))
            points = np.concatenate([points, alone])
        return pairs.query(points, context, centre)

    def take_pairs(self, survey: Survey, query: Query, values: Array) -> tuple[Array, Array]:
        k = survey.n_pairs
        survey.pairs.centre = query.aux
        if values.size > 2 * k:
            survey.pairs.here = np.broadcast_to(values[2 * k :], (k,))
        return values[:k], values[k : 2 * k]

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        plus, minus = self.take_pairs(survey, query, values)
        bent = survey.take_bend(survey.radius, plus, minus, survey.rounding(context))
        if bent or survey.high < np.inf:
            survey.bisect()
        else:
            survey.go_farther(self)


@dataclass
class Farther(Radius):
    """Step 3."""

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        plus, minus = self.take_pairs(survey, query, values)
        rounding = survey.rounding(context)
        survey.take_bend(survey.radius, plus, minus, rounding)
        survey.look_for_jumps(plus, minus, rounding)


@dataclass
class Walks(State):
    """Step 4."""

    pairs: Pairs  # along which w they go, with which ξ, and from where
    stride: float  # how far
    ends: Array | None = None  # shape (2, walks): of the piece of each walk that is being bisected
    values: Array = LATER  # F there
    heights: Array = LATER  # the changes some halvings before the last one
    changing: int = 0  # on how many walks anything changed
    halvings: int = 0

    def ask(self, survey: Survey, x0: Array, context: Context) -> Query:
        walks, d = self.pairs.w.shape
        if self.ends is None:
            t = np.tile(np.arange(PIECES + 1.0)[:, None] / PIECES, walks)
        else:
            t = self.ends.mean(axis=0)[None]
        points = self.pairs.centre + (t * self.stride)[:, :, None] * self.pairs.w
        return self.pairs.query(points.reshape(-1, d), context)

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        rounding = survey.rounding(context)
        if self.ends is None:
            along = values.reshape(PIECES + 1, -1)
            changes = np.abs(np.diff(along, axis=0))
            piece = np.argmax(np.nan_to_num(changes, nan=-1.0), axis=0)
            walk = np.arange(along.shape[1])
            self.ends = np.stack([piece, piece + 1.0]) / PIECES
            self.values = np.stack([along[piece, walk], along[piece + 1, walk]])
            self.changing = int((changes[piece, walk] > rounding).sum())
            return
        middle = self.ends.mean(axis=0)
        later = np.abs(self.values[1] - values) > np.abs(values - self.values[0])
        self.ends = np.where(later, [middle, self.ends[1]], [self.ends[0], middle])
        self.values = np.where(later, [values, self.values[1]], [self.values[0], values])
        self.halvings += 1
        heights = np.abs(self.values[1] - self.values[0])
        if self.halvings == HALVINGS - LAST:
            self.heights = heights
        if self.halvings == HALVINGS:
            self.judge(survey, int((heights > np.maximum(KEPT * self.heights, rounding)).sum()))

    def judge(self, survey: Survey, votes: int) -> None:
        reason = f"{votes} of {self.changing} walks found a jump"
        if survey.uneven:
            votes += 1
            reason = f"{reason} and slopes differ by more than {STEEPER:g} times between radii"
        if votes < min(2, max(self.changing, 1)):
            survey.verdict.doubt = votes == 1
            survey.look_for_scale()
        elif survey.pairs.samples is None:
            survey.step = Again(reason)
        else:
            survey.decide(JUMPS, reason)


@dataclass
class Again(State):
    """Ask for the smallest pairs again: what looks like jumps may be noise."""

    reason: str

    def ask(self, survey: Survey, x0: Array, context: Context) -> Query:
        pairs = survey.pairs
        return pairs.query(_both(pairs.centre, NEAR[0] * survey.length * pairs.w), context)

    def tell(self, survey: Survey, context: Context, query: Query, values: Array) -> None:
        again = values.reshape(2, -1)
        first = survey.pairs.smallest
        if context.facts.differ(first, again).any() or (np.isnan(again) != np.isnan(first)).any():
            survey.call_noisy("different values at the same points")
        else:
            survey.decide(JUMPS, self.reason)


def taken_as_noise(values: str) -> str:
    """Say that calls at one point gave these values."""
    return (
        f"The function gave {values}, so it is taken as noise that cannot be replayed; if it takes a seed, use Seeded."
    )


def length_of(x0: Array, context: Context) -> float:
    """Return the length in which radii are measured: that of x0 (of ones if x0 = 0), or of a box that is smaller."""
    length = float(np.linalg.norm(x0))
    if isinstance(context.project, Box):
        wide = np.broadcast_to(widths(context.project), x0.shape)
        across = float(np.linalg.norm(wide)) / 2
        if np.isfinite(across) and across > 0:
            return min(length, across) or across
    return length or sqrt(x0.size)


def _both(centre: Array, steps: Array) -> Array:
    """Return centre + steps and centre − steps, one after the other."""
    return np.concatenate([centre + steps, centre - steps])
