"""Online-to-nonconvex conversion (O2NC), with gradients and from values alone.

The displacement Δ of each step is played by an online learner on a ball of radius D, restarted every M steps; the
gradient is taken at a random point of the segment just travelled. The answer is the mean of a block's points: all of
them lie within M·D = δ of it, so the mean of the block's gradients is close to Goldstein's δ-subdifferential there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np

from goldstein import arguments, retired
from goldstein.compiled.tally import O2NC as O2NC_RECORD
from goldstein.compiled.tally import record_of, write_back
from goldstein.methods.first_order import FirstOrder, FirstOrderState
from goldstein.methods.kernel import CompiledKernel
from goldstein.methods.method import TRAVEL, Context, Kernel, Method, Needs, Scale, Step, check_rho
from goldstein.methods.zeroth_order import SmoothedState, ZerothOrder
from goldstein.norms import usable
from goldstein.oracle import Array, Oracle, Query
from goldstein.state import LATER, State

LEARNERS = ("adagrad", "ogd")


@dataclass
class Segment(State):
    """What belongs to a query: the point z, and x_n, where the segment that holds z ends."""

    z: Array
    position: Array


@dataclass
class O2NCState(SmoothedState, FirstOrderState):
    """State of O2NC; `x` is the mean of the last finished block, the answer so far."""

    position: Array = LATER  # the moving point x_n
    displacement: Array = LATER  # Δ, the learner's play
    points: Array = LATER  # sum of z over the current block
    gradients: Array = LATER  # sum of g over the current block
    done: int = 0  # steps of the current block
    squares: float = 0.0  # sum of ‖g‖² over the current block (for AdaGrad)
    block_norm: float = np.nan  # of the mean gradient of the last block: bounds dist(0, ∂_δ f(x)), up to noise

    def restart(self) -> None:
        self.displacement = np.zeros_like(self.x)
        self.points = np.zeros_like(self.x)
        self.gradients = np.zeros_like(self.x)
        self.done = 0
        self.squares = 0.0

    def note(self) -> dict[str, str]:
        if np.isnan(self.block_norm):
            return {"block": "No block was finished; the answer is the start."}
        return {"block": f"The mean gradient of the last block has norm {self.block_norm:.3g}."}


class _Blocks(Method):
    """What both forms share: the learner, and the blocks in which it plays."""

    @property
    def play_radius(self) -> float:
        """D, the radius of the learner's ball."""
        raise NotImplementedError

    block_length: int
    step_size: float | None
    learner: str

    def _check_learner(self) -> None:
        arguments.check(self, arguments.count, "block_length")
        arguments.check(self, arguments.optional_positive, "step_size")
        arguments.check(self, arguments.one_of, "learner", names=LEARNERS)
        if self.learner == "ogd" and self.step_size is None:
            raise ValueError("The learner ogd needs a positive step_size; adagrad finds its own.")
        if self.learner == "adagrad" and self.step_size is not None:
            raise ValueError("The learner adagrad finds its own step; leave step_size out, or choose ogd.")

    def _start(self, x: Array) -> O2NCState:
        state = O2NCState(x, position=x)
        state.restart()
        return state

    @np.errstate(over="ignore", invalid="ignore")
    def _travel(self, state: O2NCState, context: Context, margin: float) -> Segment:
        """Draw the point z of the segment from x_{n−1} to x_n = x_{n−1} + Δ_n, which stays in the allowed set."""
        position = context.projected(state.position + state.displacement, margin)
        return Segment(state.position + context.rng.random() * (position - state.position), position)

    @np.errstate(over="ignore", invalid="ignore")
    def _learn(self, state: O2NCState, context: Context, segment: Segment, g: Array) -> bool:
        """Take the gradient at z; let the learner play its next Δ; return whether that ends the block."""
        eta = self.step_size
        radius = self.play_radius
        state.position = segment.position
        squared = float(g @ g)
        state.squares += squared
        if eta is None:  # AdaGrad-norm on a ball of diameter 2D: η_t = √2 D / √(Σ‖g‖²)
            eta = float(np.sqrt(2.0) * radius / np.sqrt(state.squares)) if state.squares else 0.0
        play = state.displacement - eta * g
        size = float(np.sqrt(play @ play))
        state.displacement = play if size <= radius else play * (radius / size)
        state.points = state.points + segment.z
        state.gradients = state.gradients + g
        state.done += 1
        state.step_size = eta
        state.grad_norm = float(np.sqrt(squared))
        if state.done < self.block_length:
            return False
        mean = state.gradients / self.block_length
        state.x = context.projected(state.points / self.block_length, 0.0)  # rounding must not leave the set
        state.block_norm = float(np.sqrt(mean @ mean))
        state.restart()
        return True

    def _any_block(self, rng: np.random.Generator, max_iter: int) -> int:
        """Draw one of the blocks: after how many iterations its mean is where the run stands."""
        length = self.block_length
        return min(max_iter, length * (1 + int(rng.random() * max(1, max_iter // length))))

    @classmethod
    def _complete(cls, options: Mapping[str, Any]) -> bool:
        return super()._complete(options) and not _lacks_step(options)

    @classmethod
    def _with_blocks(cls, scale: Scale, settings: dict[str, Any], steps: int, G: float) -> Self:
        """Return the method with a block length M, and a step for "ogd".

        All blocks together can travel (steps / M)·δ, which must be a few R.
        """
        most = int(steps * settings["delta"] / (TRAVEL * scale.radius))
        settings = {"block_length": max(1, min(int((0.1 * steps) ** (2 / 3)), most)), **settings}
        if _lacks_step(settings):  # η = D/(G √M)
            D = cls(**{**settings, "step_size": 1.0}).play_radius
            settings["step_size"] = D / (G * sqrt(settings["block_length"]))
        return cls(**settings)


def _lacks_step(settings: Mapping[str, Any]) -> bool:
    return settings.get("learner") == "ogd" and settings.get("step_size") is None


@retired.fields(step="fd_step")
@dataclass(frozen=True)
class O2NC(_Blocks, FirstOrder):
    """Online-to-nonconvex conversion with stochastic gradients (Cutkosky, Mehta and Orabona 2023).

    Parameters
    ----------
    delta : float
        Radius δ of the stationarity aimed at; the learner's ball has radius D = (δ − ρ)/M, ρ = 0 for the oracle's own
        gradients.
    block_length : int
        M, steps from one restart of the learner to the next.
    step_size : float, optional
        η of online gradient descent (learner "ogd").
    learner : {"adagrad", "ogd"}
        AdaGrad-norm finds its step from the gradients and needs no Lipschitz constant.
    gradients, rho, fd_step
        See `FirstOrder`; ρ is δ/20 unless given.

    Notes
    -----
    The answer is the mean of the last finished block, x0 if there is none. The theorem is about a block drawn at
    random, which is `output="random"`, and what plans use.

    With `gradients="sift"` it runs on f_ρ, from values alone: ∂_{δ−ρ} f_ρ(x) ⊂ ∂_δ f(x).

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
    >>> method = gs.O2NC(delta=0.5, block_length=20, gradients="sift")
    >>> res = gs.minimize(lambda x: abs(x).sum(), np.ones(5), method, max_evals=10_000, rng=0)
    >>> bool(res.fun < 1), res.ngev
    (True, 0)
    """

    delta: float
    block_length: int
    step_size: float | None = None
    learner: str = "adagrad"
    name: ClassVar[str] = "o2nc"

    def __post_init__(self) -> None:
        self._check_source()
        self._check_learner()

    @property
    def needs(self) -> Needs:
        return self._with_source(Needs(values=False, random_stop=self._any_block))

    @property
    def play_radius(self) -> float:
        return (self.delta - self._radius) / self.block_length

    def _init(self, x: Array, context: Context) -> O2NCState:
        return self._start(x)

    def _ask(self, state: O2NCState, context: Context, limit: int | None) -> Query | None:
        if limit is not None and limit < 1:
            return None
        segment = self._travel(state, context, self._radius)
        return Query(segment.z[None], context.draw(1), order=1, aux=segment)

    def _tell(self, state: O2NCState, context: Context, query: Query, values: Array) -> Step:
        ended = usable(values) and self._learn(state, context, query.aux, values[0])
        state.nit += 1
        return state.make_step(state.x if ended else None, notes=state.note())  # block means only

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> O2NC:
        delta = max(0.1 * scale.radius, 2 * (options.get("rho") or 0.0))
        steps = cls._affordable(scale, options)
        return cls._with_blocks(scale, {"delta": delta, **options}, steps, scale.gradient)


@dataclass(frozen=True)
class ZOO2NC(_Blocks, ZerothOrder):
    """Online-to-nonconvex conversion from values alone (Kornowski and Shamir 2024).

    O2NC on the smoothed f_ρ, with two-point estimates of radius ρ at the points z: cost O(d δ⁻¹ ε⁻³), linear in d. The
    answer is chosen as in `O2NC`.

    Parameters
    ----------
    delta, block_length, step_size, learner
        As in `O2NC`.
    batch_size : int
        Pairs in each estimate.
    rho : float, optional
        Smoothing radius ρ < δ; None: δ/20.
    displacement : float, optional
        D, the radius of the learner's ball; None: (δ − ρ)/M, which is what the theorem needs.
    directions, estimator
        See `ZerothOrder`.

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
        self._check("batch_size")
        self._check_learner()
        check_rho(self)
        arguments.check(self, arguments.optional_positive, "displacement")

    @property
    def needs(self) -> Needs:
        return replace(super().needs, random_stop=self._any_block)

    @property
    def _radius(self) -> float:
        return self.delta / 20 if self.rho is None else self.rho

    @property
    def play_radius(self) -> float:
        return self.displacement or (self.delta - self._radius) / self.block_length

    def init(self, x: Array, context: Context) -> O2NCState:
        return self._start(x)

    def ask(self, state: O2NCState, context: Context, limit: int | None) -> Query | None:
        segment = self._travel(state, context, self._radius)
        query = self._query([segment.z], self.batch_size, context, limit)
        if query is not None:
            query.aux.purpose = segment
        return query

    def tell(self, state: O2NCState, context: Context, query: Query, values: Array) -> Step:
        reading = self._read(state, context, query, values)
        ended = not reading.empty and self._learn(state, context, query.aux.purpose, reading.estimate())
        state.nit += 1
        return self._make_step(state, state.x if ended else None)

    def _make_step(self, state: SmoothedState, iterate: Array | None, completed: int = 1, **more: Any) -> Step:
        assert isinstance(state, O2NCState)
        return super()._make_step(state, iterate, completed, notes=state.note(), **more)

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> ZOO2NC:
        delta = max(0.1 * scale.radius, scale.floor, 2 * (options.get("rho") or 0.0))
        settings = {"delta": delta, "batch_size": 1, **options}
        steps = max(1, scale.evals // (2 * settings["batch_size"]))
        return cls._with_blocks(scale, settings, steps, scale.estimate)

    def kernel(self, oracle: Oracle) -> Kernel:
        self._check_compilable()
        return _Compiled(self, oracle, 2 * self.batch_size)


class _Compiled(CompiledKernel):
    """ZO-O2NC in machine code; it answers with the mean of its last block only."""

    outputs: tuple[str, ...] = ("last",)

    def call(self, state: O2NCState, context: Context, mean: Array, count: int, steps: Array, tally: Any) -> int:
        from goldstein.compiled import o2nc as loop  # which needs numba

        m: ZOO2NC = self.method
        for name in ("position", "displacement", "points", "gradients"):
            setattr(state, name, getattr(state, name).copy())
        record = record_of(O2NC_RECORD, state)
        eta = -1.0 if m.step_size is None else float(m.step_size)
        settings = (steps.size, m.batch_size, float(m._radius), float(m.play_radius), m.block_length, eta)
        arrays = (state.x, state.position, state.displacement, state.points, state.gradients)
        self.compiled(loop.zo_o2nc, context.rng, self.n, *settings, *arrays, record, tally)
        write_back(record, state)
        return steps.size
