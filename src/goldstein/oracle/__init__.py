"""What can be asked about f(x) = E[F(x; ξ)], what flows to and fro, and who evaluates."""

from goldstein.oracle.oracles import Deterministic, Expectation, FiniteSum, Meter, Oracle, Seeded, Unreplayable, indices
from goldstein.oracle.query import Answer, Query, Sampler, Samples
from goldstein.oracle.tally import DOUBLE, SINGLE, Array, Tally

__all__ = [
    "DOUBLE",
    "SINGLE",
    "Answer",
    "Array",
    "Deterministic",
    "Expectation",
    "FiniteSum",
    "Meter",
    "Oracle",
    "Query",
    "Sampler",
    "Samples",
    "Seeded",
    "Tally",
    "Unreplayable",
    "indices",
]
