"""BFGS on differences: its line search and matrices against slow transcriptions, and the promises of every method."""

import json
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog, lsq_linear

import goldstein as gs
from goldstein.methods.bfgs import MAX_NUMBERS, BFGSState
from goldstein.methods.quasi_newton import LBFGS, DenseInverseHessian
from goldstein.projection import Box
from goldstein.state import generator, pack, unpack


def l1(x):
    return float(np.abs(x - 1).sum())


def max_quadratics(x):
    return float(max(x @ x, 3 * (x - 0.5) @ (x - 0.5), 1 + x.sum()))


def rosenbrock(x):
    return float(10 * abs(x[1] - x[0] ** 2) + (1 - x[0]) ** 2 + np.abs(x[2:]).sum())


FUNCTIONS = {"l1": l1, "max of quadratics": max_quadratics, "nonsmooth Rosenbrock": rosenbrock}
START = np.array([-0.7, 1.3, 0.4])


def play(run, fun, queries, limit=None, each=None):
    """Answer so many queries of a run; return its steps."""
    steps = []
    for _ in range(queries):
        query = run.ask(limit)
        if each is not None:
            each(run, query)
        steps.append(run.tell(query, [fun(point) for point in query.points]))
    return steps


def slow_line_search(fun, x, g_dot_p, p):
    """Transcribe Algorithm 2.6 of Lewis and Overton (2013); return t and how many trials it took."""
    alpha, beta, t, trials = 0.0, np.inf, 1.0, 0
    f0 = fun(x)
    while trials < 40:
        trials += 1
        e = max(1e-4 * t, 2.0 ** (-53 * 3 / 4) * abs(f0) / abs(g_dot_p))
        here = fun(x + t * p)
        if not (here <= f0 + 1e-4 * t * g_dot_p and here < f0):
            beta = t
        elif (fun(x + (t + e) * p) - here) / e < 0.5 * g_dot_p:
            alpha = t
        else:
            return t, trials
        t = 2 * alpha if beta == np.inf else (alpha + beta) / 2
    return alpha or None, trials


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_line_search_is_that_of_lewis_and_overton(name):
    """Every accepted step of a run is the one that the transcription takes from the same point."""
    fun = FUNCTIONS[name]
    run = gs.BFGS(radius=1.0).start(START, rng=0)
    compared = 0
    state = run.state
    while compared < 25:
        query = run.ask()
        search = state.search
        expected = None
        if state.phase == "search" and search.trials == 0:
            begun = (state.point, search.slope, search.direction)
        step = run.tell(query, [fun(point) for point in query.points])
        if step.completed and search is not None:
            x, slope, p = begun
            expected, trials = slow_line_search(fun, x, slope, p)
            assert trials == search.trials
            np.testing.assert_allclose(state.point, x + expected * p, rtol=1e-13)
            assert step.step_size == pytest.approx(expected, rel=1e-13)
            compared += 1


def test_the_gradient_is_that_of_differences_and_costs_one_value_a_coordinate():
    slopes = np.array([3.0, -2.0, 0.5, 1.0])
    run = gs.BFGS(radius=1.0).start(np.arange(4.0), rng=1)
    play(run, lambda x: float(slopes @ x), 1)
    query = run.ask()
    assert len(query) == 4
    assert np.count_nonzero(query.points - np.arange(4.0)) == 4
    run.tell(query, query.points @ slopes)
    np.testing.assert_allclose(run.state.gradient, slopes, rtol=1e-6)
    np.testing.assert_allclose(run.state.search.direction, -0.1 * slopes / np.linalg.norm(slopes), rtol=1e-6)


def textbook(H, s, y):
    """Return (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ, after H has grown if it was too small along y."""
    rho = 1 / (s @ y)
    H = H * max(1.0, s @ y / (y @ H @ y))
    left = np.eye(s.size) - rho * np.outer(s, y)
    return left @ H @ left.T + rho * np.outer(s, s)


def pairs(count, d=5):
    rng = np.random.default_rng(3)
    A = rng.normal(size=(d, d))
    for _ in range(count):
        s = rng.normal(size=d)
        yield s, (A @ A.T + np.eye(d)) @ s


def test_the_whole_inverse_hessian_is_the_textbook_one():
    whole = DenseInverseHessian()
    H = None
    for s, y in pairs(8):
        whole.update(s, y)
        H = textbook(np.eye(5) * (s @ y) / (y @ y) if H is None else H, s, y)
        np.testing.assert_allclose(whole.matrix, H, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(whole.dot(y), s, rtol=1e-9)


def test_the_limited_inverse_hessian_is_the_whole_one_while_nothing_grows_or_is_forgotten():
    """Pairs of a quadratic in the order of falling curvature would let H grow; in the other order it does not."""
    whole = DenseInverseHessian()
    limited = LBFGS(max_pairs=20)
    for j in range(5):
        s = np.eye(5)[j] + 0.01 * np.ones(5)
        y = (1.0 + j) * s
        whole.update(s, y)
        limited.update(s, y)
        v = np.arange(1.0, 6.0)
        np.testing.assert_allclose(limited.dot(v), whole.dot(v), rtol=1e-9)


def test_an_inverse_hessian_that_is_too_small_grows_in_every_direction():
    for inverse in (DenseInverseHessian(), LBFGS(max_pairs=3)):
        inverse.update(np.array([1e-6, 0.0]), np.array([1.0, 0.0]))
        inverse.update(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        np.testing.assert_allclose(inverse.dot(np.array([0.0, 1.0])), [0, 1], atol=1e-12)
        assert inverse.dot(np.array([1.0, 0.0]))[0] >= 1e-6


def test_the_limited_form_forgets_the_oldest_pair():
    """What is left are the last pairs, on a multiple of the identity."""
    every = list(pairs(6))
    limited = LBFGS(max_pairs=4)
    for s, y in every:
        limited.update(s, y)
    H = limited.scale * np.eye(5)
    for s, y in every[-4:]:
        rho = 1 / (s @ y)
        left = np.eye(5) - rho * np.outer(s, y)
        H = left @ H @ left.T + rho * np.outer(s, s)
    np.testing.assert_allclose(limited.dot(np.ones(5)), H @ np.ones(5), rtol=1e-9)


def test_which_form_is_chosen_by_itself():
    small = int(np.sqrt(MAX_NUMBERS))
    assert isinstance(gs.BFGS(1.0).start(np.zeros(small)).state.inverse, DenseInverseHessian)
    assert isinstance(gs.BFGS(1.0).start(np.zeros(small + 1)).state.inverse, LBFGS)
    assert gs.BFGS(1.0, memory=7).start(np.zeros(3)).state.inverse.max_pairs == 7


def test_a_gradient_of_many_variables_is_asked_in_parts():
    d = 3000
    run = gs.BFGS(1.0).start(np.zeros(d), rng=0)
    rows = []
    while run.state.phase != "search":
        query = run.ask()
        rows.append(len(query))
        run.tell(query, np.abs(query.points - 1).sum(axis=1))
    assert sum(rows) == 1 + d
    assert max(rows) * d <= MAX_NUMBERS
    np.testing.assert_allclose(run.state.gradient, -np.ones(d), rtol=1e-4)


@pytest.mark.parametrize(("function", "memory"), [(rosenbrock, None), (rosenbrock, 5), (l1, None), (l1, 5)])
def test_a_run_that_is_written_down_after_every_query_is_the_same_to_the_last_bit(function, memory):
    """Every phase, searches and gradients that are half done included: plain data holds the whole run."""
    method = gs.BFGS(radius=1.0, memory=memory)

    def again(run, query):
        phases.add((run.state.phase, run.state.failures > 0, run.state.retakes > 0))

    phases = set()
    whole = method.start(START, rng=5)
    play(whole, function, 1500, limit=2, each=again)
    assert {phase for phase, _, _ in phases} == {"value", "gradient", "search"}
    if memory is None and function is l1:  # the last bits decide, so each where it is sure to happen
        assert any(failed for _, failed, _ in phases)
    if memory is None and function is rosenbrock:
        assert any(retaken for _, _, retaken in phases)

    broken = method.start(START, rng=5)
    for _ in range(1500):
        arrays = {}
        structure = json.loads(json.dumps(pack(broken.state, arrays)))
        copies = {name: array.copy() for name, array in arrays.items()}
        broken.state = unpack(structure, copies)
        broken.context.rng = generator(broken.context.rng.bit_generator.state)
        assert isinstance(broken.state, BFGSState)
        play(broken, function, 1, limit=2)
    np.testing.assert_array_equal(broken.x, whole.x)
    np.testing.assert_array_equal(broken.state.point, whole.state.point)
    assert broken.nfev == whole.nfev


def test_how_a_gradient_is_split_does_not_move_the_run():
    def end(limit):
        run = gs.BFGS(radius=1.0).start(START, rng=2)
        while run.nfev < 700:
            play(run, max_quadratics, 1, limit=limit)
        while run.state.phase != "search":
            play(run, max_quadratics, 1, limit=limit)
        return run

    one = end(None)
    other = end(2)
    assert one.nfev == other.nfev
    np.testing.assert_array_equal(one.state.point, other.state.point)


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 8, 13, 40, 101, 777])
def test_the_budget_is_exact(budget):
    calls = []

    def fun(x):
        calls.append(x)
        return l1(x)

    for method in ("bfgs", gs.BFGS(0.5)):
        calls.clear()
        res = gs.minimize(gs.Deterministic(fun), START, method, max_evals=budget, rng=0)
        assert res.nfev == len(calls) <= budget


def test_a_larger_budget_goes_on_where_a_smaller_one_ended(tmp_path):
    settings = {"method": gs.BFGS(0.5), "rng": 1}
    gs.minimize(gs.Deterministic(rosenbrock), START, max_evals=203, journal=tmp_path / "run", **settings)
    rest = gs.minimize(gs.Deterministic(rosenbrock), START, max_evals=600, journal=tmp_path / "run", **settings)
    whole = gs.minimize(gs.Deterministic(rosenbrock), START, max_evals=600, **settings)
    np.testing.assert_array_equal(rest.x, whole.x)
    assert (rest.nfev, rest.nit) == (whole.nfev, whole.nit)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_answer_is_the_lowest_point_seen_and_never_rises(name):
    seen = []

    def fun(x):
        seen.append(FUNCTIONS[name](x))
        return seen[-1]

    run = gs.BFGS(radius=1.0).start(START, rng=0)
    for step in (play(run, fun, 1)[0] for _ in range(400)):
        assert step.value == min(seen)
        assert FUNCTIONS[name](step.x) == step.value


def test_only_accepted_steps_and_hops_are_iterations():
    run = gs.BFGS(radius=1.0).start(START, rng=0)
    steps = play(run, l1, 300)
    assert {step.completed for step in steps} == {0, 1}
    assert run.nit == run.state.nit == sum(step.completed for step in steps)
    assert all((step.iterate is None) == (step.completed == 0) for step in steps)


def share(fun, x0, method, budget, f_star=0.0, **settings):
    res = gs.minimize(gs.Deterministic(fun, vectorized=True), x0, method, max_evals=budget, **settings)
    return (res.fun - f_star) / (float(fun(x0[None])[0]) - f_star)


@pytest.mark.parametrize("memory", [None, 20])
def test_kinks_are_no_obstacle(memory):
    """|x − 1|₁ in 20 variables from 5 random starts, 1,000·(d + 1) values: 1e-9 of the gap is left at most."""
    for seed in range(5):
        x0 = np.random.default_rng(seed).normal(size=20)
        left = share(lambda X: np.abs(X - 1).sum(axis=1), x0, gs.BFGS(1.0, memory=memory), 21_000, rng=seed)
        assert left < (1e-9 if memory is None else 1e-6)


def test_the_limited_form_is_nearly_as_good_where_f_is_smooth():
    weights = np.logspace(0, 2, 30)
    x0 = np.random.default_rng(0).normal(size=30)
    for memory in (None, 10):
        left = share(lambda X: (weights * X**2).sum(axis=1), x0, gs.BFGS(1.0, memory=memory), 6000, rng=0)
        assert left < 1e-9


@pytest.mark.parametrize(("value", "coordinate"), [(2.0**13, 1.0), (2.0**-13, 1.0), (1.0, 2.0**13), (1.0, 2.0**-13)])
def test_units_that_are_powers_of_two_change_nothing_at_all(value, coordinate):
    x0 = np.array([-0.7, 1.3, 0.4, 2.2])

    def run(value, coordinate):
        def fun(X):
            return value * np.abs(X / coordinate - 1).sum(axis=1)

        oracle = gs.Deterministic(fun, vectorized=True)
        return gs.minimize(oracle, coordinate * x0, gs.BFGS(coordinate), max_evals=1500, rng=4)

    plain = run(1.0, 1.0)
    scaled = run(value, coordinate)
    np.testing.assert_array_equal(scaled.x / coordinate, plain.x)
    assert scaled.fun / value == plain.fun


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_by_name_units_of_values_and_coordinates_do_not_matter(unit):
    x0 = np.random.default_rng(0).normal(size=10)
    assert share(lambda X: unit * np.abs(X - 1).sum(axis=1), x0, "bfgs", 11_000, rng=0) < 1e-9
    assert share(lambda X: np.abs(X / unit - 1).sum(axis=1), unit * x0, "bfgs", 11_000, rng=0) < 1e-9
    weights = np.where(np.arange(10) % 2, 1.0, unit)
    scales = {"x_scale": weights, "rng": 0}
    assert share(lambda X: np.abs(X / weights - 1).sum(axis=1), weights * x0, "bfgs", 11_000, **scales) < 1e-9


def boxes(count):
    """Draw boxes with infinite sides, fixed variables and starts on the boundary."""
    rng = np.random.default_rng(11)
    for number in range(count):
        d = int(rng.integers(1, 6))
        centre = rng.normal(size=d) * 10.0 ** rng.integers(-2, 4)
        width = 10.0 ** rng.uniform(-9, 1, size=d)
        lower = np.where(rng.random(d) < 0.2, -np.inf, centre - width * rng.random(d))
        upper = np.where(rng.random(d) < 0.2, np.inf, centre + width)
        fixed = rng.random(d) < 0.15
        lower = np.where(fixed, centre, lower)
        upper = np.where(fixed, centre, upper)
        place = rng.integers(3, size=d)
        start = np.where(place == 0, lower, np.where(place == 1, upper, centre))
        yield number, Box(lower, upper), np.where(np.isfinite(start), start, centre)


def test_no_query_leaves_the_box():
    """200 random boxes, whose sides may be infinite, equal or 1e-9 wide, and starts inside, on faces and in corners."""
    for number, box, x0 in boxes(200):
        target = x0 + np.random.default_rng(number).normal(size=x0.size)
        asked = []

        def fun(X, target=target, asked=asked):
            asked.append(X.copy())
            return np.abs(X - target).sum(axis=1) + ((X - target) ** 2).sum(axis=1)

        oracle = gs.Deterministic(fun, vectorized=True)
        method = gs.BFGS(1.0) if number % 2 else "bfgs"
        res = gs.minimize(oracle, x0, method, projection=box, max_evals=300, rng=number)
        points = np.concatenate([*asked, res.x[None]])
        assert (points >= box.lower).all()
        assert (points <= box.upper).all()


def test_differences_longer_than_a_box_end_on_its_bounds():
    """On flat functions differences grow up to the radius, 1e4 here: they are cut, and their sums not rounded out."""
    rng = np.random.default_rng(2)
    for seed in range(100):
        lower = rng.normal(size=8) * 10.0 ** rng.integers(-3, 3, size=8)
        upper = lower + rng.random(8)
        asked = []

        def fun(X, asked=asked):
            asked.append(X.copy())
            return np.ones(len(X))

        oracle = gs.Deterministic(fun, vectorized=True)
        x0 = rng.uniform(lower, upper)
        with pytest.warns(RuntimeWarning, match="exactly 0"):
            gs.minimize(oracle, x0, gs.BFGS(1e4), projection=Box(lower, upper), max_evals=100, rng=seed)
        points = np.concatenate(asked)
        assert (points >= lower).all()
        assert (points <= upper).all()
        assert ((points == lower) | (points == upper)).any()


def test_no_query_leaves_the_box_by_rounding_where_coordinates_are_scaled():
    """The minimum lies in a corner of each of 60 boxes, where (lower / scale) · scale may be less than lower."""
    rng = np.random.default_rng(0)
    for seed in range(60):
        lower = rng.normal(size=3)
        upper = lower + rng.random(3)
        corner = np.where(rng.random(3) < 0.5, lower, upper)
        asked = []

        def fun(X, corner=corner, asked=asked):
            asked.append(X.copy())
            return np.abs(X - corner).sum(axis=1)

        settings = {"bounds": list(zip(lower, upper, strict=True)), "x_scale": 10 ** rng.uniform(-3, 3, size=3)}
        oracle = gs.Deterministic(fun, vectorized=True)
        gs.minimize(oracle, (lower + upper) / 2, gs.BFGS(1.0), max_evals=100, rng=seed, **settings)
        points = np.concatenate(asked)
        assert (points >= lower).all()
        assert (points <= upper).all()


@pytest.mark.parametrize("corner", [0.0, 1.0])
def test_a_start_in_the_corner_of_a_box_is_an_ordinary_start(corner):
    """|x − 0.3|₁ in [0, 1]⁵ from a corner, 1,000 values: 1e-9 on each of 6 seeds."""
    for seed in range(6):
        res = gs.minimize(
            gs.Deterministic(lambda x: np.abs(x - 0.3).sum()),
            np.full(5, corner),
            "bfgs",
            bounds=[(0, 1)] * 5,
            max_evals=1000,
            rng=seed,
        )
        assert res.fun < 1e-9


def test_a_minimum_on_the_boundary_is_found():
    """The minimiser of a separable function in a box is that of each coordinate, cut to its bounds."""
    target = np.array([-2.0, 0.5, 3.0, 0.2, -0.4, 7.0])
    rotated = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    bounds = [(0, 1)] * 5 + [(2, 2)]
    for seed in range(5):
        x0 = np.random.default_rng(seed).random(6)
        settings = {"bounds": bounds, "max_evals": 3000, "rng": seed}
        res = gs.minimize(gs.Deterministic(lambda x: np.abs(x - target).sum()), x0, "bfgs", **settings)
        np.testing.assert_allclose(res.x, [0, 0.5, 1, 0.2, 0, 2], atol=1e-9)

        smooth = gs.minimize(gs.Deterministic(lambda x: ((rotated @ (x - target)) ** 2).sum()), x0, "bfgs", **settings)
        np.testing.assert_allclose(smooth.x, [0, 0.5, 1, 0.2, 0, 2], atol=1e-6)


def test_bounds_and_curvature_together():
    """Least squares in a box, condition 1e4, about half of the variables at bounds, against an active-set solver."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(10, 10)) * np.logspace(0, 2, 10)
        b = 3 * A @ rng.normal(size=10)
        best = lsq_linear(A, b, (-1, 1), method="bvls", tol=1e-14).cost
        x0 = rng.uniform(-1, 1, size=10)
        bounds = [(-1, 1)] * 10
        oracle = gs.Deterministic(lambda x, A=A, b=b: 0.5 * float(((A @ x - b) ** 2).sum()))
        res = gs.minimize(oracle, x0, "bfgs", bounds=bounds, max_evals=4000, rng=seed)
        assert res.fun - best < 1e-7 * (oracle.fun(x0) - best)


def test_bounds_and_kinks_together():
    """|Ax − b|₁ in a box against linear programming, median of 15: variables must be held at bounds for that."""
    d = 15
    left = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(d, d)) * np.logspace(0, 2, d)
        b = 3 * A @ rng.normal(size=d)
        rows = np.block([[A, -np.eye(d)], [-A, -np.eye(d)]])
        costs = np.repeat([0.0, 1.0], d)
        best = linprog(costs, rows, np.concatenate([b, -b]), bounds=[(-1, 1)] * d + [(0, None)] * d).fun
        x0 = rng.uniform(-1, 1, size=d)
        oracle = gs.Deterministic(lambda x, A=A, b=b: float(np.abs(A @ x - b).sum()))
        res = gs.minimize(oracle, x0, gs.BFGS(1.0), bounds=[(-1, 1)] * d, max_evals=1500, rng=seed)
        left.append((res.fun - best) / (oracle.fun(x0) - best))
    assert np.median(left) < 1e-7


def test_a_box_that_holds_one_point_is_asked_once():
    calls = []
    oracle = gs.Deterministic(lambda x: calls.append(x) or l1(x))
    res = gs.minimize(oracle, [0.0, 3.0], gs.BFGS(1.0), bounds=[(2, 2), (3, 3)], max_evals=100)
    np.testing.assert_array_equal(res.x, [2, 3])
    assert res.fun == 3
    assert len(calls) == res.nfev == 1  # for the answer


def test_other_sets_and_noise_are_refused_in_a_sentence():
    ball = gs.projection.L2Ball(np.zeros(3), 1.0)
    for method in ("bfgs", gs.BFGS(1.0)):
        with pytest.raises(ValueError, match=r"^bfgs takes bounds but no other set, got a projection of type L2Ball"):
            gs.minimize(gs.Deterministic(l1), START, method, projection=ball, max_evals=100)
        with pytest.raises(ValueError, match=r"^bfgs needs exact values of f"):
            gs.minimize(gs.FiniteSum(lambda x, i: l1(x), 5), START, method, max_evals=100)
    with pytest.raises(ValueError, match=r"^radius must be a positive number, got -1"):
        gs.BFGS(-1)
    with pytest.raises(ValueError, match=r"^memory must be a whole number of at least 1 or None, got 0"):
        gs.BFGS(1.0, memory=0)


def test_a_region_where_f_fails_is_avoided():
    """x − ln x is NaN below 0, where the first steps and half of the differences of a start near 0 end."""

    def fun(x):
        with np.errstate(invalid="ignore"):
            return float((x - np.log(x)).sum() + np.abs(x - 1).sum())

    for seed in range(5):
        for x0 in (np.array([1e-9, 3.0, 1e-3]), np.full(3, 40.0)):
            res = gs.minimize(gs.Deterministic(fun), x0, gs.BFGS(10.0), max_evals=2000, rng=seed)
            assert res.fun < 3 + 1e-9


def test_values_that_fail_now_and_then_are_asked_again():
    """A fifth of the values fails at random: they are counted, and 1e-6 of the gap is left at most on 5 seeds."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        oracle = gs.Deterministic(lambda x, rng=rng: np.nan if rng.random() < 0.2 else l1(x))
        res = gs.minimize(oracle, 3 * START, "bfgs", max_evals=3000, rng=seed)
        assert res.nfail > 300
        assert l1(res.x) < 1e-6 * l1(3 * START)


def test_a_coordinate_whose_differences_always_fail_stays_where_it_is():
    def fun(x):
        return np.nan if x[0] != 0.25 else float(np.abs(x - 1).sum())

    res = gs.minimize(gs.Deterministic(fun), [0.25, 3.0, -1.0], gs.BFGS(1.0), max_evals=600, rng=0)
    assert res.fun == pytest.approx(0.75, abs=1e-9)


def test_single_precision_is_measured_and_makes_no_alarm():
    """Values and points of float32: differences are longer, and the run ends within single precision of the minimum."""
    x0 = np.random.default_rng(0).normal(size=20)

    def fun(X):
        return np.abs(X.astype(np.float32) - np.float32(1)).sum(axis=1) + np.float32(3)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(3):
            assert share(fun, x0, "bfgs", 8000, f_star=3.0, rng=seed) < 1e-5


def test_a_slope_that_is_lost_in_rounding_is_warned_of():
    with pytest.warns(RuntimeWarning, match="Rounding errors of F .* make up"):
        gs.minimize(gs.Deterministic(lambda x: l1(x) + 1e14), START, gs.BFGS(1.0), max_evals=200, rng=0)
    with pytest.warns(RuntimeWarning, match="are exactly 0: F is flat there"):
        res = gs.minimize(gs.Deterministic(lambda x: 2.0), START, gs.BFGS(1.0), max_evals=200, rng=0)
    assert res.nfev <= 200


def test_a_large_constant_costs_digits_but_no_descent():
    """With |F| = 1e6 the first differences are lost, and taken again with longer steps."""
    x0 = np.random.default_rng(0).normal(size=10)
    for seed in range(5):
        left = share(lambda X: np.abs(X - 1).sum(axis=1) + 1e6, x0, "bfgs", 11_000, f_star=1e6, rng=seed)
        assert left < 3e-7


def test_a_flat_function_ends_by_its_iterations():
    """Hops are iterations, so that a run without a budget ends where nothing descends."""
    with pytest.warns(RuntimeWarning, match="exactly 0"):
        res = gs.minimize(gs.Deterministic(lambda x: 2.0), START, gs.BFGS(1.0), max_iter=5, rng=0)
    assert res.nit == 5


def test_a_bounded_function_is_not_run_away_from():
    """Σ sin x_j from 6 random starts, d = 5, 2,000 values: a minimum, at no more than ten times the way to it."""
    for seed in range(6):
        x0 = np.random.default_rng(seed).normal(size=5)
        asked = []

        def fun(X, asked=asked):
            asked.append(X.copy())
            return np.sin(X).sum(axis=1)

        oracle = gs.Deterministic(fun, vectorized=True)
        res = gs.minimize(oracle, x0, gs.BFGS(1.0), max_evals=2000, rng=seed)
        assert res.fun < -5 + 1e-9
        way = max(np.linalg.norm(res.x - x0), np.linalg.norm(x0))
        assert np.linalg.norm(np.concatenate(asked) - x0, axis=1).max() < 10 * way


def test_a_function_without_a_lower_bound_is_followed_down():
    res = gs.minimize(gs.Deterministic(lambda x: float(x.sum())), START, gs.BFGS(1.0), max_evals=500, rng=0)
    assert res.fun < -1e6


def test_more_variables_than_the_budget_has_values():
    res = gs.minimize(gs.Deterministic(l1), np.zeros(50), gs.BFGS(1.0), max_evals=30, rng=0)
    assert res.nfev <= 30
    assert res.fun <= 50
