"""What `benchmarks/coverage.py` found, as committed."""

import json
from pathlib import Path


def test_the_committed_table_covers():
    """The nominal 95 % lie between 90 and 99 % in each cell with a spread; where there is none, U is exact."""
    table = json.loads((Path(__file__).parent.parent / "results" / "coverage.json").read_text())
    assert (table["repetitions"], table["draws"], table["confidence"]) == (1_000, 300, 0.95)
    cells = {(row["kind"], row["d"], row["distance"]): row for row in table["rows"]}
    assert len(cells) == 4 * 3 * 5
    for (kind, _, distance), row in cells.items():
        if row["degenerate"]:
            assert row["inside"] == 100
            assert row["error"] < 1e-6
            assert kind != "noise"
            assert kind != "values" or distance == 0  # gradients and whole frames are equal out of the kink's reach too
        else:
            assert 90 <= row["inside"] <= 99
    assert all(cells["values", d, 0.0]["degenerate"] for d in (2, 10, 100))
