"""The journal: what was paid for is never paid for again, whatever happens to the run or to the file."""

import inspect as stack_inspection
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs
from goldstein.run import journal as journal_module
from goldstein.run import records
from goldstein.run.inspection import inspect
from goldstein.run.journal import (
    ENDING,
    HEADER,
    LIMITS,
    MONITOR,
    NOT_STARTED,
    OUTCOME,
    STARTED,
    VALUES,
    content_of,
)
from goldstein.run.snapshot import read_snapshot
from tests.journal_kills import CASES, check, summary

ROOT = Path(__file__).parents[2]
X0 = np.array([1.0, -0.5, 0.25, 2.0])
METHOD = gs.GFM(0.1, 0.02, 3)


def plain(x) -> float:
    return float(np.abs(x - 0.3).sum() + 0.1 * np.sin(3 * x).sum())


class Counting:
    """A function that counts its calls, and breaks off before the one with a given number."""

    def __init__(self, stops_at: int | None = None) -> None:
        self.calls = 0
        self.stops_at = stops_at

    def __call__(self, x) -> float:
        if self.calls == self.stops_at:
            raise KeyboardInterrupt
        self.calls += 1
        return plain(x)


def half_way(path, at=150, method=METHOD, **settings):
    """Leave the journal of a run that was stopped before its end; return the settings to go on with."""
    keys = {"max_evals": 400, "rng": 3, "journal": path} | settings
    gs.minimize(gs.Deterministic(Counting(at)), X0, method, **keys)
    return keys


@pytest.fixture(scope="module")
def whole():
    return gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3)


def test_only_what_is_missing_is_asked_for(tmp_path, whole):
    for at in (1, 2, 17, 150, whole.nfev - 1):
        keys = half_way(tmp_path / str(at), at)
        rest = Counting()
        res = gs.minimize(gs.Deterministic(rest), X0, METHOD, **keys)
        assert rest.calls == whole.nfev - at
        assert summary(res) == summary(whole)
        again = Counting()
        assert summary(gs.minimize(gs.Deterministic(again), X0, METHOD, **keys)) == summary(whole)
        assert again.calls == 0


def test_the_first_calls_of_a_bare_function_are_in_it_too(tmp_path):
    stopped = Counting(1)
    gs.minimize(stopped, X0, METHOD, max_evals=400, rng=3, journal=tmp_path / "run")
    rest = Counting()
    res = gs.minimize(rest, X0, METHOD, max_evals=400, rng=3, journal=tmp_path / "run")
    assert rest.calls == res.nfev - 1


def test_noise_that_cannot_be_replayed_is_replayed(tmp_path):
    dice = np.random.default_rng(0)
    calls = []

    def noisy(x):
        if len(calls) == 300:
            raise KeyboardInterrupt
        calls.append(plain(x) + 0.1 * dice.normal())
        return calls[-1]

    keys = {"max_evals": 600, "rng": 0, "journal": tmp_path / "run"}
    gs.minimize(gs.Unreplayable(noisy), X0, "cma", **keys)
    first = list(calls)
    calls.clear()
    res = gs.minimize(gs.Unreplayable(noisy), X0, "cma", **keys)
    assert len(first) + len(calls) == res.nfev


def test_exceptions_lose_nothing_that_was_told(tmp_path):
    calls = []

    def breaks(x):
        calls.append(1)
        if len(calls) == 100:
            raise OSError("the licence server is down")
        time.sleep(0.02)  # each row is a part of its own
        return plain(x)

    keys = {"max_evals": 120, "rng": 3, "journal": tmp_path / "run"}
    with pytest.raises(OSError, match="licence"):
        gs.minimize(gs.Deterministic(breaks), X0, METHOD, **keys)
    res = gs.minimize(gs.Deterministic(breaks), X0, METHOD, **keys)
    assert len(calls) == res.nfev + res.nrepeat
    assert res.nrepeat == 1


def test_monitor_and_callback_are_not_called_for_what_is_replayed(tmp_path):
    def run(stops_at=None, journal=None):
        seen = {"monitor": [], "callback": []}

        def monitor(x):
            seen["monitor"].append(1)
            return float(x[0])

        res = gs.minimize(
            gs.Deterministic(Counting(stops_at)),
            X0,
            METHOD,
            max_evals=400,
            rng=3,
            journal=journal,
            monitor=monitor,
            callback=lambda intermediate_result: seen["callback"].append(intermediate_result.nfev),
        )
        return res, seen

    undisturbed, every = run()
    _, first = run(150, tmp_path / "run")
    res, second = run(None, tmp_path / "run")
    assert summary(res) == summary(undisturbed)
    assert len(first["monitor"]) + len(second["monitor"]) == len(every["monitor"])
    assert first["callback"] + second["callback"] == every["callback"]
    assert run(None, tmp_path / "run")[1] == {"monitor": [], "callback": []}


@pytest.mark.parametrize("method", ["auto", gs.GFM(0.1, gs.steps.LinearDecay(0.02), 3)], ids=["auto", "gfm"])
def test_a_run_planned_for_its_budget_goes_on_as_a_new_stage(tmp_path, method):
    first = gs.minimize(gs.Deterministic(plain), X0, method, max_evals=300, rng=3, journal=tmp_path / "run")
    function = Counting(100)
    keys = {"max_evals": 700, "rng": 3, "journal": tmp_path / "run", "extend": True}
    gs.minimize(gs.Deterministic(function), X0, method, **keys)
    assert function.calls == 100
    rest = Counting()
    res = gs.minimize(gs.Deterministic(rest), X0, method, **keys)
    assert first.nfev < res.nfev <= 700
    assert res.nfev == first.nfev + 100 + rest.calls
    assert res.fun <= first.fun
    assert "stage 2, from the answer after" in res.message
    assert (np.diff(res.history.nfev) >= 0).all()
    assert res.history.nfev[-1] > first.nfev
    again = gs.minimize(gs.Deterministic(Counting(0)), X0, method, max_evals=700, rng=3, journal=tmp_path / "run")
    assert summary(again) == summary(res)
    with pytest.raises(ValueError, match="max_evals must be at least"):
        gs.minimize(gs.Deterministic(plain), X0, method, max_evals=600, rng=3, journal=tmp_path / "run")
    with pytest.raises(ValueError, match="use extend=True"):
        gs.minimize(gs.Deterministic(plain), X0, method, max_evals=900, rng=3, journal=tmp_path / "run")


def test_a_run_that_ran_out_of_time_goes_on(tmp_path, whole):
    def slow(x):
        time.sleep(0.002)
        return plain(x)

    keys = {"max_evals": 400, "rng": 3, "journal": tmp_path / "run"}
    calls = 0
    for _ in range(50):
        res = gs.minimize(gs.Deterministic(slow), X0, METHOD, max_time=0.2, **keys)
        if res.status is not gs.Status.MAX_TIME:
            break
        assert not res.success
        assert res.message.startswith("Time limit reached")
        assert res.nfev > calls or res.nfev == 0
        calls = res.nfev
    assert calls
    assert summary(res) == summary(whole)


def test_too_many_failures_end_a_run():
    calls = []

    def fails(x):
        calls.append(1)
        return np.nan if len(calls) % 5 == 0 else plain(x)

    res = gs.minimize(gs.Deterministic(fails), X0, METHOD, max_evals=2000, rng=0, max_fail=7)
    assert res.status is gs.Status.FAILING
    assert res.message.startswith("More than max_fail = 7 evaluations failed.")
    assert 7 < res.nfail <= 7 + 6


# The file


def answers_or_refuses(path, whole):
    """Go on from a file; return whether that worked, with the right end. A refusal must be one sentence."""
    before = path.read_bytes()
    try:
        res = gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=path)
    except ValueError as error:
        refusal = str(error)
    else:
        assert summary(res) == summary(whole)
        return True
    assert "\n" not in refusal
    assert path.read_bytes() == before, "a file that is refused is left alone"
    return False


def test_truncations_and_bit_flips_never_give_a_wrong_answer(tmp_path, whole):
    """A thousand of them: exact resume or refusal; CRC-32 finds every flip of up to three bits in a record."""
    path = tmp_path / "run"
    half_way(path, 60)
    written = path.read_bytes()
    dice = random.Random(7)
    went_on = {"cut": 0, "flip": 0}
    for trial in range(1000):
        broken = bytearray(written)
        kind = "cut" if trial % 2 else "flip"
        if kind == "cut":
            del broken[dice.randrange(len(broken)) :]
        else:
            for _ in range(dice.choice((1, 1, 2, 3))):
                broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        path.write_bytes(broken)
        went_on[kind] += answers_or_refuses(path, whole)
    assert went_on["cut"] == 500, "a torn tail is cut off"
    assert went_on["flip"] < 50, "what is damaged before the end is refused"


def test_damage_is_refused_with_its_position(tmp_path):
    path = tmp_path / "run"
    keys = half_way(path)
    written = bytearray(path.read_bytes())
    with path.open("rb") as file:
        values = [record for record in records.scan(file, path) if record.kind == VALUES]
    for place in (values[3].start + 4, values[3].end - 6):  # in its head, and in its content
        broken = bytearray(written)
        broken[place] ^= 1
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=rf"is damaged at byte {values[3].start}: .* Nothing was changed"):
            gs.minimize(gs.Deterministic(plain), X0, METHOD, **keys)


def test_a_length_that_points_beyond_the_end_is_no_torn_tail(tmp_path):
    path = tmp_path / "run"
    keys = half_way(path)
    with path.open("rb") as file:
        third = list(records.scan(file, path))[3]
    broken = bytearray(path.read_bytes())
    broken[third.start + 7] = 0x7F  # the highest byte of the length
    path.write_bytes(broken)
    with pytest.raises(ValueError, match="is damaged at byte"):
        gs.minimize(gs.Deterministic(plain), X0, METHOD, **keys)


def test_space_that_was_set_aside_but_not_written_is_a_torn_tail(tmp_path, whole):
    path = tmp_path / "run"
    half_way(path)
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert answers_or_refuses(path, whole)


def test_other_files_are_refused_and_left_alone(tmp_path):
    old = tmp_path / "old.npz"
    np.savez(old, x=X0)
    text = tmp_path / "notes.txt"
    text.write_text("not a journal at all, but something that is longer than twenty bytes")
    for path, sentence in ((old, "is not a goldstein journal"), (text, "is not a goldstein journal")):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=sentence):
            gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=100, rng=0, journal=path)
        assert path.read_bytes() == before


def test_a_place_that_cannot_be_written_is_found_before_the_first_evaluation(tmp_path):
    for path in (tmp_path / "no" / "run", tmp_path):
        function = Counting()
        with pytest.raises(OSError, match="the journal cannot be written"):
            gs.minimize(function, X0, METHOD, max_evals=100, journal=path)
        assert function.calls == 0


def test_a_full_disk_ends_the_run_and_leaves_a_whole_journal(tmp_path, monkeypatch, whole):
    path = tmp_path / "run"
    real = os.write
    left = 4000

    def write(file, content):
        nonlocal left
        left -= len(content)
        return real(file, content) if left > 0 else real(file, content[:3])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        with pytest.raises(OSError, match="the disk is full") as caught:
            gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=path)
    assert caught.value.result.nfev > 0
    assert answers_or_refuses(path, whole)


def test_two_runs_cannot_write_one_journal(tmp_path):
    path = tmp_path / "run"
    with (
        gs.Journal(path),
        pytest.raises(BlockingIOError, match="is being written by another run"),
    ):
        gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=path)


def test_another_course_is_refused(tmp_path):
    """As on another machine, whose linear algebra rounds otherwise: a value is a little off, and put right later."""
    path = tmp_path / "run"
    keys = half_way(path)
    with path.open("rb") as file:
        *_, last = (record for record in records.scan(file, path) if record.kind == VALUES)
    content = bytearray(last.content)
    content[-3] ^= 1  # a value that is a little off, in a record that is whole
    written = path.read_bytes()
    path.write_bytes(written[: last.start] + records.framed(VALUES, bytes(content)))
    again = Counting(60)
    gs.minimize(gs.Deterministic(again), X0, METHOD, **keys)  # goes on from the other value
    altered = path.read_bytes()
    path.write_bytes(altered[: last.start] + records.framed(VALUES, last.content) + altered[last.end :])
    with pytest.raises(ValueError, match="asks for other points than it did then"):
        gs.minimize(gs.Deterministic(plain), X0, METHOD, **keys)


def test_a_snapshot_is_only_a_cache(tmp_path, whole):
    path = tmp_path / "run"
    journal = gs.Journal(path, snapshots=0)
    half_way(journal)
    assert read_snapshot(journal.snapshot_path) is not None
    kept = journal.snapshot_path.read_bytes()
    for content in (kept, kept[:100], b"", bytes(len(kept)), None):
        copy = tmp_path / "copy"
        copy.write_bytes(path.read_bytes())
        if content is None:
            copy.with_name("copy.snapshot").unlink(missing_ok=True)
        else:
            copy.with_name("copy.snapshot").write_bytes(content)
        assert answers_or_refuses(copy, whole)
    other = tmp_path / "other"  # the snapshot of another run
    half_way(other)
    other.with_name("other.snapshot").write_bytes(kept)
    assert answers_or_refuses(other, whole)


def test_a_compiled_run_goes_on_from_its_snapshot_or_from_its_start(tmp_path):
    case = CASES["auto, compiled"]
    path = tmp_path / "run"
    undisturbed = summary(case.minimize())

    def stop(intermediate_result):
        if intermediate_result.nfev > 500_000:
            raise StopIteration

    with gs.Journal(path) as opened:
        assert opened.number == 0
    keys = {"max_evals": case.max_evals, "rng": 5, "compiled": True}
    from tests.journal_kills import ORACLES

    gs.minimize(ORACLES["compiled"](), X0, "auto", journal=gs.Journal(path, snapshots=0), callback=stop, **keys)
    snapshot = read_snapshot(path.with_name("run.snapshot"))
    assert snapshot.facts.nfev > 400_000
    before = path.read_bytes()
    assert summary(gs.minimize(ORACLES["compiled"](), X0, "auto", journal=path, **keys)) == undisturbed
    path.write_bytes(before)
    path.with_name("run.snapshot").unlink()
    assert summary(gs.minimize(ORACLES["compiled"](), X0, "auto", journal=path, **keys)) == undisturbed


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(3.0), np.arange(3)),
        (np.arange(4.0), np.arange(4.0).reshape(2, 2)),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 2}),
        ("1", 1),
        (True, 1),
        ([[1], [2, 3]], [[1, 2], [3]]),
        (np.zeros(10**6), np.concatenate([np.zeros(10**6 - 1), [1.0]])),
    ],
)
def test_different_arguments_have_different_fingerprints(one, other):
    assert content_of(one) != content_of(other)
    assert content_of(one) == content_of(one)


# Kills: tests/journal_kills.py has the full form, `python -m tests.journal_kills`, 200 of them over all cases.


@pytest.mark.parametrize("name", CASES)
def test_killed_runs_end_like_undisturbed_ones(name):
    check(name, seed=99, kills=2, longest=0.5)


def test_an_inspected_journal_may_be_written_at_the_same_time(tmp_path):
    """A reader needs no lock and takes a torn tail for the end."""
    path = tmp_path / "run"
    half_way(path)
    written = path.read_bytes()
    path.write_bytes(written[:-5])
    program = (
        "import sys; from pathlib import Path; from goldstein.run.records import scan; path = Path(sys.argv[1]); "
        "print(len(list(scan(path.open('rb'), path))))"
    )
    answer = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    with path.open("rb") as file:
        assert int(answer.stdout) == len(list(records.scan(file, path)))


DIES_WHILE_SAVING = """
import os, sys
import numpy as np
import goldstein as gs
from tests.run.test_journal import METHOD, X0, plain

real = np.savez
count = 0

def savez(file, **arrays):
    global count
    count += 1
    if count == 20:
        file.write(b"the first bytes of an archive")
        file.flush()
        os._exit(7)
    real(file, **arrays)

np.savez = savez
journal = gs.Journal(sys.argv[1], snapshots=0)
gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=journal)
"""


def test_a_run_that_dies_while_a_snapshot_is_written_goes_on(tmp_path, whole):
    path = tmp_path / "run"
    died = subprocess.run([sys.executable, "-c", DIES_WHILE_SAVING, path], capture_output=True, text=True)
    assert died.returncode == 7, died.stderr
    assert path.with_name("run.snapshot.new").exists()
    assert answers_or_refuses(path, whole)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


# What a review found


def test_a_journal_is_unlocked_though_workers_were_forked_while_it_was_open(tmp_path):
    with ProcessPoolExecutor(2) as executor:
        for iterations in (5, 10):
            keys = {"max_iter": iterations, "rng": 3, "journal": tmp_path / "run", "workers": executor}
            assert gs.minimize(gs.Deterministic(plain), X0, METHOD, **keys).nit == iterations


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_journal_whose_writer_was_killed_is_unlocked_though_a_forked_worker_lives(tmp_path):
    """The lock belongs to the open file, which a forked process shares until it closes its copy."""
    open_file = records.Records(tmp_path / "run", sync=1.0)
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    worker.start()
    try:
        os.close(open_file._file)  # all that kill -9 does
        for _ in range(100):  # the child may not have run yet
            try:
                records.Records(tmp_path / "run", sync=1.0).close()
                break
            except BlockingIOError:
                time.sleep(0.05)
        else:
            pytest.fail("the journal stayed locked")
    finally:
        worker.kill()
        worker.join()


def test_the_end_of_a_run_that_its_callback_stopped_is_paid_for_once(tmp_path):
    """The callback is asked again where it stopped; the run goes on only if it does not stop there any more."""
    function = Counting()

    def run(callback):
        oracle = gs.Deterministic(function)
        return gs.minimize(oracle, X0, METHOD, max_evals=400, rng=3, journal=tmp_path / "run", callback=callback)

    def stop(intermediate_result):
        if intermediate_result.nfev >= 100:
            raise StopIteration

    first = run(stop)
    assert first.status is gs.Status.CALLBACK
    assert function.calls == first.nfev
    again = run(stop)
    assert summary(again) == summary(first)
    assert function.calls == first.nfev
    assert run(None).status is gs.Status.MAX_EVALS


@pytest.mark.parametrize("first", [5, 6, 24, 25, 33, 34, 57])
def test_bfgs_goes_on_with_a_larger_budget_wherever_it_ended(tmp_path, first):
    method = gs.BFGS(0.1)
    oracle = gs.Deterministic(plain)
    whole = gs.minimize(oracle, X0, method, max_evals=333, rng=0)
    gs.minimize(oracle, X0, method, max_evals=first, rng=0, journal=tmp_path / "run")
    rest = gs.minimize(oracle, X0, method, max_evals=333, rng=0, journal=tmp_path / "run")
    assert summary(rest) == summary(whole)


def test_there_must_be_something_to_extend_by(tmp_path):
    keys = {"max_evals": 300, "rng": 3, "journal": tmp_path / "run"}
    gs.minimize(gs.Deterministic(plain), X0, "auto", max_iter=1000, **keys)
    with pytest.raises(ValueError, match="max_evals must be more than the 300 that this run has used"):
        gs.minimize(gs.Deterministic(plain), X0, "auto", max_iter=2000, extend=True, **keys)


def test_a_block_that_never_reached_the_disk_is_a_torn_tail(tmp_path, whole):
    path = tmp_path / "run"
    half_way(path, 60)
    with path.open("rb") as file:
        *_, last = (record for record in records.scan(file, path) if record.kind == VALUES)
    written = path.read_bytes()
    middle = (last.start + last.end) // 2
    path.write_bytes(written[:middle] + bytes(last.end - middle + 3000))
    assert answers_or_refuses(path, whole)


def test_values_of_a_query_that_was_broken_off_twice_are_counted(tmp_path):
    method = gs.GFM(0.1, 0.02, 50)
    keys = {"max_evals": 400, "rng": 3, "journal": tmp_path / "run"}
    gs.minimize(gs.Deterministic(Counting(20)), X0, method, **keys)
    res = gs.minimize(gs.Deterministic(Counting(10)), X0, method, **keys)
    assert res.status is gs.Status.INTERRUPTED
    assert res.nfev >= 30


def test_a_run_that_failed_too_often_goes_on_when_more_failures_are_allowed(tmp_path):
    def fails(x):
        return np.nan if x[0] > 0.9 else plain(x)

    keys = {"max_evals": 400, "rng": 3, "journal": tmp_path / "run"}
    first = gs.minimize(gs.Deterministic(fails), X0, METHOD, max_fail=3, **keys)
    assert first.status is gs.Status.FAILING
    res = gs.minimize(gs.Deterministic(fails), X0, METHOD, **keys)
    assert summary(res) == summary(gs.minimize(gs.Deterministic(fails), X0, METHOD, max_evals=400, rng=3))


def test_a_snapshot_that_cannot_be_written_does_not_end_a_run(tmp_path, monkeypatch, whole):
    def full(*args, **kwargs):
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez", full)
    journal = gs.Journal(tmp_path / "run", snapshots=0)
    res = gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=journal)
    assert summary(res) == summary(whole)


def test_names_are_there_in_a_fresh_interpreter():
    program = "import goldstein as gs; gs.smoothing.sphere; gs.methods.METHODS; gs.oracle.Query; gs.minimize; gs.theory"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_journal_of_another_function_is_mentioned(tmp_path):
    """It is up to the user whether that is the same one under another name."""

    def cost_a(x):
        return float(np.abs(x - 1).sum())

    def cost_b(x):
        return float(np.abs(x - 9).sum())

    path = tmp_path / "run.journal"
    gs.minimize(cost_a, np.zeros(2), max_evals=50, rng=0, journal=path)
    again = gs.minimize(cost_a, np.zeros(2), max_evals=50, rng=0, journal=path)
    assert "holds values of" not in again.message
    other = gs.minimize(cost_b, np.zeros(2), max_evals=50, rng=0, journal=path)
    assert re.search(r"run\.journal holds values of .*cost_a, which were taken for those of .*cost_b", other.message)


# Files that are not what a run has written


def parts(path):
    """Return the records of a journal as pairs of kind and content."""
    with path.open("rb") as file:
        return [(record.kind, record.content) for record in records.scan(file, path)]


def write_parts(path, pairs):
    path.write_bytes(records.MAGIC + b"".join(records.framed(kind, content) for kind, content in pairs))


def with_header(change):
    def changed(pairs):
        header = json.loads(pairs[0][1])
        change(header)
        return [(HEADER, json.dumps(header).encode()), *pairs[1:]]

    return changed


def instead(kind, content):
    """Replace the first record of a kind."""

    def changed(pairs):
        place = next(place for place, (which, _) in enumerate(pairs) if which == kind)
        return [*pairs[:place], (kind, content), *pairs[place + 1 :]]

    return changed


def values_head(number=1, first=0, rows=1, order=0, roundoff=1e-16, stamp=1.7e9, print_=bytes(16)):
    return journal_module.VALUES_HEAD.pack(number, first, rows, order, roundoff, stamp, print_)


DEEP = b"[" * 100_000 + b"]" * 100_000
HOSTILE = {
    "header is a list": instead(HEADER, b"[1, 2]"),
    "header is a number": instead(HEADER, b"1"),
    "header is no JSON": instead(HEADER, b"{"),
    "header is no text": instead(HEADER, b"\xff\xfe"),
    "header is deep": instead(HEADER, DEEP),
    "header is empty": instead(HEADER, b"{}"),
    "header has a long number": instead(HEADER, b'{"rng": ' + b"9" * 10_000 + b"}"),
    **{
        f"no {key}": with_header(lambda header, key=key: header.pop(key)) for key in ("id", "versions", "limits", "rng")
    },
    **{
        f"{key} is {value!r}": with_header(lambda header, key=key, value=value: header.update({key: value}))
        for key in ("id", "versions", "limits", "rng", "x0", "call", "method", "stop")
        for value in (3, [[]], {"a": {"b": []}})
    },
    "limits of text": with_header(lambda header: header.update(limits={"max_evals": "many", "max_iter": None})),
    "limits below zero": with_header(lambda header: header.update(limits={"max_evals": -1, "max_iter": None})),
    "limit zero": with_header(lambda header: header.update(limits={"max_evals": 0, "max_iter": None})),
    "rng of another kind": with_header(lambda header: header["rng"].update(state={"dict": {"bit_generator": "exec"}})),
    "a long name": with_header(lambda header: header.update(about="x" * 30_000_000) or header.pop("rng")),
    "a long method": with_header(lambda header: header.update(method="x" * 30_000_000)),
    "a deep call": with_header(lambda header: header.update(call={"x0": json.loads("[" * 500 + "]" * 500)})),
    "started: short": instead(STARTED, b"123"),
    "started: empty": instead(STARTED, b""),
    "values: short": instead(VALUES, b"123"),
    "values: no rows": instead(VALUES, values_head(rows=0)),
    "values: fewer than rows": instead(VALUES, values_head(rows=3) + bytes(8)),
    "values: seven bytes": instead(VALUES, values_head() + bytes(7)),
    "values: many rows": instead(VALUES, values_head(rows=2**32 - 1) + bytes(8)),
    "values: time is NaN": instead(VALUES, values_head(stamp=float("nan")) + bytes(8)),
    "values: time is infinite": instead(VALUES, values_head(stamp=float("-inf")) + bytes(8)),
    "values: order 7": instead(VALUES, values_head(order=7) + bytes(8)),
    "ending: unknown status": lambda pairs: [*pairs, (ENDING, struct.pack("<QB", 1, 99))],
    "ending: short": lambda pairs: [*pairs, (ENDING, b"")],
    "limits: no JSON": lambda pairs: [*pairs, (LIMITS, b"}")],
    "limits: a list": lambda pairs: [*pairs, (LIMITS, b"[]")],
    "outcome: a list": lambda pairs: [*pairs, (OUTCOME, b"[]")],
    "outcome: empty": lambda pairs: [*pairs, (OUTCOME, b"{}")],
    "outcome: text in x": lambda pairs: [
        *pairs,
        (OUTCOME, b'{"x": ["a"], "fun": 1, "fun_stderr": 0, "status": 1, "message": ""}'),
    ],
    "outcome: words in fun": lambda pairs: [
        *pairs,
        (OUTCOME, b'{"x": [1], "fun": "low", "fun_stderr": 0, "status": 1, "message": ""}'),
    ],
    "monitor: short": lambda pairs: [*pairs[:2], (MONITOR, b"1"), *pairs[2:]],
    "unknown record": lambda pairs: [*pairs, (77, b"")],
    "not started more than started": lambda pairs: [*pairs, (NOT_STARTED, struct.pack("<QII", 1, 0, 10**6))],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_malformed_journal_is_refused_in_one_sentence(tmp_path, kind, monkeypatch):
    """Right checksums around nonsense: for `minimize`, `inspect` and the command line alike."""
    path = tmp_path / "run"
    keys = half_way(path, 30)
    write_parts(path, HOSTILE[kind](parts(path)))
    before = path.read_bytes()

    def check(call):
        try:
            call()
        except ValueError as error:
            sentence = str(error)
            assert len(sentence) < 1000
            assert sentence.isprintable()
            assert path.read_bytes() == before, "a file that is refused is left alone"

    check(lambda: gs.minimize(gs.Deterministic(plain), X0, METHOD, **keys))
    path.write_bytes(before)
    check(lambda: gs.minimize(gs.Deterministic(plain), X0, METHOD, **{**keys, "rng": None}))
    path.write_bytes(before)
    check(lambda: len(str(inspect(path))) < 20_000 or pytest.fail("too long"))
    typer_testing = pytest.importorskip("typer.testing")
    from goldstein.cli.app import app

    monkeypatch.syspath_prepend(str(ROOT))
    for words in (["inspect", str(path)], ["resume", str(path), "--with", "tests.run.test_journal:plain"]):
        path.write_bytes(before)
        answer = typer_testing.CliRunner().invoke(app, words)
        assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
        assert len(answer.output) < 20_000


def test_a_header_makes_exceptions_only_and_names_known_arguments_only(tmp_path):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from goldstein.cli.app import app

    path = tmp_path / "run"
    half_way(path, 30)
    pairs = parts(path)
    witness = tmp_path / "witness"
    for change in (
        {"catch": {"exception": "exec"}},
        {"catch": {"tuple": [{"exception": "KeyboardInterrupt"}]}},
        {"stop": {"exception": "print"}},
        {"workers": {"exception": "map"}},
        {"callback": {"exception": "print"}},
        {"journal": str(witness)},
        {"fun": 3},
    ):
        write_parts(path, with_header(lambda header, change=change: header["call"].update(change))(pairs))
        answer = CliRunner().invoke(app, ["resume", str(path), "--with", "tests.run.test_journal:plain"])
        assert answer.exit_code == 2, (change, answer.output, answer.exception)
        assert "cannot be continued from here, since its header" in answer.output
        assert not witness.exists()


def test_control_characters_of_others_reach_no_message(tmp_path):
    def failing(x):
        raise ValueError("a\n\x1b[31mred\x07\u202e")

    path = tmp_path / "run"
    res = gs.minimize(failing, X0, METHOD, max_evals=40, rng=0, catch=ValueError, journal=path)
    assert "ValueError: a [31mred" in res.message
    assert res.message.isprintable()
    assert repr(res).replace("\n", "").isprintable()
    pairs = parts(path)
    evil = "\x1b]0;title\x07\nnew line"

    def change(header):
        header.update(method=evil, oracle=evil, output=evil, versions={evil: evil}, stop=[evil])
        header["x0"]["shown"] = evil

    write_parts(path, with_header(change)(pairs))
    for text in (str(value) for value in vars(inspect(path)).values()):
        assert text.isprintable()
        assert "\\x1b" not in text
    with pytest.raises(ValueError, match="is the journal of another run") as caught:
        gs.minimize(failing, X0, METHOD, max_evals=40, rng=0, catch=ValueError, journal=path)
    assert str(caught.value).isprintable()
    assert "\\x1b" not in str(caught.value)


def test_a_snapshot_of_the_users_own_is_left_alone(tmp_path, whole):
    for content in (b"my own notes", b"PK\x03\x04 my own archive"):
        path = tmp_path / "run"
        path.unlink(missing_ok=True)
        own = tmp_path / "run.snapshot"
        own.write_bytes(content)
        half_way(gs.Journal(path, snapshots=0))
        assert answers_or_refuses(path, whole)
        assert own.read_bytes() == content


def test_what_is_no_file_is_no_journal(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in ("/dev/null", fifo):
        for call in (
            lambda path=path: gs.minimize(plain, X0, METHOD, max_evals=40, journal=path),
            lambda path=path: inspect(path),
        ):
            with pytest.raises(ValueError, match=r"is not a regular file, so it cannot hold a journal\.$"):
                call()


LIMITED = """
import resource, sys
import goldstein as gs
from tests.run.test_journal import METHOD, X0, plain
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
try:
    gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=sys.argv[1])
except OSError as error:
    print(f"{error} | {getattr(error, 'result', None) is not None}")
"""


@pytest.mark.parametrize("size", [0, 10, 500, 4000])
def test_a_limit_on_the_size_of_files_is_one_sentence(tmp_path, size, whole):
    path = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", LIMITED, path, str(size)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(rf"{path} cannot be written: .*[Ff]ile (is )?too large.*\. \| {size > 10}\n", done.stdout), (
        done.stdout
    )
    assert answers_or_refuses(path, whole)


def test_a_full_disk_that_the_system_reports_is_one_sentence(tmp_path, monkeypatch):
    def full(file, content):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="cannot be written: No space left on device"):
            gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=40, rng=3, journal=tmp_path / "run")


@pytest.mark.parametrize("how", ["deleted", "renamed", "replaced"])
def test_a_journal_that_is_gone_while_it_is_written_is_noticed(tmp_path, how):
    path = tmp_path / "run"
    calls = 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == 50:
            if how == "deleted":
                path.unlink()
            else:
                path.rename(tmp_path / "elsewhere")
            if how == "replaced":
                path.write_bytes(records.MAGIC)
        return plain(x)

    with pytest.raises(OSError, match="was deleted, renamed or replaced during the run") as caught:
        gs.minimize(gs.Deterministic(fun), X0, METHOD, max_evals=400, rng=3, journal=gs.Journal(path, sync=0))
    assert caught.value.result.nfev >= 50
    assert calls < 60


def test_ctrl_c_while_the_journal_is_closed_costs_no_result_and_leaves_no_lock(tmp_path, monkeypatch, whole):
    path = tmp_path / "run"
    real = os.fsync

    def interrupted(file):
        real(file)
        if any(frame.function == "__exit__" for frame in stack_inspection.stack()):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupted)
        res = gs.minimize(gs.Deterministic(plain), X0, METHOD, max_evals=400, rng=3, journal=path)
    assert summary(res) == summary(whole)
    assert answers_or_refuses(path, whole)


@pytest.mark.parametrize("snapshots", [0, 60])
@pytest.mark.parametrize("workers", [None, 2])
def test_why_evaluations_failed_is_known_after_resume(tmp_path, snapshots, workers):
    def fun(x):
        calls.append(1)
        if len(calls) % 7 == 3:
            raise ZeroDivisionError("no such point")
        if len(calls) == stop:
            raise KeyboardInterrupt
        return plain(x)

    keys = {"max_evals": 200, "rng": 3, "catch": ZeroDivisionError}
    for stop in (20, 60, None):
        calls: list[int] = []
        path = tmp_path / str(stop)
        make = gs.Journal(path, snapshots=snapshots)
        gs.minimize(gs.Deterministic(fun), X0, METHOD, journal=make, **keys)
        calls = [1, 1, 1, 1]
        resumed = gs.minimize(gs.Deterministic(plain), X0, METHOD, journal=path, workers=workers, **keys)
        assert "ZeroDivisionError: no such point" in resumed.message


def test_the_replay_is_no_part_of_max_time(tmp_path, monkeypatch):
    path = tmp_path / "run"
    keys = half_way(path, 300)
    real = journal_module.Journal.answers_to

    def slow(self, query):
        if self.replaying:
            time.sleep(0.02)
        return real(self, query)

    monkeypatch.setattr(journal_module.Journal, "answers_to", slow)
    res = gs.minimize(gs.Deterministic(plain), X0, METHOD, max_time=0.5, **keys)
    assert res.status is gs.Status.MAX_EVALS


def test_a_journal_of_an_earlier_version_is_inspected_and_not_continued(tmp_path):
    path = tmp_path / "old"
    shutil.copy(ROOT / "tests" / "data" / "run-0.2.journal", path)
    before = path.read_bytes()
    old = inspect(path)
    assert (old.evaluations, old.max_evals, old.outcome["status"]) == (59, 60, "MAX_EVALS")
    assert old.versions["goldstein"] == "0.2.0"
    assert old.x is not None
    assert old.best <= plain(X0[:2])
    with pytest.raises(ValueError, match=r"is a journal of an earlier version .* can be inspected but not continued"):
        gs.minimize(gs.Deterministic(plain), X0[:2], METHOD, max_evals=60, rng=3, journal=path)
    assert path.read_bytes() == before
    path.write_bytes(before.replace(b"goldstein journal 1", b"goldstein journal 9"))
    for call in (lambda: inspect(path), lambda: gs.minimize(plain, X0, METHOD, max_evals=60, journal=path)):
        with pytest.raises(ValueError, match="is a journal of a later version of goldstein"):
            call()
