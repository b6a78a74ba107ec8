"""How stationary a point is, in Goldstein's sense: upper bounds on dist(0, ∂_δ f(x)), and what they show.

There are three bounds: the norm of the smoothed gradient (`smoothed_gradient_norm`), the shortest element of a hull
of gradients (`min_norm_hull`), and the height of f above a lower bound of it (`value_gap_bound`). `certify` tries them
in turn and says which answer they bear out; `Stationary` stops a run. All of them speak of slopes only: local maxima
and saddle points pass as well.

Whatever asks for evaluations here is a generator that yields queries and receives their answers, so that the loop of
a run and a direct call share it.
"""

from goldstein.stationarity.certificate import Certificate, certify, value_gap_bound
from goldstein.stationarity.criterion import Stationary
from goldstein.stationarity.hull import Hull, min_norm_hull
from goldstein.stationarity.norm import NormEstimate, smoothed_gradient_norm

__all__ = [
    "Certificate",
    "Hull",
    "NormEstimate",
    "Stationary",
    "certify",
    "min_norm_hull",
    "smoothed_gradient_norm",
    "value_gap_bound",
]
