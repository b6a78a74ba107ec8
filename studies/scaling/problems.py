"""The two problems of the tuned part of the scaling study, with exact smoothed gradients.

Both are sums over coordinates, F(x; i) = s(x_0) + Σ_j ||x_j − ξ_ij| − c|/√(number of j), so that ∇f_ρ is a vector of
one-dimensional integrals for every radius ρ. No method here can make use of that: all of them draw their directions
from the whole sphere, and a rotation of the coordinates changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, roots_gegenbauer

import goldstein as gs
from studies import Array

N = 1024  # components
SHARES = (1.0, 0.5, 0.25, 0.05)  # radii ρ/δ of the smoothed gradients among which the shortest is taken
TABLE = 16001  # entries; interpolation errs by less than 1e-4 in each of them
NODES = 96


@dataclass(frozen=True)
class Terrain:
    """One of the two problems, for every dimension.

    Attributes
    ----------
    name : str
    reach : float
        Where the slope log(1 + reach) − log(1 + x_0) ends; 0: there is no slope.
    well : float
        c: every coordinate has its minima c away from the noise, and a local maximum at it; 0: a minimum there.
    scale : float
        By which the targets ε are multiplied, so that no method meets the first of them at once.
    text : str
        What it is, for tables.
    """

    name: str
    reach: float
    well: float
    scale: float
    text: str

    def lipschitz(self) -> float:
        """L: the kinks have gradients of norm at most 1, the slope of at most 1 across them."""
        return float(np.sqrt(2.0)) if self.reach else 1.0

    def start(self, d: int) -> Array:
        """Return x0, at distance 2 from a minimum of the kinks, and at the beginning of the slope."""
        kinks = d - bool(self.reach)
        x = np.full(d, abs(self.well - 2.0 / np.sqrt(kinks)))
        if self.reach:
            x[0] = 0.0
        return x

    def args(self, d: int) -> tuple[Array, float, float]:
        """Return what `component` takes: half of the ξ in each column are 0, the others spread over [−1, 1]."""
        values = np.repeat(_atoms(), N // len(_atoms()))
        rng = np.random.default_rng(d)
        xi = np.stack([rng.permutation(values) for _ in range(d)], axis=1)
        return np.ascontiguousarray(xi), self.reach, self.well

    def oracle(self, d: int) -> gs.FiniteSum:
        """Return the problem as an oracle of the library."""
        from studies.scaling.kernels import component

        return gs.FiniteSum(component, N, args=self.args(d))

    def gap(self, d: int) -> float:
        """Return f(x0) − inf f."""
        atoms, x, kinks = _atoms(), self.start(d), d - bool(self.reach)
        far, near = (np.abs(np.abs(t - atoms) - self.well).mean() for t in (x[-1], self.well))
        return float(np.sqrt(kinks) * (far - near) + np.log1p(self.reach))

    def gauge(self, d: int, delta: float) -> tuple[Any, ...]:
        """Return what `bound` needs: ∇f_ρ by tables for the kinks and by quadrature for the slope, ρ = δ·SHARES."""
        radii = delta * np.array(SHARES)
        nodes, weights = roots_gegenbauer(NODES, d / 2)  # the density of e·u, u uniform in the ball
        edge = 1.0 + delta + self.well  # beyond it ∇f_ρ is constant
        grid = np.linspace(-edge, edge, TABLE)
        tables = np.stack([self._kinks(grid, d, rho) for rho in radii])
        return (self.reach, radii, nodes, weights / weights.sum(), tables, -edge, float(grid[1] - grid[0]))

    def _kinks(self, t: Array, d: int, rho: float) -> Array:
        """Return E φ'(t − ξ + ρU), φ(s) = ||s| − c|: each kink counts with the share of the ball beyond it."""
        total = np.zeros_like(t)
        atoms, counts = np.unique(_atoms(), return_counts=True)
        for atom, count in zip(atoms, counts, strict=True):
            for kink, sign in ((-self.well, 1), (0.0, -1), (self.well, 1)):
                total += count * sign * 2 * _marginal((t - atom - kink) / rho, d)
        return np.asarray(total / counts.sum())


def _atoms() -> Array:
    """Return the values of ξ_j, all equally likely: 0 as often as all the others together."""
    spread = (np.arange(64) + 0.5) / 32 - 1
    return np.concatenate([np.zeros(64), spread])


def _marginal(t: Array, d: int) -> Array:
    """Return P(U ≤ t) − 1/2 for U = e·u, u uniform in the unit ball of dimension d."""
    values, inside = np.sign(t) / 2, np.abs(t) < 1
    values[inside] *= betainc(0.5, (d + 1) / 2, t[inside] ** 2)
    return np.asarray(values)


WELLS = Terrain("wells", 0.0, 2.0, 0.5, "E Σ_j ||x_j − ξ_j| − 2|/√d: nonconvex, 2^d minima, the nearest 2 away from x0")
SLOPE = Terrain(
    "slope", 400.0, 0.0, 1.0, "log(401/(1 + min(x_1, 400))) + E Σ_j |x_j − ξ_j|/√(d − 1): a slope that dies slowly"
)
TERRAINS = {terrain.name: terrain for terrain in (WELLS, SLOPE)}
