"""What can be asked about f(x) = E[F(x; ξ)], what flows to and fro, and who evaluates."""

from goldstein.oracle.oracles import Deterministic, Expectation, FiniteSum, Oracle, Seeded, Unreplayable
from goldstein.oracle.query import Array, Query, Sampler, Samples

__all__ = [
    "Array",
    "Deterministic",
    "Expectation",
    "FiniteSum",
    "Oracle",
    "Query",
    "Sampler",
    "Samples",
    "Seeded",
    "Unreplayable",
]
