"""The classical nonsmooth functions of `goldstein.problems`, and three more, without noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

import goldstein as gs
from goldstein.problems import Problem
from studies import Array, problems
from studies.peers.methods import describe
from studies.peers.task import NONE, Cell, Task, start

# Every third name of the alphabet: constants may be chosen on these, with seeds that do not report.
TUNED = frozenset(
    (
        *("active_faces", "cb2", "chained_crescent1", "chained_mifflin2", "cone", "gill"),
        *("l1", "maxl", "mifflin1", "ridge", "shell", "wolfe"),
    )
)
FIXED = ("cb2", "demyanov_malozemov", "mifflin1", "ql", "wolfe", "rosen_suzuki", "shor", "el_attar", "gill", "maxquad",
         "steiner2")  # fmt: skip
ANY_DIMENSION = (
    *("active_faces", "brown2", "capped_ridge", "chained_cb3_1", "chained_cb3_2", "chained_crescent1"),
    *("chained_crescent2", "chained_lq", "chained_mifflin2", "chebyshev_rosenbrock", "chebyshev_rosenbrock_linear"),
    *("cone", "goffin", "l1", "l1hilb", "maxl", "maxq", "mxhilb", "ridge", "shell"),
)
MORE_DIMENSIONS = {  # beside d = 10
    1: ("l1",),
    2: ("chained_crescent2", "chebyshev_rosenbrock", "l1"),
    5: ("chained_mifflin2", "chebyshev_rosenbrock_linear", "mxhilb"),
    50: ("active_faces", "brown2", "chained_cb3_1", "chained_lq", "goffin", "l1", "maxl", "maxq"),
    100: ("chained_cb3_2", "chained_crescent1", "l1", "max_affine"),
    1000: ("chained_lq", "l1"),
}
LONG = (  # with 1,000·(d + 1) values
    *((name, None) for name in FIXED),
    *((name, 10) for name in ("l1", "chained_crescent1", "chebyshev_rosenbrock", "maxq", "brown2")),
    *(("rotated_l1", 50), ("max_affine", 50)),
    *(("l1", 100), ("ill_conditioned_l1", 100), ("chained_cb3_1", 100)),
)
SEEDS = tuple(range(5))


def cells(quick: bool = False) -> Iterator[Cell]:
    """Yield the cells with 200·d values."""
    if quick:
        chosen = [("cb2", 2), ("wolfe", 2), ("chained_lq", 10), ("maxq", 10)]
    else:
        chosen = [(name, _made(name, None).dim) for name in FIXED]
        chosen += [(name, 10) for name in ANY_DIMENSION]
        chosen += [(name, d) for d, names in MORE_DIMENSIONS.items() for name in names]
    for name, d in chosen:
        yield _cell("classical", name, d, 200 * d)


def long_cells(quick: bool = False) -> Iterator[Cell]:
    """Yield the cells with 1,000·(d + 1) values."""
    chosen = (("mifflin1", None), ("l1", 5)) if quick else LONG
    for name, d in chosen:
        dim = _made(name, d).dim
        yield _cell("long", name, dim, 1000 * (dim + 1))


def _cell(family: str, name: str, d: int, budget: int) -> Cell:
    large = budget > 40_000
    return describe(
        family,
        name,
        d,
        NONE,
        budget,
        SEEDS[:2] if large else SEEDS,
        partial(_task, name, None if name in FIXED else d),
        tuned=name in TUNED,
        f_star=_made(name, None if name in FIXED else d).f_star,
        microseconds=10 + d / 20,
    )


def _task(name: str, d: int | None, seed: int) -> Task:
    problem = _made(name, d)
    oracle = gs.Deterministic(problem.oracle.fun, args=problem.oracle.args, vectorized=True)
    return Task(oracle, start(problem.x0, seed), problem.value)


@cache
def _made(name: str, d: int | None) -> Problem:
    make: Callable[..., Problem] = OWN.get(name) or problems.catalogue()[name]
    return make() if d is None else make(d)


def ill_conditioned_l1(d: int) -> Problem:
    """f(x) = Σ c_j |x_j − 1|, c_j from 1 to 1,000."""
    weights = np.logspace(0, 3, d)
    return _of_residuals("ill_conditioned_l1", np.diag(weights))


def rotated_l1(d: int) -> Problem:
    """f(x) = ‖C Q (x − 1)‖₁, Q a random rotation and C as in `ill_conditioned_l1`."""
    rotation, _ = np.linalg.qr(np.random.default_rng(11).standard_normal((d, d)))
    return _of_residuals("rotated_l1", np.logspace(0, 3, d)[:, None] * rotation)


def max_affine(d: int) -> Problem:
    """f(x) = max_i a_i·(x − 1) over 2d random a_i of mean 0: minimum 0 at 1, since 0 is in the hull of the a_i."""
    rows = np.random.default_rng(12).standard_normal((2 * d, d))
    rows -= rows.mean(axis=0)
    return Problem(
        name="max_affine",
        oracle=gs.Deterministic(lambda X: ((X - 1) @ rows.T).max(axis=1), vectorized=True),
        x0=np.zeros(d),
        f_star=0.0,
        lipschitz=float(np.linalg.norm(rows, axis=1).max()),
        convex=True,
    )


def _of_residuals(name: str, matrix: Array) -> Problem:
    return Problem(
        name=name,
        oracle=gs.Deterministic(lambda X: np.abs((X - 1) @ matrix.T).sum(axis=1), vectorized=True),
        x0=np.zeros(matrix.shape[1]),
        f_star=0.0,
        lipschitz=float(np.linalg.norm(matrix, axis=1).sum()),
        convex=True,
    )


OWN: dict[str, Callable[..., Problem]] = {
    "ill_conditioned_l1": ill_conditioned_l1,
    "rotated_l1": rotated_l1,
    "max_affine": max_affine,
}
