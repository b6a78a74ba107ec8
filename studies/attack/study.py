"""The paper's second experiment, Figure 2, with every query counted: `python -m studies attack`.

Untargeted black-box attacks on LeNet, κ = 0.2 in ℓ∞, θ = 4. Settings are tuned on training images by successive
halving: all settings of a grid on a few images, the better third on more, and so on, each image with the whole tuning
budget. The best is run on test images. A query is a row that the network sees; the budget binds all of them, the
success checks included.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.attack import attack
from studies import record
from studies.attack import references
from studies.attack.curves import compare, summary
from studies.attack.methods import GRIDS, Entry, Setting, entries, plus, settings
from studies.attack.problems import FULL, QUICK, SEED, Attacks, Problem, load
from studies.attack.references import SHORT, SHORT_QUERIES, SQUARE
from studies.record import Unsupported
from studies.work import Piece, Reached, Work, study_bar

VERSION = 1  # of the computation: to be raised when the same settings, images, queries and seed give other numbers
RADIUS, MARGIN = 0.2, 4.0  # κ in pixels, and θ
BLOCK = 250  # images in a piece of the study
PGD = "PGD, with gradients"
COMPARED = (  # which differences are worked out, image by image
    ("GFM+, paper grid", "GFM, paper grid"),
    ("GFM+, wide grid", "GFM, wide grid"),
    ("GFM+, paper grid", "public ordering, paper grid"),
    ("GFM+, wide grid", "public ordering, wide grid"),
    ("default", "GFM, wide grid"),
    ("default", "GFM, wide grid, any row wins"),
    ("default", SQUARE),
    ("default", SHORT),
)

Counts = dict[str, Any]


class AttackStudy:
    """The study on its way, on one data set after another."""

    def __init__(self, work: Work, scale: Attacks, only: Sequence[str] = ()) -> None:
        self.work = work
        self.scale = scale
        self.entries = entries()
        self.squares = squares(scale.max_queries)
        self.only = tuple(only) or (*self.entries, *self.squares)

    def cost(self) -> float:
        """Return the rows that a data set takes at most."""
        tuning = 0
        for family, grid in product(("GFM", "GFM+"), GRIDS):
            left = len(settings(family, grid)) if f"{family}, {grid} grid" in self.only else 0
            for start, stop in pairwise((0, *self.scale.rounds)):
                tuning += left * (stop - start)
                left = -(-left // 3)
        report = sum(self.squares.get(key, self.scale.max_queries) for key in self.only)
        return float(tuning * self.scale.tuning_queries + report * self.scale.images)

    def dataset(self, problem: Problem, kept: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Tune and run on one data set; return its part of the results. What is not run comes from `kept` ones."""
        most = self.scale.max_queries
        runs = {} if kept is None else self._saved(problem, kept)
        methods: dict[str, Any] = {} if kept is None else dict(kept["methods"])
        for key, entry in self.entries.items():
            if key not in self.only:
                continue
            setting: Setting = {}
            table: list[Any] | None = None
            if entry.grid is not None:  # the public ordering gets the setting of GFM+
                owner = f"{'GFM+' if plus(entry.family) else 'GFM'}, {entry.grid} grid"
                setting, table = self._tune(problem, owner) if owner == key else (methods[owner]["setting"], None)
            runs[key] = self._report(problem, entry, setting)
            methods[key] = {"setting": setting, **summary(runs[key], most)}
            if table is not None:
                methods[key]["tuning"] = table
        for key, queries in self.squares.items():
            if key in self.only:
                runs[key] = self._square(problem, queries)
                methods[key] = {"setting": {"p": references.SQUARE_SHARE}, **summary(runs[key], most)}
        order = dict.fromkeys([*self.entries, *self.squares, *methods])  # kept ones that are run no more come last
        methods = {key: methods[key] for key in order if key in methods}
        runs = {key: runs[key] for key in methods}
        pairs = [(one, other) for one, other in COMPARED if one in runs and other in runs]
        differences = [{"of": a, "from": b, **compare(runs[a], runs[b], most)} for a, b in pairs]
        return {
            "network": problem.network,
            "pgd": self._pgd(problem),
            "methods": methods,
            "differences": differences,
            "won_at": {key: won_at(counts) for key, counts in runs.items()},
        }

    def _saved(self, problem: Problem, kept: Mapping[str, Any]) -> dict[str, Counts]:
        """Return the counts of earlier runs; they must be of the same network."""
        then = kept["network"]["sha256"]
        if then != problem.weights:
            raise Unsupported(
                f"The results to keep are of another network for {problem.name}, with weights {then[:12]}."
            )
        wrong = (problem.model(problem.report[0]).argmax(axis=1) != problem.report[1]).astype(int)
        return {
            key: {
                "queries": [self.scale.max_queries if at is None else at for at in won],
                "success": [int(at is not None) for at in won],
                "misclassified": wrong.tolist(),
            }
            for key, won in kept["won_at"].items()
        }

    def _tune(self, problem: Problem, key: str) -> tuple[Setting, list[Any]]:
        """Return the best setting of an entry's grid and a row for each: values, images tried, mean queries.

        An image that is not won counts with the whole budget, so that the mean is the area above the success curve.
        """
        entry, scale = self.entries[key], self.scale
        assert entry.grid is not None
        grid = settings(entry.family, entry.grid)
        alive, table = list(range(len(grid))), [[*setting.values(), 0, np.inf] for setting in grid]
        spent: list[list[int]] = [[] for _ in grid]
        for start, stop in pairwise((0, *scale.rounds)):
            if start:
                alive = _better(table, alive)
            tasks = [(grid[k], start, stop) for k in alive]
            for k, counts in zip(alive, self._runs(problem, entry, "train", tasks, scale.tuning_queries), strict=True):
                spent[k] += capped(counts, scale.tuning_queries)
                table[k][-2:] = stop, round(float(np.mean(spent[k] or [scale.tuning_queries])), 1)
        return grid[min(alive, key=lambda k: table[k][-1])], table

    def _report(self, problem: Problem, entry: Entry, setting: Setting) -> Counts:
        tasks = [(setting, start, stop) for start, stop in self._blocks()]
        return _joined(self._runs(problem, entry, "test", tasks, self.scale.max_queries))

    def _blocks(self) -> list[tuple[int, int]]:
        """Return where the pieces of the test images begin and end."""
        return list(pairwise([*range(0, self.scale.images, BLOCK), self.scale.images]))

    def _runs(
        self, problem: Problem, entry: Entry, split: str, tasks: Sequence[tuple[Setting, int, int]], budget: int
    ) -> list[Counts]:
        """Return the attacks with these settings on these images, in that order."""
        return self.work.all([self.piece(problem, entry, split, *task, budget) for task in tasks])

    def piece(
        self, problem: Problem, entry: Entry, split: str, setting: Setting, start: int, stop: int, budget: int
    ) -> Piece:
        """Return the attack of one method with one setting on some images."""
        images, labels = problem.tuning if split == "train" else problem.report
        method = entry.build(setting)

        def job(reached: Reached) -> Counts:
            result = attack(
                problem.model,
                images[start:stop],
                labels[start:stop],
                method=method,
                radius=RADIUS,
                margin=MARGIN,
                max_queries=budget,
                seed=SEED,
                queries=entry.queries,
                progress=lambda done, n: reached(done / n),
            )
            if result.errors:
                raise RuntimeError(f"{problem.name}, {entry.family}: {next(iter(result.errors.values()))}")
            return {
                "queries": result.queries,
                "estimation": result.queries_estimation,
                "success": result.success.astype(int),
                "misclassified": result.misclassified.astype(int),
            }

        made = {"setting": setting, "method": repr(method), "rows": entry.queries}
        spec = self._spec(problem, entry.family, split, start, stop) | made | {"queries": budget}
        return Piece(spec, float(stop - start) * budget, job)

    def _square(self, problem: Problem, max_queries: int) -> Counts:
        """Run Square Attack, one block at a time: it draws from a generator that all threads share."""
        return _joined(self.work.all([self._square_piece(problem, *block, max_queries) for block in self._blocks()], 1))

    def _square_piece(self, problem: Problem, start: int, stop: int, max_queries: int) -> Piece:
        images, labels = problem.report

        def job(_: Reached) -> Counts:
            return references.square(
                problem.model, images[start:stop], labels[start:stop], radius=RADIUS, max_queries=max_queries, seed=SEED
            )

        made = {"setting": {"p": references.SQUARE_SHARE}, "iterations": references.ITERATIONS}
        spec = self._spec(problem, SQUARE, "test", start, stop) | made | {"queries": max_queries}
        spec |= {"art": version("adversarial-robustness-toolbox")}
        return Piece(spec, float(stop - start) * max_queries, job)

    def _pgd(self, problem: Problem) -> dict[str, Any]:
        def job(_: Reached) -> dict[str, Any]:
            images, labels = problem.report
            right = problem.model(images).argmax(axis=1) == labels
            won = references.pgd(problem.model, images[right], labels[right], radius=RADIUS)
            return {"attacked": int(right.sum()), "won": int(sum(won))}

        spec = self._spec(problem, PGD, "test", 0, self.scale.images) | {"steps": references.PGD_STEPS}
        return self.work.one(Piece(spec, 0.0, job))

    def _spec(self, problem: Problem, what: str, split: str, start: int, stop: int) -> dict[str, Any]:
        """Return what determines an attack besides its method: the network, the images, what is allowed, the seed."""
        where = {"data": problem.name, "weights": problem.weights, "split": split, "images": [start, stop]}
        return {"what": what, "version": VERSION, **where, "radius": RADIUS, "margin": MARGIN, "seed": SEED}


def squares(max_queries: int) -> dict[str, int]:
    """Return the runs of Square Attack and the budgets they are for: none when it is not installed."""
    if not references.has_art():
        return {}
    return {SQUARE: max_queries} | ({SHORT: SHORT_QUERIES} if max_queries > SHORT_QUERIES else {})


def capped(counts: Counts, budget: int) -> list[int]:
    """Return the queries of each attacked image, the whole budget where it was not won."""
    rows = zip(counts["queries"], counts["success"], counts["misclassified"], strict=True)
    return [int(queries) if won else budget for queries, won, wrong in rows if not wrong]


def won_at(counts: Counts) -> list[int | None]:
    """Return the queries at which each image was won; None: not won, or misclassified from the start."""
    return [int(queries) if won else None for queries, won in zip(counts["queries"], counts["success"], strict=True)]


def _better(table: Sequence[Sequence[Any]], alive: Sequence[int]) -> list[int]:
    """Return the better third of the settings, by mean queries."""
    return sorted(sorted(alive, key=lambda k: table[k][-1])[: -(-len(alive) // 3)])


def _joined(parts: Sequence[Counts]) -> Counts:
    return {key: [item for part in parts for item in part[key]] for key in parts[0]}


def _one_thread() -> None:
    """Let each job have one thread: then a run does not depend on how many there are."""
    torch: Any = import_module("torch")
    torch.set_num_threads(1)


def run(
    out: Path,
    *,
    quick: bool = False,
    images: int | None = None,
    max_queries: int | None = None,
    data: Path | None = None,
    jobs: int | None = None,
    weights: Path | None = None,
    only: Sequence[str] = (),
    scale: Attacks | None = None,
    problems: Callable[[], list[Problem]] | None = None,
) -> dict[str, Any]:
    """Run the study; leave results.json, a figure and a report in `out`.

    What an earlier start saved in `out` is not run again. With `only`, the rest stays as it is in the results there,
    and `again` names the code of these. The other arguments are those of the command line; `scale` and `problems` take
    the place of its own.
    """
    from studies.attack import report

    chosen = scale or (QUICK if quick else FULL)
    chosen = replace(chosen, images=images or chosen.images, max_queries=max_queries or chosen.max_queries)
    about = {
        "radius": RADIUS,
        "margin": MARGIN,
        "images": chosen.images,
        "max_queries": chosen.max_queries,
        "tuning": {"images": list(chosen.rounds), "max_queries": chosen.tuning_queries},
    }
    results = record.earlier(out, only, (*entries(), *squares(chosen.max_queries)), about)
    sets: dict[str, Any] = {}
    with study_bar() as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # settings of the grid that are too wild; their rates say it
        task = progress.add_task("loading", total=None)
        told = partial(progress.update, task)
        make = problems or partial(load, chosen, weights or out / "weights", data, lambda said: told(description=said))
        todo = make()
        study = AttackStudy(Work(out, jobs, partial(progress.advance, task), _one_thread), chosen, only)
        told(total=study.cost() * len(todo))
        if not references.has_art():
            progress.console.print(f"{SQUARE} is left out: pip install adversarial-robustness-toolbox adds it.")
        for problem in todo:
            told(description=problem.name)
            sets[problem.name] = study.dataset(problem, results and results["datasets"][problem.name])
    if results is None:
        made_by = record.command("attack", quick=quick, images=images, max_queries=max_queries)
        results = {**record.provenance(made_by), "version": VERSION, **about}
    results |= {"datasets": sets}
    record.save(results, out)
    report.write(results, out)
    return results
