"""The paper's first experiment, Figure 1, with every value counted: `python -m studies svm`.

Data sets × methods × seeds on the capped-ℓ₁ SVM: δ = 0.001, start at ones, settings tuned on seeds of their own by the
full loss at the end of the budget, then run on other seeds. A budget is so many pairs of values of F(x; ξ); everything
a method asks for counts. The full loss is for the curves only and is not counted.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import goldstein as gs
from goldstein.problems.svm import SVM, capped_l1_svm
from goldstein.steps import LinearDecay
from studies import Array, datasets, record
from studies.svm import measure, public_convention
from studies.svm.public_convention import PublicGFMPlus, PublicRun
from studies.work import Piece, Work, study_bar

VERSION = 1  # of the computation: to be raised when the same settings, problem, budget and seed give other numbers
DELTA = 0.001
PASSES = {"a9a": 10, "w8a": 10, "covtype": 10, "ijcnn1": 10, "mushrooms": 50, "phishing": 200}
STEP_SIZES = (0.1, 0.01, 0.001)
SIZES = (1, 10, 100)  # m and b
BLOCKS = (10, 100, 1000)  # M of ZO-O2NC: a block of one step never moves
RADII = (0.3, 1.0, 3.0)  # R of sifting
PUBLIC_MOST = 1000  # largest b' of the public convention, which takes b'² pairs for each large batch
POINTS = 50  # of a curve
CLOSE = 100  # of one that falls fast: every record of a run
MEASURED_AT = (0, 0.1, 0.5, 1)  # shares of a run at which the variance is measured
TENTH, THIRTIETH = "auto, a tenth", "auto, a thirtieth"
EIGHTIETH = "sift, an eightieth"  # with the radius that is best for the whole budget
CHARGED, EVALUATED = "public code, as charged", "public code, as evaluated"

Setting = dict[str, float]
Run = Callable[[SVM, Any, int, int, int], dict[str, Any]]
Problems = Callable[[], Iterator[tuple[str, SVM, int]]]


@dataclass(frozen=True)
class Runs:
    """How much of the study is run: a share of each budget, and on which seeds."""

    share: float
    tuning: tuple[int, ...]
    seeds: tuple[int, ...]
    reference_steps: int
    measured_steps: int
    measured_epochs: int


FULL = Runs(1.0, tuple(range(1000, 1003)), tuple(range(20)), 5_000_000, 1000, 10)
QUICK = Runs(0.1, (1000,), tuple(range(5)), 500_000, 200, 2)


@dataclass(frozen=True)
class Entry:
    """One curve of the study: the settings to choose from, the method that one makes, and how that is run.

    Entries of one family share runs. A run is given one of so many `parts` of the budget, and ends there.
    """

    family: str
    grid: tuple[Setting, ...]
    build: Callable[[Setting], Any]
    run: Run
    points: int = POINTS
    parts: int = 1

    def solve(self, svm: SVM, setting: Setting, seed: int, pairs: int) -> dict[str, Any]:
        """Run one setting; `pairs` is the whole budget."""
        return self.run(svm, self.build(setting), seed, pairs // self.parts, self.points)

    def summary(self, runs: Sequence[Mapping[str, Any]], pairs: int) -> dict[str, Any]:
        """Return what is reported of runs; `pairs` is the whole budget."""
        return summary(runs, 2 * (pairs // self.parts), self.points)


def entries() -> dict[str, Entry]:
    """Return the methods by the name they have in table and figure."""
    gfm = tuple({"eta": eta} for eta in STEP_SIZES)
    plus = tuple({"eta": eta, "m": m, "b": b} for eta, m, b in product(STEP_SIZES, SIZES, SIZES))
    recursive = tuple(setting for setting in plus if setting["m"] > 1)
    public = tuple(setting for setting in plus if setting["m"] * setting["b"] <= PUBLIC_MOST)
    blocks = tuple({"D": D, "M": M, "b": b} for D, M, b in product(STEP_SIZES, BLOCKS, SIZES))
    radii = tuple({"R": R} for R in RADII)
    return {
        "GFM": Entry("GFM", gfm, lambda s: gs.GFM(DELTA, s["eta"]), _solve),
        "GFM+": Entry("GFM+", plus, gfm_plus, _solve),
        "GFM+, m > 1": Entry("GFM+", recursive, gfm_plus, _solve),
        "GFM, decay": Entry("GFM, decay", gfm, lambda s: gs.GFM(DELTA, LinearDecay(s["eta"])), _solve),
        "ZO-O2NC": Entry("ZO-O2NC", blocks, _zo_o2nc, _solve),
        "two-point": Entry("two-point", ({},), lambda _: "two-point", _solve),
        "sift": Entry("sift", radii, lambda s: gs.Sift(s["R"]), _solve, CLOSE),
        EIGHTIETH: Entry("sift", radii, lambda s: gs.Sift(s["R"]), _solve, parts=80),
        "auto": Entry("auto", ({},), lambda _: "auto", _solve, CLOSE),
        TENTH: Entry("auto", ({},), lambda _: "auto", _solve, parts=10),
        THIRTIETH: Entry("auto", ({},), lambda _: "auto", _solve, parts=30),
        CHARGED: Entry(CHARGED, public, _public, _solve_charged),
        EVALUATED: Entry(EVALUATED, public, _public, _solve_evaluated),
    }


def gfm_plus(setting: Setting) -> gs.GFMPlus:
    """Return Algorithm 2 with b' = mb; m = 1 is GFM with batches of b."""
    return gs.GFMPlus(DELTA, setting["eta"], int(setting["m"]), int(setting["b"]))


def _zo_o2nc(setting: Setting) -> gs.ZOO2NC:
    """Return ZO-O2NC with the other methods' smoothing radius; AdaGrad-norm needs no η, so D takes its place."""
    D = setting["D"]
    M = int(setting["M"])
    return gs.ZOO2NC(DELTA + M * D, M, batch_size=int(setting["b"]), rho=DELTA, displacement=D)


def _public(setting: Setting) -> PublicGFMPlus:
    return PublicGFMPlus(DELTA, setting["eta"], int(setting["m"]), int(setting["b"]))


def _solve(svm: SVM, method: Any, seed: int, pairs: int, count: int) -> dict[str, Any]:
    """Run a method of the library, and work out the full loss at some of its points when it is over."""
    result, points = solve(svm, method, seed, 2 * pairs)
    some = np.unique(np.linspace(0, len(points) - 1, count).round().astype(int))
    losses = svm.value(np.array([*(points[k] for k in some), result.x]))
    return {
        "nfev": [*result.history.nfev[some].tolist(), result.nfev],
        "loss": losses.tolist(),
        "steps": result.nit,
        "pairs": result.nfev / 2,
    }


def solve(svm: SVM, method: Any, seed: int, max_evals: int) -> tuple[gs.Result, list[Array]]:
    """Run a method in machine code; return its result, and its point at each record of the history."""
    points: list[Array] = []

    def keep(intermediate_result: gs.Result) -> None:
        points.append(intermediate_result.x.copy())

    result = gs.minimize(svm.compiled, svm.x0, method, max_evals=max_evals, rng=seed, callback=keep, compiled=True)
    if len(points) < len(result.history.nfev):  # a last record, made when the run was over
        points.append(result.x)
    return result, points


def _solve_charged(svm: SVM, method: PublicGFMPlus, seed: int, pairs: int, count: int) -> dict[str, Any]:
    """Run the convention of the public code within so many pairs as it charges them."""
    run = public_convention.run(svm, method, seed=seed, pairs=pairs, records=count)
    return _public_result(svm, run, run.charged)


def _solve_evaluated(svm: SVM, method: PublicGFMPlus, seed: int, pairs: int, count: int) -> dict[str, Any]:
    """Run the same within so many pairs as it evaluates, Q for each one charged."""
    run = public_convention.run(svm, method, seed=seed, pairs=pairs // method.samples, records=count)
    return _public_result(svm, run, run.evaluated)


def _public_result(svm: SVM, run: PublicRun, pairs: list[int]) -> dict[str, Any]:
    return {
        "nfev": [2 * count for count in pairs],
        "loss": svm.value(np.array(run.points)).tolist(),
        "steps": run.steps,
        "pairs": pairs[-1],
        "charged": run.charged[-1],
        "evaluated": run.evaluated[-1],
    }


def load(data: Path | None = None) -> Iterator[tuple[str, SVM, int]]:
    """Yield the six problems with their budgets in pairs."""
    for name, passes in PASSES.items():
        svm = capped_l1_svm(*datasets.load(name, data))
        yield name, svm, passes * len(svm.labels)


def unseen() -> Iterator[tuple[str, SVM, int]]:
    """Yield two problems that had no part in choosing the constants of auto, from data inside scikit-learn."""
    from sklearn.datasets import load_breast_cancer, load_digits

    for name, bunch, passes in (("breast cancer", load_breast_cancer(), 200), ("digits", load_digits(), 50)):
        scale = bunch.data.std(axis=0)
        features = (bunch.data - bunch.data.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        svm = capped_l1_svm(features, np.where(bunch.target % 2, 1.0, -1.0))
        yield name, svm, passes * len(svm.labels)


class SVMStudy:
    """The study on its way, on one data set after another."""

    def __init__(self, work: Work, scale: Runs, only: Sequence[str] = ()) -> None:
        known = entries()
        self.work = work
        self.scale = scale
        self.entries = {key: known[key] for key in only or known}

    def cost(self, svm: SVM, pairs: int) -> float:
        """Return about how long a data set takes, in units of which a pair of values takes d + 100."""
        families = {entry.family: len(entry.grid) for entry in reversed(self.entries.values())}
        tried = sum(size for size in families.values() if size > 1)
        whole = tried * len(self.scale.tuning) * self._unit(svm, pairs)
        reported = sum(self._unit(svm, pairs // entry.parts) for entry in self.entries.values())
        return whole + len(self.scale.seeds) * reported

    def _unit(self, svm: SVM, pairs: int) -> float:
        return float(pairs) * (svm.dim + 100)

    def dataset(self, name: str, svm: SVM, pairs: int) -> dict[str, Any]:
        """Tune, run and measure on one data set; return its part of the results."""
        methods = self.methods(name, svm, pairs)
        return {
            "n": len(svm.labels),
            "d": svm.dim,
            "pairs": pairs,
            "loss_at_start": float(svm.value(svm.x0)),
            "reference": self._reference(name, svm),
            "variance": self._variance(name, svm, methods["GFM+, m > 1"]["setting"], pairs),
            "methods": methods,
        }

    def methods(self, name: str, svm: SVM, pairs: int) -> dict[str, Any]:
        """Tune and run the methods on one data set; return their part of its results."""
        tuned: dict[str, tuple[Setting, list[dict[str, Any]]]] = {}
        families: dict[str, list[dict[str, Any]]] = {}
        for key, entry in self.entries.items():
            if entry.family not in families:
                families[entry.family] = self._tune(name, svm, entry, pairs)
            table = [row for row in families[entry.family] if row["setting"] in entry.grid]
            tuned[key] = min(table, key=lambda row: row["loss"])["setting"], table
        methods = {}
        for key, (setting, table) in tuned.items():
            entry = self.entries[key]
            runs = self._runs(name, svm, entry, [(setting, seed) for seed in self.scale.seeds], pairs)
            methods[key] = {"setting": setting, **entry.summary(runs, pairs), "tuning": _compact(table)}
        return methods

    def _tune(self, name: str, svm: SVM, entry: Entry, pairs: int) -> list[dict[str, Any]]:
        """Return the mean loss at the end over the tuning seeds, for each setting of the grid."""
        if len(entry.grid) == 1:
            return [{"setting": entry.grid[0], "loss": np.inf}]
        tasks = [(setting, seed) for setting in entry.grid for seed in self.scale.tuning]
        runs = iter(self._runs(name, svm, entry, tasks, pairs))
        table = []
        for setting in entry.grid:
            ends = [next(runs)["loss"][-1] for _ in self.scale.tuning]
            table.append({"setting": setting, "loss": np.inf if None in ends else float(np.mean(ends))})
        return table

    def _runs(
        self, name: str, svm: SVM, entry: Entry, tasks: Sequence[tuple[Setting, int]], pairs: int
    ) -> list[dict[str, Any]]:
        """Return the runs with these settings and seeds, in that order."""
        return self.work.all([self._piece(name, svm, entry, setting, seed, pairs) for setting, seed in tasks])

    def _piece(self, name: str, svm: SVM, entry: Entry, setting: Setting, seed: int, pairs: int) -> Piece:
        part = pairs // entry.parts
        made = {"points": entry.points}
        spec = self._spec(name, svm, entry.family, setting, entry.build(setting), seed, part) | made
        return Piece(spec, self._unit(svm, part), lambda _: entry.solve(svm, setting, seed, pairs))

    def _reference(self, name: str, svm: SVM) -> dict[str, Any]:
        steps = self.scale.reference_steps
        spec = {**self._problem(name, svm), "what": "reference", "steps": steps}
        return self.work.one(Piece(spec, 0.0, lambda _: measure.reference(svm, steps)))

    def _variance(self, name: str, svm: SVM, setting: Setting, pairs: int) -> dict[str, Any]:
        """Measure the noise of GFM+ at the start, at a tenth, at half and at the end of one of its tuning runs."""
        seed = self.scale.tuning[0]
        length = {"steps": self.scale.measured_steps, "least": self.scale.measured_epochs}

        method = gfm_plus(setting)

        def job(_: Any) -> dict[str, Any]:
            run = solve(svm, method, seed, 2 * pairs)[1]
            points = [run[round(share * (len(run) - 1))] for share in MEASURED_AT]
            rows = measure.variance(svm, method, points, seed=seed, **length)
            return {"setting": setting, "at": list(MEASURED_AT), "rows": rows}

        spec = self._spec(name, svm, "variance", setting, method, seed, pairs) | length
        return self.work.one(Piece(spec, 0.0, job))

    def _spec(
        self, name: str, svm: SVM, family: str, setting: Setting, method: Any, seed: int, pairs: int
    ) -> dict[str, Any]:
        """Return what determines a run: the method with all its settings, the problem, the seed and the budget."""
        made = {"what": family, "setting": setting, "method": repr(method), "points": POINTS}
        return {**made, **self._problem(name, svm), "seed": seed, "pairs": pairs}

    def _problem(self, name: str, svm: SVM) -> dict[str, Any]:
        constants = {"regularisation": svm.regularisation, "cap": svm.cap}
        return {"version": VERSION, "data": name, "n": len(svm.labels), "d": svm.dim, **constants}


def summary(runs: Sequence[Mapping[str, Any]], max_evals: int, points: int = POINTS) -> dict[str, Any]:
    """Return the ends of the runs, and mean and standard deviation over them on a common grid of evaluations."""
    grid = np.linspace(0, max_evals, points + 1)
    losses = [np.array([np.inf if loss is None else loss for loss in run["loss"]]) for run in runs]
    curves = np.array([np.interp(grid, run["nfev"], loss) for run, loss in zip(runs, losses, strict=True)])
    ends = np.array([loss[-1] for loss in losses])
    out = {
        "mean": _round(ends.mean(), 7),
        "std": _round(ends.std(ddof=1), 7) if len(ends) > 1 else 0.0,
        "ends": _round(ends, 7),
        "steps": _round(np.mean([run["steps"] for run in runs]), 7),
        "pairs": _round(np.mean([run["pairs"] for run in runs]), 9),
        "curve": {
            "evaluations": _round(grid, 9),
            "mean": _round(curves.mean(axis=0), 5),
            "std": _round(curves.std(axis=0, ddof=1), 5) if len(ends) > 1 else [0.0] * len(grid),
        },
    }
    for count in ("charged", "evaluated"):
        if count in runs[0]:
            out[count] = _round(np.mean([run[count] for run in runs]), 9)
    return out


def run(
    out: Path,
    *,
    quick: bool = False,
    data: Path | None = None,
    jobs: int | None = None,
    only: Sequence[str] = (),
    scale: Runs | None = None,
    problems: Problems | None = None,
    other_problems: Problems | None = None,
) -> dict[str, Any]:
    """Run the study; leave results.json, a figure and a report in `out`.

    What an earlier start saved in `out` is not run again. With `only`, the rest stays as it is in the results there,
    and `again` names the code of these. `formerly` in the results says which were run under another name. The other
    arguments are those of the command line; `scale`, `problems` and `other_problems` (name, problem, budget in pairs)
    take the place of its own.
    """
    from studies.svm import report

    chosen = scale or (QUICK if quick else FULL)
    about = {
        "delta": DELTA,
        "share_of_budget": chosen.share,
        "tuning_seeds": list(chosen.tuning),
        "seeds": list(chosen.seeds),
    }
    results = record.earlier(out, only, entries(), about)
    sets: dict[str, Any] = {}
    others: dict[str, Any] = {}
    with study_bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # settings of the grid that are too wild; their loss says it
        task = progress.add_task("loading", total=None)
        study = SVMStudy(Work(out, jobs, partial(progress.advance, task)), chosen, only)
        todo = [
            (part, name, svm, int(pairs * chosen.share))
            for part, source in ((sets, problems or partial(load, data)), (others, other_problems or unseen))
            for name, svm, pairs in source()
        ]
        progress.update(task, total=sum(study.cost(svm, pairs) for *_, svm, pairs in todo))
        for part, name, svm, pairs in todo:
            progress.update(task, description=name)
            part[name] = study.methods(name, svm, pairs) if only else study.dataset(name, svm, pairs)
    if results is None:
        made = record.provenance(record.command("svm", quick=quick))
        results = {**made, "version": VERSION, **about, "datasets": sets, "unseen": others}
    else:
        for key in only:
            results.get("formerly", {}).pop(key, None)
        for name, part in (results["datasets"] | results["unseen"]).items():
            found = part["methods"] | (sets | others)[name]
            part["methods"] = {key: found[key] for key in entries() if key in found}
    record.save(results, out)
    report.write(results, out)
    return results


def _compact(table: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    return [[*row["setting"].values(), _round(row["loss"], 5)] for row in table]


def _round(value: Any, digits: int) -> Any:
    """Round to so many significant digits; None when it is not finite."""
    if isinstance(value, np.ndarray):
        return [_round(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None
