r"""
A Clarke point that is no minimum
=================================

Stationary does not mean minimal. The piecewise linear Chebyshev–Rosenbrock function of Nesterov in two variables,

.. math:: f(x) = \tfrac14 |x_1 - 1| + \bigl|x_2 - 2|x_1| + 1\bigr|,

has one minimum, at (1, 1), and one more point where 0 lies in Clarke's subdifferential: (0, −1), from where f still
falls. This page looks at both points with the measures of the library, and then lets methods run past the trap.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs
from goldstein.problems import chebyshev_rosenbrock_linear

plt.style.use("seaborn-v0_8-colorblind")

# %%
# Two points
# ----------

problem = chebyshev_rosenbrock_linear(2)
trap = np.array([0.0, -1.0])
minimum = np.array([1.0, 1.0])
slope = np.array([0.3, 0.2])
delta = 0.05
epsilon = 0.05
for name, x in (("the trap", trap), ("the minimum", minimum), ("a slope", slope)):
    found = gs.certify(problem.oracle, x, delta, epsilon, rng=0)
    print(f"{name} {x}: {found.answer}, bound {found.bound:.2g}")

# %%
# Slopes within δ cancel at both points, and that is all that "certified" says. Around the trap there is a way down,
# along x₂ = 2|x₁| − 1: a finite hull of slopes does not see it, values do.

down = trap + 0.02 * np.array([1.0, 2.0])
values = problem.oracle.evaluate(gs.Query(np.stack([trap, down]))).values
print(f"f at the trap {values[0]:.4f}, a step along the ridge {values[1]:.4f}")

# %%
# Runs from the trap's side
# -------------------------
# From (−1, 1), the classical start, every run comes by the trap. PINGD asks for gradients, and ends with a certificate
# of what it was asked for: a point where slopes within δ = 0.1 cancel. GFM and the default look at values and go on.

start = np.array([-1.0, 1.0])
values_only = gs.Deterministic(problem.oracle.fun, vectorized=True)
paths = {}
methods = {
    "pingd": (problem.oracle, gs.PINGD(delta=0.1, epsilon=0.1)),
    "gfm": (values_only, gs.GFM(delta=0.01, step_size=gs.steps.LinearDecay(0.02))),
    "auto": (values_only, "auto"),
}
for name, (oracle, method) in methods.items():
    seen = [start]
    res = gs.minimize(oracle, start, method, max_evals=15_000, rng=0, callback=lambda r, seen=seen: seen.append(r.x))
    seen.append(res.x)
    paths[name] = np.array(seen)
    print(f"{name}: f = {res.fun:.2g} at {np.round(res.x, 3)}")

# %%
left_edge = -1.3
right_edge = 1.5
xs, ys = np.meshgrid(np.linspace(left_edge, right_edge, 300), np.linspace(-1.5, 1.5, 300))
heights = problem.oracle.evaluate(gs.Query(np.stack([xs.ravel(), ys.ravel()], axis=1))).values.reshape(xs.shape)
figure, axes = plt.subplots(figsize=(7, 4.4), layout="constrained")
axes.contour(xs, ys, heights, levels=np.geomspace(0.02, 3, 14), cmap="Greys_r", linewidths=0.8)
for place, (name, path) in enumerate(paths.items()):
    axes.plot(path[:, 0], path[:, 1], ".-", ms=4, lw=1.2, color=f"C{place}", label=name)
axes.plot(*paths["pingd"][-1], "o", ms=13, mfc="none", mew=2, color="C0", label="where pingd ends")
axes.plot(*trap, "X", ms=9, color="C3", label="Clarke point, no minimum")
axes.plot(*minimum, "*", ms=14, color="C2", label="minimum")
axes.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(left_edge, right_edge), ylim=(-1.5, 1.5))
axes.legend(loc="upper center")
