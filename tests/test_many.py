"""Many runs: on any workers the runs that `minimize` gives, and a broken sweep goes on where it was."""

import os
import signal
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs
from goldstein.oracle.pool import ProcessPool

X0 = np.ones(3)
METHOD = gs.GFM(0.05, 0.02, 2)
SEEDS = [5, 2, 9, 4]


def value(x) -> float:
    return float(np.abs(x - 0.3).sum())


def alone(seed, **more):
    return gs.minimize(gs.Deterministic(value), X0, METHOD, rng=seed, **{"max_evals": 120, **more})


def same(runs, seeds=SEEDS, **more):
    for seed, run in zip(seeds, runs, strict=True):
        expected = alone(seed, **more)
        np.testing.assert_array_equal(run.x, expected.x)
        assert (run.fun, run.nfev, run.status) == (expected.fun, expected.nfev, expected.status)
        np.testing.assert_array_equal(run.history["fun"], expected.history["fun"])


def many(fun=value, workers=None, seeds=SEEDS, **more):
    return gs.minimize_many(
        gs.Deterministic(fun), X0, METHOD, seeds=seeds, workers=workers, **{"max_evals": 120, **more}
    )


@pytest.mark.parametrize("workers", [None, 1, 2, 3, -1])
def test_any_number_of_workers_gives_the_runs_one_by_one(workers):
    done = []
    same(many(workers=workers, done=lambda index, _: done.append(index)))
    assert sorted(done) == [0, 1, 2, 3]


def test_any_executor_map_or_crew_does_the_runs():
    with ThreadPoolExecutor(2) as threads:
        same(many(workers=threads))
    with ProcessPoolExecutor(2) as processes:
        same(many(workers=processes))
    with ThreadPool(2) as pool:
        same(many(workers=pool.imap_unordered))
    same(many(workers=map))


def test_a_crew_that_was_given_is_not_closed():
    pool = ProcessPool(2)
    same(many(workers=pool))
    assert pool._workers
    pool.close()


def test_a_run_never_waits_behind_another_one(tmp_path):
    """While the first run of two workers waits for all others, these are done by the other worker."""

    def patient(x):
        mine = tmp_path / f"{os.getpid()}"
        if not any(tmp_path.iterdir()):
            mine.touch()
        if mine.exists():
            until = time.monotonic() + 60
            while not (tmp_path / "others").exists():
                if time.monotonic() > until:
                    raise TimeoutError("a run waits for this one")
                time.sleep(0.01)
        return value(x)

    ended = []

    def done(index, _):
        ended.append(index)
        if len(ended) == len(SEEDS) - 1:
            (tmp_path / "others").touch()

    same(many(patient, workers=2, done=done))
    assert len(ended) == len(SEEDS)


class Calls:
    """A function that counts its calls in a file, and does something at one of them."""

    def __init__(self, folder, at=None, act=None):
        self.path = Path(folder) / "calls"
        self.at = at
        self.act = act

    def __call__(self, x):
        with self.path.open("ab") as file:
            file.write(b".")
        if self.at is not None and self.path.stat().st_size == self.at:
            self.act()
        return value(x)

    @property
    def count(self):
        return self.path.stat().st_size


def explode():
    raise OSError("the simulator is gone")


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_sweep_goes_on_and_asks_for_nothing_again(tmp_path, workers):
    folder = tmp_path / "sweep"
    calls = Calls(tmp_path, at=290, act=explode)
    with pytest.raises(OSError, match="simulator is gone"):
        many(calls, workers=workers, journal=folder)
    before = calls.count
    calls.act = lambda: None
    same(many(calls, workers=workers, journal=folder))
    nfev = sum(alone(seed).nfev for seed in SEEDS)
    in_flight = 4 * workers  # a query of this method has four rows
    assert nfev < calls.count <= nfev + in_flight
    assert before < nfev
    assert sorted(path.name for path in folder.iterdir()) == [f"seed-{seed}.journal" for seed in sorted(SEEDS)]
    calls.at = calls.count + 1
    calls.act = explode
    same(many(calls, workers=workers, journal=folder))


def test_more_seeds_join_a_sweep(tmp_path):
    many(journal=tmp_path / "sweep", seeds=[1, 2])
    calls = Calls(tmp_path)
    same(many(calls, seeds=[2, 3], journal=tmp_path / "sweep", workers=1), seeds=[2, 3])
    assert calls.count == alone(3).nfev


def check_repeats(runs, calls):
    """No more was done again than a query of each of two runs, since both workers may have met the deadly call."""
    nfev = sum(run.nfev for run in runs)
    repeated = sum(run.nrepeat for run in runs)
    assert nfev < calls <= nfev + repeated  # rows that were about to be evaluated count as begun
    assert repeated <= 2 * 4


def test_the_run_of_a_worker_who_dies_is_done_again_from_its_journal(tmp_path):
    calls = Calls(tmp_path, at=100, act=kill)
    runs = many(calls, workers=2, journal=tmp_path / "sweep")
    same(runs)
    check_repeats(runs, calls.count)


def test_the_run_of_a_worker_who_dies_is_done_again_without_a_journal(tmp_path):
    same(many(Calls(tmp_path, at=100, act=kill), workers=2))


def test_a_run_that_takes_every_worker_with_it_is_named(tmp_path):
    def deadly(x):
        if x[0] > 50:
            kill()
        return value(x)

    starts = np.stack([X0, 100 * X0, X0])
    with pytest.raises(RuntimeError, match="The run with seed 7 crashed its worker every time"):
        gs.minimize_many(gs.Deterministic(deadly), starts, METHOD, seeds=[6, 7, 8], workers=2, retries=1, max_evals=50)


def test_results_that_cannot_travel_are_one_sentence():
    class Mine(gs.GFM):
        """A method that only this function knows."""

    with pytest.raises(TypeError, match="The answer of a worker cannot be sent from its process"):
        gs.minimize_many(value, np.ones(2), Mine(0.01, 0.005), seeds=3, workers=2, max_evals=50)


def test_ctrl_c_returns_the_runs_that_had_ended():
    ended = []

    def interrupting(index, result):
        ended.append(index)
        raise KeyboardInterrupt

    runs = many(workers=2, done=interrupting)
    assert len(runs) == len(ended) == 1


def test_the_error_of_a_run_carries_the_run_so_far(tmp_path):
    calls = Calls(tmp_path, at=50, act=explode)
    with pytest.raises(OSError, match="gone") as caught:
        many(calls, workers=2)
    assert caught.value.result.nfev > 0


def test_compiled_runs_have_journals_too(tmp_path):
    numba = pytest.importorskip("numba")

    @numba.njit
    def component(x, i):
        return np.abs(x - 0.1 * i).sum()

    oracle = gs.FiniteSum(component, 5)
    settings = {"seeds": 3, "max_evals": 3000, "workers": 2, "compiled": True}
    plain = gs.minimize_many(oracle, X0, METHOD, **settings)
    for _ in range(2):
        kept = gs.minimize_many(oracle, X0, METHOD, journal=tmp_path / "sweep", **settings)
        np.testing.assert_array_equal(kept.x, plain.x)
        np.testing.assert_array_equal(kept.fun, plain.fun)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"processes": 2}, "takes no processes: workers= says"),
        ({"progress": True}, "takes no progress: done= is called"),
        ({"rng": 1}, "takes no rng: each run has its own seed"),
        ({"checkpoint": "x"}, "takes no checkpoint: journal= is a folder"),
        ({"timeout": 1.0}, "takes no timeout"),
        ({"workers": "all"}, "workers must be a number"),
        ({"workers": 0}, "workers must be a positive number"),
        ({"journal": 3}, "journal must be a folder, got int"),
        ({"journal": __file__}, "is a file"),
        ({"journal": "x", "seeds": [1, 1]}, "seeds must be different from each other"),
    ],
)
def test_what_it_cannot_do_is_said_in_a_sentence(given, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = Calls(tmp_path)
    with pytest.raises((TypeError, ValueError, NotADirectoryError), match=sentence):
        many(calls, **given)
    assert not calls.path.exists()


def test_dask_does_the_runs(tmp_path):
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**settings) as cluster, distributed.Client(cluster) as client:
        same(many(workers=client, journal=tmp_path / "sweep"))
    same(many(Calls(tmp_path, at=1, act=explode), journal=tmp_path / "sweep"))


def test_a_run_that_gets_further_each_time_may_lose_its_worker_often(tmp_path):
    """Every 15th call kills its process; what the journal holds is not asked for again, so that the run ends."""

    def deadly(x, path=str(tmp_path / "calls")):
        with Path(path).open("ab") as file:
            file.write(b".")
        if Path(path).stat().st_size % 15 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return value(x)

    same(many(deadly, workers=2, seeds=SEEDS[:2], journal=tmp_path / "sweep"), seeds=SEEDS[:2])
    with pytest.raises(RuntimeError, match="crashed its worker every time; check that it runs in a worker process"):
        many(lambda x: os.kill(os.getpid(), signal.SIGKILL), workers=2, seeds=2, journal=tmp_path / "other")


def test_answers_of_a_sweep_are_judged_on_common_samples():
    """The noise is the same at all points and 100 times larger than what the answers differ by."""

    def noisy(x, seed):
        return value(x) + 100 * np.random.default_rng(seed).normal()

    settings = {"method": METHOD, "max_evals": 300}
    runs = gs.minimize_many(gs.Seeded(noisy), X0, seeds=4, workers=1, **settings)
    noise = runs.fun - [value(run.x) for run in runs]
    assert np.ptp(noise) < 1e-9
    assert "on common samples" in repr(runs)
    alone = [gs.minimize(gs.Seeded(noisy), X0, rng=seed, **settings) for seed in range(4)]
    assert np.ptp([run.fun - value(run.x) for run in alone]) > 1
    other = gs.minimize(gs.Seeded(noisy), X0, rng=9, final_seed=0, **settings)  # a run beside the sweep
    assert other.fun - value(other.x) == pytest.approx(noise[0], abs=1e-9)
    assert "common samples" not in repr(many(workers=1))


def test_many_runs_are_told_in_a_few_lines():
    runs = gs.minimize_many(lambda x: abs(x).sum(), np.ones(2), gs.GFM(0.01, 0.01), seeds=4, max_evals=300)
    said = repr(runs)
    assert said.startswith("4 runs of gfm, ")
    assert len(said.splitlines()) == 5
    assert "ended: 4 MAX_EVALS" in said
    assert "<pre>4 runs of gfm" in runs._repr_html_()
    assert runs.success.tolist() == [False] * 4
    with pytest.raises(AttributeError, match="'status' is stacked for no runs; known are fun, "):
        _ = runs.status


def test_warnings_of_runs_in_other_processes_are_heard_once():
    with pytest.warns(RuntimeWarning, match="differences at delta=1e-18") as caught:
        gs.minimize_many(steep, np.ones(2), gs.GFM(1e-18, 0.01), seeds=3, max_evals=300, workers=2)
    assert len({str(one.message) for one in caught}) == len(caught)


def steep(x):
    return float(np.abs(x).sum())


def test_ray_does_the_runs_and_does_one_again_whose_actor_dies(tmp_path):
    pools = pytest.importorskip("goldstein.oracle.ray", exc_type=ImportError)

    def deadly(x, path=str(tmp_path / "calls")):
        with Path(path).open("ab") as file:
            file.write(b".")
        if Path(path).stat().st_size >= 100 and not Path(f"{path}.dead").exists():
            Path(f"{path}.dead").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return float(np.abs(x - 0.3).sum())

    deadly.__module__ = "__main__"  # which travels as it is: no actor could import this file
    with pools.RayPool("local", 2) as pool:
        runs = many(deadly, workers=pool, journal=tmp_path / "sweep")
    same(runs)
    check_repeats(runs, (tmp_path / "calls").stat().st_size)


def test_a_jitted_function_runs_in_threads_only_where_the_method_has_a_compiled_loop():
    numba = pytest.importorskip("numba")
    from goldstein.many import _shares_process

    oracle = gs.FiniteSum(numba.njit(lambda x, i: abs(x[0] - i)), 3)
    assert _shares_process(oracle, "gfm", {})
    assert _shares_process(oracle, gs.Sift(1.0), {})
    assert not _shares_process(oracle, "cma", {})
    assert not _shares_process(oracle, gs.Sift(1.0, rho=0.1), {})
    assert not _shares_process(oracle, "gfm", {"compiled": False})
