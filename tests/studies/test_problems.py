"""The classical problems are the printed ones: formulas, starts and tabled minima."""

from itertools import pairwise
from math import cos, exp, log, sin, sqrt

import numpy as np
import pytest

from studies import problems as gp

CATALOGUE = gp.catalogue()
ANY_DIMENSION = [name for name in CATALOGUE if name.startswith(("cha", "che", "max", "mx", "act", "bro", "gof", "l1h"))]
ANY_DIMENSION = [name for name in ANY_DIMENSION if name not in ("maxquad", "max_of_quadratics")]


# Plain sums over Python floats, as the papers print them.
NAIVE = {
    "chebyshev_rosenbrock": lambda x: (
        (x[0] - 1) ** 2 / 4 + sum(abs(x[i + 1] - 2 * x[i] ** 2 + 1) for i in range(len(x) - 1))
    ),
    "chebyshev_rosenbrock_linear": lambda x: (
        abs(x[0] - 1) / 4 + sum(abs(x[i + 1] - 2 * abs(x[i]) + 1) for i in range(len(x) - 1))
    ),
    "maxq": lambda x: max(v * v for v in x),
    "mxhilb": lambda x: max(abs(sum(v / (i + j + 1) for j, v in enumerate(x))) for i in range(len(x))),
    "l1hilb": lambda x: sum(abs(sum(v / (i + j + 1) for j, v in enumerate(x))) for i in range(len(x))),
    "chained_lq": lambda x: sum(max(-a - b, -a - b + (a * a + b * b - 1)) for a, b in pairwise(x)),
    "chained_cb3_1": lambda x: sum(
        max(a**4 + b**2, (2 - a) ** 2 + (2 - b) ** 2, 2 * exp(-a + b)) for a, b in pairwise(x)
    ),
    "chained_cb3_2": lambda x: max(
        sum(a**4 + b**2 for a, b in pairwise(x)),
        sum((2 - a) ** 2 + (2 - b) ** 2 for a, b in pairwise(x)),
        sum(2 * exp(-a + b) for a, b in pairwise(x)),
    ),
    "active_faces": lambda x: max(log(abs(y) + 1) for y in [-sum(x), *x]),
    "brown2": lambda x: sum(abs(a) ** (b * b + 1) + abs(b) ** (a * a + 1) for a, b in pairwise(x)),
    "chained_mifflin2": lambda x: sum(
        -a + 2 * (a * a + b * b - 1) + 1.75 * abs(a * a + b * b - 1) for a, b in pairwise(x)
    ),
    "chained_crescent1": lambda x: max(
        sum(a * a + (b - 1) ** 2 + b - 1 for a, b in pairwise(x)),
        sum(-a * a - (b - 1) ** 2 + b + 1 for a, b in pairwise(x)),
    ),
    "chained_crescent2": lambda x: sum(
        max(a * a + (b - 1) ** 2 + b - 1, -a * a - (b - 1) ** 2 + b + 1) for a, b in pairwise(x)
    ),
    "cb2": lambda x: max(x[0] ** 2 + x[1] ** 4, (2 - x[0]) ** 2 + (2 - x[1]) ** 2, 2 * exp(x[1] - x[0])),
    "demyanov_malozemov": lambda x: max(5 * x[0] + x[1], -5 * x[0] + x[1], x[0] ** 2 + x[1] ** 2 + 4 * x[1]),
    "ql": lambda x: x[0] ** 2 + x[1] ** 2 + 10 * max(0, -4 * x[0] - x[1] + 4, -x[0] - 2 * x[1] + 6),
    "mifflin1": lambda x: -x[0] + 20 * max(x[0] ** 2 + x[1] ** 2 - 1, 0),
    "rosen_suzuki": lambda x: (
        (x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3])
        + 10
        * max(
            0,
            x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + x[3] ** 2 + x[0] - x[1] + x[2] - x[3] - 8,
            x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2 + 2 * x[3] ** 2 - x[0] - x[3] - 10,
            2 * x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + 2 * x[0] - x[1] - x[3] - 5,
        )
    ),
    "wolfe": lambda x: (
        5 * sqrt(9 * x[0] ** 2 + 16 * x[1] ** 2)
        if x[0] >= abs(x[1])
        else 9 * x[0] + 16 * abs(x[1]) - (x[0] ** 9 if x[0] <= 0 else 0)
    ),
    "maxl": lambda x: max(abs(v) for v in x),
    "goffin": lambda x: len(x) * max(x) - sum(x),
}


def naive_maxquad(x):
    def a(i, j, k):
        if i == j:
            return i / 10 * abs(sin(k)) + sum(abs(a(i, m, k)) for m in range(1, 11) if m != i)
        i, j = min(i, j), max(i, j)
        return exp(i / j) * cos(i * j) * sin(k)

    every = range(1, 11)
    return max(
        sum(a(i, j, k) * x[i - 1] * x[j - 1] for i in every for j in every)
        - sum(exp(i / k) * sin(i * k) * x[i - 1] for i in every)
        for k in range(1, 6)
    )


def naive_el_attar(x):
    total = 0.0
    for i in range(1, 52):
        t = 0.1 * (i - 1)
        y = 0.5 * exp(-t) - exp(-2 * t) + 0.5 * exp(-3 * t)
        y += 1.5 * exp(-1.5 * t) * sin(7 * t) + exp(-2.5 * t) * sin(5 * t)
        total += abs(x[0] * exp(-x[1] * t) * cos(x[2] * t + x[3]) + x[4] * exp(-x[5] * t) - y)
    return total


def naive_gill(x):
    f1 = sum((v - 1) ** 2 for v in x) + 1e-3 * (sum(v * v for v in x) - 0.25) ** 2
    f2 = x[0] ** 2 + (x[1] - x[0] ** 2 - 1) ** 2
    for i in range(2, 31):
        t = (i - 1) / 29
        slope = sum(x[j - 1] * (j - 1) * t ** (j - 2) for j in range(2, 11))
        f2 += (slope - sum(x[j - 1] * t ** (j - 1) for j in range(1, 11)) ** 2 - 1) ** 2
    f3 = sum(100 * (x[i] - x[i - 1] ** 2) ** 2 + (1 - x[i]) ** 2 for i in range(1, 10))
    return max(f1, f2, f3)


def naive_steiner2(x):
    z = [np.array([x[j], x[j + 6]]) for j in range(6)]
    a = np.array([[0, 2], [2, 3], [3, -1], [4, -0.5], [5, 2], [6, 2]])
    length = np.linalg.norm
    total = length(z[0]) + length(z[5] - np.array([5.5, -1]))
    total += sum(p * length(z[j] - a[j]) for j, p in enumerate([2, 1, 1, 5, 1, 1]))
    return total + sum(q * length(z[j] - z[j + 1]) for j, q in enumerate([1, 1, 2, 3, 2]))


NAIVE |= {"maxquad": naive_maxquad, "el_attar": naive_el_attar, "gill": naive_gill, "steiner2": naive_steiner2}

# Values at the start and minima as the literature prints them, at the default dimension.
TABLED = {
    "ridge": (1, 0),
    "cone": (1, 0),
    "shell": (1, 0),
    "capped_ridge": (0.5, 0),
    "l1": (10, 0),
    "chebyshev_rosenbrock": (1, 0),
    "chebyshev_rosenbrock_linear": (0.5, 0),
    "maxq": (400, 0),
    "chained_lq": (9, -9 * sqrt(2)),
    "chained_cb3_1": (180, 18),
    "chained_cb3_2": (180, 18),
    "active_faces": (log(11), 0),
    "brown2": (18, 0),
    "chained_mifflin2": (42.75, None),
    "cb2": (5.41, 1.9522245),
    "demyanov_malozemov": (6, -3),
    "ql": (56, 7.2),
    "mifflin1": (-0.8, -1),
    "wolfe": (5 * sqrt(145), -8),
    "rosen_suzuki": (0, -44),
    "shor": (80, 22.600162),
    "el_attar": (None, 0.5598131),
    "maxquad": (0, -0.8414083),
    "gill": (None, 9.7857721),
    "steiner2": (None, 16.703838),
    "maxl": (20, 0),
    "goffin": (1225, 0),
}


@pytest.mark.parametrize("name", TABLED)
def test_the_start_and_the_minimum_have_the_tabled_values(name):
    problem = CATALOGUE[name]()
    at_start, minimum = TABLED[name]
    if at_start is not None:
        assert problem.value(problem.x0) == pytest.approx(at_start, rel=1e-12, abs=1e-12)
    if minimum is not None:
        assert problem.f_star == pytest.approx(minimum, rel=3e-8, abs=1e-7)


@pytest.mark.parametrize("name", NAIVE)
def test_values_agree_with_the_printed_formula(name):
    problem = CATALOGUE[name]()
    X = problem.x0 + np.random.default_rng(1).uniform(-1, 1, (40, problem.dim))
    X = np.vstack([X, problem.x0, problem.minimiser, np.zeros(problem.dim)])
    expected = [NAIVE[name](row.tolist()) for row in X]
    np.testing.assert_allclose(problem.value(X), expected, rtol=1e-12, atol=1e-12)


def test_steiner2_balances_its_pulls():
    """Optimality: every node is at rest if the edges of length 0 carry at most their weight."""
    z = gp.steiner2().minimiser.reshape(2, 6).T
    a = np.array([[0, 2], [2, 3], [3, -1], [4, -0.5], [5, 2], [6, 2]])

    def pull(vector):
        return vector / np.linalg.norm(vector)

    np.testing.assert_allclose(pull(z[1] - a[1]) + pull(z[1] - z[0]) + pull(z[1] - z[2]), 0, atol=1e-12)
    first = pull(z[0]) + pull(z[0] - z[1])
    chain = pull(z[2] - a[2]) + pull(z[2] - z[1])
    last = pull(z[5] - a[5]) + pull(z[5] - np.array([5.5, -1]))
    fifth = last + pull(z[4] - a[4])
    carried = [np.linalg.norm(v) for v in (first, chain, last, fifth, chain + fifth)]
    assert (np.array(carried) <= [2, 2, 2, 3, 5]).all()


@pytest.mark.parametrize(("d", "tabled"), [(2, -1.0), (50, -34.795), (200, -140.86), (1000, -706.55)])
def test_chained_mifflin2_has_the_tabled_minimum_in_every_dimension(d, tabled):
    problem = gp.chained_mifflin2(d)
    assert problem.f_star == pytest.approx(tabled, abs=5e-3 if d > 2 else 1e-15)
    # f_star is a dual value, so never above the infimum; the minimiser shows that it is not below either.
    assert problem.value(problem.minimiser) == pytest.approx(problem.f_star, rel=1e-13)


@pytest.mark.parametrize(
    ("make", "x", "value"),
    [
        (gp.chained_lq, [sqrt(0.5)] * 2, -sqrt(2)),
        (gp.chained_cb3_1, [1, 1], 2),
        (gp.chained_mifflin2, [1, 0], -1),
        (gp.chained_crescent1, [0, 0], 0),
    ],
)
def test_chains_of_two_are_the_small_problems(make, x, value):
    assert make(2).value(np.array(x, dtype=float)) == pytest.approx(value, abs=1e-15)
    assert make(2).f_star == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_every_chain_works_in_small_and_odd_dimensions(d):
    for name in (
        "chebyshev_rosenbrock",
        "maxq",
        "mxhilb",
        "chained_lq",
        "chained_cb3_1",
        "chained_cb3_2",
        "active_faces",
    ):
        assert CATALOGUE[name](d).gap > 0
    for name in ("brown2", "chained_mifflin2", "chained_crescent1", "chained_crescent2", "maxl", "goffin", "l1hilb"):
        assert CATALOGUE[name](d).gap > 0
