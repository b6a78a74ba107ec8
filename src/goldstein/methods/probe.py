"""Probing: how far from x0 the function stops looking linear, how steep it is, and how noisy.

Along random directions w the values F(x0 ± rw; ξ) and F(x0; ξ) split into an odd part, |F₊ − F₋|, which is slope, and
an even part, |F₊ + F₋ − 2F₀|, which is kinks and curvature. Bisection on log r finds the radius where the even part is
half of the odd one: the length scale of the problem, whatever its units. A careful probe goes farther than ‖x0‖ only by
factors, and as long as the function still looks linear.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goldstein.estimate.smoothing import Central, draw_sphere
from goldstein.methods.method import Context, repeated
from goldstein.norms import norm, root_mean_square
from goldstein.oracle import Array, Query
from goldstein.oracle.recipe import Joined, Repeated
from goldstein.projection import Box, Projection
from goldstein.state import State

DECADES = 10  # the scale is sought within ten decades on either side of ‖x0‖ (of 1 if x0 = 0)
ROUNDS = 7  # bisections: 20 decades / 2⁷ leave a factor 1.4
OUTWARDS = 10.0  # by how much the next radius is larger, as long as none was too large
ROUNDING = 1e-13  # values are trusted to this relative accuracy
TINY = float(np.finfo(float).tiny)


@dataclass
class Probe(State):
    """What probing has found so far."""

    rounds: int  # bisections to do
    batch: int  # directions in each
    repeats: int  # evaluations of x0 itself that measure noise
    low: float  # low, high: log r lies between them
    high: float
    start: float = 0.0  # log of the first radius, if `high` is not known
    slope: float = 0.0  # root mean square slope along w at the last radius
    level: float = 0.0  # largest |F| seen at x0
    noise: float = 0.0  # standard deviation of F at x0
    done: int = 0  # queries answered
    steepest: float = 0.0  # largest slope that stood out from noise and rounding
    kink: float = 0.0  # the same of even parts where no slope did
    # it goes outwards by factors, and a radius where only an even part stands out is too far: F is flat out there
    careful: bool = False

    @classmethod
    def plan(cls, x0: Array, budget: int, noisy: bool, *, careful: bool = False) -> Probe:
        """Return a probe that spends a third of the budget at most; `noisy`: the same ξ cannot be asked twice."""
        length = norm(x0) or 1.0
        width = DECADES * np.log(10.0)
        repeats = min(max(budget // 200, 3), 10) if noisy and budget >= 40 else 0
        batch = min(max(budget // 1000, 1), 10)
        rounds = min(ROUNDS, budget // (9 * batch))
        middle = float(np.log(length))
        high = np.inf if careful else middle + width
        return cls(rounds, batch, repeats, middle - width, high, start=middle, careful=careful)

    @property
    def over(self) -> bool:
        return self.done >= self.rounds + (self.repeats > 0)

    @property
    def radius(self) -> float:
        """The length scale found: so far, the radius at which to look next."""
        if np.isfinite(self.high):
            return float(np.exp((self.low + self.high) / 2))
        if self.low < self.start:
            return float(np.exp(self.start))
        return float(np.exp(self.low)) * (1.0 if self.over else OUTWARDS)

    @property
    def floor(self) -> float:
        """The δ below which noise and rounding drown the slope."""
        noise = max(self.noise, ROUNDING * self.level)
        return 0.0 if self.slope == 0 else noise / (np.sqrt(2.0) * self.slope)

    @staticmethod
    def check_room(name: str, project: Projection | None) -> None:
        """Refuse a box that is filled by rounding errors: no δ > 0 keeps x ± δw inside."""
        if isinstance(project, Box) and not project.holds(TINY):
            raise ValueError(
                f"The bounds leave {name} no room for any delta > 0, because their width is within rounding of x: "
                'widen them, fix that variable, or use "auto", which keeps to any bounds.'
            )

    def fitting(self, delta: float, project: Projection | None) -> float:
        """Return δ, halved until the allowed set has room for it; as it is when the set cannot tell."""
        fitted = delta
        for _ in range(100):
            if project is None or project.holds(fitted):
                return fitted
            fitted /= 2
        return delta

    def ask(self, x0: Array, context: Context) -> Query:
        """Return the next query; every point of it is in the allowed set."""
        if self.repeats and self.done == 0:
            return Query(np.broadcast_to(x0, (self.repeats, x0.size)))
        k, d = self.batch, x0.size
        xi = context.draw(k)
        directions, origin = draw_sphere(context.rng, k, d)
        w = self.radius * directions
        if context.project is not None and context.project.holds(self.radius):
            x0 = context.project(x0, self.radius)  # beside a bound, which would look like a kink
        points = np.concatenate([x0 + w, x0 - w, np.tile(x0, (k, 1))])
        recipe = None
        if context.project is None and origin is not None:
            recipe = Joined([Central().recipe(x0, origin, self.radius), Repeated(x0, k)])
        return Query(context.all_projected(points), repeated(xi, 3), recipe=recipe)

    def tell(self, context: Context, query: Query, values: Array) -> None:
        radius = self.radius
        self.done += 1
        if self.repeats and self.done == 1:
            finite = values[np.isfinite(values)]
            self.noise = float(finite.std(ddof=1)) if finite.size > 1 else 0.0
            return
        plus, minus, here = values.reshape(3, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            odd = np.abs(plus - minus)
            even = np.abs(plus + minus - 2 * here)
        fine = np.isfinite(here) & np.isfinite(odd) & np.isfinite(even)
        reach = float(np.abs(query.points - query.points[-1]).max()) * np.sqrt(query.points.shape[1])
        if not fine.any() or reach < radius / 2:  # everything failed, or the allowed set is smaller: too far
            self.high = float(np.log(radius))
            return
        odd = odd[fine]
        even = even[fine]
        top = float(np.abs(here[fine]).max())
        self.level = max(self.level, top)
        clear = 4 * max(self.noise, ROUNDING * top)
        with np.errstate(over="ignore"):
            sloping = odd.mean() > clear
            flat = not sloping and even.mean() > clear
            bent = even.sum() > 0.5 * odd.sum()
        if (sloping and bent) or (flat and self.careful):
            self.high = float(np.log(radius))
        else:
            self.low = float(np.log(radius))
        if odd.any():
            self.slope = root_mean_square(odd) / (2 * radius)
        if sloping:
            self.steepest = max(self.steepest, self.slope)
        elif flat:
            self.kink = max(self.kink, root_mean_square(even) / (2 * radius))
