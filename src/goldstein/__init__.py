"""Minimise noisy, nonsmooth, nonconvex functions from their values alone, and say how stationary the answer is."""

import logging
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

__version__ = "0.2.0"

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

# Names are fetched when they are first asked for, so that a worker, who needs none of them, starts quickly.
_HOMES = {
    "goldstein": "projection steps stop theory",
    "goldstein.estimate": "smoothing",
    "goldstein.many": "ManyResults minimize_many",
    "goldstein.methods": (
        "BFGS GFM INGD O2NC PINGD PSINGD SINGD ZOO2NC BlockCMA CuttingPlane GFMPlus Method Needs OnePhase Sift Step "
        "WarmStart register"
    ),
    "goldstein.minimize": "minimize scipy_method",
    "goldstein.oracle": "Deterministic Expectation FiniteSum Oracle Query Seeded Unreplayable",
    "goldstein.run.journal": "Journal",
    "goldstein.run.result": "Result Status",
    "goldstein.stationarity": "certify min_norm_hull smoothed_gradient_norm value_gap_bound",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_ROOMS = {
    "attack",
    "estimate",
    "methods",
    "oracle",
    "plot",
    "problems",
    "report",
    "run",
    "simopt",
    "sklearn",
}
_ROOMS |= {"stationarity", "testing", "torch"}
_MODULES = {"smoothing", *_ROOMS, *(name for name, home in _HOME.items() if home == "goldstein")}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # who reads types has the imports above, and is told of a name that is none

    def __getattr__(name: str) -> Any:
        home = "goldstein" if name in _ROOMS else _HOME.get(name)
        if home is None:
            raise AttributeError(f"module 'goldstein' has no attribute {name!r}")
        value = import_module(f"{home}.{name}") if name in _MODULES else getattr(import_module(home), name)
        globals()[name] = value
        return value


class _Package(ModuleType):
    """The package, in which `minimize` is the function, also when the module of that name is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "minimize" and isinstance(value, ModuleType):
            value = value.minimize
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
logging.getLogger("goldstein").addHandler(logging.NullHandler())  # what is heard is for the application to say
