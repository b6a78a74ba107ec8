"""What `benchmarks/coverage.py` found, as committed."""

import json
from pathlib import Path


def test_the_committed_table_covers():
    """The nominal 95 % lie between 90 and 99 % in each cell with a spread; without one U is exact, but for one cell."""
    table = json.loads((Path(__file__).parents[2] / "results" / "coverage.json").read_text())
    assert (table["repetitions"], table["draws"], table["confidence"]) == (1_000, 300, 0.95)
    cells = {(row["kind"], row["d"], row["distance"]): row for row in table["rows"]}
    assert len(cells) == 4 * 3 * 5
    for (kind, d, distance), row in cells.items():
        if row["degenerate"]:
            unseen = (kind, d, distance) == ("gradients", 100, 0.5)  # a point in 10⁷ lies beyond the kink, none drawn
            assert row["inside"] == (0 if unseen else 100)
            assert row["error"] < (2e-7 if unseen else 1e-14)
            assert row["upper"] == 0
            assert kind != "noise"
            assert kind != "values" or distance == 0  # gradients and whole frames are equal out of the kink's reach too
        else:
            assert 90 <= row["inside"] <= 99
    assert all(cells["values", d, 0.0]["degenerate"] for d in (2, 10, 100))
