"""The one-phase method for convex f: GFM that answers with the average of its iterates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from goldstein.methods.gfm import GFM
from goldstein.methods.method import Needs


@dataclass(frozen=True)
class OnePhase(GFM):
    """GFM with averaging, which for convex f makes f(x̄) small, and with it the distance to stationarity.

    By Goldstein's lemma dist(0, ∂_r f(x)) ≤ (f(x) − inf f)/r for every r > 0, so that f(x̄) − inf f ≤ rε is enough:
    the first phase of a warm start alone. δ only has to make L δ small beside rε.

    Parameters
    ----------
    delta, step_size, batch_size, directions, estimator
        As in `GFM`; `theory.plan("one-phase", ...)` gives them.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), gs.OnePhase(0.01, 0.02), max_evals=4000, rng=0)
    >>> bool(res.fun < 0.5)
    True
    """

    name: ClassVar[str] = "one-phase"

    @property
    def needs(self) -> Needs:
        return replace(super().needs, output="average")
