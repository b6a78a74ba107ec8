"""`goldstein inspect` and `goldstein resume`: what they say of a journal, and that a run goes on from that alone."""

import json
import math
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs

pytest.importorskip("typer")

from typer.testing import CliRunner

from goldstein.cli.app import app
from goldstein.cli.journal import curve_lines
from goldstein.oracle import Answer
from goldstein.report.curves import is_noisy
from goldstein.run.inspection import inspect
from goldstein.run.journal import Journal
from goldstein.run.spec import RunSpec

X0 = np.array([1.0, -0.5, 0.25, 2.0])
MODEL = """
import numpy as np
import goldstein as gs

calls = []

def plain(x):
    calls.append(1)
    return float(np.abs(x - 0.3).sum())

def with_args(x, scale, shift):
    return float(np.abs(scale * x - shift).sum())

def first(x, *args):
    return plain(x)

def component(x, i):
    calls.append(1)
    return float(np.abs(x - 0.1 * np.sin(i)).sum())

def batch(X, i):
    return np.abs(X - 0.1 * np.sin(i)[:, None]).sum(axis=1)

def seeded(x, seed):
    return component(x, seed % 1000)

def raising(x):
    raise ArithmeticError("the model is wrong")

expectation = gs.Expectation(component, lambda rng, k: rng.normal(size=k))
gradient = gs.Deterministic(plain, grad=lambda x: np.sign(x - 0.3))

class space:
    inner = plain

def with_text(x, text):
    return plain(x) + text.count("\\n")
"""


def run(*arguments):
    answer = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if answer.exception is not None and not isinstance(answer.exception, SystemExit):
        raise answer.exception
    return answer.exit_code, " ".join(answer.output.split())


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A module in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "journal_model.py").write_text(MODEL)
    sys.modules.pop("journal_model", None)
    monkeypatch.syspath_prepend(tmp_path)
    import journal_model

    sys.path.remove(str(tmp_path))  # the command finds it in the current folder
    yield journal_model
    sys.modules.pop("journal_model", None)


def stop_halfway(result):
    if result.nfev >= 100:
        raise StopIteration


def half(fun, method="gfm", path="run.journal", **more):
    return gs.minimize(
        fun, X0, method, **{"max_evals": 300, "rng": 5, "journal": path, "callback": stop_halfway, **more}
    )


def summary(res):
    return [res.x.tolist(), res.fun, res.nfev, res.nit, res.status.name, res.message]


def resumed(*arguments):
    code, said = run("resume", *arguments, "--json")
    assert code == 0, said
    told = json.loads(said)
    return [told["x"], told["fun"], told["nfev"], told["nit"], told["status"], told["message"]]


# ---- inspect


def test_inspect_says_how_far_a_run_is(model):
    res = half(model.plain)
    seen = inspect("run.journal")
    assert (seen.evaluations, seen.max_evals, seen.stage) == (res.nfev, 300, 1)
    assert not seen.noisy
    assert seen.best == pytest.approx(min(value for _, value in seen.curve))
    assert seen.outcome["status"] == "CALLBACK"
    assert seen.versions["goldstein"] == gs.__version__
    code, said = run("inspect", "run.journal")
    assert code == 0
    assert f"evaluations {res.nfev} of 300 ({res.nfev / 300:.0%})" in said
    assert f"best so far {seen.best:.6g}" in said
    assert "CALLBACK: Stopped by the callback." in said
    assert "method Probed(requested='gfm'" in said
    assert "x0 [1.0, -0.5, 0.25, 2.0]" in said
    assert "┤" in said


def test_inspect_prints_plain_json(model):
    res = half(lambda x: np.nan if x[0] > 1.001 else float(x[0]), "gfm", options={"delta": 0.1, "step_size": 1e-9})
    code, said = run("inspect", "run.journal", "--json")
    assert code == 0
    told = json.loads(said, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert told["evaluations"] == res.nfev
    assert told["failures"] == res.nfail > 0
    assert told["settings"]["method"].startswith("GFM(")
    assert told["outcome"]["nfev"] == res.nfev


def test_noise_shows_as_a_mean_also_of_a_bare_function(model):
    noise = np.random.default_rng(0)
    half(lambda x: model.plain(x) + noise.normal())
    seen = inspect("run.journal")
    assert seen.noisy
    values = seen.curve[-max(len(seen.curve) // 10, 1) :]
    assert min(value for _, value in values) <= seen.best <= max(value for _, value in values)
    assert "mean of the last 10 %" in run("inspect", "run.journal")[1]
    half(gs.FiniteSum(model.component, 7), path="sum.journal")
    assert inspect("sum.journal").noisy


def alternating(size):
    """Return a function of which each second call is larger by this part."""
    calls = []

    def fun(x):
        calls.append(1)
        return float(np.abs(x - 0.3).sum()) * (1 + size * (len(calls) % 2))

    return fun


@pytest.mark.parametrize(
    ("fun", "noisy"),
    [(alternating(0.0), False), (alternating(2.0**-52), False), (alternating(0.1), True)],
    ids=["exact", "last bit", "noise"],
)
def test_noise_has_one_verdict_in_result_report_and_inspect(model, fun, noisy):
    res = half(fun, "auto", callback=None)
    seen = inspect("run.journal")
    assert (seen.noisy, is_noisy(res)) == (noisy, noisy)
    assert seen.settings["oracle"].startswith(res.settings["oracle"])
    pytest.importorskip("jinja2")
    page = res.report("run.html").read_text(encoding="utf-8")
    assert ("Unreplayable" in page) == noisy
    assert ("mean of the last 10 %" in run("inspect", "run.journal")[1]) == noisy


IDENTITY = {"method": "GFM()", "oracle": "Deterministic, n=None", "rng": {}}


def write(path, lives, monkeypatch):
    """Write a journal by hand, in one life of the run after the other: the time at which it begins to evaluate, and
    for each part of the values when it came, and the values."""
    earlier = []
    for began, parts in lives:
        clock = iter([began, *(stamp for stamp, _ in parts)])
        with monkeypatch.context() as patch, Journal(path) as journal:
            patch.setattr("goldstein.run.journal.time.time", lambda clock=clock: next(clock))
            journal.begin(IDENTITY, {"max_evals": 100, "max_iter": None}, noisy=False)
            for part in earlier:
                journal.answers_to(gs.Query(np.zeros((len(part), 1))))
            for _, part in parts:
                earlier.append(part)
                journal.answers_to(gs.Query(np.zeros((len(part), 1))))
                journal.start(0, len(part))
                journal.record(0, Answer(np.array(part, dtype=float)))


def test_times_failures_and_rows_in_flight(tmp_path, monkeypatch):
    path = tmp_path / "run.journal"
    day = 86_400
    first = [(2, [4, 5]), (4, [3, np.nan]), (6, [3, 3]), (8, [np.inf, 2]), (10, [7, 8])]
    second = [(day + 2, [2.5, 9]), (day + 4, [9, 9]), (day + 6, [9, 9])]
    write(path, [(0, first), (day, second)], monkeypatch)  # stopped for a day
    with Journal(path) as journal:
        journal.begin(IDENTITY, {"max_evals": 100, "max_iter": None}, noisy=False)
        journal.start(0, 3)
    seen = inspect(path)
    assert seen.evaluations == 16
    assert seen.failures == 2
    assert seen.best == 2
    assert seen.unanswered == 3
    assert seen.seconds_each == pytest.approx(1.0)
    assert seen.seconds_left == pytest.approx(84.0)
    assert seen.seconds_since == pytest.approx(time.time() - day - 6, abs=60)
    said = run("inspect", path)[1]
    for words in ("in flight or lost 3", "failures 2", "time an evaluation 1 s", "time left 1 min 24 s", "not yet"):
        assert words in said


def test_several_pauses_are_no_part_of_an_evaluation(tmp_path, monkeypatch):
    path = tmp_path / "run.journal"
    write(path, [(hour, [(hour + 2, [4, 5]), (hour + 4, [4, 5])]) for hour in (0, 3600, 7200, 90_000)], monkeypatch)
    assert inspect(path).seconds_each == pytest.approx(1.0)


def test_answers_that_come_in_bursts_are_no_pauses(tmp_path, monkeypatch):
    path = tmp_path / "run.journal"
    clock = iter([0.0, *(60.0 * burst + 0.001 * place for burst in (1, 2, 3) for place in range(8))])
    with monkeypatch.context() as patch, Journal(path) as journal:
        patch.setattr("goldstein.run.journal.time.time", lambda: next(clock))
        journal.begin(IDENTITY, {"max_evals": 100, "max_iter": None}, noisy=False)
        for _ in range(3):
            journal.answers_to(gs.Query(np.zeros((8, 1))))
            for row in range(8):
                journal.start(row, 1)
            for row in range(8):
                journal.record(row, Answer(np.array([1.0])))
    assert inspect(path).seconds_each == pytest.approx(180 / 24, rel=0.01)


def test_the_best_point_shows_where_a_snapshot_has_it(model):
    points = []

    def dies(x):
        points.append(x.copy())
        if len(points) > 100:
            raise OSError("down")
        return float(np.abs(x - 0.3).sum())

    for scale in (None, [1.0, 2.0, 3.0, 4.0]):
        points.clear()
        journal = Journal(f"{scale is None}.journal", snapshots=0.0)
        with pytest.raises(OSError, match="down"):
            gs.minimize(
                gs.Deterministic(dies), X0, gs.GFM(0.1, 0.05), max_evals=300, rng=0, journal=journal, x_scale=scale
            )
        seen = inspect(journal.path)
        assert any((point == seen.x).all() for point in points)
        assert seen.x_fun == seen.best == np.abs(np.array(seen.x) - 0.3).sum()
        code, said = run("inspect", journal.path)
        assert code == 0
        shown = " ".join(f"{entry:.6g}" for entry in seen.x)
        assert f"x at the last snapshot [{shown}] f = {seen.best:.6g}" in said
        assert json.loads(run("inspect", journal.path, "--json")[1])["x"] == seen.x


@pytest.mark.parametrize("settings", [{}, {"x_scale": 2.0}, {"bounds": [(0, 1), (1, 1), (0, 1), (0, 1)]}])
def test_with_noise_the_answer_so_far_shows_in_the_users_coordinates(model, settings):
    calls = []

    def dies(x, i):
        calls.append(1)
        if len(calls) > 100:
            raise OSError("down")
        return float(np.abs(x - i).sum())

    journal = Journal("run.journal", snapshots=0.0)
    start = np.full(4, 0.5) if "bounds" in settings else X0
    with pytest.raises(OSError, match="down") as raised:
        gs.minimize(gs.FiniteSum(dies, 3), start, gs.GFM(0.1, 0.05), max_evals=300, rng=0, journal=journal, **settings)
    seen = inspect("run.journal")
    assert seen.x == raised.value.result.x.tolist()
    assert seen.x_fun is None


def test_the_answer_of_a_run_that_has_ended_shows(model):
    res = half(model.plain, path="a run", callback=None)
    seen = inspect("a run")
    assert (seen.x, seen.x_fun, seen.running) == (res.x.tolist(), res.fun, False)
    assert " x [" in run("inspect", "a run")[1]


def test_the_curve_of_a_noisy_run_ends_where_candidates_are_judged(tmp_path):
    """The start is among them, and would look like a rise."""
    oracle = gs.Seeded(lambda x, seed: float(np.abs(x - 1).sum() + 0.01 * np.random.default_rng(seed).normal()))
    gs.minimize(oracle, np.full(3, 9.0), max_evals=600, rng=0, journal=tmp_path / "run.journal")
    seen = inspect(tmp_path / "run.journal")
    assert seen.curve[-1][1] < 3
    assert seen.best < 3


def test_a_page_quotes_the_name_of_the_journal(model):
    half(model.plain, path="a run", callback=None)
    pytest.importorskip("jinja2")
    assert run("inspect", "a run", "--html", "run.html")[0] == 0
    assert "resume &#39;a run&#39;" in Path("run.html").read_text(encoding="utf-8")


def test_a_curve_fits_a_narrow_terminal(model):
    half(model.plain)
    said = CliRunner().invoke(app, ["inspect", "run.journal"], env={"COLUMNS": "60"}).output
    assert "┤" in said
    assert max(map(len, said.splitlines())) <= 60


def test_a_torn_tail_is_no_error_and_damage_is_named_with_its_place(model, tmp_path):
    half(model.plain)
    whole = (tmp_path / "run.journal").read_bytes()
    before = inspect("run.journal").evaluations
    for cut in (1, 7, 40):
        (tmp_path / "run.journal").write_bytes(whole[:-cut])
        assert before - 60 <= inspect("run.journal").evaluations <= before
        assert run("inspect", "run.journal")[0] == 0
    place = len(whole) // 2
    damaged = bytearray(whole)
    damaged[place] ^= 64
    (tmp_path / "run.journal").write_bytes(bytes(damaged))
    code, said = run("inspect", "run.journal")
    assert code == 1
    assert "is damaged at byte" in said
    named = int(said.split("at byte ")[1].split(":")[0])
    assert 0 < named <= place
    assert run("resume", "run.journal", "--with", "journal_model:plain")[0] == 1


def test_files_that_are_no_journals_of_runs(model, tmp_path):
    (tmp_path / "empty").touch()
    for more in ([], ["--json"]):
        assert run("inspect", "empty", *more) == (2, "empty is empty: it holds no run.")
    assert run("resume", "empty", "--with", "journal_model:plain")[0] == 2
    (tmp_path / "text").write_text("something else altogether")
    assert run("inspect", "text") == (1, "text is not a goldstein journal: choose another file.")
    assert run("inspect", "missing")[0] == 2
    from goldstein.attack import attack

    attack(lambda x: np.ones((len(x), 2)), np.zeros((1, 2, 2)), [0], max_queries=3, journal="attack")
    code, said = run("inspect", "attack")
    assert code == 1
    assert "is the journal of an attack" in said


WRITER = """
import sys, numpy as np, goldstein as gs
def slow(x):
    print(".", flush=True)
    sys.stdin.readline()
    return float(abs(x).sum())
gs.minimize(gs.Deterministic(slow), np.ones(2), gs.GFM(0.1, 0.01), max_evals=50, rng=0, journal=sys.argv[1])
"""


def test_inspect_works_while_the_run_goes_on_and_does_not_disturb_it(tmp_path):
    path = tmp_path / "run.journal"
    program = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for told in range(10):
            writer.stdout.readline()
            seen = inspect(path)
            assert told - 2 <= seen.evaluations <= told  # those of a part are told together
            assert seen.unanswered >= 1
            assert seen.outcome is None
            assert seen.running
            with pytest.raises(BlockingIOError, match="being written by another run"):
                gs.minimize(abs, [1.0], max_evals=5, journal=path)
            writer.stdin.write("\n")
            writer.stdin.flush()
        writer.communicate("\n" * 100)
    assert writer.returncode == 0
    assert inspect(path).outcome["status"] == "MAX_EVALS"
    assert not inspect(path).running


def test_running_and_stopped_are_told_apart_and_a_look_keeps_nobody_out(model):
    fcntl = pytest.importorskip("fcntl")

    def looks(x):
        said.append(run("inspect", "run.journal")[1])
        raise OSError("down")

    said = []
    with pytest.raises(OSError, match="down"):
        gs.minimize(looks, X0, max_evals=50, rng=0, journal="run.journal")
    assert "ended not yet; a process is writing to it" in said[0]
    assert "ended not yet; no process is writing to it" in run("inspect", "run.journal")[1]
    with open("run.journal", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # somebody looks just now
        timer = threading.Timer(0.01, fcntl.flock, (file, fcntl.LOCK_UN))
        timer.start()
        assert gs.minimize(model.plain, X0, max_evals=50, rng=0, journal="run.journal").nfev
        timer.join()


def test_memory_does_not_grow_with_the_journal(tmp_path):
    peaks = []
    for records in (5_000, 25_000):
        path = tmp_path / f"{records}.journal"
        gs.minimize(
            gs.Deterministic(lambda x: float(x[0])), [1.0], gs.GFM(0.1, 1e-6), max_evals=records, rng=0, journal=path
        )
        inspect(path)
        tracemalloc.start()
        seen = inspect(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert seen.evaluations > records - 10
        assert 64 <= len(seen.curve) <= 128
    assert peaks[1] < peaks[0] + 100_000  # twenty thousand records would be millions


def test_a_compiled_run_shows_by_its_snapshots(tmp_path, model):
    numba = pytest.importorskip("numba")
    component = numba.njit(lambda x, i: np.abs(x - 0.1 * i).sum())
    stopped = []

    def stop(result):
        stopped.append(result.nfev)
        if result.nfev > 20_000:
            raise StopIteration

    journal = Journal("run.journal", snapshots=0.0)
    gs.minimize(
        gs.FiniteSum(component, 5), X0, gs.GFM(0.1, 0.01), max_evals=60_000, rng=0, journal=journal, callback=stop
    )
    seen = inspect("run.journal")
    assert seen.compiled
    assert stopped[-2] <= seen.evaluations <= 60_000
    assert math.isfinite(seen.best)
    assert len(seen.curve) > 5


def test_curves_are_drawn_between_their_largest_and_smallest_value():
    lines = curve_lines([0.0, 1.0, 2.0, 3.0], height=4)
    assert lines[0].startswith("3 ┤")
    assert lines[-1] == "0 ┤▁███"
    assert [line.count("█") for line in lines] == [1, 1, 2, 3]
    assert curve_lines([1.0, 1.0], height=2)[-1].endswith("▁▁")
    assert curve_lines([1.7e308, -1.7e308], height=1) == ["-1.7e+308 ┤█▁"]
    assert curve_lines([5e-324, 0.0], height=1) == ["0 ┤█▁"]
    assert max(len(line) for line in curve_lines(list(range(1000)), width=10)) <= 16


# ---- resume

CASES = {
    "bare": ("plain", lambda m: m.plain, {}),
    "auto": ("plain", lambda m: m.plain, {"method": "auto"}),
    "nested": ("space.inner", lambda m: m.plain, {}),
    "options": ("plain", lambda m: m.plain, {"options": {"delta": 0.05}}),
    "whole options": ("plain", lambda m: m.plain, {"options": {"delta": 0.05, "step_size": 0.02}}),
    "object": ("plain", lambda m: gs.Deterministic(m.plain), {"method": gs.GFMPlus(0.05, 0.02, 4, 2)}),
    "warm": (
        "plain",
        lambda m: gs.Deterministic(m.plain),
        {"method": gs.WarmStart(gs.GFM(0.05, 0.02), gs.GFM(0.05, gs.steps.InverseSqrt(0.02), 2), iterations=9)},
    ),
    "sum": ("component", lambda m: gs.FiniteSum(m.component, 7), {"method": "ws-gfm+"}),
    "vectorised sum": ("batch", lambda m: gs.FiniteSum(m.batch, 7, vectorized=True), {"method": "sift"}),
    "seeded": ("seeded", lambda m: gs.Seeded(m.seeded), {"method": "cma"}),
    "args": ("with_args", lambda m: gs.Deterministic(m.with_args, (2.0, np.arange(4.0))), {}),
    "text": ("with_text", lambda m: gs.Deterministic(m.with_text, ("two\nlines",)), {}),
    "expectation": ("expectation", lambda m: m.expectation, {}),
    "gradient": ("gradient", lambda m: m.gradient, {"method": gs.O2NC(0.5, 7)}),
    "bounds": (
        "plain",
        lambda m: m.plain,
        {"bounds": [(-1, 3), (None, 2), (0, None), (-5, 5)], "x_scale": [1, 2, 3, 4]},
    ),
    "ball": ("plain", lambda m: m.plain, {"projection": gs.projection.L2Ball(np.zeros(4), 3.0), "x_scale": 0.3}),
    "stop": ("plain", lambda m: m.plain, {"stop": [gs.stop.Target(0.9)], "output": "best"}),
    "stationarity": (
        "plain",
        lambda m: m.plain,
        {"stationarity": (0.1, 0.5), "catch": ZeroDivisionError, "max_fail": 3},
    ),
    "iterations": ("plain", lambda m: m.plain, {"max_evals": None, "max_iter": 90}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_from_its_journal_alone(model, case):
    name, fun, settings = CASES[case]
    half(fun(model), **settings)
    whole = half(fun(model), path=None, callback=None, **settings)
    assert resumed("run.journal", "--with", f"journal_model:{name}") == summary(whole)
    assert resumed("run.journal", "--with", f"journal_model:{name}") == summary(whole)  # only read


def test_what_is_in_the_journal_is_not_asked_again_and_workers_do_the_rest(model):
    first = half(model.plain)
    whole = half(model.plain, path=None, callback=None)
    model.calls.clear()
    assert resumed("run.journal", "--with", "journal_model:plain") == summary(whole)
    assert len(model.calls) <= whole.nfev - first.nfev + 1  # the answer of the first end is not that of the second
    half(model.plain, path="other.journal")
    assert resumed("other.journal", "--with", "journal_model:plain", "--workers", 2) == summary(whole)


def test_a_result_is_shown_in_words(model):
    half(model.plain)
    code, said = run("resume", "run.journal", "--with", "journal_model:plain")
    assert code == 0
    assert "ended MAX_EVALS" in said
    assert "message Evaluation budget used." in said


def test_larger_budgets_and_further_stages(model):
    half(model.plain, gs.GFM(0.05, 0.02), callback=None)
    whole = half(model.plain, gs.GFM(0.05, 0.02), path=None, callback=None, max_evals=500)
    assert resumed("run.journal", "--with", "journal_model:plain", "--max-evals", 500) == summary(whole)
    planned = gs.GFM(0.05, gs.steps.LinearDecay(0.02))
    half(model.plain, planned, path="planned", callback=None)
    code, said = run("resume", "planned", "--with", "journal_model:plain", "--max-evals", 500)
    assert code == 2
    assert (
        "--max-evals must be 300, for which the steps of this run were planned, got 500: use extend=True (--extend"
        in said
    )
    with pytest.raises(ValueError, match=r"use extend=True \(--extend on the command line\)"):
        half(model.plain, planned, path="planned", callback=None, max_evals=500)
    x, _, nfev, *_ = resumed("planned", "--with", "journal_model:plain", "--max-evals", 500, "--extend")
    assert 490 <= nfev <= 500
    seen = inspect("planned")
    assert (seen.stage, seen.max_evals) == (2, 500)
    assert resumed("planned", "--with", "journal_model:plain")[:3:2] == [x, nfev]


@pytest.mark.parametrize(
    ("fun", "settings", "reason"),
    [
        (
            lambda m: m.plain,
            {"projection": lambda x: np.clip(x, -3, 3)},
            "projection (a builtins.function)",
        ),
        (lambda m: gs.Deterministic(m.first, (1.0, abs)), {}, "args (a builtins.builtin_function_or_method)"),
        (lambda m: gs.Deterministic(m.first, np.zeros(20_000)), {}, "args (160,000 bytes)"),
        (lambda m: m.gradient, {"method": gs.O2NC(0.5, 7)}, "Deterministic with gradients"),
        (lambda m: m.expectation, {}, "was of the kind Expectation"),
    ],
    ids=["projection", "args", "large args", "gradients", "expectation"],
)
def test_what_cannot_be_rebuilt_is_refused_and_says_what_to_do(model, fun, settings, reason):
    half(fun(model), **settings)
    before = Path("run.journal").read_bytes()
    code, said = run("resume", "run.journal", "--with", "journal_model:plain")
    assert code == 2
    assert reason in said
    assert "call gs.minimize(..., journal='run.journal') instead." in said
    assert Path("run.journal").read_bytes() == before


class Own(gs.stop.Criterion):
    """A criterion of one's own."""

    message = "Done."

    def screen(self, fun, lowest, noisy):
        return False

    def confirm(self, x, oracle, rng):
        return False
        yield


def test_criteria_methods_and_exceptions_of_ones_own_are_refused(model):
    class OwnError(Exception):
        pass

    half(model.plain, stop=[Own()], catch=OwnError)
    code, said = run("resume", "run.journal", "--with", "journal_model:plain")
    assert code == 2
    assert "Own)" in said.partition("stop (a ")[2]
    assert "catch (a builtins.type)" in said


def test_another_function_than_then_is_refused(model):
    half(gs.FiniteSum(model.component, 7))
    model.other = gs.FiniteSum(model.component, 8)
    code, said = run("resume", "run.journal", "--with", "journal_model:other")
    assert code == 2
    assert "its oracle was 'FiniteSum, n=7', now it is 'FiniteSum, n=8'" in said


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("plain", "--with takes module:function"),
        ("journal_model:", "--with takes module:function"),
        ("no_such_module:f", "There is no module 'no_such_module'"),
        ("journal_model:nothing", "The module 'journal_model' has no 'nothing'"),
        ("journal_model:calls", "fun must be a callable or an oracle, got list"),
    ],
)
def test_a_function_that_is_not_there_is_wrong_use(model, given, sentence):
    half(model.plain)
    code, said = run("resume", "run.journal", "--with", given)
    assert code == 2
    assert sentence in said.replace("│ ", "").replace(" │", "")


def test_what_the_function_raises_is_not_wrong_use(model):
    half(model.plain)
    code, said = run("resume", "run.journal", "--with", "journal_model:raising")
    assert code == 1
    assert said.endswith("The function raised ArithmeticError: the model is wrong (journal_model.py, line 28).")


INTERRUPTED = """
import os, signal
def stop(x):
    os.kill(os.getpid(), signal.SIGINT)
    return float(abs(x).sum())
"""


def test_ctrl_c_ends_with_the_code_of_the_shell(model, tmp_path):
    half(model.plain)
    (tmp_path / "stopping.py").write_text(INTERRUPTED)
    program = "import sys; from goldstein.cli import main; sys.argv[0] = 'goldstein'; main()"
    command = [sys.executable, "-c", program, "resume", "run.journal", "--with", "stopping:stop", "--json"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 130
    assert json.loads(process.stdout)["status"] == "INTERRUPTED"
    assert process.stderr == ""


def test_calls_of_many_variables_are_kept_as_bytes():
    x = np.random.default_rng(0).normal(size=3000)
    oracle = gs.Deterministic(lambda x, *args: 0.0, args=(1, [2.0, None], {"a": "b"}))
    call = json.loads(json.dumps(RunSpec(fun=oracle, x0=x, method=gs.GFM(0.1, 0.1)).header))
    assert len(json.dumps(call["x0"])) < 12 * x.size
    again = RunSpec.arguments_of(call, lambda x, *args: 0.0)
    np.testing.assert_array_equal(again["x0"], x)
    assert again["method"] == gs.GFM(0.1, 0.1)
    assert again["fun"].args == (1, [2.0, None], {"a": "b"})


def test_a_journal_without_a_call_says_so():
    with pytest.raises(ValueError, match="does not say by which call"):
        RunSpec.arguments_of(None, len)


def test_settings_from_elsewhere_are_not_made():
    call = RunSpec(fun=len, x0=X0, method=gs.GFM(0.1, 0.1)).header
    for settings in ("os:path", "goldstein.minimize:minimize", "goldstein.methods:Nothing"):
        with pytest.raises(ValueError, match="is unknown to this version"):
            RunSpec.arguments_of({**call, "method": {"settings": settings, "with": {}}}, len)
