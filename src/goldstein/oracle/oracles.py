"""Oracles: what can be asked about f(x) = E[F(x; ξ)].

An oracle wraps the user's function and states what it can do: replay the same ξ at two points (`replayable`), give
gradients (`differentiable`), be summed exactly (`n`). It keeps nothing of a run.

The function may write into its argument, keep it, or return its own buffer. So it gets points of its own, and what it
answers is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from goldstein import arguments
from goldstein.oracle.query import Answer, Query, Sampler, Samples
from goldstein.oracle.stats import DOUBLE, Array

FAILED = np.nan
Function = Callable[..., Any]
Catch = tuple[type[BaseException], ...]


@dataclass
class StartedCounter:
    """How many rows of a query were started."""

    started: int = 0
    partial: Answer | None = None  # to the rows before the one that an exception broke off


class Oracle:
    """Base of the oracles; use one of its subclasses.

    Attributes
    ----------
    replayable : bool
        The same ξ can be evaluated at two points.
    stochastic : bool
        F depends on a ξ.
    n : int or None
        Number of components, for a finite sum.
    """

    replayable = True
    stochastic = True
    n: int | None = None
    called: ClassVar[tuple[str, ...]] = ()  # what the function is called with, before `args`; (): unknown
    advice: ClassVar[str] = "what else it needs goes into args="

    def __init__(
        self, fun: Function, args: Sequence[Any] = (), vectorized: bool = False, grad: Function | None = None
    ) -> None:
        if not callable(fun):
            raise TypeError(f"{type(self).__name__} needs a callable, got {type(fun).__name__}.")
        if not isinstance(args, tuple | list):
            args = (args,)
        self.fun = fun
        self.args = tuple(args)
        self.vectorized = bool(vectorized)
        self.grad = arguments.optional_callable("grad", grad)
        for one, name in ((fun, "F"), (self.grad, "grad")):
            self._check_call(one, name)

    def _check_call(self, fun: Callable[..., Any] | None, name: str) -> None:
        """Say in one sentence that a function cannot be called as this oracle will."""
        if fun is None or not self.called or arguments.takes(fun, len(self.called) + len(self.args)):
            return
        parameters = ", ".join(self.called + ("*args",) * bool(self.args))
        raise TypeError(
            f"{type(self).__name__} calls {name}({parameters}), which {arguments.signature(fun)} cannot be; "
            f"{self.advice}."
        )

    @property
    def differentiable(self) -> bool:
        """Whether gradients can be asked for."""
        return self.grad is not None

    @property
    def noisy(self) -> bool:
        """Whether an answer may differ from f itself."""
        return self.stochastic or not self.replayable

    @property
    def sample(self) -> Sampler | None:
        """Draw k samples: `sample(rng, k)`; None when there is no ξ to choose."""
        return None

    def evaluate(self, query: Query, catch: Catch = (), counter: StartedCounter | None = None) -> Answer:
        """Answer a query; an exception listed in `catch` gives NaN in its rows.

        Any other exception propagates, with the point as `.point`; `counter` then tells how many rows were started.
        """
        fun = self.fun if query.order == 0 else self.grad
        if fun is None:
            raise TypeError(f"This {type(self).__name__} has no grad=, but gradients were asked for.")
        query = query.handed_out()
        counter = StartedCounter() if counter is None else counter
        if self.vectorized:
            return self._evaluate_at_once(fun, query, catch, counter)
        return self._evaluate_rows(fun, query, catch, counter)

    def _evaluate_at_once(self, fun: Function, query: Query, catch: Catch, counter: StartedCounter) -> Answer:
        samples = () if query.samples is None else (query.samples,)
        first = query.points[0].copy()
        counter.started += len(query)
        try:
            answer = fun(query.points, *samples, *self.args)
            return Answer(_checked(answer, query.shape), _roundoff(answer))
        except catch as error:
            return Answer(np.full(query.shape, FAILED), reason=_in_words(error))
        except BaseException as error:
            _mark(error, first)
            raise

    def _evaluate_rows(self, fun: Function, query: Query, catch: Catch, counter: StartedCounter) -> Answer:
        out = np.empty(query.shape)
        roundoff = DOUBLE
        reason = ""
        for row, (x, *xi) in enumerate(_rows(query)):
            counter.started += 1
            try:
                value = fun(x, *xi, *self.args)
                if isinstance(value, float) and query.order == 0:
                    out[row] = value
                    continue
                out[row] = _single(value, query.shape[1:])
                roundoff = max(roundoff, _roundoff(value))
            except catch as error:
                out[row] = FAILED
                reason = reason or _in_words(error)
            except BaseException as error:
                _mark(error, x)
                counter.partial = Answer(out[:row], roundoff, reason=reason)
                raise
        return Answer(out, roundoff, reason=reason)


def indices(n: int) -> Sampler:
    """Return what draws indices of n components, independent of each other."""
    return lambda rng, k: rng.integers(0, n, size=k)


class Deterministic(Oracle):
    """A function without noise: `fun(x, *args) -> float`.

    Parameters
    ----------
    fun : callable
        `fun(x, *args) -> float`; vectorised: `fun(X, *args) -> (k,)` with X of shape (k, d).
    args : tuple, optional
        Extra arguments of `fun` (and of `grad`).
    vectorized : bool, optional
        `fun` takes a whole batch of points in one call.
    grad : callable, optional
        Same arguments as `fun`; returns the gradient, (d,) or vectorised (k, d).

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Deterministic(lambda X: np.abs(X).sum(axis=1), vectorized=True)
    >>> res = gs.minimize(oracle, np.ones(3), max_evals=3000, rng=0)
    >>> bool(res.fun < 0.05)
    True
    """

    stochastic = False
    called = ("x",)
    advice = "use gs.Seeded if a seed comes after x, gs.FiniteSum if an index does, and args= for anything else"


class FiniteSum(Oracle):
    """A mean of n components, f(x) = (1/n) Σ F(x, i).

    Parameters
    ----------
    fun : callable
        `fun(x, i, *args) -> float` with i in 0..n-1; vectorised: `fun(X, i, *args) -> (k,)`
        with X of shape (k, d) and i of shape (k,). A numba-jitted scalar form runs compiled.
    n : int
        Number of components.
    args, vectorized, grad
        As in `Deterministic`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> rows = np.random.default_rng(0).normal(size=(100, 3))
    >>> def F(X, i):
    ...     return np.abs((rows[i] * X).sum(axis=1) - rows[i].sum(axis=1))
    >>> res = gs.minimize(gs.FiniteSum(F, 100, vectorized=True), np.zeros(3), max_evals=20_000, rng=0)
    >>> bool(np.allclose(res.x, 1, atol=0.05))
    True
    """

    called = ("x", "i")

    def __init__(
        self, fun: Function, n: int, args: Sequence[Any] = (), vectorized: bool = False, grad: Function | None = None
    ) -> None:
        super().__init__(fun, args, vectorized, grad)
        self.n = arguments.count("n", n)

    @property
    def sample(self) -> Sampler:
        assert self.n is not None
        return indices(self.n)


class Expectation(Oracle):
    """An expectation over draws, f(x) = E F(x, ξ), ξ from `sample`.

    Parameters
    ----------
    fun : callable
        `fun(x, xi, *args) -> float`; vectorised: `fun(X, xi, *args) -> (k,)`.
    sample : callable
        `sample(rng, k)` returns k independent draws, an array whose first axis has length k.
    args, vectorized, grad
        As in `Deterministic`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> oracle = gs.Expectation(lambda x, xi: abs(x - xi).sum(), lambda rng, k: rng.normal(1, 0.1, size=(k, 2)))
    >>> res = gs.minimize(oracle, np.zeros(2), max_evals=5000, rng=0)
    >>> bool(np.allclose(res.x, 1, atol=0.1))
    True
    """

    called = ("x", "xi")

    def __init__(
        self,
        fun: Function,
        sample: Sampler,
        args: Sequence[Any] = (),
        vectorized: bool = False,
        grad: Function | None = None,
    ) -> None:
        super().__init__(fun, args, vectorized, grad)
        if not callable(sample):
            raise TypeError(f"sample must be a callable sample(rng, k), got {type(sample).__name__}.")
        if not arguments.takes(sample, 2):
            raise TypeError(
                f"sample is called as sample(rng, k), to draw k times from rng; {arguments.signature(sample)} does not "
                "take two arguments."
            )
        self._sample = sample

    @property
    def sample(self) -> Sampler:
        def draw(rng: np.random.Generator, k: int) -> Samples:
            xi = np.array(self._sample(rng, k))  # a copy: it may be a buffer that is used again
            if xi.ndim == 0 or len(xi) != k:
                raise ValueError(f"sample(rng, {k}) must return {k} draws along its first axis, got shape {xi.shape}.")
            return xi

        return draw


class Seeded(Oracle):
    """A simulator that replays its noise from a seed: `fun(x, seed, *args) -> float`.

    Seeds are whole numbers in 0..2³²-1, so that any random generator takes them.

    Parameters
    ----------
    fun : callable
        `fun(x, seed, *args) -> float`; vectorised: `fun(X, seeds, *args) -> (k,)`.
        The same seed must give the same noise.
    args, vectorized
        As in `Deterministic`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> def simulate(x, seed):
    ...     return abs(x - np.random.default_rng(seed).normal(1, 0.1, size=x.size)).sum()
    >>> res = gs.minimize(gs.Seeded(simulate), np.zeros(2), max_evals=5000, rng=0)
    >>> bool(np.allclose(res.x, 1, atol=0.1))
    True
    """

    called = ("x", "seed")

    def __init__(self, fun: Callable[..., Any], args: Sequence[Any] = (), vectorized: bool = False) -> None:
        super().__init__(fun, args, vectorized)

    @property
    def sample(self) -> Sampler:
        return lambda rng, k: rng.integers(0, 2**32, size=k)


class Unreplayable(Oracle):
    """A noisy function that draws fresh noise at every call: `fun(x, *args) -> float`.

    The two values of a two-point estimate then carry different noise, whose variance enters the
    estimate divided by δ²: a larger δ is needed, and methods that compare the same ξ at two points
    (GFM+) refuse. If the simulator takes a seed, use `Seeded`.

    Parameters
    ----------
    fun, args, vectorized
        As in `Deterministic`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> noise = np.random.default_rng(0)
    >>> oracle = gs.Unreplayable(lambda x: abs(x - 1).sum() + 0.01 * noise.normal())
    >>> res = gs.minimize(oracle, np.zeros(2), max_evals=5000, rng=0)
    >>> bool(np.allclose(res.x, 1, atol=0.1))
    True
    """

    replayable = False
    called = ("x",)

    def __init__(self, fun: Callable[..., Any], args: Sequence[Any] = (), vectorized: bool = False) -> None:
        super().__init__(fun, args, vectorized)


def _roundoff(answer: Any) -> float:
    """Return the unit rounding error of the type in which a function answered."""
    kind = getattr(answer, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind == "f":
        return float(np.finfo(kind).eps) / 2
    return DOUBLE


def _in_words(error: BaseException) -> str:
    return arguments.printable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _mark(error: BaseException, point: Array) -> None:
    with suppress(AttributeError, TypeError):  # some exceptions take no attributes
        error.point = point  # type: ignore[attr-defined]


def _rows(query: Query) -> Iterable[tuple[Any, ...]]:
    """Each point, with its ξ if there is one; whole numbers as Python's own."""
    if query.samples is None:
        return zip(query.points)
    whole = query.samples.ndim == 1 and query.samples.dtype.kind in "iu"
    return zip(query.points, query.samples.tolist() if whole else query.samples, strict=True)


def _checked(values: Any, shape: tuple[int, ...]) -> Array:
    """Return a copy of what a vectorised function returned, as float64, or say what was wrong."""
    out = _unmasked(values)
    if out.shape != shape:
        raise ValueError(
            f"The vectorised function returned shape {out.shape} where {shape} was expected: "
            "one answer for each row of X."
        )
    if not np.can_cast(out.dtype, np.float64, casting="same_kind"):
        raise TypeError(f"The function returned {out.dtype} values; real numbers are needed.")
    return np.array(out, dtype=np.float64)


def _single(value: Any, shape: tuple[int, ...]) -> Any:
    """Return one answer of a function of one point; a one-element array counts as a number."""
    expected = "one real number" if shape == () else f"a gradient of shape {shape}"
    if isinstance(value, tuple):
        raise ValueError(f"The function returned a tuple of {len(value)} where {expected} was expected.")
    out = _unmasked(value)
    if np.can_cast(out.dtype, np.float64, casting="same_kind"):
        if out.shape == shape:
            return out
        if shape == () and out.size == 1:
            return out.item()
    raise ValueError(f"The function returned {value!r:.80} where {expected} was expected.")


def _unmasked(value: Any) -> Any:
    """Return an answer as an array; what is masked in it is a failed value."""
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "iuf":
        return np.ma.filled(value.astype(np.float64), FAILED)
    return np.asarray(value)
