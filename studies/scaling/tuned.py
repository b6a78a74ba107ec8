"""The tuned part: evaluations until an upper bound on dist(0, ∂_δ f(x)) is at most ε, for the best setting of a grid.

The bound is the same for all methods: the shortest of the exact ∇f_ρ(x), ρ = δ, δ/2, δ/4, δ/20, each an element of
∂_δ f(x). It is checked whenever the evaluations have grown by 3 %, costs none, and a target counts as reached at the
second of two consecutive checks that meet it. x is the current iterate; for ZO-O2NC the mean of its newest block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from studies import Array
from studies.record import finite
from studies.scaling.problems import TERRAINS, N, Terrain

GROWTH = 1.03
DEEPER = 3  # each round of tuning goes so many times as far as the one before
WIDE, FINALISTS = 5, 6  # settings that go on from the first seed of the screening, and from all of them
Setting = dict[str, float]


@dataclass(frozen=True)
class Tuning:
    """How wide the search is; `quick` is a toy."""

    steps: tuple[float, ...]
    epochs: tuple[tuple[int, int], ...]
    blocks: tuple[int, ...]
    fine: tuple[float, ...]
    coarse: tuple[float, ...]
    base: tuple[int, float]
    dims: tuple[int, ...]
    radii: tuple[float, ...]
    tuning_seeds: tuple[int, ...]
    reporting_seeds: tuple[int, ...]
    first_budget: int = 3000
    most: int = 4 * 10**7

    def places(self) -> list[tuple[int, float]]:
        """Return the pairs (d, δ): the base, then one of both changed."""
        d, delta = self.base
        return [self.base, *((k, delta) for k in self.dims if k != d), *((d, r) for r in self.radii if r != delta)]

    def targets(self, terrain: str, place: tuple[int, float]) -> tuple[float, ...]:
        """Return the ε that are aimed at, falling."""
        return tuple(TERRAINS[terrain].scale * e for e in (self.fine if place == self.base else self.coarse))

    def grid(self, method: str) -> list[Setting]:
        """Return the settings of a method; its steps are those of all the others."""
        if method == "gfm+":
            return [{"step": s, "m": m, "b": b} for m, b in self.epochs for s in self.steps]
        if method == "zo-o2nc ogd":
            return [{"step": s, "M": M} for M in self.blocks for s in self.steps]
        if method == "zo-o2nc adagrad":
            return [{"M": M} for M in self.blocks]
        return [{"step": s} for s in self.steps]


METHODS = ("gfm", "gfm decayed", "gfm+", "zo-o2nc ogd", "zo-o2nc adagrad")
FULL = Tuning(
    steps=tuple(2.0**-k for k in range(-2, 15)),
    epochs=tuple((m, b) for m in (8, 32, 128) for b in (1, 4, 16)),
    blocks=(16, 64, 256, 1024),
    fine=tuple(0.16 * 2.0 ** (-k / 2) for k in range(7)),
    coarse=(0.16, 0.08, 0.04),
    base=(3, 0.5),
    dims=(3, 6, 12, 24),
    radii=(0.25, 0.5, 1.0),
    tuning_seeds=tuple(range(100, 111)),
    reporting_seeds=tuple(range(1000, 1020)),
)
QUICK = Tuning(
    steps=tuple(2.0**-k for k in range(1, 10, 2)),
    epochs=((8, 4), (32, 4)),
    blocks=(64,),
    fine=(0.32, 0.16, 0.08),
    coarse=(0.32, 0.16),
    base=(3, 0.5),
    dims=(3, 6),
    radii=(0.5, 1.0),
    tuning_seeds=(100, 101, 102, 103),
    reporting_seeds=(1000, 1001, 1002, 1003),
    first_budget=1000,
    most=200_000,
)


@dataclass(frozen=True)
class Trial:
    """What one run gave: evaluations at each target (0: not reached), and the facts of the kernels."""

    hits: Array
    facts: Array


class Ground:
    """A terrain at one (d, δ), ready for runs."""

    def __init__(self, terrain: Terrain, d: int, delta: float) -> None:
        self.start, self.args, self.delta = terrain.start(d), terrain.args(d), delta
        self.gauge = terrain.gauge(d, delta)

    def bound(self, x: Array) -> float:
        """Return the upper bound on dist(0, ∂_δ f(x)) that all methods are judged by."""
        from studies.scaling import kernels

        return float(kernels.bound(np.asarray(x, float), self.gauge, np.empty(x.size)))

    def run(self, method: str, setting: Setting, seed: int, targets: tuple[float, ...], limit: float) -> Trial:
        """Run a method until the smallest target is reached or `limit` evaluations are used."""
        from studies.scaling import kernels

        hits, facts = np.zeros(len(targets)), np.zeros(kernels.FACTS)
        rng, x = np.random.default_rng(seed), self.start.copy()
        common = (self.delta, np.array(targets), float(limit), GROWTH, self.gauge, hits, facts)
        step = float(setting.get("step", 0.0))
        if method == "gfm+":
            kernels.hit_gfm_plus(self.args, rng, N, x, step, int(setting["m"]), int(setting["b"]), *common)
        elif method in ("zo-o2nc ogd", "zo-o2nc adagrad"):
            kernels.hit_zo_o2nc(self.args, rng, N, x, step, int(setting["M"]), *common)
        else:
            kernels.hit_gfm(self.args, rng, N, x, step, method == "gfm decayed", *common)
        return Trial(hits, facts)


def measure(terrain: str, place: tuple[int, float], method: str, tuning: Tuning, workers: int = 2) -> dict[str, Any]:
    """Tune a method at one (d, δ) for every ε, then report it on seeds of its own."""
    ground, targets = Ground(TERRAINS[terrain], *place), tuning.targets(terrain, place)
    with ThreadPoolExecutor(workers) as pool:
        chosen = tune(ground, method, targets, tuning, pool.map)
        rows = [
            _report(ground, method, setting, tuned, target, tuning, pool.map)
            for target, (setting, tuned) in zip(targets, chosen, strict=True)
        ]
    where = {"terrain": terrain, "d": place[0], "delta": place[1], "method": method}
    return where | {"gap": TERRAINS[terrain].gap(place[0]), "grid": len(tuning.grid(method)), "rows": rows}


Mapper = Callable[..., Iterable[Any]]


def tune(
    ground: Ground, method: str, targets: tuple[float, ...], tuning: Tuning, mapper: Mapper = map
) -> list[tuple[Setting, float]]:
    """Return for each target the best setting, and the geometric mean of its evaluations over the last tuning seeds.

    The whole grid is screened with budgets that grow, until some setting reaches the smallest target with two of three
    seeds. For each target the best of them, and the best step for each choice of the other parameters, are then run on
    the other tuning seeds, which alone decide: those of the screening had a say in who came so far. A run that misses
    counts with DEEPER times its budget.
    """
    grid, budget = tuning.grid(method), float(tuning.first_budget)
    while True:
        score, reached = _screen(ground, method, grid, targets, tuning.tuning_seeds[:3], budget, mapper)
        if reached[:, -1].any() or budget >= tuning.most:
            break
        budget = min(budget * DEEPER, tuning.most)
    chosen: list[tuple[Setting, float]] = []
    for k, target in enumerate(targets):
        order = _best(np.where(reached[:, k], score[:, k], np.inf), grid, FINALISTS, 1)
        if not order:
            chosen.append((chosen[-1][0] if chosen else grid[0], np.inf))
            continue
        limit = min(10 * score[order[0], k], tuning.most)
        seeds = tuning.tuning_seeds[3:]
        jobs = [(method, grid[i], seed, (target,), limit) for i in order for seed in seeds]
        times = [trial.hits[0] or DEEPER * limit for trial in mapper(lambda job: ground.run(*job), jobs)]
        logs = np.log(np.array(times)).reshape(len(order), len(seeds)).mean(axis=1)
        chosen.append((grid[order[int(np.argmin(logs))]], float(np.exp(logs.min()))))
    return chosen


def _screen(
    ground: Ground,
    method: str,
    grid: list[Setting],
    targets: tuple[float, ...],
    seeds: tuple[int, ...],
    budget: float,
    mapper: Mapper,
) -> tuple[Array, Array]:
    """Run the grid with the first seed and what did best for some target with the others.

    Returns the geometric mean of the evaluations for each setting and target, and whether most seeds reached it.
    """
    hits = np.zeros((len(seeds), len(grid), len(targets)))
    hits[0] = [trial.hits for trial in mapper(lambda s: ground.run(method, s, seeds[0], targets, budget), grid)]
    seen = np.where(hits[0] > 0, hits[0], np.inf)
    good = sorted({i for k in range(len(targets)) for i in _best(seen[:, k], grid, WIDE, WIDE)})
    for number, seed in enumerate(seeds[1:], 1):
        trials = mapper(lambda i, seed=seed: ground.run(method, grid[i], seed, targets, budget), good)
        for i, trial in zip(good, trials, strict=True):
            hits[number, i] = trial.hits
    times = np.where(hits > 0, hits, DEEPER * budget)
    return np.exp(np.log(times).mean(axis=0)), (hits > 0).sum(axis=0) > len(seeds) / 2


def _best(times: Array, grid: list[Setting], overall: int, each: int) -> list[int]:
    """Return the `overall` best settings, and the `each` best steps for every choice of the other parameters."""
    order = [int(i) for i in np.argsort(times, kind="stable") if np.isfinite(times[i])]
    taken, counts = order[:overall], dict[tuple[tuple[str, float], ...], int]()
    for i in order:
        others = tuple((name, value) for name, value in grid[i].items() if name != "step")
        counts[others] = counts.get(others, 0) + 1
        if counts[others] <= each and i not in taken:
            taken.append(i)
    return taken


def _report(
    ground: Ground, method: str, setting: Setting, tuned: float, target: float, tuning: Tuning, mapper: Mapper
) -> dict[str, Any]:
    """Run a setting on the reporting seeds; what is not reached within 20 times the tuned evaluations is a miss."""
    limit = min(20 * tuned, tuning.most)
    trials = list(mapper(lambda s: ground.run(method, setting, s, (target,), limit), tuning.reporting_seeds))
    facts = np.array([trial.facts for trial in trials])
    return {
        "epsilon": target,
        "setting": setting,
        "evaluations": [int(trial.hits[0] or trial.facts[0]) for trial in trials],
        "misses": int(sum(trial.hits[0] == 0 for trial in trials)),
        "steps": float(facts[:, 1].mean()),
        "ratio": finite(facts[:, 2].mean()),
        "noise": finite(facts[:, 3].mean()),
        "error": finite(facts[:, 4].mean()),
    }
