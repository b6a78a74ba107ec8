"""What others need beside the function: overhead an evaluation, on one noisy nonsmooth finite sum with d = 1,000."""

from __future__ import annotations

import time
import warnings

import numpy as np
from scipy import optimize

import goldstein as gs

D, N, EVALS = 1_000, 1_000, 4_000


class Counted:
    """The function that all share; it keeps count and the time it took itself."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.rows = draw.normal(size=(N, D)) / np.sqrt(D)
        self.rng = np.random.default_rng(1)
        self.calls = 0
        self.seconds = 0.0

    def __call__(self, x, i=None):
        start = time.perf_counter()
        row = self.rows[self.rng.integers(0, N) if i is None else i]
        value = float(abs(row @ np.asarray(x) - row.sum()))
        self.calls += 1
        self.seconds += time.perf_counter() - start
        return value


def _goldstein(f):
    gs.minimize(gs.FiniteSum(f, N), np.zeros(D), gs.GFM(1e-3, 1e-3, 100), max_evals=EVALS, rng=0)


def _goldstein_one(f):
    gs.minimize(gs.FiniteSum(f, N), np.zeros(D), gs.GFM(1e-3, 1e-3), max_evals=EVALS, rng=0)


def _sepcma(f):
    from cmaes import SepCMA

    es = SepCMA(mean=np.zeros(D), sigma=0.1, seed=0)
    while f.calls < EVALS:
        xs = [es.ask() for _ in range(es.population_size)]
        es.tell([(x, f(x)) for x in xs])


def _pycma(f):
    import cma

    options = {"CMA_diagonal": True, "verbose": -9, "maxfevals": EVALS, "seed": 1}
    es = cma.CMAEvolutionStrategy(np.zeros(D), 0.1, options)
    while f.calls < EVALS:
        xs = es.ask()
        es.tell(xs, [f(x) for x in xs])


def _nevergrad(f):
    import nevergrad as ng

    optimizer = ng.optimizers.SPSA(parametrization=D, budget=EVALS)
    optimizer.minimize(f)


def _scipy(f):
    optimize.minimize(f, np.zeros(D), method="Powell", options={"maxfev": EVALS})


PEERS = {
    "goldstein GFM, batch 100": _goldstein,
    "goldstein GFM, batch 1": _goldstein_one,
    "cmaes SepCMA": _sepcma,
    "pycma, diagonal": _pycma,
    "nevergrad SPSA": _nevergrad,
    "scipy Powell": _scipy,
}


def peer_rows():
    """Return the overhead of each, in microseconds an evaluation, and as a multiple of ours."""
    rows, ours = [], None
    for name, run in PEERS.items():
        overheads = []
        for _ in range(3):
            f = Counted()
            start = time.perf_counter()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    run(f)
            except ImportError:
                rows.append({"peer": name, "overhead, µs an evaluation": "not installed", "× goldstein": ""})
                break
            overheads.append((time.perf_counter() - start - f.seconds) / f.calls)
        else:
            ours = ours or min(overheads)
            rows.append(
                {
                    "peer": name,
                    "overhead, µs an evaluation": round(1e6 * min(overheads), 1),
                    "× goldstein": round(min(overheads) / ours, 1),
                }
            )
    return rows
