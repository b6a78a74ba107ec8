"""The interface of a method: settings that never change, a state that does, and two verbs, ask and tell.

A method never evaluates. `ask` says where to evaluate next and changes nothing but the random generator, so that
a run stopped in the middle of an evaluation can be asked again; `tell` takes the values and moves the state on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.oracle import Array, Oracle, Query, Sampler
from goldstein.projection import Projection, as_projection
from goldstein.state import State


@dataclass
class MethodState(State):
    """What every method's state holds.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The current iterate.
    nit : int
        Iterations done.
    value : float
        Mean of the values of the last batch: a free, noisy estimate of f near x.
    gradient_norm : float
        Norm of the last direction of descent (an estimate of ∇f_δ).
    step : float
        The last step size.
    """

    x: Array
    nit: int = 0
    value: float = np.nan
    gradient_norm: float = np.nan
    step: float = np.nan


@dataclass
class Context:
    """What a method may use besides its settings and its state.

    `nfev` counts the evaluations that were told before, the query at hand not included; `earlier` those of an earlier
    stage of the same run.
    """

    rng: np.random.Generator
    sample: Sampler | None = None
    project: Projection | None = None
    max_evals: int | None = None
    max_iter: int | None = None
    noisy: bool = False
    nfev: int = 0
    earlier: int = 0

    def progress(self, nit: int) -> float | None:
        """Return the share of the run that is over, by whichever limit is nearer; None without limits."""
        shares = [
            done / max(limit, 1)
            for done, limit in ((self.nfev, self.max_evals), (nit, self.max_iter))
            if limit is not None
        ]
        return min(max(shares), 1.0) if shares else None

    def after(self, query: Query) -> Context:
        """Return the context once `query` is told."""
        return replace(self, nfev=self.nfev + len(query))

    def projected(self, x: Array, margin: float) -> Array:
        """Return the point of the allowed set next to x, `margin` inside it."""
        return x if self.project is None else self.project(x, margin)


@dataclass(frozen=True)
class Method(ABC):
    """Base of all methods.

    Class attributes
    ----------------
    name : what it is called in messages and in `minimize(method=...)`
    needs_replay : it evaluates the same ξ at two iterates
    needs_gradient : it asks for gradients
    deterministic_only : it needs exact values, without ξ
    sees_values : it asks for values, so that the best iterate can be told
    output : the rule by which it chooses its answer, unless the user chooses another; "choice" lets the loop
        compare the method's `candidates` on common fresh samples
    choices : how many candidates there are then
    """

    name: ClassVar[str]
    needs_replay: ClassVar[bool] = False
    needs_gradient: ClassVar[bool] = False
    deterministic_only: ClassVar[bool] = False
    sees_values: ClassVar[bool] = True
    output: ClassVar[str] = "last"
    choices: ClassVar[int] = 1

    @property
    def uses_horizon(self) -> bool:
        """Whether the steps depend on where the run will end."""
        return False

    @abstractmethod
    def init(self, x: Array, context: Context) -> MethodState:
        """Return the state at the start point."""

    @abstractmethod
    def ask(self, state: Any, context: Context, limit: int | None) -> Query | None:
        """Return the next query, of at most `limit` evaluations; None when that is too little to go on with."""

    @abstractmethod
    def tell(self, state: Any, context: Context, query: Query, values: Array) -> None:
        """Take the answer of a query (not finite: failed) and move the state on."""

    def refusal(self, oracle: Oracle) -> str | None:
        """Return why this method cannot work with an oracle, in one sentence; None when it can."""
        kind = type(oracle).__name__
        if self.needs_replay and not oracle.replayable:
            return (
                f"{self.name} evaluates the same ξ at two iterates, which an {kind} oracle cannot replay; "
                "use gfm, or Seeded if your simulator takes a seed."
            )
        if self.needs_gradient and not oracle.differentiable:
            return f"{self.name} needs gradients, but this {kind} oracle was given no grad=."
        if self.deterministic_only and (oracle.stochastic or not oracle.replayable):
            return f"{self.name} needs exact values of f, but a {kind} oracle gives noisy ones."
        return None

    def caution(self, oracle: Oracle) -> str | None:
        """Return what a user should know before this method runs on an oracle; None when there is nothing."""
        return None

    def complaints(self, state: Any) -> dict[str, str]:
        """Return what the run has shown to be wrong so far: short key -> sentence."""
        return {}

    def gauge(self, state: Any) -> tuple[float, float]:
        """Return δ and the mean of ‖g(x; w, ξ)‖² so far, by which rounding errors are judged; zeros without either."""
        return 0.0, 0.0

    def report(self, state: Any) -> list[str]:
        """Return sentences that say what the method chose on the user's behalf."""
        return []

    def finished(self, state: Any) -> str | None:
        """Return in one sentence that the run has reached what the settings ask for; None while it has not."""
        return None

    def certificate(self, state: Any) -> Any:
        """Return the `Certificate` with which the run has finished; None when the method makes none."""
        return None

    def standing(self, state: Any) -> Array:
        """Return the iterate that the run would answer with if it ended now and the output rule is "last"."""
        x: Array = state.x
        return x

    def candidates(self, state: Any) -> dict[str, Array]:
        """Return the points among which a method with output "choice" lets the loop choose: name -> point."""
        return {"last iterate": state.x}

    def margin(self) -> float:
        """Return how far queries lie from the iterate (δ)."""
        return 0.0

    def offer(self, state: Any, left: Array) -> Array | None:
        """Return the point that the iteration just told offers as an answer; None when it offers none.

        By default the iterate that was left. The output rules choose among the points offered.
        """
        return left

    def random_stop(self, rng: np.random.Generator, max_iter: int) -> int | None:
        """Draw after how many of `max_iter` iterations `state.x` is the answer of the random output rule.

        None: that cannot be said beforehand, so the answer is drawn among the points offered as the run goes on.
        """
        return int(rng.random() * max_iter)

    def start(
        self,
        x0: npt.ArrayLike,
        *,
        rng: int | np.random.Generator | None = None,
        sample: Sampler | None = None,
        projection: Any = None,
        max_evals: int | None = None,
        max_iter: int | None = None,
    ) -> Run:
        """Start a run that the caller drives by `ask` and `tell`.

        Parameters
        ----------
        x0 : array_like, shape (d,)
            Start point.
        rng : int or Generator, optional
            Seed or generator.
        sample : callable, optional
            `sample(rng, k)` draws k ξ; an oracle's own is `oracle.sample`. None: `query.samples` is None.
        projection : callable, optional
            Keeps iterates in a set, as in `minimize`.
        max_evals, max_iter : int, optional
            Where the run will end, for step rules that decay towards it. The caller does the stopping.

        Returns
        -------
        Run

        Examples
        --------
        >>> import numpy as np, goldstein as gs
        >>> run = gs.GFM(delta=0.01, step_size=0.01, batch_size=4).start(np.ones(2), rng=0)
        >>> for _ in range(100):
        ...     query = run.ask()
        ...     run.tell(query, np.abs(query.points).sum(axis=1))
        >>> run.nit, run.nfev
        (100, 800)
        """
        x = arguments.point("x0", x0)
        context = Context(
            arguments.generator(rng),
            sample,
            as_projection(None, projection, x.size),
            arguments.optional_count("max_evals", max_evals),
            arguments.optional_count("max_iter", max_iter),
            sample is not None,
        )
        return Run(self, x, context)


class Run:
    """One run of a method, driven from outside: `ask`, evaluate, `tell`.

    Attributes
    ----------
    x : ndarray, shape (d,)
        The current iterate.
    nit, nfev : int
        Iterations done and values told.
    """

    def __init__(self, method: Method, x0: Array, context: Context, state: MethodState | None = None) -> None:
        self.method = method
        self.context = context
        self.state = method.init(context.projected(x0, method.margin()), context) if state is None else state
        self._pending: Query | None = None

    @property
    def x(self) -> Array:
        """The current iterate."""
        return self.state.x

    @property
    def nit(self) -> int:
        """Iterations done."""
        return self.state.nit

    @property
    def nfev(self) -> int:
        """Values told so far."""
        return self.context.nfev

    def ask(self, limit: int | None = None) -> Query | None:
        """Return what to evaluate next, `query.points` (k, d) with `query.samples` (k,) or None.

        `limit` caps the number of evaluations; None is returned when the method cannot go on within it.
        """
        self._pending = self.method.ask(self.state, self.context, limit)
        return self._pending

    def tell(self, query: Query, values: npt.ArrayLike) -> None:
        """Give the values of the query that was asked last, shape (k,); NaN marks a failed evaluation."""
        if query is not self._pending:
            raise ValueError("tell takes the query that ask returned last, once.")
        answer = np.asarray(values, float)
        shape = (len(query),) if query.order == 0 else query.points.shape
        if answer.shape != shape:
            raise ValueError(f"This query is answered by an array of shape {shape}, got {answer.shape}.")
        self._pending = None
        self.method.tell(self.state, self.context, query, answer)
        self.context.nfev += len(query)
