"""Whoever evaluates gives the same answer, asks for nothing twice, and what the machine loses is done again."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import Future as PlainFuture
from contextlib import suppress
from pathlib import Path

import loky
import numpy as np
import pytest
from distributed import Client, LocalCluster

import goldstein as gs
from goldstein.oracle import evaluate as evaluate_module
from goldstein.oracle import executor, scheduler
from goldstein.oracle.evaluate import Evaluator, check_workers
from goldstein.oracle.pool import ProcessPool
from goldstein.oracle.query import Answer, Query
from goldstein.oracle.tasks import Chunk, Evaluation, TaskLost, TaskResult, TimeIsUp

X = np.random.default_rng(0).normal(size=(40, 3))
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


class Called:
    """Σ|x_i|, which writes down the first coordinate of every point that it is called at, in whatever process.

    `trouble` is done at one of the rows of X, at each call or at the first one only.
    """

    def __init__(self, folder: Path, trouble=None, rows: tuple[int, ...] = (), once: bool = False, pause: float = 0.0):
        self.folder = folder
        self.trouble = trouble
        self.marked = [X[row, 0] for row in rows]
        self.once = once
        self.pause = pause

    def __call__(self, x, *xi):
        with (self.folder / "calls").open("ab", buffering=0) as file:
            file.write(np.float64(x[0]).tobytes())
        if x[0] in self.marked and not (self.once and self._seen(x)):
            self.trouble()
        time.sleep(self.pause)
        return float(abs(x).sum())

    def _seen(self, x) -> bool:
        mark = self.folder / f"seen {x[0]}"
        if mark.exists():
            return True
        mark.touch()
        return False

    @property
    def calls(self) -> list[float]:
        file = self.folder / "calls"
        return np.fromfile(file).tolist() if file.exists() else []

    def called(self, row: int) -> int:
        """Return how often the function was called at a row of X."""
        return self.calls.count(X[row, 0])


def value(x, *xi):
    return float(abs(x).sum())


def die():
    os._exit(3)


def hang():
    time.sleep(3600)


def refuse():
    raise ArithmeticError("not here")


class Notes:
    """A log that keeps everything it hears."""

    def __init__(self) -> None:
        self.heard: list = []
        self.calls = 0  # that there must have been

    def start(self, first, rows):
        self.heard.append(("begun", first, rows))
        self.calls += rows

    def take_back(self, rows):
        self.calls -= rows

    def record(self, first, answer):
        self.heard.append(("told", first, answer.values.copy()))

    def rows(self, kind) -> list[int]:
        lengths = [
            (first, what if kind == "begun" else len(what)) for heard, first, what in self.heard if heard == kind
        ]
        return sorted(row for first, rows in lengths for row in range(first, first + rows))


class Capricious:
    """A pool in this process that ends chunks in an odd order, and loses some as it likes."""

    def __init__(self, size: int = 3, lose=lambda number: None, seed: int = 0) -> None:
        self.size = size
        self.lose = lose
        self.rng = np.random.default_rng(seed)
        self.chunks: dict = {}
        self.number = 0
        self.most = 0

    def initialize(self, task):
        self.task = task

    def submit(self, chunk):
        self.number += 1
        self.chunks[self.number] = chunk
        self.most = max(self.most, len(self.chunks))
        return self.number

    def wait(self, seconds):
        ticket = int(self.rng.choice(list(self.chunks)))
        chunk = self.chunks.pop(ticket)
        lost = self.lose(ticket)
        if lost is not None and lost.started == 0:
            return [(ticket, lost)]
        done = self.task(chunk)
        return [(ticket, done if lost is None else lost)]

    def kill(self, ticket):
        del self.chunks[ticket]
        return 0

    def close(self):
        self.chunks.clear()


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def in_process():
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
        yield client


KINDS = ["here", "int", "threads", "processes", "loky", "dask", "dask in this process", "map", "pool"]


@pytest.fixture(params=KINDS)
def workers(request):
    """Everything that `workers=` takes."""
    kind = request.param
    if kind == "here":
        yield None
    elif kind == "int":
        yield 2
    elif kind == "threads":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    elif kind == "processes":
        with ProcessPoolExecutor(2) as pool:
            yield pool
    elif kind == "loky":
        yield loky.get_reusable_executor(2, timeout=600)
    elif kind == "dask":
        yield request.getfixturevalue("cluster")
    elif kind == "dask in this process":
        yield request.getfixturevalue("in_process")
    elif kind == "map":
        with ThreadPoolExecutor(2) as pool:
            yield pool.map
    else:
        yield Capricious()


def children() -> list:
    """Return the processes of our pools that run."""
    return [child for child in multiprocessing.active_children() if child.name == "goldstein worker"]


def ended_and_not_collected() -> set[int]:
    """Return the zombies among the processes started here, where the system tells."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid():
                found.add(int(stat.parent.name))
    return found


def expected(points=X):
    return np.abs(points).sum(axis=1)


# ------------------------------------------------------------------------------------------------ the same answer


def test_everybody_gives_the_same_answer_and_asks_once(workers, tmp_path):
    f = Called(tmp_path)
    with Evaluator(gs.Deterministic(f), workers) as evaluate:
        for rows in (40, 1, 7, 40):
            answer = evaluate(Query(X[:rows]))
            np.testing.assert_array_equal(answer.values, expected(X[:rows]))
        assert evaluate.repeated == 0
    assert sorted(f.calls) == sorted([*X[:, 0], *X[:1, 0], *X[:7, 0], *X[:, 0]])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_completion_changes_nothing(size, seed):
    pool = Capricious(size, seed=seed)
    with Evaluator(gs.Deterministic(value), pool) as evaluate:
        for _ in range(3):
            np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
    assert pool.most <= 2 * size


def test_gradients_and_samples_come_to_their_places(workers):
    oracle = gs.FiniteSum(scaled, 50, grad=slope)
    xi = np.arange(40)
    with Evaluator(oracle, workers) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X, xi)).values, xi * expected())
        np.testing.assert_array_equal(evaluate(Query(X, xi, order=1)).values, xi[:, None] * np.sign(X))


def scaled(x, i):
    return i * abs(x).sum()


def slope(x, i):
    return i * np.sign(x)


def test_a_vectorised_function_gets_one_part_a_worker():
    sizes = []

    def rows(points):
        sizes.append(len(points))
        return np.abs(points).sum(axis=1)

    with ThreadPoolExecutor(4) as pool, Evaluator(gs.Deterministic(rows, vectorized=True), pool) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
    assert sizes == [10, 10, 10, 10]


@pytest.mark.filterwarnings("ignore:The two values of an estimate carry different noise:RuntimeWarning")
def test_runs_count_every_call_whoever_evaluates(workers, tmp_path):
    """Noise that cannot be replayed included, where equal points must be asked for anew."""
    f = Called(tmp_path)
    res = gs.minimize(gs.Unreplayable(f), X[0], gs.GFM(0.1, 0.01, 4), max_evals=60, rng=0, workers=workers)
    assert res.nfev == len(f.calls)
    alone = gs.minimize(gs.Unreplayable(value), X[0], gs.GFM(0.1, 0.01, 4), max_evals=60, rng=0)
    np.testing.assert_array_equal(res.x, alone.x)


# ------------------------------------------------------------------------------------- exceptions of the function


def test_an_exception_has_its_point_and_every_call_is_counted(workers, tmp_path):
    f = Called(tmp_path, refuse, rows=(11,), pause=0.002)
    with Evaluator(gs.Deterministic(f), workers) as evaluate:
        with pytest.raises(ArithmeticError, match="not here") as raised:
            evaluate(Query(X))
        np.testing.assert_array_equal(raised.value.point, X[11])
        if workers is not None:
            assert any("in refuse" in note for note in raised.value.__notes__)
        assert evaluate.started == len(f.calls)
        assert evaluate.repeated == 0


def test_after_an_exception_nothing_is_begun(tmp_path):
    """Not even what lies in a pipe already, although who is at work comes to its end."""
    f = Called(tmp_path, refuse, rows=(4,), pause=0.05)
    notes = Notes()
    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        evaluate(Query(X[:4]))
        with pytest.raises(ArithmeticError):
            evaluate(Query(X[4:]), log=notes)
        assert evaluate.started == len(f.calls) - 4
        chunks = [(first, rows) for kind, first, rows in notes.heard if kind == "begun"]
    assert len(chunks) == 4
    at_work = X[4 + chunks[1][0] : 4 + sum(chunks[1]), 0]  # the other one, if it had begun at all
    assert X[4, 0] in f.calls
    assert set(f.calls[4:]) <= {X[4, 0], *at_work}


def test_caught_exceptions_are_nan(workers, tmp_path):
    f = Called(tmp_path, refuse, rows=(3, 39))
    with Evaluator(gs.Deterministic(f), workers, catch=(ArithmeticError,)) as evaluate:
        failed = np.isnan(evaluate(Query(X)).values)
    assert np.flatnonzero(failed).tolist() == [3, 39]
    assert len(f.calls) == 40


class Unsendable(Exception):
    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def unsendable(x):
    raise Unsendable("one", "two")


@pytest.mark.parametrize("kind", ["int", "loky"])
def test_an_exception_that_cannot_travel_is_put_into_words(kind):
    workers = 2 if kind == "int" else loky.get_reusable_executor(2, timeout=600)
    with Evaluator(gs.Deterministic(unsendable), workers) as evaluate:
        with pytest.raises(RuntimeError, match="Unsendable: one and two") as raised:
            evaluate(Query(X))
        assert raised.value.point in X


class Retired(Capricious):
    """A pool of the user's that still has a member by its old name."""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("employ", "initialize"),
        ("begin", "submit"),
        ("ended", "wait"),
        ("give_up", "kill"),
        ("recall", "cancel_pending"),
        ("begun", "rows_started"),
    ],
)
def test_a_pool_with_a_retired_member_is_refused_with_its_new_name(old, new, monkeypatch):
    monkeypatch.setattr(Retired, old, lambda self, *args: None, raising=False)
    with pytest.raises(TypeError, match=rf"{old} is called {new}"):
        check_workers(Retired())


def test_a_pool_that_reads_the_query_of_a_chunk_hears_of_its_work():
    with pytest.raises(AttributeError, match=r"Chunk.query is called work since"):
        Chunk(0, Query(X)).query  # noqa: B018


# ------------------------------------------------------------------------------------------ workers that are lost


def test_a_worker_that_dies_costs_its_part_only(tmp_path):
    f = Called(tmp_path, die, rows=(13,), once=True, pause=0.001)
    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
        assert evaluate.repeated >= 1
        assert len(f.calls) == 40 + evaluate.repeated
        assert f.called(13) == 2


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize("rows", [(13,), (0, 5, 6, 7, 8, 39)])
def test_rows_that_always_kill_are_the_nans(tmp_path, retries, rows):
    f = Called(tmp_path, die, rows=rows)
    notes = Notes()
    with Evaluator(gs.Deterministic(f), 2, retries=retries) as evaluate:
        evaluate(Query(X[20:30]))  # so that chunks of several rows are made
        before = len(f.calls)
        values = evaluate(Query(X), log=notes).values
        wanted = expected()
        wanted[list(rows)] = np.nan
        np.testing.assert_array_equal(values, wanted)
        assert len(f.calls) - before == 40 + evaluate.repeated
        for row in rows:
            assert f.called(row) >= 1 + retries
    assert notes.rows("told") == list(range(40))


def test_a_function_that_always_kills_ends_as_failing(tmp_path):
    f = Called(tmp_path, die, rows=tuple(range(40)))
    with Evaluator(gs.Deterministic(f), 2, retries=1) as evaluate:
        assert np.isnan(evaluate(Query(X[:12])).values).all()
        assert len(f.calls) == 24
        assert evaluate.repeated == 12


def test_what_others_lose_is_done_again_and_counted():
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(1) or value(x))
    pool = Capricious(3, lambda number: TaskLost("a node is gone") if number in (2, 6) else None)
    with Evaluator(oracle, pool) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
        assert evaluate.repeated == len(calls) - 40 > 0


def test_what_was_not_begun_is_no_repeat():
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(1) or value(x))
    pool = Capricious(3, lambda number: TaskLost("it never began", started=0) if number % 3 == 2 else None)
    with Evaluator(oracle, pool) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
        assert evaluate.repeated == 0
    assert len(calls) == 40


def test_a_machine_beyond_hope_is_one_sentence(monkeypatch):
    monkeypatch.setattr(scheduler, "LONGEST_PAUSE", 0.001)
    pool = Capricious(2, lambda number: TaskLost("the node is gone", started=0))
    with Evaluator(gs.Deterministic(value), pool) as evaluate:
        with pytest.raises(RuntimeError, match=r"lost 33 chunks .* the node is gone"):
            evaluate(Query(X))
        assert evaluate.started == 0


def test_an_executor_that_takes_no_more_work_is_one_sentence(tmp_path):
    f = Called(tmp_path, die, rows=(13,))
    with ProcessPoolExecutor(2) as pool, Evaluator(gs.Deterministic(f), pool) as evaluate:
        with pytest.raises(RuntimeError, match=r"takes no more work \(BrokenProcessPool.* make a new one") as raised:
            evaluate(Query(X))
        assert isinstance(raised.value.__cause__, BrokenExecutor)


class Restarted:
    """A stand-in for a Dask client whose cluster is restarted: what it holds then is cancelled or lost."""

    class Future(PlainFuture):
        status = "pending"

    def __init__(self) -> None:
        self.number = 0

    def nthreads(self):
        return {"here": 2}

    def scatter(self, data, **settings):
        raise NotImplementedError

    def submit(self, function, *args, pure=True):
        future = self.Future()
        future.result = lambda timeout=None: PlainFuture.result(future, timeout=0)
        self.number += 1
        result = function(*args)  # it was started, and what came of it is gone
        if 2 < self.number < 12 and self.number % 2:
            future.status = "lost"  # which calls nobody back
        elif 2 < self.number < 12:
            future.cancel()
        else:
            future.set_result(result)
        return future


def test_what_restarts_of_a_dask_cluster_lose_is_done_again_and_counted():
    """However often it is restarted: no row is to blame for it."""
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(1) or value(x))
    with Evaluator(oracle, Restarted()) as evaluate:
        evaluate.deadline = time.monotonic() + 20
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
        assert evaluate.repeated == len(calls) - 40 > 0


class Late(Restarted):
    """Hands some results over only when it is asked again, as when the worker that had them has died meanwhile."""

    def submit(self, function, *args, pure=True):
        future = self.Future()
        self.number += 1
        self.late = self.number % 3 == 0
        result = function(*args)
        asked = []

        def hand_over(timeout=None, late=self.late):
            asked.append(timeout)
            if late and len(asked) < 3:
                raise TimeoutError
            return result

        future.result = hand_over
        future.set_result(None)
        return future


def test_a_result_that_a_dask_cluster_hands_over_late_is_not_lost():
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(1) or value(x))
    with Evaluator(oracle, Late()) as evaluate:
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
        assert evaluate.started == len(calls) == 40
        assert evaluate.repeated == 0


class Vanishing:
    """A stand-in for a Dask client whose workers all vanish after some chunks."""

    def __init__(self, chunks: int) -> None:
        self.chunks = chunks

    def nthreads(self):
        return {"here": 2} if self.chunks > 0 else {}

    def scatter(self, data, **settings):
        raise NotImplementedError

    def submit(self, function, *args, pure=True):
        future: PlainFuture = PlainFuture()
        self.chunks -= 1
        if self.chunks >= 0:
            future.set_result(function(*args))
        return future


def test_a_dask_cluster_without_any_worker_is_one_sentence(monkeypatch):
    monkeypatch.setattr(executor, "GONE", 0.2)
    monkeypatch.setattr(scheduler, "LOOK", 0.05)
    with (
        Evaluator(gs.Deterministic(value), Vanishing(3)) as evaluate,
        pytest.raises(RuntimeError, match="lost all its workers"),
    ):
        evaluate(Query(X))


# -------------------------------------------------------------------------------------------- rows that take too long


@pytest.mark.parametrize("once", [True, False])
def test_a_row_that_hangs_is_given_up(tmp_path, monkeypatch, once):
    monkeypatch.setattr(scheduler, "LOOK", 0.2)
    f = Called(tmp_path, hang, rows=(13,), once=once)
    with Evaluator(gs.Deterministic(f), 2, timeout=0.1, retries=1) as evaluate:
        evaluate(Query(X[20:]))
        values = evaluate(Query(X[:20])).values
        wanted = expected(X[:20])
        if not once:
            wanted[13] = np.nan
        np.testing.assert_array_equal(values, wanted)
        assert f.called(13) == 2
        assert len(f.calls) == 40 + evaluate.repeated
        assert evaluate.repeated >= 1


def test_a_thread_that_hangs_is_left_alone_and_its_row_done_by_another(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "LOOK", 0.2)
    release = threading.Event()
    f = Called(tmp_path, release.wait, rows=(13,), once=True)
    with ThreadPoolExecutor(2) as pool, Evaluator(gs.Deterministic(f), pool, timeout=0.1) as evaluate:
        evaluate(Query(X[20:]))
        np.testing.assert_array_equal(evaluate(Query(X[:20])).values, expected(X[:20]))
        assert evaluate.repeated >= 1
        release.set()


def test_a_row_has_the_timeout_however_many_rows_its_part_has(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "LATENCIES", 10**9)
    monkeypatch.setattr(scheduler, "SHARE", 1)  # so that chunks are large
    f = Called(tmp_path, hang, rows=(13,), once=True)
    with Evaluator(gs.Deterministic(f), 2, timeout=1.0) as evaluate:
        evaluate(Query(X[20:]))
        evaluate.deadline = time.monotonic() + 10.0  # half of what twenty rows would have
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())


class SlowToArrive:
    """A function whose worker needs a while before it can begin, as for imports."""

    def __call__(self, x):
        return value(x)

    def __reduce__(self):
        return arrived_slowly, ()


def arrived_slowly():
    time.sleep(1.0)
    return SlowToArrive()


def test_the_clock_of_a_part_starts_when_a_process_has_taken_it(monkeypatch):
    monkeypatch.setattr(scheduler, "START_UP", 0.1)
    monkeypatch.setattr(multiprocessing, "get_context", lambda get=multiprocessing.get_context: get("spawn"))
    with Evaluator(gs.Deterministic(SlowToArrive()), 2, timeout=0.3) as evaluate:
        evaluate.deadline = time.monotonic() + 30.0
        np.testing.assert_array_equal(evaluate(Query(X[:4])).values, expected(X[:4]))
        assert evaluate.repeated == 0


def test_the_clock_of_a_part_starts_when_a_thread_has_taken_it(monkeypatch):
    monkeypatch.setattr(scheduler, "START_UP", 0.1)
    with ThreadPoolExecutor(1) as pool, Evaluator(gs.Deterministic(value), pool, timeout=0.3) as evaluate:
        pool.submit(time.sleep, 1.5)
        given_up = []
        monkeypatch.setattr(executor.ExecutorPool, "kill", lambda pool, ticket: given_up.append(ticket))
        np.testing.assert_array_equal(evaluate(Query(X[:4])).values, expected(X[:4]))
        assert given_up == []


def test_threads_that_all_hang_are_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler, "LOOK", 0.2)
    release = threading.Event()
    f = Called(tmp_path, release.wait, rows=tuple(range(10)))
    with ThreadPoolExecutor(2) as pool, Evaluator(gs.Deterministic(f), pool, timeout=0.1) as evaluate:
        evaluate(Query(X[20:]))
        with pytest.raises(RuntimeError, match="All 2 workers of the executor hang"):
            evaluate(Query(X[:20]))
        release.set()


# ------------------------------------------------------------------------------------------- the journal and the clock


def test_known_rows_are_not_asked_again(workers, tmp_path):
    f = Called(tmp_path)
    known = [(5, Answer(np.array([50.0, 60.0]))), (38, Answer(np.array([380.0, 390.0]))), (0, Answer(np.array([0.5])))]
    notes = Notes()
    with Evaluator(gs.Deterministic(f), workers) as evaluate:
        values = evaluate(Query(X), known, notes).values
    wanted = expected()
    wanted[[0, 5, 6, 38, 39]] = [0.5, 50.0, 60.0, 380.0, 390.0]
    np.testing.assert_array_equal(values, wanted)
    rest = [row for row in range(40) if row not in (0, 5, 6, 38, 39)]
    assert sorted(f.calls) == sorted(X[rest, 0])
    assert notes.rows("begun") == notes.rows("told") == rest


def test_known_rows_of_a_vectorised_function_are_left_out_of_its_one_call():
    sizes = []

    def rows(points):
        sizes.append(len(points))
        return np.abs(points).sum(axis=1)

    notes = Notes()
    with Evaluator(gs.Deterministic(rows, vectorized=True)) as evaluate:
        values = evaluate(Query(X), [(5, Answer(np.array([7.0])))], notes).values
    assert sizes == [39]
    assert values[5] == 7.0
    np.testing.assert_array_equal(np.delete(values, 5), np.delete(expected(), 5))
    assert notes.rows("told") == notes.rows("begun") == [row for row in range(40) if row != 5]


def test_a_query_without_rows_has_an_answer_without_values(workers):
    with Evaluator(gs.Deterministic(value), workers) as evaluate:
        assert evaluate(Query(X[:0])).values.shape == (0,)


def test_nothing_is_asked_when_all_is_known(tmp_path):
    f = Called(tmp_path)
    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        assert evaluate(Query(X), [(0, Answer(expected()))]).values is not None
        assert evaluate.started == 0
    assert f.calls == []


def test_the_ledger_hears_of_rows_before_they_are_begun_and_as_they_come(workers):
    notes = Notes()
    with Evaluator(gs.Deterministic(value), workers) as evaluate:
        evaluate(Query(X), log=notes)
    begun = set()
    for kind, first, what in notes.heard:
        if kind == "begun":
            begun |= set(range(first, first + what))
        else:
            assert set(range(first, first + len(what))) <= begun
            np.testing.assert_array_equal(what, expected()[first : first + len(what)])
    assert notes.rows("told") == list(range(40))
    assert len([1 for kind, *_ in notes.heard if kind == "told"]) > 1


def test_the_ledger_has_what_came_before_an_exception(tmp_path):
    f = Called(tmp_path, refuse, rows=(30,), pause=0.03)
    notes = Notes()
    with Evaluator(gs.Deterministic(f)) as evaluate:
        with pytest.raises(ArithmeticError):
            evaluate(Query(X), log=notes)
        assert notes.rows("told") == list(range(30))
        assert evaluate.started == 31


class Clock(Notes):
    """A log that also is the clock of the evaluator: when some answers have come, the time is up."""

    def __init__(self, monkeypatch, answers: int) -> None:
        super().__init__()
        self.left = answers
        for module in (evaluate_module, scheduler):
            monkeypatch.setattr(module, "time", self)

    sleep = staticmethod(time.sleep)
    perf_counter = staticmethod(time.perf_counter)

    def monotonic(self) -> float:
        return time.monotonic() + (1e6 if self.left <= 0 else 0.0)

    def record(self, first, answer):
        super().record(first, answer)
        self.left -= 1


@pytest.mark.parametrize("kind", ["here", "int", "threads", "pool"])
def test_when_the_time_is_up_what_is_in_flight_is_given_up(kind, tmp_path, monkeypatch):
    """And every call is counted, also one whose answer nobody has read; however fast or slow the machine is."""
    f = Called(tmp_path, pause=0.02)
    clock = Clock(monkeypatch, answers=1)  # to a chunk of one row, since nothing is known of the time that it takes
    with ThreadPoolExecutor(2) as pool:
        workers = {"here": None, "int": 2, "threads": pool, "pool": Capricious(2)}[kind]
        with Evaluator(gs.Deterministic(f), workers) as evaluate:
            evaluate.deadline = time.monotonic() + 1e5
            with pytest.raises(TimeIsUp):
                evaluate(Query(X), log=clock)
            calls = len(f.calls)
            begun = 2 if kind == "int" else 0  # rows that were stopped after they were counted and before they called
            if kind == "threads":
                assert 0 < evaluate.started <= 40
            else:
                assert calls <= evaluate.started <= calls + begun
            assert clock.rows("told") != []
            with pytest.raises(TimeIsUp):
                evaluate(Query(X))
            assert evaluate.started == 0
            if kind != "threads":
                assert len(f.calls) == calls


def test_an_answer_that_nobody_has_read_was_started(tmp_path):
    """The process has answered one chunk, is in the next one, and is stopped before anybody looks."""
    f = Called(tmp_path, hang, rows=(4,))
    pool = ProcessPool(1)
    pool.initialize(Evaluation(gs.Deterministic(f)))
    tickets = [pool.submit(Chunk(first, Query(X[first : first + 3]))) for first in (0, 3)]
    while f.called(4) == 0:
        time.sleep(0.01)
    assert [pool.kill(ticket) for ticket in tickets] == [3, 2]
    pool.close()


@pytest.mark.parametrize("trouble", [die, refuse, hang])
def test_the_ledger_knows_of_every_call_whatever_broke_a_part_off(trouble, tmp_path):
    f = Called(tmp_path, trouble, rows=(5,), once=True, pause=0.001)
    notes = Notes()
    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        evaluate(Query(X[20:]))  # so that chunks of several rows are made
        evaluate.deadline = time.monotonic() + 1.0
        with suppress(ArithmeticError, TimeIsUp):
            evaluate(Query(X), log=notes)
    assert notes.calls == len(f.calls) - 20


# ---------------------------------------------------------------------------------------------- nobody is left behind


def test_no_process_is_left(tmp_path):
    f = Called(tmp_path, die, rows=(13,), once=True)
    before = ended_and_not_collected()
    with Evaluator(gs.Deterministic(f), 3) as evaluate:
        evaluate(Query(X))
        assert ended_and_not_collected() <= before
        assert 1 <= len(children()) <= 3
    assert ended_and_not_collected() <= before
    assert children() == []


def test_who_is_interrupted_leaves_no_process(tmp_path):
    """Ctrl-C while workers are busy; every call is counted."""
    f = Called(tmp_path, pause=0.05)
    before = ended_and_not_collected()

    class Interrupting(Notes):
        def record(self, first, answer):
            super().record(first, answer)
            raise KeyboardInterrupt

    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        with pytest.raises(KeyboardInterrupt):
            evaluate(Query(X), log=Interrupting())
        assert evaluate.started == len(f.calls) < 40
    assert ended_and_not_collected() <= before
    assert children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_that_a_function_started_ends_with_its_worker(tmp_path):
    def program(x):
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        (tmp_path / str(started.pid)).touch()
        started.wait()

    with Evaluator(gs.Deterministic(program), 2) as evaluate:
        evaluate.deadline = time.monotonic() + 1.0
        with pytest.raises(TimeIsUp):
            evaluate(Query(X[:2]))
    programs = [int(mark.name) for mark in tmp_path.iterdir()]
    assert programs
    for _ in range(100):
        left = [pid for pid in programs if runs(pid)]
        if not left:
            break
        time.sleep(0.05)
    assert left == []


def runs(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_processes_start_when_there_is_work_for_them():
    with Evaluator(gs.Deterministic(value), 3) as evaluate:
        assert children() == []
        evaluate(Query(X[:1]))
        assert len(children()) == 1


def test_an_evaluator_may_be_used_again_after_trouble(tmp_path):
    f = Called(tmp_path, refuse, rows=(11,), once=True)
    with Evaluator(gs.Deterministic(f), 2) as evaluate:
        with pytest.raises(ArithmeticError):
            evaluate(Query(X))
        evaluate.deadline = time.monotonic()
        with pytest.raises(TimeIsUp):
            evaluate(Query(X))
        evaluate.deadline = None
        np.testing.assert_array_equal(evaluate(Query(X)).values, expected())


# ------------------------------------------------------------------------------------------------ the task travels once


class Luggage:
    """An argument that counts how often it is packed."""

    packed = 0

    def __reduce__(self):
        Luggage.packed += 1
        return (Luggage, ())


def with_luggage(x, luggage):
    return float(abs(x).sum())


@pytest.mark.parametrize("kind", ["threads", "processes", "loky", "cluster", "fork", "spawn"])
def test_the_task_is_packed_once(kind, request, monkeypatch):
    monkeypatch.setattr(Luggage, "packed", 0)
    oracle = gs.Deterministic(with_luggage, (Luggage(),))
    threads = ThreadPoolExecutor(2)
    processes = ProcessPoolExecutor(2)
    list(processes.map(abs, range(20)))  # they run before the task is there, so that they cannot inherit it
    workers = {"threads": threads, "processes": processes, "loky": loky.get_reusable_executor(2, timeout=600)}.get(kind)
    if kind == "cluster":
        workers = request.getfixturevalue("cluster")
    if kind in ("fork", "spawn"):
        workers = ProcessPool(2)
        workers._context = multiprocessing.get_context(kind)
    with threads, processes, Evaluator(oracle, workers) as evaluate:
        for _ in range(3):
            np.testing.assert_array_equal(evaluate(Query(X)).values, expected())
    assert Luggage.packed == {"threads": 0, "fork": 0}.get(kind, 1)


def test_what_cannot_be_packed_is_one_sentence():
    lock = threading.Lock()
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(abs, range(20)))
        with (
            Evaluator(gs.Deterministic(lambda x: lock), pool) as evaluate,
            pytest.raises(TypeError, match="cannot be sent to workers in other processes"),
        ):
            evaluate(Query(X))


def test_a_worker_keeps_few_tasks():
    from goldstein.oracle import worker

    task = Evaluation(gs.Deterministic(value), ())
    packed = pickle.dumps(task)
    before = dict(worker._tasks)
    try:
        worker._tasks.clear()
        chunk = type("", (), {})()
        chunk.first = 0
        chunk.work = Query(X)
        assert isinstance(worker.work("0-a", chunk), worker.TaskUnknown)
        for key in ("0-a", "0-b", "0-c"):
            assert isinstance(worker.work(key, chunk, packed), TaskResult)
        assert list(worker._tasks) == ["0-b", "0-c"]
    finally:
        worker._tasks.clear()
        worker._tasks.update(before)


def test_a_worker_imports_little():
    program = "import sys, goldstein.oracle.worker, goldstein.oracle.pool; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "goldstein.oracle.worker" in modules
    for heavy in ("scipy", "goldstein.methods", "goldstein.theory", "goldstein.run", "goldstein.minimize"):
        assert heavy not in modules


@pytest.mark.parametrize(
    "first", ["import goldstein.many", "from goldstein.minimize import minimize", "import goldstein.minimize", "pass"]
)
def test_the_name_minimize_is_the_function_whatever_was_imported_first(first):
    program = f"{first}\nimport goldstein as gs\nassert gs.minimize.__name__ == 'minimize', gs.minimize\n"
    program += "from goldstein import *\nassert minimize is gs.minimize\nassert theory is gs.theory\n"
    program += "assert set(gs.__all__) == set(gs._HOME) <= set(dir(gs))\n"
    program += "assert gs.smoothing.__name__ == 'goldstein.estimate.smoothing'\n"
    subprocess.run([sys.executable, "-c", program], check=True)


# ---------------------------------------------------------------------------------------- what is wrong is said at once


@pytest.mark.parametrize(
    ("workers", "more", "sentence"),
    [
        (0, {}, "positive number of processes"),
        (True, {}, "got bool"),
        ("all", {}, "got str"),
        (None, {"timeout": 1.0}, "timeout needs workers, since"),
        (1, {"timeout": 1.0}, "timeout needs workers, since"),
        (map, {"timeout": 1.0}, "map-like"),
        (2, {"timeout": -1.0}, "timeout must be"),
        (2, {"retries": -1}, "retries must be"),
    ],
)
def test_wrong_workers_are_one_sentence(workers, more, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        check_workers(workers, **more)
    with pytest.raises((TypeError, ValueError), match=sentence):
        Evaluator(gs.Deterministic(value), workers, **more)


def test_an_asynchronous_client_is_refused():
    client = type("Client", (), {"submit": lambda *_: PlainFuture(), "asynchronous": True})()
    with pytest.raises(TypeError, match="asynchronous"):
        check_workers(client)
