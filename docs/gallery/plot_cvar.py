"""
CVaR of a portfolio
===================

The conditional value at risk is the mean of the worst losses, here of the worst 5 %. By Rockafellar and Uryasev it is
the least value over t of t + E max(loss − t, 0)/0.05: an expectation with a kink, over the weights and t together.
Weights are positive and add up to one.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The market
# ----------
# Ten assets with heavy tails (Student t, four degrees of freedom). They share a factor, some of them with the
# opposite sign.

ASSETS = 10
TAIL = 0.05
MEAN = np.linspace(0.03, 0.08, ASSETS)
SPREAD = np.linspace(0.08, 0.25, ASSETS)
SHARED = np.array([0.8, 0.2, 0.7, -0.4, 0.9, 0.5, -0.6, 0.8, 0.1, 0.6])


def sample(rng, k):
    """Return k draws of the returns of all assets."""
    factor = rng.standard_t(4, size=(k, 1))
    own = rng.standard_t(4, size=(k, ASSETS))
    return MEAN + SPREAD * (SHARED * factor + np.sqrt(1 - SHARED**2) * own) / np.sqrt(2)


def shares(X):
    """Return the weights: positive numbers that add up to one, whatever the library tries."""
    up = np.abs(X[:, :ASSETS]) + 1e-9
    return up / up.sum(axis=1, keepdims=True)


def tail_loss(X, returns):
    """Return t + max(loss − t, 0)/0.05, whose mean is the CVaR at the best t; the last coordinate is t."""
    loss = -(shares(X) * returns).sum(axis=1)
    t = X[:, ASSETS]
    return t + np.maximum(loss - t, 0) / TAIL


# %%
# One call
# --------
# ``sample`` draws from the generator that it is given, so that a draw can be asked for again at another point.

start = np.append(np.full(ASSETS, 1 / ASSETS), 0.0)
oracle = gs.Expectation(tail_loss, sample, vectorized=True)
res = gs.minimize(oracle, start, max_evals=60_000, rng=0)
weights = shares(res.x[None])[0]
print(f"CVaR {res.fun:.3f} ± {res.fun_stderr:.3f}, {res.nfev} draws")

# %%
# Judged on draws that the run has not seen: the worst 5 % of 200,000.

test = sample(np.random.default_rng(1), 200_000)


def cvar(w):
    """Return the mean of the worst losses."""
    loss = np.sort(-(test @ w))
    return loss[-int(TAIL * loss.size) :].mean()


portfolios = {
    "equal weights": np.full(ASSETS, 1 / ASSETS),
    "weights ∝ 1/variance": SPREAD**-2 / (SPREAD**-2).sum(),
    "least CVaR": weights,
}
for name, w in portfolios.items():
    print(f"{name}: CVaR {cvar(w):.4f}, mean return {test.mean(axis=0) @ w:.4f}")

# %%
# Hatched are the two assets that move against the others.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.bar(np.arange(ASSETS), weights, hatch=["//" if share < 0 else "" for share in SHARED])
left.set(xlabel="asset, from tame to wild", ylabel="weight", xticks=np.arange(ASSETS))
bins = np.linspace(-0.4, 0.8, 120)
for place, name in enumerate(("equal weights", "least CVaR")):
    loss = -(test @ portfolios[name])
    right.hist(loss, bins, histtype="step", color=f"C{place}", density=True, label=name)
    right.axvline(cvar(portfolios[name]), color=f"C{place}", ls=":", label=f"its CVaR, {cvar(portfolios[name]):.2f}")
right.set(xlabel="loss", ylabel="density", yscale="log", ylim=(1e-3, None))
right.legend(fontsize="small")
