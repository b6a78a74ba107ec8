"""The initial σ: how far around x0 CMA-ES should look at first.

Levels σ = 3^k, in lengths of each coordinate, all with the same antithetic z and the same ξ: what differs between two
levels is σ alone. They start below one length and go up only while the top level is the best by more than chance, so
that no query lies farther away than it must.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from scipy.special import stdtrit

from goldstein.methods.method import Context, repeated
from goldstein.oracle import Array, Query
from goldstein.projection import Box
from goldstein.state import LATER, State

FACTOR = 3.0  # ratio of neighbouring levels
DEEPEST = -8  # the lowest level of all is 3⁻⁸ lengths
HIGHEST = 4  # and the highest 81 lengths
IN_A_BOX = -1  # one level lower all of them in a box, whose width is the length; and none above a third of it
SHARE = 0.08  # of the budget
LEAST_PAIRS = 3  # fewer pairs of points on a level tell nothing
MOST_PAIRS = 200  # and more of them nothing new
CONFIDENCE = 0.975  # one-sided: of the paired comparisons of two levels
LOW = 0.15  # under fresh noise a level is judged by this quantile
REPLICATES = 5  # so many of the smallest levels show noise alone
LARGEST = 1e12  # σ in lengths: beyond that a function has no minimum that could be found
SPREAD = 2.0  # a level stands out from noise when its interquartile range is so many times that of noise


@dataclass
class InitialSigma(State):
    """The levels asked for so far."""

    lowest: int  # exponent of the lowest level
    top: int  # of the highest one so far
    highest: int  # of the highest allowed
    fallback: int  # of the one to take in doubt
    pairs: int  # antithetic pairs on each level
    z: Array | None = None  # shape (pairs, d): the common directions; None until the first levels were asked for
    samples: Any = None  # shape (pairs,): the common ξ
    values: Array = LATER  # shape (levels, 2, pairs): what came back, from the lowest level upwards

    @classmethod
    def plan(cls, context: Context, budget: int | None) -> InitialSigma:
        """Return levels that spend about 8 % of the budget; `pairs` is 0 when that is too little."""
        boxed = isinstance(context.project, Box) and bool(np.isfinite(widths(context.project)).all())
        lowest = DEEPEST + IN_A_BOX if boxed else DEEPEST
        highest = -1 if boxed else HIGHEST
        fallback = -1 + IN_A_BOX if boxed else -1
        levels = highest - lowest + 1
        pairs = LEAST_PAIRS
        if budget is not None:
            pairs = min(int(SHARE * budget / (2 * levels)), MOST_PAIRS)
        if pairs < LEAST_PAIRS and budget is not None:
            least = 2 * LEAST_PAIRS * (-lowest)  # without going up
            pairs = LEAST_PAIRS if least <= 2 * SHARE * budget else 0
        return cls(lowest, -1, highest, fallback, pairs)

    @property
    def limit(self) -> float:
        """The largest σ that any level has, in lengths."""
        return FACTOR**self.highest

    @property
    def widest(self) -> float:
        """The largest σ that makes sense in any coordinate, in lengths: a third of a box."""
        return self.limit if self.highest < 0 else LARGEST

    @property
    def default(self) -> float:
        """The σ to take when nothing is known, in lengths."""
        return FACTOR**self.fallback

    def ask(self, x: Array, scale: Array, context: Context) -> Query:
        """Return the levels up to the top one that were not asked for yet; all points lie in the allowed set."""
        z = self.z
        samples = self.samples
        if z is None:
            z = context.rng.normal(size=(self.pairs, x.size))
            samples = context.draw(self.pairs)
        n_levels = 0 if self.values is None else len(self.values)
        sigmas = FACTOR ** np.arange(self.lowest + n_levels, self.top + 1.0)
        both = np.stack([z, -z])
        points = (x + scale * sigmas[:, None, None, None] * both).reshape(-1, x.size)
        return Query(context.all_projected(points), repeated(samples, 2 * len(sigmas)), aux=(z, samples))

    def tell(self, context: Context, query: Query, values: Array) -> float | None:
        """Take the answer; return σ, or None when a higher level is asked for."""
        self.z, self.samples = query.aux
        new = np.where(np.isfinite(values), values, np.nan).reshape(-1, 2, self.pairs)
        self.values = new if self.values is None else np.concatenate([self.values, new])
        if np.isnan(self.values).all():
            return self.default
        with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
            scores = np.where(np.isnan(self.values), np.nanmax(self.values), self.values)  # failures come last
            if not context.noisy:  # nothing but the order of the values counts
                return self._choose_paired(_ranks(scores))
            return self._choose_fresh(scores) if context.sample is None else self._choose_paired(scores)

    def share(self, sigma: float) -> float:
        """Return the share of the ξ that tell the points of a level apart: (mean height)² / mean height²."""
        level = self.values[round(log(sigma, FACTOR)) - self.lowest]
        with np.errstate(over="ignore", invalid="ignore"):
            heights = np.abs(level[0] - level[1])
            heights = heights[np.isfinite(heights)]
            heights = heights / (heights.max(initial=0.0) or 1.0)
        power = float((heights**2).mean()) if heights.size else 0.0
        return float(heights.mean()) ** 2 / power if power else 1 / self.pairs

    def _choose_paired(self, values: Array) -> float | None:
        """Compare levels by the lower value of each pair, pair by pair; the fallback level wins in doubt."""
        scores = values.min(axis=1)
        best = int(np.argmin(scores.mean(axis=1)))
        top = len(scores) - 1
        if best == top and self.top < self.highest and _clearly_lower(scores[top], scores[top - 1]):
            self.top += 1
            return None
        fallback = self.fallback - self.lowest
        chosen = best if _clearly_lower(scores[best], scores[fallback]) else fallback
        return float(FACTOR ** (self.lowest + chosen))

    def _choose_fresh(self, values: Array) -> float | None:
        """Compare levels by a low quantile and by their spread; the smallest levels are replicates of x0."""
        every = values.reshape(len(values), -1)
        low = np.quantile(every, LOW, axis=1)
        spread = np.quantile(every, 0.75, axis=1) - np.quantile(every, 0.25, axis=1)
        small = low[:REPLICATES]
        deviation = 1.48 * float(np.median(np.abs(small - np.median(small))))
        error = max(deviation, 0.5 * float(small.std(ddof=1)))
        above_noise = spread > SPREAD * np.median(spread[:REPLICATES])
        top = len(low) - 1
        best = low[top] <= low[:top].min() - stdtrit(REPLICATES - 1, CONFIDENCE) * error
        if self.top < self.highest and (best or not above_noise[top]):
            self.top += 1
            return None
        chosen = int(np.flatnonzero(low <= low.min() + 2 * error)[-1])
        noise_only = np.flatnonzero(~above_noise)  # levels on which noise is all that is seen
        if noise_only.size and noise_only[-1] < top:
            chosen = max(chosen, int(noise_only[-1]))
        return float(FACTOR ** (self.lowest + chosen))


def widths(box: Box) -> Array:
    """Return the sides of a box; infinite where it has none."""
    with np.errstate(over="ignore"):
        return np.asarray(np.subtract(box.upper, box.lower), dtype=float)


def _ranks(values: Array) -> Array:
    """Return the rank of each value among all, the mean of ranks for equal ones."""
    ordered = np.sort(values, axis=None)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2.0


def _clearly_lower(one: Array, other: Array) -> bool:
    """Whether the mean of paired scores is lower by the t-quantile of its standard error."""
    difference = one - other
    n = difference.size
    error = stdtrit(n - 1, CONFIDENCE) * difference.std(ddof=1) / np.sqrt(n)
    return bool(difference.mean() < -error)
