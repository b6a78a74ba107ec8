"""Promises that hold on every path: criteria that see each step, interrupts, executors, warnings, precision, bounds."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numba import njit

import goldstein as gs
from goldstein import Status
from goldstein.methods import METHODS, MethodState, registry

X0 = np.ones(3)


@njit
def jitted(x):
    return np.abs(x).sum()


def plain(x):
    return float(np.abs(x).sum())


class EachStep(gs.stop.Criterion):
    """Met at the first iterate, or among the first points asked for, whose value is below a bound."""

    message = "It is low enough."
    each_step = True
    reserve = 1

    def __init__(self, below, by_points=False):
        self.below, self.by_points, self.confirmed, self.point = below, by_points, 0, None

    def screen(self, fun, lowest, noisy):
        return True

    def found(self, query, answer):
        if self.by_points and answer.values.min() < self.below:
            self.point = query.points[int(answer.values.argmin())].copy()
            return self.point
        return None

    def confirm(self, x, oracle, rng):
        self.confirmed += 1
        answer = yield gs.Query(x[None])
        return not self.by_points and bool(answer.values[0] < self.below)


def test_a_criterion_that_sees_each_step_is_success_and_says_so():
    res = gs.minimize(plain, X0, gs.GFM(0.01, 0.01), stop=EachStep(2.0), max_evals=4000, rng=0)
    assert res.status is Status.CRITERION
    assert res.message.startswith("It is low enough.")
    assert res.fun < 2.0


def test_the_compiled_loops_leave_such_a_criterion_to_the_plain_one():
    criterion = EachStep(2.0)
    res = gs.minimize(gs.Deterministic(jitted), X0, gs.GFM(0.01, 0.01), stop=criterion, max_evals=4000, rng=0)
    assert res.status is Status.CRITERION
    assert criterion.confirmed
    with pytest.raises(ValueError, match="criterion"):
        gs.minimize(gs.Deterministic(jitted), X0, gs.GFM(0.01, 0.01), stop=EachStep(2.0), max_evals=40, compiled=True)


@pytest.mark.parametrize("scale", [None, 4.0])
def test_the_point_that_met_it_is_the_answer_in_the_users_coordinates(scale):
    criterion = EachStep(2.5, by_points=True)
    res = gs.minimize(plain, X0, gs.GFM(0.01, 0.01), stop=criterion, max_evals=4000, rng=0, x_scale=scale)
    np.testing.assert_array_equal(res.x, criterion.point)
    assert res.fun == plain(criterion.point) < 2.5


INTERRUPTED = """
import os, signal, threading, time
import numpy as np, goldstein as gs
gs.minimize, gs.GFM  # names are fetched when they are first asked for
threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
oracle = gs.Deterministic(lambda x: float(abs(x).sum()))
res = gs.minimize(oracle, np.ones(3), gs.GFM(0.01, 0.01), max_evals=2000, rng=0, {hook}=lambda _: time.sleep(60) or 0.0)
print(res.status.name, time.monotonic() - begun < 30)
"""


@pytest.mark.parametrize("hook", ["callback", "monitor"])
def test_ctrl_c_ends_a_hook_that_takes_long(hook):
    program = INTERRUPTED.replace("{hook}", hook)
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert out.stdout.split() == ["INTERRUPTED", "True"], out.stderr


@njit
def slow(x):
    total = 0.0
    for k in range(300_000):
        total += np.sin(k * x[0])
    return np.abs(x).sum() + 1e-12 * total


def test_ctrl_c_need_not_wait_for_a_whole_chunk_of_slow_values():
    gs.minimize(gs.Deterministic(slow), X0, gs.GFM(0.01, 0.01), max_evals=20, rng=0, compiled=True)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    res = gs.minimize(gs.Deterministic(slow), X0, gs.GFM(0.01, 0.01), max_evals=1_000_000, rng=0, compiled=True)
    timer.cancel()
    assert res.status is Status.INTERRUPTED
    assert 0 < res.nfev < 8192  # a chunk of these would take half a minute


def test_where_pieces_of_a_chunk_end_changes_nothing(monkeypatch):
    runs = []
    for seconds in (1e-9, 1e-4, 10.0):
        monkeypatch.setattr("goldstein.methods.kernel.PIECE_SECONDS", seconds)
        for method in (gs.GFM(0.1, 0.01, 3), gs.GFMPlus(0.1, 0.01, 5, 2), gs.ZOO2NC(0.5, 7), "two-point"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                res = gs.minimize(gs.Deterministic(jitted), X0, method, max_evals=6000, rng=0, compiled=True)
            runs.append((res.x.tolist(), res.fun, res.history.fun.tolist(), res.history.gradient_norm.tolist()))
    assert str(runs[:4]) == str(runs[4:8]) == str(runs[8:])


@pytest.mark.parametrize("method", [gs.GFM(0.01, 0.01), gs.GFMPlus(0.01, 0.01, 3, 2), gs.ZOO2NC(0.5, 5), "auto"])
def test_a_run_that_fails_is_resumed_as_it_ended(method, tmp_path):
    calls = [
        gs.minimize(lambda x: np.nan, X0, method, max_evals=3000, rng=0, journal=tmp_path / "run").nfev
        for _ in range(3)
    ]
    assert len(set(calls)) == 1


def test_half_precision_supports_nothing():
    oracle = gs.Deterministic(lambda x: float(np.float16(3 + abs(x[0]))))
    assert gs.certify(oracle, [0.02], 1e-4, 0.5, rng=0).answer == "not shown"


def test_a_sampler_may_return_its_own_buffer_and_a_gradient_may_write_into_it():
    data = np.random.default_rng(0).normal(size=(5000, 3))

    def sampling(copy):
        buffer = np.empty((5000, 3))

        def sample(rng, k):
            buffer[:k] = rng.normal(size=(k, 3))
            return buffer[:k].copy() if copy else buffer[:k]

        return gs.Expectation(lambda x, xi: float(abs(x - xi).sum()), sample)

    for seed in range(4):
        one, two = (gs.minimize(sampling(copy), X0, max_evals=3000, rng=seed) for copy in (True, False))
        np.testing.assert_array_equal(one.x, two.x)

    def gradient(x, xi):
        xi -= x
        return -np.sign(xi)

    before = data.copy()
    oracle = gs.Expectation(lambda x, xi: float(abs(x - xi).sum()), lambda rng, k: data[:k], grad=gradient)
    gs.smoothed_gradient_norm(oracle, X0, 0.1, 200, rng=0, use="gradients")
    np.testing.assert_array_equal(data, before)


@njit
def raising(x):
    if x[0] < 0.9:
        raise ValueError("too small")
    return np.abs(x).sum()


def test_exceptions_are_caught_with_a_jitted_function_too():
    keys = {"max_evals": 1000, "rng": 0, "catch": ValueError}
    with_jit = gs.minimize(gs.Deterministic(raising), X0, gs.GFM(0.01, 0.01), **keys)
    without = gs.minimize(gs.Deterministic(raising.py_func), X0, gs.GFM(0.01, 0.01), **keys)
    assert (with_jit.nfail, with_jit.nfev) == (without.nfail, without.nfev)
    assert with_jit.nfail > 0


@pytest.mark.parametrize("compiled", [False, True])
def test_warnings_point_at_the_line_of_the_user(compiled):
    noisy = gs.Unreplayable(lambda x: float(abs(x).sum()) + 1e-9 * np.random.default_rng().normal())
    oracle = gs.Deterministic(njit(lambda x: 1e14 + np.abs(x).sum())) if compiled else noisy
    with pytest.warns(RuntimeWarning) as caught:
        gs.minimize(oracle, X0, gs.GFM(0.01, 0.01), max_evals=500, rng=0)
    assert {warning.filename for warning in caught} == {__file__}


def test_an_exception_of_a_worker_shows_where_it_came_from():
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError) as raised:
        gs.minimize(gs.Deterministic(culprit), X0, gs.GFM(0.1, 0.1, 4), max_evals=50, rng=0, workers=pool)
    assert any("in culprit" in note for note in raised.value.__notes__)


def culprit(x):
    return 1 / 0


def test_calls_are_counted_when_several_workers_raise():
    lock, calls = threading.Lock(), [0]

    def f(x):
        with lock:
            calls[0] += 1
        time.sleep(0.001)
        if abs(x[0]) > 1.05:
            raise ValueError("too far")
        return float(abs(x).sum())

    for seed in range(5):
        calls[0] = 0
        with ThreadPoolExecutor(3) as pool, pytest.raises(ValueError, match="too far") as raised:
            gs.minimize(gs.Deterministic(f), X0, gs.GFM(0.1, 0.05, 8), max_evals=5000, rng=seed, workers=pool)
        assert raised.value.result.nfev == calls[0]


def test_a_step_handed_out_is_no_view_of_the_run():
    run = gs.GFM(0.1, 0.01).start(X0, rng=0)
    query = run.ask()
    step = run.tell(query, np.abs(query.points).sum(axis=1))
    step.x[:] = 77
    step.iterate[:] = 77
    assert abs(run.x).max() < 2


def test_a_method_may_be_defined_again_as_in_a_notebook(monkeypatch):
    monkeypatch.setattr(registry, "METHODS", {**METHODS})
    monkeypatch.setattr(registry, "_FROM_SCALE", {**registry._FROM_SCALE})

    def cell():
        @gs.register
        @dataclass(frozen=True)
        class Stay(gs.Method):
            name: ClassVar[str] = "stay"

            def init(self, x, context):
                return MethodState(x)

            def ask(self, state, context, limit):
                return gs.Query(state.x[None])

            def tell(self, state, context, query, values):
                return state.make_step(state.x)

        return Stay

    first = cell()
    second = cell()
    assert registry.METHODS["stay"] is second
    assert second is not first
    with pytest.raises(ValueError, match="another method"):
        gs.register(gs.GFM, "gfm+")


@pytest.mark.parametrize("method", ["gfm", "zo-o2nc", "o2nc", "singd", gs.O2NC(0.5, 7), gs.GFM(0.01, 0.1), "auto"])
@pytest.mark.parametrize("scale", [None, 3.0, [0.1, 7.0, 1.3]])
def test_no_query_and_no_answer_leaves_the_box_by_rounding(method, scale):
    lower, upper = np.array([0.1, -0.3, 0.7]), np.array([1.1, 0.9, 2.3])
    inside = []

    def f(x):
        inside.append((x >= lower).all() and (x <= upper).all())
        return float(abs(x - 0.05).sum())

    oracle = gs.Deterministic(f, grad=lambda x: np.sign(x - 0.05))
    keys = {"bounds": list(zip(lower, upper, strict=True)), "x_scale": scale, "max_evals": 600, "rng": 0}
    res = gs.minimize(oracle, [0.5, 0.5, 1.0], method, **keys)
    assert all(inside)
    assert (res.x >= lower).all()
    assert (res.x <= upper).all()


def test_an_attack_leaves_its_method_as_small_as_it_was():
    from goldstein.attack import SignAveraging, attack

    method = SignAveraging()
    before = len(pickle.dumps(method))
    attack(
        lambda x: np.stack([x.sum(axis=(1, 2)), -x.sum(axis=(1, 2))], 1), np.full((2, 8, 8), 0.5), [0, 0], method=method
    )
    assert len(pickle.dumps(method)) == before


def test_ctrl_c_in_one_of_many_runs_is_meant_for_all():
    calls = [0]

    def f(x):
        calls[0] += 1
        if calls[0] == 150:
            raise KeyboardInterrupt
        return float(abs(x).sum())

    runs = gs.minimize_many(gs.Deterministic(f), X0, gs.GFM(0.1, 0.01), seeds=5, workers=1, max_evals=100)
    assert [run.status for run in runs] == [Status.MAX_EVALS, Status.INTERRUPTED]


def test_a_monitor_cannot_stop_a_run():
    def monitor(x):
        raise StopIteration

    with pytest.raises(RuntimeError, match="monitor"):
        gs.minimize(plain, X0, gs.GFM(0.1, 0.1), max_evals=50, rng=0, monitor=monitor)
