"""What the bounds on dist(0, ∂_δ f(x)) show, in three honest answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from goldstein import arguments
from goldstein.criterion import Check
from goldstein.facts import Facts
from goldstein.norms import norm, norms
from goldstein.oracle import DOUBLE, Array, Oracle, Query
from goldstein.state import State, second_generator
from goldstein.stationarity.draws import Gradients, Source, Values, asked, counted, drive, portions, rounding_error
from goldstein.stationarity.hull import (
    HAIR,
    RHO,
    combination,
    gradients_at,
    noisy_hull,
    random_points,
    segment_points,
    shortest,
)
from goldstein.stationarity.norm import SEEN, Moments, estimate, gather
from goldstein.stationarity.rounding import ValueStep, as_centre, points_that_fit, recognised, too_small

LOOKS = (1 / 16, 1 / 4, 1)  # shares of its budget after which the smoothed gradient is looked at
DRAWS = 30  # fewest draws on which a confidence bound may rest
SLACK = 1e-12  # relative error of f(x) and f_lower that passes for rounding
PORTION = (64, 512)  # gradients by which a hull grows: d, but within these limits
GAUGES = 12  # values that show how precise a function is
GOLDEN = (5**0.5 - 1) / 2
COMPARED = 3  # gradients that are compared with differences of values; most of them must agree
STEP = 1e-6, 2.0**20, 1e-2  # of these differences: in δ, but at least so many rounding errors of x, and at most in δ
AGREEMENT = 0.1  # relative difference of a slope and a gradient that passes
KEPT = 500  # gradients that a hull carries from one portion to the next


def value_gap_bound(fx: float, f_lower: float, delta: float) -> float:
    """Bound dist(0, ∂_δ f(x)) by (f(x) − f_lower)/δ, for every Lipschitz f.

    With g the shortest element of ∂_δ f(x), Goldstein's lemma gives f(x − δg/‖g‖) ≤ f(x) − δ‖g‖, and the left side is
    at least f_lower.

    Parameters
    ----------
    fx : float
        f(x), exact.
    f_lower : float
        A lower bound on f, everywhere or on the ball of radius δ around x.
    delta : float
        Radius δ.

    References
    ----------
    A. A. Goldstein, Optimization of Lipschitz continuous functions, Mathematical Programming 13, 1977.

    Examples
    --------
    >>> from goldstein.stationarity import value_gap_bound
    >>> value_gap_bound(fx=1.25, f_lower=1.0, delta=0.5)
    0.5
    """
    delta = arguments.positive("delta", delta)
    fx = arguments.number("fx", fx)
    f_lower = arguments.number("f_lower", f_lower)
    if not np.isfinite(fx) or f_lower == np.inf:
        raise ValueError(f"f(x) must be finite and f_lower below it, got fx={fx!r} and f_lower={f_lower!r}.")
    if f_lower - fx > SLACK * max(abs(fx), abs(f_lower)):
        raise ValueError(f"f_lower={f_lower!r} is no lower bound: f(x)={fx!r} is below it.")
    return max(fx - f_lower, 0.0) / delta


@dataclass(frozen=True)
class Certificate(State):
    """What `certify` found out.

    Attributes
    ----------
    answer : {"certified", "supported", "not shown"}
        certified: dist(0, ∂_δ f(x)) ≤ ε follows from exact values or gradients. supported: it follows from a
        confidence bound. not shown: neither; it may be true all the same.
    bound : float
        The upper bound on dist(0, ∂_δ f(x)) that the answer rests on; the smallest one found if nothing was shown.
    method : str
        Where it comes from: "value gap", "gradient hull", "smoothed gradient" or "sampled hull"; "" if there is none.
    delta, epsilon, confidence : float
        What was asked.
    nfev, ngev, nfail : int
        Values and gradients asked for, and how many of them failed.
    message : str
        The answer in words.
    """

    answer: str
    bound: float
    method: str
    delta: float
    epsilon: float
    confidence: float
    nfev: int
    ngev: int
    nfail: int
    message: str

    def __str__(self) -> str:
        return f"{self.message}\n{asked(self.nfev, self.ngev, self.nfail)}"


@dataclass(frozen=True)
class _Finding:
    """An upper bound, whether it is certain, and where it comes from."""

    bound: float
    certain: bool
    method: str
    words: str
    radius: float = 0.0  # of the differences of values that it rests on; 0: it rests on gradients


def certify(
    oracle: Oracle | Callable[[Array], float],
    x: npt.ArrayLike,
    delta: float,
    epsilon: float,
    *,
    f_lower: float | None = None,
    confidence: float = 0.95,
    max_evals: int = 10_000,
    rng: int | np.random.Generator | None = None,
) -> Certificate:
    """Try to show that dist(0, ∂_δ f(x)) ≤ ε, and say how far that succeeded.

    In this order, until one bound is at most ε:

    1. value gap, if `f_lower` is given: (f(x) − f_lower)/δ. Certain if f(x) is exact, which it is for a `Deterministic`
       oracle and for a finite sum of at most `max_evals`/2 components. Otherwise an upper confidence bound on f(x) is
       taken, from a quarter of the evaluations.
    2. gradient hull, for a `Deterministic` oracle with `grad`: the shortest element of the hull of gradients at random
       points, half of them spread over the ball and half along the way where that element points. Certain: f is
       differentiable there with probability 1; floats are a grid, so no more points are taken than keep the chance to
       meet a given kink below 2⁻¹². If it is not short enough, the gradients spread over the ball serve 3. Gradients
       that do not agree with differences of values at most of three points beforehand are not believed.
    3. smoothed gradient: an upper confidence bound on ‖∇f_δ(x)‖, see `smoothed_gradient_norm`.
    4. sampled hull, where 2 cannot be had: a combination of noisy gradients, or of two-point estimates, chosen on one
       sample and measured on another, see `min_norm_hull`.

    The chance that a confidence bound is wrong is shared between these ways and between repeated looks at a growing
    sample: in all it is at most 1 − `confidence`, as far as the normal approximation holds. It does not where few of
    all ξ make the slope, so a bound counts only if at least 20 draws share the sum of squares; what no draw shows goes
    unseen. A way in which an evaluation failed supports nothing, and nothing is shown where δ is lost in the rounding
    of x, in the precision of the values.

    Parameters
    ----------
    oracle : Oracle or callable
        The function. f must be Lipschitz near x. A bare callable `f(x)` is asked twice at x (counted) to see whether
        it is noisy.
    x : array_like, shape (d,)
        The point.
    delta, epsilon : float
        δ and ε.
    f_lower : float, optional
        A lower bound on f, everywhere or on the ball of radius δ around x.
    confidence : float, optional
        Of the answer "supported".
    max_evals : int, optional
        Most values and gradients, taken together, that may be asked for.
    rng : int or Generator, optional
        Seed or generator.

    Examples
    --------
    >>> import goldstein as gs
    >>> from goldstein.problems import ridge
    >>> from goldstein.stationarity import certify
    >>> problem = ridge(5)
    >>> certify(problem.oracle, 0.05 * problem.x0, delta=0.1, epsilon=0.01, rng=0).answer  # the kink is within reach
    'certified'
    >>> values_only = gs.Deterministic(problem.oracle.fun, vectorized=True)
    >>> certify(values_only, 0.05 * problem.x0, delta=0.1, epsilon=0.3, rng=0).answer
    'supported'
    >>> certify(values_only, problem.x0, delta=0.1, epsilon=0.3, rng=0).answer  # a slope of norm 1
    'not shown'
    """
    x = as_centre(x, delta)
    delta = float(delta)
    epsilon = arguments.positive("epsilon", epsilon)
    confidence = arguments.confidence(confidence)
    f_lower = -np.inf if f_lower is None else f_lower
    f_lower = arguments.number("f_lower", f_lower, "a number below f, or None", lambda value: value < np.inf)
    bare = callable(oracle) and not isinstance(oracle, Oracle)
    max_evals = arguments.count("max_evals", max_evals, 3 if bare else 1)
    rng = arguments.generator(rng)
    oracle, spent = recognised(oracle, x)
    search = Search(oracle, x, delta, epsilon, max_evals - spent, rng, f_lower, confidence)
    certificate = drive(search.run(), oracle)
    return replace(certificate, nfev=certificate.nfev + spent)


@dataclass
class Search:
    """One search for a bound of at most ε."""

    oracle: Oracle
    x: Array
    delta: float
    epsilon: float
    max_evals: int
    rng: np.random.Generator
    f_lower: float = -np.inf
    confidence: float = 0.95

    def __post_init__(self) -> None:
        self.facts = Facts()
        self.step = ValueStep()
        self.direction = np.zeros(self.x.size)  # an estimate of the smoothed gradient
        self.wrong = 0  # gradients that do not agree with the values
        self.exact = not self.oracle.noisy or (self.oracle.n is not None and 2 * self.oracle.n <= self.max_evals)
        self.ways: list[Callable[[], Check[_Finding | None]]] = [self.smoothed_gradient, self.sampled_hull]
        if not self.oracle.noisy and self.oracle.differentiable:
            self.ways = [self.gradient_hull]
        risky = len(self.ways)
        if self.f_lower > -np.inf:
            self.ways.insert(0, self.value_gap)
            risky += not self.exact
        self.risk = (1 - self.confidence) / risky

    @property
    def remaining(self) -> int:
        return self.max_evals - self.facts.counted

    @property
    def room(self) -> float:
        """For how many random points the ball has room, in the precision that the answers so far have shown."""
        return points_that_fit(self.x, self.delta, self.facts.proven)

    def run(self) -> Check[Certificate]:
        findings: list[_Finding] = []
        step = None if self.oracle.noisy else self.step
        if self.ways[0] != self.smoothed_gradient:  # which evaluates many values itself
            yield from counted(self.gauge(), self.facts, step)
        for way in self.ways:
            if way == self.gradient_hull and 2 * self.wrong > COMPARED:
                continue
            if points_that_fit(self.x, self.delta, self.facts.roundoff) >= 1:
                finding = yield from counted(way(), self.facts, step)
                if finding is not None:
                    findings.append(finding)
            if any(self.bound(finding) <= self.epsilon for finding in findings):
                break
        best = None
        if self.room >= 1:
            best = min(findings, key=self.bound, default=None)
        return self._certificate(best)

    def bound(self, finding: _Finding) -> float:
        """Return the bound of a finding, with the slope that values in steps may hide."""
        return finding.bound + self._hidden(finding)

    def _hidden(self, finding: _Finding) -> float:
        return self.step.slope(self.x.size, finding.radius) if finding.radius else 0.0

    def gauge(self) -> Check[None]:
        """Evaluate a few values beside x: nothing is certain of a function whose precision is not known.

        They lie on a line through x at odd distances, so that no random number is drawn for them. Where gradients are
        to be believed, the values come in pairs, with a few gradients between two of them.
        """
        n = min(GAUGES, self.remaining // 4)
        if n < 1 or points_that_fit(self.x, self.delta) < 1:
            return
        place = (np.arange(1, n + 1) * GOLDEN) % 1.0
        away = np.cos(np.arange(1, self.x.size + 1.0))
        away /= np.linalg.norm(away)
        if self.gradient_hull in self.ways and n >= 2 * COMPARED:
            yield from self.compare(self.x + self.delta * (1 - HAIR) * place[: n // 2, None] * away, away)
            return
        points = self.x + self.delta * (1 - HAIR) * place[:, None] * away
        samples = None if self.oracle.sample is None else self.oracle.sample(second_generator(self.rng), n)
        yield Query(points, samples, fresh=True)

    def compare(self, places: Array, away: Array) -> Check[None]:
        """Count the gradients that do not agree with differences of values there, by more than rounding explains."""
        part, grains, most = STEP
        grain = DOUBLE * norm(self.x)
        step = min(max(part * self.delta, grains * grain), most * self.delta) * away
        ahead = places + step
        behind = places - step
        answer = yield Query(np.concatenate([ahead, behind]), fresh=True)
        values = answer.values.reshape(2, -1)[:, :COMPARED]
        gradients = yield from gradients_at(places[:COMPARED])
        rise = values[0] - values[1]
        predicted = np.einsum("kd,kd->k", gradients, (ahead - behind)[:COMPARED])
        rounding = 8 * self.facts.proven * np.abs(values).max(axis=0) + 32 * grain * norms(gradients)
        off = np.abs(rise - predicted) > AGREEMENT * np.maximum(np.abs(rise), np.abs(predicted)) + rounding
        self.wrong = int(np.count_nonzero(off))

    def value_gap(self) -> Check[_Finding | None]:
        n = self.remaining // 4
        if self.exact:
            n = self.oracle.n or 1
        elif n < DRAWS:
            return None
        values = yield from self._values(n)
        if not np.isfinite(values).all():
            return None
        mean = float(values.mean())
        error = max(SLACK, 8 * self.facts.proven) * max(float(np.abs(values).max()), abs(self.f_lower))
        if not self.exact:
            deviations = Moments(1)
            deviations.add((values - mean)[:, None])
            if deviations.sharing < SEEN:
                return None
            error += float(stdtrit(n - 1, 1 - self.risk) * values.std(ddof=1) / np.sqrt(n))
        if not self.exact or mean + error >= self.f_lower:  # a mean below f_lower by chance or by rounding
            mean = max(mean, self.f_lower)
        gap = value_gap_bound(mean, self.f_lower, self.delta) + error / self.delta
        words = "f(x) exact" if self.exact else f"f(x) from {n} draws"
        return _Finding(gap, self.exact, "value gap", f"(f(x) − f_lower)/δ, {words}")

    def _values(self, n: int) -> Check[Array]:
        parts = []
        start = 0
        for k in portions(n, self.x.size):
            xi: Any = None
            if self.oracle.sample is not None:
                xi = np.arange(start, start + k) if self.exact else self.oracle.sample(self.rng, k)
            answer = yield Query(np.broadcast_to(self.x, (k, self.x.size)), xi)
            parts.append(answer.values)
            start += k
        return np.concatenate(parts)

    def gradient_hull(self) -> Check[_Finding | None]:
        """Grow the hull portion by portion, half of it along the way where the shortest element points.

        Of the gradients so far, the shortest element itself and those that carry most weight are kept. The first one is
        evaluated alone: it may tell a coarser precision, and with it for how many there is room.
        """
        d = self.x.size
        bound = np.inf
        element = np.zeros(d)
        heaviest = np.empty((0, d))
        moments = Moments(d)
        facts = Facts()
        while bound > self.epsilon:
            most = int(min(self.remaining, self.room - facts.ngev)) if facts.ngev else min(self.remaining, 1)
            if most < 1:
                break
            k = min(max(PORTION[0], d), PORTION[1], most, max(portions(PORTION[1], d)))
            even = k - k // 2 if len(heaviest) else k
            y = random_points(self.x, self.delta, even, self.rng)
            ahead = segment_points(self.x, self.delta, element, k - even, self.rng)
            g = yield from counted(gradients_at(np.concatenate([y, ahead])), facts)
            moments.add(g[:even])
            both = np.concatenate([heaviest, g])
            weights = shortest(both)
            if weights.any():
                element = combination(weights, both)
                order = np.argsort(-weights)[: min(KEPT, np.count_nonzero(weights))]
                heaviest = np.concatenate([both[order], element[None]])
                rounding = 4 * (d + len(both)) * self.facts.proven * float(norms(heaviest).max())
                bound = norm(element) + rounding
        if bound > self.epsilon:
            if self.remaining > DRAWS:  # there was no room for them in a hull, but a mean is not spoiled by one kink
                smoothed = yield from self.smoothed_gradient()
            else:
                smoothed = self._smoothed(moments, facts, 1 - self.risk)
            if smoothed is not None and smoothed.bound <= self.epsilon:
                return smoothed
        if bound == np.inf:
            return None
        return _Finding(bound, True, "gradient hull", f"the shortest element of a hull of {facts.ngev} gradients")

    def smoothed_gradient(self) -> Check[_Finding | None]:
        source: Source = Values(self.x[None], self.delta, self.oracle.sample)
        if self.oracle.differentiable:
            source = Gradients(self.x[None], self.oracle.sample, self.delta)
        most = self.remaining // 2 // source.cost
        if most < DRAWS:
            return None
        moments = Moments(self.x.size)
        facts = Facts()
        drawn = 0
        for share in LOOKS:
            size = max(int(share * most), DRAWS)
            yield from counted(gather(moments, source, np.ones(1), size - drawn, self.rng), facts)
            drawn = size
            finding = self._smoothed(moments, facts, 1 - self.risk / len(LOOKS))
            if finding is None or finding.bound <= self.epsilon:
                break
            low, _ = estimate(moments, facts, self.confidence, noisy=self.oracle.noisy).interval
            if low > self.epsilon * self.epsilon:
                break
        self.direction = moments.mean
        return finding

    def sampled_hull(self) -> Check[_Finding | None]:
        radius = 0.0 if self.oracle.differentiable else RHO * self.delta
        each = 2 if radius else 1
        draws = self.remaining // each
        most = min(draws // 2 // DRAWS, 4 * (self.x.size + 1), int(np.sqrt(draws / 2)))
        if most < 2 or (not radius and most > self.room):
            return None
        y = random_points(self.x, self.delta - radius, most - most // 2, self.rng)
        ahead = segment_points(self.x, self.delta - radius, self.direction, most // 2, self.rng)
        facts = Facts()
        check = noisy_hull(
            self.oracle,
            radius,
            np.concatenate([y, ahead]),
            draws // 2 // most,
            lambda k: self.remaining // each // k,
            self.rng,
            1 - self.risk,
        )
        hull = yield from counted(check, facts)
        if facts.nfail:
            return None
        used = int((hull.weights > 0).sum())
        kind = "smoothed gradients" if radius else "gradients"
        return _Finding(hull.bound, False, "sampled hull", f"a combination of {kind} at {used} points", radius)

    def _smoothed(self, moments: Moments, facts: Facts, confidence: float) -> _Finding | None:
        """Return the bound on ‖∇f_δ(x)‖; None if it rests on too little or evaluations failed."""
        if moments.n < DRAWS or facts.nfail:
            return None
        rounding = rounding_error(self.x.size, self.delta, facts)
        bound = estimate(moments, facts, confidence, rounding, noisy=self.oracle.noisy).upper
        radius = 0.0 if self.oracle.differentiable else self.delta
        return _Finding(bound, False, "smoothed gradient", f"‖∇f_δ(x)‖ from {moments.n} draws", radius)

    def _certificate(self, best: _Finding | None) -> Certificate:
        bound = np.inf if best is None else self.bound(best)
        answer = "not shown"
        if best is not None and bound <= self.epsilon:
            answer = "certified" if best.certain else "supported"
        return Certificate(
            answer=answer,
            bound=bound,
            method="" if best is None else best.method,
            delta=self.delta,
            epsilon=self.epsilon,
            confidence=self.confidence,
            nfev=self.facts.nfev,
            ngev=self.facts.ngev,
            nfail=self.facts.nfail,
            message=self._message(answer, best, bound),
        )

    def _message(self, answer: str, best: _Finding | None, bound: float) -> str:
        claim = f"dist(0, ∂_δ f(x)) ≤ {self.epsilon:.4g} with δ = {self.delta:.4g}"
        if best is not None and answer != "not shown":
            how = "" if best.certain else f" at confidence {self.confidence:.4g}"
            return (
                f"{answer.capitalize()}{how}: {claim}. The bound is {bound:.4g} ({best.words}). This speaks of slopes "
                "only: local maxima and saddle points pass the same test."
            )
        if self.room < 1:
            reason = too_small(self.x, self.delta)
        elif 2 * self.wrong > COMPARED:
            reason = (
                f"grad does not agree with differences of f at {self.wrong} of {COMPARED} points within δ of x, so no "
                "gradient was believed: check grad, or leave it out."
            )
        elif best is None:
            reason = (
                "No bound could be computed: too few evaluations, too few that tell something, or some of them failed."
            )
        else:
            reason = f"The smallest bound is {bound:.4g} ({best.words}); the claim may hold."
            if best.radius and self.step.size:
                hidden = self._hidden(best)
                reason += f" f answers in steps of {self.step.size:.4g}, which can hide a slope of {hidden:.4g} here."
        return f"Not shown: {claim}. {reason}"
