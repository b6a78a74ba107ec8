"""The methods, one file each; `METHODS` holds them by the name that `minimize` takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from goldstein.methods.auto import Auto
from goldstein.methods.cutting_plane import CuttingPlane
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.ingd import INGD, PINGD
from goldstein.methods.method import Context, Method, MethodState, Run
from goldstein.methods.o2nc import O2NC, ZOO2NC
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.probed import Probed
from goldstein.methods.singd import PSINGD, SINGD
from goldstein.methods.warm_start import WarmStart

METHODS: dict[str, type[Method]] = {
    "auto": Auto,
    "gfm": GFM,
    "gfm+": GFMPlus,
    "ws-gfm": WarmStart,
    "ws-gfm+": WarmStart,
    "one-phase": OnePhase,
    "o2nc": O2NC,
    "zo-o2nc": ZOO2NC,
    "singd": SINGD,
    "psingd": PSINGD,
    "ingd": INGD,
    "pingd": PINGD,
    "cutting-plane": CuttingPlane,
}

LARGE = 10**300  # stands for a setting that is still open: any positive number, and above any other


def resolve(method: str | Method, options: Mapping[str, Any] | None) -> Method:
    """Return the method object that `minimize` was asked for."""
    if isinstance(method, Method):
        if options is not None and options != {}:
            raise ValueError("options belong to a method given by name; a method object has its settings already.")
        return method
    if not isinstance(method, str):
        raise TypeError(f"method must be a name or a method object, got {type(method).__name__}.")
    if method not in METHODS:
        raise ValueError(f"Unknown method {method!r}; known are {', '.join(METHODS)}.")
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping from setting to value, got {type(options).__name__}.")
    kind, given = METHODS[method], dict(options or {})
    accepted = [f.name for f in fields(kind) if f.init]
    for name in given:
        if name not in accepted:
            raise ValueError(f"{method} has no option {name!r}; it takes {', '.join(accepted)}.")
    missing = [f.name for f in fields(kind) if f.init and f.default is MISSING and f.name not in given]
    if given.get("learner") == "ogd" and given.get("step_size") is None:
        missing.append("step_size")
    if not missing:
        return kind(**given)
    if kind is not WarmStart:
        kind(**{**given, **dict.fromkeys(missing, LARGE)})  # only what was given can be refused here
    return Probed(method, given)


__all__ = [
    "GFM",
    "INGD",
    "METHODS",
    "O2NC",
    "PINGD",
    "PSINGD",
    "SINGD",
    "ZOO2NC",
    "Auto",
    "Context",
    "CuttingPlane",
    "GFMPlus",
    "Method",
    "MethodState",
    "OnePhase",
    "Run",
    "WarmStart",
    "resolve",
]
