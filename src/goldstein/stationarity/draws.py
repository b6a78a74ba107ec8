"""Independent draws of gradients, from values or from gradients of F, and who answers their queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from goldstein.criterion import Check
from goldstein.estimate.smoothing import Central, ball, orthogonal, sphere
from goldstein.facts import Facts
from goldstein.oracle import Array, Oracle, Query, Sampler
from goldstein.stationarity.rounding import ValueStep

T = TypeVar("T")

NUMBERS_AT_ONCE = 2**20  # coordinates in one query


@dataclass(frozen=True, eq=False)
class Values:
    """Two-point estimates of ∇f_δ at m centres y; with `frame` above 1, means over so many orthonormal directions."""

    centres: Array
    delta: float
    sample: Sampler | None
    frame: int = 1

    @property
    def cost(self) -> int:
        """Values that one draw at every centre takes."""
        return 2 * self.frame * len(self.centres)

    def each(self, rng: np.random.Generator, k: int) -> Check[Array]:
        """Return k draws at every centre, shape (k, m, d); not finite where an evaluation failed."""
        m, d = self.centres.shape
        frame = self.frame
        two_point = Central()
        pairs = k * m * frame
        if frame == 1:
            w = sphere(rng, pairs, d)
        else:
            w = np.concatenate([orthogonal(rng, frame, d) for _ in range(k * m)])
        xi = two_point.draw(self.sample, rng, pairs)
        at = np.repeat(np.tile(self.centres, (k, 1)), frame, axis=0)
        step = self.delta * w
        answer = yield Query(np.concatenate([at + step, at - step]), xi, fresh=True)
        values = np.where(np.isfinite(answer.values), answer.values, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):  # a failed value makes its draw not finite
            every = np.ones(pairs, dtype=bool)
            c = two_point.coefficients(values.reshape(2, pairs), every, d, self.delta, self.sample is not None)
            return np.asarray((c[:, None] * w).reshape(k, m, frame, d).mean(axis=2))


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients ∇F(y + ru; ξ) at m centres y, u uniform in the unit ball; at y itself if the radius r is 0."""

    centres: Array
    sample: Sampler | None
    radius: float = 0.0

    @property
    def cost(self) -> int:
        """Gradients that one draw at every centre takes."""
        return len(self.centres)

    def each(self, rng: np.random.Generator, k: int) -> Check[Array]:
        """Return k draws at every centre, shape (k, m, d); not finite where an evaluation failed."""
        m, d = self.centres.shape
        at = np.tile(self.centres, (k, 1))
        if self.radius:
            at += self.radius * ball(rng, k * m, d)
        samples = None if self.sample is None else self.sample(rng, k * m)
        answer = yield Query(at, samples, order=1, fresh=True)
        return answer.values.reshape(k, m, d)


Source = Values | Gradients


def portions(n: int, numbers: int) -> list[int]:
    """Split n draws of so many numbers each into portions of bounded size."""
    most = max(1, NUMBERS_AT_ONCE // numbers)
    return [min(most, n - start) for start in range(0, n, most)]


def counted(check: Check[T], count: Facts, step: ValueStep | None = None) -> Check[T]:
    """Pass on a check's queries and count their answers; `step` learns from their values."""
    try:
        query = next(check)
        while True:
            answer = yield query
            count.measure(count.count(query, answer, diagnostic=True))
            if step is not None and query.order == 0:
                step.add(query.points, answer.values)
            query = check.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


def drive(check: Check[T], oracle: Oracle) -> T:
    """Answer a check's queries until it is done."""
    try:
        query = next(check)
        while True:
            query = check.send(oracle.evaluate(query))
    except StopIteration as done:
        result: T = done.value
        return result


def asked(nfev: int, ngev: int, nfail: int) -> str:
    """Say how many values and gradients were asked for."""
    kinds = [f"{n:,} {kind}{'s' * (n != 1)}" for n, kind in ((nfev, "value"), (ngev, "gradient")) if n]
    failed = f", {nfail:,} of them failed" if nfail else ""
    return f"{' and '.join(kinds) or 'no evaluations'} asked for{failed}"


def rounding_error(d: int, delta: float, count: Facts) -> float:
    """Return the rounding error of two-point estimates, d·u·|F|/δ."""
    return d * count.proven * count.magnitude / delta
