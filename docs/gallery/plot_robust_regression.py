"""
Robust regression
=================

A tenth of the data is wrong. Least squares follows it; least absolute deviations mind it less; a loss that is capped
does not mind it at all, but is neither smooth nor convex. Here are the three, the last one minimised from values of
single rows.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The data
# --------
# 1,000 rows, 12 features, small noise; in one row of ten the answer belongs to something else.

rng = np.random.default_rng(0)
rows = rng.normal(size=(1000, 12))
truth = rng.normal(size=12)
target = rows @ truth + 0.1 * rng.normal(size=1000)
wrong = rng.random(1000) < 0.1
target[wrong] = 10 + 3 * rows[wrong, 0] + rng.normal(size=wrong.sum())

# %%
# Three losses
# ------------
# ``F(X, i)`` is the loss of row i, for a whole batch of points and rows at once.


def residual(X, i):
    """Return the residual of row i at each point."""
    return (rows[i] * X).sum(axis=1) - target[i]


def absolute(X, i):
    """Return |residual|."""
    return np.abs(residual(X, i))


def capped(X, i):
    """Return min(|residual|, 1): from 1 on it does not matter how wrong a row is."""
    return np.minimum(np.abs(residual(X, i)), 1.0)


squares = np.linalg.lstsq(rows, target, rcond=None)[0]
runs = {}
for loss, start in ((absolute, np.zeros(12)), (capped, squares)):
    oracle = gs.FiniteSum(loss, n=1000, vectorized=True)
    distance = lambda x: float(np.linalg.norm(x - truth))  # noqa: E731 - for the picture only, and not counted
    runs[loss.__name__] = gs.minimize(oracle, start, max_evals=40_000, rng=0, monitor=distance)

print(f"least squares: {np.linalg.norm(squares - truth):.3f} from the truth")
for name, run in runs.items():
    print(f"{name}: {np.linalg.norm(run.x - truth):.3f} from the truth, f = {run.fun:.3f}, {run.nfev} values")

# %%
# ``monitor=`` is called with the iterate at each record of the history: here it measures the distance to the truth,
# which a user would not know.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for place, (name, run) in enumerate(runs.items(), start=1):
    left.plot(run.history.nfev / 1000, run.history.monitor, color=f"C{place}", label=f"{name} loss")
left.axhline(np.linalg.norm(squares - truth), color="C0", ls="--", label="least squares")
left.set(xlabel="values of one row's loss, thousands", ylabel="distance to the truth", yscale="log")
left.legend(fontsize="small")
bins = np.linspace(-1.5, 1.5, 61)
answers = {"least squares": squares, "absolute loss": runs["absolute"].x, "capped loss": runs["capped"].x}
for place, (name, x) in enumerate(answers.items()):
    right.hist((rows @ x - target)[~wrong], bins, histtype="step", color=f"C{place}", label=name)
right.set(xlabel="residual of the rows that are right", ylabel="rows")
right.legend(fontsize="small")
