"""SINGD: stochastic interpolated normalised gradient descent, and its perturbed form PSINGD.

An exponential mean m of stochastic gradients gives the direction; each new gradient is taken at a random point of the
segment just travelled, which makes it an unbiased sample of the slope along that segment. The answer is the point K
steps BEFORE the index drawn: all gradients that went into m since then lie within δ of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments, retired
from goldstein.estimate.smoothing import ball
from goldstein.methods.first_order import FirstOrder, FirstOrderState
from goldstein.methods.method import TARGET, TRAVEL, Context, Needs, Scale, Step
from goldstein.norms import usable
from goldstein.oracle import Array, Query
from goldstein.state import LATER


@dataclass
class SINGDState(FirstOrderState):
    """State of SINGD."""

    m: Array | None = None  # the mean of gradients m_t; None before the first
    past: Array = LATER  # ring of the last K iterates; x_j stands in row j mod K


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class SINGD(FirstOrder):
    """Stochastic interpolated normalised gradient descent (Zhang et al. 2020).

    ::

        1  m_1 = g(x_1; ξ)
        2  for t = 1, …, T:
        3      x_{t+1} = x_t − m_t / (p ‖m_t‖ + q)
        4      y uniform on the segment [x_t, x_{t+1}]
        5      m_{t+1} = β m_t + (1 − β) g(y; ξ)
        6  i uniform on {1, …, T}; return x_{max(i−K, 1)}, K = ⌊p (δ − ρ)⌋

    A step is shorter than 1/p, so the K iterates after the answer stay within δ − ρ of it; ρ = 0 for the oracle's own
    gradients. One gradient an iteration and one at the start; no values.

    Parameters
    ----------
    delta : float
        Radius δ of the stationarity aimed at; with p it sets how far back the answer lies.
    p, q : float
        Set the step 1/(p ‖m‖ + q); no step is longer than 1/p.
    beta : float
        β in [0, 1), weight of the old mean.
    perturb_radius : float, optional
        Before a move m is replaced by a uniform draw from the ball around it with radius `perturb_radius` · ‖m‖, so
        that F(·; ξ) is differentiable almost everywhere on the segment; see `PSINGD`. None: not perturbed.
    gradients, rho, fd_step
        See `FirstOrder`; ρ is δ/20 unless given.

    Notes
    -----
    With L a Lipschitz constant, s² the variance of the gradients, G = √(L² + s²) and Δ the initial gap, the theorem
    takes β = 1 − ε²/(64 G²), p = 64 G² ln(16 G/ε)/(δ ε²), q = 4 G p and
    T = 2¹⁶ G³ Δ ln(16 G/ε)/(ε⁴ δ) · max(1, Gδ/(8Δ)). Its authors used β = 0.9, p = 1, q = 10 on CIFAR-10.

    Line 6 is the method's own output rule, "random". With `max_iter` as the only limit, its index is drawn first and
    the run stops K steps before it, since x_{i−K} does not depend on what comes later; otherwise the last K iterates
    are kept. "average" sees the same late points; "last" returns x_{T+1}, about which the theorem says nothing.

    The gradient must satisfy ⟨g(x), v⟩ = F'(x; v) along the directions travelled, which automatic differentiation
    gives almost everywhere, but not at every kink. With `gradients="sift"` the method runs on f_ρ, which has a gradient
    everywhere.

    References
    ----------
    Zhang, Lin, Jegelka, Sra, Jadbabaie (2020). Complexity of finding stationary points of nonsmooth nonconvex
    functions. ICML, Algorithm 2.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> oracle = gs.FiniteSum(lambda x, i: abs(rows[i] @ x), 100, grad=lambda x, i: np.sign(rows[i] @ x) * rows[i])
    >>> res = gs.minimize(oracle, np.ones(3), gs.SINGD(delta=0.2, p=50, q=50), max_evals=3000, rng=0)
    >>> bool(res.fun < 0.2), res.ngev > 2900
    (True, True)
    """

    delta: float
    p: float
    q: float
    beta: float = 0.9
    perturb_radius: float | None = None
    name: ClassVar[str] = "singd"

    def __post_init__(self) -> None:
        self._check_source()
        arguments.check(self, arguments.positive, "p", "q")
        arguments.check(self, arguments.number, "beta", expected="a number in [0, 1)", fits=lambda v: 0 <= v < 1)
        if self.perturb_radius is not None:
            arguments.check(self, arguments.share, "perturb_radius", expected="a share of ‖m‖ between 0 and 1, or None")

    @property
    def needs(self) -> Needs:
        return self._with_source(Needs(values=False, output="random", random_stop=self._any_late_point))

    @property
    def lookback(self) -> int:
        """K = ⌊p (δ − ρ)⌋, how many steps before the index drawn the answer lies."""
        return int(self.p * (self.delta - self._radius))

    def _init(self, x: Array, context: Context) -> SINGDState:
        return SINGDState(x, past=np.tile(x, (self.lookback, 1)))  # what lies before x_1 counts as x_1

    @np.errstate(over="ignore", invalid="ignore")
    def _ask(self, state: SINGDState, context: Context, limit: int | None) -> Query | None:
        if limit is not None and limit < 1:
            return None
        if state.m is None:
            y, ahead = state.x, state.x  # Alg. 2, line 1
        else:
            ahead = self._ahead(state.x, state.m, context)
            y = state.x + context.rng.random() * (ahead - state.x)  # Alg. 2, line 4
        return Query(y[None], context.draw(1), order=1, aux=ahead)

    @np.errstate(over="ignore", invalid="ignore")
    def _tell(self, state: SINGDState, context: Context, query: Query, values: Array) -> Step:
        g = values[0]
        iterate = state.x
        fine = usable(values)
        if state.m is None:
            if fine:
                state.m = g.copy()  # Alg. 2, line 1
                state.grad_norm = float(np.sqrt(g @ g))
            return state.make_step(completed=0)
        if fine:
            state.x = query.aux  # Alg. 2, line 3
            state.m = self.beta * state.m + (1 - self.beta) * g  # Alg. 2, line 5
            move = state.x - iterate
            state.grad_norm = float(np.sqrt(state.m @ state.m))
            state.step_size = float(np.sqrt(move @ move))
        state.nit += 1
        return state.make_step(self._exchange(state, iterate))

    def _ahead(self, x: Array, m: Array, context: Context) -> Array:
        """Return x_{t+1} = x_t − m/(p‖m‖ + q), with m perturbed first if so wished."""
        if self.perturb_radius is not None:
            m = m + self.perturb_radius * np.sqrt(m @ m) * ball(context.rng, 1, m.size)[0]
        return context.projected(x - m / (self.p * np.sqrt(m @ m) + self.q), self._radius)  # Alg. 2, line 3

    def _exchange(self, state: SINGDState, iterate: Array) -> Array:
        """Put x_t into the ring and return x_{max(t−K, 1)}, whose row it takes."""
        if not len(state.past):
            return iterate
        row = state.nit % len(state.past)
        late: Array = state.past[row].copy()
        state.past[row] = iterate
        return late

    def _any_late_point(self, rng: np.random.Generator, max_iter: int) -> int:
        i = int(rng.integers(1, max_iter + 1))
        return max(i - self.lookback, 1) - 1  # Alg. 2, last line; x_j is reached after j − 1 iterations

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> SINGD:
        delta = options.get("delta", max(0.1 * scale.radius, 2 * (options.get("rho") or 0.0)))
        memory = log(16 / TARGET)  # (1 − β)·p·δ by the theorem, so that what is older than K steps is forgotten
        # A step along a full gradient is 1/(2p) long. The answer is drawn from the whole run, of which a fifth is to
        # travel a few R; p is at most the theorem's.
        steps = cls._affordable(scale, options)
        p = options.get("p", min(steps / (10 * TRAVEL * scale.radius), 64 * memory / (delta * TARGET**2)))
        beta = max(0.0, 1 - memory / (p * delta))
        q = min(max(scale.gradient * p, 1e-300), 1e300)  # within the range of floating point
        return cls(**{"delta": delta, "p": p, "q": q, "beta": beta, **options})


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class PSINGD(SINGD):
    """SINGD that perturbs its direction before each move, for gradients that exist almost everywhere only.

    ::

        x_{t+1} = x_t − m̃ / (p ‖m̃‖ + q),   m̃ uniform on the ball B_r(m_t)

    and everything else as in `SINGD`. The segment then avoids the kinks of F(·; ξ) with probability one, and the usual
    gradient of automatic differentiation will do.

    Parameters
    ----------
    delta, p, q, beta, gradients, rho, fd_step
        As in `SINGD`.
    perturb_radius : float
        r/‖m_t‖, tiny.

    Notes
    -----
    The text of Tian, Zhou and So, with their exact algorithm and constants, was not available. This is a
    reconstruction: the perturbation that Davis et al. (2022) give for the deterministic method, of which they say
    that it applies to the stochastic one in the same way and at the same cost.

    References
    ----------
    Tian, Zhou, So (2022). On the finite-time complexity and practical computation of approximate stationarity
    concepts of Lipschitz functions. ICML.

    Davis, Drusvyatskiy, Lee, Padmanabhan, Ye (2022). A gradient sampling method with complexity guarantees for
    Lipschitz functions in high and low dimensions. NeurIPS.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    >>> res = gs.minimize(oracle, np.ones(3), gs.PSINGD(delta=0.2, p=50, q=50), max_evals=3000, rng=0)
    >>> bool(res.fun < 0.2)
    True
    """

    perturb_radius: float | None = 1e-8
    name: ClassVar[str] = "psingd"

    def __post_init__(self) -> None:
        if self.perturb_radius is None:
            raise ValueError("psingd needs a perturb_radius between 0 and 1; singd goes without.")
        super().__post_init__()
