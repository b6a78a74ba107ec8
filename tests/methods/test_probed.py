"""Methods by name: which settings follow from probes, and which from those that were given."""

import numpy as np
import pytest

import goldstein as gs
from goldstein import report
from goldstein.steps import LinearDecay


class Spy:
    """Σ|x|, which remembers where it was evaluated."""

    def __init__(self):
        self.points = []

    def __call__(self, x):
        self.points.append(x.copy())
        return float(np.abs(x).sum())


@pytest.mark.parametrize("name", ["gfm", "gfm+", "one-phase", "ws-gfm", "ws-gfm+"])
@pytest.mark.parametrize(("delta", "box"), [(0.5, (0.0, 0.1)), (1e9, (1e-9, 2e-9)), (0.06, (0.0, 0.1))])
def test_a_delta_without_room_in_the_bounds_is_refused_before_the_first_evaluation(name, delta, box):
    spy = Spy()
    with pytest.raises(ValueError, match=f"{name.replace('+', '[+]')} asks for values up to delta = .*smaller delta"):
        gs.minimize(spy, [box[1]], name, options={"delta": delta}, bounds=[box], max_evals=300, rng=0)
    assert not spy.points


@pytest.mark.parametrize("name", ["gfm", "gfm+", "one-phase", "ws-gfm", "two-point"])
@pytest.mark.parametrize("width", [2.3e-16, 1e-15])
def test_bounds_so_narrow_that_rounding_fills_them_are_refused(name, width):
    spy = Spy()
    with pytest.raises(ValueError, match=r'no room for any delta.*"auto"'):
        gs.minimize(gs.Deterministic(spy), [1.0], name, bounds=[(1.0, 1.0 + width)], max_evals=300, rng=0)
    assert not spy.points


@pytest.mark.parametrize("name", ["gfm", "ws-gfm"])
def test_a_delta_with_room_keeps_to_the_bounds(name):
    spy = Spy()
    res = gs.minimize(spy, [0.1], name, options={"delta": 0.04}, bounds=[(0.0, 0.1)], max_evals=300, rng=0)
    points = np.array(spy.points)
    assert points.min() >= 0
    assert points.max() <= 0.1
    assert "may leave" not in res.message


def floors(x, seed):
    return np.floor(3 * np.abs(x - 1 - np.random.default_rng(seed).normal(size=x.size))).sum()


@pytest.mark.parametrize("name", ["gfm", "one-phase"])
def test_steps_by_name_follow_from_the_delta(name):
    """The jumps of F look like kinks at every scale below δ; a run with that δ has to travel farther than that."""
    x0 = np.full(20, -1.0)

    def mean(x):
        return np.mean([floors(x, seed) for seed in range(300)])

    by_hand = gs.minimize(gs.Seeded(floors), x0, gs.GFM(0.5, LinearDecay(0.01)), max_evals=8000, rng=0)
    res = gs.minimize(gs.Seeded(floors), x0, name, options={"delta": 0.5}, max_evals=8000, rng=0)
    assert mean(x0) > 105
    assert mean(res.x) < 1.15 * mean(by_hand.x)


@pytest.mark.parametrize(("name", "kind"), [("gfm", gs.GFM), ("gfm+", gs.GFMPlus), ("ws-gfm", gs.WarmStart)])
def test_the_method_of_a_result_is_the_one_that_ran_with_its_settings(name, kind, tmp_path):
    def stop(intermediate_result):
        return intermediate_result.nfev >= 1000

    keys = {"options": {"directions": "iid"} if name != "ws-gfm" else None, "max_evals": 2000, "rng": 0}
    res = gs.minimize(Spy(), np.ones(3), name, **keys)
    assert type(res.method) is kind
    assert repr(res.method) in res.message
    assert repr(res.method) in {fact.text for fact in report.summary_of(res).settings}
    gs.minimize(Spy(), np.ones(3), name, callback=stop, journal=tmp_path / "run.journal", **keys)
    assert gs.minimize(Spy(), np.ones(3), name, journal=tmp_path / "run.journal", **keys).method == res.method


def test_a_run_that_ends_while_it_probes_has_the_method_that_was_asked_for():
    res = gs.minimize(Spy(), np.ones(3), "gfm", max_evals=100, rng=0, callback=lambda intermediate_result: True)
    assert res.method.name == "gfm"
