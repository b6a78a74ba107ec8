"""
An inventory with common random numbers
=======================================

A shop counts its stock at the end of each day: if it is below s, it orders up to S. Orders take five days, what is
not there when it is asked for is back-ordered. How should s and S be chosen?

The simulation takes a seed, and draws demand in an order that does not depend on the policy. So the same hundred days
can be played with two policies: *common random numbers*. :class:`goldstein.Seeded` says that to the library.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs
from goldstein.simopt import oracle

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The simulator
# -------------
# Holding a unit for a day costs 1, owing it costs 4, an order costs 36 and 2 a unit.


def daily_cost(policy, seed, days=100, lead=5):
    """Return the mean cost of a day under the policy (s, S)."""
    reorder = policy[0]
    up_to = max(policy)
    demand = np.random.default_rng(seed).gamma(4.0, 5.0, size=days)
    arriving = np.zeros(days + lead + 1)
    stock = up_to
    position = up_to  # stock and what is on its way
    cost = 0.0
    for day in range(days):
        stock += arriving[day] - demand[day]
        position -= demand[day]
        cost += max(stock, 0.0) + 4 * max(-stock, 0.0)
        if position < reorder:
            cost += 36 + 2 * (up_to - position)
            arriving[day + lead] += up_to - position
            position = up_to
    return cost / days


# %%
# One call
# --------
# Whether an order is placed on a given day is a matter of yes or no, so the cost of one seed jumps. The default looks
# for jumps before it starts, and says what it found.

start = np.array([50.0, 150.0])
res = gs.minimize(gs.Seeded(daily_cost), start, max_evals=3_000, rng=0)
print(f"s = {res.x[0]:.0f}, S = {max(res.x):.0f}: {res.fun:.1f} ± {res.fun_stderr:.1f} a day")
print(res.message)

# %%
# What the noise looks like
# -------------------------
# The same cut through the cost, S − s fixed: each thin line is one seed. With fresh seeds at every point (left) the
# differences between neighbours are mostly noise; with the same seed along a line (right) they are the policy's own.
# (The lines have no jumps because S − s is fixed, and with it the days of the orders.)

levels = np.linspace(60, 200, 71)
gap = max(res.x) - res.x[0]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
fresh = [daily_cost([s, s + gap], seed) for seed, s in enumerate(levels)]
left.plot(levels, fresh, lw=1.2, label="a fresh seed at each point")
for seed in range(8):
    common = [daily_cost([s, s + gap], seed) for s in levels]
    right.plot(levels, common, lw=0.8, color="C1", label="one seed along a line" if seed == 0 else None)
for axes in (left, right):
    axes.axvline(res.x[0], color="k", ls=":", label="the answer")
    axes.set(xlabel="reorder level s")
    axes.legend()
left.set_ylabel("cost a day")

# %%
# The same in SimOpt
# ------------------
# `SimOpt <https://github.com/simopt-admin/simopt>`_ has a continuous (s, S) inventory among its problems. It becomes
# an oracle that knows its start, its bounds and its budget, and a seed is the number of a replication.

problem = oracle("SSCONT-1")
theirs = gs.minimize(problem, **problem.arguments, rng=0)
print(f"{theirs.nfev} replications: {theirs.x.round()}, cost {theirs.fun:.0f} ± {theirs.fun_stderr:.0f}")
print(f"at its start {problem.x0}: {np.mean([problem.fun(problem.x0, seed) for seed in range(200)]):.0f}")
