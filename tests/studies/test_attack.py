"""The attack study: its units and grids, how it counts and chooses, and that a killed one goes on to the same files."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from goldstein.attack import SignAveraging
from studies import record
from studies.attack import curves as attack_curves
from studies.attack import lenet
from studies.attack import methods as attack_methods
from studies.attack import problems as attack_problems
from studies.attack import references as attack_references
from studies.attack import report as attack_report
from studies.attack import study as attack
from studies.work import Work
from tests.studies.test_lenet import bars

TINY = attack.Attacks(images=6, max_queries=100, rounds=(2, 4), tuning_queries=50)
HEIGHT = 0.3  # of the bars in the images: less than what κ can hide
SMALL_GRIDS = {"paper": ((20,), (0.5, 0.05)), "wide": ((10, 20), (5.0, 0.5, 0.05))}


def problems():
    """Two networks that an attack can fool, but not always at once."""
    out = []
    for seed, name in enumerate(("mnist", "fashion-mnist")):
        images, labels = bars(300, seed, HEIGHT)
        schedule = lenet.Schedule(epochs=3, step_size=0.1, halve_every=None, batch_size=20, momentum=0.9)
        model = lenet.LeNet(lenet.train(images, labels, schedule, seed=seed))
        network = {"test": 0.5, "train": 0.5, "paper": lenet.PAPER[name], "sha256": lenet.digest(model.weights)}
        network |= {"schedule": vars(schedule)}
        out.append(attack.Problem(name, model, bars(4, 10 + seed, HEIGHT), bars(6, 20 + seed, HEIGHT), network))
    return out


@contextmanager
def small_grids():
    before = attack_methods.GRIDS, attack_methods.EPOCHS, attack.BLOCK
    attack_methods.GRIDS, attack_methods.EPOCHS, attack.BLOCK = SMALL_GRIDS, (2, 5), 4
    try:
        yield
    finally:
        attack_methods.GRIDS, attack_methods.EPOCHS, attack.BLOCK = before


def run(out, **settings):
    """Run the tiny study on small grids, in this process."""
    with small_grids():
        return attack.run(out, scale=TINY, problems=problems, **settings)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A whole tiny study and the folder it was left in."""
    out = tmp_path_factory.mktemp("study")
    return run(out, jobs=1), out


def cells(out):
    saved = [json.loads(path.read_text()) for path in (out / "cells").glob("*.json")]
    return [(cell["spec"], cell["result"]) for cell in saved]


# How it chooses and what it reports


def test_images_that_tune_and_images_that_are_reported_are_of_different_files(done, monkeypatch):
    asked = []
    monkeypatch.setattr(lenet, "trained", lambda *_, **__: None)
    monkeypatch.setattr(lenet, "summary", lambda *_: {})

    def pixels(name, split, data):
        asked.append((name, split))
        values = np.arange(50) + 100 * (split == "test")
        return values, values

    monkeypatch.setattr(lenet, "pixels", pixels)
    for problem in attack.load(TINY, Path("nowhere")):
        assert len(problem.tuning[0]) == TINY.rounds[-1]
        assert len(problem.report[0]) == TINY.images
        assert max(problem.tuning[0]) < 50
        assert min(problem.report[0]) >= 100
        assert not set(problem.tuning[0]) & set(problem.report[0])
    for spec, _ in cells(done[1]):
        if spec["what"] != attack.PGD:
            assert spec["queries"] == (TINY.tuning_queries if spec["split"] == "train" else TINY.max_queries)


def test_more_images_are_the_same_ones_and_others():
    values = np.arange(100)
    few, many = (attack_problems.shuffled(values, values, n)[0] for n in (10, 60))
    assert (many[:10] == few).all()
    assert len(set(many)) == 60


def test_halving_keeps_the_better_third_and_the_best_on_all_images_is_chosen(done):
    results, out = done
    for name, part in results["datasets"].items():
        for key in ("GFM, wide grid", "GFM+, wide grid"):
            family, table = key.split(",")[0], part["methods"][key]["tuning"]
            tried = {2: [], 4: []}
            for *setting, images, mean in table:
                tried[images].append((mean, setting))
                spent = []
                for spec, result in cells(out):
                    same = (spec["what"], spec["data"], spec["split"]) == (family, name, "train")
                    if same and list(spec["setting"].values()) == setting and spec["images"][1] <= images:
                        spent += attack.capped(result, TINY.tuning_queries)
                assert mean == pytest.approx(np.mean(spent or [TINY.tuning_queries]), abs=0.06)
            total = len(table)
            assert len(tried[4]) == -(-total // 3)
            assert list(part["methods"][key]["setting"].values()) == min(tried[4], key=lambda row: row[0])[1]
        plus, public = (part["methods"][f"{it}, wide grid"] for it in ("GFM+", "public ordering"))
        assert plus["setting"] == public["setting"]
        assert "tuning" not in public


def test_an_image_that_was_not_won_counts_with_the_whole_budget_when_tuning():
    counts = {"queries": [7, 100, 93, 1], "success": [1, 0, 1, 0], "misclassified": [0, 0, 0, 1]}
    assert attack.capped(counts, 100) == [7, 100, 93]


def test_rates_are_shares_of_the_images_attacked_within_so_many_queries():
    counts = {
        "queries": [1, 50, 100, 101, 800, 1000],
        "estimation": [0, 40, 90, 99, 700, 900],
        "success": [0, 1, 1, 1, 1, 0],
        "misclassified": [1, 0, 0, 0, 0, 0],
    }
    said = attack_curves.summary(counts, 1000)
    assert said["at"] == [100, 200, 500, 1000]
    assert said["rate"] == [0.4, 0.6, 0.6, 0.8]
    assert said["by"] == {"estimation": [0.6, 0.6, 0.6, 0.8]}
    assert (said["attacked"], said["misclassified"], said["won"]) == (5, 1, 4)
    assert said["mean"] == pytest.approx((50 + 100 + 101 + 800) / 4, abs=0.1)
    assert said["mean_capped"] == pytest.approx((50 + 100 + 101 + 800 + 1000) / 5)
    assert said["median"] == 101
    assert said["rows"] == sum(counts["queries"])
    assert said["curve"]["rate"][-1] == 0.8
    lost = {**counts, "success": [0, 1, 0, 0, 0, 0]}
    assert attack_curves.summary(lost, 1000)["median"] is None
    none = {**counts, "success": [0] * 6}
    assert attack_curves.summary(none, 1000)["mean"] is None


def test_bands_over_images_are_those_of_a_binomial():
    """The bootstrap of a proportion p̂ over n images has the law of Binomial(n, p̂)/n."""
    from scipy.stats import binom

    n, won = 400, 120
    counts = {"queries": [10] * n, "success": [1] * won + [0] * (n - won), "misclassified": [0] * n}
    said = attack_curves.summary(counts, 100)
    low, high = (binom.ppf(q, n, won / n) / n for q in (0.025, 0.975))
    # the error of a percentile from 1,000 resamples is about one in 400; 4 of them are allowed
    assert said["low"][-1] == pytest.approx(low, abs=0.01)
    assert said["high"][-1] == pytest.approx(high, abs=0.01)


def test_differences_are_taken_image_by_image():
    one = {"queries": [10] * 200, "success": [1] * 100 + [0] * 100, "misclassified": [0] * 200}
    said = attack_curves.compare(one, one, 1000)
    assert said["difference"] == said["low"] == said["high"] == [0, 0, 0, 0]
    other = {**one, "success": [1] * 110 + [0] * 90}
    said = attack_curves.compare(one, other, 1000)
    assert said["difference"][-1] == -0.05
    assert -0.09 < said["low"][-1] < -0.05 < said["high"][-1] < 0


def test_without_art_the_study_says_so_and_goes_on(done, tmp_path, monkeypatch, capsys):
    shutil.copytree(done[1] / "cells", tmp_path / "cells")
    monkeypatch.setattr(attack_references, "has_art", lambda: False)
    results = run(tmp_path, jobs=1)
    assert "Square Attack (ART) is left out" in " ".join(capsys.readouterr().out.split())
    assert all(attack_references.SQUARE not in part["methods"] for part in results["datasets"].values())
    assert "Square Attack was left out" in (tmp_path / "table.md").read_text()


# Stopping and going on

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import tests.studies.test_attack as it
it.run(Path(sys.argv[1]), jobs=2)
"""


def start(out):
    program = PROGRAM.format(tests=str(Path(__file__).parents[2]))
    return subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.DEVNULL)


def contents(out):
    return {str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_killed_study_started_again_leaves_the_files_of_an_undisturbed_one(done, tmp_path):
    out = tmp_path / "study"
    process = start(out)
    while process.poll() is None and len(list(out.glob("cells/*.json"))) < 20:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (out / "results.json").exists()
    before = {path: path.stat().st_mtime_ns for path in out.glob("cells/*.json")}
    run(out, jobs=1)
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())  # none was run again
    assert contents(out) == contents(done[1])


def test_a_study_that_fails_does_not_finish_the_pieces_it_has_begun(tmp_path, monkeypatch):
    ended, real = [], attack.attack

    def failing(*given, progress, **settings):
        if settings["max_queries"] == TINY.max_queries:
            raise RuntimeError("the power went off")
        return real(*given, progress=progress, **settings)

    monkeypatch.setattr(attack, "attack", failing)
    with pytest.raises(RuntimeError, match="the power went off"):
        run(tmp_path, jobs=2)
    study = attack.AttackStudy(Work(tmp_path, 1, ended.append), TINY)
    study.work.stopped = True
    monkeypatch.setattr(attack, "attack", real)
    with pytest.raises(InterruptedError):
        study.work.run(study.piece(problems()[0], study.entries["default"], "test", {}, 0, 6, 50))
    assert ended == []


def test_attacks_with_other_settings_are_other_pieces_under_the_same_name(tmp_path, monkeypatch):
    (problem, _), study = problems(), attack.AttackStudy(Work(tmp_path), TINY)

    def spec(family="default", images=(0, 6), budget=50):
        return study.piece(problem, study.entries[family], "test", {}, *images, budget).spec

    first = spec()
    assert spec() == first
    assert all(other != first for other in (spec("averaging only"), spec(images=(0, 5)), spec(budget=51)))
    study.entries["default"] = replace(study.entries["default"], build=lambda _: SignAveraging(search=16))
    assert spec()["what"] == first["what"]
    assert spec() != first
    monkeypatch.setattr(attack, "VERSION", attack.VERSION + 1)
    assert spec("averaging only")["version"] == first["version"] + 1


def test_one_method_run_again_changes_no_other(done, tmp_path):
    results, _ = done
    spoilt = json.loads(json.dumps(results))
    for part in spoilt["datasets"].values():
        part["methods"]["default"]["mean"] = part["methods"]["GFM, wide grid"]["mean"] = -1.0
    (tmp_path / "results.json").write_text(json.dumps(spoilt))
    key = "GFM, wide grid, any row wins"
    again = json.loads(json.dumps(run(tmp_path, jobs=1, only=["default", key])))
    assert again["again"] == {"default": results["code"], key: results["code"]}
    assert "Run again since" in (tmp_path / "table.md").read_text()
    for name, part in again["datasets"].items():
        before = json.loads(json.dumps(results["datasets"][name]))
        assert part["methods"].pop("GFM, wide grid")["mean"] == -1.0
        before["methods"].pop("GFM, wide grid")
        assert part == before
    again["datasets"]["mnist"]["network"]["sha256"] = "0" * 64
    (tmp_path / "results.json").write_text(json.dumps(again))
    with small_grids(), pytest.raises(record.Unsupported, match="another network for mnist"):
        attack.run(tmp_path, scale=TINY, problems=problems, only=["default"], jobs=1)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"only": ["defaults"]}, "no 'defaults'"),
        ({"only": ["default"], "out": "empty"}, "no results"),
        ({"only": ["default"], "images": 7}, "images is 6, here 7"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_run(done, tmp_path, keys, sentence):
    keys = dict(keys)
    out = tmp_path / keys.pop("out") if "out" in keys else done[1]
    with pytest.raises(record.Unsupported, match=sentence):
        attack.run(out, scale=TINY, problems=lambda: pytest.fail("networks were trained"), **keys)


def test_the_progress_bar_ends_full(tmp_path, done):
    shutil.copytree(done[1] / "cells", tmp_path / "cells")
    told = []
    with small_grids():
        study = attack.AttackStudy(Work(tmp_path, 1, told.append), TINY)
        study.dataset(problems()[0])
        assert sum(told) == pytest.approx(study.cost())


def test_a_finished_study_is_only_reported_again(done, monkeypatch):
    _, out = done
    before = contents(out)
    monkeypatch.setattr(attack, "attack", lambda *_, **__: pytest.fail("an attack was made again"))
    monkeypatch.setattr(attack_references, "square", lambda *_, **__: pytest.fail("an attack was made again"))
    monkeypatch.setattr(attack_references, "pgd", lambda *_, **__: pytest.fail("an attack was made again"))
    run(out, jobs=1)
    assert contents(out) == before


# What it leaves


def test_counts_add_up_and_stay_within_the_budget(done):
    results, out = done
    for spec, result in cells(out):
        if "queries" in result:
            assert max(result["queries"]) <= spec["queries"]
            assert len(result["queries"]) == spec["images"][1] - spec["images"][0]
    for part in results["datasets"].values():
        for it in part["methods"].values():
            assert it["attacked"] + it["misclassified"] == TINY.images
            assert it["won"] == round(it["rate"][-1] * it["attacked"])
    for part in results["datasets"].values():  # else nothing here would be tested
        assert part["methods"]["default"]["won"] > 0
        assert any(it["won"] < it["attacked"] for it in part["methods"].values())


def test_results_say_how_they_were_made_and_hold_every_curve(done):
    results, out = done
    assert json.loads((out / "results.json").read_text()) == json.loads(json.dumps(results))
    assert results["command"] == "python -m studies attack"
    assert results["versions"]["goldstein"]
    for part in results["datasets"].values():
        assert set(attack_methods.entries()) <= set(part["methods"])
        for it in part["methods"].values():
            assert len(it["curve"]["queries"]) == len(it["curve"]["rate"]) == len(it["curve"]["low"])
            assert it["at"][-1] == it["curve"]["queries"][-1] == TINY.max_queries
    assert str(Path.home()) not in (out / "results.json").read_text()


def test_the_report_shows_every_method(done):
    _, out = done
    text = (out / "table.md").read_text()
    for name in attack_methods.entries():
        assert f"| {name} |" in text
    assert "6 test images of each data set, 100 queries for each; settings tuned on 4 training images with 50." in text
    assert "without success checks" in text
    assert (out / "figure.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("low", "high", "word"), [(0.01, 0.2, "above"), (-0.2, -0.01, "below"), (-0.1, 0.1, "level"), (0.0, 0.1, "level")]
)
def test_a_difference_whose_band_holds_zero_is_level(low, high, word):
    row = {"of": "a", "from": "b", "at": [500, 1000], "difference": [0, 0.05], "low": [0, low], "high": [0, high]}
    said = attack_report._words({"differences": [row]}, "a", "b", 1000)
    assert said.startswith("+5.0 points")
    assert said.endswith(f"{word})")
    assert attack_report._words({"differences": [row]}, "a", "b", 500).endswith("level)")
    assert attack_report._words({"differences": [row]}, "a", "b", 77) == ""
    rates = {"a": {"at": [500, 1000], "rate": [0.0, 0.1]}, "b": {"at": [500, 1000], "rate": [0.0, 0.05]}}
    whole = attack_report._course({"methods": rates, "differences": [row]}, "a", "b")
    assert whole == f"{said} at 1,000 queries"  # at 500 there is nothing to compare


def test_the_committed_report_is_made_of_the_committed_numbers():
    root = Path(__file__).parents[2]
    results = json.loads((root / "results" / "attack" / "results.json").read_text())
    assert (root / "results" / "attack" / "table.md").read_text() == attack_report.tables(results)


def test_the_command_reports_again_and_says_what_is_missing(done, tmp_path):
    typer = pytest.importorskip("typer.testing")
    from studies.__main__ import app

    _, out = done
    before = contents(out)
    command = ["attack", "--out"]
    answer = typer.CliRunner().invoke(app, [*command, str(out), "--report"])
    assert answer.exit_code == 0, answer.output
    assert contents(out) == before
    missing = typer.CliRunner().invoke(app, [*command, str(tmp_path / "x"), "--data", str(tmp_path)])
    assert missing.exit_code == 1
    assert re.search(r"train-images-idx3-ubyte.gz is neither in", missing.output)
