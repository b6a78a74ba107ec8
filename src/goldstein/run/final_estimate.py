"""The end of a run: which candidate is the answer, what f is there, and how stationary it is.

All of it is asked on fresh ξ, from evaluations that were set aside when the run began; they are diagnostic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.criterion import Check
from goldstein.facts import SEED_ROUNDOFF, differ
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
TAIL = 0.05  # noise that cannot be replayed is cut at these quantiles when candidates are compared
ROWS_AT_ONCE = 2**22  # numbers in one query, so that an exact finite sum does not fill the memory


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
    """How a run will be closed; `reserve` is what that may cost.

    Attributes
    ----------
    candidates : int
        Points that may be the answer, at most.
    stationarity : (delta, epsilon) or None
        Whether to say how stationary the answer is.
    estimating : bool
        Whether anything is asked at all.
    tie_break, selection_share
        As in `Needs`.
    free : ndarray of int, or None
        The variables that bounds do not fix, in which stationarity is asked about; None: all.
    """

    oracle: Oracle
    max_evals: int | None
    candidates: int = 1
    stationarity: tuple[float, float] | None = None
    estimating: bool = True
    tie_break: str = "start"
    selection_share: float = 0.0
    free: npt.NDArray[np.intp] | None = None

    @property
    def certifying(self) -> int:
        """Evaluations set aside to tell how stationary the answer is."""
        if self.stationarity is None:
            return 0
        return MOST if self.max_evals is None else min(MOST, self.max_evals // CERTIFYING_SHARE)

    @property
    def reserve(self) -> int:
        """Evaluations that a run must leave; without a budget there is nothing to leave."""
        if self.max_evals is None or not self.estimating:
            return 0
        tries = 0 if self.oracle.noisy or self.max_evals < 100 else SECOND_TRIES
        report = self.report_size(self.max_evals, self.candidates)
        return self.size(self.max_evals) * self.candidates + report + tries + self.certifying

    def size(self, budget: int) -> int:
        """Return how many values estimate f at one candidate, in a run of so many evaluations."""
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

    def run(
        self, points: dict[str, Array], nfev: int, left: Callable[[], int | None], rng: np.random.Generator
    ) -> Check[Final]:
        """Yield queries and return the answer among `points`: name -> point, the start last if there are several.

        `nfev` evaluations were made, and `left()` is what may still be asked for, or None. All of it is in the user's
        coordinates.
        """
        budget = nfev if self.max_evals is None else self.max_evals
        size = self.size(budget)
        report = self.report_size(budget, len(points))
        most = left()
        if most is not None:
            if most < report + 2 * len(points) + self.certifying:
                report = 0
            size = max(0, min(size, (most - report - self.certifying) // len(points)))
            full = len(points) * size + self.certifying >= most
            if full and size >= ENOUGH and isinstance(self.oracle, Seeded):
                size -= 1  # which leaves one to see whether noise is replayed
        xi: Any = None
        if size and self.oracle.sample is not None:
            xi = np.arange(size) if size == self.oracle.n else self.oracle.sample(rng, size)
        judged = {}
        for name, x in points.items():
            judged[name] = yield from self._values(x, xi, size, left)
        exact = not self.oracle.noisy or size == self.oracle.n
        if self.tie_break == "first":
            chosen = choose_first(judged, exact=exact, cut=self.oracle.noisy and not self.oracle.replayable)
        else:
            chosen = choose(judged, exact=exact)
        fun, stderr = mean_and_error(judged[chosen], exact=exact)
        if report:
            fresh = yield from self._values(points[chosen], None, report, left)
            fun, stderr = _pooled(fresh, list(judged.values()))
        certificate = yield from self._certify(points[chosen], left, rng)
        replayed = yield from self._replays(points[chosen], xi, judged[chosen], left)
        return Final(chosen, points[chosen], fun, stderr, size, certificate, replayed)

    def _replays(self, x: Array, xi: Any, values: Array, left: Callable[[], int | None]) -> Check[bool]:
        """Ask a simulator once more for a value that it has given: False if the same seed gives another one."""
        rest = left()
        if not isinstance(self.oracle, Seeded) or not values.size or (rest is not None and rest < 1):
            return True
        answer = yield Query(x[None, :].copy(), xi[:1])
        return not differ(answer.values[0], values[0], SEED_ROUNDOFF)

    def _values(self, x: Array, xi: Any, size: int, left: Callable[[], int | None]) -> Check[Array]:
        """Evaluate a candidate; a deterministic f that fails is asked again a few times, as far as the budget goes."""
        parts = [np.empty(0)]
        rows = max(1, ROWS_AT_ONCE // x.size)
        rounds = 1 if self.oracle.noisy else 1 + SECOND_TRIES
        for start in [*range(0, size, rows)] * rounds:
            k = min(rows, size - start)
            most = left()
            if most is not None and most < k:
                break
            samples = None if xi is None else xi[start : start + k]
            answer = yield Query(np.broadcast_to(x, (k, x.size)), samples)
            parts.append(answer.values)
            if not self.oracle.noisy and np.isfinite(answer.values).all():
                return answer.values
        return np.concatenate(parts)

    def _certify(self, x: Array, left: Callable[[], int | None], rng: np.random.Generator) -> Check[Certificate | None]:
        rest = left()
        most = self.certifying if rest is None else min(self.certifying, rest)
        if self.stationarity is None or most < 1:
            return None
        delta, epsilon = self.stationarity
        held = Coordinates(x, self.free)
        search = Search(self.oracle, held.inside(x), delta, epsilon, None, 0.95, most, rng).run()
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


def choose(judged: dict[str, Array], *, exact: bool) -> str:
    """Return the candidate with the lowest mean on common samples; the last one, the start, unless beaten clearly.

    Clearly is by two standard errors of the paired difference, so that a run never ends above its start but by chance;
    `exact` means are f itself, and any difference is clear.
    """
    *others, start = judged
    means = {name: mean_and_error(judged[name], exact=False)[0] for name in others}
    finite = {name: mean for name, mean in means.items() if np.isfinite(mean)}
    if not finite:
        return start
    best = min(finite, key=lambda name: finite[name])
    if judged[best].shape != judged[start].shape:
        return best
    difference = judged[best] - judged[start]
    difference = difference[np.isfinite(difference)]
    if difference.size == 0:
        return best
    error = 0.0 if exact or difference.size < 2 else float(difference.std(ddof=1) / np.sqrt(difference.size))
    return best if difference.mean() < -2 * error else start


def choose_first(judged: dict[str, Array], *, exact: bool, cut: bool = False) -> str:
    """Return the first candidate, unless a later one is lower by a standard error of the difference.

    `exact` means are f itself, and any difference is clear. Where there is no difference at all the answer is the
    start, which is the last one. `cut` compares means of values between their 5 % and 95 % quantiles, because noise
    that does not cancel may have heavy tails; but a loss in fewer calls than that counts too, so that a candidate whose
    plain mean is higher than another's by two standard errors is out.
    """
    names = [name for name, values in judged.items() if np.isfinite(values).any()]
    if cut:
        names = [name for name in names if not any(_clearly_above(judged[name], judged[one]) for one in names)]
    if not names:
        return list(judged)[-1]
    chosen = names[0]
    for name in names[1:]:
        if judged[name].shape != judged[chosen].shape:
            continue
        one = _within_quantiles(judged[name]) if cut else judged[name]
        other = _within_quantiles(judged[chosen]) if cut else judged[chosen]
        with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float, and failures
            difference = one - other
        mean, error = mean_and_error(difference, exact=exact)
        if mean < -np.nan_to_num(error):
            chosen = name
    start = list(judged)[-1]
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
