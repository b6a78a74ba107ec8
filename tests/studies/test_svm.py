"""The SVM study: what it runs, how it counts, and that a killed one goes on to the same files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import goldstein as gs
from goldstein.estimate.smoothing import ball
from goldstein.problems import capped_l1_svm
from studies import datasets, record
from studies.cells import Cells
from studies.svm import measure as svm_measure
from studies.svm import public_convention
from studies.svm import report as svm_report
from studies.svm import study as svm
from studies.svm.public_convention import PublicGFMPlus
from studies.work import Work

PAIRS = 900
TINY = svm.Runs(0.5, (1000,), (0, 1), 2_000, 40, 2)


def toy(n=150, d=6, rng=0, **settings):
    """A small problem that cannot be separated, with some zeros."""
    rng = np.random.default_rng(rng)
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    b = np.where(A @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    return capped_l1_svm(A, b, **settings)


def problems():
    yield "one", toy(rng=1), 2 * PAIRS
    yield "two", toy(n=80, d=3, rng=2), 2 * PAIRS


def others():
    yield "three", toy(n=60, d=3, rng=3), 2 * PAIRS


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A whole tiny study and the folder it was left in."""
    out = tmp_path_factory.mktemp("study")
    return svm.run(out, scale=TINY, problems=problems, other_problems=others, jobs=1), out


def cells(out):
    saved = [json.loads(path.read_text()) for path in (out / "cells").glob("*.json")]
    return [(cell["spec"], cell["result"]) for cell in saved if "seed" in cell["spec"]]


# What is run


def test_the_grids_are_those_of_the_paper():
    grids = {name: [tuple(setting.values()) for setting in entry.grid] for name, entry in svm.entries().items()}
    steps, sizes = (0.1, 0.01, 0.001), (1, 10, 100)
    assert grids["GFM"] == grids["GFM, decay"] == [(eta,) for eta in steps]
    assert grids["GFM+"] == list(product(steps, sizes, sizes))
    assert grids["GFM+, m > 1"] == [it for it in grids["GFM+"] if it[1] > 1]
    assert len(grids["ZO-O2NC"]) == len(grids["GFM+"])
    assert grids["sift"] == grids[svm.EIGHTIETH] == [(0.3,), (1.0,), (3.0,)]
    for name in ("two-point", "auto", svm.TENTH, svm.THIRTIETH):
        assert grids[name] == [()]
    for name in (svm.CHARGED, svm.EVALUATED):
        assert grids[name] == [it for it in grids["GFM+"] if it[1] * it[2] <= 1000]
    method = svm.gfm_plus({"eta": 0.01, "m": 10, "b": 100})
    assert (method.delta, method.step_size, method.epoch_length, method.batch_size) == (0.001, 0.01, 10, 100)
    assert method.large_batch_size is None  # m·b


def test_the_budgets_are_ten_fifty_and_two_hundred_passes_in_pairs(monkeypatch):
    monkeypatch.setattr(datasets, "load", lambda name, data: (np.eye(5), [1, 1, -1, 1, -1]))
    budgets = {name: pairs / len(problem.labels) for name, problem, pairs in svm.load()}
    assert budgets == {"a9a": 10, "w8a": 10, "covtype": 10, "ijcnn1": 10, "mushrooms": 50, "phishing": 200}


@pytest.mark.parametrize("scale", [svm.FULL, svm.QUICK])
def test_tuning_seeds_and_reporting_seeds_are_disjoint(scale):
    assert not set(scale.tuning) & set(scale.seeds)
    assert svm.FULL.share == 1
    assert len(svm.FULL.seeds) == 20


def test_only_tuning_seeds_tune_and_only_the_others_are_reported(done):
    results, out = done
    for name, part in results["datasets"].items():
        for key, it in part["methods"].items():
            entry = svm.entries()[key]
            ends = {
                (spec["pairs"], tuple(spec["setting"].values()), spec["seed"]): result["loss"][-1]
                for spec, result in cells(out)
                if spec["data"] == name and spec["what"] == entry.family
            }
            chosen, grid = tuple(it["setting"].values()), [tuple(setting.values()) for setting in entry.grid]
            if len(grid) > 1:  # tuned with the whole budget, however little of it the runs are given
                assert ends[PAIRS, chosen, 1000] == min(ends[PAIRS, setting, 1000] for setting in grid)
            reported = [ends[PAIRS // entry.parts, chosen, seed] for seed in TINY.seeds]
            assert it["ends"] == pytest.approx(reported, rel=1e-6)
            assert it["mean"] == pytest.approx(np.mean(reported), rel=1e-6)
            assert it["std"] == pytest.approx(np.std(reported, ddof=1), rel=1e-6)


# How it counts


def test_no_run_exceeds_its_budget_and_single_pairs_use_all_of_it(done):
    _, out = done
    seen = set()
    parts = {"auto": {PAIRS, PAIRS // 10, PAIRS // 30}, "sift": {PAIRS, PAIRS // 80}}
    for spec, result in cells(out):
        if spec["what"] in ("variance", "reference"):
            continue
        assert spec["pairs"] in parts.get(spec["what"], {PAIRS})
        assert result["nfev"][-1] == 2 * result["pairs"] <= 2 * spec["pairs"]
        assert result["nfev"] == sorted(result["nfev"])
        assert len(result["nfev"]) == len(result["loss"])
        if spec["what"] in ("GFM", "GFM, decay"):
            seen.add(spec["what"])
            assert result["pairs"] == PAIRS
        elif spec["what"] == "GFM+":  # a last batch of which less than half fits is not begun
            seen.add(spec["what"])
            setting = spec["setting"]
            assert result["pairs"] >= PAIRS - max(setting["m"] * setting["b"] / 2, setting["b"])
    assert seen == {"GFM", "GFM, decay", "GFM+"}


def test_losses_are_the_exact_full_loss_of_the_answer(done):
    results, _ = done
    _, problem, _ = next(problems())
    it = results["datasets"]["one"]["methods"]["GFM"]
    run = gs.minimize(problem.compiled, np.ones(7), gs.GFM(0.001, it["setting"]["eta"]), max_evals=2 * PAIRS, rng=1)
    assert it["ends"][1] == pytest.approx(problem.value(run.x), rel=1e-6)
    assert it["steps"] == run.nit
    assert it["curve"]["mean"][0] == pytest.approx(problem.value(np.ones(7)), rel=1e-4)
    assert results["datasets"]["one"]["loss_at_start"] == problem.value(np.ones(7))


def test_the_reference_lies_below_every_method(done):
    for part in done[0]["datasets"].values():
        lowest = min(part["reference"].values())
        assert lowest <= min(it["mean"] for it in part["methods"].values())


# The convention of the public code


@pytest.mark.parametrize(("m", "b"), [(1, 1), (3, 2), (1, 4), (5, 1)])
def test_its_corrections_are_exactly_zero_and_change_nothing(m, b):
    method = PublicGFMPlus(0.01, 0.05, m, b)
    run, worked_out = (
        public_convention.run(toy(regularisation=0.1), method, seed=3, pairs=400, work_out=it) for it in (False, True)
    )
    assert run.correction is None
    assert worked_out.correction == 0.0
    assert all((one == other).all() for one, other in zip(run.points, worked_out.points, strict=True))
    assert np.abs(run.points[-1] - run.points[0]).max() > 0.1


@pytest.mark.parametrize(("m", "b"), [(1, 1), (3, 2), (1, 4), (5, 1)])
def test_each_pair_charged_is_q_pairs_evaluated(m, b):
    method = PublicGFMPlus(0.01, 0.05, m, b)
    Q = m * b
    assert method.charged == Q + m * 2 * b
    assert method.evaluated == Q * Q + m * 2 * b * Q
    run = public_convention.run(toy(), method, seed=3, pairs=401, records=7)
    epochs = 401 // (3 * Q)
    assert run.charged[-1] == epochs * 3 * Q <= 401
    assert run.evaluated == [Q * charged for charged in run.charged]
    assert run.steps == epochs * (m + 1)
    assert len(run.points) <= 8


def test_it_steps_m_plus_one_times_along_one_estimate_over_the_whole_batch():
    problem, m, b, delta, eta = toy(regularisation=0.2, cap=1.1), 3, 2, 0.01, 0.02
    run = public_convention.run(problem, PublicGFMPlus(delta, eta, m, b), seed=5, pairs=2 * 18)
    rng, x, d, Q = np.random.default_rng(5), np.ones(7), 7, 6
    for _ in range(2):
        S = [int(rng.integers(0, 150)) for _ in range(Q)]
        W = rng.standard_normal((Q, d))
        W /= np.linalg.norm(W, axis=1, keepdims=True)
        part = capped_l1_svm(problem.features.toarray()[S], problem.labels[S], 0.2, 1.1, bias=False)
        v = np.mean([d / (2 * delta) * (part.value(x + delta * w) - part.value(x - delta * w)) * w for w in W], axis=0)
        for _ in range(m + 1):
            x = x - eta * v
    np.testing.assert_allclose(run.points[-1], x, rtol=1e-9)


def test_counted_as_evaluated_it_gets_only_its_share(done):
    for spec, result in cells(done[1]):
        if spec["what"] in (svm.CHARGED, svm.EVALUATED):
            Q = spec["setting"]["m"] * spec["setting"]["b"]
            assert result["evaluated"] == Q * result["charged"]
            assert result["pairs"] == result["charged" if spec["what"] == svm.CHARGED else "evaluated"] <= PAIRS


# Machine code and measures


@pytest.mark.parametrize("learner", [{}, {"learner": "ogd", "step_size": 0.01}], ids=["adagrad", "ogd"])
@pytest.mark.parametrize("b", [1, 3])
def test_zo_o2nc_in_machine_code_is_the_plain_run(learner, b):
    problem = toy()
    method = gs.ZOO2NC(0.2, 7, batch_size=b, rho=0.01, displacement=0.03, **learner)
    fast = gs.minimize(
        problem.compiled, problem.x0, method, max_evals=1_503, rng=4, monitor=problem.value, compiled=True
    )
    plain = gs.minimize(problem.oracle, problem.x0, method, max_evals=1_503, rng=4, monitor=problem.value)
    np.testing.assert_allclose(fast.x, plain.x, rtol=1e-9)
    assert (fast.nfev, fast.nit, fast.status) == (plain.nfev, plain.nit, plain.status)
    for column in plain.history:
        np.testing.assert_allclose(fast.history[column], plain.history[column], rtol=1e-6, err_msg=column)


def test_the_smoothed_gradient_is_the_mean_gradient_over_the_ball():
    problem, delta, k = toy(n=30, d=4, regularisation=0.3, cap=1.0, weights=np.arange(30) % 3), 0.5, 40_000
    rng = np.random.default_rng(0)
    for x in (np.ones(5), 0.3 * rng.standard_normal(5)):
        draws = problem.gradient(x + delta * ball(rng, k, 5))
        error = draws.std(axis=0) / np.sqrt(k)
        exact = svm_measure.SmoothedGradient(problem, delta)(x)
        # Ten coordinates in all, each beyond 5 standard errors with probability below 1e-6.
        assert (np.abs(draws.mean(axis=0) - exact) <= 5 * error + 1e-12).all()


def test_the_error_of_v_is_that_of_its_large_batch_while_corrections_cost_nothing():
    # With steps this short the corrections are almost zero, so that v keeps the error of its batch of m·b pairs.
    problem = toy()
    method = gs.GFMPlus(0.05, 1e-9, epoch_length=10, batch_size=20)
    (row,) = svm_measure.variance(problem, method, [np.zeros(7)], seed=0, steps=4_000)
    assert row["error"] == pytest.approx(row["last"], rel=1e-3)
    # 400 independent large batches of 200: the mean of ‖error‖² is known to about 5 %; 30 % is six times that.
    assert row["error"] == pytest.approx(row["pair"] / 200, rel=0.3)
    assert row["plain"] == pytest.approx(row["pair"] / (20 * (10 + 2 * 9) / 10), rel=1e-12)


def test_long_first_order_runs_reach_the_minimum():
    problem = capped_l1_svm(np.array([[1.0], [-1.0], [2.0]]), [1, -1, 1], bias=False)  # separable: the minimum is 0
    assert max(svm_measure.reference(problem, 20_000).values()) < 1e-3


# Stopping and going on

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import tests.studies.test_svm as it
it.svm.run(Path(sys.argv[1]), scale=it.TINY, problems=it.problems, other_problems=it.others, jobs=2)
"""


def start(out):
    program = PROGRAM.format(tests=str(Path(__file__).parents[2]))
    return subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.DEVNULL)


def contents(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_killed_study_started_again_leaves_the_files_of_an_undisturbed_one(done, tmp_path):
    out = tmp_path / "study"
    for enough in (15, 150):
        process = start(out)
        while process.poll() is None and len(list(out.glob("cells/*.json"))) < enough:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (out / "results.json").exists()
    before = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    (out / "cells" / "torn.tmp").write_text('{"spec": {')
    process = start(out)
    assert process.wait() == 0
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())  # none was run again
    assert contents(out) == contents(done[1])


def test_a_finished_study_is_only_reported_again(done, tmp_path, monkeypatch):
    _, out = done
    before = contents(out)
    monkeypatch.setattr(svm, "solve", lambda *_: pytest.fail("a run was made again"))
    monkeypatch.setattr(public_convention, "run", lambda *_, **__: pytest.fail("a run was made again"))
    svm.run(out, scale=TINY, problems=problems, other_problems=others, jobs=1)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        ({}, False),
        ({"version": 2}, True),
        ({"delta": 0.002}, True),  # a setting that no name and no grid shows
        ({"cap": 1.5}, True),
        ({"pairs": PAIRS + 1}, True),
        ({"seed": 1}, True),
    ],
)
def test_a_saved_run_is_good_for_all_that_determines_its_numbers_and_for_nothing_else(
    tmp_path, monkeypatch, changed, again
):
    def run(problem, pairs, seed):
        study = svm.SVMStudy(Work(tmp_path, 1), TINY)
        entry = study.entries["GFM"]
        return study.work.one(study._piece("one", problem, entry, entry.grid[0], seed, pairs))

    first = run(toy(), PAIRS, 0)
    solved = []
    whole = svm.solve
    monkeypatch.setattr(svm, "solve", lambda *given: solved.append(given) or whole(*given))
    monkeypatch.setattr(record, "commit", lambda: "another commit, with other docstrings")
    monkeypatch.setattr(svm, "VERSION", changed.get("version", svm.VERSION))
    monkeypatch.setattr(svm, "DELTA", changed.get("delta", svm.DELTA))
    second = run(toy(cap=changed.get("cap", 2.0)), changed.get("pairs", PAIRS), changed.get("seed", 0))
    assert len(solved) == again
    if not again:
        assert second == first


def test_one_method_run_again_changes_no_other(done, tmp_path):
    results, _ = done
    spoilt = json.loads(json.dumps(results)) | {"formerly": {"auto": "calm", "two-point": "auto"}}
    for part in (spoilt["datasets"]["one"], spoilt["unseen"]["three"]):
        part["methods"]["auto"]["mean"] = part["methods"]["GFM"]["mean"] = -1.0
    (tmp_path / "results.json").write_text(json.dumps(spoilt))
    again = svm.run(tmp_path, scale=TINY, problems=problems, other_problems=others, jobs=1, only=["auto"])
    assert again == json.loads((tmp_path / "results.json").read_text())
    assert again["again"] == {"auto": results["code"]}
    assert again["formerly"] == {"two-point": "auto"}
    text = (tmp_path / "table.md").read_text()
    assert f"Run later, with the code of {results['code']}: *auto*. All the rest: {results['code']}." in text
    assert "*two-point* was called auto when it was run." in text
    for part, name in product(("datasets", "unseen"), ("one", "two", "three")):
        if name in results[part]:
            before, after = results[part][name], again[part][name]
            assert after["methods"]["auto"] == before["methods"]["auto"]
            assert after["methods"]["GFM"]["mean"] == spoilt[part][name]["methods"]["GFM"]["mean"]
            assert {key: after[key] for key in after if key != "methods"} == {
                key: before[key] for key in before if key != "methods"
            }


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"only": ["autos"]}, "no 'autos'"),
        ({"only": ["auto"], "out": "empty"}, "no results"),
        ({"only": ["auto"], "scale": svm.QUICK}, "share_of_budget is 0.5, here 0.1"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_run(done, tmp_path, keys, sentence):
    keys = {"scale": TINY, **keys}
    out = tmp_path / keys.pop("out") if "out" in keys else done[1]
    with pytest.raises(record.Unsupported, match=sentence):
        svm.run(out, problems=lambda: pytest.fail("data were loaded"), **keys)


def test_the_committed_report_is_made_of_the_committed_numbers():
    root = Path(__file__).parents[2]
    results = json.loads((root / "results" / "svm" / "results.json").read_text())
    assert (root / "results" / "svm" / "table.md").read_text() == svm_report.tables(results)


def test_cells_are_kept_whole_and_found_by_all_they_depend_on(tmp_path):
    store = Cells(tmp_path / "cells")
    spec = {"what": "x", "setting": {"eta": 0.1, "m": 1}, "seed": 3}
    assert store.get(spec) is None
    kept = store.put(spec, {"loss": np.array([1.5, np.inf]), "steps": np.int64(3)})
    assert kept == store.get(spec) == {"loss": [1.5, None], "steps": 3}
    assert store.get(spec | {"seed": 4}) is None
    assert store.get({"seed": 3, "setting": {"eta": 0.1, "m": 1}, "what": "x"}) == kept
    assert (tmp_path / "cells" / ".gitignore").read_text() == "*\n"
    assert not list((tmp_path / "cells").glob("*.tmp"))


# What it leaves


def test_results_say_how_they_were_made_and_hold_every_curve(done):
    results, out = done
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert results["command"] == "python -m studies svm"
    assert results["versions"]["goldstein"]
    for part in results["datasets"].values():
        assert list(part["methods"]) == list(svm.entries())
        for it in part["methods"].values():
            assert len(it["curve"]["mean"]) == len(it["curve"]["std"]) == len(it["curve"]["evaluations"])
        for key, entry in svm.entries().items():
            curve = part["methods"][key]["curve"]
            assert len(curve["evaluations"]) == entry.points + 1
            assert curve["evaluations"][-1] == 2 * (PAIRS // entry.parts)
        assert len(part["variance"]["rows"]) == 4
    assert str(Path.home()) not in (out / "results.json").read_text()


def test_the_report_shows_every_method(done):
    _, out = done
    text = (out / "table.md").read_text()
    for name in svm.entries():
        assert f"| {name} |" in text
    assert "50% of the budget, settings tuned on 1 seed, results on 2 others" in text
    assert (out / "figure.png").stat().st_size > 10_000


def made_up(**means):
    """Methods with these means and no scatter; those not named end at 1."""
    curve = {"evaluations": [0, 1, 2, 3, 4], "mean": [9.0, 0.9, 0.6, 0.4, 0.3], "std": [0.0] * 5}
    names = svm.entries()
    return {key: {"mean": means.get(key, 1.0), "ends": [means.get(key, 1.0)] * 4, "curve": curve} for key in names}


def test_the_targets_of_the_default_are_judged_by_the_means():
    good = made_up(**{"auto": 0.354, svm.TENTH: 0.5, svm.THIRTIETH: 0.9})
    bad = made_up(**{"auto": 0.0301, svm.TENTH: 0.99, "ZO-O2NC": 0.98, svm.THIRTIETH: 2.0})
    bad[svm.THIRTIETH]["ends"] = [0.5, 0.5, 0.5, 6.5]
    results = {"share_of_budget": 1.0, "datasets": {"a9a": {"methods": good}, "w8a": {"methods": bad}}}
    text = svm_report._targets(results)
    assert "a9a 0.354 (0.3545); w8a 0.0301 (0.03). Met on 1 of 2." in text
    assert "ZO-O2NC, tuned, at the whole budget on 1 of 2" in text
    assert "below tuned GFM at the whole budget on 1 of 2" in text
    assert "on w8a its mean does not, while 3 of 4 seeds do (median 0.5)" in text
    assert "in brackets" not in svm_report._targets(results | {"share_of_budget": 0.1})


def test_the_share_of_the_budget_after_which_a_curve_is_as_low_as_another_s_end():
    its = made_up(**{"GFM": 0.6, "GFM+": 0.35, "ZO-O2NC": 0.2})
    text = svm_report._arrivals({"datasets": {"one": {"methods": its}}})
    assert "| one | 50% | 100% | never | 50% | 100% | never |" in text


@pytest.mark.parametrize(
    ("one", "other", "word"), [(0.5, 0.7, "lower"), (0.7, 0.5, "higher"), (0.5, 0.501, "level"), (None, 1, "diverged")]
)
def test_differences_within_two_standard_errors_are_level(one, other, word):
    noise = np.tile([0.02, -0.02], 10)
    a, b = (
        {"mean": mean, "ends": [0] if mean is None else list(mean + sign * noise)}
        for mean, sign in ((one, 1), (other, -1))
    )
    said = svm_report._compare(a, b)
    assert said.verdict == word
    assert word in str(said)
    if one is not None:
        assert str(said).startswith(f"{one - other:+.4f} ± {0.04 / np.sqrt(19):.4f}")


def test_the_command_reports_again_from_the_numbers(done, tmp_path):
    typer = pytest.importorskip("typer.testing")
    from studies.__main__ import app

    _, out = done
    before = contents(out)
    answer = typer.CliRunner().invoke(app, ["svm", "--report", "--out", str(out)])
    assert answer.exit_code == 0, answer.output
    assert contents(out) == before
    missing = typer.CliRunner().invoke(app, ["svm", "--data", str(tmp_path), "--out", str(tmp_path / "x")])
    assert missing.exit_code == 1
    assert re.search(r"a9a is neither in", missing.output)
