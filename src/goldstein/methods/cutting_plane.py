"""The cutting-plane method for the shortest element of Goldstein's subdifferential, in low dimension.

Around x, a set Ω of directions holds all that could still be good for descent. Its centre of gravity is tried: either
f descends along it, and x moves, or a gradient from that segment cuts off a good part of Ω. Since Ω would otherwise
vanish, after few cuts a convex combination of the gradients found is shorter than ε: dist(0, ∂_δ f(x)) ≤ ε.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein import retired
from goldstein.estimate.smoothing import ball
from goldstein.methods.ingd import Certifying, CertifyingState
from goldstein.methods.method import Context
from goldstein.oracle import Array
from goldstein.state import LATER
from goldstein.stationarity.hull import shortest

MOST_VARIABLES = 20


@dataclass
class CuttingPlaneState(CertifyingState):
    """State of the cutting-plane method; `m` is the shortest element of conv(Q).

    Ω = {w : ‖w‖ ≤ 1, ⟨gradients[j + 1], w⟩ ≥ levels[j] for all j}.
    """

    gradients: Array = LATER  # Q: the first gradient around x, and those of the cuts
    levels: Array = LATER
    cloud: Array = LATER  # a uniform sample of Ω; its mean stands for the centre of gravity


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class CuttingPlane(Certifying):
    """Cutting planes in the space of directions (Davis et al. 2022), with the proof of the answer.

    ::

        1   u = ∇f(uniform point of B_δ(x));  Q = {u};  Ω = unit ball
        2   repeat
        3       if the shortest element of conv(Q) has norm ≤ ε: return x
        4       v = centre of gravity of Ω
        5       z uniform on B_r(v), r < ε/(32 d L);  ẑ = z/‖z‖
        6       if f(x − δẑ) ≤ f(x) − δε/3: x = x − δẑ, go to 1
        7       repeat y uniform on the segment [x, x − δẑ], u = ∇f(y), until ⟨u, ẑ⟩ ≤ ε/2
        8       Ω = Ω ∩ {w : ⟨u, w⟩ ≥ ⟨u, z⟩};  Q = Q ∪ {u}

    With L a Lipschitz constant of f, which need not be known: at most 3Δ/(δε) moves, O(d ln(L/ε)) cuts before each,
    and O(L/ε) gradients for a cut (line 7 succeeds with probability (ε/6)/(L + ε/2) at least): Õ(Δ L d/(δ ε²)) in all.

    Parameters
    ----------
    delta, epsilon, gradients, rho, fd_step
        See `Certifying`.

    Notes
    -----
    Why Ω cannot vanish: while the shortest element g of conv(Q) is longer than ε, every u in Q has ⟨u, g/‖g‖⟩ > ε.
    Line 8 cuts at a level ⟨u, z⟩ = ‖z‖ ⟨u, ẑ⟩ ≤ ε/2, for ‖z‖ ≤ 1. So all points of the unit ball within ε/(2L) of
    g/‖g‖ survive every cut. They hold a ball of radius ε/(4L), whereas each cut takes a constant share of the volume.

    What differs from the printed algorithm. Ω begins as the unit ball, not the ball of radius 2: where ‖z‖ > 1, the
    cut of line 8 would be too deep. The descent is tested along ẑ, along which line 7 needs it to fail, and not along
    v, whose direction is not defined for the first Ω. The first gradient is taken at a random point near x, where it
    exists with probability one. The centre of gravity is the mean of a sample of Ω: after a cut the survivors walk on
    by hit-and-run, in the metric of the sample (Bertsimas and Vempala 2004), joined by the point 0.9 g/‖g‖, which is
    always inside. For r, L is the largest norm of a gradient so far.

    The cost of a cut outside of f grows fast with d; more than 20 variables are refused.

    References
    ----------
    Davis, Drusvyatskiy, Lee, Padmanabhan, Ye (2022). A gradient sampling method with complexity guarantees for
    Lipschitz functions in high and low dimensions. NeurIPS, Section 4.

    Bertsimas, Vempala (2004). Solving convex programs by random walks. Journal of the ACM 51.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    >>> method = gs.CuttingPlane(delta=0.1, epsilon=0.2)
    >>> res = gs.minimize(oracle, np.array([1.0, 2.03]), method, max_evals=5000, rng=0)
    >>> res.success, bool(res.fun < 0.2)
    (True, True)
    """

    name: ClassVar[str] = "cutting-plane"

    def _init(self, x: Array, context: Context) -> Any:
        if x.size > MOST_VARIABLES:
            raise ValueError(
                f"cutting-plane is for at most {MOST_VARIABLES} variables, this problem has {x.size}; use pingd."
            )
        return super()._init(x, context)

    def _begin(self, x: Array) -> CuttingPlaneState:
        none = np.empty((0, x.size))
        return CuttingPlaneState(x, gradients=none, levels=np.empty(0), cloud=none)

    def _direction(self, state: CuttingPlaneState, context: Context) -> tuple[Array, float]:
        d = state.x.size
        v = state.cloud.mean(axis=0)  # line 4
        r = self.epsilon / (64 * d * state.largest)
        z = v + r * ball(context.rng, 1, d)[0]  # line 5
        return z, float(np.sqrt(z @ z))

    def _descends(self, state: CuttingPlaneState, value: float) -> bool:
        return bool(value <= state.value - self._length * self.epsilon / 3)  # line 6

    def _between(self, state: CuttingPlaneState, context: Context) -> Array:
        z = state.z
        return np.asarray(state.x - context.rng.random() * self._length * z / np.sqrt(z @ z))  # line 7

    def _restart(self, state: CuttingPlaneState, gradient: Array, context: Context) -> None:
        """Begin at x with Q = {u} and Ω the unit ball (line 1)."""
        d = gradient.size
        state.gradients = gradient[None]
        state.levels = np.empty(0)
        state.cloud = ball(context.rng, 50 + 10 * d, d)
        self._hold(state, gradient)  # line 3

    def _shorten(self, state: CuttingPlaneState, u: Array, context: Context) -> None:
        """Take u if ⟨u, ẑ⟩ ≤ ε/2, cut Ω with it, and look for a certificate."""
        z = state.z
        length = float(np.sqrt(z @ z))
        slope = float(u @ z)
        if slope > length * self.epsilon / 2:  # line 7: draw again
            return
        state.gradients = np.vstack([state.gradients, u])  # line 8
        state.levels = np.append(state.levels, slope / max(1.0, length))
        self._hold(state, shortest(state.gradients) @ state.gradients)  # line 3
        if state.phase == "done":
            return
        inside = np.vstack([state.cloud[state.cloud @ u >= state.levels[-1]], 0.9 * state.m / state.grad_norm])
        start = inside[np.arange(len(state.cloud)) % len(inside)]
        state.cloud = hit_and_run(context.rng, start, state.gradients[1:], state.levels, state.cloud)


def hit_and_run(rng: np.random.Generator, start: Array, normals: Array, levels: Array, shape: Array) -> Array:
    """Walk from each row of `start` within {w : ‖w‖ ≤ 1, normals w ≥ levels}; the uniform law is stationary.

    A step goes to a uniform point of the chord in a random direction, drawn with the covariance of the rows of `shape`:
    the walk is then as fast in a thin set as in a round one.
    """
    w, d = start.copy(), start.shape[1]
    _, spread, axes = np.linalg.svd(shape - shape.mean(axis=0), full_matrices=False)
    root = (spread + 1e-9 * spread[0] + 1e-300)[:, None] * axes
    for _ in range(5 + d):
        h = rng.standard_normal((len(w), len(root))) @ root
        h /= np.sqrt(np.einsum("ij,ij->i", h, h))[:, None]
        along = np.einsum("ij,ij->i", w, h)
        half = np.sqrt(np.maximum(along**2 + 1 - np.einsum("ij,ij->i", w, w), 0))
        slack = np.maximum(w @ normals.T - levels, 0)
        rate = h @ normals.T
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = -slack / rate
        low = np.maximum(-along - half, np.where(rate > 0, ends, -np.inf).max(axis=1))
        high = np.minimum(-along + half, np.where(rate < 0, ends, np.inf).min(axis=1))
        w += (low + rng.random(len(w)) * np.maximum(high - low, 0))[:, None] * h
    return w
