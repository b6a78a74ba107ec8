"""
Your own method against the library's
=====================================

A method of your own needs one class and one registration (:doc:`../add-a-method` goes through it), and then competes
on equal terms: the same oracles, the same exact budgets, every value counted.
"""

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs
from goldstein.methods import MethodState
from goldstein.problems import least_absolute_deviations
from goldstein.testing import check_method

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The method
# ----------
# GFM with a heavy ball: the direction is a running mean of two-point estimates.


@dataclass
class BallState(MethodState):
    """What changes: x and the counters are there already; this method remembers its direction."""

    v: np.ndarray | None = None


@gs.register
@dataclass(frozen=True)
class HeavyBall(gs.Method):
    """x ← x − η v with v ← β v + (1 − β) g, g a two-point estimate of ∇f_δ(x)."""

    delta: float
    step_size: float
    beta: float = 0.9
    name: ClassVar[str] = "heavy-ball"

    @property
    def needs(self):
        """Pairs that should carry the same ξ, and queries δ away."""
        return gs.Needs(pairs=self.delta, query_radius=self.delta)

    def init(self, x, context):
        return BallState(x, v=np.zeros_like(x))

    def ask(self, state, context, limit):
        if limit is not None and limit < 2:
            return None
        w = gs.smoothing.sphere(context.rng, 1, state.x.size)[0]
        samples = None if context.sample is None else np.repeat(context.sample(context.rng, 1), 2, axis=0)
        return gs.Query(np.stack([state.x + self.delta * w, state.x - self.delta * w]), samples, aux=w)

    def tell(self, state, context, query, values):
        left = state.x
        state.nit += 1
        if np.isfinite(values).all():
            slope = state.x.size / (2 * self.delta) * (values[0] - values[1])
            state.v = self.beta * state.v + (1 - self.beta) * slope * query.aux
            state.x = context.projected(state.x - self.step_size * state.v, self.delta)
            state.value = float(values.mean())
        return state.make_step(left)


check_method(HeavyBall(delta=0.1, step_size=0.02))  # says in one sentence what is wrong, if anything is

# %%
# The contest
# -----------
# Least absolute deviations, 500 rows and 10 variables, four seeds each. The step sizes of both two-point methods are
# the best of the same three, chosen on another seed; the default has nothing to choose.

problem = least_absolute_deviations(n=500, d=10, rng=3)
budget = 10_000


def ends(method, seeds):
    """Return the runs of a method from each seed, with the exact loss along the way."""
    return [
        gs.minimize(problem.oracle, problem.x0, method, max_evals=budget, rng=seed, monitor=problem.value)
        for seed in seeds
    ]


def tuned(kind):
    """Return a method with the step size that does best on a seed that is not reported."""
    candidates = [kind(delta=0.01, step_size=step) for step in (0.01, 0.003, 0.001)]
    return min(candidates, key=lambda method: np.mean([run.history.monitor[-1] for run in ends(method, [100])]))


methods = {"gfm, tuned": tuned(gs.GFM), "heavy-ball, tuned": tuned(HeavyBall), "auto": "auto"}
runs = {name: ends(method, range(4)) for name, method in methods.items()}
for name, found in runs.items():
    print(f"{name}: {np.mean([run.history.monitor[-1] - problem.f_star for run in found]):.4f} above the minimum")

# %%
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for colour, (name, found) in zip(("C0", "C3", "C2"), runs.items(), strict=True):
    for number, run in enumerate(found):
        height = run.history.monitor - problem.f_star
        axes.plot(run.history.nfev, height, color=colour, alpha=0.6, lw=1.2, label=name if number == 0 else None)
axes.set(xlabel="values of one component", ylabel="f − f*", yscale="log")
axes.legend()
axes.grid(alpha=0.3)
