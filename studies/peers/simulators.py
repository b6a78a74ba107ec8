"""Simulators and regressions with a ξ that can be replayed, told or kept secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import norm

from goldstein.problems import Problem, capped_l1_svm
from studies import Array, problems

Component = Callable[[Array, Any], Array]


@dataclass(frozen=True)
class Simulator:
    """f(x) = E F(x; ξ) with all that a study wants to know of it.

    Attributes
    ----------
    component : callable
        F(X, ξ) for rows of points and as many samples.
    sample : callable
        `sample(rng, k)` draws k samples.
    x0 : ndarray
    value : callable
        f without noise: exact, or the mean over a large sample of its own.
    n : int or None
        Components of a finite sum, whose samples are indices.
    f_star : float or None
    bounds : pair of ndarray, optional
    """

    component: Component
    sample: Callable[[np.random.Generator, int], Any]
    x0: Array
    value: Callable[[Array], float]
    n: int | None = None
    f_star: float | None = None
    bounds: tuple[Array, Array] | None = field(default=None)


JUDGES = 20_000  # draws of the sample on which an expectation is judged
SCENARIOS = 100  # draws whose mean is the function without noise


def finite_sum(problem: Problem) -> Simulator:
    """Return a finite sum of `goldstein.problems`."""
    oracle = problem.oracle
    n = oracle.n
    assert n is not None
    return Simulator(
        component=lambda X, i: np.asarray(oracle.fun(X, i, *oracle.args)),
        sample=lambda rng, k: rng.integers(0, n, size=k),
        x0=problem.x0,
        value=problem.value,
        n=n,
        f_star=problem.f_star if np.isfinite(problem.f_star) else None,
    )


def judged(component: Component, sample: Callable[[np.random.Generator, int], Any]) -> Callable[[Array], float]:
    """Return f as the mean over a sample that no run sees, drawn once and used for all answers."""

    @cache
    def draws() -> Any:
        return sample(np.random.default_rng(987_654_321), JUDGES)

    def value(x: Array) -> float:
        xi = draws()
        blocks = range(0, JUDGES, 2_000)
        parts = [component(np.broadcast_to(x, (2_000, x.size)), xi[first : first + 2_000]) for first in blocks]
        return float(np.concatenate(parts).mean())

    return value


def newsvendor(d: int) -> Simulator:
    """Order before demand is known: Σ_j h (x_j − D_j)₊ + b_j (D_j − x_j)₊ over d, D_j lognormal; f in closed form."""
    location = np.linspace(-0.5, 1.0, d)
    spread = 0.6
    short = np.linspace(2.0, 9.0, d)

    def component(X: Array, demand: Array) -> Array:
        over = np.maximum(X - demand, 0)
        under = np.maximum(demand - X, 0)
        return np.asarray((over + short * under).mean(axis=1))

    def value(x: Array) -> float:
        positive = np.maximum(x, 1e-300)
        mean = np.exp(location + spread**2 / 2)
        z = (np.log(positive) - location) / spread
        over = np.where(x > 0, x * norm.cdf(z) - mean * norm.cdf(z - spread), 0.0)
        return float((over + short * (over - x + mean)).mean())

    best = np.exp(location + spread * norm.ppf(short / (1 + short)))
    return Simulator(
        component,
        lambda rng, k: np.exp(location + spread * rng.standard_normal((k, d))),
        np.full(d, 6.0),
        value,
        f_star=value(best),
    )


def tandem_queue(d: int, customers: int = 30) -> Simulator:
    """Mean time in d stations one after another plus the price of speed, Σ 1/x_j over the mean services x_j ≤ 2."""

    def component(X: Array, unit: Array) -> Array:
        draws = unit.reshape(len(X), d + 1, customers)
        arrival = np.cumsum(draws[:, 0], axis=1)
        there = arrival
        for j in range(d):
            work = np.cumsum(X[:, j, None] * draws[:, j + 1], axis=1)
            before = work - X[:, j, None] * draws[:, j + 1]
            there = work + np.maximum.accumulate(there - before, axis=1)
        return np.asarray((there - arrival).mean(axis=1) / d + (1 / X).mean(axis=1))

    def sample(rng: np.random.Generator, k: int) -> Array:
        return rng.standard_exponential((k, (d + 1) * customers))

    box = np.full(d, 0.05), np.full(d, 2.0)
    return Simulator(component, sample, np.full(d, 1.5), judged(component, sample), bounds=box)


def inventory(items: int, periods: int = 30) -> Simulator:
    """(s, S) policies for some items with Poisson demand: each order costs, so that F jumps; x holds s and S − s."""

    def component(X: Array, demand: Array) -> Array:
        low = X[:, :items]
        high = low + np.abs(X[:, items:])
        stock = high.copy()
        cost = np.zeros(len(X))
        for needs in np.moveaxis(demand.reshape(len(X), periods, items), 1, 0):
            stock = stock - needs
            cost += (np.maximum(stock, 0) + 9 * np.maximum(-stock, 0)).sum(axis=1)
            order = stock < low
            cost += 30 * order.sum(axis=1)
            stock = np.where(order, high, stock)
        return cost / (periods * items)

    def sample(rng: np.random.Generator, k: int) -> Array:
        return rng.poisson(np.tile(np.linspace(5, 15, items), periods), (k, periods * items)).astype(float)

    x0 = np.r_[np.full(items, 30.0), np.full(items, 60.0)]
    return Simulator(component, sample, x0, judged(component, sample))


def cvar(assets: int) -> Simulator:
    """Conditional value at risk of a portfolio, 90 %, with exact penalties for its constraints; d = assets + 1."""
    mean = np.linspace(0.02, 0.12, assets)
    risk = np.linspace(0.05, 0.4, assets)

    def component(X: Array, returns: Array) -> Array:
        shares = X[:, :-1]
        level = X[:, -1]
        loss = -(shares * returns).sum(axis=1)
        outside = np.abs(shares.sum(axis=1) - 1) + np.maximum(-shares, 0).sum(axis=1)
        return np.asarray(level + np.maximum(loss - level, 0) / 0.1 + 5 * outside)

    def sample(rng: np.random.Generator, k: int) -> Array:
        common = rng.standard_normal((k, 1))
        return np.asarray(mean + risk * (0.5 * common + 0.75**0.5 * rng.standard_t(5, (k, assets))))

    return Simulator(component, sample, np.r_[np.full(assets, 1 / assets), 0.0], judged(component, sample))


def relu_regression(hidden: int = 3, inputs: int = 4, n: int = 300) -> Simulator:
    """Mean of |network(z_i) − y_i| for one hidden layer, y_i from a network of the same shape: minimum 0."""
    rng = np.random.default_rng(31)
    features = np.c_[rng.standard_normal((n, inputs)), np.ones(n)]
    width = inputs + 1

    def network(X: Array, rows: Array) -> Array:
        weights = X[:, : hidden * width].reshape(-1, hidden, width)
        activity = np.maximum(np.einsum("khw,kw->kh", weights, rows), 0)
        return np.asarray((activity * X[:, hidden * width :]).sum(axis=1))

    teacher = rng.standard_normal(hidden * (width + 1))
    target = network(np.broadcast_to(teacher, (n, teacher.size)), features)

    def component(X: Array, i: Any) -> Array:
        return np.asarray(np.abs(network(X, features[i]) - target[i]))

    def value(x: Array) -> float:
        return float(component(np.broadcast_to(x, (n, x.size)), np.arange(n)).mean())

    x0 = 0.5 * rng.standard_normal(teacher.size)
    return Simulator(component, lambda rng, k: rng.integers(0, n, size=k), x0, value, n=n, f_star=0.0)


def digits_svm() -> Simulator:
    """The paper's capped-ℓ₁ SVM on the digits that come inside scikit-learn: even or odd."""
    from sklearn.datasets import load_digits

    images, digits = load_digits(return_X_y=True)
    return finite_sum(capped_l1_svm(images / 16, np.where(digits % 2 == 0, 1.0, -1.0)))


def jittered(name: str, d: int, spread: float = 0.1) -> Simulator:
    """F(x; ξ) = g(x + ξ), g a classical function and ξ Gaussian noise in the controls."""
    problem = problems.catalogue()[name](d)
    oracle = problem.oracle

    def component(X: Array, xi: Array) -> Array:
        return np.asarray(oracle.fun(X + xi, *oracle.args))

    def sample(rng: np.random.Generator, k: int) -> Array:
        return spread * rng.standard_normal((k, d))

    return Simulator(component, sample, problem.x0, judged(component, sample))
