"""Seen while it runs: a line on a terminal and nothing elsewhere; and what is logged."""

import io
import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import goldstein as gs
from goldstein.oracle import Answer
from goldstein.run import progress
from goldstein.run.progress import Bar, lasting

X0 = np.ones(3)


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def lines(self):
        """The looks of the line, without the blanks that wipe the one before."""
        return [look.rstrip() for look in self.getvalue().split("\r") if look.strip()]


@pytest.fixture
def terminal(monkeypatch):
    """A terminal as standard error, and no pause between two looks."""
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "100")
    return stream


def value(x):
    return float(np.abs(x - 0.5).sum())


def run(fun=value, **more):
    return gs.minimize(fun, X0, gs.GFM(0.05, 0.02, 4), progress=True, rng=0, **{"max_evals": 400, **more})


def made(line):
    return int(re.match(r"([\d,]+) ", line)[1].replace(",", ""))


def test_the_line_counts_up_shows_the_best_value_and_is_wiped_in_the_end(terminal):
    seen = []
    res = run(lambda x: seen.append(value(x)) or seen[-1])
    counts = [made(line) for line in terminal.lines]
    assert counts == sorted(counts)
    assert counts[0] < 50
    assert res.nfev - 10 <= counts[-1] <= res.nfev
    last = terminal.lines[-1]
    assert f"of 400 evaluations, {counts[-1] / 400:.0%}" in last
    assert f"best {min(seen[: counts[-1]]):.6g}" in last
    assert " a second · " in last
    assert last.endswith(" left")
    assert terminal.getvalue().endswith(" " * 99 + "\r")


def test_without_a_budget_there_is_no_time_left(terminal):
    run(max_evals=None, max_iter=30)
    assert all(" of " not in line and " left" not in line for line in terminal.lines)
    assert made(terminal.lines[-1]) > 200


def test_with_noise_it_is_a_mean_that_is_shown(terminal):
    run(gs.Seeded(lambda x, seed: value(x) + np.random.default_rng(seed).normal()))
    assert "mean " in terminal.lines[-1]
    assert "best " not in terminal.lines[-1]


def test_it_shows_with_workers(terminal):
    run(workers=2)
    assert made(terminal.lines[-1]) > 380


def test_it_shows_while_compiled(terminal):
    numba = pytest.importorskip("numba")
    component = numba.njit(lambda x, i: np.abs(x - 0.1 * i).sum())
    run(gs.FiniteSum(component, 5), max_evals=40_000, compiled=True)
    counts = [made(line) for line in terminal.lines]
    assert len(set(counts)) > 5
    assert "mean " in terminal.lines[-1]


def test_after_resume_what_is_in_the_journal_takes_no_time(terminal, tmp_path, monkeypatch):
    """The clock goes on by a second with each evaluation, and by nothing in a replay."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(x):
        now[0] += 1.0
        return value(x)

    def stop(result):
        if result.nfev > 300:
            raise StopIteration

    run(slow, journal=tmp_path / "run.journal", callback=stop)
    terminal.truncate(0)
    terminal.seek(0)
    run(slow, journal=tmp_path / "run.journal")
    rates = [re.search(r"([\d.e+]+) a second", line) for line in terminal.lines]
    shown = [float(rate[1]) for rate in rates if rate]
    assert shown
    assert all(0.5 <= rate <= 5 for rate in shown)
    assert made(terminal.lines[0]) < 50
    assert made(terminal.lines[-1]) > 380


def test_a_later_stage_counts_on(terminal, tmp_path):
    method = gs.GFM(0.05, gs.steps.LinearDecay(0.02), 4)
    path = tmp_path / "run.journal"
    gs.minimize(value, X0, method, max_evals=200, rng=0, journal=path)
    gs.minimize(value, X0, method, max_evals=400, rng=0, journal=path, extend=True, progress=True)
    assert "of 400" in terminal.lines[-1]
    assert made(terminal.lines[-1]) > 380


@pytest.mark.parametrize("ending", ["return", "raise"])
def test_nothing_goes_into_a_pipe(monkeypatch, ending):
    stream = io.StringIO()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    monkeypatch.setattr(progress, "EVERY", 0.0)
    if ending == "raise":
        with pytest.raises(ZeroDivisionError):
            run(lambda x: 1 / 0)
    else:
        run()
    assert stream.getvalue() == ""


def test_nothing_goes_into_the_pipe_of_a_process():
    program = (
        "import goldstein as gs; gs.minimize(lambda x: abs(x).sum(), [1.0], 'gfm', max_evals=300, rng=0, progress=True)"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert process.stdout == process.stderr == b""


def test_the_line_is_wiped_when_the_function_raises(terminal):
    calls = []

    def fun(x):
        calls.append(1)
        return value(x) if len(calls) < 100 else 1 / 0

    with pytest.raises(ZeroDivisionError):
        run(fun)
    assert terminal.getvalue().endswith(" " * 99 + "\r")


def test_a_line_longer_than_the_terminal_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    bar = Bar(1000, False, stream)
    bar.record(0, Answer(np.array([1.0, np.nan])))
    assert stream.getvalue() == "\r" + "2 of 1,000 evaluations, 0%"[:19]


def test_failed_values_and_gradients_are_no_best_value():
    bar = Bar(None, False, Terminal())
    bar.record(0, Answer(np.array([np.nan, np.inf])))
    assert bar.line(0.0) == "2 evaluations"
    bar.record(0, Answer(np.ones((2, 3))))
    assert bar.line(0.0) == "4 evaluations"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h"), (90_000, "1 d 1 h")]
)
def test_times_in_words(seconds, words):
    assert lasting(seconds) == words


def test_a_run_logs_its_beginning_its_records_and_its_end(caplog):
    caplog.set_level(logging.DEBUG, "goldstein")
    res = gs.minimize(value, X0, gs.GFM(0.05, 0.02, 4), max_evals=400, rng=0)
    levels = [record.levelname for record in caplog.records]
    assert levels[0] == levels[-1] == "INFO"
    assert caplog.messages[0] == "gfm begins, d = 3, max_evals = 400"
    assert caplog.messages[-1].startswith(f"MAX_EVALS after {res.nfev} evaluations: ")
    records = [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"]
    kept = {f"{nfev:.0f} evaluations, {nit:.0f} iterations, fun about {fun:.6g}" for nfev, nit, fun in rows(res)}
    assert len(records) >= len(kept) - 1  # the last one is made in closing
    assert len(kept & set(records)) >= len(kept) - 1


def rows(res):
    return zip(*(res.history[name] for name in ("nfev", "nit", "fun")), strict=True)


def test_what_was_replayed_is_logged_once_and_not_record_by_record(caplog, tmp_path):
    settings = {"rng": 0, "journal": tmp_path / "run.journal"}
    first = gs.minimize(value, X0, gs.GFM(0.05, 0.02, 4), max_iter=40, **settings)
    caplog.set_level(logging.DEBUG, "goldstein")
    gs.minimize(value, X0, gs.GFM(0.05, 0.02, 4), max_iter=80, **settings)
    (said,) = [message for message in caplog.messages if "continues after" in message]
    assert f"continues after {first.nfev - 1} values" in said  # without that of the end it came to
    early = [record for record in caplog.messages if record.startswith(tuple(f"{k} evaluations" for k in range(300)))]
    assert early == []


def test_a_lost_part_is_a_warning(caplog, tmp_path):
    caplog.set_level(logging.INFO, "goldstein")
    once = tmp_path / "once"

    def deadly(x):
        if not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value(x)

    gs.minimize(gs.Deterministic(deadly), X0, gs.GFM(0.05, 0.02, 4), max_evals=50, rng=0, workers=2)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert "were lost (its process was killed by SIGKILL)" in warnings[0]


def test_the_library_adds_only_a_handler_that_says_nothing():
    program = (
        "import logging, goldstein as gs\n"
        "gs.minimize(lambda x: abs(x).sum(), [1.0], 'gfm', max_evals=50, rng=0)\n"
        "logging.getLogger('goldstein').warning('nobody hears this')\n"
        "log = logging.getLogger('goldstein')\n"
        "print(*(type(handler).__name__ for handler in log.handlers), log.level, logging.getLogger().handlers)\n"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert process.stdout.split() == ["NullHandler", "0", "[]"]
    assert process.stderr == ""


def program(word):
    """Return the program in docs/resume.md that has a word in it."""
    text = (Path(__file__).parents[2] / "docs" / "resume.md").read_text()
    (found,) = [one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if f"import {word}" in one]
    assert found.count("\n") - found.count("\n\n") <= 5
    return found


def test_five_lines_are_enough_for_tensorboard(monkeypatch):
    seen = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, step):
            seen.append((name, value, step))

        def close(self):
            seen.append("closed")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    monkeypatch.setitem(sys.modules, "torch.utils", SimpleNamespace(tensorboard=None))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(utils=None))
    exec(program("SummaryWriter"), {"gs": gs, "f": value, "x0": X0})
    *points, last = seen
    assert last == "closed"
    assert len(points) > 50
    assert np.isfinite([fun for _, fun, _ in points]).mean() > 0.9  # before the first step none is known
    assert [step for *_, step in points] == sorted(step for *_, step in points)


def test_five_lines_are_enough_for_mlflow(monkeypatch):
    seen = []
    mlflow = SimpleNamespace(
        start_run=nullcontext,
        log_metrics=lambda metrics, step: seen.append((step, metrics)),
        log_metric=lambda name, value: seen.append((name, value)),
    )
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    exec(program("mlflow"), {"gs": gs, "f": value, "x0": X0})
    assert seen[-1][0] == "answer"
    assert len(seen) > 50
    assert seen[0][1].keys() == {"fun", "nfail"}
