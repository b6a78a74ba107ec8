"""The end of a run: which candidate is the answer."""

import numpy as np
import pytest

import goldstein as gs
from goldstein.run.final_estimate import choose, choose_first


def test_a_mean_over_the_whole_sum_needs_no_standard_errors():
    scattered = np.array([-10.0, 10.5, -10.2, 9.0])
    judged = {"last": scattered - 1e-9, "start": np.zeros(4)}
    assert choose(judged, exact=False) == "start"
    assert choose(judged, exact=True) == "last"
    assert choose({"last": np.full(4, 1e-9), "start": np.zeros(4)}, exact=True) == "start"


@pytest.mark.parametrize("seed", range(5))
def test_a_small_finite_sum_never_gets_its_start_back_when_the_answer_is_exactly_better(seed):
    centres = np.array([-30.0, -1.0, 0.0, 1.0, 2.0, 40.0])  # f falls by little while its parts change by much
    oracle = gs.FiniteSum(lambda x, i: abs(x[0] - centres[i]), centres.size)
    res = gs.minimize(oracle, np.array([1.5]), max_evals=3_000, rng=seed)
    assert res.fun_stderr == 0
    assert res.fun < np.abs(1.5 - centres).mean()


def test_the_first_candidate_is_the_answer_unless_another_is_lower_by_a_standard_error():
    noise = np.array([-2.0, 1.0, 0.5, 0.5])
    start = np.zeros(4)
    assert choose_first({"average": 0.1 + noise, "last": start, "start": 1 + start}, exact=False) == "average"
    assert choose_first({"average": 1.0 + noise, "last": start, "start": 1 + start}, exact=False) == "last"
    assert choose_first({"average": 1.0 + noise, "last": start, "start": start - 1}, exact=False) == "start"
    assert choose_first({"average": 0.1 + noise, "last": start, "start": 1 + start}, exact=True) == "last"
    assert choose_first({"average": np.full(4, np.nan), "last": start, "start": 1 + start}, exact=False) == "last"
    assert choose_first({"average": np.full(4, np.nan), "last": start, "start": start}, exact=False) == "start"
    assert choose_first({"average": np.full(4, np.nan), "start": np.full(4, np.nan)}, exact=False) == "start"


def test_heavy_tails_do_not_choose_when_they_cannot_be_replayed():
    rng = np.random.default_rng(0)
    low = rng.normal(size=400)
    high = 1 + rng.normal(size=400)
    low[:3] = 1e6  # which hides the difference of the means
    judged = {"average": high, "last": low, "start": high + 0.1}
    assert choose_first(judged, exact=False) == "average"
    assert choose_first(judged, exact=False, cut=True) == "last"


def test_a_rare_loss_is_not_clipped_away():
    """A loss in 4 % of the calls lies beyond the quantiles that compare candidates, and counts all the same."""
    rng = np.random.default_rng(0)
    risky = np.where(rng.random(500) < 0.04, 4e4, 0.5)
    start = 1.16 + rng.normal(size=500)
    assert choose_first({"mean": risky, "start point": start}, exact=False, cut=True) == "start point"


def test_the_estimate_of_fresh_noise_is_not_too_low_by_the_choice_of_the_answer():
    """The mean of 100 z has a standard error of about 0.11; chosen and reported on the same values it is −0.45.

    An unbiased estimate fails this in less than one of a hundred sets of seeds.
    """
    z = []
    for seed in range(100):
        noise = np.random.default_rng(1000 + seed)
        oracle = gs.Unreplayable(lambda x, noise=noise: np.abs(x - 1).sum() + noise.normal())
        res = gs.minimize(oracle, np.zeros(3), max_evals=600, rng=seed)
        z.append((res.fun - np.abs(res.x - 1).sum()) / res.fun_stderr)
    assert abs(np.mean(z)) < 0.28
    assert np.mean(np.abs(z) > 2) < 0.15
