"""Constants, plans and comparisons: parameters and cost, straight from the theorems.

"The paper" is Chen, Xu, Luo, "Faster Gradient-Free Algorithms for Nonsmooth Nonconvex Stochastic Optimization" (ICML
2023). Setting: f(x) = E F(x; ξ) on R^d, F(·; ξ) is L(ξ)-Lipschitz, E L(ξ)² ≤ L², Δ = f(x0) − inf f,
R = dist(x0, argmin f). Cost is counted in values (and gradients) of F: a two-point estimate costs 2. Departures from
the paper:

- Theorem 1 needs the term (*) of Corollary 3 to be nonnegative, that is L_δ η + m η² M_δ²/b ≤ 1. With η = √b'/(m M_δ)
  the first summand is r/m, r = L_δ √b'/M_δ, and the second is b'/(mb). Printed, m = ⌈r⌉ and b = ⌈2b'/m⌉ make them
  about 1 and 1/2. Repaired, m = ⌈2r⌉ makes both at most 1/2.
- Theorem 2 (GFM in function value): R²/(2ηT) + ησ²/2 at η = R/(σ√T) is Rσ/√T, not half of it, so the printed
  δ0 = ζ/(4L) needs T = ⌈4σ²R²/ζ²⌉. Repaired, δ0 = ζ/(10L): for convex f, f ≤ f_δ0 ≤ f + Lδ0, so smoothing costs
  0.1 ζ and T0 = ⌈σ²R²/(0.9 ζ)²⌉ leaves 0.9 ζ for the rest.
- Theorems 3 and 4 (warm start) name no ζ. Phase 1 costs B/ζ² with B = 2σ²R²/0.81 and phase 2 costs a(ζ + Lδ) to
  leading order, so ζ* = (2B/a)^(1/3).
- One phase: Goldstein's lemma, dist(0, ∂_δ f(x)) ≤ (f(x) − inf f)/δ, lets phase 1 alone do for convex f, ζ = δε.
"""

from goldstein.estimate.constants import Constants, constants
from goldstein.theory.comparison import Comparison, Row, compare
from goldstein.theory.estimation import Estimates, estimate
from goldstein.theory.planning import PLANS, plan
from goldstein.theory.plans import Plan

__all__ = [
    "PLANS",
    "Comparison",
    "Constants",
    "Estimates",
    "Plan",
    "Row",
    "compare",
    "constants",
    "estimate",
    "plan",
]
