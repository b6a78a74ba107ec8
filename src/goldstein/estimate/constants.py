"""Constants of the smoothed function f_δ and of its two-point estimator, on which every plan is built."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import poch

from goldstein import arguments


@dataclass(frozen=True)
class Constants:
    """What is known about f_δ and its two-point estimator g; made by `constants`.

    Attributes
    ----------
    smoothness, second_moment : float
        L_δ, the Lipschitz constant of ∇f_δ, and σ² ≥ E‖g(x; w, ξ)‖².
    mean_square, bias : float
        M_δ, with E‖g(x; w, ξ) − g(y; w, ξ)‖² ≤ M_δ² ‖x − y‖², and a bound on sup |f_δ − f|.
    kind : str
        "sharp" or "paper".
    """

    smoothness: float
    second_moment: float
    mean_square: float
    bias: float
    kind: str


def constants(d: int, L: float, delta: float, kind: str = "sharp") -> Constants:
    """Return the constants that every plan is built on.

    Parameters
    ----------
    d : int
        Dimension.
    L : float
        Root mean square of the Lipschitz constants of F(·; ξ).
    delta : float
        Smoothing radius δ.
    kind : {"sharp", "paper"}, optional
        "paper": equation (4) of the paper with c = 1. "sharp": L_δ = κ_d L/δ with κ_d = 2 V_{d−1}/V_d ≤ √d, V_k
        the volume of the unit ball of R^k, since two balls of radius δ whose centres lie h apart differ in a share
        of at most κ_d h/δ of their volume, attained by f = L|e·x|; and σ² = L² d²/(d − 1), since
        w ↦ F(x + δw) − F(x − δw) is odd and 2δL-Lipschitz on the sphere, whose Poincaré constant is 1/(d − 1).

    Returns
    -------
    Constants

    Examples
    --------
    >>> from goldstein import theory
    >>> c = theory.constants(d=3, L=1, delta=0.5)
    >>> c.smoothness, c.second_moment, c.mean_square, c.bias
    (3.0, 4.5, 6.0, 0.375)
    """
    d = arguments.count("d", d)
    L = arguments.positive("L", L)
    delta = arguments.positive("delta", delta)
    arguments.one_of("kind", kind, ("sharp", "paper"))
    try:
        mean_square = d * L / delta  # M_δ, Prop. 4
        if kind == "paper":
            smoothness = math.sqrt(d) * L / delta  # L_δ, eq. (4) with c = 1
            second_moment = 16 * math.sqrt(2 * math.pi) * d * L**2  # σ², Prop. 3
            bias = delta * L  # Prop. 2
        else:
            # theory: κ_d = (2/√π) Γ(d/2 + 1)/Γ((d + 1)/2); the minimum only takes off rounding
            kappa = min(2 / math.sqrt(math.pi) * float(poch((d + 1) / 2, 0.5)), math.sqrt(d))
            smoothness = kappa * L / delta
            second_moment = (d * d / (d - 1) if d > 1 else 1.0) * L**2  # theory: Poincaré on the sphere
            bias = delta * L * (d / (d + 1))  # theory: E‖u‖ = d/(d + 1) in the unit ball
    except OverflowError:
        smoothness = second_moment = mean_square = bias = math.inf
    if not 0 < min(smoothness, second_moment, bias) <= max(second_moment, mean_square, bias) < math.inf:
        raise ValueError("With this d, L and delta a constant leaves the range of floating point: rescale.")
    return Constants(smoothness, second_moment, mean_square, bias, kind)
