"""What the attack study runs: the paper's grid in the units of its public code, a wider one, and the methods.

The public code works on normalised pixels y = (x − μ)/s with s = 0.3081, and the numbers of the paper are in those
units; κ alone is in pixels. A radius δ of y is s·δ of x. A step y − η ∇_y f moves x = μ + s·y by
−s·η ∇_y f = −s²·η ∇_x f, so that a step size η of y is s²·η of x. A setting of this study holds η as the paper has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TypeVar

import goldstein as gs
from goldstein.methods.gfm_plus import GFMPlusState
from goldstein.methods.method import Context, Step
from goldstein.steps import HalveOnPlateau
from studies import Array
from studies.attack.lenet import STD

DELTA = 0.01  # normalised, like the step sizes
LOWEST_STEP = 0.005  # of the public code: it halves no further
PATIENCE = 10
EPOCHS = (10, 20, 50)  # m
GRIDS = {  # b' and η
    "paper": ((500, 1000, 2000), (0.5, 0.05, 0.005)),
    "wide": ((50, 100, 200, 500, 1000, 2000), (5.0, 0.5, 0.05, 0.005)),
}

Setting = dict[str, float]
Plus = TypeVar("Plus", bound=gs.GFMPlus)


def delta_in_pixels(delta: float = DELTA) -> float:
    """Return a radius given in normalised units as one in pixels."""
    return STD * delta


def step_in_pixels(eta: float) -> float:
    """Return a step size given in normalised units as one in pixels."""
    return STD**2 * eta


def step_rule(eta: float) -> HalveOnPlateau:
    """Return the paper's rule: η, halved when there was no improvement in ten iterations."""
    return HalveOnPlateau(step_in_pixels(eta), patience=PATIENCE, minimum=step_in_pixels(LOWEST_STEP))


def gfm(setting: Setting) -> gs.GFM:
    """Return GFM with b' directions a step."""
    return gs.GFM(delta_in_pixels(), step_rule(setting["eta"]), int(setting["b'"]))


def gfm_plus(setting: Setting) -> gs.GFMPlus:
    """Return GFM+ with a large batch of b' every m steps and b = b'/m between, rounded down."""
    return _plus(gs.GFMPlus, setting)


def public(setting: Setting) -> PublicOrdering:
    """Return the ordering of the public code with a setting of GFM+."""
    return _plus(PublicOrdering, setting)


def _plus(kind: type[Plus], setting: Setting) -> Plus:
    large, m = int(setting["b'"]), int(setting["m"])
    return kind(delta_in_pixels(), step_rule(setting["eta"]), m, max(large // m, 1), large_batch_size=large)


@dataclass(frozen=True)
class PublicOrdering(gs.GFMPlus):
    """GFM+ in the order of the public code, for comparison in this study only; not a method of the library.

    Repository TrueNobility303/GFM-Plus, commit e269ae6: after each step the stored previous point is set to the new
    point, so that the next correction compares a point with itself and is exactly zero: one large batch, then m steps
    along its estimate, each but the first charged 4b values.
    """

    def tell(self, state: GFMPlusState, context: Context, query: gs.Query, values: Array) -> Step:
        left = state.x
        reading = self._read(state, context, query, values)
        if not reading.empty:
            if query.aux.purpose == "large":
                state.v = reading.estimate()
            assert state.v is not None  # a correction adds g(x; S) − g(x; S) = 0, whatever the rounding of the values
            state.age = self._age(state.age, query.aux.purpose)
            self._step(state, context, state.v)
            state.x_prev = state.x  # the point after the step
        state.nit += 1
        return self._make_step(state, left)


@dataclass(frozen=True)
class Entry:
    """One curve of the study.

    `family` names the runs that entries share, `grid` the settings to choose from (None: nothing to choose), and
    `queries` how rows are sent (see `goldstein.attack.attack`): with "inside" any row can be the answer.
    """

    family: str
    build: Callable[[Setting], gs.Method]
    grid: str | None = None
    queries: str = "free"

    @property
    def of_the_paper(self) -> bool:
        """Whether it is one of the paper's methods as they are: tuned, and only the iterate can be the answer."""
        return self.grid is not None and self.queries == "free"


def plus(family: str) -> bool:
    """Whether a family has the settings of GFM+, and not those of GFM."""
    return family in ("GFM+", "public ordering")


def settings(family: str, grid: str) -> list[Setting]:
    """Return a grid's settings for a method; the public ordering has those of GFM+."""
    sizes, steps = GRIDS[grid]
    if not plus(family):
        return [{"b'": large, "eta": eta} for large, eta in product(sizes, steps)]
    return [{"b'": large, "m": m, "eta": eta} for large, m, eta in product(sizes, EPOCHS, steps)]


def entries() -> dict[str, Entry]:
    """Return the methods by the name they have in table and figure."""
    out = {}
    for grid in GRIDS:
        out[f"GFM, {grid} grid"] = Entry("GFM", gfm, grid)
        out[f"GFM+, {grid} grid"] = Entry("GFM+", gfm_plus, grid)
        out[f"public ordering, {grid} grid"] = Entry("public ordering", public, grid)
    out["GFM, wide grid, any row wins"] = Entry("GFM, any row wins", gfm, "wide", queries="inside")
    for name, method in ablations().items():
        out[name] = Entry(name, partial(_as_it_is, method), queries="inside")
    return out


def _as_it_is(method: gs.Method, setting: Setting) -> gs.Method:
    return method


def ablations() -> dict[str, gs.Method]:
    """Return the library's default attack, and others that lack or change one of its ingredients.

    The committed results hold three more, by switches that are retired: a start at 7×7, a Euclidean step, and a search
    to 16×16 in one round.
    """
    from goldstein.attack import SignAveraging

    averaging = SignAveraging(search=None)
    return {
        "default": SignAveraging(),
        "one tile at a time": SignAveraging(group=1),
        "averaging only": averaging,
        "averaging, pairs of values": replace(averaging, estimator="central", batch_size=averaging.batch_size // 2),
    }
