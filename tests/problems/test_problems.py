"""Problems, those of the studies too, state true answers: values, minima, gradients, Lipschitz constants."""

import inspect
import pickle
import subprocess
import sys
from math import pi, sqrt

import numpy as np
import pytest
from scipy.optimize import nnls

import goldstein.problems
from goldstein.oracle import Query
from studies import problems as gp

CATALOGUE = gp.catalogue()
EVERY = {**CATALOGUE, "max_coordinate": gp.max_coordinate, "negative_abs": gp.negative_abs}
GLOBALLY_LIPSCHITZ = ["ridge", "cone", "shell", "capped_ridge", "l1", "chebyshev_rosenbrock_linear", "mxhilb"]
GLOBALLY_LIPSCHITZ += ["active_faces", "steiner2", "maxl", "goffin", "l1hilb", "least_absolute_deviations"]


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in EVERY.items()}


def in_ball(problem, k, rng, within=np.inf):
    """Points around x0: uniform directions, single coordinates and pairs, at radii up to the ball's."""
    d = problem.dim
    steps = rng.standard_normal((k, d))
    steps[: k // 2] *= rng.random((k // 2, d)) < min(1.0, 2 / d)
    steps /= np.maximum(np.linalg.norm(steps, axis=1, keepdims=True), 1e-12)
    radii = min(problem.ball, within, 10.0) * rng.random((k, 1)) ** (1 / 4)
    return problem.x0 + radii * steps


def min_norm(G):
    """Norm of the shortest vector in the convex hull of the rows, by nonnegative least squares."""
    scale = np.abs(G).max() or 1.0
    weights, _ = nnls(np.vstack([G.T / scale, np.ones(len(G))]), np.r_[np.zeros(G.shape[1]), 1.0], maxiter=10_000)
    return float(np.linalg.norm(weights @ G / weights.sum()))


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_infimum_is_attained_at_the_minimiser_inside_the_ball_and_nowhere_undercut(made, name):
    problem = made[name]
    assert problem.name == name
    assert problem.value(problem.minimiser) == pytest.approx(problem.f_star, rel=1e-13, abs=1e-13)
    assert np.linalg.norm(problem.minimiser - problem.x0) < problem.ball
    rng = np.random.default_rng(2)
    scales = 10.0 ** rng.uniform(-6, 0, size=(1500, 1))
    near = problem.minimiser + scales * rng.standard_normal((1500, problem.dim))
    X = np.vstack([in_ball(problem, 500, rng), near])
    assert problem.value(X).min() >= problem.f_star - 1e-12 * max(1, abs(problem.f_star))
    assert 0 < problem.gap < np.inf


# Too many pieces meet in the minimisers of these two for a sample to show; each has a test of its own.
@pytest.mark.parametrize("name", sorted(CATALOGUE.keys() - {"steiner2", "least_absolute_deviations"}))
def test_the_minimiser_is_stationary(made, name):
    """Some convex combination of gradients around the minimiser is far shorter than its terms."""
    problem = made[name]
    rng = np.random.default_rng(3)
    G = problem.gradient(problem.minimiser + 1e-7 * rng.standard_normal((600, problem.dim)))
    assert min_norm(G) <= 0.02 * np.median(np.linalg.norm(G, axis=1)) + 1e-5


@pytest.mark.parametrize("name", EVERY)
def test_one_point_a_batch_and_the_oracle_give_the_same_value_and_gradient(made, name):
    problem = made[name]
    X = in_ball(problem, 5, np.random.default_rng(4), within=1.0)
    values, gradients = problem.value(X), problem.gradient(X)
    assert values.shape == (5,)
    assert isinstance(problem.value(X[0]), float)
    np.testing.assert_allclose([problem.value(x) for x in X], values, rtol=1e-13)
    np.testing.assert_allclose([problem.gradient(x) for x in X], gradients, rtol=1e-12, atol=1e-12)
    n = problem.oracle.n or 1
    samples = None if problem.oracle.n is None else np.tile(np.arange(n), 5)
    query = Query(np.repeat(X, n, axis=0), samples)
    np.testing.assert_allclose(problem.oracle.evaluate(query).values.reshape(5, n).mean(axis=1), values, rtol=1e-12)
    with pytest.raises(ValueError, match=f"has {problem.dim} variables"):
        problem.value(np.zeros(problem.dim + 1))


@pytest.mark.parametrize("name", EVERY)
def test_gradients_are_the_slopes_of_the_values(made, name):
    problem = made[name]
    rng = np.random.default_rng(5)
    X = in_ball(problem, 30, rng, within=1.0) + 1e-2 * rng.random(problem.dim)  # off the kinks at the start
    X = np.vstack([X, 0.5 * rng.standard_normal(X.shape)])
    V = rng.standard_normal(X.shape)
    h = 1e-6
    slopes = (problem.value(X + h * V) - problem.value(X - h * V)) / (2 * h)
    predicted = (problem.gradient(X) * V).sum(axis=1)
    size = 1 + np.abs(problem.gradient(X)).sum(axis=1)
    assert np.abs(slopes - predicted).max() < 3e-6 * size.max()


@pytest.mark.parametrize("name", ["least_absolute_deviations", "robust_phase_retrieval", "max_of_quadratics"])
def test_component_gradients_are_the_slopes_of_the_components(made, name):
    problem = made[name]
    rng = np.random.default_rng(6)
    X, V = in_ball(problem, 60, rng, within=1.0), rng.standard_normal((60, problem.dim))
    i = rng.integers(0, problem.oracle.n, 60)

    def ask(points, order=0):
        return problem.oracle.evaluate(Query(points, i, order)).values

    slopes = (ask(X + 1e-6 * V) - ask(X - 1e-6 * V)) / 2e-6
    np.testing.assert_allclose((ask(X, 1) * V).sum(axis=1), slopes, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", EVERY)
def test_no_gradient_on_the_ball_exceeds_the_lipschitz_constant(made, name):
    problem = made[name]
    rng = np.random.default_rng(7)
    X = np.vstack([in_ball(problem, 400, rng), steepest_ascent_of_slope(problem, rng)])
    n = problem.oracle.n
    if n is None:
        with np.errstate(over="ignore"):
            norms = np.linalg.norm(problem.gradient(X), axis=1)
    else:
        every = np.arange(n)
        norms = np.empty(len(X))
        for row, x in enumerate(X):
            G = problem.oracle.evaluate(Query(np.broadcast_to(x, (n, x.size)), every, 1)).values
            norms[row] = np.sqrt((G**2).sum(axis=1).mean())
    assert norms.max() <= problem.lipschitz * (1 + 1e-12)


def steepest_ascent_of_slope(problem, rng):
    """Points of the ball with steep gradients: keep the best of random moves towards the boundary."""
    X = in_ball(problem, 40, rng)
    best = np.linalg.norm(problem.gradient(X), axis=1)
    reach = min(problem.ball, 10.0)
    for scale in np.repeat([1.0, 0.3, 0.1], 8):
        trial = X - problem.x0 + reach * scale * rng.standard_normal(X.shape) / sqrt(problem.dim)
        length = np.linalg.norm(trial, axis=1, keepdims=True)
        trial = problem.x0 + trial * np.minimum(1, reach / length)
        with np.errstate(over="ignore"):
            steep = np.linalg.norm(problem.gradient(trial), axis=1)
        X[steep > best], best = trial[steep > best], np.maximum(best, steep)
    return X


@pytest.mark.parametrize("make", [gp.chained_cb3_1, gp.chained_cb3_2, gp.cb2])
def test_the_constant_covers_the_exponential_where_it_is_steepest(make):
    problem = make(ball=9.0)
    step = np.zeros(problem.dim)
    step[:2] = -1, 1
    x = problem.x0 + 9.0 * step / np.linalg.norm(step)
    assert 1e4 < np.linalg.norm(problem.gradient(x)) <= problem.lipschitz


@pytest.mark.parametrize("name", GLOBALLY_LIPSCHITZ)
def test_a_constant_that_holds_everywhere_is_nearly_attained(made, name):
    problem = made[name]
    assert problem.ball == np.inf
    rng = np.random.default_rng(8)
    X = np.vstack([in_ball(problem, 300, rng), problem.minimiser + 1e-6 * rng.standard_normal((300, problem.dim))])
    if name == "l1hilb":  # the steepest piece has all signs equal
        X = np.ones((1, problem.dim))
    steepest = np.linalg.norm(problem.gradient(X), axis=1).max()
    if problem.oracle.n is not None:  # the constant belongs to the components, not to their mean
        G = problem.oracle.evaluate(Query(np.zeros((1000, problem.dim)), np.arange(1000), 1)).values
        steepest = np.sqrt((G**2).sum(axis=1).mean())
    assert steepest >= 0.6 * problem.lipschitz


@pytest.mark.parametrize("name", sorted(CATALOGUE.keys() - set(GLOBALLY_LIPSCHITZ)))
def test_a_smaller_ball_gives_a_smaller_constant(made, name):
    small = CATALOGUE[name](ball=0.1)
    assert small.ball == 0.1
    assert small.lipschitz < made[name].lipschitz
    G = small.gradient(in_ball(small, 300, np.random.default_rng(9)))
    assert np.linalg.norm(G, axis=1).max() <= small.lipschitz


@pytest.mark.parametrize("name", CATALOGUE)
def test_convex_means_convex(name):
    """On many short segments the middle is below the mean of the ends, if and only if f is convex."""
    parameters = inspect.signature(CATALOGUE[name]).parameters
    problem = CATALOGUE[name](**{key: value for key, value in {"n": 20, "d": 3}.items() if key in parameters})
    rng = np.random.default_rng(10)
    shape = (3000 // (problem.oracle.n or 1), problem.dim)
    centres = [problem.x0, problem.minimiser, np.zeros(problem.dim)]
    middle = np.vstack([c + 10.0 ** rng.uniform(-2, 0.5, (shape[0], 1)) * rng.standard_normal(shape) for c in centres])
    step = 10.0 ** rng.uniform(-2, 0, (len(middle), 1)) * rng.standard_normal(middle.shape)
    step[::2] *= rng.random(step[::2].shape) < 1 / problem.dim
    ends = problem.value(middle + step), problem.value(middle - step)
    excess = problem.value(middle) - sum(ends) / 2
    assert (excess <= 1e-9 * (1 + np.abs(ends).max(axis=0))).all() == problem.convex


def test_least_absolute_deviations_is_solved_exactly():
    """0 is a subgradient: signs of the residuals, with some weight in [−1, 1] where the residual is 0."""
    problem = gp.least_absolute_deviations(n=300, d=6, rng=3)
    A, b = problem.oracle.args
    residual = A @ problem.minimiser - b
    fitted = np.abs(residual) < 1e-9
    assert fitted.sum() == 6
    weights = np.linalg.solve(A[fitted].T, -np.sign(residual[~fitted]) @ A[~fitted])
    assert np.abs(weights).max() <= 1
    assert problem.f_star == pytest.approx(np.abs(residual).mean(), rel=1e-14)
    assert np.abs(problem.minimiser - 1).max() < 0.3
    assert gp.least_absolute_deviations(n=50, d=3, noise=0).f_star == pytest.approx(0, abs=1e-12)


def test_the_default_problem_is_the_one_described():
    problem = gp.least_absolute_deviations()
    assert (problem.oracle.n, problem.dim) == (1000, 20)
    assert problem.lipschitz == pytest.approx(sqrt(20), rel=0.03)
    assert problem.f_star == pytest.approx(0.5 * sqrt(2 / pi), rel=0.1)


def test_every_component_of_max_of_quadratics_grows_from_the_common_minimiser():
    problem = gp.max_of_quadratics(n=20, d=4, pieces=3, rng=1)
    X = 1 + np.random.default_rng(15).standard_normal((500, 4))
    i = np.arange(500) % 20
    values = problem.oracle.evaluate(Query(X, i)).values
    assert (values >= ((X - 1) ** 2).sum(axis=1) / 2 - 1e-12).all()
    # The same weights balance the Hessians to I and every component's slopes to 0.
    H, g = problem.oracle.args
    weights = np.linalg.lstsq(H.reshape(3, -1).T, np.eye(4).ravel())[0]
    assert weights.min() > 0
    assert weights.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(np.tensordot(weights, H, axes=1), np.eye(4), atol=1e-12)
    np.testing.assert_allclose(weights @ g, 0, atol=1e-12)
    assert np.linalg.eigvalsh(H).min() < 0


def test_phase_retrieval_does_not_see_the_sign():
    problem = gp.robust_phase_retrieval(rng=4)
    assert problem.value(-problem.minimiser) == pytest.approx(0, abs=1e-14)
    A, _ = problem.oracle.args
    x = problem.x0
    expected = np.mean(np.abs((A @ x) ** 2 - (A @ problem.minimiser) ** 2))
    assert problem.value(x) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("make", [gp.least_absolute_deviations, gp.robust_phase_retrieval, gp.max_of_quadratics])
def test_the_same_seed_gives_the_same_problem(make):
    values = [make(rng=rng).value(np.full(make().dim, 0.3)) for rng in (5, np.random.default_rng(5), 6)]
    assert values[0] == values[1] != values[2]


@pytest.mark.parametrize("name", EVERY)
def test_a_problem_survives_pickling_and_its_points_cannot_be_changed(made, name):
    problem = made[name]
    twin = pickle.loads(pickle.dumps(problem))
    assert twin.value(problem.x0) == problem.value(problem.x0)
    if problem.distance is not None:
        assert twin.distance(problem.x0, 0.1) == problem.distance(problem.x0, 0.1)
    with pytest.raises(ValueError, match="read-only"):
        problem.x0[0] = 7


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: gp.ridge(0), "d must be a whole number of at least 1, got 0"),
        (lambda: gp.chained_lq(1), "d must be a whole number of at least 2"),
        (lambda: gp.cone(2.5), "d must be a whole number"),
        (lambda: gp.ridge(2, direction=[0, 0]), "not all 0"),
        (lambda: gp.ridge(2, direction=[1, 0, 0]), "vector of 2"),
        (lambda: gp.maxq(5, ball=0), "ball must be the radius"),
        (lambda: gp.l1(3, value_scale=-1), "value_scale must be a positive number"),
        (lambda: gp.ridge(2).smoothed_gradient(np.zeros(2), 0.0), "delta must be a positive number"),
        (lambda: gp.least_absolute_deviations(noise=-1), "noise must be a finite number of at least 0"),
        (lambda: gp.max_of_quadratics(pieces=0), "pieces must be a whole number"),
    ],
)
def test_bad_arguments_get_one_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()


def test_the_catalogue_lists_every_problem_with_a_finite_infimum():
    constructors = {name for name in goldstein.problems.__all__ if name.islower()}
    for module in (gp.classical, gp.closed_form, gp.luksan_vlcek, gp.stochastic):
        for name, thing in vars(module).items():
            if not name.startswith("_") and getattr(thing, "__annotations__", {}).get("return") == "Problem":
                constructors.add(name)
    constructors -= {"deterministic", "capped_l1_svm", "max_coordinate", "negative_abs"}
    assert constructors == set(CATALOGUE)


def test_importing_the_problems_does_not_import_numba():
    code = "import sys, goldstein.problems; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
