"""What `minimize(f, x0, max_evals=N)` reaches with no settings at all: run again whenever "auto" changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goldstein as gs
from goldstein.problems import chebyshev_rosenbrock_linear, least_absolute_deviations
from studies import Array, report
from studies.problems.closed_form import l1
from studies.record import command, provenance, write_json, write_whole
from studies.report import markdown

SEEDS = 20
FIRST_SEED = 1000
FEW = 5  # where a run takes a million evaluations
L1_BARS = {10: 1e-9, 100: 1e-9, 1000: 1e-3}


@dataclass(frozen=True)
class Case:
    """One function with a start for each seed, a budget, and what counts as good: (f − f*) below `bar` of the gap.

    So many seeds as `needed` must be good; all but one when that is not given.
    """

    name: str
    oracle: gs.Oracle
    starts: Array
    max_evals: int
    value: Callable[[Array], float]
    f_star: float
    bar: float | None
    needed: int | None = None


def cases(quick: bool = False) -> Iterator[Case]:
    """Yield the cases; `quick` leaves out those of more than 100,000 evaluations a run."""
    for d in (10, 100) if quick else (10, 100, 1000):
        for value_scale, coordinate_scale in ((1.0, 1.0), (1e-4, 1.0), (1e4, 1.0), (1.0, 1e-4), (1.0, 1e4)):
            problem = l1(d, value_scale, coordinate_scale)
            oracle = gs.Deterministic(_jitted_l1(), args=(value_scale, coordinate_scale))
            name = f"‖x−1‖₁, d = {d}, values × {value_scale:g}, coordinates × {coordinate_scale:g}"
            seeds = FEW if d == 1000 else SEEDS
            yield Case(name, oracle, np.zeros((seeds, d)), 1000 * d, problem.value, 0.0, L1_BARS[d], seeds)
    lad = least_absolute_deviations(rng=7)
    jitted = gs.FiniteSum(_jitted_deviation(), 1000, args=lad.oracle.args)
    for evals, bar in ((100_000, 0.02), (20_000, None)):
        name = f"least absolute deviations, n = 1000, d = 20, {evals:,} evaluations"
        yield Case(name, jitted, np.zeros((SEEDS, 20)), evals, lad.value, lad.f_star, bar)
    ncr = chebyshev_rosenbrock_linear(5)
    classical = np.tile(ncr.x0, (SEEDS, 1))
    uniform = np.random.default_rng(5).uniform(-1, 1, (SEEDS, 5))
    for name, starts in (("from the classical start", classical), ("from uniform starts in [−1, 1]⁵", uniform)):
        case = f"Nesterov–Chebyshev–Rosenbrock, piecewise linear, d = 5, {name}"
        yield Case(case, ncr.oracle, starts, 5_000, ncr.value, 0.0, 1.0 if starts is classical else 1 - 1e-9, SEEDS)
    five = l1(5)
    yield Case("‖x−1‖₁, d = 5, a fifth of the values NaN", gs.Deterministic(_Failing()), np.zeros((SEEDS, 5)), 20_000,
               five.value, 0.0, 0.01)  # fmt: skip
    ten = l1(10)
    yield Case("‖x−1‖₁ + 0.1·N(0,1) that cannot be replayed, d = 10", gs.Unreplayable(_Noisy()), np.zeros((SEEDS, 10)),
               20_000, ten.value, 0.0, None)  # fmt: skip


def run(out: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Run every case with every seed; leave defaults.json and defaults.md in `out`."""
    from rich.console import Console

    console = Console()
    made_by = command("defaults", quick=quick)
    rows: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    for case in cases(quick):
        rows.append(measure(case))
        console.print(_line(rows[-1]))
        record = {**provenance(made_by), "first_seed": FIRST_SEED, "rows": rows}
        write_json(out / "defaults.json", record)
    write_whole(out / "defaults.md", page(rows, made_by))
    return rows


def measure(case: Case) -> dict[str, Any]:
    """Run a case with every seed; return what is left of the gap."""
    count = len(case.starts)
    needed = count - 1 if case.needed is None else case.needed
    seeds = range(FIRST_SEED, FIRST_SEED + count)
    runs = gs.minimize_many(case.oracle, case.starts, seeds=seeds, max_evals=case.max_evals)
    gaps = np.array([case.value(start) - case.f_star for start in case.starts])
    left = np.array([case.value(point) - case.f_star for point in runs.x]) / gaps
    good = None if case.bar is None else int(np.sum(left <= case.bar))
    return {
        "case": case.name,
        "max_evals": case.max_evals,
        "nfev": int(runs.nfev.max()),
        "mean": float(left.mean()),
        "median": float(np.median(left)),
        "worst": float(left.max()),
        "bar": case.bar,
        "within": good,
        "of": count,
        "passed": None if good is None else good >= needed,
    }


def _line(row: dict[str, Any]) -> str:
    return " | ".join(_cells(row))


def _cells(row: dict[str, Any]) -> list[str]:
    verdict = "not judged" if row["bar"] is None else f"{row['within']}/{row['of']} within {row['bar']:.2g}"
    return [row["case"], f"{row['max_evals']:,}", *(f"{row[key]:.2g}" for key in ("mean", "median", "worst")), verdict]


def page(rows: list[dict[str, Any]], made_by: str) -> str:
    """Return the table as a page of Markdown."""
    head = ["case", "evaluations", "mean", "median", "worst", "verdict"]
    targets = [row["passed"] for row in rows if row["bar"] is not None]
    parts = [
        f"The default meets {sum(targets)} of {len(targets)} targets.",
        "What `gs.minimize(f, x0, max_evals=N)` reaches with no other setting: the share of f(x0) − f* that remains, "
        f"over {SEEDS} seeds ({FEW} where d = 1000). It chooses BFGS for the functions without noise, sifting for "
        f"least absolute deviations, and CMA-ES for noise that cannot be replayed. Made by `{made_by}`; numbers in "
        "`results/defaults.json`.",
        markdown(head, map(_cells, rows)),
    ]
    return report.page("What the default reaches", parts)


class _Failing:
    """‖x−1‖₁ that fails at random, one time in five."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(99)

    def __call__(self, x: Array) -> float:
        return np.nan if self.rng.random() < 0.2 else float(np.abs(x - 1).sum())


class _Noisy(_Failing):
    """‖x−1‖₁ with noise that cannot be replayed."""

    def __call__(self, x: Array) -> float:
        return float(np.abs(x - 1).sum() + 0.1 * self.rng.standard_normal())


def _jitted_l1() -> Any:
    from numba import njit

    @njit(nogil=True, fastmath={"reassoc"})
    def value(x, value_scale, coordinate_scale):  # type: ignore[no-untyped-def]
        total = 0.0
        for j in range(x.size):
            total += abs(x[j] / coordinate_scale - 1.0)
        return value_scale * total

    return value


def _jitted_deviation() -> Any:
    from numba import njit

    @njit(nogil=True)
    def value(x, i, rows, targets):  # type: ignore[no-untyped-def]
        total = -targets[i]
        for j in range(x.size):
            total += rows[i, j] * x[j]
        return abs(total)

    return value
