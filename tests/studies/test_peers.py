"""The study of peers: exact counts for every method, how answers are judged, the file it keeps, and going on."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import goldstein as gs
from studies import problems
from studies.__main__ import app
from studies.peers import classical, coco, methods, report, simulators, stochastic, study, summary
from studies.peers.counted import Counted, Spent
from studies.peers.methods import AUTO, PEERS, PYCMA, PYCMA_SEED, PYCMA_TOLD, USUAL
from studies.peers.task import FRESH, NONE, REPLAYABLE, TUNING_SEEDS, Task, start

BUDGET = 90
SOME = (AUTO, PYCMA, "Powell")


@pytest.fixture(autouse=True)
def _methods_on_functions_they_were_not_made_for_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Tally:
    """A function that counts its own calls, outside everything that the study counts with."""

    def __init__(self, noise):
        self.calls = 0
        self.seen = []
        self.rng = np.random.default_rng(0)
        made = {
            NONE: lambda: gs.Deterministic(self.calm, vectorized=True),
            REPLAYABLE: lambda: gs.Seeded(self.seeded),
            FRESH: lambda: gs.Unreplayable(self.fresh),
        }
        self.oracle = made[noise]()

    def calm(self, X):
        self.calls += len(X)
        return np.abs(X - 1).sum(axis=1)

    def seeded(self, x, seed):
        self.calls += 1
        self.seen.append(seed)
        return float(np.abs(x - 1).sum() + np.random.default_rng(seed).normal())

    def fresh(self, x):
        self.calls += 1
        return float(np.abs(x - 1).sum() + 0.1 * self.rng.normal())


def task_of(tally, d=3, box=False):
    bounds = (np.full(d, -2.0), np.full(d, 3.0)) if box else None
    return Task(tally.oracle, np.full(d, 0.5), lambda x: float(np.abs(x - 1).sum()), bounds, sigma=0.5)


# Counting


@pytest.mark.parametrize("box", [False, True])
@pytest.mark.parametrize("noise", [NONE, REPLAYABLE, FRESH])
@pytest.mark.parametrize("method", PEERS)
def test_calls_are_what_is_counted_and_never_more_than_the_budget(method, noise, box):
    if methods.left_out(method, 3, noise, BUDGET, box=box, told=True) is not None:
        return  # a rule of the study, tested below; no package is missing
    tally = Tally(noise)
    run = methods.play(task_of(tally, box=box), BUDGET, method, 0)
    assert run["nfev"] == tally.calls <= BUDGET
    assert tally.calls > 3  # it has begun
    assert run["start"] == pytest.approx(1.5)
    assert np.isfinite(run["end"])


@pytest.mark.parametrize("method", [name for name in USUAL if name != PYCMA_SEED])
def test_every_method_makes_progress_where_there_is_no_noise(method):
    """‖x − 1‖₁ with 90 values: whoever is called as its authors meant gets below the start."""
    run = methods.play(task_of(Tally(NONE)), BUDGET, method, 0)
    assert run["end"] < 0.95 * run["start"]


@pytest.mark.parametrize("noise", [NONE, REPLAYABLE, FRESH])
@pytest.mark.parametrize("method", USUAL)
def test_the_same_seed_gives_the_same_run(method, noise):
    if methods.left_out(method, 3, noise, BUDGET, told=True) is not None:
        return
    first, second = (methods.play(task_of(Tally(noise)), BUDGET, method, 3) for _ in range(2))
    assert first == second


def test_one_value_too_many_is_refused_before_the_function_is_called():
    tally = Tally(NONE)
    values = Counted(tally.oracle, 5)
    values.together(np.zeros((4, 3)))
    with pytest.raises(Spent, match="4 values of 5"):
        values.together(np.zeros((2, 3)))
    assert (tally.calls, values.calls, values.left) == (4, 4, 1)
    values(np.zeros(3))
    with pytest.raises(Spent):
        values.oracle.fun(np.zeros((1, 3)))
    assert tally.calls == 5


def test_values_share_a_seed_only_when_that_is_asked_for():
    tally = Tally(REPLAYABLE)
    values = Counted(tally.oracle, 100)
    for _ in range(4):
        values(np.zeros(3))
    assert len(set(tally.seen)) == 4
    tally.seen.clear()
    values.together(np.zeros((4, 3)), one_seed=True)
    assert len(set(tally.seen)) == 1
    tally.seen.clear()
    methods.play(task_of(tally), 70, PYCMA_SEED, 0)
    assert len(set(tally.seen)) == 10  # 4 + 3 ln 3 is 7: ten generations


def test_the_answer_is_the_best_point_without_noise_and_the_recommendation_with_it(monkeypatch):
    def run(task, values, seed):
        values(np.ones(3))
        return np.zeros(3)

    monkeypatch.setitem(PEERS, "Powell", replace(PEERS["Powell"], run=run))
    assert methods.play(task_of(Tally(NONE)), BUDGET, "Powell", 0)["end"] == 0
    assert methods.play(task_of(Tally(FRESH)), BUDGET, "Powell", 0)["end"] == 3


def test_a_first_step_is_guessed_from_the_box_or_from_the_start():
    calm = Tally(NONE).oracle
    assert Task(calm, np.array([3.0, 4.0, 0.0]), np.sum).guess == pytest.approx(0.3 * np.sqrt(25 / 3))
    assert Task(calm, np.zeros(3), np.sum).guess == pytest.approx(0.3)
    assert task_of(Tally(NONE), box=True).guess == pytest.approx(1.5)


def test_what_is_left_out_has_a_reason():
    assert methods.left_out("BFGS", 3, FRESH, 100) is not None
    assert methods.left_out(PYCMA_SEED, 3, NONE, 100) is not None
    assert methods.left_out(PYCMA_TOLD, 3, NONE, 100) is not None
    assert methods.left_out("COBYQA", 50, NONE, 2_000) is not None
    assert methods.left_out(PYCMA, 1000, NONE, 2_000) is not None
    for d, noise in ((1, NONE), (1000, NONE), (5, FRESH)):
        assert methods.left_out(AUTO, d, noise, 10**6) is None


# Problems


@pytest.mark.parametrize("family", study.FAMILIES)
def test_cells_have_names_of_their_own_and_values_where_methods_begin(family):
    cells = list(study.FAMILIES[family](False))
    assert cells
    assert len({cell.key for cell in cells}) == len(cells)
    assert not any(set(cell.seeds) & set(TUNING_SEEDS) for cell in cells)
    for cell in study.FAMILIES[family](True):
        assert cell.methods[AUTO] is None


def test_every_deterministic_function_of_the_package_is_in_the_study():
    known = {name for name, make in problems.catalogue().items() if make().oracle.n is None}
    assert known == set(classical.FIXED) | set(classical.ANY_DIMENSION)
    assert {cell.problem for cell in classical.cells()} >= known
    assert set(classical.TUNED) <= known | set(classical.OWN)
    assert {cell.d for cell in classical.cells()} >= {1, 2, 5, 10, 50, 100, 1000}


@pytest.mark.parametrize("name", classical.OWN)
def test_minima_of_the_functions_of_the_study(name):
    problem = classical.OWN[name](6)
    assert problem.value(np.ones(6)) == pytest.approx(0, abs=1e-12)
    around = 1 + 0.1 * np.random.default_rng(0).standard_normal((200, 6))
    assert (problem.value(around) > 0).all()


@pytest.mark.parametrize("name", stochastic.ENTRIES)
def test_values_without_noise_are_the_mean_of_values_with_it(name):
    """Six standard errors of 20,000 draws: a false alarm in 5e8 for each, if tails are not heavy."""
    simulator = stochastic.ENTRIES[name].make()
    x = start(simulator.x0, 0)
    if simulator.bounds is not None:
        x = np.clip(x, *simulator.bounds)
    xi = simulator.sample(np.random.default_rng(1), 20_000)
    values = simulator.component(np.broadcast_to(x, (20_000, x.size)), xi)
    error = values.std() / np.sqrt(20_000)
    allowed = 6 * error * (1 if simulator.n or name.startswith("newsvendor") else np.sqrt(2))
    assert simulator.value(x) == pytest.approx(values.mean(), abs=allowed + 1e-12)


def test_the_minimum_of_the_newsvendor_is_one():
    simulator = simulators.newsvendor(3)
    best = simulator.f_star
    points = np.random.default_rng(0).uniform(-1, 8, (300, 3))
    assert min(simulator.value(x) for x in points) > best
    assert simulator.value(np.zeros(3)) == pytest.approx(simulator.value(np.full(3, 1e-9)))


def test_fresh_noise_is_secret_and_begins_anew_for_every_run():
    cell = next(cell for cell in stochastic.cells(True) if cell.noise == FRESH)
    first, second = (stochastic._task(cell.problem, FRESH, 0) for _ in range(2))
    assert not first.oracle.replayable
    values = [Counted(task.oracle, 10)(task.x0) for task in (first, first, second)]
    assert values[0] == values[2] != values[1]


@pytest.mark.parametrize(
    ("function", "calm"), [(101, 1), (106, 8), (107, 1), (111, 8), (113, 7), (120, 14), (124, 17), (128, 21)]
)
def test_values_of_coco_without_noise_are_those_of_its_suite_without_noise(function, calm):
    problem = coco._problem("bbob", calm, 5, 3)
    best = coco.best_parameter(problem)
    for x in np.random.default_rng(function).uniform(-4, 4, (3, 5)):
        expected = problem(x) - problem(best)
        assert coco.noise_free_gap(function, 5, 3, x) == pytest.approx(expected, rel=1e-9, abs=1e-7)
    assert coco.noise_free_gap(function, 5, 3, best) == 0


@pytest.mark.parametrize("function", [116, 125])
def test_values_of_coco_without_noise_are_medians_with_gaussian_noise(function):
    """These two are scaled otherwise without noise. 2,001 values, seven standard errors of the median of their logs."""
    x = np.random.default_rng(function).uniform(-4, 4, 5)
    problem = coco._problem("bbob-noisy", function, 5, 3)
    lowest = problem(coco.best_parameter(problem))
    noisy = np.array([problem(x) for _ in range(2001)]) - lowest
    allowed = 7 * 1.2533 / np.sqrt(2001)
    assert np.log(np.median(noisy) / coco.noise_free_gap(function, 5, 3, x)) == pytest.approx(0, abs=allowed)


def test_coco_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    coco._large_task(1, 3)
    assert not list(tmp_path.iterdir())


def test_a_problem_of_simopt_is_run_by_its_solvers_and_by_the_default():
    cell = next(cell for cell in study.FAMILIES["simopt"](False) if cell.problem == "EXAMPLE-1")
    assert set(cell.methods) == {AUTO, "ADAM", "ALOE", "ASTRODF", "NELDMD", "RNDSRCH", "SPSA", "STRONG"}
    found = {method: cell.run(method, 0) for method in (AUTO, "RNDSRCH")}
    assert found[AUTO]["start"] == found["RNDSRCH"]["start"]
    assert found[AUTO]["nfev"] <= cell.budget
    assert all(run["end"] < run["start"] for run in found.values())


# How it judges


def cell_of(runs, family="classical", f_star=0.0, noise=NONE, tuned=False, problem="l1", d=10):
    rows = {name: [[seed, 1.0, end, 5, "x"] for seed, end in enumerate(ends)] for name, ends in runs.items()}
    about = {"family": family, "problem": problem, "d": d, "noise": noise, "budget": 10, "tuned": tuned}
    return {**about, "f_star": f_star, "left_out": {}, "runs": rows}


def judge(**cells):
    return summary.judged({"cells": cells})


def test_shares_are_medians_over_seeds_relative_to_the_gap():
    (found,) = judge(a=cell_of({AUTO: [0.5, 0.1, 0.2], PYCMA: [0.4]}, f_star=-1.0))
    assert found.shares[AUTO] == pytest.approx(0.6)
    (found,) = judge(a=cell_of({AUTO: [0.5], PYCMA: [0.2]}, f_star=None))
    assert found.lowest == 0.2
    assert found.shares == {AUTO: pytest.approx(0.375), PYCMA: 0}
    (found,) = judge(a=cell_of({AUTO: [0.5], PYCMA: [None]}))
    assert found.shares[PYCMA] == np.inf


def test_tuning_seeds_are_told_apart():
    cell = cell_of({AUTO: [0.5]})
    cell["runs"][AUTO].append([TUNING_SEEDS[0], 1.0, 0.1, 5, "x"])
    assert judge(a=cell)[0].shares[AUTO] == 0.5
    assert summary.judged({"cells": {"a": cell}}, tuning=True)[0].shares[AUTO] == pytest.approx(0.1)


def test_the_default_is_compared_with_the_best_untuned_method():
    cells = judge(
        good=cell_of({AUTO: [0.02], PYCMA: [0.01], PYCMA_TOLD: [1e-5]}),
        floor=cell_of({AUTO: [1e-7], PYCMA: [1e-12]}, tuned=True),
        bad=cell_of({AUTO: [0.021], PYCMA: [0.01]}),
        hopeless=cell_of({AUTO: [2.0], PYCMA: [0.96]}),
    )
    found = summary.bars(cells)["never_worse"]
    assert found["all"]["cells"] == 3
    assert found["all"]["nobody_progresses"] == 1
    assert found["all"]["share"] == pytest.approx(2 / 3)
    assert found["all"]["firsts"] == 1
    assert [row["cell"] for row in found["all"]["exceptions"]] == ["bad"]
    assert found["tuned on"]["share"] == 1
    assert found["not tuned on"]["share"] == 0.5


def test_the_bar_without_noise_asks_the_better_of_two():
    cells = judge(
        a=cell_of({AUTO: [0.02], PYCMA: [0.01], "BFGS": [0.5], "Powell": [1e-9]}),
        b=cell_of({AUTO: [0.02], PYCMA: [0.5], "BFGS": [0.001]}, problem="maxq"),
        c=cell_of({AUTO: [0.9], PYCMA: [0.5]}, problem="max_affine"),
    )
    found = summary.bars(cells)["without_noise"]
    assert (found["functions"], found["functions_within"], found["share"]) == (2, 1, 0.5)
    assert [row["cell"] for row in found["exceptions"]] == ["b"]


def test_the_bars_of_coco_and_simopt():
    cells = judge(
        a=cell_of({AUTO: [1e-6, 2e-6], PYCMA: [1e-7]}, "coco-noisy", d=5, problem="f101"),
        b=cell_of({AUTO: [0.99, 1e-7], PYCMA: [0.9]}, "coco-noisy", d=5, problem="f102"),
        c=cell_of({AUTO: [0.99], PYCMA: [0.9]}, "coco-noisy", d=20, problem="f103"),
        d=cell_of({AUTO: [0.11, 0.01], "ADAM": [0.05, 0.05]}, "simopt", problem="SAN-1"),
        e=cell_of({AUTO: [0.08], "ADAM": [0.05]}, "simopt", problem="MM1-1"),
    )
    found = summary.bars(cells)
    assert found["coco"][5]["medians"][AUTO] == pytest.approx(1.5e-6)
    assert found["coco"][5]["reached"]
    assert found["coco"][5]["no_progress"] == []
    assert not found["coco"][20]["reached"]
    assert found["coco"][20]["no_progress"] == ["f103"]
    assert (found["simopt"]["problems"], found["simopt"]["within"]) == (2, 1)


def test_profiles_count_the_cells_in_which_a_method_runs():
    cells = judge(a=cell_of({AUTO: [0.1], PYCMA: [0.01]}), b=cell_of({AUTO: [0.1]}))
    assert summary.profile(cells, (AUTO, PYCMA), (1, 10.001)) == {AUTO: [0.5, 1.0], PYCMA: [1.0, 1.0]}


# The file, and going on


def tiny(family):
    """Cells of a family that take no time."""

    def cells(quick):
        for cell in study.FAMILIES[family](True):
            yield replace(cell, methods={name: cell.methods[name] for name in SOME}, seeds=cell.seeds[:2])

    return cells


TINY = {name: tiny(name) for name in ("stochastic", "coco-noisy")}


def run(out, **settings):
    return study.run(out, families=TINY, **settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    out = tmp_path_factory.mktemp("peers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(out)
    return out


def test_the_file_holds_every_run_and_what_it_depends_on(done):
    results = study.read(done)
    assert results["version"] == study.VERSION
    assert set(results["cpu_seconds"]) == set(TINY)
    assert len(results["cells"]) == 8
    for key, cell in results["cells"].items():
        assert key == f"{cell['family']}, {cell['problem']}, d = {cell['d']}, {cell['noise']}, {cell['budget']}"
        assert isinstance(cell["tuned"], bool)
        assert set(cell["runs"]) == set(SOME)
        for name, rows in cell["runs"].items():
            assert [row[0] for row in rows] == ([3, 4] if cell["family"] == "coco-noisy" else [0, 1])
            for _, begun, ended, nfev, code in rows:
                assert np.isfinite([begun, ended]).all()
                assert 0 < nfev <= cell["budget"]
                assert code == methods.stamp(name)
    for name in ("table.md", "shares.png", "profile.png"):
        assert (done / "peers" / name).stat().st_size > 500


def forbid(monkeypatch, *allowed):
    """Let only these methods run."""
    for name, peer in PEERS.items():
        if name not in allowed:
            monkeypatch.setitem(PEERS, name, replace(peer, run=lambda *_: pytest.fail("it was run again")))


def copied(done, out):
    (out / study.FILE).write_text((done / study.FILE).read_text())
    return out


def test_what_the_file_holds_is_not_run_again(done, tmp_path, monkeypatch):
    forbid(monkeypatch)
    again = run(copied(done, tmp_path))
    assert again["cells"] == study.read(done)["cells"]


def test_a_method_whose_code_has_changed_is_run_again_when_it_is_named_and_no_other(done, tmp_path, monkeypatch):
    copied(done, tmp_path)
    forbid(monkeypatch, AUTO)
    real = methods.stamp
    monkeypatch.setattr(study, "stamp", lambda name: "new" if name == AUTO else real(name))
    again = run(tmp_path, only=["stochastic"], methods=[AUTO])
    for key, cell in study.read(done)["cells"].items():
        fresh = cell["family"] == "stochastic"
        assert {row[4] for row in again["cells"][key]["runs"][AUTO]} == {"new" if fresh else real(AUTO)}
        assert again["cells"][key]["runs"]["Powell"] == cell["runs"]["Powell"]
    forbid(monkeypatch)
    run(tmp_path, only=["stochastic"], methods=[AUTO])  # nothing is left to do


def test_forgetting_takes_out_what_is_named_and_nothing_else(done, tmp_path):
    copied(done, tmp_path)
    study.forget(tmp_path, ["stochastic"], [AUTO])
    for key, cell in study.read(tmp_path)["cells"].items():
        kept = study.read(done)["cells"][key]["runs"]
        if cell["family"] == "stochastic":
            kept.pop(AUTO)
        assert cell["runs"] == kept


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import tests.studies.test_peers as it
it.run(Path(sys.argv[1]))
"""


def test_a_killed_study_goes_on_to_the_same_results(done, tmp_path):
    program = PROGRAM.format(tests=str(Path(__file__).parents[2]))
    process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.DEVNULL)
    while process.poll() is None and len(list(tmp_path.glob("peers/cells/*.json"))) < 20:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    saved = {path: path.stat().st_mtime_ns for path in tmp_path.glob("peers/cells/*.json")}
    again = run(tmp_path)
    assert all(path.stat().st_mtime_ns == then for path, then in saved.items())
    assert again["cells"] == study.read(done)["cells"]


def test_tuning_takes_the_problems_and_seeds_that_are_kept_for_it(tmp_path):
    results = run(tmp_path, tuning=True, methods=[AUTO])
    assert {cell["problem"] for cell in results["cells"].values()} == {"max_of_quadratics"}
    for cell in results["cells"].values():
        assert tuple(row[0] for row in cell["runs"][AUTO]) == TUNING_SEEDS
    assert "max_of_quadratics" in (tmp_path / "peers" / "table.md").read_text()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"only": ["svm"]}, "no family 'svm'"),
        ({"methods": ["adam"]}, "no method 'adam'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_run(tmp_path, monkeypatch, settings, sentence):
    forbid(monkeypatch)
    with pytest.raises(study.Unsupported, match=sentence):
        run(tmp_path, **settings)


def test_results_of_another_version_are_not_mixed_in(done, tmp_path):
    results = study.read(done) | {"version": -1}
    (tmp_path / study.FILE).write_text(json.dumps(results))
    with pytest.raises(study.Unsupported, match="another version"):
        run(tmp_path)


def test_the_report_shows_every_cell(done, tmp_path):
    report.write(study.read(done), tmp_path)
    assert "| max_of_quadratics† | 5 | replayable | 200 |" in (tmp_path / "table.md").read_text()


def test_the_committed_report_is_made_of_the_committed_numbers():
    folder = Path(__file__).parents[2] / "results"
    results = study.read(folder)
    assert (folder / "peers" / "table.md").read_text() == report.tables(results, summary.judged(results))


def test_the_command_reads_seeds_and_refuses_others(tmp_path):
    keys = ["peers", "--quick", "--only", "stochastic", "--methods", "Powell", "--methods", "auto", "--out"]
    said = CliRunner().invoke(app, [*keys, str(tmp_path), "--seeds", "7,9-10"])
    assert said.exit_code == 0, said.output
    for cell in study.read(tmp_path)["cells"].values():
        assert [row[0] for row in cell["runs"]["Powell"]] == [7, 9, 10]
    assert "max_of_quadratics" in (tmp_path / "peers" / "table.md").read_text()
    assert CliRunner().invoke(app, [*keys, str(tmp_path), "--seeds", "two"]).exit_code == 2
