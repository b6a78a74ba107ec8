"""The method "two-point"."""

import numpy as np
import pytest

import goldstein as gs


@pytest.mark.parametrize(("max_iter", "max_evals"), [(10, 5000), (10, None), (100, 5000), (1000, 20_000)])
def test_it_ends_after_the_iterations_that_were_allowed(max_iter, max_evals):
    res = gs.minimize(
        gs.Deterministic(lambda x: np.abs(x - 1).sum()),
        np.zeros(3),
        "two-point",
        max_iter=max_iter,
        max_evals=max_evals,
        rng=0,
    )
    assert (res.status, res.nit) == (gs.Status.MAX_ITER, max_iter)
