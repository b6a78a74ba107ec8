"""Warm starts: what one method promises, a wrapper around it keeps."""

import numpy as np
import pytest

import goldstein as gs
from goldstein import Status

pytestmark = pytest.mark.filterwarnings("ignore:The corrections of gfm:RuntimeWarning")
X0 = np.array([3.0, -2.0, 0.5, 4.0])
ORACLE = gs.Deterministic(lambda x: float(abs(x - 1).sum()), grad=lambda x: np.sign(x - 1))
NOISY = gs.FiniteSum(lambda x, i: float(abs(x - 1).sum() + np.sin(i)), 30)
FIRST = gs.GFM(0.05, 0.01)


@pytest.mark.parametrize("second", [gs.INGD(0.5, 0.5), gs.PINGD(0.5, 0.5), gs.CuttingPlane(0.5, 0.5)])
def test_a_warm_start_keeps_the_certificate_of_its_second_phase(second):
    """What the method alone ends with, `res.stationarity`, it ends with after a warm start too."""
    alone = gs.minimize(ORACLE, X0, second, max_evals=4_000, rng=0)
    assert alone.stationarity.answer == "certified"
    res = gs.minimize(ORACLE, X0, gs.WarmStart(FIRST, second, iterations=20), max_evals=4_000, rng=0)
    assert res.status is Status.CRITERION
    assert res.stationarity.answer == "certified"
    assert res.stationarity.bound <= second.epsilon
    assert (res.stationarity.delta, res.stationarity.epsilon) == (second.delta, second.epsilon)


@pytest.mark.parametrize(
    "method",
    [
        gs.WarmStart(gs.O2NC(0.5, 5), gs.O2NC(0.5, 5), iterations=20),
        gs.WarmStart(gs.GFM(0.05, 0.01), gs.O2NC(0.5, 5), iterations=20),
        gs.WarmStart(gs.O2NC(0.5, 5), gs.SINGD(0.5, p=2.0, q=2.0, beta=0.5), iterations=20),
        gs.WarmStart(gs.GFM(0.05, 0.01), gs.WarmStart(gs.GFM(0.05, 0.01), gs.O2NC(0.5, 5), iterations=9), iterations=9),
    ],
    ids=["o2nc-o2nc", "gfm-o2nc", "o2nc-singd", "nested"],
)
def test_a_warm_start_that_sees_no_values_cannot_tell_its_best_iterate(method):
    """Refused as the second phase alone is, since only its iterates may be the answer."""
    with pytest.raises(ValueError, match="best"):
        gs.minimize(ORACLE, X0, gs.O2NC(0.5, 5), output="best", max_evals=500, rng=0)
    with pytest.raises(ValueError, match="best"):
        gs.minimize(ORACLE, X0, method, output="best", max_evals=500, rng=0)


@pytest.mark.parametrize("oracle", [ORACLE, NOISY], ids=["deterministic", "sum"])
@pytest.mark.parametrize("first", [FIRST, gs.OnePhase(0.05, 0.01)], ids=["gfm", "one-phase"])
def test_a_warm_start_answers_by_the_rule_of_its_second_phase(oracle, first):
    """WarmStart(·, OnePhase) answers with the average of the second phase's iterates."""
    method = gs.WarmStart(first, gs.OnePhase(0.05, 0.02), iterations=50)
    by_itself, average, last = (
        gs.minimize(oracle, X0, method, output=output, max_evals=1_000, rng=0) for output in (None, "average", "last")
    )
    np.testing.assert_array_equal(by_itself.x, average.x)
    assert not np.array_equal(by_itself.x, last.x)


def test_the_average_of_a_warm_start_is_that_of_the_second_phase_alone():
    """Followed by hand through ask and tell: the mean of the points that the second phase leaves."""
    method = gs.WarmStart(FIRST, gs.OnePhase(0.05, 0.02), iterations=50)
    run = method.start(X0, rng=0, max_evals=10_000)
    left = []
    for step in range(150):
        query = run.ask()
        if step >= 50:
            left.append(run.x.copy())
        run.tell(query, np.abs(query.points - 1).sum(axis=1))
    res = gs.minimize(ORACLE, X0, method, max_iter=150, max_evals=10_000, rng=0)
    np.testing.assert_allclose(res.x, np.mean(left, axis=0), rtol=1e-12)


@pytest.mark.parametrize("second", ["one-phase", "ingd"])
def test_methods_by_name_keep_what_their_objects_promise(second):
    """Settings from probes forward nothing by hand either: output rule and certificate are those of the method."""
    res = gs.minimize(ORACLE, X0, second, max_evals=4_000, rng=0)
    if second == "ingd":
        assert res.stationarity.answer == "certified"
    else:
        average = gs.minimize(ORACLE, X0, second, output="average", max_evals=4_000, rng=0)
        np.testing.assert_array_equal(res.x, average.x)


# Warm starts: what is said when the second phase never begins, and delta by name


@pytest.mark.parametrize("limit", ["max_evals", "max_iter"])
def test_a_warm_start_says_when_only_its_first_phase_runs(limit, tmp_path):
    method = gs.WarmStart(FIRST, gs.GFM(0.1, 0.01), iterations=160)
    file = tmp_path / "run.journal"
    with pytest.warns(RuntimeWarning, match="first phase of 160 iterations takes the whole run"):
        short = gs.minimize(ORACLE, X0, method, rng=0, journal=file, **{limit: 150})
    assert "first phase of 160 iterations takes the whole run" in short.message
    longer = gs.minimize(ORACLE, X0, method, rng=0, journal=file, **{limit: 1_000})
    assert longer.nit > 160
    assert "takes the whole run" not in longer.message


def test_a_warm_start_with_room_for_both_phases_says_nothing(recwarn):
    for iterations in (None, 100, 140):
        res = gs.minimize(ORACLE, X0, gs.WarmStart(FIRST, gs.GFM(0.1, 0.01), iterations), max_evals=300, rng=0)
        assert "phase" not in res.message
    assert not recwarn.list


@pytest.mark.parametrize("name", ["ws-gfm", "ws-gfm+"])
def test_a_warm_start_by_name_takes_the_delta_of_its_second_phase(name):
    res = gs.minimize(ORACLE, X0, name, options={"delta": 0.123}, max_evals=2_000, rng=0)
    assert res.message.count("delta=0.123,") == 1
    for given, words in (
        ({"delta": -1.0}, "delta must be a positive number, got -1.0"),
        ({"delta": "x"}, "delta must be a positive number, got 'x'"),
        ({"delta": 0.1, "second": FIRST}, "has its own: leave delta out"),
        ({"delta": 0.1, "first": FIRST, "second": FIRST}, "has its own: leave delta out"),
        ({"step_size": 0.1}, "it takes first, second, iterations, delta"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            gs.minimize(ORACLE, X0, name, options=given, max_evals=2_000)
