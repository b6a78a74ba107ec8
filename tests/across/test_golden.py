"""Nothing moves by accident: every golden run gives what is recorded; see golden_runs.py."""

import json

import pytest

from tests.golden_runs import RUNS, differences, load, repeat, tag

TAG, RECORDED = load()
SAME_MACHINE = tag() == TAG


@pytest.mark.parametrize("name", RUNS)
def test_a_run_gives_what_is_recorded(name):
    if "jitted" in name or "compiled" in name:
        pytest.importorskip("numba")
    seen = repeat(name)
    for part in differences(RECORDED[name], seen, SAME_MACHINE):
        assert seen.get(part) == RECORDED[name].get(part), part
    assert not differences(RECORDED[name], seen, SAME_MACHINE)


def test_records_and_definitions_match_one_to_one():
    assert list(RECORDED) == list(RUNS)


def altered(part):
    """Return something like `part` that is not equal to it."""
    if isinstance(part, bool):
        return not part
    if isinstance(part, int):
        return part + 1
    if isinstance(part, float):
        return part * (1 + 1e-5) if part else 1e-5
    if isinstance(part, str):
        return part + "!"
    if isinstance(part, dict):
        return {**part, "0": "!"}
    return [*part[:-1], altered(part[-1])] if part else ["!"]


@pytest.mark.parametrize("name", ["GFM linear decay", "resume, two-point", "attack, default"])
def test_every_part_that_is_altered_is_seen(name):
    recorded = RECORDED[name]
    assert differences(recorded, json.loads(json.dumps(recorded)), exact=True) == []
    for part in recorded:
        moved = {**recorded, part: altered(recorded[part])}
        assert differences(recorded, moved, exact=True) == [part]
        if part != "hash":  # of bits, which other machines need not share
            assert differences(recorded, moved, exact=False) == [part]
    assert differences(recorded, {**recorded, "new": 0}, exact=False) == ["new"]


def test_one_bit_is_seen_and_the_seventh_digit_forgiven():
    recorded = RECORDED["GFM linear decay"]
    moved = {**recorded, "fun": recorded["fun"] * (1 + 2**-52)}
    assert moved["fun"] != recorded["fun"]
    assert differences(recorded, moved, exact=True) == ["fun"]
    assert differences(recorded, moved, exact=False) == []
