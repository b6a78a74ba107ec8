"""Algorithm 2 is Algorithm 2: the methods against a slow transcription of the paper, and what each line promises.

Nothing here is left to chance: every claim is about given random numbers.
"""

import math
import warnings
from itertools import pairwise

import numpy as np
import pytest

import goldstein as gs

D, N = 4, 7
X0 = np.array([1.0, -0.5, 0.3, 2.0])
_ROWS = np.random.default_rng(0).normal(size=(N, D))
_SHIFTS = np.random.default_rng(1).normal(size=N)


def component(x, i):
    """F(x; i) = |a_i·x − c_i| + 0.3 min(|x_1|, 1): nonsmooth, nonconvex, stochastic."""
    return abs(sum(_ROWS[i, j] * x[j] for j in range(D)) - _SHIFTS[i]) + 0.3 * min(abs(x[0]), 1.0)


def component_rows(X, i):
    return np.abs((_ROWS[i] * X).sum(axis=1) - _SHIFTS[i]) + 0.3 * np.minimum(np.abs(X[:, 0]), 1.0)


def plain(x):
    return max(abs(x[j]) for j in range(D)) + 0.1 * abs(x[0] - x[1])


def plain_rows(X):
    return np.abs(X).max(axis=1) + 0.1 * np.abs(X[:, 0] - X[:, 1])


ORACLES = {
    "finite-sum": (gs.FiniteSum(component_rows, N, vectorized=True), component, N),
    "deterministic": (gs.Deterministic(plain_rows, vectorized=True), lambda x, i: plain(x), None),
}


# The paper's pseudo-code, by loops over single numbers. It shares nothing with the library but the generator, from
# which every batch takes first its samples ξ_1, …, ξ_b, then the d normal numbers of w_1, those of w_2, and so on.


def paper_batch(rng, b, d, n):
    """S = {(ξ_i, w_i)}, Definition 7; n = None: there is no ξ."""
    xi = [None if n is None else int(rng.integers(0, n)) for _ in range(b)]
    S = []
    for i in range(b):
        normal = [float(rng.standard_normal()) for _ in range(d)]
        length = math.sqrt(sum(z * z for z in normal))
        S.append((xi[i], [z / length for z in normal]))
    return S


def paper_estimate(F, x, S, delta):
    """g(x; S), Definitions 6 and 7."""
    d, total = len(x), [0.0] * len(x)
    for xi, w in S:
        plus = F([x[j] + delta * w[j] for j in range(d)], xi)
        minus = F([x[j] - delta * w[j] for j in range(d)], xi)
        for j in range(d):
            total[j] += d / (2 * delta) * (plus - minus) * w[j]
    return [z / len(S) for z in total]


def paper_gfm(F, n, x, rng, delta, eta, T, b=1):
    """Algorithm 1 (b = 1), with mini-batches; returns x_0, …, x_T."""
    iterates = [list(x)]
    for _ in range(T):
        g = paper_estimate(F, x, paper_batch(rng, b, len(x), n), delta)  # line 2
        x = [x[j] - eta * g[j] for j in range(len(x))]  # line 3
        iterates.append(x)
    return iterates


def paper_gfm_plus(F, n, x, rng, delta, eta, T, m, b, large, project=lambda x: x):
    """Algorithm 2; returns x_0, …, x_T."""
    iterates, d = [list(x)], len(x)
    for t in range(T):
        if t % m == 0:  # line 3
            v = paper_estimate(F, x, paper_batch(rng, large, d, n), delta)  # lines 4 and 5
        else:
            S = paper_batch(rng, b, d, n)  # line 7
            here, before = paper_estimate(F, x, S, delta), paper_estimate(F, iterates[t - 1], S, delta)
            v = [v[j] + here[j] - before[j] for j in range(d)]  # line 8
        x = project([x[j] - eta * v[j] for j in range(d)])  # line 10
        iterates.append(x)
    return iterates


def paper_warm_start(F, n, x0, rng, first, second, second_algorithm):
    """Algorithms 3 and 4, phase 1's average handed on; returns x_0, …, x_{T0−1} of phase 1, then those of phase 2."""
    one = paper_gfm(F, n, x0, rng, **first)[: first["T"]]
    x1 = [sum(x[j] for x in one) / len(one) for j in range(len(x0))]  # line 1
    return one + second_algorithm(F, n, x1, rng, **second)  # line 2


def library_iterates(method, oracle, T, seed, x0=X0, **kwargs):
    """Every iterate x_0, …, x_T of `minimize`."""
    seen = []
    gs.minimize(
        oracle, x0, method, max_iter=T, output="last", rng=seed, monitor=lambda x: seen.append(x) or 0.0, **kwargs
    )
    assert len(seen) == T + 1
    return np.array(seen)


def same(got, want):
    np.testing.assert_allclose(got, np.array(want), rtol=0, atol=1e-12)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("b", [1, 5])
def test_gfm_is_algorithm_1(oracle, b):
    library, F, n = ORACLES[oracle]
    want = paper_gfm(F, n, list(X0), np.random.default_rng(3), delta=0.1, eta=0.02, T=40, b=b)
    same(library_iterates(gs.GFM(0.1, 0.02, b), library, 40, seed=3), want)


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize(("m", "b", "large"), [(5, 3, 15), (5, 3, None), (4, 6, 2), (3, 1, 20), (1, 4, 9), (50, 2, 30)])
def test_gfm_plus_is_algorithm_2(oracle, m, b, large):
    """Also with b' ≠ mb, with m = 1, and with an epoch that outlasts the run."""
    library, F, n = ORACLES[oracle]
    rng = np.random.default_rng(4)
    want = paper_gfm_plus(F, n, list(X0), rng, delta=0.2, eta=0.03, T=23, m=m, b=b, large=large or m * b)
    same(library_iterates(gs.GFMPlus(0.2, 0.03, m, b, large), library, 23, seed=4), want)


@pytest.mark.parametrize("oracle", ORACLES)
def test_warm_started_gfm_is_algorithm_4(oracle):
    library, F, n = ORACLES[oracle]
    first, second = {"delta": 0.05, "eta": 0.1, "T": 13, "b": 2}, {"delta": 0.2, "eta": 0.02, "T": 11, "b": 3}
    want = paper_warm_start(F, n, list(X0), np.random.default_rng(5), first, second, paper_gfm)
    method = gs.WarmStart(gs.GFM(0.05, 0.1, 2), gs.GFM(0.2, 0.02, 3), iterations=13)
    same(library_iterates(method, library, 24, seed=5), want)


@pytest.mark.parametrize("oracle", ORACLES)
def test_warm_started_gfm_plus_is_algorithm_3(oracle):
    library, F, n = ORACLES[oracle]
    first = {"delta": 0.05, "eta": 0.1, "T": 13, "b": 1}
    second = {"delta": 0.2, "eta": 0.02, "T": 11, "m": 4, "b": 3, "large": 10}
    want = paper_warm_start(F, n, list(X0), np.random.default_rng(6), first, second, paper_gfm_plus)
    method = gs.WarmStart(gs.GFM(0.05, 0.1), gs.GFMPlus(0.2, 0.02, 4, 3, 10), iterations=13)
    same(library_iterates(method, library, 24, seed=6), want)


METHODS = {
    "gfm": gs.GFM(0.1, 0.02, 3),
    "gfm+": gs.GFMPlus(0.1, 0.02, 4, 2, 9),
    "ws-gfm": gs.WarmStart(gs.GFM(0.05, 0.1), gs.GFM(0.1, 0.02, 3), iterations=9),
    "ws-gfm+": gs.WarmStart(gs.GFM(0.05, 0.1), gs.GFMPlus(0.1, 0.02, 4, 2, 9), iterations=9),
}


def play(run, oracle, iterations):
    """Drive a run by ask and tell; return each v_t of GFM+ on the way."""
    v = []
    for _ in range(iterations):
        query = run.ask()
        run.tell(query, oracle.evaluate(query).values)
        v.append(getattr(run.state, "v", None))
    return v


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("method", METHODS)
def test_ask_and_tell_is_minimize(method, oracle):
    library = ORACLES[oracle][0]
    run = METHODS[method].start(X0, rng=7, sample=library.sample)
    play(run, library, 25)
    result = gs.minimize(library, X0, METHODS[method], max_iter=25, output="last", rng=7)
    np.testing.assert_array_equal(run.x, result.x)
    assert run.nfev == result.nfev - result.nfev_diagnostic


def test_an_epoch_of_one_is_mini_batch_gfm():
    library = ORACLES["finite-sum"][0]
    gfm, plus = gs.GFM(0.1, 0.02, batch_size=6), gs.GFMPlus(0.1, 0.02, 1, batch_size=2, large_batch_size=6)
    gfm, plus = (library_iterates(method, library, 30, seed=8) for method in (gfm, plus))
    np.testing.assert_array_equal(plus, gfm)


@pytest.mark.parametrize("oracle", ORACLES)
def test_corrections_are_not_zero_after_a_real_step(oracle):
    """The released code stored x_prev after the step: all its corrections are g(x; S) − g(x; S) = 0 (theory 3.7)."""
    library, kinks_all_round = ORACLES[oracle][0], np.full(D, 0.1)
    run = gs.GFMPlus(0.3, 0.1, epoch_length=6, batch_size=4).start(kinks_all_round, rng=9, sample=library.sample)
    for before, after in pairwise(play(run, library, 6)):
        assert np.linalg.norm(after - before) > 1e-3


def test_corrections_vanish_on_a_noiseless_linear_function():
    slope = np.array([1.0, -2.0, 0.5, 3.0])
    linear = gs.Deterministic(lambda X: X @ slope, vectorized=True)
    run = gs.GFMPlus(0.1, 0.05, epoch_length=10, batch_size=3).start(X0, rng=10)
    v = play(run, linear, 10)
    assert np.linalg.norm(v[0]) > 1
    np.testing.assert_allclose(v, np.broadcast_to(v[0], (10, D)), rtol=0, atol=1e-11)


def test_a_correction_asks_the_same_pairs_at_the_two_newest_iterates():
    library = ORACLES["finite-sum"][0]
    b, delta = 3, 0.1
    run = gs.GFMPlus(delta, 0.05, epoch_length=4, batch_size=b).start(X0, rng=11, sample=library.sample)
    iterates, asked = [], set()
    for t in range(11):
        query = run.ask()
        iterates.append(run.x.copy())
        blocks = query.points.reshape(-1, 2, b if t % 4 else 4 * b, D)
        samples = query.samples.reshape(blocks.shape[:3])
        at = [iterates[t]] if t % 4 == 0 else [iterates[t], iterates[t - 1]]
        assert len(blocks) == len(at)
        w = (blocks[0, 0] - iterates[t]) / delta
        np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1, rtol=1e-12)
        for block, x in zip(blocks, at, strict=True):
            np.testing.assert_allclose(block, [x + delta * w, x - delta * w], rtol=0, atol=1e-14)
        assert (samples == samples[0, 0]).all()
        assert asked.isdisjoint(w[:, 0])  # a fresh S at every step
        asked |= set(w[:, 0])
        run.tell(query, library.evaluate(query).values)


def test_projection_comes_after_the_step():
    """x_{t+1} = P(x_t − η v_t), and the correction compares projected iterates."""

    def halfspace(x):
        lacking = max(0.0, 2.5 - sum(x)) / len(x)
        return np.array([z + lacking for z in x])

    library, F, n = ORACLES["finite-sum"]
    settings = {"delta": 0.2, "eta": 0.1, "T": 15, "m": 4, "b": 3, "large": 12}
    want = paper_gfm_plus(F, n, list(X0), np.random.default_rng(12), **settings, project=halfspace)
    free = paper_gfm_plus(F, n, list(X0), np.random.default_rng(12), **settings)
    got = library_iterates(gs.GFMPlus(0.2, 0.1, 4, 3), library, 15, seed=12, projection=halfspace)
    same(got, want)
    assert np.abs(np.array(want) - free).max() > 0.01  # the projection had something to do
    assert got.sum(axis=1).min() >= 2.5 - 1e-12


def test_with_bounds_no_query_leaves_the_box():
    asked = []

    def F(X):
        asked.append(X)
        return X.sum(axis=1)

    gs.minimize(
        gs.Deterministic(F, vectorized=True), X0, gs.GFMPlus(0.1, 0.5, 3, 4), max_iter=20, bounds=[(-1, 2)] * D, rng=13
    )
    low, high = np.concatenate(asked).min(), np.concatenate(asked).max()
    assert -1 - 1e-12 <= low < -0.9  # and it did get to the wall
    assert high <= 2 + 1e-12


def steps_taken(rule, values, **limits):
    """The step sizes of a GFM run whose batches return the given values."""
    run = gs.GFM(0.1, rule).start(X0, rng=14, **limits)
    taken = []
    for value in values:
        query = run.ask()
        taken.append(run.tell(query, np.full(len(query), float(value))).step_size)
    return np.array(taken)


def test_a_step_has_the_length_that_the_rule_says():
    slope = np.array([1.0, -2.0, 0.5, 3.0])
    linear = gs.Deterministic(lambda X: X @ slope, vectorized=True)
    run = gs.GFM(0.1, gs.steps.InverseSqrt(0.5), batch_size=8).start(X0, rng=15)
    for t in range(5):
        before = run.x
        play(run, linear, 1)
        assert np.linalg.norm(run.x - before) == pytest.approx(0.5 / math.sqrt(t + 1) * run.state.grad_norm)


def test_linear_decay_falls_in_a_straight_line_to_the_end_of_the_run():
    want = [0.8, 0.6, 0.4, 0.2]
    np.testing.assert_allclose(steps_taken(gs.steps.LinearDecay(0.8), range(4), max_iter=4), want)
    np.testing.assert_allclose(steps_taken(gs.steps.LinearDecay(0.8, iterations=4), range(4)), want)
    past_the_end = steps_taken(gs.steps.LinearDecay(0.8, iterations=2), range(4))
    np.testing.assert_allclose(past_the_end, [0.8, 0.4, 0.0, 0.0])


def test_linear_decay_starts_at_its_step_size_when_evaluations_are_the_limit():
    """Four iterations of two evaluations each: as with max_iter=4, and no evaluation is spent on a step of zero."""
    got = steps_taken(gs.steps.LinearDecay(0.8), range(4), max_evals=8)
    np.testing.assert_allclose(got, [0.8, 0.6, 0.4, 0.2])


def test_linear_decay_in_minimize_ends_near_zero():
    library = ORACLES["finite-sum"][0]
    result = gs.minimize(library, X0, gs.GFM(0.1, gs.steps.LinearDecay(0.05)), max_evals=1000, rng=16)
    nit, steps = result.history.nit[1:], result.history.step[1:]
    assert steps[0] > 0.049
    assert steps[-1] < 0.001
    np.testing.assert_allclose(np.diff(steps) / np.diff(nit), -0.05 / nit[-1], rtol=0.01)


def test_linear_decay_refuses_a_run_without_an_end():
    with pytest.raises(ValueError, match="where the run ends"):
        steps_taken(gs.steps.LinearDecay(0.8), range(4))


def test_inverse_sqrt_falls_like_the_root_of_the_iteration():
    got = steps_taken(gs.steps.InverseSqrt(0.5), range(9))
    np.testing.assert_allclose(got, 0.5 / np.sqrt(np.arange(1, 10)))


def test_the_step_is_halved_after_ten_iterations_without_improvement():
    flat = steps_taken(gs.steps.HalveOnPlateau(0.4), [1.0] * 25)
    np.testing.assert_allclose(flat, [0.4] * 10 + [0.2] * 10 + [0.1] * 5)
    falling = steps_taken(gs.steps.HalveOnPlateau(0.4), -np.arange(25.0))
    np.testing.assert_allclose(falling, 0.4)


def test_an_improvement_starts_the_patience_again():
    values = [1.0] * 10 + [0.5] + [0.7] * 9 + [0.6] * 3
    got = steps_taken(gs.steps.HalveOnPlateau(0.4), values)
    np.testing.assert_allclose(got, [0.4] * 20 + [0.2] * 3)


def test_halving_stops_at_the_minimum():
    got = steps_taken(gs.steps.HalveOnPlateau(0.4, patience=1, minimum=0.15), [1.0] * 5)
    np.testing.assert_allclose(got, [0.4, 0.2, 0.15, 0.15, 0.15])


def test_gfm_plus_warns_when_corrections_do_not_help():
    """Steps of about 0.5 at δ = 0.001: the two iterates of a correction see unrelated kinks."""
    method = gs.GFMPlus(0.001, 0.5, epoch_length=5, batch_size=5)
    with pytest.warns(RuntimeWarning, match="do not reduce variance"):
        gs.minimize(ORACLES["finite-sum"][0], X0, method, max_iter=100, rng=17)


@pytest.mark.parametrize("method", [gs.GFMPlus(0.3, 0.002, epoch_length=5, batch_size=5), gs.GFM(0.001, 0.5)])
def test_no_warning_when_corrections_help_or_there_are_none(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.minimize(ORACLES["finite-sum"][0], X0, method, max_iter=100, rng=17)


def test_a_failure_at_the_previous_point_alone_removes_the_whole_correction_of_its_sample():
    library, F, _ = ORACLES["finite-sum"]
    b, delta, eta = 4, 0.2, 0.05
    run = gs.GFMPlus(delta, eta, epoch_length=5, batch_size=b).start(X0, rng=18, sample=library.sample)
    play(run, library, 2)
    x, x_prev, v = run.x.copy(), run.state.x_prev.copy(), run.state.v.copy()
    query = run.ask()
    w = (query.points[:b] - x) / delta
    values = library.evaluate(query).values
    values[2 * b + 1] = np.nan  # F(x_{t−1} + δ w_1; ξ_1)
    run.tell(query, values)
    S = [(int(query.samples[i]), list(w[i])) for i in (0, 2, 3)]
    here, before = (np.array(paper_estimate(F, list(point), S, delta)) for point in (x, x_prev))
    np.testing.assert_allclose(run.state.v, v + here - before, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.x, x - eta * (v + here - before), rtol=0, atol=1e-12)


def test_an_iteration_without_any_value_is_skipped():
    library = ORACLES["finite-sum"][0]
    run = gs.GFMPlus(0.2, 0.05, epoch_length=3, batch_size=2).start(X0, rng=19, sample=library.sample)
    play(run, library, 2)
    x, v, nit = run.x.copy(), run.state.v.copy(), run.nit
    query = run.ask()
    run.tell(query, np.full(len(query), np.nan))
    np.testing.assert_array_equal(run.x, x)
    np.testing.assert_array_equal(run.state.v, v)
    assert run.nit == nit + 1
    assert len(run.ask()) == 4 * 2  # the correction that is still due
