"""Online-to-nonconvex conversion (O2NC), with gradients and from values alone.

The displacement Δ of each step is played by an online learner on a ball of radius D, restarted every M steps; the
gradient is taken at a random point of the segment just travelled. The answer is the mean of a block's points: all of
them lie within M·D = δ of it, so the mean of the block's gradients is close to Goldstein's δ-subdifferential there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from goldstein import arguments
from goldstein.methods.method import Context, Method
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.oracle import Array, Query

LEARNERS = ("adagrad", "ogd")


@dataclass
class Block:
    """The memory of a query: the point z and the position after the step."""

    z: Array
    position: Array


@dataclass
class O2NCState(SmoothedState):
    """State of O2NC; `x` is the mean of the last finished block, the answer so far.

    Attributes
    ----------
    position : ndarray
        The moving point x_n.
    displacement : ndarray
        Δ, the learner's play.
    points, gradients : ndarray
        Sums over the current block of z and of g.
    done : int
        Steps done in the current block.
    squares : float
        Sum of ‖g‖² in the current block (for AdaGrad).
    block_norm : float
        Norm of the mean gradient of the last finished block: an upper bound on dist(0, ∂_δ f(x)), up to noise.
    fresh : bool
        A block was finished by the last iteration.
    """

    position: Array = None  # type: ignore[assignment]
    displacement: Array = None  # type: ignore[assignment]
    points: Array = None  # type: ignore[assignment]
    gradients: Array = None  # type: ignore[assignment]
    done: int = 0
    squares: float = 0.0
    block_norm: float = np.nan
    fresh: bool = False


def _begin(x: Array) -> O2NCState:
    zero = np.zeros_like(x)
    return O2NCState(x, position=x, displacement=zero, points=zero, gradients=zero)


def _travel(state: O2NCState, context: Context, margin: float) -> Block:
    """Draw the point z of the segment from x_{n−1} to x_n = x_{n−1} + Δ_n, which stays in the allowed set."""
    position = context.projected(state.position + state.displacement, margin)
    return Block(state.position + context.rng.random() * (position - state.position), position)


def _learn(state: O2NCState, block: Block, g: Array, *, length: int, radius: float, eta: float | None) -> None:
    """Take the gradient at z; let the learner play its next Δ; end the block after `length` steps."""
    state.position = block.position
    squared = float(g @ g)
    state.squares += squared
    if eta is None:  # AdaGrad-norm on a ball of diameter 2D: η_t = √2 D / √(Σ‖g‖²)
        eta = float(np.sqrt(2.0) * radius / np.sqrt(state.squares)) if state.squares else 0.0
    play = state.displacement - eta * g
    size = float(np.sqrt(play @ play))
    state.displacement = play if size <= radius else play * (radius / size)
    state.points, state.gradients = state.points + block.z, state.gradients + g
    state.done += 1
    state.step, state.gradient_norm = eta, float(np.sqrt(squared))
    if state.done == length:
        mean = state.gradients / length
        state.x, state.block_norm = state.points / length, float(np.sqrt(mean @ mean))
        zero = np.zeros_like(g)
        state.displacement, state.points, state.gradients = zero, zero, zero  # restart
        state.done, state.squares, state.fresh = 0, 0.0, True


@dataclass(frozen=True)
class _Blocks(Method):
    """What both forms share."""

    output: ClassVar[str] = "last"

    def _check_learner(self, block_length: int, step_size: float | None, learner: str) -> None:
        arguments.keep(
            self,
            block_length=arguments.count("block_length", block_length),
            step_size=arguments.optional_positive("step_size", step_size),
            learner=arguments.one_of("learner", learner, LEARNERS),
        )
        if learner == "ogd" and step_size is None:
            raise ValueError("The learner ogd needs a positive step_size; adagrad finds its own.")
        if learner == "adagrad" and step_size is not None:
            raise ValueError("The learner adagrad finds its own step; leave step_size out, or choose ogd.")

    def offer(self, state: O2NCState, left: Array) -> Array | None:
        return state.x if state.fresh else None  # block means only

    def random_stop(self, rng: np.random.Generator, max_iter: int) -> int:
        length: int = self.block_length  # type: ignore[attr-defined]
        return min(max_iter, length * (1 + int(rng.random() * max(1, max_iter // length))))

    def report(self, state: O2NCState) -> list[str]:
        if np.isnan(state.block_norm):
            return ["No block was finished; the answer is the start."]
        return [f"The mean gradient of the last block has norm {state.block_norm:.3g}."]


@dataclass(frozen=True)
class O2NC(_Blocks):
    """Online-to-nonconvex conversion with stochastic gradients (Cutkosky, Mehta and Orabona 2023).

    Parameters
    ----------
    delta : float
        Radius δ of the stationarity aimed at; the learner's ball has radius D = δ/M.
    block_length : int
        M, steps from one restart of the learner to the next.
    step_size : float, optional
        η of online gradient descent (learner "ogd").
    learner : {"adagrad", "ogd"}
        AdaGrad-norm finds its step from the gradients and needs no Lipschitz constant.

    Notes
    -----
    The answer is the mean of the last finished block, x0 if there is none. The theorem is about a block drawn at
    random, which is `output="random"`, and what plans use.

    References
    ----------
    Cutkosky, Mehta, Orabona (2023). Optimal stochastic non-smooth non-convex optimization through online-to-non-convex
    conversion. ICML.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda x: abs(x).sum(), grad=np.sign)
    >>> res = gs.minimize(oracle, np.ones(5), gs.O2NC(delta=0.5, block_length=20), max_evals=2000, rng=0)
    >>> bool(res.fun < 1), res.ngev > 1900
    (True, True)
    """

    delta: float
    block_length: int
    step_size: float | None = None
    learner: str = "adagrad"
    name: ClassVar[str] = "o2nc"
    needs_gradient: ClassVar[bool] = True
    sees_values: ClassVar[bool] = False

    def __post_init__(self) -> None:
        arguments.keep(self, delta=arguments.positive("delta", self.delta))
        self._check_learner(self.block_length, self.step_size, self.learner)

    def init(self, x: Array, context: Context) -> O2NCState:
        return _begin(x)

    def ask(self, state: O2NCState, context: Context, limit: int | None) -> Query | None:
        if limit is not None and limit < 1:
            return None
        block = _travel(state, context, 0.0)
        xi = None if context.sample is None else context.sample(context.rng, 1)
        return Query(block.z[None], xi, order=1, memory=block)

    def tell(self, state: O2NCState, context: Context, query: Query, values: Array) -> None:
        state.fresh = False
        if np.isfinite(values).all():
            radius = self.delta / self.block_length
            _learn(state, query.memory, values[0], length=self.block_length, radius=radius, eta=self.step_size)
        state.nit += 1


@dataclass(frozen=True)
class ZOO2NC(_Blocks, ZerothOrder):
    """Online-to-nonconvex conversion from values alone (Kornowski and Shamir 2024).

    O2NC on the smoothed f_ρ, with two-point estimates of radius ρ at the points z: cost O(d δ⁻¹ ε⁻³), linear in d.

    Parameters
    ----------
    delta : float
        Radius δ of the stationarity aimed at.
    block_length : int
        M, steps from one restart of the learner to the next.
    step_size : float, optional
        η of online gradient descent (learner "ogd").
    batch_size : int
        Pairs in each estimate.
    rho : float, optional
        Smoothing radius ρ < δ; None: δ/20.
    displacement : float, optional
        D, the radius of the learner's ball; None: (δ − ρ)/M, which is what the theorem needs.
    learner : {"adagrad", "ogd"}
        AdaGrad-norm finds its step from the estimates and needs no Lipschitz constant.
    directions, estimator
        See `ZerothOrder`.

    Notes
    -----
    The answer is the mean of the last finished block, x0 if there is none. The theorem is about a block drawn at
    random, which is `output="random"`, and what plans use.

    References
    ----------
    Kornowski, Shamir (2024). An algorithm with optimal dimension-dependence for zero-order nonsmooth nonconvex
    stochastic optimization. JMLR 25.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> method = gs.ZOO2NC(delta=0.5, block_length=20)
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), method, max_evals=10_000, rng=0)
    >>> bool(res.fun < 1)
    True
    """

    delta: float
    block_length: int
    step_size: float | None = None
    batch_size: int = 1
    rho: float | None = None
    displacement: float | None = None
    learner: str = "adagrad"
    name: ClassVar[str] = "zo-o2nc"

    def __post_init__(self) -> None:
        self._check(self.delta, batch_size=self.batch_size)
        self._check_learner(self.block_length, self.step_size, self.learner)
        if self.rho is not None:
            wanted = f"a number between 0 and delta = {self.delta:g}"
            arguments.keep(self, rho=arguments.number("rho", self.rho, wanted, lambda given: 0 < given < self.delta))
        arguments.keep(self, displacement=arguments.optional_positive("displacement", self.displacement))

    @property
    def uses_horizon(self) -> bool:
        return False

    def margin(self) -> float:
        return self.delta / 20 if self.rho is None else self.rho

    @property
    def play_radius(self) -> float:
        """D, the radius of the learner's ball."""
        return self.displacement or (self.delta - self.margin()) / self.block_length

    def init(self, x: Array, context: Context) -> O2NCState:
        return _begin(x)

    def ask(self, state: O2NCState, context: Context, limit: int | None) -> Query | None:
        block = _travel(state, context, self.margin())
        query = self._query([block.z], self.batch_size, context, limit)
        if query is not None:
            query.memory.purpose = block
        return query

    def tell(self, state: O2NCState, context: Context, query: Query, values: Array) -> None:
        reading = self._read(state, context, query, values)
        state.fresh = False
        if not reading.empty:
            block, g = query.memory.purpose, reading.estimate()
            _learn(state, block, g, length=self.block_length, radius=self.play_radius, eta=self.step_size)
        state.nit += 1
