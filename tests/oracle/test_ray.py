"""Ray: the same answer from actors that die, hang and are replaced, on a small cluster on this machine."""

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray
from ray_cluster import IP, small_cluster

import goldstein as gs
from goldstein.oracle.query import LONG, CompactQuery
from goldstein.oracle.ray import RayPool, RemoteWorker
from goldstein.oracle.tasks import Chunk, Evaluation, TaskLost, TaskResult

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([1.0, -0.5, 0.25, 2.0])
ACTORS = 3


@pytest.fixture(scope="module")
def cluster():
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # no actor could import it
    with small_cluster(ACTORS + 2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def pool(cluster):
    with RayPool(cluster.address, ACTORS) as pool:
        yield pool


@pytest.fixture
def calls(tmp_path):
    return Calls(tmp_path / "calls")


class Calls:
    """Counts calls in a file, whoever makes them."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.again()

    def again(self) -> None:
        Path(self.path).write_bytes(b"")

    def add(self) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        os.write(file, b".")
        os.close(file)

    def __len__(self) -> int:
        return os.path.getsize(self.path)


def first(path) -> bool:
    """Whether nobody has come here before."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def solve(oracle, method, pool, *, x0=X0, evals=400, **more):
    """Return the result, and how many rows were begun again."""
    res = gs.minimize(oracle, x0, method, max_evals=evals, rng=0, workers=pool, **more)
    return res, res.nrepeat


def same(res, alone):
    assert res.x.tobytes() == alone.x.tobytes()
    np.testing.assert_equal(res.fun, alone.fun)
    assert (res.nfev, res.nfail, res.nit) == (alone.nfev, alone.nfail, alone.nit)


MATRIX = np.random.default_rng(1).normal(size=(40, 4)) * (np.random.default_rng(2).random((40, 4)) < 0.5)


def sum_of(calls):
    matrix = MATRIX

    def hinge(x, i):
        calls.add()
        return float(max(0.0, matrix[i] @ x - 0.2))

    return gs.FiniteSum(hinge, len(matrix))


def exact(calls):
    def f(x):
        calls.add()
        x -= 0.3  # it may write into its argument
        return float(np.abs(x).sum())

    return gs.Deterministic(f)


@pytest.mark.parametrize("kind", [exact, sum_of])
@pytest.mark.parametrize(
    "method",
    ["auto", "gfm", gs.GFMPlus(0.1, 0.01, 4, 5), gs.ZOO2NC(0.5, 4, batch_size=6), gs.Sift(1.0, batch_size=4)],
    ids=lambda method: method if isinstance(method, str) else method.name,
)
def test_the_answer_is_that_of_one_process_and_every_call_is_counted(pool, calls, kind, method):
    alone = gs.minimize(kind(calls), X0, method, max_evals=400, rng=0)
    calls.again()
    res = gs.minimize(kind(calls), X0, method, max_evals=400, rng=0, workers=pool)
    same(res, alone)
    assert len(calls) == res.nfev


def test_a_run_leaves_the_crew_to_the_next_one(pool, calls):
    gs.minimize(exact(calls), X0, "gfm", max_evals=50, rng=0, workers=pool)
    before = [actor.handle for actor in pool._workers]
    gs.minimize(exact(calls), X0, "gfm", max_evals=50, rng=0, workers=pool)
    assert [actor.handle for actor in pool._workers] == before
    assert pool.size == ACTORS


def test_many_runs_are_done_by_actors_too(pool):
    def f(x):
        return float(np.abs(x).sum())

    here = gs.minimize_many(f, X0, "gfm", seeds=4, workers=1, max_evals=100)
    there = gs.minimize_many(f, X0, "gfm", seeds=4, workers=pool, max_evals=100)
    assert there.x.tobytes() == here.x.tobytes()
    assert there.nfev.tolist() == here.nfev.tolist()


@pytest.mark.parametrize("more", [{}, {"x_scale": np.geomspace(0.5, 2.0, 20_000)}], ids=["", "scaled"])
@pytest.mark.parametrize(
    "method",
    [gs.GFM(0.1, 1e-3, 8), gs.GFMPlus(0.1, 1e-3, 3, 4), gs.Sift(1.0, batch_size=3, max_evals_per_sample=12)],
    ids=lambda method: method.name,
)
def test_long_points_are_made_where_they_are_needed(pool, monkeypatch, method, more):
    """Of an iteration the iterate travels, once, and not the points."""
    oracle = gs.FiniteSum(lambda X, i: np.abs(X[:, ::7] - i[:, None]).sum(axis=1), 5, vectorized=True)
    x0 = np.ones(20_000)
    sent = []
    message = pool._message

    def seen(chunk):
        assert isinstance(chunk.work.compact(), CompactQuery)
        made = message(chunk)
        packed, *arrays = made.arguments
        sent.append((len(packed), [array.hex() for array in arrays]))
        return made

    monkeypatch.setattr(pool, "_message", seen)
    res, repeated = solve(oracle, method, pool, x0=x0, evals=150, **more)
    monkeypatch.undo()
    alone, _ = solve(oracle, method, None, x0=x0, evals=150, **more)
    same(res, alone)
    assert repeated == 0
    assert all(packed < 10_000 for packed, _ in sent)
    arrays = {array for _, arrays in sent for array in arrays}
    assert len(arrays) <= 2 * res.nit + 3  # the iterate before and after each step, and what is the same in all of them
    assert res.nfev * x0.nbytes > 10 * len(arrays) * x0.nbytes


@pytest.mark.parametrize(
    "method", [gs.Sift(1.0, batch_size=3, max_evals_per_sample=12), gs.GFMPlus(0.1, 1e-3, 3, 4)], ids=["sift", "gfm+"]
)
def test_a_run_with_a_journal_goes_on_where_it_was(pool, calls, tmp_path, method):
    """What was told is not asked again, and points are the same though nobody knows any longer how they were made."""
    marker = str(tmp_path / "marker")

    def f(x, i):
        calls.add()
        if len(calls) > 70 and first(marker):
            raise ArithmeticError("once")
        return float(np.abs(x[::7] - i).sum())

    oracle = gs.FiniteSum(f, 5)
    settings = {"x0": np.ones(20_000), "method": method, "max_evals": 150, "rng": 0}
    journal = tmp_path / "run.journal"
    with pytest.raises(ArithmeticError):
        gs.minimize(oracle, **settings, workers=pool, journal=journal)
    broken_off = len(calls)
    res = gs.minimize(oracle, **settings, workers=pool, journal=journal)
    count = len(calls)
    same(res, gs.minimize(oracle, **settings))
    assert broken_off < count
    assert 0 < count - res.nfev <= 24  # at most what was in flight: rows of a query


def test_points_of_orthogonal_frames_are_sent_as_they_are(pool):
    d = LONG // 8
    oracle = gs.Deterministic(lambda x: float(np.abs(x).sum()))
    method = gs.GFM(0.1, 1e-3, 4, directions="orthogonal")
    res, _ = solve(oracle, method, pool, x0=np.ones(d), evals=20)
    alone, _ = solve(oracle, method, None, x0=np.ones(d), evals=20)
    same(res, alone)


def test_data_that_the_function_writes_into_is_its_own(pool):
    counts = np.zeros(1)

    def f(x, counts):
        counts += 1
        return float(np.abs(x).sum())

    gs.minimize(gs.Deterministic(f, (counts,)), X0, gs.GFM(0.1, 0.01, 8), max_evals=50, rng=0, workers=pool)
    assert counts == 0


def test_an_exception_comes_with_its_point_and_ends_the_run(pool, calls):
    def f(x):
        calls.add()
        if x[0] < 0.9:
            raise ArithmeticError("too small")
        return float(np.abs(x).sum())

    with pytest.raises(ArithmeticError, match="too small") as caught:
        gs.minimize(gs.Deterministic(f), X0, gs.GFM(0.2, 0.01, 20), max_evals=400, rng=0, workers=pool)
    assert caught.value.point[0] < 0.9
    assert "In a worker" in "".join(caught.value.__notes__)
    assert caught.value.result.nfev == len(calls)
    calls.again()
    same(
        gs.minimize(exact(calls), X0, "gfm", max_evals=100, rng=0, workers=pool),
        gs.minimize(exact(calls), X0, "gfm", max_evals=100, rng=0),
    )


def test_failures_are_those_of_one_process(pool):
    def f(x):
        if x[0] > 1.02:
            raise ArithmeticError("caught")
        return float("nan") if x[1] > -0.48 else float(np.abs(x).sum())

    method = gs.GFM(0.1, 0.01, 10)
    settings = {"max_evals": 300, "rng": 0, "catch": ArithmeticError}
    alone = gs.minimize(gs.Deterministic(f), X0, method, **settings)
    assert alone.nfail > 20
    same(gs.minimize(gs.Deterministic(f), X0, method, **settings, workers=pool), alone)


def test_an_actor_that_dies_is_replaced_and_its_part_done_again(pool, calls, tmp_path):
    marker = str(tmp_path / "marker")

    def f(x):
        calls.add()
        time.sleep(0.002)
        if len(calls) > 150 and first(marker):
            os._exit(1)
        return float(np.abs(x).sum())

    method = gs.GFM(0.1, 0.01, 30)
    res, repeated = solve(gs.Deterministic(f), method, pool)
    assert 0 < repeated <= 60  # not more than a query has rows
    assert res.nfev < len(calls) <= res.nfev + repeated
    alone, _ = solve(gs.Deterministic(f), method, None)
    same(res, alone)
    hire_all(pool)


def hire_all(pool):
    """Wait until the pool is complete again."""
    for _ in range(60):
        if pool.size == ACTORS:
            return
        pool.wait(0.5)
    raise AssertionError("nobody was hired")


def test_rows_that_always_kill_fail_and_the_others_of_their_parts_are_saved(pool):
    here = os.getpid()
    matrix = MATRIX

    def deadly(x, i):
        if i == 7 and os.getpid() != here:
            os._exit(1)
        return float("nan") if i == 7 else float(np.abs(matrix[i] @ x - 0.2))

    method = gs.GFM(0.1, 0.01, 25)
    oracle = gs.FiniteSum(deadly, len(matrix))
    alone, _ = solve(oracle, method, None, evals=120)
    assert 0 < alone.nfail <= 6
    res, repeated = solve(oracle, method, pool, evals=120, retries=1)
    same(res, alone)
    assert repeated > 0
    hire_all(pool)


def test_an_evaluation_that_hangs_is_stopped_and_done_again(pool, calls, tmp_path):
    marker = str(tmp_path / "marker")

    def f(x):
        calls.add()
        if len(calls) > 60 and first(marker):
            time.sleep(1000)
        return float(np.abs(x).sum())

    method = gs.GFM(0.1, 0.01, 10)
    res, repeated = solve(gs.Deterministic(f), method, pool, evals=200, timeout=0.2)
    assert 0 < repeated <= 20
    assert res.nfev < len(calls) <= res.nfev + repeated
    alone, _ = solve(gs.Deterministic(f), method, None, evals=200)
    same(res, alone)
    hire_all(pool)


def test_what_lay_before_an_actor_that_was_stopped_was_not_begun(cluster, pool):
    """Only the chunk that it was in is charged; and what was not sent yet goes to the next one."""

    def f(x):
        if x[0] < 0:
            time.sleep(1000)
        return float(x[0])

    with RayPool(actors=1) as alone:
        alone.initialize(Evaluation(gs.Deterministic(f), ()))
        hanging = alone.submit(Chunk(0, gs.Query(np.array([[-1.0], [1.0]]))))
        behind = alone.submit(Chunk(2, gs.Query(np.array([[2.0], [3.0]]))))
        waiting = alone.submit(Chunk(4, gs.Query(np.array([[4.0]]))))
        assert alone.wait(0.3) == []
        assert alone.kill(hanging) is None
        ends = dict(one_after_the_other(alone, 2))
    assert ends.keys() == {behind, waiting}
    assert isinstance(ends[behind], TaskLost)
    assert ends[behind].started == 0
    assert isinstance(ends[waiting], TaskResult)
    assert ends[waiting].answer.values.tolist() == [4.0]
    assert ray.is_initialized()  # it was joined before, so it is not left


def test_what_lay_before_an_actor_that_had_answered_was_begun(cluster, pool, tmp_path):
    """Though nobody has read its answer."""
    mark = str(tmp_path / "mark")

    def f(x):
        if x[0] < 0:
            first(mark)
            time.sleep(1000)
        return float(x[0])

    with RayPool(actors=1) as alone:
        alone.initialize(Evaluation(gs.Deterministic(f)))
        answered = alone.submit(Chunk(0, gs.Query(np.array([[1.0], [2.0]]))))
        hanging = alone.submit(Chunk(2, gs.Query(np.array([[-1.0], [3.0]]))))
        while not Path(mark).exists():
            time.sleep(0.05)
        assert alone.kill(answered) is None
        assert alone.kill(hanging) is None  # unknown, and counted as all


def one_after_the_other(pool, count):
    ends = []
    while len(ends) < count:
        ends += pool.wait(1.0)
    return ends


def test_a_row_that_is_a_part_by_itself_has_its_actor_to_itself(cluster, pool):
    """An actor that dies early in a chunk may take its last answer with it, so a neighbour would be blamed."""

    def f(x):
        if x[0] < 0:
            os._exit(1)
        return float(x[0])

    with RayPool(actors=1) as alone:
        alone.initialize(Evaluation(gs.Deterministic(f), ()))
        tickets = [
            alone.submit(Chunk(row, gs.Query(np.array([[value]])))) for row, value in enumerate([5.0, -1.0, 6.0])
        ]
        ends = dict(one_after_the_other(alone, 3))
    assert [type(ends[ticket]) for ticket in tickets] == [TaskResult, TaskLost, TaskResult]
    assert ends[tickets[1]].started is None


def test_a_node_that_is_lost_in_mid_run_changes_nothing(cluster, pool, calls):
    method = gs.GFM(0.1, 0.01, 40)
    node = cluster.add_node(num_cpus=2, node_ip_address=IP)
    homes = calls.path + "-homes"
    Path(homes).mkdir()

    def f(x, i):
        calls.add()
        Path(homes, ray.get_runtime_context().get_node_id()).touch()
        time.sleep(0.005)
        return float(np.abs(x - 0.01 * i).sum())

    oracle = gs.FiniteSum(f, 30)

    def end_it():
        while len(calls) < 150:
            time.sleep(0.02)
        cluster.remove_node(node, allow_graceful=False)

    with RayPool(actors=4) as both:
        ending = threading.Thread(target=end_it)
        ending.start()
        res, repeated = solve(oracle, method, both, evals=600)
        ending.join()
        assert both.size >= 2
    count = len(calls)
    assert len(os.listdir(homes)) == 2  # both nodes have worked
    assert res.nfev < count <= res.nfev + repeated
    assert repeated <= 80  # rows of a query

    def plain(x, i):
        return float(np.abs(x - 0.01 * i).sum())

    alone, _ = solve(gs.FiniteSum(plain, 30), method, None, evals=600)
    same(res, alone)


def test_without_room_it_says_so_after_a_while(cluster, pool):
    nowhere = RayPool(actors=1, options={"resources": {"nowhere": 1}}, patience=1.0)
    with pytest.raises(RuntimeError, match="Ray started no actor within 1 seconds: there is no room for one"):
        nowhere.initialize(Evaluation(gs.Deterministic(np.sum), ()))
    nowhere.close()


class Homesick:
    """A function that can be read in one process only."""

    def __call__(self, x):
        return float(np.abs(x).sum())

    def __reduce__(self):
        return _only_here, (os.getpid(),)


def _only_here(pid):
    if pid != os.getpid():
        raise ModuleNotFoundError("No module named 'lattice'")
    return Homesick()


def test_a_function_that_no_actor_can_read_is_refused_before_the_first_evaluation(cluster, pool):
    with (
        RayPool(actors=1) as one,
        pytest.raises(RuntimeError, match="No module named 'lattice'; see that every node has what is"),
    ):
        gs.minimize(Homesick(), X0, "gfm", max_evals=20, workers=one)


def test_an_actor_with_another_numpy_refuses(pool):
    """Its random numbers may be others."""
    resident = RemoteWorker()
    task = ray.put(ray.cloudpickle.dumps(Evaluation(gs.Deterministic(np.sum), ())))
    assert resident.initialize([task], np.__version__) == ""
    packed = pickle.dumps(Chunk(3, gs.Query(np.ones((1, 2)))))
    assert resident.work(packed).answer.values.tolist() == [2.0]
    assert resident.initialize([task], "1.0").endswith("and that of the program 1.0")
    with pytest.raises(RuntimeError, match="and that of the program"):
        resident.work(packed)


def test_a_function_that_cannot_be_sent_is_refused(pool):
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be sent to actors of Ray"):
        gs.minimize(lambda x: float(lock.locked()), X0, "gfm", max_evals=20, workers=pool)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"actors": 0}, "actors must be a whole number of at least 1"),
        ({"patience": -1.0}, "patience must be a positive number"),
        ({"address": "127.0.0.1:9"}, "joined a cluster of Ray already"),
    ],
)
def test_wrong_arguments_are_answered_in_a_sentence(pool, wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        RayPool(**wrong)


def test_a_crew_that_is_closed_says_so(pool):
    closed = RayPool(actors=1)
    closed.close()
    closed.close()
    with pytest.raises(RuntimeError, match="This pool is closed; make a new one"):
        closed.initialize(Evaluation(gs.Deterministic(np.sum), ()))


ALONE = """
import subprocess, sys
import numpy as np, goldstein as gs
from goldstein.oracle.ray import RayPool
pool = RayPool(actors=2)
folder = pool._resources.folder.name
res = gs.minimize(lambda x: float(abs(x).sum()), np.ones(3), "gfm", max_evals=60, rng=0, workers=pool)
{end}
print(folder, res.nfev)
"""


@pytest.mark.parametrize("end", ["pool.close()", "pass"])
def test_a_cluster_that_was_started_leaves_nothing_behind(end):
    """Nothing in the process list, nothing on the disk, nothing on the screen."""
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    process = subprocess.run(
        [sys.executable, "-c", ALONE.format(end=end)], capture_output=True, text=True, env=environment, check=True
    )
    folder, nfev = process.stdout.split()
    assert int(nfev) <= 60
    assert process.stderr == ""
    for _ in range(100):
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        if folder not in listed:
            break
        time.sleep(0.1)
    assert folder not in listed
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (
            "import sys; sys.modules['ray'] = None; import goldstein.oracle.ray",
            "ImportError: goldstein.oracle.ray needs Ray: pip install 'goldstein[ray]'.",
        ),
        (
            "from goldstein.oracle.ray import RayPool; RayPool('127.0.0.1:9')",
            "ConnectionError: There is no cluster of Ray at address='127.0.0.1:9'",
        ),
    ],
)
def test_what_is_not_there_is_named(program, sentence):
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stderr.splitlines()[-1].startswith(sentence)
