"""Arguments of plans, drawn and fixed, and what they cost counted step by step, for the tests of the theory."""

import warnings

from hypothesis import settings
from hypothesis import strategies as st

from goldstein import theory

ALL = ("gfm", "gfm+", "ws-gfm", "ws-gfm+", "one-phase")
SMALL = {"d": 10, "L": 1.0, "delta": 0.5, "epsilon": 0.3, "gap": 1.0}

dimensions = st.integers(1, 10**5)
scales = st.floats(-3, 3).map(lambda e: 10.0**e)
accuracies = st.floats(-3, 0).map(lambda e: 10.0**e)  # ε/L
patient = settings(deadline=None)  # the first example of a test may pay for imports
kinds = st.sampled_from(["sharp", "paper"])


def plan(method, **arguments):
    """Plan, with the warnings of printed parameters left aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return theory.plan(method, **arguments)


def kappa(d):
    return theory.constants(d, 1, 1).smoothness


def counted(steps, m, b, large):
    """Run Algorithm 2 for some steps and count values: two for each pair, at one point or at two."""
    values = 0
    for t in range(steps):
        values += 2 * large if t % m == 0 else 2 * b + 2 * b
    return values
