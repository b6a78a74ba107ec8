"""What the SVM study measures besides losses: how far down the loss can go, and how noisy the estimates are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.special import betainc

import goldstein as gs
from goldstein.estimate.smoothing import sphere
from goldstein.problems.svm import SVM
from studies import Array

FIRST_STEPS = (1.0, 0.1, 0.01, 0.001)  # of the first-order runs
PENALTIES = (1.0, 10.0, 100.0)  # C of liblinear
ROUNDS = 3  # each starts from the best point so far, with steps ten times smaller
PAIRS_MEASURED = 4000  # pairs that tell the variance of one pair


def reference(svm: SVM, steps: int = 5_000_000) -> dict[str, float]:
    """Return the lowest full losses that two first-order solvers reach.

    Liblinear minimises the hinge with an ℓ₂ term in place of the capped one, for several C. The other is stochastic
    subgradient descent on the hinge with steps that fall to zero, `steps` of them for each of several first steps,
    restarted from the best point so far with smaller steps. Both losses are those of f itself.
    """
    best = min(float(svm.value(_liblinear(svm, C))) for C in PENALTIES)
    return {"liblinear": best, "subgradient": float(svm.value(_descend(svm, steps)))}


def _liblinear(svm: SVM, C: float) -> Array:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    model = LinearSVC(loss="hinge", C=C, fit_intercept=False, max_iter=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(svm.features, svm.labels)
    return np.asarray(model.coef_[0])


def _descend(svm: SVM, steps: int) -> Array:
    from studies.svm.kernels import descent

    best, shrink = np.zeros(svm.dim), 1.0
    for _ in range(ROUNDS):
        ends = [best]
        for first in FIRST_STEPS:
            x = best.copy()
            rng = np.random.default_rng(0)
            descent(rng, steps, shrink * first, x, len(svm.labels), *svm.oracle.args)
            ends.append(x)
        best = min(ends, key=lambda x: float(svm.value(x)))
        shrink /= 10
    return best


class SmoothedGradient:
    """∇f_δ, exact: F(·; i) depends on x along a_i alone, and along any direction the unit ball has a beta law."""

    def __init__(self, svm: SVM, delta: float) -> None:
        self.svm, self.delta, self.signed = svm, delta, svm.labels * svm.weights
        squares = np.asarray(svm.features.multiply(svm.features).sum(axis=1)).ravel()
        self.reach = np.maximum(delta * np.abs(self.signed) * np.sqrt(squares), np.finfo(float).tiny)

    def __call__(self, x: Array) -> Array:
        """Return ∇f_δ(x)."""
        svm, delta = self.svm, self.delta
        slack = np.abs(self.signed) - self.signed * (svm.features @ x)
        hinge = svm.features.T @ (-self.signed * self._below(slack / self.reach)) / len(slack)
        inside = self._below((svm.cap - x) / delta) + self._below((-svm.cap - x) / delta) - 2 * self._below(-x / delta)
        return np.asarray(hinge + svm.regularisation * inside)

    def _below(self, t: Array) -> Array:
        """Return the probability that a coordinate of a point of the unit ball is below t."""
        out, half = (t > 0).astype(float), (self.svm.dim + 1) / 2
        near = np.abs(t) < 1
        out[near] = betainc(half, half, (1 + t[near]) / 2)
        return out


def variance(
    svm: SVM, method: gs.GFMPlus, points: list[Array], *, seed: int, steps: int = 1000, least: int = 10
) -> list[dict[str, float]]:
    """Measure the error of GFM+'s estimate v at points of a run, against that of plain batches at equal cost.

    From each point at least `least` whole epochs are run, about `steps` steps in all. `error` is the mean over their
    steps of ‖v_t − ∇f_δ(x_t)‖², `last` the mean over their last steps; `plain` is E‖g(x; S) − ∇f_δ(x)‖² for a plain
    batch S that costs what a step of GFM+ costs on average, `pair` the same for one pair; `signal` is ‖∇f_δ(x)‖². What
    moves x is the sum of the v_t, whose errors add up within an epoch: `epoch` is E‖mean over the epoch of
    v_t − ∇f_δ(x_t)‖²; for plain batches it is `plain`/m. `error_stderr` and `epoch_stderr` are
    standard errors over epochs.
    """
    m, b = method.epoch_length, method.batch_size
    cost = ((method.large_batch_size or m * b) + 2 * b * (m - 1)) / m  # pairs a step
    epochs, rows = max(least, steps // (m * len(points))), []
    gradient = SmoothedGradient(svm, method.delta)
    for index, x in enumerate(points):
        measured = [_epoch(svm, method, gradient, x, [seed, index, epoch]) for epoch in range(epochs)]
        errors = np.array([each for each, _ in measured])
        drift = np.array([mean for _, mean in measured])
        signal = float(np.sum(gradient(x) ** 2))
        one = _second_moment(svm, x, method.delta, np.random.default_rng([seed, index])) - signal
        rows.append(
            {
                "error": float(np.mean(errors)),
                "error_stderr": float(errors.mean(axis=1).std(ddof=1) / np.sqrt(epochs)),
                "last": float(errors[:, -1].mean()),
                "epoch": float(drift.mean()),
                "epoch_stderr": float(drift.std(ddof=1) / np.sqrt(epochs)),
                "plain": one / cost,
                "pair": one,
                "signal": signal,
                "loss": float(svm.value(x)),
            }
        )
    return rows


def _epoch(
    svm: SVM, method: gs.GFMPlus, gradient: SmoothedGradient, x: Array, seed: list[int]
) -> tuple[list[float], float]:
    """Return ‖v_t − ∇f_δ(x_t)‖² for each step of one epoch from x, and the same for the mean of the errors."""
    run, errors = method.start(x, rng=np.random.default_rng(seed), sample=svm.oracle.sample), []
    total = np.zeros_like(x)
    for _ in range(method.epoch_length):
        query = run.ask()
        assert query is not None
        run.tell(query, svm.oracle.evaluate(query).values)
        state: Any = run.state
        error = state.v - gradient(state.x_prev)
        errors.append(float(error @ error))
        total += error
    return errors, float(total @ total) / method.epoch_length**2


def _second_moment(svm: SVM, x: Array, delta: float, rng: np.random.Generator) -> float:
    """Return the mean of ‖g(x; w, ξ)‖² over fresh pairs."""
    assert svm.oracle.sample is not None
    w, i = sphere(rng, PAIRS_MEASURED, x.size), svm.oracle.sample(rng, PAIRS_MEASURED)
    plus, minus = (svm.oracle.evaluate(gs.Query(x + sign * delta * w, i)).values for sign in (1, -1))
    return float(np.mean((x.size / (2 * delta) * (plus - minus)) ** 2))
