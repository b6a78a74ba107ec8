"""The records of a run: their number, and what stays of those that are dropped."""

import numpy as np
import pytest

from goldstein.oracle import Answer
from goldstein.run.history import RECORDS, Recorder


def recorded(max_evals, values):
    recorder = Recorder.over(max_evals)
    for nfev, value in enumerate(values, 1):
        recorder.add(Answer(np.array([value])).tally())
        if nfev >= recorder.due:
            rest = dict.fromkeys(("ngev", "nit", "gradient_norm", "step", "nfail", "monitor"), 0)
            recorder.record(nfev=nfev, **rest)
    return recorder


@pytest.mark.parametrize("max_evals", [None, 5_000])
def test_the_mean_values_of_a_run_are_those_of_all_its_values(max_evals):
    """Also of the values that came in for a record that was dropped since."""
    values = np.random.default_rng(0).exponential(size=5_000)
    columns = recorded(max_evals, values).columns
    assert RECORDS / 2 <= len(columns["nfev"]) <= 2 * RECORDS
    counts = np.diff(columns["nfev"], prepend=0)
    assert counts @ columns["fun"] == pytest.approx(values[: columns["nfev"][-1]].sum())


def test_records_of_a_run_that_continues_are_thinned_by_the_same_rule():
    values = np.random.default_rng(0).exponential(size=3_000)
    recorder = recorded(3_000, values)
    for max_evals in (6_000, 12_000, 24_000):
        recorder = recorder.over_again(max_evals)
    columns = recorder.columns
    counts = np.diff(columns["nfev"], prepend=0)
    assert counts @ columns["fun"] == pytest.approx(values[: columns["nfev"][-1]].sum())
    assert recorder.due == columns["nfev"][-1] + 24_000 / RECORDS
