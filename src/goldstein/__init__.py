"""Minimise noisy, nonsmooth, nonconvex functions from their values alone, and say how stationary the answer is."""

from goldstein import projection, steps, stop, theory
from goldstein.estimate import smoothing
from goldstein.many import ManyResults, minimize_many
from goldstein.methods import (
    BFGS,
    GFM,
    INGD,
    O2NC,
    PINGD,
    PSINGD,
    SINGD,
    ZOO2NC,
    BlockCMA,
    CuttingPlane,
    GFMPlus,
    Method,
    Needs,
    OnePhase,
    Sift,
    Step,
    WarmStart,
    register,
)
from goldstein.minimize import minimize, scipy_method
from goldstein.oracle import Deterministic, Expectation, FiniteSum, Oracle, Query, Seeded, Unreplayable
from goldstein.run.journal import Journal
from goldstein.run.result import Result, Status
from goldstein.stationarity import certify, min_norm_hull, smoothed_gradient_norm, value_gap_bound

__version__ = "0.1.0"

__all__ = [
    "BFGS",
    "GFM",
    "INGD",
    "O2NC",
    "PINGD",
    "PSINGD",
    "SINGD",
    "ZOO2NC",
    "BlockCMA",
    "CuttingPlane",
    "Deterministic",
    "Expectation",
    "FiniteSum",
    "GFMPlus",
    "Journal",
    "ManyResults",
    "Method",
    "Needs",
    "OnePhase",
    "Oracle",
    "Query",
    "Result",
    "Seeded",
    "Sift",
    "Status",
    "Step",
    "Unreplayable",
    "WarmStart",
    "certify",
    "min_norm_hull",
    "minimize",
    "minimize_many",
    "projection",
    "register",
    "scipy_method",
    "smoothed_gradient_norm",
    "smoothing",
    "steps",
    "stop",
    "theory",
    "value_gap_bound",
]
