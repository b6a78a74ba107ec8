"""The methods, one file each; `METHODS` holds them by the name that `minimize` takes."""

from goldstein.methods.auto import Auto
from goldstein.methods.bfgs import BFGS
from goldstein.methods.cma import BlockCMA
from goldstein.methods.cutting_plane import CuttingPlane
from goldstein.methods.gfm import GFM
from goldstein.methods.gfm_plus import GFMPlus
from goldstein.methods.ingd import INGD, PINGD
from goldstein.methods.method import Context, Method, MethodState, Needs, Run, Scale, Step
from goldstein.methods.o2nc import O2NC, ZOO2NC
from goldstein.methods.one_phase import OnePhase
from goldstein.methods.registry import METHODS, register, resolve
from goldstein.methods.sift import Sift
from goldstein.methods.singd import PSINGD, SINGD
from goldstein.methods.two_point import TwoPoint
from goldstein.methods.warm_start import WarmStart, ws_gfm, ws_gfm_plus

register(Auto)
register(TwoPoint)
register(Sift)
register(GFM)
register(GFMPlus)
register(WarmStart, "ws-gfm", ws_gfm)
register(WarmStart, "ws-gfm+", ws_gfm_plus)
register(OnePhase)
register(O2NC)
register(ZOO2NC)
register(SINGD)
register(PSINGD)
register(INGD)
register(PINGD)
register(CuttingPlane)
register(BlockCMA)
register(BFGS)

__all__ = [
    "BFGS",
    "GFM",
    "INGD",
    "METHODS",
    "O2NC",
    "PINGD",
    "PSINGD",
    "SINGD",
    "ZOO2NC",
    "Auto",
    "BlockCMA",
    "Context",
    "CuttingPlane",
    "GFMPlus",
    "Method",
    "MethodState",
    "Needs",
    "OnePhase",
    "Run",
    "Scale",
    "Sift",
    "Step",
    "TwoPoint",
    "WarmStart",
    "register",
    "resolve",
]
