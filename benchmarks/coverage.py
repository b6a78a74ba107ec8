"""Coverage of the confidence intervals of `smoothed_gradient_norm`, by repetition.

Run `python benchmarks/coverage.py`; it takes about two minutes of one core and writes results/coverage.json. With a
number of repetitions other than 1,000 as its argument it only prints.

The function is f = |e·x| at signed distance s from its kink, where ‖∇f_δ‖ is known exactly, with N = 300 draws:

  values      two-point estimates of f itself
  noise       the same with F(x; ξ) = |e·x| + ξ·x, ξ standard Gaussian in R^d, so that E F = f
  gradients   ∇f(x + δu)
  orthogonal  two-point estimates along orthonormal frames

s = 0, δ/2 and 2δ are the cells that must lie between 90 % and 99 %; at δ/8 and δ/32 the squared norm comes down to
the order of its own noise. `high` and `low` are the shares of intervals that lie above and below the truth, `upper`
the share of one-sided bounds below it (nominal: at most 5 %), `plain` the coverage of U ± 1.96 standard errors, for
comparison.

Where all draws of a repetition are equal there is no sampling error and nothing to cover: two-point estimates at s = 0
are all exactly 0, gradients and whole frames out of the kink's reach all e. Such cells are called degenerate: what
counts is the largest error of U. Their coverage is 100 %, but for gradients at d = 100 and s = δ/2: there one point in
10⁷ lies beyond the kink, none of them is drawn, and every interval misses the truth, by 1.5e-7 and on the safe side.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import scipy

import goldstein as gs
from goldstein.problems import ridge
from goldstein.stationarity import smoothed_gradient_norm
from studies.record import write_json

FILE = Path(__file__).parent.parent / "results" / "coverage.json"
REPETITIONS = 1_000
DRAWS = 300
DELTA = 0.5
DIMENSIONS = (2, 10, 100)
DISTANCES = (0.0, 0.5, 2.0)  # in δ
BETWEEN = (1 / 8, 1 / 32)


@dataclass(frozen=True)
class Coverage:
    """Shares of repetitions, in percent; `stderr` and `error` are the largest standard error and the largest error."""

    inside: float
    high: float
    low: float
    upper: float
    plain: float
    stderr: float
    error: float

    @property
    def degenerate(self) -> bool:
        """Whether there was nothing to cover."""
        return self.stderr < 1e-7


def tilted(X, xi, e):
    """F(x; ξ) = |e·x| + ξ·x."""
    return np.abs(X @ e) + np.einsum("kd,kd->k", X, xi)


def coverage(kind: str, d: int, distance: float, repetitions: int, seed: int = 0) -> Coverage:
    """Repeat an estimate at distance·δ from the kink and count how often the truth is covered."""
    rng = np.random.default_rng([seed, d, round(1000 * distance)])
    problem = ridge(d, direction=rng.standard_normal(d))
    x = distance * DELTA * problem.x0
    oracle = problem.oracle
    if kind == "noise":
        oracle = gs.Expectation(tilted, lambda r, k: r.standard_normal((k, d)), args=(problem.x0,), vectorized=True)
    options = {"gradients": {"use": "gradients"}, "orthogonal": {"directions": "orthogonal"}}.get(kind, {})
    truth = float(np.sum(problem.smoothed_gradient(x, DELTA) ** 2))
    counts, stderr, error = np.zeros(5), 0.0, 0.0
    for _ in range(repetitions):
        result = smoothed_gradient_norm(oracle, x, DELTA, DRAWS, rng=rng, **options)
        low, high = result.interval
        miss = abs(result.squared - truth)
        counts += low <= truth <= high, low > truth, high < truth, result.upper**2 < truth, miss <= 1.96 * result.stderr
        stderr, error = max(stderr, result.stderr), max(error, miss)
    return Coverage(*(100 * counts / repetitions), stderr, error)


def main(repetitions: int) -> None:
    rows = []
    print(f"{repetitions} repetitions, N = {DRAWS}, nominal 95 %")
    print(f"{'kind':<11}{'d':>4}{'s/δ':>9}{'coverage':>10}{'high':>7}{'low':>7}{'upper':>7}{'plain':>8}")
    for kind in ("values", "noise", "gradients", "orthogonal"):
        for d in DIMENSIONS:
            for s in (*DISTANCES, *BETWEEN):
                c = coverage(kind, d, s, repetitions)
                rows.append({"kind": kind, "d": d, "distance": s, "degenerate": c.degenerate, **asdict(c)})
                if c.degenerate:
                    row = f"   all draws equal, error at most {c.error:.1g}"
                else:
                    row = f"{c.inside:>10.1f}{c.high:>7.1f}{c.low:>7.1f}{c.upper:>7.1f}{c.plain:>8.1f}"
                print(f"{kind:<11}{d:>4}{s:>9.4g}{row}", flush=True)
    if repetitions == REPETITIONS:
        versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
        about = {"command": "python benchmarks/coverage.py", "versions": versions, "seed": 0}
        record = {**about, "repetitions": repetitions, "draws": DRAWS, "delta": DELTA, "confidence": 0.95, "rows": rows}
        write_json(FILE, record)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REPETITIONS)
