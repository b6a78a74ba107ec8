"""
A policy for a cart and a pole
==============================

A cart is pushed left or right, full force, so that the pole on it stays up, in gusts of wind. The policy is linear in
the four numbers that describe the state, and pushes by their sign: the time until the pole falls is a step function
of the policy's weights, and has no gradient at all. Where an episode starts and how the wind blows is decided by the
seed.
"""

import matplotlib.pyplot as plt
import numpy as np

import goldstein as gs

plt.style.use("seaborn-v0_8-colorblind")

# %%
# The simulator
# -------------
# Equations of motion of the classical task, for many policies and seeds at once. The loss is the share of 500 steps
# (ten seconds) for which the pole was *not* kept up.

GRAVITY = 9.8
CART = 1.0
POLE = 0.1
HALF = 0.5  # half the length of the pole
FORCE = 10.0
WIND = 10.0  # standard deviation of a gust
STEP = 0.02
STEPS = 500


def weather(seeds):
    """Return the first states and the gusts of each seed: (k, 4) and (k, steps)."""
    draws = [np.random.default_rng(seed) for seed in seeds]
    first = np.stack([draw.uniform(-0.05, 0.05, 4) for draw in draws])
    gusts = np.stack([draw.normal(0.0, WIND, STEPS) for draw in draws])
    return first, gusts


def play(weights, seeds):
    """Return which of the steps each pole was up, and its angle: (k, steps) each; weights have shape (k, 4)."""
    state, gusts = weather(seeds)
    position, speed, angle, spin = state.T.copy()
    up = np.ones(len(state), dtype=bool)
    kept = np.zeros(gusts.shape, dtype=bool)
    angles = np.full(gusts.shape, np.nan)
    for step in range(STEPS):
        push = np.where((weights * np.stack([position, speed, angle, spin], axis=1)).sum(axis=1) > 0, FORCE, -FORCE)
        sine = np.sin(angle)
        cosine = np.cos(angle)
        drive = (push + gusts[:, step] + POLE * HALF * spin**2 * sine) / (CART + POLE)
        turn = (GRAVITY * sine - cosine * drive) / (HALF * (4 / 3 - POLE * cosine**2 / (CART + POLE)))
        pull = drive - POLE * HALF * turn * cosine / (CART + POLE)
        position = position + STEP * speed
        speed = speed + STEP * pull
        angle = angle + STEP * spin
        spin = spin + STEP * turn
        up = up & (np.abs(position) < 2.4) & (np.abs(angle) < 0.21)
        kept[:, step] = up
        angles[up, step] = angle[up]
        if not up.any():
            break
    return kept, angles


def loss(X, seeds):
    """Return the share of the time that the pole was not up, for each row of X under its seed."""
    return 1 - play(X, seeds)[0].mean(axis=1)


# %%
# One call
# --------
# The weights begin at a policy that follows the pole's angle only, which is not enough.

naive = np.array([0.0, 0.0, 1.0, 0.0])
tested = np.arange(10**6, 10**6 + 200)


def kept_up(x):
    """Return the mean share of the time that the pole was up, on 200 seeds that no run sees."""
    return 1 - loss(np.tile(x, (tested.size, 1)), tested).mean()


res = gs.minimize(gs.Seeded(loss, vectorized=True), naive, max_evals=3_000, rng=0, monitor=kept_up)
print(f"pole up {kept_up(naive):.0%} of the time at the start, {kept_up(res.x):.0%} after {res.nfev} episodes")
print(res.message)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.plot(res.history.nfev, 100 * res.history.monitor)
left.set(xlabel="episodes", ylabel="pole up, % of the time", ylim=(0, 103))
seconds = STEP * np.arange(STEPS)
for place, (name, x) in enumerate({"at the start": naive, "learnt": res.x}.items()):
    _, angles = play(np.tile(x, (5, 1)), tested[:5])
    right.plot(seconds, np.degrees(angles.T), color=f"C{2 * place}", lw=0.8)
    right.plot([], [], color=f"C{2 * place}", label=name)
right.axhline(12, color="k", ls=":", lw=1)
right.axhline(-12, color="k", ls=":", lw=1)
right.set(xlabel="seconds", ylabel="angle of the pole, degrees (five seeds)")
right.legend(loc="upper right")
