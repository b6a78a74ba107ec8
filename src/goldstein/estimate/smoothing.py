"""Randomised smoothing: directions on the sphere and the estimators of ∇f_δ built on them.

f_δ(x) = E f(x + δu), u uniform on the unit ball (Definition 5 of the paper). Its gradient is estimated
from values of F alone, along directions w uniform on the unit sphere. Every estimator here has the
form ĝ = mean of c_i w_i; it decides where F is asked and what the coefficients c_i are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.estimate.stream import NORMAL, Stream, draw_rows
from goldstein.oracle import Array, Sampler, Samples
from goldstein.oracle.recipe import Joined, Recipe

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Directions:
    """How the rows of `sphere` or `ball` were drawn."""

    stream: Stream
    norms: Array  # norms, lengths: as numbers, since they need not come out the same to the last bit elsewhere
    lengths: Array | None = None

    def __len__(self) -> int:
        return len(self.norms)

    def rows(self, first: int, last: int) -> Directions:
        """Return how the rows from `first` up to `last` were drawn."""
        lengths = None if self.lengths is None else self.lengths[first:last]
        return Directions(self.stream.rows(first, last), self.norms[first:last], lengths)

    def vectors(self) -> Array:
        """Draw the rows again."""
        w = self.stream.numbers()
        w /= self.norms[:, None]
        if self.lengths is not None:
            w *= self.lengths
        return w


def sphere(rng: np.random.Generator, k: int, d: int) -> Array:
    """Draw k independent directions, uniform on the unit sphere; shape (k, d).

    Parameters
    ----------
    rng : Generator
        Where the random numbers come from.
    k : int
        Number of directions.
    d : int
        Number of coordinates.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> w = gs.smoothing.sphere(np.random.default_rng(0), 3, 5)
    >>> w.shape, bool(np.allclose(np.linalg.norm(w, axis=1), 1))
    ((3, 5), True)
    """
    return draw_sphere(rng, k, d)[0]


def draw_sphere(rng: np.random.Generator, k: int, d: int) -> tuple[Array, Directions | None]:
    """Draw as `sphere` does; return also how to draw the rows again, if they are many."""
    w, stream = draw_rows(NORMAL, rng, k, d)
    norms = np.sqrt(np.einsum("ij,ij->i", w, w))
    while not norms.all():  # a zero vector has no direction
        stream = None
        zero = norms == 0
        w[zero] = rng.standard_normal((int(zero.sum()), d))
        norms = np.linalg.norm(w, axis=1)
    w /= norms[:, None]
    return w, None if stream is None else Directions(stream, norms)


def ball(rng: np.random.Generator, k: int, d: int) -> Array:
    """Draw k independent points, uniform in the unit ball; shape (k, d).

    Parameters
    ----------
    rng, k, d
        As in `sphere`.
    """
    return draw_ball(rng, k, d)[0]


def draw_ball(rng: np.random.Generator, k: int, d: int) -> tuple[Array, Directions | None]:
    """Draw as `ball` does; return also how to draw the rows again, if they are many."""
    u, directions = draw_sphere(rng, k, d)
    lengths = rng.random((k, 1)) ** (1.0 / d)
    u *= lengths
    return u, None if directions is None else replace(directions, lengths=lengths)


@dataclass(frozen=True, eq=False)
class Along:
    """The recipe of the points x + δw; x − δw are those with −δ, to the last bit."""

    x: Array
    delta: float
    directions: Directions

    def __len__(self) -> int:
        return len(self.directions)

    def rows(self, first: int, last: int) -> Along:
        return replace(self, directions=self.directions.rows(first, last))

    @np.errstate(over="ignore", invalid="ignore")
    def points(self) -> Array:
        step = self.directions.vectors()
        step *= self.delta
        step += self.x
        return step


def orthogonal(rng: np.random.Generator, k: int, d: int) -> Array:
    """Draw k directions in orthonormal frames of at most d; each is uniform on the sphere.

    Every frame is Haar distributed (QR of a Gaussian matrix, signs fixed by the diagonal of R), so each
    single direction has the law of `sphere` and the estimators stay unbiased; frames are independent.

    Parameters
    ----------
    rng, k, d
        As in `sphere`.
    """
    w = np.empty((k, d))
    for start in range(0, k, d):
        rows = min(d, k - start)
        q, r = np.linalg.qr(rng.standard_normal((d, rows)))
        w[start : start + rows] = (q * np.where(np.diagonal(r) < 0, -1.0, 1.0)).T
    return w


DIRECTIONS = {"iid": sphere, "orthogonal": orthogonal}


@dataclass(frozen=True)
class Central:
    """The two-point estimator of the paper (Definitions 6 and 7).

    g(x; w, ξ) = d/(2δ) (F(x + δw; ξ) − F(x − δw; ξ)) w, the same ξ in both values, and its mean over
    a batch of independent pairs (w_i, ξ_i).
    """

    evaluations = 2  # values of F that one direction costs

    def batch(self, b: int, stochastic: bool) -> int:
        """Return the largest batch that is valid and not above b; 0 when there is none."""
        return b

    def draw(self, sample: Sampler | None, rng: np.random.Generator, b: int) -> Samples | None:
        """Draw the ξ of b directions, in the order of the rows of `points`."""
        if sample is None:
            return None
        xi = sample(rng, b)
        return np.concatenate([xi, xi])

    @np.errstate(over="ignore", invalid="ignore")
    def points(self, x: Array, w: Array, delta: float) -> Array:
        """Return where F is asked; shape (evaluations · b, d)."""
        b = len(w)
        out = np.empty((2 * b, x.size))
        np.multiply(w, delta, out=out[b:])
        np.add(x, out[b:], out=out[:b])
        np.subtract(x, out[b:], out=out[b:])
        return out

    def recipe(self, x: Array, w: Directions, delta: float) -> Recipe:
        """Return how these points are made."""
        return Joined([Along(x, delta, w), Along(x, -delta, w)])

    def usable(self, values: Array, stochastic: bool) -> Mask:
        """Return which directions can be used; values of shape (blocks, evaluations, b), all on the same (w, ξ)."""
        return np.asarray(np.isfinite(values).all(axis=(0, 1)))

    def coefficients(self, values: Array, usable: Mask, d: int, delta: float, stochastic: bool) -> Array:
        """Return c_i of the usable directions; values of shape (evaluations, b)."""
        plus, minus = values[:, usable]
        return np.asarray(d / (2 * delta) * (plus - minus))  # Definition 6


@dataclass(frozen=True)
class LeaveOneOut:
    """One value for each direction, compared with the mean of its group.

    ĝ = d/(δ(k−1)) Σ (F(x + δw_i; ξ) − F̄) w_i over the k ≥ 2 directions of a group that share one ξ; a batch
    is the mean over groups with independent ξ. Unbiased for ∇f_δ, at half the values of `Central` per direction.

    Parameters
    ----------
    group_size : int, optional
        Directions that share one ξ. None: the whole batch when F has no ξ, else 2, because noise in ξ
        makes larger groups worse.
    """

    group_size: int | None = None
    evaluations = 1

    def __post_init__(self) -> None:
        arguments.keep(self, group_size=arguments.optional_count("group_size", self.group_size, least=2))

    def _group(self, b: int, stochastic: bool) -> int:
        return self.group_size or (2 if stochastic else b)

    def batch(self, b: int, stochastic: bool) -> int:
        if b < 2:
            return 0
        group = self._group(b, stochastic)
        return b // group * group

    def draw(self, sample: Sampler | None, rng: np.random.Generator, b: int) -> Samples | None:
        if sample is None:
            return None
        group = self._group(b, True)
        return np.repeat(sample(rng, b // group), group, axis=0)

    @np.errstate(over="ignore", invalid="ignore")
    def points(self, x: Array, w: Array, delta: float) -> Array:
        out = w * delta
        out += x
        return out

    def recipe(self, x: Array, w: Directions, delta: float) -> Recipe:
        return Along(x, delta, w)

    def usable(self, values: Array, stochastic: bool) -> Mask:
        fine = np.asarray(np.isfinite(values).all(axis=(0, 1)))
        if fine.size > 1 and fine.all():
            return fine
        groups = fine.reshape(-1, self._group(fine.size, stochastic))
        return np.asarray((groups & (groups.sum(axis=1, keepdims=True) >= 2)).ravel())

    def coefficients(self, values: Array, usable: Mask, d: int, delta: float, stochastic: bool) -> Array:
        group = self._group(usable.size, stochastic)
        value = values[0].reshape(-1, group)
        size = np.array(group)
        if not usable.all():
            mask = usable.reshape(-1, group)
            value = np.where(mask, value, 0.0)
            size = np.maximum(mask.sum(axis=1, keepdims=True), 2)  # a group without members adds nothing
        centred = (value - value.sum(axis=1, keepdims=True) / size) * (size / (size - 1.0))
        return np.asarray(d / delta * centred.ravel()[usable])


Estimator = Central | LeaveOneOut
ESTIMATORS: dict[str, type[Estimator]] = {"central": Central, "loo": LeaveOneOut}


def mean_estimate(w: Array, coefficients: Array, usable: Mask) -> Array:
    """Return ĝ = mean of c_i w_i over the usable directions (Definition 7)."""
    rows = w if usable.all() else w[usable]
    return np.asarray(coefficients @ rows / coefficients.size)
