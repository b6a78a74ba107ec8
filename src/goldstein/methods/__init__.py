"""The methods, one file each; `METHODS` holds them by the name that `minimize` takes."""

from functools import partial

from goldstein.methods.auto import Auto as Auto
from goldstein.methods.bfgs import BFGS as BFGS
from goldstein.methods.cma import BlockCMA as BlockCMA
from goldstein.methods.cutting_plane import CuttingPlane as CuttingPlane
from goldstein.methods.gfm import GFM as GFM
from goldstein.methods.gfm_plus import GFMPlus as GFMPlus
from goldstein.methods.ingd import INGD as INGD
from goldstein.methods.ingd import PINGD as PINGD
from goldstein.methods.method import Context as Context
from goldstein.methods.method import Method as Method
from goldstein.methods.method import MethodState as MethodState
from goldstein.methods.method import Needs as Needs
from goldstein.methods.method import Run as Run
from goldstein.methods.method import Scale as Scale
from goldstein.methods.method import Step as Step
from goldstein.methods.o2nc import O2NC as O2NC
from goldstein.methods.o2nc import ZOO2NC as ZOO2NC
from goldstein.methods.one_phase import OnePhase as OnePhase
from goldstein.methods.registry import METHODS as METHODS
from goldstein.methods.registry import register as register
from goldstein.methods.registry import resolve as resolve
from goldstein.methods.sift import Sift as Sift
from goldstein.methods.singd import PSINGD as PSINGD
from goldstein.methods.singd import SINGD as SINGD
from goldstein.methods.two_point import TwoPoint as TwoPoint
from goldstein.methods.warm_start import WarmStart as WarmStart
from goldstein.methods.warm_start import ws_from_scale

kind: type[Method]
for kind in (Auto, TwoPoint, Sift, GFM, GFMPlus):
    register(kind)
register(WarmStart, "ws-gfm", partial(ws_from_scale, GFM))
register(WarmStart, "ws-gfm+", partial(ws_from_scale, GFMPlus))
for kind in (OnePhase, O2NC, ZOO2NC, SINGD, PSINGD, INGD, PINGD, CuttingPlane, BlockCMA, BFGS):
    register(kind)
