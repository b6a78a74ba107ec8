"""The methods that take gradients: SINGD, PSINGD, INGD, PINGD, and O2NC beside them: what they compute."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from first_order_models import (
    ALL,
    CERTIFYING,
    CLOSED_FORM,
    DELTA,
    EPSILON,
    EXACT,
    ORACLES,
    SUM,
    X0,
    kinky,
    kinky_grad,
    play,
)
from scipy.optimize import nnls

import goldstein as gs
from goldstein.oracle import Query
from goldstein.problems import chebyshev_rosenbrock_linear, cone, shell
from goldstein.stationarity.certificate import Certificate
from studies.problems import l1, maxq

# The pseudo-code of the four methods, transcribed once more, slowly. Only the order of the draws is the library's.


def in_ball(rng, d):
    w = rng.standard_normal((1, d))[0]
    return w / np.linalg.norm(w) * float(rng.random((1, 1))[0, 0]) ** (1 / d)


def slow_singd(grad, draw, x, p, q, beta, steps, rng, r=None):
    xs, m = [x], grad(x, draw(rng))
    for _ in range(steps):
        direction = m if r is None else m + r * np.linalg.norm(m) * in_ball(rng, len(x))
        ahead = x - direction / (p * np.linalg.norm(direction) + q)
        y = (1 - (s := rng.random())) * x + s * ahead
        m = beta * m + (1 - beta) * grad(y, draw(rng))
        x = ahead
        xs.append(x)
    return xs


def slow_ingd(f, grad, x, delta, epsilon, lipschitz, rng, most):
    """Return every (x, m) met, up to `most` gradients."""
    met, K = [], int(np.ceil(48 * lipschitz**2 / epsilon**2))
    while True:
        m, moved = grad(x), False
        met.append((x, m))
        for _ in range(K):
            norm = np.linalg.norm(m)
            if norm <= epsilon or len(met) >= most:
                return met
            z = x - delta * m / norm
            if f(z) <= f(x) - delta * norm / 4:
                x, moved = z, True
                break
            s = rng.random()
            y = x + s * (z - x)
            beta = (4 * lipschitz**2 - norm**2) / (4 * lipschitz**2 + 2 * norm**2)
            m = beta * m + (1 - beta) * grad(y)
            met.append((x, m))
        if not moved:
            if np.linalg.norm(m) <= epsilon:
                return met
            met.pop()  # the last m of the K is not shown again once line 2 has begun anew


def slow_pingd(f, grad, x, delta, epsilon, r, rng, most):
    met = []
    while True:
        g = grad(x + delta * in_ball(rng, len(x)))
        met.append((x, g))
        while True:
            norm = np.linalg.norm(g)
            if norm <= epsilon or len(met) >= most:
                return met
            if f(x) - f(x - delta * g / norm) > delta * norm / 4:
                break
            z = g + r * norm * in_ball(rng, len(x))
            u = grad(x - rng.random() * delta * z / np.linalg.norm(z))
            share = np.clip(g @ (g - u) / np.linalg.norm(g - u) ** 2, 0, 1) if (g != u).any() else 0.0
            g = (1 - share) * g + share * u
            met.append((x, g))
        x = x - delta * g / np.linalg.norm(g)


@pytest.mark.parametrize("r", [None, 1e-8, 0.3])
@pytest.mark.parametrize("oracle", ORACLES.values(), ids=ORACLES)
def test_singd_follows_the_pseudo_code(oracle, r):
    method = gs.SINGD(0.2, p=20, q=3, beta=0.8, perturb_radius=r)
    xs = [X0, *[run.x for run, *_ in play(method, oracle, X0, 5, 301)][1:]]
    if oracle is SUM:
        slow = slow_singd(SUM.grad, lambda rng: int(rng.integers(0, 6, size=1)[0]), X0, 20, 3, 0.8, 300, rng5(), r)
    else:
        slow = slow_singd(lambda x, _: kinky_grad(x), lambda rng: None, X0, 20, 3, 0.8, 300, rng5(), r)
    assert len(xs) == len(slow) == 301
    np.testing.assert_allclose(xs, slow, rtol=0, atol=1e-12)
    if r is not None:
        perturbed = gs.PSINGD(0.2, p=20, q=3, beta=0.8, perturb_radius=r)
        assert (np.array(xs[1:]) == [run.x for run, *_ in play(perturbed, oracle, X0, 5, 301)][1:]).all()


def rng5():
    return np.random.default_rng(5)


def course(method, oracle, x0, rng, most):
    """Return (x, m) after each gradient."""
    return [(run.x, run.state.m) for run, query, _ in play(method, oracle, x0, rng, 4 * most) if query.order][:most]


def assert_same(ours, slow):
    assert len(ours) == len(slow)
    for (x, m), (slow_x, slow_m) in zip(ours, slow, strict=True):
        np.testing.assert_allclose(x, slow_x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(m, slow_m, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("epsilon", "r"), [(0.5, 1e-8), (0.1, 1e-8), (0.1, 0.3), (0.02, 0.1)])
def test_ingd_and_pingd_follow_the_pseudo_code(epsilon, r):
    ours = course(gs.INGD(0.15, epsilon, lipschitz=3.0), EXACT, X0, 5, 2000)
    assert_same(ours, slow_ingd(kinky, kinky_grad, X0, 0.15, epsilon, 3.0, rng5(), 2000))
    assert np.ptp([x for x, _ in ours], axis=0).max() > 0.15  # it went somewhere
    ours = course(gs.PINGD(0.15, epsilon, perturb_radius=r), EXACT, X0, 5, 2000)
    assert_same(ours, slow_pingd(kinky, kinky_grad, X0, 0.15, epsilon, r, rng5(), 2000))
    assert np.linalg.norm(ours[-1][1]) <= epsilon


def test_ingd_begins_anew_after_K_gradients():
    def turning(y):  # never short, so that no certificate comes, and f does not descend
        return np.array([np.cos(a := 0.4 * np.sin(1e3 * y[0])), np.sin(a)])

    flat, x0 = gs.Deterministic(lambda x: 0.0, grad=turning), np.array([0.1, 0.2])
    ours = course(gs.INGD(0.1, 0.8, lipschitz=1.0), flat, x0, 5, 400)
    slow = slow_ingd(lambda x: 0.0, turning, x0, 0.1, 0.8, 1.0, rng5(), 400)
    assert_same(ours[: len(slow)], slow)
    again = [t for t, (_, m) in enumerate(ours) if (m == turning(x0)).all()]
    assert again == list(range(0, 400, 75))  # K = 48 / 0.64


def test_ingd_without_a_constant_takes_the_largest_norm_seen():
    run = gs.INGD(DELTA, 1e-3).start(np.array([0.1, 0.05]), rng=0)
    answers = iter([[1.0], [[3.0, 0.0]], [9.0], [[0.0, -4.0]]])  # f(x), g(x), no descent, g(y)
    for answer in answers:
        run.tell(run.ask(), answer)
    beta = (4 * 16 - 9) / (4 * 16 + 2 * 9)
    np.testing.assert_allclose(run.state.m, [3 * beta, -4 * (1 - beta)], rtol=1e-14)


def test_a_constant_that_is_too_small_does_no_harm():
    ends = [gs.minimize(EXACT, X0, gs.INGD(DELTA, EPSILON, L), rng=0) for L in (0.01, None, 3.0)]
    assert all(res.success for res in ends)
    assert (ends[0].x == ends[1].x).all()
    assert ends[0].ngev == ends[1].ngev


@pytest.mark.parametrize("name", CERTIFYING)
def test_a_move_whose_value_failed_is_not_made(name):
    run = CERTIFYING[name].start(X0, rng=0)
    for answer in ([1.0], [[1.0, 0.0, 0.0]], [np.nan], None):  # f(x), a gradient, the value a move away
        query = run.ask()
        assert query.order == (answer is None and name != "cutting-plane") or len(np.shape(answer)) == 2
        if answer is not None:
            run.tell(query, answer)
    assert (run.x == X0).all()
    assert run.state.value == 1


# Certificates


def certificate(method, oracle, x0, rng, most=20_000):
    """Run to the certificate; return the run and the gradients taken around its last x, with their points."""
    last, points, done = None, [], None
    for run, query, step in play(method, oracle, x0, rng, most):
        done = step.done
        if last is None or (run.x != last).any():
            last, points = run.x, []
        if query.order:
            points.append(query.points[0])
    assert isinstance(done, Certificate)
    return run, np.array(points), oracle.evaluate(Query(np.array(points), order=1)).values


def hull_residual(G, g):
    """Return how far g is from being a convex combination of the rows of G."""
    return nnls(np.vstack([G.T, np.ones(len(G))]), np.append(g, 1.0))[1]


PROBLEMS = [*CLOSED_FORM, l1, maxq, chebyshev_rosenbrock_linear]


@pytest.mark.parametrize("make", PROBLEMS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", CERTIFYING)
def test_what_is_returned_is_a_convex_combination_of_gradients_within_delta(name, make):
    problem, method = make(5), CERTIFYING[name]
    run, points, gradients = certificate(method, problem.oracle, problem.x0, 1)
    assert np.linalg.norm(points - run.x, axis=1).max() <= DELTA * (1 + 1e-12)
    assert hull_residual(gradients, run.state.m) <= 1e-10
    assert run.state.grad_norm == np.linalg.norm(run.state.m) <= EPSILON
    assert run.state.value == problem.value(run.x)


@pytest.mark.parametrize("make", CLOSED_FORM, ids=lambda make: make.__name__)
@pytest.mark.parametrize("name", ["ingd", "pingd"])
def test_the_exact_distance_is_reached_and_the_run_says_so(name, make):
    problem = make(5)
    for seed in range(20):
        start = problem.x0 + 0.1 * np.random.default_rng(seed).normal(size=5)
        for delta, epsilon in ((0.1, 0.3), (0.3, 0.03)):
            method = replace(CERTIFYING[name], delta=delta, epsilon=epsilon)
            res = gs.minimize(problem.oracle, start, method, max_evals=20_000, rng=seed)
            assert problem.distance(res.x, delta) <= epsilon
            assert res.success
            assert res.status is gs.Status.CRITERION
            assert res.fun == problem.value(res.x)
            assert res.message.startswith(f"A convex combination of gradients within delta = {delta} of x has norm ")
            assert f"≤ epsilon = {epsilon}." in res.message


@pytest.mark.parametrize("name", CERTIFYING)
def test_a_certified_point_is_not_left(name):
    method, problem = CERTIFYING[name], shell(4)
    run, *_ = certificate(method, problem.oracle, problem.x0, 3)
    x, state = run.x.copy(), pickle.dumps(run.state)
    assert run.ask() is None
    assert run.ask(1000) is None
    assert (run.x == x).all()
    assert pickle.dumps(run.state) == state
    res = gs.minimize(problem.oracle, problem.x0, method, max_iter=10_000, rng=3)
    assert (res.x == x).all()
    assert res.nfev + res.ngev == run.nfev + 1  # and one for `fun`


@pytest.mark.parametrize("name", CERTIFYING)
def test_the_proof_is_part_of_the_result(name):
    for method in (CERTIFYING[name], name):
        res = gs.minimize(EXACT, X0, method, max_evals=5000, rng=0)
        proof, settings = res.stationarity, res.message.partition("has norm")[0]
        assert (proof.answer, proof.method) == ("certified", "gradient hull")
        assert proof.bound <= proof.epsilon
        assert f"delta = {proof.delta:g}" in settings
    for other in ({"max_evals": 20}, {"output": "average"}, {"x_scale": 2.0}):  # no proof, or one of another point
        assert "stationarity" not in gs.minimize(EXACT, X0, CERTIFYING[name], rng=0, **{"max_evals": 5000} | other)


@pytest.mark.parametrize("name", CERTIFYING)
def test_a_start_that_is_stationary_is_certified_where_it_is(name):
    problem = cone(4)
    x0 = 0.02 * problem.x0
    res = gs.minimize(problem.oracle, x0, replace(CERTIFYING[name], epsilon=0.3), max_evals=3000, rng=0)
    assert res.success
    assert (res.x == x0).all()


def test_the_perturbed_methods_never_ask_for_a_gradient_on_a_kink_they_run_along():
    oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    x0 = np.array([0.0, 2.0])  # the gradient points along the kink of |x_1|
    asked = {}
    for name, method in ALL.items():
        steps = [query.points[0, 0] for _, query, _ in play(method, oracle, x0, 0, 60) if query.order]
        asked[name] = np.array(steps)["singd" in name :] != 0  # the first gradient of SINGD is at x0
    assert not asked["singd"].any()
    assert not asked["ingd"][:5].any()
    assert all(asked[name].all() for name in ("psingd", "pingd", "cutting-plane"))


# SINGD's answer


class Counting:
    """A generator whose `integers` goes through its whole range."""

    def __init__(self):
        self.next = None

    def integers(self, low, high):
        self.next = low if self.next is None else self.next + 1
        assert low <= self.next < high
        return self.next


@pytest.mark.parametrize(("delta", "lookback"), [(0.04, 0), (0.05, 1), (0.35, 7), (0.39, 7), (2.0, 40)])
def test_the_index_drawn_beforehand_is_K_before_a_uniform_one(delta, lookback):
    method, rng, T = gs.SINGD(delta, p=20, q=3), Counting(), 30
    assert method.lookback == lookback
    stops = [method.needs.random_stop(rng, T) for _ in range(T)]  # i = 1, …, T
    assert stops == [max(i - lookback, 1) - 1 for i in range(1, T + 1)]
    xs = [X0, *[run.x for run, *_ in play(method, EXACT, X0, 5, T + 1)][1:]]
    offers = [step.iterate for *_, step in play(method, EXACT, X0, 5, T + 1)][1:]
    for stop, offer in zip(stops, offers, strict=True):
        assert (offer == xs[stop]).all()


def test_a_random_answer_is_the_iterate_of_its_index():
    method, T = gs.SINGD(0.35, p=20, q=3), 50
    xs = [X0, *[run.x for run, *_ in play(method, EXACT, X0, 5, T + 1)][1:]]
    res = gs.minimize(EXACT, X0, method, output="random", max_iter=T, rng=5)
    assert res.nit <= T - 8
    assert (res.x == xs[res.nit]).all()
    res = gs.minimize(EXACT, X0, method, output="random", max_evals=T + 2, rng=5)  # with one gradient and one value
    assert res.nit == T
    assert any((res.x == x).all() for x in xs[: T - 7])


def test_K_steps_stay_within_delta():
    for delta, p, q in ((0.35, 20, 1e-9), (0.1, 33.3, 1e-9), (2, 5, 1)):
        method = gs.SINGD(delta, p, q)
        xs = np.array([run.x for run, *_ in play(method, SUM, X0, 0, 200)])
        reach = [np.linalg.norm(xs[t : t + method.lookback + 1] - xs[t], axis=1).max() for t in range(150)]
        assert max(reach) <= delta


# Stochastic sums


def tilted(problem, s):
    """Return f plus noise: n = 2d components, F(x; i) = f(x) ± s x_j, whose gradients have variance s²."""
    d, f, grad = problem.dim, problem.oracle.fun, problem.oracle.grad
    tilt = s * np.vstack([np.eye(d), -np.eye(d)])
    return gs.FiniteSum(
        lambda X, i: f(X) + (tilt[i] * X).sum(axis=1), 2 * d, vectorized=True, grad=lambda X, i: grad(X) + tilt[i]
    )


@pytest.mark.parametrize("make", CLOSED_FORM, ids=lambda make: make.__name__)
def test_singd_reaches_stationarity_in_the_mean(make):
    # The theorem's formulas for ε = 0.5, with 1/30 of its p and 30 times its 1 − β, since its T = 1.4e7 is out of reach
    # here. The mean over the index is taken exactly. Over 20 seeds it was at most 0.09, with a standard deviation
    # below 0.001: that the mean of two exceeds 0.2 has a negligible probability, by Chebyshev below 1e-4.
    problem, s, delta, epsilon, T = make(5), 0.5, 0.4, 0.5, 4000
    G = np.sqrt(1 + s**2)
    p = 64 * G**2 * np.log(16 * G / epsilon) / (delta * epsilon**2) / 30
    method = gs.SINGD(delta, p, 4 * G * p, 1 - 30 * epsilon**2 / (64 * G**2))
    oracle, means = tilted(problem, s), []
    for seed in range(2):
        runs = play(method, oracle, problem.x0, seed, T + 1)
        means.append(np.mean([problem.distance(step.iterate, delta) for *_, step in runs if step.completed]))
    assert np.mean(means) <= 0.2


@pytest.mark.parametrize("make", CLOSED_FORM, ids=lambda make: make.__name__)
def test_o2nc_reaches_stationarity_in_the_mean(make):
    # Theorem, with its own parameters: the mean over the blocks of E dist(0, ∂_δ f) is at most ε. Over 60 seeds that
    # mean was at most 0.14, with a standard deviation below 0.001; as above.
    problem, s, delta, epsilon = make(5), 0.5, 0.4, 0.5
    G = np.sqrt(1 + s**2)
    M, K = int(np.ceil(9 * G**2 / epsilon**2)), int(np.ceil(3 * problem.gap / (delta * epsilon)))
    method = gs.O2NC(delta, M, delta / M / (G * np.sqrt(M)), "ogd")
    oracle, means = tilted(problem, s), []
    for seed in range(5):
        runs = play(method, oracle, problem.x0, seed, M * K)
        means.append(np.mean([problem.distance(run.x, delta) for run, *_ in runs if run.state.done == 0]))
    assert np.mean(means) <= 0.2
