"""Ctrl-C returns what there is, in every phase, with every call counted."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import numpy as np
import pytest

import goldstein as gs
from goldstein import Status
from goldstein.oracle.evaluate import Evaluator
from goldstein.oracle.pool import ProcessPool

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([1.0, -0.5, 0.25])
BUDGET = 40
METHODS = {
    "gfm": gs.GFM(0.1, 0.01, 3),
    "gfm+": gs.GFMPlus(0.1, 0.01, 3, 2),
    "zo-o2nc": gs.ZOO2NC(0.5, 4),
    "ws-gfm": gs.WarmStart(gs.GFM(0.1, 0.01), gs.GFM(0.1, 0.01, 2)),
    "gfm by name": "gfm",
    "auto": "auto",
}


class Interrupting:
    """Σ|x_i|, which counts its calls and is interrupted in the one whose number is given."""

    def __init__(self, at: int | None = None) -> None:
        self.calls, self.at = 0, at
        self.lock = threading.Lock()

    def __call__(self, x, *xi):
        with self.lock:
            self.calls += 1
            now = self.calls
        if now == self.at:
            raise KeyboardInterrupt
        return float(abs(x).sum())

    def rows(self, X, *xi):
        with self.lock:
            before = self.calls
            self.calls += len(X)
        if self.at is not None and before < self.at <= self.calls:
            raise KeyboardInterrupt
        return np.abs(X).sum(axis=1)


def minimize(*args, **kwargs) -> gs.Result:
    """Run; a KeyboardInterrupt that gets out fails the test instead of ending all tests."""
    try:
        return gs.minimize(*args, **kwargs)
    except KeyboardInterrupt:
        pytest.fail("KeyboardInterrupt was raised where a result was expected.")


def assert_interrupted(res: gs.Result, calls: int, what: str) -> None:
    assert res.status is Status.INTERRUPTED, what
    assert res.nfev == calls, f"{what}: nfev {res.nfev} for {calls} calls"
    assert not res.success, what
    assert np.isfinite(res.x).all(), what


@pytest.mark.parametrize("name", METHODS)
def test_a_bare_callable_may_be_interrupted_in_any_call(name):
    """Also in the first two, which only find out whether the function is noisy."""
    whole = Interrupting()
    minimize(whole, X0, METHODS[name], max_evals=BUDGET, rng=0)
    for at in range(1, whole.calls + 1):
        f = Interrupting(at)
        res = minimize(f, X0, METHODS[name], max_evals=BUDGET, rng=0)
        assert_interrupted(res, f.calls, f"call {at}")
        if at <= 2:
            np.testing.assert_array_equal(res.x, X0)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("form", ["plain", "vectorised", "sum"])
def test_an_oracle_may_be_interrupted_in_any_call(name, form):
    def run(f: Interrupting) -> gs.Result:
        oracle = {
            "plain": lambda: gs.Deterministic(f),
            "vectorised": lambda: gs.Deterministic(f.rows, vectorized=True),
            "sum": lambda: gs.FiniteSum(f, 7),
        }[form]()
        return minimize(oracle, X0, METHODS[name], max_evals=BUDGET, rng=0)

    whole = Interrupting()
    run(whole)
    for at in range(1, whole.calls + 1):
        f = Interrupting(at)
        assert_interrupted(run(f), f.calls, f"call {at}")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("vectorized", [False, True])
def test_workers_may_be_interrupted_in_any_call(name, vectorized):
    """Rows that no worker was given any more are not counted, and those that others went on with are."""

    def run(f: Interrupting) -> gs.Result:
        oracle = gs.Deterministic(f.rows if vectorized else f, vectorized=vectorized)
        with ThreadPoolExecutor(2) as pool:
            return minimize(oracle, X0, METHODS[name], max_evals=BUDGET, rng=0, workers=pool)

    whole = Interrupting()
    run(whole)
    for at in range(1, whole.calls + 1):
        f = Interrupting(at)
        assert_interrupted(run(f), f.calls, f"call {at}")


class Answer:
    """An answer that is interrupted while the library reads it."""

    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt

    def __float__(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("vectorized", [False, True])
def test_an_interrupt_while_an_answer_is_read_loses_no_count(vectorized):
    for at in range(1, BUDGET - 4):
        calls = count(1)
        asked = 0

        def f(x):
            nonlocal asked
            asked += len(x) if vectorized else 1
            if next(calls) == at:  # noqa: B023
                return Answer()
            return np.abs(x).sum(axis=-1)

        oracle = gs.Deterministic(f, vectorized=vectorized)
        res = minimize(oracle, X0, METHODS["gfm"], max_evals=BUDGET, rng=0)
        if res.status is Status.INTERRUPTED:
            assert res.nfev == asked, f"call {at}"


ROOM = os.path.dirname(gs.__file__)


class PressAfterLines:
    """Presses Ctrl-C after so many lines of the library have run: a real signal, at a place that is known."""

    def __init__(self, lines: int) -> None:
        self.left = lines
        self.process = os.getpid()

    def __call__(self, frame, event, arg):
        if os.getpid() != self.process:  # a forked worker
            sys.settrace(None)
            return None
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)
        return self


def pressed(lines: int, method, form: str) -> tuple[gs.Result | None, int, int]:
    """Run with Ctrl-C after so many lines: return the result or None, the calls, and the lines that were left."""
    f = Interrupting()
    oracle = gs.Deterministic(f.rows, vectorized=True) if form == "vectorised" else gs.Deterministic(f)
    press, before = PressAfterLines(lines), sys.gettrace()
    sys.settrace(press)
    try:
        res = gs.minimize(oracle, X0, method, max_evals=BUDGET, rng=0)
    except KeyboardInterrupt:
        res = None
    finally:
        sys.settrace(before)
    return res, f.calls, press.left


@pytest.mark.parametrize("name", ["gfm", "gfm+", "auto"])
@pytest.mark.parametrize("form", ["plain", "vectorised"])
def test_ctrl_c_at_any_line_of_the_library_returns_the_run_with_every_call_counted(name, form):
    """Between the first call and the last; before there is no run, and afterwards there may be nothing to stop.

    What was just being asked for may count, one value or one vectorised query; nothing that was called is forgotten.
    """
    endless = 10**9
    _, total, left = pressed(endless, METHODS[name], form)
    under_way = 20 if form == "vectorised" else 1
    wrong = []
    for lines in range(1, endless - left, 5):
        res, calls, _ = pressed(lines, METHODS[name], form)
        if 0 < calls < total and (res is None or not calls <= res.nfev <= calls + under_way):
            wrong.append((lines, calls, None if res is None else res.nfev))
    assert not wrong, f"{len(wrong)} places, among them (line, calls, nfev): {wrong[:5]}"


class Noted:
    """Σ|x_i|, which counts its calls in a file, in whatever process."""

    def __init__(self, path) -> None:
        self.path = path
        path.write_bytes(b"")

    def __call__(self, x):
        with self.path.open("ab", buffering=0) as file:
            file.write(b".")
        return float(abs(x).sum())

    @property
    def calls(self) -> int:
        return self.path.stat().st_size


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_ctrl_c_at_any_line_with_workers_forgets_no_call(kind, tmp_path):
    """An answer that nobody has read yet was paid for, and a worker that is just starting is ended."""

    def run(lines: int) -> tuple[gs.Result | None, Noted, int]:
        f = Noted(tmp_path / "calls")
        press, before = PressAfterLines(lines), sys.gettrace()
        with ThreadPoolExecutor(2) as threads:
            sys.settrace(press)
            try:
                workers = threads if kind == "threads" else 2
                res = gs.minimize(gs.Deterministic(f), X0, METHODS["gfm"], max_evals=24, rng=0, workers=workers)
            except KeyboardInterrupt:
                res = None
            finally:
                sys.settrace(before)
        return res, f, press.left

    endless = 10**9
    _, f, left = run(endless)
    total = f.calls
    wrong = []
    for lines in range(1, endless - left, 97 if kind == "processes" else 29):
        res, f, _ = run(lines)
        if 0 < f.calls < total and (res is None or f.calls > res.nfev + res.nrepeat):
            wrong.append((lines, f.calls, None if res is None else (res.nfev, res.nrepeat)))
    assert not wrong, f"{len(wrong)} places, among them (line, calls, nfev): {wrong[:5]}"


def test_ctrl_c_while_a_worker_starts_ends_the_pool(monkeypatch):
    def interrupted(process):
        raise KeyboardInterrupt

    pool = ProcessPool(2)
    monkeypatch.setattr(pool._context.Process, "start", interrupted)
    with Evaluator(gs.Deterministic(np.sum), pool) as evaluate, pytest.raises(KeyboardInterrupt):
        evaluate(gs.Query(np.ones((4, 2))))
    pool.close()
    assert not pool._workers


def test_a_system_exit_carries_the_run_so_far():
    calls = count(1)

    def f(x):
        if next(calls) == 7:
            sys.exit(3)
        return float(abs(x).sum())

    with pytest.raises(SystemExit) as raised:
        gs.minimize(gs.Deterministic(f), X0, METHODS["gfm"], max_evals=BUDGET, rng=0)
    assert raised.value.code == 3
    assert raised.value.result.nfev == 7
    assert raised.value.result.status is Status.RAISED
