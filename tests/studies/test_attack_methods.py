"""What the attack study runs: grids, units, steps, and the ordering of the public code."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import goldstein as gs
from studies.attack import methods as attack_methods
from studies.attack.methods import PublicOrdering


def test_the_grids_are_those_of_the_paper_and_one_wider_for_both():
    steps, sizes = (0.5, 0.05, 0.005), (500, 1000, 2000)
    rows = {
        (family, grid): [tuple(setting.values()) for setting in attack_methods.settings(family, grid)]
        for family, grid in product(("GFM", "GFM+"), ("paper", "wide"))
    }
    assert rows["GFM", "paper"] == list(product(sizes, steps))
    assert rows["GFM+", "paper"] == list(product(sizes, (10, 20, 50), steps))
    for family in ("GFM", "GFM+"):
        assert set(rows[family, "paper"]) < set(rows[family, "wide"])
        assert min(rows[family, "wide"])[0] == 50
        assert max(row[-1] for row in rows[family, "wide"]) == 5
    assert {(row[0], row[2]) for row in rows["GFM+", "wide"]} == set(rows["GFM", "wide"])
    method = attack_methods.gfm_plus({"b'": 500, "m": 20, "eta": 0.05})
    assert (method.epoch_length, method.batch_size, method.large_batch_size) == (20, 25, 500)
    assert attack_methods.gfm_plus({"b'": 50, "m": 20, "eta": 0.05}).batch_size == 2
    assert attack_methods.gfm({"b'": 500, "eta": 0.05}).batch_size == 500


def test_units_are_those_of_the_public_code():
    """One step of GFM in pixels is one step on normalised pixels: same directions, δ and η as the paper writes them."""
    mean, std, d, b = 0.1307, 0.3081, 784, 30
    slope = np.random.default_rng(1).standard_normal(d)
    x0, eta, delta = np.full(d, 0.5), 0.05, 0.01

    def normalised(y):  # a curved function of normalised pixels
        return np.sin(y @ slope / 10) + 0.1 * (y * y).sum(axis=-1)

    method = attack_methods.gfm({"b'": b, "eta": eta})
    run = method.start(x0, rng=3)
    query = run.ask()
    run.tell(query, normalised((query.points - mean) / std))

    w = (query.points[:b] - query.points[b:]) / (2 * method.delta)
    y0 = (x0 - mean) / std
    difference = normalised(y0 + delta * w) - normalised(y0 - delta * w)
    y1 = y0 - eta * d / (2 * delta) * (difference @ w) / b
    assert run.x == pytest.approx(mean + std * y1, rel=1e-9)
    assert np.abs(run.x - x0).max() > 1e-4
    assert method.delta == pytest.approx(0.003081)
    assert attack_methods.step_in_pixels(0.5) == pytest.approx(0.5 * 0.09492561)


def test_the_step_is_halved_as_in_the_paper_and_not_below_the_public_floor():
    rule = attack_methods.step_rule(0.5)
    memory = rule.init()
    sizes = [rule.size(memory, nit, None, 1.0, 1.0) for nit in range(200)]
    assert sizes[9] == sizes[0] == pytest.approx(0.3081**2 * 0.5)
    assert sizes[10] == sizes[0] / 2
    assert sizes[-1] == pytest.approx(0.3081**2 * 0.005)
    rule = attack_methods.step_rule(0.005)
    memory = rule.init()
    assert {rule.size(memory, nit, None, 1.0, 1.0) for nit in range(50)} == {0.3081**2 * 0.005}


def test_the_corrections_of_the_public_ordering_are_exactly_zero_and_those_of_gfm_plus_are_not():
    def follow(method):
        run, estimates, costs = method.start(np.ones(8), rng=0), [], []
        for _ in range(2 * method.epoch_length):
            query = run.ask()
            costs.append(len(query))
            noise = np.random.default_rng(len(costs)).normal(0, 1e-3, len(query))  # values that differ by position
            run.tell(query, np.abs(query.points).sum(axis=1) ** 1.5 + noise)
            estimates.append(run.state.v)
        return estimates, costs

    setting = {"b'": 12, "m": 4, "eta": 0.5}
    public, costs = follow(attack_methods.public(setting))
    correct, same = follow(attack_methods.gfm_plus(setting))
    assert costs == same == [24, 12, 12, 12] * 2  # 2b' and 4b: a zero is charged like a correction
    for t in range(8):
        if t % 4:
            assert (public[t] == public[t - 1]).all()
            assert not (correct[t] == correct[t - 1]).any()
    assert not (public[4] == public[3]).any()
    assert (public[0] == correct[0]).all()
    assert issubclass(PublicOrdering, gs.GFMPlus)
    assert PublicOrdering not in gs.methods.METHODS.values()


def test_the_public_ordering_asks_for_the_same_rows_twice():
    run = attack_methods.public({"b'": 6, "m": 3, "eta": 0.5}).start(np.ones(5), rng=0)
    for t in range(6):
        query = run.ask()
        if t % 3:
            half = len(query) // 2
            assert (query.points[:half] == query.points[half:]).all()
        run.tell(query, np.abs(query.points).sum(axis=1))
