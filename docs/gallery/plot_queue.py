"""
Servers for a queue
===================

Three stations in a row serve the same customers. Faster servers cost money, waiting costs patience: how fast should
each of them be? Interarrival times and work are drawn from the seed before the speeds come into play, so every design
meets the same customers.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs
from goldstein.simopt import oracle

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The simulator
# -------------
# Lindley's recursion, station by station: a customer starts when he has come and when the one before him has left.
# The mean time in the system of 200 customers, and the price of speed.

WORK = np.array([1.0, 0.6, 0.8])  # mean work at each station
PRICE = np.array([1.0, 3.0, 2.0])  # of a unit of speed


def cost(speed, seed, customers=200):
    """Return the mean time in the system plus the price of the speeds."""
    rng = np.random.default_rng(seed)
    arrival = rng.exponential(1.0, customers).cumsum()
    work = rng.exponential(1.0, (customers, 3)) * WORK
    leaving = arrival.copy()
    for station in range(3):
        free = 0.0
        for customer in range(customers):
            free = max(free, leaving[customer]) + work[customer, station] / speed[station]
            leaving[customer] = free
    return (leaving - arrival).mean() + PRICE @ speed


# %%
# Common random numbers against fresh ones
# ----------------------------------------
# The same budget, five seeds each: once the library may replay the customers, once it may not.

bounds = [(0.5, 6.0)] * 3
start = np.full(3, 3.0)
budget = 800
checked = range(10**6, 10**6 + 200)  # customers that no run has seen
ends = {"replayed": [], "fresh": []}
for seed in range(5):
    replayed = gs.minimize(gs.Seeded(cost), start, bounds=bounds, max_evals=budget, rng=seed)
    draws = np.random.default_rng(seed)
    unknown = gs.Unreplayable(lambda x, draws=draws: cost(x, draws.integers(2**32)))
    fresh = gs.minimize(unknown, start, bounds=bounds, max_evals=budget, rng=seed)
    ends["replayed"].append(replayed.x)
    ends["fresh"].append(fresh.x)

score = {name: [np.mean([cost(x, s) for s in checked]) for x in found] for name, found in ends.items()}
before = np.mean([cost(start, s) for s in checked])
for name, found in score.items():
    print(f"{name}: {np.mean(found):.3f} in the mean, {np.max(found):.3f} at worst; {before:.3f} at the start")

# %%
# Each dot is one run, judged with the same 200 days that none of them has seen.

figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
for row, found in enumerate(score.values()):
    axes.plot(found, np.full(len(found), row), "o", ms=9, alpha=0.7, color=f"C{row}")
axes.set(yticks=[0, 1], yticklabels=["customers replayed", "fresh customers"], ylim=(-0.6, 1.6))
axes.set_xlabel(f"cost of the answer after {budget} simulations")
axes.grid(axis="x", alpha=0.3)

# %%
# The same in SimOpt
# ------------------
# SimOpt's M/M/1 queue, MM1-1, has one speed to choose and a budget of its own.

problem = oracle("MM1-1")
theirs = gs.minimize(problem, **problem.arguments, rng=0)
print(f"{theirs.nfev} replications: speed {theirs.x[0]:.2f}, cost {theirs.fun:.3f} ± {theirs.fun_stderr:.3f}")
