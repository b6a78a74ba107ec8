"""The end of a run: which candidate is the answer, what f is there, and how stationary it is.

All of it is evaluated on fresh ξ, with evaluations that were reserved when the run began; they are diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from goldstein.criterion import Check
from goldstein.oracle import Array, Oracle, Query, Seeded
from goldstein.oracle.coordinates import Coordinates
from goldstein.run.result import mean_and_error
from goldstein.stationarity.certificate import Certificate, Search

SHARE = 200  # one part in so many of the budget estimates f at a candidate,
WHOLE = 100  # and one in so many if that makes it the whole of a finite sum
MOST = 10_000  # and this many values at most, unless more make it exact
SECOND_TRIES = 4  # a deterministic f that fails at the answer is asked again, so often at most
CERTIFYING_SHARE = 5  # one part in so many of the budget tells how stationary the answer is, if that is asked for
LEAST_REPORT = 4  # values that estimate f at an answer that others have chosen
FEW = 10  # values whose own spread is too uncertain for an error bar: that at the other candidates counts too
ENOUGH = 5  # values at each candidate, of which one can be spared
SAME = 1e-6  # relative difference of two values under one seed that may be rounding, in single precision too
TAIL = 0.05  # noise that cannot be replayed is cut at these quantiles when candidates are compared
ROWS_AT_ONCE = 2**22  # numbers in one query, so that an exact finite sum does not fill the memory

Remaining: TypeAlias = Callable[[], int | None]


@dataclass
class Final:
    """What the final estimate has found."""

    name: str
    x: Array
    fun: float
    stderr: float
    samples: int
    certificate: Certificate | None
    replayed: bool = True


@dataclass
class FinalEstimate:
    """How the answer is chosen and f estimated there; `reserve` is what that may cost."""

    oracle: Oracle
    max_evals: int | None
    stationarity: tuple[float, float] | None = None  # (δ, ε): whether to say how stationary the answer is
    candidates: int = 1  # and the next two are as in `Needs`
    tie_break: str = "start"
    selection_share: float = 0.0
    free: npt.NDArray[np.intp] | None = None  # the variables that bounds do not fix; None: all

    @property
    def certifying(self) -> int:
        """Evaluations reserved to tell how stationary the answer is."""
        if self.stationarity is None:
            return 0
        return MOST if self.max_evals is None else min(MOST, self.max_evals // CERTIFYING_SHARE)

    @property
    def reserve(self) -> int:
        """Evaluations that a run must leave; without a budget there is nothing to leave."""
        if self.max_evals is None:
            return 0
        tries = 0 if self.oracle.noisy or self.max_evals < 100 else SECOND_TRIES
        report = self.report_size(self.max_evals, self.candidates)
        return self.size(self.max_evals) * self.candidates + report + tries + self.certifying

    def size(self, budget: int) -> int:
        """Return how many values estimate f at one candidate, in a run of `budget` evaluations."""
        if not self.oracle.noisy:
            return 1
        share = max(2, budget // SHARE, min(budget // 10, 50))
        if self.selection_share and not self.oracle.replayable:  # common samples compare points much better
            choosing = int(self.selection_share * budget) - self.report_size(budget, self.candidates)
            share = max(2, choosing // self.candidates)
        n = self.oracle.n
        return n if n is not None and n <= max(share, budget // WHOLE) else min(share, MOST)

    def report_size(self, budget: int, candidates: int) -> int:
        """Return how many values of its own estimate f at the answer.

        Where noise does not cancel, the values that chose the answer among several are too low by that choice.
        """
        if not self.oracle.noisy or self.oracle.replayable or candidates < 2:
            return 0
        return min(MOST, max(LEAST_REPORT, int(self.selection_share * budget) // 3))

    def run(self, points: dict[str, Array], nfev: int, remaining: Remaining, rng: np.random.Generator) -> Check[Final]:
        """Yield queries and return the answer among `points`: name -> point, the start last if there are several.

        `nfev` evaluations were made, and `remaining()` may still be made; None: any number. All of it is in the user's
        coordinates.
        """
        size, report = self._sizes(nfev, len(points), remaining())
        xi: Any = None
        if size and self.oracle.sample is not None:
            xi = np.arange(size) if size == self.oracle.n else self.oracle.sample(rng, size)
        judged = {}
        for name, x in points.items():
            judged[name] = yield from self._values(x, xi, size, remaining)
        exact = not self.oracle.noisy or size == self.oracle.n
        if self.tie_break == "first":
            chosen = choose_first(judged, exact=exact, cut=self.oracle.noisy and not self.oracle.replayable)
        else:
            chosen = choose(judged, exact=exact)
        fun, stderr = mean_and_error(judged[chosen], exact=exact)
        if report:
            fresh = yield from self._values(points[chosen], None, report, remaining)
            fun, stderr = _pooled(fresh, list(judged.values()))
        certificate = yield from self._certify(points[chosen], remaining(), rng)
        replayed = True
        rest = remaining()
        if isinstance(self.oracle, Seeded) and judged[chosen].size and (rest is None or rest > 0):
            replayed = yield from self._replays(points[chosen], xi, judged[chosen])
        return Final(chosen, points[chosen], fun, stderr, size, certificate, replayed)

    def _sizes(self, nfev: int, candidates: int, remaining: int | None) -> tuple[int, int]:
        """Return how many values are evaluated at each candidate, and how many more at the answer."""
        budget = nfev if self.max_evals is None else self.max_evals
        size = self.size(budget)
        report = self.report_size(budget, candidates)
        if remaining is None:
            return size, report
        if remaining < report + 2 * candidates + self.certifying:
            report = 0
        size = max(0, min(size, (remaining - report - self.certifying) // candidates))
        full = candidates * size + self.certifying >= remaining
        if full and size >= ENOUGH and isinstance(self.oracle, Seeded):
            size -= 1  # which leaves one to see whether noise is replayed
        return size, report

    def _replays(self, x: Array, xi: Any, values: Array) -> Check[bool]:
        """Evaluate a simulator once more under the first seed: False if it gives another value."""
        answer = yield Query(x[None, :].copy(), xi[:1])
        once = float(values[0])
        again = float(answer.values[0])
        return not abs(again - once) > SAME * max(abs(once), abs(again))

    def _values(self, x: Array, xi: Any, size: int, remaining: Remaining) -> Check[Array]:
        """Evaluate a candidate; a deterministic f that fails is tried again a few times, as far as the budget goes."""
        parts = [np.empty(0)]
        rows = max(1, ROWS_AT_ONCE // x.size)
        rounds = 1 if self.oracle.noisy else 1 + SECOND_TRIES
        for start in [*range(0, size, rows)] * rounds:
            k = min(rows, size - start)
            most = remaining()
            if most is not None and most < k:
                break
            samples = None if xi is None else xi[start : start + k]
            answer = yield Query(np.broadcast_to(x, (k, x.size)), samples)
            parts.append(answer.values)
            if not self.oracle.noisy and np.isfinite(answer.values).all():
                return answer.values
        return np.concatenate(parts)

    def _certify(self, x: Array, remaining: int | None, rng: np.random.Generator) -> Check[Certificate | None]:
        most = self.certifying if remaining is None else min(self.certifying, remaining)
        if self.stationarity is None or most < 1:
            return None
        delta, epsilon = self.stationarity
        held = Coordinates(x, self.free)
        search = Search(self.oracle, held.inside(x), delta, epsilon, most, rng).run()
        return (yield from (search if self.free is None else _held(search, held)))


def _held(check: Check[Certificate], held: Coordinates) -> Check[Certificate]:
    """Pass on the queries of a check in the free variables, as the user sees them."""
    try:
        query = next(check)
        while True:
            answer = yield query.outside(held)
            query = check.send(answer.inside(held) if query.order == 1 else answer)
    except StopIteration as done:
        certificate: Certificate = done.value
        return certificate


@np.errstate(over="ignore", invalid="ignore")  # values near the largest float, and failures
def choose(judged: dict[str, Array], *, exact: bool) -> str:
    """Return the candidate with the lowest mean on common samples; the last one, the start, unless beaten clearly.

    Clearly is by two standard errors of the paired difference, so that a run never ends above its start but by chance;
    `exact` means are f itself, and any difference is clear.
    """
    *others, start = judged
    means = {name: mean_and_error(judged[name], exact=False)[0] for name in others}
    finite = [name for name in others if np.isfinite(means[name])]
    if not finite:
        return start
    best = min(finite, key=lambda name: means[name])
    if judged[best].shape != judged[start].shape:
        return best
    difference = judged[best] - judged[start]
    if not np.isfinite(difference).any():
        return best
    mean, error = mean_and_error(difference, exact=False)
    return best if mean < (0.0 if exact else -2 * np.nan_to_num(error)) else start


@np.errstate(over="ignore", invalid="ignore")
def choose_first(judged: dict[str, Array], *, exact: bool, cut: bool = False) -> str:
    """Return the first candidate, unless a later one is lower by a standard error of the difference.

    `exact` means are f itself, and any difference is clear. Where there is no difference at all the answer is the
    start, which is the last one. `cut` compares means of values between their 5 % and 95 % quantiles, because noise
    that does not cancel may have heavy tails; but a loss in fewer calls than that counts too, so that a candidate whose
    plain mean is higher than another's by two standard errors is out.
    """
    start = list(judged)[-1]
    compared = {name: values for name, values in judged.items() if np.isfinite(values).any()}
    if cut:
        every = list(compared.values())
        compared = {
            name: _within_quantiles(values)
            for name, values in compared.items()
            if not any(_clearly_above(values, other) for other in every)
        }
    if not compared:
        return start
    chosen, *others = compared
    for name in others:
        if compared[name].shape != compared[chosen].shape:
            continue
        mean, error = mean_and_error(compared[name] - compared[chosen], exact=exact)
        if mean < -np.nan_to_num(error):
            chosen = name
    return start if np.array_equal(judged[chosen], judged[start]) else chosen


def _clearly_above(values: Array, others: Array) -> bool:
    """Whether the plain mean of values is higher than that of others by two standard errors of the difference."""
    mean, error = mean_and_error(values, exact=False)
    other, other_error = mean_and_error(others, exact=False)
    return bool(mean - other > 2 * np.hypot(error, other_error))  # false when an error is not known


def _pooled(values: Array, others: list[Array]) -> tuple[float, float]:
    """Return the mean of values and its standard error; of few values it takes in the spread of the others' too."""
    mean, error = mean_and_error(values, exact=False)
    groups = [group[np.isfinite(group)] for group in (values, *others)]
    n = groups[0].size
    degrees = sum(max(group.size - 1, 0) for group in groups)
    if not 0 < n < FEW or not degrees:
        return mean, error
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in groups if group.size)
    return mean, float(np.sqrt(squares / degrees / n))


def _within_quantiles(values: Array) -> Array:
    """Return the values with the tails moved to the 5 % and 95 % quantiles; what failed stays NaN."""
    finite = values[np.isfinite(values)]
    low, high = np.quantile(finite, [TAIL, 1 - TAIL])
    return np.where(np.isfinite(values), np.clip(values, low, high), np.nan)
