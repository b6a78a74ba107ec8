"""INGD and PINGD: interpolated normalised gradient descent with exact values and gradients.

Both hold a convex combination m of gradients taken within δ of x. Either a move of length δ along −m decreases f
enough, and x moves, or the segment of that move holds a gradient that makes m shorter. When ‖m‖ ≤ ε, m proves that
dist(0, ∂_δ f(x)) ≤ ε, and the run ends there: x is the answer and m its certificate.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments, retired
from goldstein.estimate.smoothing import ball
from goldstein.methods.first_order import FirstOrder, FirstOrderState, Sifted
from goldstein.methods.method import TARGET, Context, Needs, Scale, Step, any_iterate
from goldstein.norms import norm, usable
from goldstein.oracle import Array, Query
from goldstein.state import LATER
from goldstein.stationarity.certificate import Certificate

ROUNDING = 0.1  # of ε: what the rounding error of a gradient may be at most


@dataclass
class CertifyingState(FirstOrderState):
    """State of a method that ends with a certificate; `value` is f(x), exact.

    `phase` is what is asked next: "value" f(x), "start" the first gradient around x, "test" the value a move away,
    "inner" a gradient on the segment of that move; "done" when there is nothing left to ask.
    """

    phase: str = "value"
    m: Array = LATER  # a convex combination of gradients within δ of x: the certificate when the run is done
    largest: float = 0.0  # norm of a gradient so far
    z: Array = LATER  # the direction on trial


@dataclass(frozen=True)
class Certifying(FirstOrder):
    """Base of the methods that stop by themselves, with a proof that dist(0, ∂_δ f(x)) ≤ ε.

    Parameters
    ----------
    delta, epsilon : float
        The stationarity (δ, ε) aimed at; δ is also the length of a move.
    gradients, rho, fd_step
        See `FirstOrder`; ρ is δ/1000 unless given, and a move is δ − ρ long.

    Notes
    -----
    One iteration is one gradient. The step that finds the certificate says so, and `ask` returns None after it.

    With `gradients="sift"` gradients come from differences, which are those of f where it has no kink within the walk:
    likely, but not known. The run ends in the same way, with a sentence instead of a certificate. A test that fails by
    less than 2ρL is not noticed, so that ρ should be small beside δε/L.
    """

    delta: float
    epsilon: float
    _share: ClassVar[float] = 1e-3

    def __post_init__(self) -> None:
        arguments.check(self, arguments.positive, "epsilon")
        self._check_source()

    @property
    def needs(self) -> Needs:
        return self._with_source(Needs(exact=True, query_radius=self.delta, random_stop=any_iterate))

    @property
    def _length(self) -> float:
        """The length of a move; all gradients are then taken within δ of x."""
        return self.delta - self._radius

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> Certifying:
        delta = max(0.1 * scale.radius, 2 * (options.get("rho") or 0.0))
        return cls(**{"delta": delta, "epsilon": TARGET * scale.gradient, **options})

    def _make_step(self, state: CertifyingState, context: Context, query: Query, iterate: Array) -> Step:
        if state.phase != "done":
            return state.make_step(iterate, completed=query.order)
        if state.sifted is None:
            return state.make_step(iterate, completed=query.order, done=self._certificate(state))
        rounding = state.sifted.rounding(iterate.size, context.facts.roundoff)
        if rounding > ROUNDING * self.epsilon:
            warnings = {"precision": self._roundoff_warning(state.sifted, rounding)}
            return state.make_step(iterate, completed=query.order, warnings=warnings)
        done = self._sentence(state, ", which were found by differences,")
        return state.make_step(iterate, completed=query.order, done=done)

    def _sentence(self, state: CertifyingState, source: str = "") -> str:
        return (
            f"A convex combination of gradients within delta = {self.delta:g} of x{source} has norm "
            f"{state.grad_norm:.3g} ≤ epsilon = {self.epsilon:g}."
        )

    def _certificate(self, state: CertifyingState) -> Certificate:
        bound = (state.grad_norm, "gradient hull", float(self.delta), float(self.epsilon))
        message = self._sentence(state)
        return Certificate("certified", *bound, confidence=1.0, nfev=0, ngev=0, nfail=0, message=message)

    def _roundoff_warning(self, sifted: Sifted, rounding: float) -> str:
        return (
            "The method finished, but its certificate is not valid: rounding errors of F (|F| about "
            f"{sifted.level:.2g}) are {rounding:.2g} in a gradient at fd_step={sifted.fd_step:.3g}, too much for "
            f"epsilon = {self.epsilon:g}: use larger fd_step and rho, higher precision, or subtract a constant from F."
        )

    def _init(self, x: Array, context: Context) -> Any:
        if context.project is not None:
            raise ValueError(f"{self.name} is for problems without constraints; leave bounds and projection out.")
        return self._begin(x)

    def _begin(self, x: Array) -> CertifyingState:
        return CertifyingState(x)

    def _ask(self, state: Any, context: Context, limit: int | None) -> Query | None:
        if state.phase == "done" or (limit is not None and limit < 1):
            return None
        if state.phase == "value":
            return Query(state.x[None])
        if state.phase == "start":
            return Query(self._first(state.x, context)[None], order=1)
        if state.phase == "test":
            direction, length = self._direction(state, context)
            ahead = state.x - self._length * direction / length
            return Query(ahead[None], aux=(direction, ahead))
        return Query(self._between(state, context)[None], order=1)

    def _tell(self, state: Any, context: Context, query: Query, values: Array) -> Step:
        iterate = state.x
        state.nit += query.order
        if usable(values):
            self._take(state, context, query, values)
        else:
            self._take_failure(state)
        return self._make_step(state, context, query, iterate)

    def _take(self, state: Any, context: Context, query: Query, values: Array) -> None:
        """Take an answer that did not fail."""
        if state.phase == "value":
            state.value = float(values[0])
            state.phase = "start"
        elif state.phase == "test":
            state.z, ahead = query.aux
            if self._descends(state, values[0]):
                state.x = ahead
                state.value = float(values[0])
                state.step_size = self._length
                state.phase = "start"
            else:
                state.phase = "inner"
        else:
            state.largest = max(state.largest, norm(values[0]))
            if state.phase == "start":
                self._restart(state, values[0].copy(), context)
            else:
                self._shorten(state, values[0], context)

    def _take_failure(self, state: Any) -> None:
        """Take an evaluation that failed: it is asked again, at another random point."""

    def _first(self, x: Array, context: Context) -> Array:
        """Return where the first gradient at a new x is taken: a random point near it."""
        return np.asarray(x + self._length * ball(context.rng, 1, x.size)[0])

    def _hold(self, state: CertifyingState, m: Array) -> None:
        """Make m the combination held; the run is done when it is short enough."""
        state.m = m
        state.grad_norm = norm(m)
        state.phase = "done" if state.grad_norm <= self.epsilon else "test"

    @abstractmethod
    def _direction(self, state: Any, context: Context) -> tuple[Array, float]:
        """Return the direction against which a move is tested, and its length."""

    @abstractmethod
    def _descends(self, state: Any, value: float) -> bool:
        """Whether f is low enough where the move would end."""

    @abstractmethod
    def _between(self, state: Any, context: Context) -> Array:
        """Draw a point of the segment from x to where the move would end."""

    @abstractmethod
    def _restart(self, state: Any, gradient: Array, context: Context) -> None:
        """Hold the first gradient at a new x."""

    @abstractmethod
    def _shorten(self, state: Any, u: Array, context: Context) -> None:
        """Combine m with a gradient u from the segment."""


@dataclass(frozen=True)
class _Interpolated(Certifying):
    """What INGD and PINGD share: moves along −m."""

    def _direction(self, state: Any, context: Context) -> tuple[Array, float]:
        return state.m, state.grad_norm

    def _descends(self, state: Any, value: float) -> bool:
        return bool(state.value - value >= self._length * state.grad_norm / 4)

    def _take_failure(self, state: Any) -> None:
        if state.phase == "test":  # not known to descend
            state.phase = "inner"


@dataclass
class INGDState(CertifyingState):
    """State of INGD: also the gradient at x, and k of line 3, one more than the gradients mixed into it."""

    origin: Array = LATER
    inner: int = 0


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class INGD(_Interpolated):
    """Interpolated normalised gradient descent (Zhang et al. 2020), with the proof of its answer.

    ::

        1  repeat
        2      m = ∇f(x)
        3      for k = 1, …, K:
        4          if ‖m‖ ≤ ε: return x
        5          z = x − δ m/‖m‖
        6          if f(z) ≤ f(x) − δ ‖m‖/4: x = z, go to 2
        7          y uniform on the segment [x, z]
        8          β = (4L² − ‖m‖²) / (4L² + 2‖m‖²);  m = β m + (1 − β) ∇f(y)

    At most 4Δ/(δε) moves, each after O(L²/ε²) gradients, so O(Δ L²/(δ ε³)) up to a logarithm; on a smooth stretch
    line 6 succeeds at once. Line 8 minimises the bound β²M + β(1 − β)M/2 + (1 − β)²L² on E‖m‖², M = ‖m‖².

    Parameters
    ----------
    delta, epsilon, gradients, rho, fd_step
        See `Certifying`.
    lipschitz : float, optional
        L, a Lipschitz constant of f. The largest norm of a gradient so far takes its place when it is larger, or when
        none is given.

    Notes
    -----
    K = ⌈48 L²/ε²⌉; after that many gradients without success line 2 begins anew at the same x. No gradient so far is
    longer than L, so 1/2 ≤ β ≤ 1 and m is a convex combination of them. The T moves of the theorem may take T·K.

    The proof holds if ∇f(x) lies in the subdifferential at every x where it is asked, x0 and the ends of moves
    included. Automatic differentiation does not promise that at kinks; `PINGD` asks at random points only.

    References
    ----------
    Zhang, Lin, Jegelka, Sra, Jadbabaie (2020). Complexity of finding stationary points of nonsmooth nonconvex
    functions. ICML, Algorithm 1.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    >>> res = gs.minimize(oracle, np.array([1.0, 2.03]), gs.INGD(delta=0.1, epsilon=0.2), rng=0)
    >>> res.success, bool(res.fun < 0.2)
    (True, True)
    >>> print(res.message.split(" has ")[0])
    A convex combination of gradients within delta = 0.1 of x
    """

    lipschitz: float | None = None
    name: ClassVar[str] = "ingd"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.check(self, arguments.optional_positive, "lipschitz")

    def _begin(self, x: Array) -> INGDState:
        return INGDState(x)

    def _first(self, x: Array, context: Context) -> Array:
        return x  # Alg. 1, line 2

    def _between(self, state: INGDState, context: Context) -> Array:
        return state.x - context.rng.random() * self._length * state.m / state.grad_norm  # lines 5 and 7

    def _restart(self, state: INGDState, gradient: Array, context: Context) -> None:
        state.origin = gradient
        state.inner = 1
        self._hold(state, gradient)  # lines 2 and 4

    def _shorten(self, state: INGDState, u: Array, context: Context) -> None:
        L = max(self.lipschitz or 0.0, state.largest)
        unit = 1.0 if 1e-100 < L < 1e100 else L  # so that squares and their ratios stay in range
        bound = 4 * (L / unit) ** 2
        squared = (state.grad_norm / unit) ** 2 if unit != 1 else float(state.m @ state.m)
        beta = (bound - squared) / (bound + 2 * squared)
        state.inner += 1
        self._hold(state, beta * state.m + (1 - beta) * u)  # lines 8 and 4
        epsilon = max(self.epsilon / unit, 1e-100)
        if state.phase != "done" and state.inner > ceil(12 * bound / epsilon**2):  # line 3: k > K = ⌈48 L²/ε²⌉
            self._restart(state, state.origin, context)


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class PINGD(_Interpolated):
    """Perturbed INGD (Davis et al. 2022): gradients at random points only, with the proof of its answer.

    ::

        1  g = ∇f(uniform point of B_δ(x))
        2  while ‖g‖ > ε and f(x) − f(x − δ g/‖g‖) < δ ‖g‖/4:
        3      z uniform on B_r(g);  y uniform on the segment [x, x − δ z/‖z‖];  u = ∇f(y)
        4      g = the shortest vector of the segment [g, u]
        5  if ‖g‖ ≤ ε: return x, else x = x − δ g/‖g‖ and go to 1

    All gradients are taken at random points, where a Lipschitz f is differentiable with probability one, so that the
    gradient of automatic differentiation will do. With L a Lipschitz constant, at most ⌈4Δ/(δε)⌉ moves and, with
    probability 1 − γ, ⌈64L²/ε²⌉ ⌈2 ln(1/γ)⌉ gradients before each; L need not be known.

    Parameters
    ----------
    delta, epsilon, gradients, rho, fd_step
        See `Certifying`.
    perturb_radius : float
        r/‖g‖. The theorem asks for r < ‖g‖ √(1 − (1 − ‖g‖²/(128L²))²), about ‖g‖²/(8L).

    Notes
    -----
    As printed, Algorithm 2 of the paper has no early exit: it continues from a certified point, and returns the last
    one. Line 5 here returns the certified point.

    References
    ----------
    Davis, Drusvyatskiy, Lee, Padmanabhan, Ye (2022). A gradient sampling method with complexity guarantees for
    Lipschitz functions in high and low dimensions. NeurIPS, Algorithms 1 (MinNorm) and 2.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    >>> res = gs.minimize(oracle, np.array([1.0, 2.03]), gs.PINGD(delta=0.1, epsilon=0.2), max_evals=5000, rng=0)
    >>> res.success, bool(res.fun < 0.2)
    (True, True)
    """

    perturb_radius: float = 1e-8
    name: ClassVar[str] = "pingd"

    def __post_init__(self) -> None:
        super().__post_init__()
        arguments.check(self, arguments.share, "perturb_radius", expected="a share of ‖g‖ between 0 and 1")

    def _between(self, state: CertifyingState, context: Context) -> Array:
        z = state.m + self.perturb_radius * state.grad_norm * ball(context.rng, 1, state.x.size)[0]
        return np.asarray(state.x - context.rng.random() * self._length * z / norm(z))  # line 3

    def _restart(self, state: CertifyingState, gradient: Array, context: Context) -> None:
        self._hold(state, gradient)  # line 1

    def _shorten(self, state: CertifyingState, u: Array, context: Context) -> None:
        g = state.m
        gap = g - u
        unit = 1.0 if 1e-100 < state.largest < 1e100 else state.largest  # so that squares stay in range
        squared = float((gap / unit) @ (gap / unit))
        share = 0.0
        if squared:
            share = min(max(float((g / unit) @ (gap / unit)) / squared, 0.0), 1.0)
        self._hold(state, g + share * (u - g))  # line 4
