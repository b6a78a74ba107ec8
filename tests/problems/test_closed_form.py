"""Closed forms of the Goldstein distance and of the smoothed gradient are exact."""

from itertools import pairwise
from math import cos, pi, sin, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import nnls
from scipy.special import gammaln, hyp2f1

from studies import problems as gp


def min_norm(G):
    """Norm of the shortest vector in the convex hull of the rows, by nonnegative least squares."""
    scale = np.abs(G).max() or 1.0
    weights, _ = nnls(np.vstack([G.T / scale, np.ones(len(G))]), np.r_[np.zeros(G.shape[1]), 1.0], maxiter=10_000)
    return float(np.linalg.norm(weights @ G / weights.sum()))


def uniform_ball(k, d, rng):
    w = rng.standard_normal((k, d))
    return w / np.linalg.norm(w, axis=1, keepdims=True) * rng.random((k, 1)) ** (1 / d)


def around(problem, x, delta, rng, k=2500):
    U = uniform_ball(k, problem.dim, rng)
    U[::3] /= np.linalg.norm(U[::3], axis=1, keepdims=True)
    return x + delta * U


@pytest.mark.parametrize("name", ["ridge", "cone", "shell", "capped_ridge", "max_coordinate"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_distance_is_that_of_a_densely_sampled_hull(name, d):
    problem = getattr(gp, name)(d)
    rng = np.random.default_rng(11)
    seen = set()
    for r in (0.05, 0.25, 0.5, 0.75, 0.95, 1.15, 1.6):
        direction = rng.standard_normal(d)
        if name == "max_coordinate":
            direction[0] = direction.max() + 0.3 * rng.random()
        x = r * direction / np.linalg.norm(direction)
        if "ridge" in name:
            x = r * problem.x0 / np.linalg.norm(problem.x0)
        for delta in (0.1, 0.3):
            exact = problem.distance(x, delta)
            hull = min_norm(problem.gradient(around(problem, x, delta, rng)))
            assert exact - 1e-9 <= hull <= exact + 0.03, (r, delta)
            seen.add(round(exact, 2))
    assert len(seen) > 1 or d == 1


def test_a_hull_around_one_point_is_as_short_as_the_angle_says():
    assert gp.cone(5).distance(np.full(5, 1 / sqrt(5)), 0.6) == pytest.approx(0.8, rel=1e-14)
    assert gp.cone(5).distance(np.zeros(5), 0.0) == 0
    assert gp.cone(1).distance(np.ones(1), 0.6) == 1
    assert gp.shell(4).distance(np.array([0.5, 0, 0, 0]), 0.3) == pytest.approx(0.8, rel=1e-14)


@pytest.mark.parametrize("d", [1, 4, 25])
def test_certificate_traps_look_stationary_without_being_minimal(d):
    trap = gp.max_coordinate(d)
    for delta in (0.0, 1e-3, 10.0):
        assert trap.distance(trap.x0, delta) == pytest.approx(1 / sqrt(d), rel=1e-14)
    peak = np.r_[1.0, np.zeros(d - 1)]
    assert trap.distance(peak, 0.7 if d > 1 else 5.0) == 1  # another coordinate ties at distance 1/√2
    if d > 1:
        # Making coordinate j largest costs 1/√2, but never more than one such coordinate at a time.
        assert trap.distance(peak, 0.7072) == pytest.approx(1 / sqrt(d), rel=1e-14)
    assert trap.f_star == -np.inf
    maximum = gp.negative_abs()
    assert maximum.distance(maximum.x0, 0.0) == 0
    assert maximum.distance(np.array([0.2]), 0.1) == 1
    assert maximum.smoothed_gradient(np.array([0.05]), 0.1) == pytest.approx([-0.5])


def test_the_piecewise_linear_rosenbrock_function_is_stationary_at_a_point_that_is_not_minimal():
    problem = gp.chebyshev_rosenbrock_linear(2)
    x = np.array([0.0, -1.0])
    G = problem.gradient(around(problem, x, 1e-6, np.random.default_rng(12)))
    assert min_norm(G) < 1e-12
    assert problem.value(x) == pytest.approx(0.25)


CROSSINGS = [
    (0.03, 0.2),
    (0.2, 0.2),
    (0.5, 0.3),
    (0.9, 0.25),
    (1.0, 0.4),
    (1.2, 0.3),
    (2.0, 0.5),
    (0.4, 1.5),
    (0.1, 2.0),
]


@pytest.mark.parametrize("name", ["ridge", "cone", "shell", "capped_ridge", "l1"])
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_the_smoothed_gradient_is_the_mean_gradient_over_the_ball(name, d):
    """Every component within 5 standard errors: over all cases, one seed in a thousand would miss."""
    problem = getattr(gp, name)(d)
    rng = np.random.default_rng(13)
    U = uniform_ball(20_000, d, rng)
    for r, delta in CROSSINGS:
        direction = rng.standard_normal(d)
        x = r * direction / np.linalg.norm(direction) + (problem.minimiser if name == "l1" else 0)
        if "ridge" in name:
            x = x + (r - x @ problem.x0 / np.linalg.norm(problem.x0)) * problem.x0 / np.linalg.norm(problem.x0)
        # u and −u together: the odd part of the noise cancels.
        G = (problem.gradient(x + delta * U) + problem.gradient(x - delta * U)) / 2
        error = np.abs(G.mean(axis=0) - problem.smoothed_gradient(x, delta))
        # 10/N covers what no draw shows, an event of probability below 1/N.
        assert (error <= 5 * G.std(axis=0) / sqrt(len(U)) + 10 / len(U)).all(), (r, delta)


@pytest.mark.parametrize(("name", "radial"), [("cone", lambda t: t), ("shell", lambda t: abs(t - 1))])
@pytest.mark.parametrize("d", [2, 3, 10, 200, 2000])
def test_radial_smoothed_gradients_are_exact(name, radial, d):
    """The same by the divergence theorem, ∇f_δ(x) = (d/δ) E f(x + δw) w over the sphere: another integral."""
    problem = getattr(gp, name)(d)
    constant = np.exp(gammaln(d / 2) - gammaln((d - 1) / 2)) / sqrt(pi)
    for r, delta in CROSSINGS:
        cut = np.clip((1 - r**2 - delta**2) / (2 * r * delta), -1, 1)
        width = min(pi / 2, 3 / sqrt(d))
        points = [0, float(np.arccos(cut)), pi / 2 - width, pi / 2, pi / 2 + width, pi]

        def integrand(angle, r=r, delta=delta):
            distance = sqrt((r - delta) ** 2 + 4 * r * delta * cos(angle / 2) ** 2)
            return radial(distance) * cos(angle) * sin(angle) ** (d - 2)

        parts = [quad(integrand, a, b, epsabs=1e-13, limit=200)[0] for a, b in pairwise(sorted(points))]
        expected = d / delta * constant * sum(parts)
        x = np.r_[r, np.zeros(d - 1)]
        assert problem.smoothed_gradient(x, delta)[0] == pytest.approx(expected, abs=1e-9)


def test_in_one_dimension_the_smoothed_gradient_is_a_difference_quotient():
    for make in (gp.ridge, gp.cone, gp.shell, gp.capped_ridge):
        problem = make(1)
        for x, delta in [(0.1, 0.3), (0.8, 0.4), (-1.3, 0.5), (0.2, 3.0)]:
            ends = problem.value(np.array([[x + delta], [x - delta]]))
            smoothed = problem.smoothed_gradient(np.array([x]), delta)
            assert smoothed == pytest.approx([(ends[0] - ends[1]) / (2 * delta)], abs=1e-10)


def test_far_from_every_kink_smoothing_changes_nothing():
    assert gp.ridge(3).smoothed_gradient(np.ones(3), 0.5) == pytest.approx(np.ones(3) / sqrt(3), rel=1e-14)
    assert gp.capped_ridge(3).smoothed_gradient(np.full(3, 2.0), 0.5) == pytest.approx(np.zeros(3), abs=1e-15)
    assert gp.l1(3).smoothed_gradient(np.zeros(3), 0.5) == pytest.approx(-np.ones(3), rel=1e-14)


def test_the_scalings_of_l1_are_changes_of_units():
    plain, scaled = gp.l1(4), gp.l1(4, value_scale=1e3, coordinate_scale=1e-4)
    X = np.random.default_rng(14).standard_normal((20, 4))
    np.testing.assert_allclose(scaled.value(1e-4 * X), 1e3 * plain.value(X), rtol=1e-12)
    np.testing.assert_allclose(scaled.gradient(1e-4 * X), 1e7 * plain.gradient(X), rtol=1e-12)
    assert scaled.lipschitz == pytest.approx(1e7 * plain.lipschitz)
    assert scaled.value(scaled.minimiser) == 0
    smoothed = scaled.smoothed_gradient(0.5e-4 * np.ones(4), 1e-4)
    assert smoothed == pytest.approx(1e7 * plain.smoothed_gradient(0.5 * np.ones(4), 1.0), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 8, 9])
def test_the_mean_direction_over_a_ball_is_a_hypergeometric_function(d):
    for r, delta in CROSSINGS:
        a, b = min(r, delta), max(r, delta)
        expected = a / delta * hyp2f1(0.5, (1 - d) / 2, d / 2 + 1, (a / b) ** 2)
        x = np.r_[np.zeros(d - 1), -r]
        assert gp.cone(d).smoothed_gradient(x, delta)[-1] == pytest.approx(-expected, rel=1e-10)
