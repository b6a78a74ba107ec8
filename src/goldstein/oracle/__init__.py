"""What can be asked about f(x) = E[F(x; ξ)], what flows to and fro, and who evaluates."""

from typing import TYPE_CHECKING

from goldstein import retired
from goldstein.oracle.oracles import (
    Deterministic,
    Expectation,
    FiniteSum,
    Oracle,
    Seeded,
    StartedCounter,
    Unreplayable,
    indices,
)
from goldstein.oracle.query import Answer, Query, Sampler, Samples
from goldstein.oracle.stats import DOUBLE, SINGLE, Array, Tally

__all__ = [
    "DOUBLE",
    "SINGLE",
    "Answer",
    "Array",
    "Deterministic",
    "Expectation",
    "FiniteSum",
    "Oracle",
    "Query",
    "Sampler",
    "Samples",
    "Seeded",
    "StartedCounter",
    "Tally",
    "Unreplayable",
    "indices",
]


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
