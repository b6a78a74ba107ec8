"""Measured guesses of L and of the initial gap, for users who know neither. Guesses, not bounds."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.estimate.smoothing import ball, sphere
from goldstein.minimize import minimize
from goldstein.oracle import Array, Oracle, Query
from goldstein.theory.plans import written

LEAST = 60  # evaluations below which nothing can be said
NUMBERS_AT_ONCE = 2**22  # coordinates in one query; a guess is no better for more of them


@dataclass(frozen=True)
class Estimates:
    """Measured guesses of what plans are computed from; made by `estimate`. Not bounds: no theorem holds with them.

    Attributes
    ----------
    L_guess, L_guess_stderr : float
        √(d · mean of squared slopes), which is the root mean square of ‖∇F(·; ξ)‖ where f was looked at, and its
        standard error. The true L is a bound everywhere, hence as large or larger.
    largest_slope : float
        Largest |F(y; ξ) − F(z; ξ)|/‖y − z‖ seen: no Lipschitz constant that holds for every ξ is smaller.
    gap_guess, gap_guess_stderr : float
        f(x0) − f at the lowest point found, and the standard error of that difference; or f(x0) − f_lower. The true
        gap is as large or larger if a run found it, since no run finds inf f. Where that is not positive: L_guess ·
        delta, by which f may fall within the ball that was looked at; `note` says so.
    f_start, f_lowest : float
        The two values compared.
    x_lowest : ndarray, shape (d,)
        The lowest point found; x0 if no run was made, or it found nothing lower.
    delta : float
        Radius of the balls in which slopes were measured.
    nfev : int
        Values that all this took.
    note : str
        What was assumed, if anything.
    """

    L_guess: float
    L_guess_stderr: float
    largest_slope: float
    gap_guess: float
    gap_guess_stderr: float
    f_start: float
    f_lowest: float
    x_lowest: Array
    delta: float
    nfev: int
    note: str = ""

    def __str__(self) -> str:
        rows = [
            ("guess of L", _with_error(self.L_guess, self.L_guess_stderr)),
            ("largest slope seen", f"{self.largest_slope:.3g}"),
            ("guess of the gap", _with_error(self.gap_guess, self.gap_guess_stderr)),
            ("evaluations", written(self.nfev)),
        ]
        rows += [("note", self.note)] if self.note else []
        text = "Measured guesses (not bounds: the true L and gap may be larger)"
        return "\n".join([text, *(f"  {key:<18}  {value}" for key, value in rows)])


def estimate(
    oracle: Oracle,
    x0: npt.ArrayLike,
    *,
    delta: float | None = None,
    f_lower: float | None = None,
    max_evals: int = 1000,
    rng: int | np.random.Generator | None = None,
) -> Estimates:
    """Measure guesses of L and of the gap f(x0) − inf f, for `plan` and `compare` when nothing better is known.

    L comes from two-point slopes in a ball around x0 and in one around the lowest point found, whichever is steeper;
    the gap from a line search and a short run of "auto". Everything is a measured guess: a function may be steeper
    elsewhere and lower than any run goes, and a plan computed from guesses has no guarantee.

    Parameters
    ----------
    oracle : Oracle
        What to ask; it must be able to evaluate the same ξ at two points, so not `Unreplayable`.
    x0 : array_like, shape (d,)
        Start point.
    delta : float, optional
        Radius of the balls in which slopes are measured, each over a fifth of it. None: a hundredth of ‖x0‖, or of
        1 if x0 = 0.
    f_lower : float, optional
        A known lower bound of f; the gap is then f(x0) − f_lower, and no run is made.
    max_evals : int, optional
        Most values of F that may be asked for, at least 60.
    rng : int or Generator, optional
        Seed or generator.

    Returns
    -------
    Estimates

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda X: np.abs(X - 1).sum(axis=1), vectorized=True)
    >>> guess = gs.theory.estimate(oracle, np.zeros(4), rng=0)
    >>> guess.nfev <= 1000, bool(1.5 < guess.L_guess < 2.5), bool(2 < guess.gap_guess <= 4)  # L = 2, gap 4
    (True, True, True)
    """
    if not isinstance(oracle, Oracle):
        raise TypeError(f"estimate takes an oracle, such as Deterministic(f), got {type(oracle).__name__}.")
    if not oracle.replayable:
        raise ValueError("estimate needs the same ξ at two points, which an Unreplayable oracle cannot give.")
    x = arguments.point("x0", x0)
    radius = _length(x) if delta is None else arguments.positive("delta", delta)
    if f_lower is not None:
        f_lower = arguments.number("f_lower", f_lower, "a finite number or None", math.isfinite)
    budget = arguments.count("max_evals", max_evals, LEAST)
    probe = _Probe(oracle, arguments.generator(rng), budget)
    if f_lower is not None:
        return _against_bound(probe, x, radius, float(f_lower))
    return _by_run(probe, x, radius)


@dataclass
class _Probe:
    """An oracle with a generator and a count."""

    oracle: Oracle
    rng: np.random.Generator
    budget: int
    nfev: int = 0

    def ask(self, points: Array, samples: Any) -> Array:
        self.nfev += len(points)
        return self.oracle.evaluate(Query(points, samples)).values

    def rows(self, requested: int, d: int) -> int:
        return min(max(requested, 4), max(64, NUMBERS_AT_ONCE // d))

    def common_samples(self, d: int) -> Any:
        """Draw the ξ on which values are compared, a fortieth of the budget; None when there is no ξ."""
        n, k = self.oracle.n, self.rows(self.budget // 40, d)
        if self.oracle.sample is None:
            return None
        return np.arange(n) if n is not None and n <= k else self.oracle.sample(self.rng, k)

    def values(self, x: Array, samples: Any) -> Array:
        k = 1 if samples is None else len(samples)
        return self.ask(np.tile(x, (k, 1)), samples)

    def slopes(self, x: Array, radius: float, pairs: int) -> tuple[Array, Array]:
        """Return (F(y + hw; ξ) − F(y − hw; ξ))/(2h) and w, y uniform in the ball around x, without those that failed.

        y is random because at a kink on which x may sit, the two values of a pair around x are often equal.
        """
        d, h = x.size, radius / 10
        y, w = x + radius * ball(self.rng, pairs, d), sphere(self.rng, pairs, d)
        xi = None if self.oracle.sample is None else self.oracle.sample(self.rng, pairs)
        values = self.ask(np.concatenate([y + h * w, y - h * w]), None if xi is None else np.concatenate([xi, xi]))
        slopes = (values[:pairs] - values[pairs:]) / (2 * h)
        fine = np.isfinite(slopes)
        return slopes[fine], w[fine]


def _steepness(slopes: Array, d: int) -> tuple[float, float]:
    """Return √(d · mean s²), which is the root mean square of ‖∇F‖ for s = ⟨∇F, w⟩, and its standard error."""
    if slopes.size < 2:
        raise ValueError("Nearly all values near x0 failed, so nothing can be measured there.")
    squares = d * slopes**2
    L, error = np.sqrt(squares.mean()), squares.std(ddof=1) / np.sqrt(squares.size)
    return float(L), float(error / (2 * L)) if L > 0 else 0.0


def _mean(values: Array, exact: bool) -> tuple[float, float]:
    fine = values[np.isfinite(values)]
    if fine.size == 0:
        raise ValueError("All values at x0 failed, so nothing can be measured there.")
    error = 0.0 if exact or fine.size < 2 else fine.std(ddof=1) / np.sqrt(fine.size)
    return float(fine.mean()), float(error)


def _length(x: Array) -> float:
    """Return a small length where nothing but x0 tells what is small."""
    return 0.01 * (float(np.linalg.norm(x)) or 1.0)


def _against_bound(probe: _Probe, x: Array, radius: float, f_lower: float) -> Estimates:
    xi = probe.common_samples(x.size)
    f_start, error = _mean(probe.values(x, xi), xi is None or len(xi) == probe.oracle.n)
    if f_start < f_lower:
        raise ValueError(f"f_lower = {f_lower:g} is no lower bound: at x0 the value {f_start:g} was measured.")
    slopes, _ = probe.slopes(x, radius, probe.rows((probe.budget - probe.nfev) // 2, x.size))
    L, L_error = _steepness(slopes, x.size)
    gap, top = f_start - f_lower, float(np.abs(slopes).max())
    gap, error, note = _positive_gap(gap, error, L, radius, "x0 is as low as the lower bound")
    return Estimates(L, L_error, top, gap, error, f_start, f_lower, x, radius, probe.nfev, note)


def _by_run(probe: _Probe, x: Array, radius: float) -> Estimates:
    xi, pairs = probe.common_samples(x.size), probe.rows(probe.budget // 16, x.size)
    exact = xi is None or len(xi) == probe.oracle.n
    slopes, w = probe.slopes(x, radius, pairs)
    L, error = _steepness(slopes, x.size)
    reserve = 2 * pairs + 2 * (1 if xi is None else len(xi))  # slopes and values at the lowest point, values at x0
    ahead = _search(probe, x, slopes @ w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what the run finds out about itself is not what was asked
        run = minimize(probe.oracle, ahead, "auto", max_evals=probe.budget - probe.nfev - reserve, rng=probe.rng)
    probe.nfev += run.nfev
    start, end = probe.values(x, xi), probe.values(run.x, xi)
    f_start, _ = _mean(start, exact)
    gap, gap_error = _mean(start - end, exact) if np.isfinite(start - end).any() else (0.0, 0.0)
    lowest = run.x if gap > 0 else x
    there, _ = probe.slopes(lowest, radius, pairs)
    if there.size >= 2:
        L, error = max((L, error), _steepness(there, x.size))
    top = float(np.abs(np.concatenate([slopes, there])).max())
    f_lowest = f_start - max(gap, 0.0)
    gap, gap_error, note = _positive_gap(gap, gap_error, L, radius, "no point lower than x0 was found")
    return Estimates(L, error, top, gap, gap_error, f_start, f_lowest, lowest, radius, probe.nfev, note)


def _positive_gap(gap: float, error: float, L: float, radius: float, why: str) -> tuple[float, float, str]:
    """Return a gap that plans can be made with, its standard error, and a note if it was not measured."""
    if gap > 0:
        return gap, error, ""
    return L * radius, 0.0, f"{why}, so the gap is taken as L · delta, by which f may fall within delta = {radius:g}"


def _with_error(value: float, error: float) -> str:
    return f"{value:.3g} ± {error:.2g}" if error > 0 else f"{value:.3g}"


def _search(probe: _Probe, x: Array, g: Array) -> Array:
    """Return the lowest of x and the points at lengths ‖x0‖ · 10^(−3 … 1) along −g, on a few common ξ."""
    norm = float(np.linalg.norm(g))
    if not norm > 0:
        return x
    lengths = 100 * _length(x) * np.r_[0.0, np.logspace(-3, 1, 9)]
    points = x - lengths[:, None] * (g / norm)
    sample, k = probe.oracle.sample, min(max(1, probe.budget // 200), 64)
    if sample is None:
        values = probe.ask(points, None)
    else:
        xi = np.concatenate([sample(probe.rng, k)] * len(points))  # evaluated once: the same ξ at every point
        values = probe.ask(np.repeat(points, k, axis=0), xi)
    means = np.where(np.isfinite(values), values, np.inf).reshape(len(points), -1).mean(axis=1)
    return np.asarray(points[np.argmin(means)])
