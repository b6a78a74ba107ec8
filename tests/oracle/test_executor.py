"""Executors: whoever evaluates, every chunk is evaluated once and comes back to its place, and no worker is left."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import goldstein as gs
from goldstein.attack import attack

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([1.0, -0.5, 0.25, 2.0])


def content(value):
    """Return what makes two arguments equal, as dask's tokens do: their numbers, not their identity."""
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), value.tobytes()
    if isinstance(value, (tuple, list)):
        return tuple(content(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, content(item)) for key, item in value.items())
    if isinstance(value, FunctionType):
        return value
    if hasattr(value, "__dict__"):
        return type(value).__name__, content(vars(value))
    if hasattr(value, "__slots__"):
        return type(value).__name__, tuple(content(getattr(value, name, None)) for name in value.__slots__)
    return repr(value)


def named(method) -> str:
    return method if isinstance(method, str) else f"{method.name}-{method.batch_size}"


class DaskLike:
    """A stand-in for `dask.distributed.Client`, which need not be installed.

    Its `submit` takes calls for pure unless it is told `pure=False`: equal arguments are then evaluated once, and the
    future that is still held answers again. It is like dask in that alone.
    """

    def __init__(self) -> None:
        self.results: dict = {}

    def submit(self, function, *args, pure=True, **kwargs):
        key = content((function, args, kwargs))
        if pure and key in self.results:
            return self.results[key]
        future: Future = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        if pure:
            self.results[key] = future
        return future


def counting(noise: float = 0.0):
    """Return Σ|x_i − 0.3| with a little noise, and the list that grows by an entry at each call."""
    calls = []

    def f(x):
        calls.append(1)
        return float(abs(x - 0.3).sum() + noise * np.sin(1e6 * len(calls)))

    return f, calls


@pytest.mark.parametrize("method", ["auto", "gfm", "gfm+", "ws-gfm", gs.GFM(0.1, 0.01, 4)], ids=named)
def test_a_dask_client_evaluates_every_part(method):
    """Equal chunks, such as repeated values at x0, are asked for anew: nfev == calls."""
    f, calls = counting()
    res = gs.minimize(gs.Deterministic(f), X0, method, max_evals=600, rng=0, workers=DaskLike())
    assert len(calls) == res.nfev
    alone = gs.minimize(gs.Deterministic(f), X0, method, max_evals=600, rng=0)
    np.testing.assert_array_equal(res.x, alone.x)


def test_a_dask_client_repeats_what_is_noisy():
    """Noise is measured by asking for the same point again, which must not be answered from memory."""
    f, calls = counting(noise=1e-3)
    res = gs.minimize(gs.Unreplayable(f), X0, "auto", max_evals=600, rng=0, workers=DaskLike())
    assert len(calls) == res.nfev


def backwards(function, chunks):
    return [function(chunk) for chunk in chunks][::-1]


def as_they_come(function, chunks):
    """A map like a pool's `imap_unordered`, whose later chunks are done first."""
    answers = [function(chunk) for chunk in chunks]
    yield from sorted(answers, key=lambda _: np.random.default_rng(len(answers)).random())[::-1]


@pytest.mark.parametrize("unordered", [backwards, as_they_come])
@pytest.mark.parametrize("method", [gs.GFM(0.1, 0.01, 8), gs.GFMPlus(0.1, 0.01, 4, 5), "auto"], ids=named)
def test_a_map_that_reorders_answers_is_put_right_or_refused(unordered, method):
    """Never used as if the answers were in order."""
    oracle = gs.Deterministic(counting()[0])
    alone = gs.minimize(oracle, X0, method, max_evals=500, rng=0)
    try:
        res = gs.minimize(oracle, X0, method, max_evals=500, rng=0, workers=unordered)
    except (TypeError, ValueError):
        return
    np.testing.assert_array_equal(res.x, alone.x)
    assert res.fun == alone.fun


@pytest.mark.parametrize(
    "lossy",
    [
        lambda function, chunks: [function(chunk) for chunk in chunks][:-1],
        lambda function, chunks: [function(chunk) for chunk in chunks] * 2,
        lambda function, chunks: [function(chunks[0]) for _ in chunks],
        lambda function, chunks: [None for _ in chunks],
    ],
    ids=["one less", "twice as many", "one for all", "nothing"],
)
def test_a_map_that_loses_answers_is_refused(lossy):
    """In one sentence that names the map, not by an error about shapes from deep inside."""
    with pytest.raises((TypeError, ValueError), match=r"(?i)workers|map"):
        gs.minimize(
            gs.Deterministic(counting()[0]),
            X0,
            gs.GFM(0.1, 0.01, 8),
            max_evals=500,
            rng=0,
            workers=lambda function, chunks: lossy(function, list(chunks)),
        )


PROGRAM = """
import os, sys, time
from pathlib import Path
import numpy as np
import goldstein as gs

def slow(x):
    Path(sys.argv[1], str(os.getpid())).touch()
    time.sleep(0.05)
    return float(abs(x).sum())

if __name__ == "__main__":
    gs.minimize(gs.Deterministic(slow), np.ones(3), gs.GFM(0.1, 0.01, 8), max_evals=100_000, rng=0, workers=2)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return sys.platform != "linux"
    return state != "Z"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_program_that_forgets_to_close_its_pool_ends():
    program = (
        "import numpy as np, goldstein as gs; from goldstein.oracle.pool import ProcessPool; pool = ProcessPool(2)\n"
        "if __name__ == '__main__': print(gs.minimize(np.sum, [1.0, 2.0], max_evals=40, rng=0, workers=pool).nfev)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert int(done.stdout) <= 40


def test_workers_end_when_their_parent_is_killed(tmp_path):
    """Nobody is left behind who waits for work that never comes."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    marks = tmp_path / "workers"
    marks.mkdir()
    parent = subprocess.Popen([sys.executable, str(program), str(marks)])
    try:
        for _ in range(600):
            if len(list(marks.iterdir())) == 2 or parent.poll() is not None:
                break
            time.sleep(0.1)
        workers = [int(mark.name) for mark in marks.iterdir()]
        assert len(workers) == 2
        assert parent.pid not in workers
    finally:
        parent.kill()
        parent.wait()
    for _ in range(100):
        left = [pid for pid in workers if alive(pid)]
        if not left:
            break
        time.sleep(0.1)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"{len(left)} of 2 workers outlive their parent"


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_ctrl_c_at_a_terminal_reaches_all_and_returns_what_there_is(tmp_path):
    """Every process of a terminal gets the signal: the run ends with a result, workers without a word."""
    program = tmp_path / "program.py"
    program.write_text(
        PROGRAM.replace("    gs.minimize", "    res = gs.minimize") + "    print(res.status.name, res.nfev)\n"
    )
    marks = tmp_path / "workers"
    marks.mkdir()
    parent = subprocess.Popen(
        [sys.executable, str(program), str(marks)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(600):
        if len(list(marks.iterdir())) == 2 or parent.poll() is not None:
            break
        time.sleep(0.1)
    workers = [int(mark.name) for mark in marks.iterdir()]
    os.killpg(parent.pid, signal.SIGINT)
    told, complaints = parent.communicate(timeout=60)
    assert told.startswith("INTERRUPTED")
    assert complaints == ""
    assert parent.returncode == 0
    assert len(workers) == 2
    assert not any(alive(pid) for pid in workers)


class Proud(Exception):
    """An exception whose `result` is its own."""

    @property
    def result(self):
        return "mine"


class Bare(Exception):
    """An exception that takes no attributes at all."""

    __slots__ = ()

    def __setattr__(self, name, value):
        raise TypeError(f"{name} cannot be set.")


@pytest.mark.parametrize("kind", [Proud, Bare])
@pytest.mark.parametrize("call", [1, 2, 3, 20])
def test_exceptions_that_take_no_result_propagate_as_they_are(kind, call):
    """`.result` is attached where that is possible; the exception of the function is never hidden by another."""

    def raising(at):
        calls = 0

        def f(x):
            nonlocal calls
            calls += 1
            if calls == at:
                raise kind("from the function")
            return float(abs(x).sum())

        return f

    for fun in (raising(call), gs.Deterministic(raising(call))):
        with pytest.raises(kind, match="from the function"):
            gs.minimize(fun, X0, gs.GFM(0.1, 0.01), max_evals=100, rng=0)


@pytest.mark.parametrize("kind", [Proud, Bare])
def test_exceptions_of_a_model_that_take_no_result_propagate_as_they_are(kind):
    def model(x):
        raise kind("from the model")

    with pytest.raises(kind, match="from the model"):
        attack(model, np.full((2, 4, 4), 0.45), [0, 0], radius=0.1)
