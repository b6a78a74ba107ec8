"""The cutting-plane method: cuts that never take the target, the centre of gravity, and certificates."""

from math import gamma, log, pi, sqrt

import numpy as np
import pytest

import goldstein as gs
from goldstein.estimate.smoothing import ball, sphere
from goldstein.methods.cutting_plane import MOST_VARIABLES, hit_and_run
from goldstein.methods.method import Context
from goldstein.problems import cone, ridge, shell
from goldstein.stationarity.certificate import Certificate
from studies.problems import capped_ridge, max_coordinate

CLOSED_FORM = [ridge, cone, shell, capped_ridge]


def faces(d, seed=0):
    """Return the oracle of max_j |a_j·x + b_j| over 3d faces, 1-Lipschitz."""
    rng = np.random.default_rng(seed)
    a = sphere(rng, 3 * d, d) * rng.uniform(0.3, 1, (3 * d, 1))
    b = 0.1 * rng.normal(size=3 * d)

    def grad(x):
        s = a @ x + b
        j = np.abs(s).argmax()
        return np.sign(s[j]) * a[j]

    return gs.Deterministic(lambda x: np.abs(a @ x + b).max(), grad=grad)


def play(method, oracle, x0, rng, most=20_000):
    """Yield the state after each answer, with the query it answered, the answer and what the step says."""
    context = Context(np.random.default_rng(rng))
    state = method.init(x0, context)
    for _ in range(most):
        query = method.ask(state, context, None)
        if query is None:
            return
        answer = oracle.evaluate(query).values
        step = method.tell(state, context, query, answer)
        context.nfev += len(query)
        yield state, query, answer, step


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("make", CLOSED_FORM, ids=lambda make: make.__name__)
def test_the_exact_distance_is_reached_and_the_run_says_so(make, d):
    problem = make(d)
    for seed in range(4):
        start = problem.x0 + 0.1 * np.random.default_rng(seed).normal(size=d)
        for delta, epsilon in ((0.1, 0.3), (0.3, 0.03)):
            res = gs.minimize(problem.oracle, start, gs.CuttingPlane(delta, epsilon), max_evals=5000, rng=seed)
            assert problem.distance(res.x, delta) <= epsilon
            assert res.success
            assert res.status is gs.Status.CRITERION
            assert res.message.startswith(f"A convex combination of gradients within delta = {delta} of x has norm ")


@pytest.mark.parametrize("d", [2, 5, 10])
def test_every_step_does_what_the_pseudo_code_says(d):
    # Followed from the outside: line 6 decides on moves, line 7 on cuts, and Q and Ω grow by what line 8 says.
    method, oracle, x0 = gs.CuttingPlane(0.05, 0.1), faces(d), np.ones(d)
    x, fx, Q, cuts, z = x0, None, [], [], None
    moves = cut_count = rejected = 0
    for state, query, answer, step in play(method, oracle, x0, 1):
        point = query.points[0]
        assert np.linalg.norm(point - x) <= 0.05 * (1 + 1e-12)
        if fx is None:
            fx = answer[0]
        elif query.order == 0:
            z, _ = query.aux
            length = np.linalg.norm(z)
            np.testing.assert_allclose(point, x - 0.05 * z / length, rtol=0, atol=1e-14)
            assert np.linalg.norm(point - x) == pytest.approx(0.05, rel=1e-9)
            if answer[0] <= fx - 0.05 * 0.1 / 3:  # line 6
                x, fx, Q, cuts, moves = point, answer[0], [], [], moves + 1
        elif not Q:
            Q = [answer[0]]  # line 1
        elif answer[0] @ z <= length * 0.1 / 2:  # line 7
            Q.append(answer[0])
            cuts.append((answer[0], answer[0] @ z))
            cut_count += 1
        else:
            rejected += 1
        assert (state.x == x).all()
        assert (step.x == x).all()
        assert step.value == state.value == fx
        if Q:
            assert (state.gradients == Q).all()
            np.testing.assert_allclose(state.levels, [level for _, level in cuts], rtol=1e-12, atol=1e-15)
            assert len(cuts) <= np.ceil(8 * d * log(8 / 0.1))
            if state.phase != "done":
                inside = [state.cloud @ u - level for u, level in cuts]
                assert min([np.min(i) for i in inside], default=0) >= -1e-9
                assert np.linalg.norm(state.cloud, axis=1).max() <= 1 + 1e-9
    assert isinstance(step.done, Certificate)
    assert min(moves, cut_count, rejected) > 0


@pytest.mark.parametrize("d", [2, 4, 8])
def test_no_cut_takes_the_directions_that_are_good_for_all_gradients_found(d):
    # The points of the unit ball within ε/(2L) of g/‖g‖, g the shortest element of conv(Q), keep Ω from vanishing.
    epsilon, rng, seen = 0.1, np.random.default_rng(0), 0
    for state, *_ in play(gs.CuttingPlane(0.05, epsilon), faces(d, seed=1), np.ones(d), 2):
        if state.phase == "done" or not len(state.levels):
            continue
        target = state.m / np.linalg.norm(state.m)
        assert (state.gradients @ target > epsilon).all()
        near = target + epsilon / 2 * ball(rng, 100, d)
        near = near[np.linalg.norm(near, axis=1) <= 1]
        assert (near @ state.gradients[1:].T >= state.levels).all()
        seen += len(near)
    assert seen > 100


def test_the_certificate_is_the_shortest_element_of_the_gradients_around_x():
    problem = max_coordinate(4)  # at 0 the hull of the unit vectors, whose shortest element is 1/√4
    for seed in range(5):
        *_, last = [step for *_, step in play(gs.CuttingPlane(0.3, 0.51), problem.oracle, problem.x0, seed)]
        assert last.grad_norm == last.done.bound
        assert 0.5 - 1e-12 <= last.grad_norm <= 0.51


def test_a_rotation_of_space_leaves_the_guarantee():
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    base = faces(4)
    turned = gs.Deterministic(lambda x: base.fun(q @ x), grad=lambda x: q.T @ base.grad(q @ x))
    ends = [
        gs.minimize(oracle, x0, gs.CuttingPlane(0.05, 0.1), max_evals=20_000, rng=0)
        for oracle, x0 in ((base, np.ones(4)), (turned, q.T @ np.ones(4)))
    ]
    assert all(res.success for res in ends)
    assert ends[0].fun == pytest.approx(ends[1].fun, abs=0.05)


# The centre of gravity


def walked(normals, levels, start, d, n, rounds=6, seed=0):
    rng = np.random.default_rng(seed)
    cloud = np.broadcast_to(start, (n, d)) + 1e-6 * rng.normal(size=(n, d))
    for _ in range(rounds):
        cloud = hit_and_run(rng, cloud, normals, levels, cloud)
    return cloud


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_hit_and_run_finds_the_centre_of_half_a_ball(d):
    e = sphere(np.random.default_rng(d), 1, d)
    cloud = walked(e, np.zeros(1), 0.5 * e, d, 4000)
    centre = gamma(d / 2 + 1) / (sqrt(pi) * gamma((d + 3) / 2)) * e[0]  # E[U | U > 0], U a component of the unit ball
    assert (cloud @ e[0] >= -1e-12).all()
    # Walkers are independent: five standard errors in each of d coordinates, error probability below 1e-6 · d.
    error = np.abs(cloud.mean(axis=0) - centre) / (cloud.std(axis=0) / sqrt(len(cloud)))
    assert error.max() < 5


@pytest.mark.parametrize("width", [1e-1, 1e-3, 1e-6])
def test_hit_and_run_is_as_fast_in_a_thin_set_as_in_a_round_one(width):
    d = 4
    e = sphere(np.random.default_rng(0), 1, d)[0]
    slab = np.array([e, -e]), np.array([0.2, -0.2 - width])  # 0.2 ≤ e·w ≤ 0.2 + width
    cloud = walked(*slab, (0.2 + width / 2) * e, d, 4000, rounds=25)
    across = (cloud @ e - 0.2) / width
    assert across.min() >= -1e-9
    assert across.max() <= 1 + 1e-9
    along = cloud - np.outer(cloud @ e, e)
    if width <= 1e-3:  # then close to an interval times a ball of d − 1 dimensions and radius √0.96
        assert abs(across.mean() - 0.5) < 5 * sqrt(1 / 12 / 4000)
        squares = (along**2).sum(axis=1) / 0.96
        assert abs(squares.mean() - 3 / 5) < 5 * squares.std() / sqrt(4000) + 1e-3
    assert np.abs(along.mean(axis=0)).max() < 5 * 0.5 / sqrt(4000)


# What is refused, and edges


def test_many_variables_are_refused_before_anything_is_evaluated():
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(x), grad=lambda x: calls.append(x))
    with pytest.raises(ValueError, match="at most 20 variables, this problem has 21; use pingd") as caught:
        gs.minimize(oracle, np.zeros(MOST_VARIABLES + 1), "cutting-plane", options={"delta": 0.1, "epsilon": 0.1})
    assert "\n" not in str(caught.value)
    assert calls == []


def test_twenty_variables_are_done():
    problem = cone(MOST_VARIABLES)
    res = gs.minimize(problem.oracle, problem.x0, gs.CuttingPlane(0.3, 0.2), max_evals=2000, rng=0)
    assert res.success
    assert problem.distance(res.x, 0.3) <= 0.2


def test_a_gradient_that_does_not_belong_to_the_function_only_costs_the_budget():
    oracle = gs.Deterministic(lambda x: 0.0, grad=lambda x: np.array([1.0, 0.0]))
    for limit in ({"max_evals": 200}, {"max_iter": 200}):
        res = gs.minimize(oracle, np.ones(2), gs.CuttingPlane(0.1, 0.1), rng=0, **limit)
        assert not res.success
        assert (res.x == 1).all()
        assert res.nfev + res.ngev <= 401
