"""The norm of the smoothed gradient, with an error bar.

∇f_δ(x) is an element of Goldstein's subdifferential ∂_δ f(x), so its norm is an upper bound on dist(0, ∂_δ f(x)): a
small one says much, a large one nothing. What is estimated is its square, from independent draws g with mean ∇f_δ(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import stdtrit

from goldstein import arguments
from goldstein.criterion import Check
from goldstein.estimate.constants import constants
from goldstein.estimate.smoothing import DIRECTIONS
from goldstein.facts import Facts
from goldstein.oracle import Array, Oracle
from goldstein.stationarity.draws import Gradients, Source, Values, asked, counted, drive, portions, rounding_error
from goldstein.stationarity.rounding import as_centre, needs_gradients, recognised

DENSE = 1024  # up to this dimension the second moments are kept as one matrix
BLOCK = 1024  # beyond it, inner products are taken within blocks of so many draws
LEAST = 4  # draws that an unbiased estimate of Var U needs
FRAMES = 10  # orthogonal frames that an error bar should rest on
SEEN = 20  # draws that must share the sum of squares, if F is noisy, before there is an upper bound


class Moments:
    """Sums over independent draws g_1 … g_N of a random vector with mean μ and covariance Σ.

    They give U, an unbiased estimate of ‖μ‖², and its variance 4 μ'Σμ/N + 2 tr(Σ²)/(N(N−1)). With K_ij = g_i·g_j the
    averages of K_ij², K_ij K_jk and K_ij K_kl over distinct indices are unbiased for tr(S²), μ'Sμ and ‖μ‖⁴, where
    S = Σ + μμ'; none needs the K_ij one by one, because Σ_ij K_ij² = ‖Σ_i g_i g_i'‖² and Σ_j K_ij = g_i·Σ_j g_j.

    Up to d = 1024 the memory is O(d²), however many draws there are. Beyond, the draws are kept, O(Nd), and those K_ij²
    are averaged whose i and j lie in one block of 1024 draws: all of them up to N = 1024, and unbiased in any case.
    """

    def __init__(self, d: int) -> None:
        self.d = d
        self.n = 0
        self.unit = 0.0  # draws are stored divided by it, so that fourth powers stay in range
        self.sum = np.zeros(d)
        self.cubes = np.zeros(d)
        self.squares = 0.0
        self.fourths = 0.0
        self.second = np.zeros((d, d)) if d <= DENSE else None
        self.rows: list[Array] = []
        self.beyond = False  # a draw was larger than any float

    def add(self, draws: Array) -> None:
        """Take draws, shape (k, d); rows that are not finite are left out."""
        g = draws[np.isfinite(draws).all(axis=1)]
        self.beyond = self.beyond or bool(np.isinf(draws).any())
        self.n += len(g)
        largest = float(np.abs(g).max(initial=0.0))
        if not largest:  # zeros change no sum
            return
        self.unit = self.unit or largest
        g = g / self.unit
        square = np.einsum("ij,ij->i", g, g)
        self.sum += g.sum(axis=0)
        self.cubes += square @ g
        self.squares += float(square.sum())
        self.fourths += float(square @ square)
        if self.second is None:
            self.rows.append(g)
        else:
            self.second += g.T @ g

    @property
    def mean(self) -> Array:
        """The mean of the draws."""
        return self.sum * (self.unit / max(self.n, 1))

    @property
    def sharing(self) -> float:
        """By how many draws the sum of ‖g‖² is carried, (Σ‖g‖²)²/Σ‖g‖⁴: at most as many as are not 0."""
        return self.squares**2 / self.fourths if self.fourths else 0.0

    def spread(self) -> tuple[float, float, float, float]:
        """Return U and estimates of μ'Σμ, tr(Σ²) and the largest eigenvalue of Σ, in units of `unit`²."""
        n, total = self.n, float(self.sum @ self.sum)
        off = total - self.squares  # Σ_{i≠j} K_ij
        if self.second is None:
            pairs, rows, top = self._by_blocks()
        else:
            pairs = float(np.einsum("ij,ij->", self.second, self.second)) - self.fourths  # Σ_{i≠j} K_ij²
            ends = self.sum @ self.second @ self.sum - 2 * self.sum @ self.cubes
            rows = float(ends) + self.fourths  # Σ_i (Σ_{j≠i} K_ij)²
            top = _largest_eigenvalue(self.second / n - np.outer(self.sum, self.sum) / n**2)
        two = pairs / (n * (n - 1))
        three = (rows - pairs) / (n * (n - 1) * (n - 2))
        four = (off * off - 4 * rows + 2 * pairs) / (n * (n - 1) * (n - 2) * (n - 3))
        trace = (self.squares - total / n) / (n - 1)
        # tr(Σ²) ≥ tr(Σ)²/d holds for every covariance: it keeps small samples from claiming to be exact.
        square_trace = max(two - 2 * three + four, trace * trace / self.d)
        return off / (n * (n - 1)), three - four, square_trace, min(top * n / (n - 1), square_trace**0.5)

    def _by_blocks(self) -> tuple[float, float, float]:
        if not self.rows:
            return 0.0, 0.0, 0.0
        g = np.concatenate(self.rows)
        self.rows = [g]
        sides = g @ self.sum - np.einsum("ij,ij->i", g, g)
        seen = count = top = 0.0
        for start in range(0, len(g), BLOCK):
            block = g[start : start + BLOCK]
            gram = block @ block.T
            if start == 0:
                left, right = gram.mean(axis=0), gram.mean(axis=1)[:, None]
                top = _largest_eigenvalue((gram - left - right + gram.mean()) / len(block))
            np.fill_diagonal(gram, 0.0)
            seen += float(np.einsum("ij,ij->", gram, gram))
            count += len(block) * (len(block) - 1)
        return seen / max(count, 1.0) * len(g) * (len(g) - 1), float(sides @ sides), top


def _largest_eigenvalue(matrix: Array) -> float:
    last = len(matrix) - 1
    return max(float(eigh(matrix, eigvals_only=True, subset_by_index=(last, last))[0]), 0.0)


@dataclass(frozen=True)
class NormEstimate:
    """An estimate of ‖∇f_δ(x)‖², as `smoothed_gradient_norm` returns it.

    Attributes
    ----------
    squared : float
        The unbiased estimate U of the squared norm; it may be negative.
    stderr : float
        Standard error of `squared`.
    interval : tuple of float
        Two-sided confidence interval (lo, hi) of the squared norm, rounding errors included; lo may be negative.
    upper : float
        One-sided upper confidence bound of the norm, rounding errors included. Infinite, like the upper end of
        `interval`, where F is noisy and fewer than 20 draws carry the sum of ‖g‖²: what they miss cannot be known.
    rigorous_upper : float or None
        Bound of the norm that holds for every sample size, if a Lipschitz constant was given.
    n : int
        Independent draws it rests on (frames, for orthogonal directions).
    nfev, ngev, nfail : int
        Values and gradients asked for, and how many of them failed. Draws with a failed evaluation are left out,
        which biases the estimate if failures depend on the point.
    confidence : float
        Confidence of `interval`, `upper` and `rigorous_upper`.
    """

    squared: float
    stderr: float
    interval: tuple[float, float]
    upper: float
    rigorous_upper: float | None
    n: int
    nfev: int
    ngev: int
    nfail: int
    confidence: float

    @property
    def norm(self) -> float:
        """Point estimate of the norm, √max(U, 0)."""
        return float(np.sqrt(np.maximum(self.squared, 0.0)))

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"‖∇f_δ(x)‖ is about {self.norm:.4g}, at most {self.upper:.4g} at confidence {self.confidence:g}",
            f"its square is {self.squared:.4g} with standard error {self.stderr:.2g}, interval [{low:.4g}, {high:.4g}]",
            f"{self.n:,} independent draws; {asked(self.nfev, self.ngev, self.nfail)}",
        ]
        if self.rigorous_upper is not None:
            lines.insert(1, f"by the Lipschitz constant given, at most {self.rigorous_upper:.4g} for every sample size")
        return "\n".join(lines)


def estimate(
    moments: Moments,
    count: Facts,
    confidence: float,
    rounding: float = 0.0,
    deviation: float | None = None,
    *,
    noisy: bool,
) -> NormEstimate:
    """Return U, its standard error and its bounds; `deviation` bounds ‖mean − μ‖ at that confidence.

    The normal law is no guide to a slope that comes from few of all ξ: while none of these is drawn, all draws are 0
    and so is the bound. `noisy` draws have an upper bound only when `SEEN` of them share the sum of ‖g‖².

    The intervals invert the test of ‖μ‖² = θ by |U − θ| ≤ z √Var_θ U. The plain U ± z √Var U misses up to a quarter of
    the time where ‖μ‖² is of the order of U's noise, because a U that comes out low takes the estimate of μ'Σμ down
    with it. So from U upwards μ'Σμ is taken to grow by λ(θ − U), λ the largest eigenvalue of Σ, and downwards to shrink
    in proportion to θ. Where U is large against its noise both ends agree with the plain ones to leading order.
    """
    n = moments.n
    rigorous = None if deviation is None else np.inf
    rests_on = (n, count.nfev, count.ngev, count.nfail, confidence)
    if n < LEAST:
        return NormEstimate(np.nan, np.nan, (-np.inf, np.inf), np.inf, rigorous, *rests_on)
    u, along, square_trace, top = moments.spread()
    positive = max(u, 0.0)
    floor = 2 * square_trace / (n * (n - 1))
    slope = 4 * min(max(along, 0.0), top * positive) / n

    def above(z: float) -> float:
        a = 4 * z * z * top / n
        b = z * z * (slope + floor)  # (θ − U)² = a (θ − U) + b
        return positive + (a + float(np.sqrt(a * a + 4 * b))) / 2

    def below(z: float) -> float:
        a = z * z * slope / u if u > 0 else 0.0
        b = z * z * (slope + floor)  # (U − θ)² = b − a (U − θ)
        step = (float(np.sqrt(a * a + 4 * b)) - a) / 2
        return u - (step if step < u else z * float(np.sqrt(floor)))

    two_sided = float(stdtrit(n - 1, (1 + confidence) / 2))
    one_sided = float(stdtrit(n - 1, confidence))
    if deviation is not None and not count.nfail:
        rigorous = float(np.linalg.norm(moments.mean)) + deviation + rounding
    unit = moments.unit * moments.unit  # infinite rather than an error
    scale = moments.unit * (moments.squares / n) ** 0.5
    rounding += 2.0**-50 * scale  # of the sums, which is all that is left when the draws are equal
    low = below(two_sided) * unit
    high = above(two_sided) * unit
    upper = float(np.sqrt(above(one_sided))) * moments.unit
    if moments.beyond or (noisy and moments.sharing < SEEN):
        high = upper = np.inf
    return NormEstimate(
        u * unit,
        float(np.sqrt(4 * max(along, 0.0) / n + floor)) * unit,
        (low - 2 * scale * rounding, high + (2 * scale + rounding) * rounding),
        upper + rounding,
        rigorous,
        *rests_on,
    )


def gather(moments: Moments, source: Source, weights: Array, n: int, rng: np.random.Generator) -> Check[None]:
    """Add n draws of the weighted sum over a source's centres."""
    for k in portions(n, source.cost * source.centres.shape[1]):
        draws = yield from source.each(rng, k)
        moments.add(np.einsum("kmd,m->kd", draws, weights))


def smoothed_gradient_norm(
    oracle: Oracle | Callable[[Array], float],
    x: npt.ArrayLike,
    delta: float,
    n: int,
    *,
    rng: int | np.random.Generator | None = None,
    confidence: float = 0.95,
    directions: str = "iid",
    use: str = "values",
    lipschitz: float | None = None,
) -> NormEstimate:
    """Estimate ‖∇f_δ(x)‖² without bias, with a confidence interval.

    From n independent two-point estimates g_i of ∇f_δ(x), U = (‖Σ g_i‖² − Σ‖g_i‖²) / (n(n−1)) is unbiased for the
    squared norm; ‖mean‖² would be too large by about d L²/n. The intervals rest on the normal law of U with its exact
    variance 4 μ'Σμ/n + 2 tr(Σ²)/(n(n−1)), μ and Σ the mean and covariance of g, both terms estimated from the same
    draws; they hold for large n. Near a zero of the gradient the error of U is about √(2d) L²/n. A slope that few of
    all ξ carry, and none of those drawn, goes unseen by any sample.

    Parameters
    ----------
    oracle : Oracle or callable
        The function; F(·; ξ) is evaluated at x ± δw with the same ξ, if the oracle can. A bare callable `f(x)`
        is asked twice at x (counted) to see whether it is noisy.
    x : array_like, shape (d,)
        The point.
    delta : float
        Smoothing radius δ.
    n : int
        Estimates to draw, at least 4; 2n values are asked for (a few less if orthogonal frames do not fill n).
    rng : int or Generator, optional
        Seed or generator.
    confidence : float, optional
        Of the interval and of the upper bounds.
    directions : {"iid", "orthogonal"}, optional
        "orthogonal": the mean over a frame of min(d, n // 10) orthonormal directions counts as one draw.
    use : {"values", "gradients"}, optional
        "gradients": g_i = ∇F(x + δu_i; ξ_i) with u_i uniform in the ball, n gradients. Needs an oracle with `grad`.
    lipschitz : float, optional
        A bound on the Lipschitz constants of all F(·; ξ). With it `rigorous_upper` = ‖mean‖ + r holds for every n,
        where 2 exp(−n r² / (2(σ² + Br/3))) = 1 − confidence, σ² ≥ E‖g‖² and B ≥ ‖g − μ‖.

    Notes
    -----
    In one dimension a two-point estimate does not depend on w: without ξ the standard error is 0.

    References
    ----------
    T. Lin, Z. Zheng, M. I. Jordan, Gradient-free methods for deterministic and stochastic nonsmooth nonconvex
    optimization, NeurIPS 2022 (∇f_δ(x) ∈ ∂_δ f(x)).
    S. X. Chen, Y.-L. Qin, A two-sample test for high-dimensional data with applications to gene-set testing, Annals
    of Statistics 38, 2010 (U and its variance).
    I. Pinelis, Optimum bounds for the distributions of martingales in Banach spaces, Annals of Probability 22, 1994.

    Examples
    --------
    >>> from goldstein.problems import ridge
    >>> from goldstein.stationarity import smoothed_gradient_norm
    >>> problem = ridge(5)
    >>> far = smoothed_gradient_norm(problem.oracle, problem.x0, delta=0.1, n=2000, rng=0)  # a slope of norm 1
    >>> far.interval[0] < 1 < far.interval[1], far.nfev
    (True, 4000)
    """
    x = as_centre(x, delta)
    delta = float(delta)
    n = arguments.count("n", n, LEAST)
    confidence = arguments.confidence(confidence)
    rng = arguments.generator(rng)
    arguments.one_of("directions", directions, DIRECTIONS)
    arguments.one_of("use", use, ("values", "gradients"))
    oracle, spent = recognised(oracle, x)
    source = _source(oracle, x, delta, n, directions, use)
    draws = n if isinstance(source, Gradients) else n // source.frame
    deviation = None
    if lipschitz is not None:
        if not oracle.replayable:
            raise ValueError("lipschitz= bounds F at one ξ, which this oracle cannot replay at two points: omit it.")
        deviation = _deviation(source, arguments.positive("lipschitz", lipschitz), draws, 1 - confidence)
    moments = Moments(x.size)
    facts = Facts(nfev=spent)
    drive(counted(gather(moments, source, np.ones(1), draws, rng), facts), oracle)
    rounding = rounding_error(x.size, delta, facts)
    return estimate(moments, facts, confidence, rounding, deviation, noisy=oracle.noisy)


def _source(oracle: Oracle, x: Array, delta: float, n: int, directions: str, use: str) -> Source:
    if use == "gradients":
        needs_gradients(oracle)
        if directions != "iid":
            raise ValueError('directions="orthogonal" belongs to use="values"; gradients have no directions.')
        return Gradients(x[None], oracle.sample, delta)
    frame = 1 if directions == "iid" else max(1, min(x.size, n // FRAMES))
    return Values(x[None], delta, oracle.sample, frame)


def _deviation(source: Source, L: float, n: int, risk: float) -> float:
    """Return r with P(‖mean − μ‖ ≥ r) ≤ risk (Pinelis 1994, Theorem 3.4, in Bernstein's form)."""
    square = L * L
    largest = 2 * L
    if isinstance(source, Values):
        d = source.centres.shape[1]
        square = constants(d, L, source.delta).second_moment
        largest = (d / np.sqrt(source.frame) + 1) * L  # ‖g‖ ≤ dL; a frame is the mean of orthogonal vectors like that
    log = np.log(2 / risk) / n
    b = log * largest / 3
    return float(b + np.sqrt(b * b + 2 * log * square))
