"""Switches of GFM+ (PAGE, STORM) against slow transcriptions, and the one-phase method."""

import numpy as np
import pytest

import goldstein as gs
from goldstein.facts import Facts
from goldstein.methods.method import Context, Unsupported
from goldstein.methods.one_phase import OnePhase
from goldstein.state import pack
from tests.methods.test_algorithms import (
    ORACLES,
    X0,
    D,
    library_iterates,
    paper_batch,
    paper_estimate,
    paper_gfm,
    paper_warm_start,
    play,
    same,
)

PAGE = gs.GFMPlus(0.2, 0.03, epoch_length=4, batch_size=3, large_batch_size=10, restart="coin")
STORM = gs.GFMPlus(0.2, 0.03, epoch_length=4, batch_size=3, large_batch_size=10, momentum=0.3)
VARIANTS = {"page": PAGE, "storm": STORM}


# Theory 1.2, by loops over single numbers. PAGE takes its coin from the generator before the batch, and takes none at
# t = 0, where there is nothing to correct.


def paper_page(F, n, x, rng, delta, eta, T, m, b, large):
    iterates, d = [list(x)], len(x)
    for t in range(T):
        if t == 0 or rng.random() < 1 / m:
            v = paper_estimate(F, x, paper_batch(rng, large, d, n), delta)
        else:
            S = paper_batch(rng, b, d, n)
            here, before = paper_estimate(F, x, S, delta), paper_estimate(F, iterates[t - 1], S, delta)
            v = [v[j] + here[j] - before[j] for j in range(d)]
        x = [x[j] - eta * v[j] for j in range(d)]
        iterates.append(x)
    return iterates


def paper_storm(F, n, x, rng, delta, eta, T, a, b, large):
    iterates, d = [list(x)], len(x)
    for t in range(T):
        S = paper_batch(rng, b if t else large, d, n)
        here = paper_estimate(F, x, S, delta)
        if t == 0:
            v = here
        else:
            before = paper_estimate(F, iterates[t - 1], S, delta)
            v = [here[j] + (1 - a) * (v[j] - before[j]) for j in range(d)]
        x = [x[j] - eta * v[j] for j in range(d)]
        iterates.append(x)
    return iterates


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(("m", "b", "large"), [(4, 3, 10), (4, 3, None), (2, 5, 3), (1, 2, 6), (100, 2, 8)])
def test_page_tosses_a_coin_for_each_restart(oracle, m, b, large):
    """Also with b' < b, with m = 1 (always) and with a coin that hardly ever falls."""
    library, F, n = ORACLES[oracle]
    want = paper_page(F, n, list(X0), np.random.default_rng(3), 0.2, 0.03, 30, m, b, large or m * b)
    same(library_iterates(gs.GFMPlus(0.2, 0.03, m, b, large, restart="coin"), library, 30, seed=3), want)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(("a", "b", "large"), [(0.3, 3, 10), (0.01, 2, None), (0.9, 4, 1), (1, 3, 3)])
def test_storm_corrects_what_it_remembers(oracle, a, b, large):
    library, F, n = ORACLES[oracle]
    want = paper_storm(F, n, list(X0), np.random.default_rng(4), 0.2, 0.03, 30, a, b, large or 5 * b)
    same(library_iterates(gs.GFMPlus(0.2, 0.03, 5, b, large, momentum=a), library, 30, seed=4), want)


@pytest.mark.parametrize("oracle", ORACLES)
def test_storm_that_forgets_everything_is_mini_batch_gfm(oracle):
    library = ORACLES[oracle][0]
    gfm, storm = gs.GFM(0.1, 0.02, 6), gs.GFMPlus(0.1, 0.02, 1, batch_size=6, momentum=1)
    gfm, storm = (library_iterates(method, library, 30, seed=5) for method in (gfm, storm))
    np.testing.assert_array_equal(storm, gfm)


@pytest.mark.parametrize("oracle", ORACLES)
def test_storm_that_forgets_nothing_would_be_gfm_plus_without_restarts(oracle):
    """With a → 0 the two recursions agree, within an epoch that outlasts the run."""
    library = ORACLES[oracle][0]
    storm, plus = gs.GFMPlus(0.2, 0.03, 50, 3, 20, momentum=1e-14), gs.GFMPlus(0.2, 0.03, 50, 3, 20)
    same(*(library_iterates(method, library, 30, seed=6) for method in (storm, plus)))


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_warm_start_may_end_in_either(oracle, variant):
    library, F, n = ORACLES[oracle]
    first = {"delta": 0.05, "eta": 0.1, "T": 13, "b": 2}
    second = {"delta": 0.2, "eta": 0.03, "T": 17, "b": 3, "large": 10}
    second |= {"m": 4} if variant == "page" else {"a": 0.3}
    algorithm = paper_page if variant == "page" else paper_storm
    want = paper_warm_start(F, n, list(X0), np.random.default_rng(7), first, second, algorithm)
    method = gs.WarmStart(gs.GFM(0.05, 0.1, 2), VARIANTS[variant], iterations=13)
    assert method.name == "ws-gfm+"
    same(library_iterates(method, library, 30, seed=7), want)


def purposes(method, steps, seed):
    """Which of the steps took a large batch."""
    library = ORACLES["finite-sum"][0]
    context, large = Context(np.random.default_rng(seed), library.sample, facts=Facts(noisy=True)), []
    state = method.init(np.array(X0), context)
    for _ in range(steps):
        query = method.ask(state, context, None)
        large.append(query.aux.purpose == "large")
        method.tell(state, context, query, library.evaluate(query).values)
        context.nfev += len(query)
    return np.array(large)


@pytest.mark.parametrize("m", [2, 7])
def test_page_restarts_once_in_m_steps_on_average_and_without_a_rhythm(m):
    """Restarts, and restarts right after a restart, happen with probability 1/m. Error probability 2e-4 each."""
    large = purposes(gs.GFMPlus(0.1, 1e-4, m, 1, 2, restart="coin"), 3001, seed=8)
    assert large[0]
    for tosses in (large[1:], large[1:][large[:-1]]):
        error = np.sqrt((1 - 1 / m) / m / tosses.size)
        assert abs(tosses.mean() - 1 / m) < 4 * error


def test_storm_takes_one_large_batch():
    assert purposes(STORM, 200, seed=9).nonzero()[0].tolist() == [0]


@pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
def test_ask_leaves_the_state_alone(method):
    library = ORACLES["finite-sum"][0]
    run = method.start(X0, rng=10, sample=library.sample)
    for _ in range(10):
        arrays, again = {}, {}
        before = pack(run.state, arrays)
        run.ask()
        query = run.ask()  # a run that was stopped in the middle asks again
        assert pack(run.state, again) == before
        assert all((arrays[key] == again[key]).all() for key in arrays | again)
        run.tell(query, library.evaluate(query).values)


@pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
def test_ask_and_tell_is_minimize(method):
    library = ORACLES["finite-sum"][0]
    run = method.start(X0, rng=11, sample=library.sample)
    play(run, library, 25)
    result = gs.minimize(library, X0, method, max_iter=25, output="last", rng=11)
    np.testing.assert_array_equal(run.x, result.x)
    assert run.nfev == result.nfev - result.nfev_diagnostic


@pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
def test_a_resumed_run_equals_an_uninterrupted_one(method, tmp_path):
    library, file = ORACLES["finite-sum"][0], tmp_path / "run.npz"
    whole = gs.minimize(library, X0, method, max_iter=40, rng=12)
    gs.minimize(library, X0, method, max_iter=17, rng=12, journal=file)
    resumed = gs.minimize(library, X0, method, max_iter=40, rng=12, journal=file)
    np.testing.assert_array_equal(resumed.x, whole.x)
    assert (resumed.nfev, resumed.nit) == (whole.nfev, 40)


@pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
def test_an_iteration_that_fails_altogether_is_skipped(method):
    """Nothing of the state moves but the count, and a first large batch that failed is asked for again."""
    library = ORACLES["finite-sum"][0]
    run = method.start(X0, rng=13, sample=library.sample)
    query = run.ask()
    run.tell(query, np.full(len(query), np.nan))
    assert (run.nit, run.state.v) == (1, None)
    assert method.ask(run.state, run.context, None).aux.purpose == "large"
    run = method.start(X0, rng=13, sample=library.sample)
    play(run, library, 3)
    x, v, age = run.x.copy(), run.state.v.copy(), run.state.age
    query = run.ask()
    run.tell(query, np.full(len(query), np.nan))
    np.testing.assert_array_equal([run.x, run.state.v], [x, v])
    assert run.state.age == age


@pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)
def test_no_evaluation_beyond_the_budget(method):
    calls = 0

    def F(X):
        nonlocal calls
        calls += len(X)
        return np.abs(X).sum(axis=1)

    for budget in (1, 2, 19, 20, 100, 333):
        calls = 0
        result = gs.minimize(gs.Deterministic(F, vectorized=True), X0, method, max_evals=budget, rng=14)
        assert calls == result.nfev <= budget


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"restart": "dice"}, ValueError, "restart must be one of clock, coin, got 'dice'"),
        ({"momentum": 0}, ValueError, r"momentum must be a number in \(0, 1\] or None, got 0"),
        ({"momentum": 1.5}, ValueError, r"in \(0, 1\] or None, got 1.5"),
        ({"momentum": float("nan")}, ValueError, r"in \(0, 1\] or None, got nan"),
        ({"momentum": "0.1"}, TypeError, r"in \(0, 1\] or None, got '0.1'"),
        ({"momentum": True}, TypeError, r"in \(0, 1\] or None, got True"),
        ({"momentum": 0.1, "restart": "coin"}, ValueError, "no restart to toss for"),
    ],
)
def test_bad_switches_get_one_clear_sentence(settings, error, words):
    with pytest.raises(error, match=words) as caught:
        gs.GFMPlus(0.1, 0.1, 5, 2, **settings)
    assert str(caught.value).endswith(".")


def test_the_compiled_loops_refuse_the_switches_and_take_the_one_phase_method():
    numba = pytest.importorskip("numba")

    @numba.njit
    def norm(x):
        return np.sqrt((x * x).sum())

    oracle = gs.Deterministic(norm)

    for method in (PAGE, STORM, gs.WarmStart(gs.GFM(0.1, 0.1), PAGE)):
        with pytest.raises(Unsupported, match=r"has neither the coin of PAGE nor the momentum of STORM."):
            method.kernel(oracle)
    with pytest.raises(ValueError, match="neither the coin"):
        gs.minimize(oracle, np.ones(D), STORM, max_evals=100, compiled=True)
    gs.minimize(oracle, np.ones(D), STORM, max_evals=100)  # goes the plain way
    for method in (gs.GFMPlus(0.1, 0.1, 5, 2), OnePhase(0.1, 0.1)):
        assert "last" in method.kernel(oracle).outputs


# One phase


@pytest.mark.parametrize("oracle", ORACLES)
def test_the_one_phase_method_is_gfm_with_averaging(oracle):
    library, F, n = ORACLES[oracle]
    result = gs.minimize(library, X0, OnePhase(0.1, 0.02, 2), max_iter=40, rng=15)
    want = paper_gfm(F, n, list(X0), np.random.default_rng(15), delta=0.1, eta=0.02, T=40, b=2)
    same(result.x, np.mean(want[:-1], axis=0))
    averaged = gs.minimize(library, X0, gs.GFM(0.1, 0.02, 2), max_iter=40, rng=15, output="average")
    np.testing.assert_array_equal(result.x, averaged.x)
    assert OnePhase.name == "one-phase"


def test_the_plan_of_the_one_phase_method_is_one():
    plan = gs.theory.plan("one-phase", d=3, L=1, delta=0.5, epsilon=0.5, radius=1)
    assert type(plan.method) is OnePhase
    assert plan.method.needs.output == plan.output == "average"
