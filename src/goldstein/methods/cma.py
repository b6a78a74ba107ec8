"""BlockCMA: CMA-ES in blocks, for functions that jump and for noise that cannot be replayed.

1. initial σ, 8 % of the budget: how far around x0 to look at first, σ (`goldstein.methods.initial_sigma`)
2. generations, until the budget ends:
     λ = b·k points x_i = clip(m + σ·scale·y_i), y_i ~ N(0, C), in b ≥ 2 blocks of k = ⌈λ₀/2⌉
     replayable noise: block j sees one new ξ_j, and the mean of its values is subtracted; it sees several, and the
     mean over them counts, where few ξ tell points apart (values 0 and 1, rare events)
     rank all values together; equal ones share their weights, failed ones come last
     noise: a value that more than half of the points have tells nothing; weights are counted from theirs
     m, σ, C by the usual update of CMA-ES, from the clipped points
     halves A and B of the blocks: a = μ_eff·⟨step of A, step of B⟩ in the frame of C^(−1/2)
     agreement e = 0.8 e + 0.2 a; where it is low noise decides: b grows; where it is high: b shrinks
3. answer, 5 % of the budget on common fresh samples: the mean of m over the last third of the run, unless the last
   m or x0 is lower by a standard error; without noise the lowest point seen
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log, sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.methods.initial_sigma import InitialSigma, widths
from goldstein.methods.method import START, Context, Method, MethodState, Needs, Step, any_iterate, within
from goldstein.norms import norm, root_mean_square
from goldstein.oracle import Array, Query
from goldstein.projection import Box
from goldstein.state import LATER

MAX_FULL_D = 60  # variables up to which the whole covariance matrix is learnt; beyond that its diagonal
MIN_POPULATION = 4  # points of a generation that is cut by the end of the budget
FORGET = 0.8  # weight of the past in the mean agreement
TARGET_AGREEMENT_FRESH = 0.65  # share of μ_eff(λ₀) that the agreement should have: noise that cannot be replayed
TARGET_AGREEMENT = 0.15  # the same where it can, or where there is none
TOLERATED = 0.8  # the population stays as it is at this share of the wanted agreement
GROWTH = 0.15  # log of the largest factor by which the population grows in a generation
DECLINE = 0.3  # and of that by which it shrinks
HOLD = 0.5  # share of a decline of σ that is not taken where noise decides, lest σ shrink before m has arrived
MAX_GENERATION = 0.05  # a generation is at most this share of the evaluations made
AVERAGED = 1 / 3  # the means of this last share of the run are averaged
SELECTION_SHARE = 0.05  # share of the budget that chooses the answer
MIN_SIGMA = 1e-290  # σ in coordinates, so that it can be divided by
INFORMATIVE = 0.4  # share of the ξ that must tell the points of a block apart; where fewer do, a block takes several ξ
INFORMATIVE_PAIRS = 0.3  # the same for the pairs that chose the initial σ, from which the first number of ξ follows
LARGEST_RANGE = 1e150  # its square is a number
REMEMBER = 0.95  # weight of the past in that share
MAX_TWO_BLOCKS = 0.02  # two blocks with all of their ξ may cost this share of the budget, or `MAX_GENERATION`
MIN_SQ_LENGTH = 1e-8  # squared length of a step that is 0 by rounding, or by clipping
MIN_EIGENVALUE_RATIO = 1e-14  # ratio of the eigenvalues of C at most


class Constants:
    """The constants of CMA-ES for d variables and λ points; equations are those of Hansen's tutorial (2016).

    `weights` are those of recombination, best point first: positive for the better half, then 0, their sum is 1.
    `negative_weights` are those of the worse half in the update of C, only for a full matrix.
    """

    def __init__(self, d: int, size: int) -> None:
        raw = log((size + 1) / 2) - np.log(np.arange(1, size + 1))  # eq. (49)
        positive = np.maximum(raw, 0.0)
        self.weights = positive / positive.sum()  # eq. (53), first case
        self.mu_eff = mu_eff = float(1 / (self.weights**2).sum())  # eq. (8)
        self.c_sigma = (mu_eff + 2) / (d + mu_eff + 5)  # eq. (55)
        self.d_sigma = 1 + 2 * max(0.0, sqrt((mu_eff - 1) / (d + 1)) - 1) + self.c_sigma  # eq. (55)
        self.c_c = (4 + mu_eff / d) / (d + 4 + 2 * mu_eff / d)  # eq. (56)
        faster = 1.0
        if d > MAX_FULL_D:
            faster = (d + 2) / 3  # a diagonal has fewer numbers to learn (Ros and Hansen 2008, section 3)
        self.c_1 = faster * 2 / ((d + 1.3) ** 2 + mu_eff)  # eq. (57)
        rate = 2 * (0.25 + mu_eff + 1 / mu_eff - 2) / ((d + 2) ** 2 + mu_eff)
        self.c_mu = min(1 - self.c_1, faster * rate)  # eq. (58)
        self.chi_n = sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d**2))  # mean of ‖N(0, I)‖
        self.negative_weights = np.zeros(size)
        if d <= MAX_FULL_D:
            negative = np.minimum(raw, 0.0)
            total = -float(negative.sum())
            mu_eff_minus = total**2 / float((negative**2).sum())
            share = min(
                1 + self.c_1 / self.c_mu,  # eq. (50)
                1 + 2 * mu_eff_minus / (mu_eff + 2),  # eq. (51)
                (1 - self.c_1 - self.c_mu) / (d * self.c_mu),  # eq. (52)
            )
            self.negative_weights = negative * (share / total)  # eq. (53), second case


@dataclass
class CMAState(MethodState):
    """State of `BlockCMA`; `x` is the lowest point seen without noise, else the mean."""

    phase: str = "start"  # "start" (f at x0, only without noise), "initial sigma" or "search"
    origin: Array = LATER  # x0
    mean: Array = LATER  # m
    scale: Array = LATER  # the length scale of each coordinate
    sigma: float = 0.0  # σ, in multiples of `scale`
    initial_sigma: InitialSigma = LATER
    covariance: Array = LATER  # C, or its diagonal, in multiples of `scale`
    root: Array = LATER  # C^(1/2)
    inverse_root: Array = LATER  # C^(−1/2)
    p_sigma: Array = LATER
    p_c: Array = LATER
    blocks: float = 2.0  # b, which is rounded for use
    agreement: float = 1.0  # e, in parts of the wanted one
    average: Array = LATER  # mean of the means over the last third
    average_evals: float = 0.0  # how many values are behind it
    values_differ: bool = False  # values of a generation have once differed (of a block, where ξ can be replayed)
    seeds: float = 1.0  # ξ that each block sees, which is rounded for use
    mean_range: float = 0.0  # running mean of how far the scores of a block lie apart
    mean_sq_range: float = 0.0  # and of its square


@dataclass
class Generation:
    """A generation once it is ranked."""

    constants: Constants
    scores: Array
    block: npt.NDArray[np.int64]
    weights: Array
    negative_weights: Array
    mu_eff: float  # of the weights, 0 where all are 0
    expected_mu_eff: float  # by which agreement is judged
    y: Array  # shape (λ, d): (x_i − m)/σ
    white: Array  # C^(−1/2) y
    step: Array  # shape (d,): ⟨y⟩_w


@dataclass(frozen=True)
class BlockCMA(Method):
    """CMA-ES in blocks: for simulators with jumps, and for noise that cannot be replayed.

    Only the order of values counts, so jumps do no harm; no two values need the same noise, but blocks of points see
    the same ξ where it can be replayed. How far to look at first, and how many points a generation needs against
    noise, are found from the values themselves. An iteration is a generation, which is one query.

    Parameters
    ----------
    sigma : float, optional
        First standard deviation of the points, in multiples of `scale`; None: from counted probes.
    population : int, optional
        Points in a generation; None: 4 + 3 ln d and more, as noise demands.
    scale : float, optional
        Length that matters, the same for all coordinates (see `x_scale` of `minimize` for several). None: the width of
        the box where there is one, else the root mean square of x0 (1 if x0 = 0).

    Notes
    -----
    The share of the run that is over decides which means are averaged, so `max_evals` (or `max_iter`) must be the real
    one. Runs without noise do not change when values are transformed by an increasing function.

    One ξ for a whole generation would be biased: it solves the problem of the median ξ. With a ξ for each block and the
    mean of the block subtracted, ranks compare points across ξ.

    References
    ----------
    Hansen (2016). The CMA evolution strategy: a tutorial. arXiv:1604.00772.
    Ros, Hansen (2008). A simple modification in CMA-ES achieving linear time and space complexity. PPSN.

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> def steps(x):
    ...     return np.abs(np.floor(x) - 7).sum()
    >>> res = gs.minimize(steps, np.zeros(3), gs.BlockCMA(), max_evals=3000, rng=0)
    >>> float(res.fun)
    0.0
    """

    sigma: float | None = None
    population: int | None = None
    scale: float | None = None
    name: ClassVar[str] = "cma"

    def __post_init__(self) -> None:
        arguments.check(self, arguments.optional_positive, "sigma", "scale")
        arguments.check(self, arguments.optional_count, "population", least=MIN_POPULATION)

    @property
    def needs(self) -> Needs:
        return Needs(
            horizon=True,
            output="choice",
            candidates=3,
            tie_break="first",
            selection_share=SELECTION_SHARE,
            random_stop=any_iterate,
        )

    def init(self, x: Array, context: Context) -> CMAState:
        d = x.size
        state = CMAState(x, origin=x, mean=x, average=x, scale=self._scales(x, context))
        state.initial_sigma = InitialSigma.plan(context, self._budget(d, context))
        state.sigma = self.sigma or state.initial_sigma.default
        identity = np.eye(d) if d <= MAX_FULL_D else np.ones(d)
        state.covariance = state.root = state.inverse_root = identity
        state.p_sigma = state.p_c = np.zeros(d)
        if context.noisy:
            state.phase = self._first_phase(state)
        return state

    def ask(self, state: CMAState, context: Context, limit: int | None) -> Query | None:
        if state.phase == "start":
            return Query(state.origin[None].copy())
        if state.phase == "initial sigma":
            return within(state.initial_sigma.ask(state.origin, state.scale, context), limit)
        whole = self._size(state)
        size = whole if limit is None else min(whole, limit)
        return self._generation(state, context, size, size < whole) if size >= MIN_POPULATION else None

    def tell(self, state: CMAState, context: Context, query: Query, values: Array) -> Step:
        incumbent = context.facts.incumbent
        if not context.noisy and incumbent.x is not None:
            state.x = incumbent.x
        if state.phase == "start":
            failed = not np.isfinite(values[0])  # then the smallest initial σ would fail as well
            state.phase = "search" if failed else self._first_phase(state)
            return self._make_step(state, context, None, 0)
        if state.phase == "initial sigma":
            sigma = state.initial_sigma.tell(context, query, values)
            if sigma is not None:
                state.sigma = sigma
                state.phase = "search"
                if context.sample is not None:
                    seeds = INFORMATIVE_PAIRS / state.initial_sigma.share(sigma)
                    state.seeds = self._affordable(state, context.after(query), seeds)
            return self._make_step(state, context, None, 0)
        previous = state.x
        self._evolve(state, context, query, values)
        state.nit += 1
        if context.noisy:
            state.x = state.mean
        return self._make_step(state, context, previous, 1)

    def _first_phase(self, state: CMAState) -> str:
        return "initial sigma" if self.sigma is None and state.initial_sigma.pairs else "search"

    def _budget(self, d: int, context: Context) -> int | None:
        return context.planned_evals(2 * _block_size(d))

    def _scales(self, x: Array, context: Context) -> Array:
        """Return the length that matters in each coordinate."""
        if self.scale is not None:
            return np.full(x.size, self.scale)
        typical = root_mean_square(x) or 1.0
        if not isinstance(context.project, Box):
            return np.full(x.size, typical)
        width = np.broadcast_to(widths(context.project), x.shape)
        return np.where(np.isfinite(width) & (width > 0), width, typical)

    def _size(self, state: CMAState) -> int:
        if self.population is not None:
            return self.population * _seeds(state)
        return max(2, round(state.blocks)) * _block_size(state.x.size) * _seeds(state)

    def _generation(self, state: CMAState, context: Context, size: int, cut: bool) -> Query:
        """Draw a generation, each block with ξ of its own, turn after turn; all points lie in the allowed set."""
        seeds = min(_seeds(state), size // MIN_POPULATION) if cut else _seeds(state)
        size //= seeds
        block = _blocks(size, state.x.size)
        y = _times(state.root, context.rng.normal(size=(size, state.x.size)))  # eqs. (38), (39)
        points = context.all_projected(state.mean + state.sigma * state.scale * y)  # eq. (40)
        samples = None
        if context.sample is not None:
            number = int(block[-1]) + 1
            samples = context.sample(context.rng, number * seeds)
            samples = np.concatenate([samples[turn * number :][block] for turn in range(seeds)])
            points = np.concatenate([points] * seeds)
        return Query(points, samples, aux=seeds, truncated=cut)

    def _evolve(self, state: CMAState, context: Context, query: Query, values: Array) -> None:
        """Move the mean, the step size and the covariance on; a generation that failed altogether changes nothing."""
        usable = np.isfinite(values)
        if not usable.any():
            return
        after = context.after(query)
        with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
            state.value = float(values[usable].mean())
        generation = self._rank(state, context, query, np.where(usable, values, np.inf))
        constants = generation.constants
        previous = state.mean
        state.mean = context.projected(previous + state.sigma * state.scale * generation.step, 0.0)  # eq. (42)
        state.step_size = state.sigma
        state.grad_norm = norm(state.mean - previous)
        self._adapt_population(state, after, generation)
        if generation.mu_eff:
            c_sigma = constants.c_sigma
            gain = sqrt(c_sigma * (2 - c_sigma) * generation.mu_eff)
            state.p_sigma = (1 - c_sigma) * state.p_sigma + gain * (generation.weights @ generation.white)  # eq. (43)
            self._adapt_covariance(state, generation)
            self._adapt_sigma(state, constants, context.noisy)
        self._leave_plateau(state, context, generation, values[usable])
        over = after.progress(state.nit + 1)
        if over is not None and over > 1 - AVERAGED:
            state.average_evals += len(query)
            state.average = state.average + (len(query) / state.average_evals) * (state.mean - state.average)
        else:
            state.average = state.mean

    def _rank(self, state: CMAState, context: Context, query: Query, scores: Array) -> Generation:
        d = state.x.size
        seeds = query.aux
        size = len(query) // seeds
        block = _blocks(size, d)
        constants = Constants(d, size)
        if context.sample is not None:
            scores = mean_scores([subtract_block_means(turn, block) for turn in scores.reshape(seeds, size)])
            self._adapt_seeds(state, context.after(query), scores, block)
        usable = np.isfinite(scores)
        weights = share_weights(constants.weights, scores)
        weights[~usable] = 0.0
        weights /= weights.sum()
        negative_weights = share_weights(constants.negative_weights, scores)
        background = majority_tie(scores) if context.noisy else None
        if background is not None:  # else the mean of points that tell nothing would be a random step
            weights = np.where(usable, weights - weights[background][0], 0.0)
            negative_weights[background] = 0.0
        mu_eff = 1 / float((weights**2).sum()) if weights.any() else 0.0
        expected = constants.mu_eff if background is None else mu_eff
        y = (query.points[:size] - state.mean) / (state.sigma * state.scale)  # of the points as they were clipped
        white = _times(state.inverse_root, y)
        step = weights @ y  # eq. (41)
        return Generation(constants, scores, block, weights, negative_weights, mu_eff, expected, y, white, step)

    def _adapt_sigma(self, state: CMAState, constants: Constants, noisy: bool) -> None:
        length = float(np.linalg.norm(state.p_sigma))
        change = min(1.0, constants.c_sigma / constants.d_sigma * (length / constants.chi_n - 1))  # eq. (44)
        if noisy and change < 0:
            change *= 1 - HOLD * max(_noise_measure(state), 0.0)
        state.sigma *= exp(change)

    def _leave_plateau(self, state: CMAState, context: Context, generation: Generation, values: Array) -> None:
        """Look farther away where values are the same.

        Under noise a value that all points have, whatever their ξ, may be the lowest of few, or lie far away from where
        anything changes; so this is done as long as nothing has differed, or where blocks are flat at levels of their
        own.
        """
        constants = generation.constants
        ordered = np.sort(generation.scores)
        variances = _variances(state)
        state.values_differ = state.values_differ or bool(ordered[0] < ordered[-1])
        flat = ordered[0] == ordered[ceil(0.7 * ordered.size) - 1]
        if context.noisy and state.values_differ:
            flat = flat and context.sample is not None and values.min() < values.max()
        if flat and state.sigma * float(np.sqrt(variances.mean())) < state.initial_sigma.limit:
            state.sigma *= exp(0.2 + constants.c_sigma / constants.d_sigma)  # Hansen's remedy for a flat function
        state.sigma = min(state.sigma, state.initial_sigma.widest / float(np.sqrt(variances.max())))
        state.sigma = max(state.sigma, MIN_SIGMA / float(state.scale.min()))

    def _adapt_covariance(self, state: CMAState, generation: Generation) -> None:
        constants = generation.constants
        y = generation.y
        d = y.shape[1]
        c_sigma = constants.c_sigma
        expected = sqrt(1 - (1 - c_sigma) ** (2 * (state.nit + 1)))
        h_sigma = float(np.linalg.norm(state.p_sigma)) < (1.4 + 2 / (d + 1)) * constants.chi_n * expected
        c_c = constants.c_c
        gain = sqrt(c_c * (2 - c_c) * generation.mu_eff) if h_sigma else 0.0
        state.p_c = (1 - c_c) * state.p_c + gain * generation.step  # eq. (45)
        weights = np.maximum(generation.weights, 0.0) + generation.negative_weights
        lengths = np.maximum((generation.white**2).sum(axis=1), MIN_SQ_LENGTH)
        scaled = np.where(weights >= 0, weights, weights * d / lengths)  # eq. (46)
        c_1 = constants.c_1
        c_mu = constants.c_mu
        lost = 0.0 if h_sigma else c_1 * c_c * (2 - c_c)
        keep = 1 + lost - c_1 - c_mu * float(weights.sum())
        if state.covariance.ndim == 1:
            update = c_1 * state.p_c**2 + c_mu * (scaled @ (y * y))
        else:
            update = c_1 * np.outer(state.p_c, state.p_c) + c_mu * (y.T * scaled) @ y
        state.covariance = keep * state.covariance + update  # eq. (47)
        self._take_roots(state)

    def _take_roots(self, state: CMAState) -> None:
        """Bring C^(1/2) and C^(−1/2) up to date."""
        if state.covariance.ndim == 1:
            state.covariance = np.maximum(state.covariance, MIN_EIGENVALUE_RATIO * state.covariance.max())
            state.root = np.sqrt(state.covariance)
            state.inverse_root = 1 / state.root
            return
        state.covariance = (state.covariance + state.covariance.T) / 2
        squares, axes = np.linalg.eigh(state.covariance)
        least = MIN_EIGENVALUE_RATIO * squares[-1]
        if squares[0] < least:  # what rounding could make negative
            squares = np.maximum(squares, least)
            state.covariance = (axes * squares) @ axes.T
        lengths = np.sqrt(squares)
        state.root = (axes * lengths) @ axes.T
        state.inverse_root = (axes / lengths) @ axes.T

    def _adapt_population(self, state: CMAState, context: Context, generation: Generation) -> None:
        """Compare the steps of two halves of the blocks: under pure noise they have nothing in common."""
        white = generation.white
        weights = generation.weights
        d = white.shape[1]
        half = generation.block % 2 == 0
        one = 2 * weights[half] @ white[half]
        other = 2 * weights[~half] @ white[~half]
        fresh = context.noisy and context.sample is None
        share = TARGET_AGREEMENT_FRESH if fresh else TARGET_AGREEMENT
        target = TOLERATED * share * Constants(d, _default_size(d)).mu_eff
        agreement = float(one @ other) * generation.expected_mu_eff / target
        state.agreement = FORGET * state.agreement + (1 - FORGET) * agreement
        noise = _noise_measure(state)
        state.blocks *= exp((GROWTH if noise > 0 else DECLINE) * noise)
        most = max(2.0 * _default_size(d), MAX_GENERATION * context.nfev / _seeds(state)) / _block_size(d)
        state.blocks = min(max(state.blocks, 2.0), max(most, 2.0))

    def _adapt_seeds(self, state: CMAState, context: Context, scores: Array, block: npt.NDArray[np.int64]) -> None:
        """Compare how much blocks say: where few of them say all, ranks would be those of the many that say little."""
        ranges = np.array([_range(scores[block == number]) for number in range(int(block[-1]) + 1)])
        if not ranges.max() < LARGEST_RANGE:
            return
        state.mean_range = REMEMBER * state.mean_range + (1 - REMEMBER) * float(ranges.mean())
        state.mean_sq_range = REMEMBER * state.mean_sq_range + (1 - REMEMBER) * float((ranges**2).mean())
        if not state.mean_sq_range:
            return
        share = state.mean_range**2 / state.mean_sq_range / (1 - REMEMBER ** (state.nit + 1))
        state.seeds *= exp(GROWTH if share < INFORMATIVE else -GROWTH)
        state.seeds = self._affordable(state, context, state.seeds)

    def _affordable(self, state: CMAState, context: Context, seeds: float) -> float:
        """Return this many seeds, or as many as two blocks can afford."""
        budget = self._budget(state.x.size, context) or 0
        most = max(MAX_GENERATION * context.nfev, MAX_TWO_BLOCKS * budget) / (2 * _block_size(state.x.size))
        return max(min(seeds, most), 1.0)

    def _make_step(self, state: CMAState, context: Context, iterate: Array | None, completed: int) -> Step:
        candidates = {"last mean": state.mean, START: state.origin}
        if not context.noisy and context.facts.incumbent.x is not None:
            candidates = {"lowest point seen": state.x, **candidates}
        elif state.average_evals:
            candidates = {"mean of the last third": state.average, **candidates}
        return state.make_step(
            iterate, completed, notes={"settings": self._settings_note(state)}, candidates=candidates
        )

    def _settings_note(self, state: CMAState) -> str:
        if state.phase != "search":
            return "CMA-ES was still looking for its first step size."
        generations = "1 generation" if state.nit == 1 else f"{state.nit} generations"
        deviation = state.sigma * root_mean_square(np.sqrt(_variances(state)) * state.scale)
        size = self._size(state)
        return f"CMA-ES: {generations}, the last of about {size} points, standard deviation {deviation:.3g}."


def share_weights(weights: Array, scores: Array) -> Array:
    """Return the weight of each point, the lowest score first; equal scores share theirs."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    sums = np.add.reduceat(weights, np.cumsum(counts) - counts)
    return np.asarray((sums / counts)[place])


def majority_tie(scores: Array) -> npt.NDArray[np.bool_] | None:
    """Return where the score is that more than half of the points have; None if there is none."""
    ordered = np.sort(scores)
    middle = ordered[scores.size // 2]
    same = scores == middle
    return same if np.isfinite(middle) and 2 * same.sum() > scores.size else None


def subtract_block_means(scores: Array, block: npt.NDArray[np.int64]) -> Array:
    """Subtract from each score the mean of the finite ones of its block; the values of a flat block become 0."""
    out = scores.copy()
    for number in range(int(block[-1]) + 1):
        inside = block == number
        fine = inside & np.isfinite(scores)
        if fine.any():
            with np.errstate(over="ignore", invalid="ignore"):
                from_first = scores[fine] - scores[fine][0]
                out[fine] = np.nan_to_num(from_first - from_first.mean(), nan=np.inf)
    return out


def mean_scores(turns: list[Array]) -> Array:
    """Return the mean of the scores of each point; of those that did not fail, if they are the most."""
    if len(turns) == 1:
        return turns[0]
    every = np.stack(turns)
    fine = np.isfinite(every)
    count = fine.sum(axis=0)
    summands = np.where(fine, every, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest float
        mean = summands.sum(axis=0) / np.maximum(count, 1)
    if not np.isfinite(mean).all():
        mean = (summands / np.maximum(count, 1)).sum(axis=0)
    return np.where(2 * count > len(turns), mean, np.inf)


def _range(scores: Array) -> float:
    """Return how far scores lie apart; 0 if all failed."""
    fine = scores[np.isfinite(scores)]
    return float(fine.max()) - float(fine.min()) if fine.size else 0.0


def _seeds(state: CMAState) -> int:
    return max(1, round(state.seeds))


def _noise_measure(state: CMAState) -> float:
    """Return how much the population wants to grow: 1 where noise decides, −1 where the halves agree."""
    return min(max(1 - state.agreement, -1.0), 1.0)


def _variances(state: CMAState) -> Array:
    """Return the diagonal of C."""
    return state.covariance if state.covariance.ndim == 1 else np.diagonal(state.covariance)


def _default_size(d: int) -> int:
    return 4 + int(3 * log(d))  # λ₀, eq. (48)


def _block_size(d: int) -> int:
    return ceil(_default_size(d) / 2)


def _blocks(size: int, d: int) -> npt.NDArray[np.int64]:
    """Return the number of the block of each point: at least two blocks, of about equal size."""
    count = max(2, round(size / _block_size(d)))
    return np.arange(size) * count // size


def _times(root: Array, rows: Array) -> Array:
    """Multiply each row by a symmetric matrix, or by a diagonal one."""
    return rows * root if root.ndim == 1 else rows @ root
