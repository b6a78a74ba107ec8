"""A function with kinks everywhere, its oracles, and the methods that take gradients, for their tests."""

import numpy as np

import goldstein as gs
from studies.problems import capped_ridge, cone, ridge, shell

DELTA, EPSILON = 0.2, 0.1
CLOSED_FORM = [ridge, cone, shell, capped_ridge]
CERTIFYING = {
    "ingd": gs.INGD(DELTA, EPSILON),
    "pingd": gs.PINGD(DELTA, EPSILON),
    "cutting-plane": gs.CuttingPlane(DELTA, EPSILON),
}
STOCHASTIC = {
    "singd": gs.SINGD(DELTA, p=20, q=30),
    "psingd": gs.PSINGD(DELTA, p=20, q=30),
    "o2nc": gs.O2NC(DELTA, 7),
    "o2nc-ogd": gs.O2NC(DELTA, 7, 0.01, "ogd"),
}
ALL = CERTIFYING | STOCHASTIC


def kinky(x):
    """A nonconvex function of few symmetries, with kinks everywhere; at least 0."""
    return abs(x[0] - 0.3) + max(abs(x[1]), abs(x[2] + 0.4 * x[1])) + 0.2 * abs(x[1] - 2 * abs(x[2]) + 0.7)


def kinky_grad(x):
    u, v, w = x[1], x[2] + 0.4 * x[1], x[1] - 2 * abs(x[2]) + 0.7
    largest = [0, np.sign(u), 0] if abs(u) > abs(v) else [0, 0.4 * np.sign(v), np.sign(v)]
    return np.array([np.sign(x[0] - 0.3), 0, 0]) + largest + 0.2 * np.sign(w) * np.array([0, 1, -2 * np.sign(x[2])])


X0 = np.array([1.1373, 0.9141, -0.8519])
FAR = 50 * X0  # no certificate comes within a few hundred evaluations
TILT = np.vstack([np.eye(3), -np.eye(3)])  # adds up to 0
EXACT = gs.Deterministic(kinky, grad=kinky_grad)
SUM = gs.FiniteSum(lambda x, i: kinky(x) + TILT[i] @ x, 6, grad=lambda x, i: kinky_grad(x) + TILT[i])
ORACLES = {"exact": EXACT, "sum": SUM}


def play(method, oracle, x0, rng, most):
    """Yield a run after each answer, with the query it answered and what the step says."""
    run = method.start(x0, rng=rng, sample=oracle.sample)
    for _ in range(most):
        query = run.ask()
        if query is None:
            return
        step = run.tell(query, oracle.evaluate(query).values)
        yield run, query, step
