"""The simulation of a thousand workers: what it must give where that is known, and its tables in docs/scale.md."""

import json

import numpy as np
import pytest

from benchmarks.thousand_workers import DOCS, RESULTS, Cost, speed_up, spread, tables

FREE = Cost(0.0, 0.0, 0.0)


@pytest.mark.parametrize("rows", [1, 7, 10, 20, 25])
def test_rows_of_one_length_and_no_cost_take_whole_rounds(rows):
    rounds = -(-rows // 10)
    assert speed_up([rows] * 3, FREE, 1.0, "even", workers=10) == pytest.approx(rows / rounds)


def test_one_driver_hands_out_so_many_parts_a_second():
    slow_driver = Cost(0.0, 0.01, 0.0)
    assert speed_up([5000], slow_driver, 0.5, "even", workers=1000) == pytest.approx(50, rel=0.02)


def test_latency_and_the_time_of_a_query_are_waited_for():
    assert speed_up([10] * 4, Cost(0.5, 0.0, 0.5), 1.0, "even", workers=10) == pytest.approx(5.0)


def test_a_round_waits_for_its_slowest_row():
    rng = np.random.default_rng(0)
    for kind in ("lognormal", "stragglers"):
        take = spread(kind, 2.0, rng)
        times = np.array([take(1) for _ in range(20_000)])
        assert times.mean() == pytest.approx(2.0, rel=0.03)  # more than four standard errors
        found = speed_up([100] * 200, FREE, 2.0, kind, workers=100)
        slowest = times.reshape(-1, 100).max(axis=1).mean()
        assert found == pytest.approx(100 * 2.0 / slowest, rel=0.1)


def test_a_vectorised_function_gets_one_part_a_worker():
    slow_driver = Cost(0.0, 0.01, 0.0)
    assert speed_up([4000], slow_driver, 0.1, "even", workers=100, evenly=True) > 75
    assert speed_up([4000], slow_driver, 0.1, "even", workers=100) < 11


def test_the_tables_are_those_of_the_results():
    text = DOCS.read_text()
    for name, table in tables(json.loads(RESULTS.read_text())).items():
        assert f"<!-- {name} -->\n{table}\n<!-- end -->" in text
