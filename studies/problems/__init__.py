"""Test problems that only studies and tests use; those of the package are in `goldstein.problems`.

`catalogue()` lists the problems of both whose infimum is known.
"""

from collections.abc import Callable

from goldstein.problems import (
    Problem,
    chebyshev_rosenbrock_linear,
    cone,
    least_absolute_deviations,
    ridge,
    shell,
)
from studies.problems.classical import (
    active_faces,
    brown2,
    chained_cb3_1,
    chained_cb3_2,
    chained_crescent1,
    chained_crescent2,
    chained_lq,
    chained_mifflin2,
    chebyshev_rosenbrock,
    maxq,
    mxhilb,
)
from studies.problems.closed_form import capped_ridge, l1, max_coordinate, negative_abs
from studies.problems.luksan_vlcek import (
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
from studies.problems.stochastic import max_of_quadratics, robust_phase_retrieval

UNBOUNDED = (max_coordinate, negative_abs)
WITH_KNOWN_INFIMUM: tuple[Callable[..., Problem], ...] = (
    *(ridge, cone, shell, capped_ridge, l1),
    *(chebyshev_rosenbrock, chebyshev_rosenbrock_linear),
    *(maxq, mxhilb, chained_lq, chained_cb3_1, chained_cb3_2),
    *(active_faces, brown2, chained_mifflin2, chained_crescent1, chained_crescent2),
    *(cb2, demyanov_malozemov, ql, mifflin1, rosen_suzuki, shor, maxquad),
    *(wolfe, el_attar, gill, steiner2, maxl, goffin, l1hilb),
    *(least_absolute_deviations, robust_phase_retrieval, max_of_quadratics),
)


def catalogue() -> dict[str, Callable[..., Problem]]:
    """Return every problem whose infimum is finite and known, by name; all constructors work without arguments."""
    return {make.__name__: make for make in WITH_KNOWN_INFIMUM}
