"""The interface of a method: settings that never change, a state that does, and what a step says.

A method never evaluates. `ask` says where to evaluate next and changes nothing but the random generator, so that a run
stopped in the middle of an evaluation can be asked again; `tell` takes the values, moves the state on and returns a
`Step`: all that anyone may want to know of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from goldstein import arguments, retired
from goldstein.facts import Facts
from goldstein.oracle import Answer, Array, Oracle, Query, Sampler, Samples, Tally, indices
from goldstein.oracle.coordinates import Bounds
from goldstein.output import Average
from goldstein.projection import Box, Projection, as_projection
from goldstein.state import State
from goldstein.stationarity.certificate import Certificate


@retired.fields(
    offer="iterate",
    norm="grad_norm",
    size="step_size",
    noise="delta and mean_sq_norm",
    directions="n_estimates",
    notices="warnings",
    remarks="notes",
    underway="partial",
)
@dataclass
class Step(State):
    """What `tell` returns: all that anyone may want to know of the step.

    Attributes
    ----------
    x : ndarray, shape (d,)
        Where the run stands: its answer by the output rule "last".
    completed : int
        Iterations completed: 1; 0 for a part of one (a probe, a trial of a line search); many in machine code.
    iterate : ndarray, shape (d,), or None
        The iterate completed, mostly the one that was left, if any; the other output rules choose among the iterates.
    value, grad_norm, step_size : float
        Mean of the values of the last batch, norm of the last direction of descent, and the last step size.
    delta, mean_sq_norm, n_estimates : float
        δ, the mean of ‖g(x; w, ξ)‖² so far and the number of estimates in it, by which rounding errors are judged.
    done : Certificate, str or None
        The run has reached what the settings ask for: the proof, or a sentence.
    warnings, notes : mapping or None
        Short key -> sentence: what is wrong, of which the user is warned once; and what the method chose or found, the
        last of each key for the message, each "choice" for the history.
    candidates : mapping or None
        For the output rule "choice": name -> point, the start last, as "start point".
    partial : bool
        This was a part of an iteration; criteria look when the iteration is over.
    noisy : str
        How noise showed in a function that was taken to have none; the run then treats it as not replayable.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> run = gs.GFM(delta=0.1, step_size=0.01).start(np.ones(2), rng=0)
    >>> query = run.ask()
    >>> step = run.tell(query, np.abs(query.points).sum(axis=1))
    >>> step.completed, step.iterate, step.step_size
    (1, array([1., 1.]), 0.01)
    """

    x: Array
    completed: int = 1
    iterate: Array | None = None
    value: float = np.nan
    grad_norm: float = np.nan
    step_size: float = np.nan
    delta: float = 0.0
    mean_sq_norm: float = 0.0
    n_estimates: float = 0.0
    done: Certificate | str | None = None
    warnings: Mapping[str, str] | None = None
    notes: Mapping[str, str] | None = None
    candidates: Mapping[str, Array] | None = None
    partial: bool = False
    noisy: str = ""


@retired.fields(norm="grad_norm", size="step_size", step="make_step")
@dataclass
class MethodState(State):
    """What every method's state holds.

    Attributes
    ----------
    x, nit
        The current iterate, and the iterations done.
    value, grad_norm, step_size : float
        As in `Step`; what failed leaves them as they were.
    """

    x: Array
    nit: int = 0
    value: float = np.nan
    grad_norm: float = np.nan
    step_size: float = np.nan

    def make_step(self, iterate: Array | None = None, completed: int = 1, **fields: Any) -> Step:
        """Return the step just taken; `fields` are further fields of `Step`."""
        return Step(self.x, completed, iterate, self.value, self.grad_norm, self.step_size, **fields)


@retired.fields(
    reach="query_radius",
    narrow="respects_bounds",
    favourite="tie_break",
    judging="selection_share",
    refusal="unsupported",
)
@dataclass(frozen=True)
class Needs:
    """What a method needs of an oracle and of a run.

    Attributes
    ----------
    replay : str
        Why the same ξ must be evaluated at several points, as the end of "This method …"; "" when it need not be.
    pairs : float
        δ, if an estimate compares two values that should carry the same ξ but need not; 0: nothing to be said.
    gradients, values, exact, horizon : bool
        It asks for gradients; for values, by which the best iterate is known; only for f itself, without noise; and its
        steps depend on where the run will end.
    query_radius, respects_bounds : float, bool
        How far queries lie from the iterate (δ); and whether they keep to a box however narrow all the same.
    output, candidates : str, int
        The rule by which the answer is chosen unless the user chooses another: "last", "random", "average", or
        "choice" among so many candidates of the last step, on common fresh samples.
    tie_break, selection_share : str, float
        The answer in doubt: "start" unless another is lower by two standard errors, or "first" unless one is lower by
        one; and the share of the budget for this choice, 0: half a percent for each candidate.
    random_stop : callable or None
        `random_stop(rng, max_iter)` draws after how many iterations the place where the run stands is the answer of
        the rule "random". None: that cannot be said beforehand.
    sifting : bool
        With gradients="sift" among its settings it would do without those of the oracle.

    Examples
    --------
    >>> import goldstein as gs
    >>> needs = gs.GFMPlus(delta=0.1, step_size=0.01, epoch_length=5, batch_size=2).needs
    >>> needs.query_radius, needs.output, needs.unsupported("gfm+", gs.Deterministic(sum))
    (0.1, 'last', None)
    """

    replay: str = ""
    pairs: float = 0.0
    gradients: bool = False
    values: bool = True
    exact: bool = False
    horizon: bool = False
    query_radius: float = 0.0
    respects_bounds: bool = False
    output: str = "last"
    candidates: int = 1
    tie_break: str = "start"
    selection_share: float = 0.0
    random_stop: Callable[[np.random.Generator, int], int] | None = None
    sifting: bool = False

    def unsupported(self, name: str, oracle: Oracle) -> str | None:
        """Return why a method with these needs cannot work with an oracle, in one sentence; None when it can."""
        kind = type(oracle).__name__
        a = "an" if kind[:1] in "AEIOU" else "a"
        if self.replay and not oracle.replayable:
            return (
                f"{name} {self.replay}, which {a} {kind} oracle cannot replay; use gfm, or Seeded if your simulator "
                "takes a seed."
            )
        if self.gradients and not oracle.differentiable:
            without = self.sifting and oracle.replayable and not (self.exact and oracle.noisy)
            way_out = '; gradients="sift" in options finds them from values' if without else ""
            return f"{name} needs gradients, but this {kind} oracle was given no grad={way_out}."
        if self.exact and oracle.noisy:
            return f"{name} needs exact values of f, but {a} {kind} oracle gives noisy ones."
        return None

    def warning(self, oracle: Oracle) -> str | None:
        """Return what a user should know before a method with these needs runs on an oracle; None when nothing."""
        if not self.pairs or oracle.replayable:
            return None
        return (
            "The two values of an estimate carry different noise, whose variance enters divided by δ²: "
            f"choose δ (here {self.pairs:.3g}) large enough, or use Seeded if your simulator takes a seed."
        )


def any_iterate(rng: np.random.Generator, max_iter: int) -> int:
    """Draw one of x_0, …, x_{T−1}: after how many of T iterations it is where the run stands."""
    return int(rng.random() * max_iter)


@retired.fields(earlier="facts.counted", noisy="facts=Facts(noisy=...)")
@dataclass
class Context:
    """What a method may use besides its settings and its state.

    Attributes
    ----------
    rng, project : Generator, Projection or None
        The run's own random numbers, and the allowed set.
    sample : callable or None
        `sample(rng, k)` draws k ξ; None when there is no ξ to choose.
    max_evals, max_iter, nfev : int or None
        Where the run will end, and the evaluations of this stage that were told before the query at hand.
    n : int or None
        Number of components of a finite sum, whose indices are the ξ.
    facts : Facts
        What the values of the whole run have shown, those that are being told included.
    """

    rng: np.random.Generator
    sample: Sampler | None = None
    project: Projection | None = None
    max_evals: int | None = None
    max_iter: int | None = None
    nfev: int = 0
    n: int | None = None
    facts: Facts = field(default_factory=Facts)

    @property
    def noisy(self) -> bool:
        """Whether an answer may differ from f itself."""
        return self.facts.noisy

    def progress(self, nit: int) -> float | None:
        """Return the share of the run that is over, by whichever limit is nearer; None without limits."""
        limits = ((self.nfev, self.max_evals), (nit, self.max_iter))
        shares = [done / max(limit, 1) for done, limit in limits if limit is not None]
        return min(max(shares), 1.0) if shares else None

    def after(self, query: Query) -> Context:
        """Return the context once `query` is told."""
        return replace(self, nfev=self.nfev + len(query))

    def planned_evals(self, per_iteration: int) -> int | None:
        """Return how many evaluations the run may make, if an iteration takes so many; None without limits."""
        limits = [] if self.max_evals is None else [self.max_evals]
        if self.max_iter is not None:
            limits.append(per_iteration * self.max_iter)
        return min(limits, default=None)

    def draw(self, k: int) -> Samples | None:
        """Draw k ξ; None when there is no ξ to choose."""
        return None if self.sample is None else self.sample(self.rng, k)

    def projected(self, x: Array, margin: float) -> Array:
        """Return the point of the allowed set next to x, `margin` inside it."""
        return x if self.project is None else self.project(x, margin)

    def all_projected(self, points: Array) -> Array:
        """Return the points, each moved into the allowed set."""
        return points if self.project is None else np.stack([self.project(point) for point in points])

    def bounds(self, d: int) -> Bounds | None:
        """Return the bounds of a box, one for each coordinate; None without a box."""
        return self.project.bounds(d) if isinstance(self.project, Box) else None


def repeated(samples: Samples | None, times: int) -> Samples | None:
    """Return the ξ so many times, one after the other."""
    return None if samples is None else np.concatenate([samples] * times)


def within(query: Query, limit: int | None) -> Query | None:
    """Return the query, or None when it is larger than the limit."""
    return query if limit is None or len(query) <= limit else None


def check_rho(settings: Any) -> None:
    """Refuse a ρ that is not between 0 and δ."""
    delta: float = settings.delta
    if settings.rho is not None:
        expected = f"a number between 0 and delta = {delta:g}"
        arguments.check(settings, arguments.number, "rho", expected=expected, fits=lambda v: 0 < v < delta)


START = "start point"  # the name of x0 among candidates
TARGET = 0.1  # ε of settings chosen by scale, in lengths of the gradients around x0
TRAVEL = 5  # radii that a run with settings chosen by scale must be able to travel


@dataclass
class Scale(State):
    """What settings follow from, as measured around x0.

    Attributes
    ----------
    radius, floor : float
        The length scale R, and the least sensible δ.
    evals : int
        Evaluations that remain.
    gradient, estimate : float
        Root mean square of ‖∇F(x; ξ)‖, and of a two-point estimate of it, √d larger.
    """

    radius: float
    floor: float
    evals: int
    gradient: float = 1.0
    estimate: float = 1.0


class Unsupported(Exception):
    """There is no machine code for a method, an oracle or a run; its text says why, in one sentence."""


@dataclass
class Chunk:
    """What is asked of a kernel: at most so many iterations, within `limit` evaluations."""

    iterations: int
    limit: int | None
    mean: Average | None  # takes the iterates, if it is there
    stop: Callable[[], bool]  # tells that the user wants to stop: then as few iterations as possible


@dataclass
class ChunkResult:
    """What whole iterations in machine code hand over: their last step, with all completed, and the tally of values."""

    step: Step
    tally: Tally


class Kernel(ABC):
    """Whole iterations of a method in machine code; `outputs` are the output rules that it can serve."""

    outputs: tuple[str, ...] = ("last", "average", "random")

    @abstractmethod
    def plan(self, state: Any, context: Context, limit: int | None, until: float, most: int | None) -> int:
        """Return how many iterations to do next: until `until` evaluations are made, within `limit` and `most`.

        0: not even one fits, or the method is at a place that has no machine code.
        """

    def offers(self, state: Any) -> bool:
        """Whether the iterations to come offer their iterates as answers."""
        return True

    @abstractmethod
    def run(self, state: Any, context: Context, chunk: Chunk) -> ChunkResult:
        """Do the iterations, fewer if one of them fails altogether."""


@dataclass(frozen=True)
class Method(ABC):
    """Base of all methods; `goldstein.testing.check_method` tells whether one keeps the promises."""

    name: ClassVar[str] = ""

    @property
    def needs(self) -> Needs:
        """What the method needs of an oracle and of a run."""
        return Needs(random_stop=any_iterate)

    @abstractmethod
    def init(self, x: Array, context: Context) -> MethodState:
        """Return the state at the start point."""

    @abstractmethod
    def ask(self, state: Any, context: Context, limit: int | None) -> Query | None:
        """Return the next query, of at most `limit` evaluations; None when that is too little to go on with."""

    @abstractmethod
    def tell(self, state: Any, context: Context, query: Query, values: Array) -> Step:
        """Take the answer of a query (not finite: failed), move the state on and return what the step says."""

    @classmethod
    def from_scale(cls, scale: Scale, options: Mapping[str, Any]) -> Method:
        """Return the method with the settings in `options`, the others chosen by the measured scale of the function."""
        missing = [name for name in cls._required() if name not in options]
        raise ValueError(f"{cls.name} does not choose settings by itself: give {', '.join(missing)} in options.")

    @classmethod
    def _options(cls) -> list[str]:
        """Return the settings that may be given as options."""
        return [f.name for f in fields(cls) if f.init]

    @classmethod
    def _complete(cls, options: Mapping[str, Any]) -> bool:
        """Whether these settings are all that the constructor needs."""
        return all(name in options for name in cls._required())

    @classmethod
    def _required(cls) -> list[str]:
        return [f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING]

    def kernel(self, oracle: Oracle) -> Kernel:
        """Return whole iterations in machine code; raise `Unsupported` where there are none."""
        raise Unsupported(f"{self.name} has no compiled loop.")

    def start(
        self,
        x0: npt.ArrayLike,
        *,
        rng: int | np.random.Generator | None = None,
        sample: Sampler | None = None,
        projection: Any = None,
        max_evals: int | None = None,
        max_iter: int | None = None,
        n: int | None = None,
    ) -> Run:
        """Start a run that the caller drives by `ask` and `tell`.

        Parameters
        ----------
        x0, rng, projection
            As in `minimize`.
        sample : callable, optional
            `sample(rng, k)` draws k ξ; an oracle's own is `oracle.sample`. None: `query.samples` is None.
        max_evals, max_iter : int, optional
            Where the run will end, for step rules that decay towards it. The caller does the stopping.
        n : int, optional
            Number of components of a finite sum, whose indices 0..n-1 are the ξ; `sample` is then not needed.

        Returns
        -------
        Run

        Examples
        --------
        >>> import numpy as np, goldstein as gs
        >>> run = gs.GFM(delta=0.01, step_size=0.01, batch_size=4).start(np.ones(2), rng=0)
        >>> for _ in range(100):
        ...     query = run.ask()
        ...     step = run.tell(query, np.abs(query.points).sum(axis=1))
        >>> run.nit, run.nfev, step.completed
        (100, 800, 1)
        """
        x = arguments.point("x0", x0)
        allowed = as_projection(None, projection, x.size)
        components = arguments.optional_count("n", n)
        draw = arguments.optional_callable("sample", sample)
        if draw is None and components is not None:
            draw = indices(components)
        context = Context(
            arguments.generator(rng),
            draw,
            allowed,
            arguments.optional_count("max_evals", max_evals),
            arguments.optional_count("max_iter", max_iter),
            n=components,
            facts=Facts(noisy=draw is not None),
        )
        return Run(self, x, context)


class Run:
    """One run of a method, driven from outside: `ask`, evaluate, `tell`; `nit` is the number of iterations done."""

    def __init__(self, method: Method, x0: Array, context: Context) -> None:
        self.method = method
        self.context = context
        self.state = method.init(context.projected(x0, method.needs.query_radius), context)
        self.nit = 0
        self._asked: Query | None = None
        self._pending: Query | None = None

    @property
    def x(self) -> Array:
        """The current iterate."""
        return self.state.x

    @property
    def nfev(self) -> int:
        """Values told so far."""
        return self.context.nfev

    def ask(self, limit: int | None = None) -> Query | None:
        """Return what to evaluate next, `query.points` (k, d) with `query.samples` (k,) or None.

        `limit` caps the number of evaluations; None is returned when the method cannot go on within it. The arrays are
        the caller's own.
        """
        self._asked = self.method.ask(self.state, self.context, limit)
        self._pending = None if self._asked is None else self._asked.handed_out()
        return self._pending

    def tell(self, query: Query, values: npt.ArrayLike) -> Step:
        """Give the values of the query that was asked last, shape (k,); NaN marks a failed evaluation."""
        asked = self._asked
        if asked is None or query is not self._pending:
            raise ValueError("tell takes the query that ask returned last, once.")
        answer = arguments.reals("values", values, "numbers, NaN where an evaluation failed")
        if answer.shape != asked.shape:
            raise ValueError(f"This query is answered by an array of shape {asked.shape}, got {answer.shape}.")
        self._asked = None
        self._pending = None
        self.context.facts.update(asked, Answer(answer))
        step = self.method.tell(self.state, self.context, asked, answer)
        self.context.nfev += len(asked)
        self.nit += step.completed
        iterate = None if step.iterate is None else step.iterate.copy()
        return replace(step, x=step.x.copy(), iterate=iterate)  # the caller's own


if not TYPE_CHECKING:
    __getattr__ = retired.names(__name__)
