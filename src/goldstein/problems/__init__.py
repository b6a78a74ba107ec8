"""Test problems with known answers, and the capped-ℓ₁ support vector machine.

`catalogue()` lists every problem whose infimum is known, for tests that run over all of them.
"""

from collections.abc import Callable

from goldstein.problems.base import Problem
from goldstein.problems.classical import (
    active_faces,
    brown2,
    chained_cb3_1,
    chained_cb3_2,
    chained_crescent1,
    chained_crescent2,
    chained_lq,
    chained_mifflin2,
    chebyshev_rosenbrock,
    chebyshev_rosenbrock_linear,
    maxq,
    mxhilb,
)
from goldstein.problems.closed_form import capped_ridge, cone, l1, max_coordinate, negative_abs, ridge, shell
from goldstein.problems.luksan_vlcek import (
    cb2,
    demyanov_malozemov,
    el_attar,
    gill,
    goffin,
    l1hilb,
    maxl,
    maxquad,
    mifflin1,
    ql,
    rosen_suzuki,
    shor,
    steiner2,
    wolfe,
)
from goldstein.problems.stochastic import (
    least_absolute_deviations,
    max_of_quadratics,
    robust_phase_retrieval,
)
from goldstein.problems.svm import SVM, capped_l1_svm

__all__ = [
    "SVM",
    "Problem",
    "active_faces",
    "brown2",
    "capped_l1_svm",
    "capped_ridge",
    "catalogue",
    "cb2",
    "chained_cb3_1",
    "chained_cb3_2",
    "chained_crescent1",
    "chained_crescent2",
    "chained_lq",
    "chained_mifflin2",
    "chebyshev_rosenbrock",
    "chebyshev_rosenbrock_linear",
    "cone",
    "demyanov_malozemov",
    "el_attar",
    "gill",
    "goffin",
    "l1",
    "l1hilb",
    "least_absolute_deviations",
    "max_coordinate",
    "max_of_quadratics",
    "maxl",
    "maxq",
    "maxquad",
    "mifflin1",
    "mxhilb",
    "negative_abs",
    "ql",
    "ridge",
    "robust_phase_retrieval",
    "rosen_suzuki",
    "shell",
    "shor",
    "steiner2",
    "wolfe",
]

_WITH_KNOWN_INFIMUM: tuple[Callable[..., Problem], ...] = (
    *(ridge, cone, shell, capped_ridge, l1),
    *(chebyshev_rosenbrock, chebyshev_rosenbrock_linear),
    *(maxq, mxhilb, chained_lq, chained_cb3_1, chained_cb3_2),
    *(active_faces, brown2, chained_mifflin2, chained_crescent1, chained_crescent2),
    *(cb2, demyanov_malozemov, ql, mifflin1, rosen_suzuki, shor, maxquad),
    *(wolfe, el_attar, gill, steiner2, maxl, goffin, l1hilb),
    *(least_absolute_deviations, robust_phase_retrieval, max_of_quadratics),
)


def catalogue() -> dict[str, Callable[..., Problem]]:
    """Return every problem whose infimum is finite and known: its name and its constructor.

    All constructors work without arguments. `max_coordinate` and `negative_abs` are not listed, since they are
    unbounded below, nor is `capped_l1_svm`, which needs data.

    Examples
    --------
    >>> from goldstein.problems import catalogue
    >>> problems = [make() for make in catalogue().values()]
    >>> all(problem.gap > 0 for problem in problems)
    True
    """
    return {make.__name__: make for make in _WITH_KNOWN_INFIMUM}
