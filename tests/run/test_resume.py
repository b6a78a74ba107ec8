"""A resumed run equals the uninterrupted one bit for bit; tests/run/test_journal.py is about the file itself.

This file is also the program of the other processes that its tests start: `python test_resume.py rest folder`.
"""

import functools
import json
import shutil
import signal
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs
from goldstein import Journal, Status
from goldstein.methods import resolve
from goldstein.steps import HalveOnPlateau, InverseSqrt, LinearDecay

pytestmark = [
    pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:The first phase of:RuntimeWarning"),  # it is longer than half a run
]
X0 = np.array([1.0, -0.5, 0.25, 2.0])
HALF = 30

RULES = {
    "constant": 0.01,
    "sqrt": InverseSqrt(0.05),
    "plateau": HalveOnPlateau(0.02, patience=8),
    "decay": LinearDecay(0.02, iterations=50),
    "horizon": LinearDecay(0.02),
}
METHODS = {
    "gfm": lambda step: gs.GFM(0.1, step, 2),
    "gfm-loo": lambda step: gs.GFM(0.1, step, 4, estimator="loo", directions="orthogonal"),
    "gfm+": lambda step: gs.GFMPlus(0.1, step, 4, 2),
    "ws-gfm": lambda step: gs.WarmStart(gs.GFM(0.05, step), gs.GFM(0.1, step, 2), iterations=20),
    "ws-gfm+": lambda step: gs.WarmStart(gs.GFM(0.05, step), gs.GFMPlus(0.1, step, 4, 2), iterations=40),
    "ws-half": lambda step: gs.WarmStart(gs.GFM(0.05, step), gs.GFMPlus(0.1, step, 4, 2)),
}
METHODS_WITHOUT_RULE = {
    "auto": lambda step: resolve("auto", {}),
    "gfm by name": lambda step: resolve("gfm", {}),
    "ws-gfm+ by name": lambda step: resolve("ws-gfm+", {}),
    "zo-o2nc": lambda step: gs.ZOO2NC(0.5, 7, batch_size=2),
    "o2nc": lambda step: gs.O2NC(0.5, 7),
}
OUTPUTS = [None, "average", "random", "best"]


def value(x, xi=0, more=0.0) -> float:
    return float(np.abs(x - 0.1 * np.sin(xi + np.arange(x.size))).sum() + np.sin(7 * xi))


def gradient(x, xi=0):
    return np.sign(x - 0.1 * np.sin(xi + np.arange(x.size)))


FUNCTIONS = {
    "bare": value,
    "deterministic": gs.Deterministic(value, grad=gradient),
    "sum": gs.FiniteSum(value, 1000, grad=gradient),
    "expectation": gs.Expectation(value, lambda rng, k: rng.normal(size=k)),
    "seeded": gs.Seeded(value),
}


def _cases() -> dict[str, tuple[gs.Method, str | None, str, str]]:
    """Return every method × step rule × output rule; how the first half ends and the function take turns."""
    cases = {}
    for (m, method), (r, rule), (o, output) in product(*map(enumerate, (METHODS, RULES, OUTPUTS))):
        knows_the_end = rule == "horizon" or method == "ws-half"
        how = ("evals" if knows_the_end else "limit", "callback")[(m + r + o) % 2]
        function = list(FUNCTIONS)[(m + r + 2 * o) % len(FUNCTIONS)]
        cases[f"{method}-{rule}-{output}-{how}-{function}"] = METHODS[method](RULES[rule]), output, how, function
    for (method, make), output, how in product(METHODS_WITHOUT_RULE.items(), OUTPUTS, ("callback", "evals")):
        if not (make(None).needs.gradients and output == "best"):  # gradients do not tell which iterate is best
            cases[f"{method}-{output}-{how}-sum"] = make(None), output, how, "sum"
    return cases


CASES = _cases()


def stop_halfway(intermediate_result) -> None:
    if intermediate_result.nit >= HALF:
        raise StopIteration


def play(case: str, part: str, path: Path | None = None) -> dict[str, str]:
    """Run the whole of a case, its first half, or the rest of it; halves end by the limit or by the callback."""
    method, output, how, function = CASES[case]
    limits = {"max_evals": 301} if how == "evals" else {"max_iter": 2 * HALF}
    if part == "half" and how == "limit":
        limits = {"max_iter": HALF}
    callback = stop_halfway if part == "half" and how != "limit" else None
    return summary(
        gs.minimize(FUNCTIONS[function], X0, method, output=output, callback=callback, journal=path, rng=5, **limits)
    )


def summary(res: gs.Result) -> dict[str, str]:
    """Return everything in a result, to the last bit."""
    parts = {name: repr(res[name]) for name in ("fun", "fun_stderr", "nfev", "nfev_diagnostic", "ngev", "nit", "nfail")}
    parts |= {"x": res.x.tobytes().hex(), "status": res.status.name, "message": res.message}
    return parts | {f"history.{name}": column.tobytes().hex() for name, column in res.history.items()}


def other_process(*args: object, **kwargs) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **kwargs)


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """The rest of every case, run by another process from the checkpoints that this one left halfway."""
    folder = tmp_path_factory.mktemp("halves")
    for case in CASES:
        play(case, "half", folder / case)
    answer = other_process("rest", folder)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.mark.parametrize("case", CASES)
def test_a_run_resumed_in_another_process_equals_the_uninterrupted_one(case, resumed):
    assert resumed[case] == play(case, "whole")


@pytest.mark.parametrize("function", ["bare", "sum"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_every_journal_on_the_way_leads_to_the_same_end(tmp_path, function, output):
    """With its snapshot or without: a snapshot is only a cache."""
    path = tmp_path / "run"
    copies = []

    def keep(intermediate_result):
        copy = shutil.copy(path, tmp_path / str(len(copies)))
        if len(copies) % 2 and (tmp_path / "run.snapshot").exists():
            shutil.copy(tmp_path / "run.snapshot", f"{copy}.snapshot")
        copies.append(copy)

    settings = {"max_evals": 2000, "stop": gs.stop.Target(2.2, samples=20), "output": output, "rng": 0}
    method = gs.GFM(0.1, 0.01, 2)
    res = gs.minimize(FUNCTIONS[function], X0, method, journal=Journal(path, snapshots=0), callback=keep, **settings)
    assert res.status is Status.CRITERION or output == "random"
    assert res.nfev_diagnostic > 1
    assert len(copies) > 5
    for copy in [copies[0], *copies[len(copies) // 2 :][:2], *copies[-4:]]:
        again = gs.minimize(FUNCTIONS[function], X0, method, journal=copy, **settings)
        assert summary(again) == summary(res)


@pytest.mark.parametrize("case", [case for case in CASES if "-plateau-" in case])
def test_a_finished_run_that_is_started_again_gives_the_same_result(case, tmp_path):
    once = play(case, "whole", tmp_path / "run.journal")
    assert play(case, "rest", tmp_path / "run.journal") == once


def test_a_run_that_reached_its_target_does_not_go_on_when_started_again(tmp_path):
    keys = {"max_evals": 4000, "stop": gs.stop.Target(2.2), "rng": 0, "journal": tmp_path / "run.journal"}
    first, again = (summary(gs.minimize(FUNCTIONS["bare"], X0, gs.GFM(0.1, 0.01), **keys)) for _ in range(2))
    assert first["status"] == "CRITERION"
    assert again == first


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_seed_is_in_the_journal(tmp_path, output):
    method = gs.GFM(0.1, 0.01)
    path = tmp_path / "run"
    whole = gs.minimize(FUNCTIONS["sum"], X0, method, max_iter=200, output=output, rng=1)
    keys = {"max_iter": 200, "output": output, "journal": path}
    gs.minimize(FUNCTIONS["sum"], X0, method, callback=stop_halfway, rng=1, **keys)
    for other in (2, np.random.default_rng(3)):
        with pytest.raises(ValueError, match="a run with another seed: use the same one, or none"):
            gs.minimize(FUNCTIONS["sum"], X0, method, rng=other, **keys)
    assert summary(gs.minimize(FUNCTIONS["sum"], X0, method, rng=None, **keys)) == summary(whole)
    assert summary(gs.minimize(FUNCTIONS["sum"], X0, method, rng=1, **keys)) == summary(whole)


@pytest.mark.parametrize("method", [gs.GFM(0.1, 0.01, 10), gs.GFMPlus(0.1, 0.01, 5, 4)], ids=["gfm", "gfm+"])
@pytest.mark.parametrize("half", range(200, 216, 3))
def test_a_budget_can_be_raised_wherever_it_ended(tmp_path, method, half):
    whole = gs.minimize(FUNCTIONS["bare"], X0, method, max_evals=500, rng=0)
    gs.minimize(FUNCTIONS["bare"], X0, method, max_evals=half, rng=0, journal=tmp_path / "run.journal")
    rest = gs.minimize(FUNCTIONS["bare"], X0, method, max_evals=500, rng=0, journal=tmp_path / "run.journal")
    assert (rest.x == whole.x).all()
    assert (rest.nfev, rest.nit, rest.fun) == (whole.nfev, whole.nit, whole.fun)


@pytest.mark.parametrize("function", ["deterministic", "sum"])
@pytest.mark.parametrize("name", ["max_evals", "max_iter"])
def test_a_smaller_limit_is_refused(tmp_path, function, name):
    path = tmp_path / "run"
    limits = {"max_evals": 500, "max_iter": 200}
    gs.minimize(FUNCTIONS[function], X0, gs.GFM(0.1, 0.01), rng=0, journal=path, **limits)
    with pytest.raises(ValueError, match=rf"{name} must be at least {limits[name]}, as in .*, got 100"):
        gs.minimize(FUNCTIONS[function], X0, gs.GFM(0.1, 0.01), rng=0, journal=path, **(limits | {name: 100}))


BIT_GENERATORS = ["PCG64", "PCG64DXSM", "SFC64", "MT19937", "Philox"]


@pytest.mark.parametrize("bits", BIT_GENERATORS)
def test_any_bit_generator_of_numpy_can_be_resumed(tmp_path, bits):
    def rng():
        return np.random.Generator(getattr(np.random, bits)(7))

    keys = {"max_iter": 2 * HALF, "output": "random"}
    whole = gs.minimize(FUNCTIONS["sum"], X0, METHODS["gfm+"](0.01), rng=rng(), **keys)
    keys["journal"] = tmp_path / "run.journal"
    gs.minimize(FUNCTIONS["sum"], X0, METHODS["gfm+"](0.01), rng=rng(), callback=stop_halfway, **keys)
    assert summary(gs.minimize(FUNCTIONS["sum"], X0, METHODS["gfm+"](0.01), rng=rng(), **keys)) == summary(whole)


@pytest.mark.parametrize("bits", BIT_GENERATORS)
def test_the_same_seed_gives_the_same_result_however_numpy_prints(bits):
    def run():
        rng = np.random.Generator(getattr(np.random, bits)(7))
        return summary(gs.minimize(FUNCTIONS["sum"], X0, gs.GFM(0.1, 0.01), max_evals=200, output="random", rng=rng))

    usual = run()
    with np.printoptions(threshold=2, linewidth=20):
        assert run() == usual


def half_of(x):
    return 0.5 * x


OTHERS = {
    "method": {"method": gs.GFM(0.2, 0.01)},
    "x0": {"x0": X0 + 1},
    "oracle": {"fun": FUNCTIONS["deterministic"]},
    "args": {"fun": gs.FiniteSum(value, 1000, args=(3.0,))},
    "output": {"output": "average"},
    "x_scale": {"x_scale": 2.0, "x0": 2 * X0},
    "bounds": {"bounds": [(-3, 3)] * 4},
    "stop": {"stop": gs.stop.Target(-100.0)},
    "stationarity": {"stationarity": (0.1, 0.2)},
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_journal_of_another_run_is_refused_in_one_sentence(tmp_path, name):
    path = tmp_path / "run"
    base = {"fun": FUNCTIONS["sum"], "x0": X0, "method": gs.GFM(0.1, 0.01), "max_iter": 40, "rng": 0}
    gs.minimize(**base, journal=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"the journal of another run: its {name} was ") as caught:
        gs.minimize(**(base | OTHERS[name]), journal=path)
    assert str(caught.value).count("\n") == 0
    assert path.read_bytes() == before


def test_another_projection_callable_is_refused(tmp_path):
    path = tmp_path / "run"
    base = {"fun": FUNCTIONS["sum"], "x0": X0, "method": gs.GFM(0.1, 0.01), "max_iter": 40, "rng": 0, "journal": path}
    gs.minimize(**base, projection=half_of)
    with pytest.raises(ValueError, match="the journal of another run: its bounds was"):
        gs.minimize(**base, projection=np.abs)


def test_steps_planned_for_a_budget_are_not_planned_again_for_another(tmp_path):
    path = tmp_path / "run"
    method = gs.GFM(0.1, LinearDecay(0.01))
    gs.minimize(FUNCTIONS["sum"], X0, method, max_iter=40, rng=0, journal=path)
    with pytest.raises(
        ValueError, match="max_iter must be 40, for which the steps of this run were planned, got 41: use extend=True"
    ):
        gs.minimize(FUNCTIONS["sum"], X0, method, max_iter=41, rng=0, journal=path)


@pytest.mark.parametrize("function", ["bare", "sum"])
def test_ctrl_c_returns_the_run_so_far_and_saves_it(tmp_path, function):
    path = tmp_path / "run.journal"
    command = [sys.executable, __file__, "interrupted", str(path), function]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "inside the function\n"
        process.send_signal(signal.SIGINT)
        answer = json.loads(process.communicate(timeout=60)[0])
    assert answer["status"] == "INTERRUPTED"
    assert answer["nfev"] == answer["calls"] == 47
    assert not answer["success"]
    assert answer["nit"] > 5
    whole = gs.minimize(FUNCTIONS[function], X0, METHODS["gfm"](0.01), rng=0, max_evals=301)
    rest = gs.minimize(FUNCTIONS[function], X0, METHODS["gfm"](0.01), rng=0, max_evals=301, journal=path)
    assert summary(rest) == summary(whole)


@pytest.mark.parametrize("at", [3, 10, 55, "callback", "last value"])
@pytest.mark.parametrize("limits", [{"max_iter": 2 * HALF}, {"max_evals": 301}], ids=["max_iter", "max_evals"])
@pytest.mark.parametrize(
    "make", [*METHODS.values(), *METHODS_WITHOUT_RULE.values()], ids=[*METHODS, *METHODS_WITHOUT_RULE]
)
def test_wherever_ctrl_c_hits_the_resumed_run_equals_the_uninterrupted_one(tmp_path, make, limits, at):
    calls, path = 0, tmp_path / "run.journal"
    method, keys = make(0.01), {"rng": 0, "output": "average"} | limits
    whole = gs.minimize(FUNCTIONS["sum"], X0, method, **keys)
    at = whole.nfev + whole.ngev if at == "last value" else at

    @functools.wraps(value)  # whose values are in the journal
    def interrupted(x, i):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return value(x, i)

    def callback(intermediate_result):
        if at == "callback" and intermediate_result.nit >= 10:
            raise KeyboardInterrupt

    oracle = gs.FiniteSum(interrupted, 1000, grad=lambda x, i: interrupted(x, i) * 0 + gradient(x, i))
    res = gs.minimize(oracle, X0, method, callback=callback, journal=path, **keys)
    assert res.status is Status.INTERRUPTED
    assert res.nfev + res.ngev == calls
    assert path.exists()
    assert summary(gs.minimize(FUNCTIONS["sum"], X0, method, journal=path, **keys)) == summary(whole)


def test_ctrl_c_while_a_target_is_confirmed_does_not_lose_the_confirmation(tmp_path):
    method, keys = gs.GFM(0.1, 0.01, 2), {"max_evals": 4000, "stop": gs.stop.Target(2.2, samples=20), "rng": 0}
    whole = gs.minimize(FUNCTIONS["sum"], X0, method, **keys)
    assert whole.success
    for at in range(20, whole.nfev, 9):  # every confirmation is hit twice
        calls, path = 0, tmp_path / f"{at}.npz"

        @functools.wraps(value)
        def interrupted(x, i, at=at):
            nonlocal calls
            calls += 1
            if calls == at:
                raise KeyboardInterrupt
            return value(x, i)

        gs.minimize(gs.FiniteSum(interrupted, 1000), X0, method, journal=path, **keys)
        assert summary(gs.minimize(FUNCTIONS["sum"], X0, method, journal=path, **keys)) == summary(whole)


def _rest(folder: str) -> None:
    print(json.dumps({case: play(case, "rest", Path(folder) / case) for case in CASES}))


def _interrupted(path: str, function: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told its children to ignore it
    calls = 0

    @functools.wraps(value)  # whose values are in the journal
    def slow(*args):
        nonlocal calls
        calls += 1
        if calls == 47:
            print("inside the function", flush=True)
            time.sleep(60)
        return value(*args)

    fun = gs.FiniteSum(slow, 1000) if function == "sum" else slow
    res = gs.minimize(fun, X0, METHODS["gfm"](0.01), max_evals=301, rng=0, journal=path)
    print(json.dumps({"calls": calls, "status": res.status.name} | {k: res[k] for k in ("nfev", "nit", "success")}))


if __name__ == "__main__":
    {"rest": _rest, "interrupted": _interrupted}[sys.argv[1]](*sys.argv[2:])
