"""The compiled loops do what the plain loop does, with the same random numbers."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from numba import njit
from scipy import sparse

import goldstein as gs
from goldstein.methods.method import Chunk, Context, Run, Unsupported
from goldstein.problems import capped_l1_svm

DELTA = 1e-3


@njit
def deviation(x, i, rows, targets):
    total = -targets[i]
    for j in range(x.size):
        total += rows[i, j] * x[j]
    return abs(total)


@njit
def l1(x, scale):
    total = 0.0
    for j in range(x.size):
        total += abs(x[j] - scale)
    return total


@njit
def failing(x, i, every, edge):
    """|x_j| that fails for one component in `every` where the coordinate lies above the edge."""
    value = x[i % x.size]
    return np.nan if i % every == 0 and value > edge else abs(value)


@njit
def zigzag(x, i):
    """A triangle wave of slope ±1 and period 2 along one coordinate: far steps see unrelated slopes."""
    return abs((x[i % x.size] + 0.37 * i) % 2 - 1)


def least_deviations(n=200, d=7):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(n, d))
    return gs.FiniteSum(deviation, n, args=(rows, rows.sum(axis=1))), np.zeros(d)


def a9a_shaped():
    """An SVM with the shape of a9a, but for fewer rows: 123 features and a bias, 14 ones a row."""
    rng = np.random.default_rng(0)
    columns = np.argsort(rng.random((2000, 123)), axis=1)[:, :14].ravel()
    features = sparse.csr_array((np.ones(columns.size), columns, np.arange(0, columns.size + 1, 14)), shape=(2000, 123))
    return capped_l1_svm(features, np.where(rng.random(2000) < 0.5, 1.0, -1.0))


METHODS = {
    "gfm": gs.GFM(DELTA, 0.003),
    "gfm, batch": gs.GFM(DELTA, 0.003, 7),
    "gfm, decay": gs.GFM(DELTA, gs.steps.LinearDecay(0.01), 3),
    "gfm, sqrt": gs.GFM(DELTA, gs.steps.InverseSqrt(0.01)),
    "gfm+": gs.GFMPlus(0.1, 0.003, 5, 3),
    "gfm+, b'": gs.GFMPlus(0.1, 0.003, 4, 2, 11),
    "gfm+, m=1": gs.GFMPlus(0.1, 0.003, 1, 2, 5),
    "ws-gfm": gs.WarmStart(gs.GFM(DELTA, 0.003), gs.GFM(0.01, 0.002, 2)),
    "ws-gfm+": gs.WarmStart(gs.GFM(DELTA, 0.003), gs.GFMPlus(0.1, 0.003, 5, 3), iterations=37),
    "zo-o2nc": gs.ZOO2NC(0.5, 10, batch_size=2),
    "zo-o2nc, ogd": gs.ZOO2NC(0.5, 7, 0.003, rho=0.2, learner="ogd"),
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("output", [None, "average", "random"])
@pytest.mark.parametrize("limit", [{"max_evals": 1501}, {"max_iter": 150}])
def test_both_paths_give_the_same_run(method, output, limit):
    oracle, x0 = least_deviations()
    if isinstance(method, gs.ZOO2NC) and (output == "average" or (output == "random" and "max_evals" in limit)):
        with pytest.raises(ValueError, match=f"zo-o2nc does not answer by the rule {output!r}"):
            gs.minimize(oracle, x0, method, output=output, compiled=True, **limit)
        return
    fast, slow = (
        gs.minimize(oracle, x0, method, rng=3, output=output, compiled=compiled, **limit) for compiled in (True, False)
    )
    np.testing.assert_allclose(fast.x, slow.x, atol=1e-9)
    assert (fast.nfev, fast.nfev_diagnostic, fast.nit, fast.status) == (
        slow.nfev,
        slow.nfev_diagnostic,
        slow.nit,
        slow.status,
    )
    assert fast.fun == pytest.approx(slow.fun, abs=1e-9)
    for name in ("nfev", "nit", "fun", "gradient_norm", "step"):
        np.testing.assert_allclose(fast.history[name], slow.history[name], atol=1e-6, err_msg=name)


@njit
def litter(d):
    """Leave NaN where the next arrays of d numbers will be put."""
    left = [np.full(d, np.nan) for _ in range(100)]
    return len(left)


def test_what_lies_in_memory_does_not_matter():
    oracle, x0 = least_deviations()
    keys = {"rng": 3, "output": "average", "max_evals": 61, "compiled": True}
    gs.minimize(oracle, x0, METHODS["gfm"], **keys)
    for _ in range(20):
        litter(x0.size)
        assert np.isfinite(gs.minimize(oracle, x0, METHODS["gfm"], **keys).x).all()


BY_NAME = {
    "gfm": {},
    "gfm, batch": {"batch_size": 4},
    "gfm, step": {"step_size": 0.003},
    "gfm+": {},
    "ws-gfm": {},
    "ws-gfm+": {},
    "one-phase": {},
    "zo-o2nc": {},
}


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("fails", [False, True], ids=["", "failing"])
def test_a_method_by_name_is_compiled_once_probing_is_over(name, fails, monkeypatch):
    oracle, x0 = (gs.FiniteSum(failing, 50, args=(5, 0.5)), np.ones(4)) if fails else least_deviations()
    keys = {"method": name.split(",")[0], "options": BY_NAME[name], "rng": 3, "max_evals": 701}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        slow = gs.minimize(oracle, x0, **keys, compiled=False)
        asked = []
        plain = oracle.evaluate
        monkeypatch.setattr(oracle, "evaluate", lambda query, *more: asked.append(len(query)) or plain(query, *more))
        fast = gs.minimize(oracle, x0, **keys, compiled=True)
    assert sum(asked) < 200 < slow.nfev  # probes, remainders and the answer's value
    assert (fast.nfev, fast.nfail, fast.nit) == (slow.nfev, slow.nfail, slow.nit)
    np.testing.assert_allclose(fast.x, slow.x, atol=1e-6)
    np.testing.assert_allclose(fast.history["step"], slow.history["step"], rtol=1e-4)


@pytest.mark.parametrize("method", [gs.GFM(DELTA, 0.001), gs.GFMPlus(DELTA, 0.001, 10, 5)], ids=["gfm", "gfm+"])
def test_on_a9a_shaped_data_every_chunk_of_a_hundred_steps_agrees_to_1e_9(method):
    svm = a9a_shaped()
    kernel = method.kernel(svm.compiled)
    shared = Run(method, svm.x0, Context(np.random.default_rng(5), svm.oracle.sample))
    for _ in range(20):
        state, context = _copied(shared)
        while (left := shared.nit + 100 - state.nit) > 0:
            planned = kernel.plan(state, context, None, np.inf, left)
            bulk = kernel.run(state, context, Chunk(planned, None, None, lambda: False))
        for _ in range(100):
            query = shared.ask()
            shared.tell(query, svm.oracle.evaluate(query).values)
        assert (state.nit, context.nfev) == (shared.nit, shared.nfev)
        assert (bulk.step.x == state.x).all()
        np.testing.assert_allclose(state.x, shared.x, rtol=0, atol=1e-9)
        assert context.rng.bit_generator.state == shared.context.rng.bit_generator.state


def _copied(run):
    """Return the state of a run and a context with a generator of its own in the same state."""
    from goldstein.state import generator, pack, unpack

    arrays = {}
    structure = pack(run.state, arrays)
    state = unpack(structure, {name: array.copy() for name, array in arrays.items()})
    return state, Context(generator(run.context.rng.bit_generator.state), run.context.sample, nfev=run.nfev)


@pytest.mark.parametrize("name", ["gfm, batch", "gfm+", "zo-o2nc"])
def test_failed_values_are_dropped_alike(name):
    method = METHODS[name]
    oracle, x0 = gs.FiniteSum(failing, 50, args=(5, 0.5)), np.ones(4)
    fast, slow = (gs.minimize(oracle, x0, method, rng=1, max_evals=900, compiled=c) for c in (True, False))
    assert slow.nfail > 20
    assert fast.nfail == slow.nfail
    np.testing.assert_allclose(fast.x, slow.x, atol=1e-9)


def test_a_function_that_always_fails_stops_the_compiled_run_early():
    oracle = gs.FiniteSum(failing, 50, args=(1, -np.inf))
    res = gs.minimize(oracle, np.ones(4), METHODS["gfm"], rng=1, max_evals=1_000_000, compiled=True)
    assert res.status is gs.Status.FAILING
    assert res.nfev < 50_000
    assert (res.x == 1).all()


def test_two_point_takes_the_same_walk_until_rounding_parts_the_ways():
    oracle, x0 = gs.Deterministic(l1, args=(1.0,)), np.zeros(5)
    fast, slow = (gs.minimize(oracle, x0, "two-point", rng=0, max_evals=600, compiled=c) for c in (True, False))
    assert (fast.nfev, fast.nit) == (slow.nfev, slow.nit)
    np.testing.assert_allclose(fast.x, slow.x, atol=1e-6)


def test_the_compiled_path_is_chosen_by_itself_and_can_be_refused(monkeypatch):
    called = []

    def kernel(*args):
        called.append(args)
        raise Unsupported("Not today.")

    monkeypatch.setattr(gs.GFM, "kernel", kernel)
    oracle, x0 = least_deviations()
    gs.minimize(oracle, x0, METHODS["gfm"], max_evals=20, rng=0)
    gs.minimize(oracle, x0, METHODS["gfm"], max_evals=20, rng=0, compiled=False)
    assert len(called) == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"fun": gs.FiniteSum(lambda x, i: 0.0, 5)}, "jitted by numba"),
        ({"fun": gs.Seeded(l1, args=(1.0,))}, "jitted by numba"),
        ({"bounds": [(-2, 2)] * 7}, "neither bounds"),
        ({"x_scale": 2.0}, "neither bounds"),
        ({"output": "best"}, "best iterate"),
        ({"method": gs.GFM(0.1, gs.steps.HalveOnPlateau(0.1))}, "HalveOnPlateau looks at values"),
        ({"method": gs.GFM(0.1, 0.1, 4, estimator="loo")}, "central differences only"),
        ({"method": gs.GFM(0.1, 0.1, 4, directions="orthogonal")}, "independent directions"),
        ({"method": gs.ZOO2NC(0.5, 10), "output": "average"}, "zo-o2nc does not answer by the rule 'average'"),
        (
            {"method": gs.WarmStart(gs.ZOO2NC(0.5, 10), gs.GFM(0.1, 0.1))},
            "keeps no average to start the second phase from",
        ),
    ],
)
def test_why_a_run_cannot_be_compiled_is_said_when_it_is_forced(change, sentence):
    oracle, x0 = least_deviations()
    keys = {"fun": oracle, "x0": x0, "method": METHODS["gfm"], "max_evals": 50, **change}
    with pytest.raises(ValueError, match=sentence):
        gs.minimize(**keys, compiled=True)


def test_a_compiled_run_resumes_bit_for_bit(tmp_path):
    oracle, x0 = least_deviations()
    method, keys = METHODS["gfm+"], {"rng": 0, "compiled": True}
    gs.minimize(oracle, x0, method, max_iter=77, journal=tmp_path / "run.npz", **keys)
    rest = gs.minimize(oracle, x0, method, max_iter=200, journal=tmp_path / "run.npz", **keys)
    assert (rest.x == gs.minimize(oracle, x0, method, max_iter=200, **keys).x).all()


@pytest.mark.parametrize("bits", ["PCG64", "SFC64", "Philox", "MT19937"])
def test_numba_and_numpy_draw_the_same_numbers(bits):
    @njit
    def draw(rng, n, indices, normals):
        for k in range(indices.size):
            indices[k] = rng.integers(0, n)
        for k in range(normals.size):
            normals[k] = rng.standard_normal()

    one, two = (np.random.Generator(getattr(np.random, bits)(3)) for _ in range(2))
    for n in (1, 7, 1000, 2**33):
        indices, normals = np.empty(5, np.int64), np.empty(15)
        draw(one, n, indices, normals)
        assert (indices == two.integers(0, n, size=5)).all()
        assert (normals == two.standard_normal((5, 3)).ravel()).all()


@pytest.mark.parametrize("oracle", [least_deviations()[0], gs.FiniteSum(lambda x, i: abs(x[i % 7] - 1), 50)])
def test_many_runs_are_the_runs_one_by_one(oracle):
    x0, seeds, done = np.zeros(7), [3, 1, 4], []
    many = gs.minimize_many(
        oracle, x0, METHODS["gfm"], seeds=seeds, max_evals=301, workers=2, done=lambda i, _: done.append(i)
    )
    for seed, result in zip(seeds, many, strict=True):
        assert (result.x == gs.minimize(oracle, x0, METHODS["gfm"], rng=seed, max_evals=301).x).all()
    assert sorted(done) == [0, 1, 2]
    assert many.x.shape == (3, 7)
    assert many.fun.shape == many.nfev.shape == (3,)
    assert many.history["fun"].shape == many.history["nfev"].shape
    assert (many.history["nfev"][:, -1] <= 301).all()


def test_many_starts_go_with_many_seeds_and_mistakes_are_said():
    starts = np.arange(6.0).reshape(3, 2)
    oracle = gs.Deterministic(lambda x: float(abs(x).sum()))
    many = gs.minimize_many(oracle, starts, gs.GFM(0.1, 1e-9), seeds=3, max_evals=20, workers=1)
    np.testing.assert_allclose(many.x, starts, atol=1e-6)
    for keys, sentence in [
        ({"seeds": 2}, "3 rows for 2 seeds"),
        ({"seeds": []}, "at least one seed"),
        ({"seeds": 3, "rng": 1}, "takes no rng"),
        ({"seeds": 3, "workers": 0}, "must be a positive number"),
    ]:
        with pytest.raises((TypeError, ValueError), match=sentence):
            gs.minimize_many(oracle, starts, gs.GFM(0.1, 0.1), max_evals=20, **keys)


SECOND_PROCESS = """
import numpy as np, goldstein as gs
from numba import njit
from goldstein.compiled.gfm import gfm
@njit
def f(x, i, a):
    return abs(x[i % x.size] - a[i])
gs.minimize(gs.FiniteSum(f, 9, args=(np.ones(9),)), np.zeros(3), gs.GFM(0.1, 0.01), max_evals=100, rng=0, compiled=True)
print(sum(gfm.stats.cache_hits.values()), sum(gfm.stats.cache_misses.values()))
"""


def test_a_second_process_finds_the_loop_on_disk(tmp_path):
    import os

    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    counts = []
    for _ in range(2):
        out = subprocess.run([sys.executable, "-c", SECOND_PROCESS], capture_output=True, text=True, env=environment)
        assert out.returncode == 0, out.stderr
        counts.append(out.stdout.split())
    assert counts == [["0", "1"], ["1", "0"]]


def test_the_warning_of_gfm_plus_comes_from_the_compiled_path_too():
    oracle = gs.FiniteSum(zigzag, 50)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gs.minimize(oracle, np.zeros(5), gs.GFMPlus(1e-3, 5.0, 10, 5), max_evals=3000, rng=0, compiled=True)
    assert any("do not reduce variance" in str(w.message) for w in caught)


def test_a_kernel_takes_first_class_functions_and_jitted_ones_in_one_process():
    from goldstein.compiled.gfm import gfm
    from goldstein.compiled.tally import new_tally

    tally = new_tally()
    for oracle in (gs.Deterministic(l1, args=(1.0,)), gs.FiniteSum(failing, 50, args=(5, 0.5))):
        gs.minimize(oracle, np.ones(4), METHODS["gfm"], rng=1, max_iter=5, compiled=True)
    once = njit(gfm.py_func)  # as a study does that needs it inside another kernel
    x = np.ones(4)
    once(failing, (5, 0.5), np.random.default_rng(0), 50, x, np.empty(0), 0, np.full(3, 0.1), 1, 0.1, tally)
    assert not np.array_equal(x, np.ones(4))


@pytest.mark.parametrize("called_before", [False, True])
def test_a_function_of_float32_runs_compiled(called_before):
    @njit
    def single(x):
        return np.float32(np.abs(x - 1).sum())

    if called_before:
        single(np.zeros(3))
    for method in (gs.GFM(0.1, 0.01), gs.Sift(0.5)):
        res = gs.minimize(gs.Deterministic(single), np.zeros(3), method, max_evals=2000, rng=0, compiled=True)
        assert res.fun < 1.5


@pytest.mark.parametrize("method", [gs.GFM(0.1, 0.05), gs.Sift(0.5)], ids=["gfm", "sift"])
def test_an_exception_in_a_compiled_loop_has_a_point(method):
    @njit
    def breaks(x):
        if x[0] > 0.2:
            raise ValueError("too far")
        return np.abs(x - 1).sum()

    with pytest.raises(ValueError, match="too far") as caught:
        gs.minimize(gs.Deterministic(breaks), np.zeros(3), method, max_evals=20_000, rng=0, compiled=True)
    assert caught.value.point.shape == (3,)
    assert any("`.point` is the iterate" in note for note in caught.value.__notes__)
