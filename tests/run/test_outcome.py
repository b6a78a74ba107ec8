"""What a run says in the end: the whole message of each kind of end, and nothing that a terminal would obey."""

import itertools
import re

import numpy as np
import pytest

import goldstein as gs
from goldstein.projection import Simplex
from goldstein.run.outcome import InvalidCertificate, Outcome, Ran, Stage, Text
from goldstein.stop import Target

X0 = np.zeros(2)
GFM = gs.GFM(delta=0.1, step_size=0.05)


def distance(x):
    return float(np.abs(x - 1).sum())


def breaks(error, call=50):
    """Return a function that raises at one of its calls."""
    calls = itertools.count(1)

    def fun(x):
        if next(calls) == call:
            raise error
        return distance(x)

    return fun


def fails_sometimes():
    calls = itertools.count(1)
    return lambda x: np.nan if next(calls) % 5 == 0 else distance(x)


def noisy():
    noise = np.random.default_rng(0)
    return lambda x: distance(x) + noise.normal()


def ill_behaved(x):
    raise ValueError("no \x1b[31msuch\r\npoint\x07")


def minimize(fun, method=GFM, x0=X0, **settings):
    if not {"max_evals", "max_iter"} & settings.keys():
        settings["max_evals"] = 300
    return gs.minimize(fun, x0, method, rng=0, **settings)


MESSAGES = {
    "criterion": (
        lambda: minimize(distance, stop=Target(0.5)),
        "CRITERION",
        "The target value 0.5 is reached.",
    ),
    "budget": (lambda: minimize(distance), "MAX_EVALS", "Evaluation budget used."),
    "iterations": (lambda: minimize(distance, max_iter=20), "MAX_ITER", "Iteration limit reached."),
    "a drawn iterate": (
        lambda: minimize(distance, max_iter=20, output="random"),
        "MAX_ITER",
        "Iteration limit reached. The answer is the iterate after 13 of 20 iterations, drawn before the run.",
    ),
    "failing": (
        lambda: minimize(lambda x: np.nan),
        "FAILING",
        "Most recent evaluations failed (NaN, infinite or a caught exception). All 105 evaluations failed.",
    ),
    "failing with an exception": (
        lambda: minimize(ill_behaved, catch=ValueError),
        "FAILING",
        "Most recent evaluations failed (NaN, infinite or a caught exception). All 105 evaluations failed. "
        "The first error: ValueError: no [31msuch point",
    ),
    "max_fail": (
        lambda: minimize(fails_sometimes(), max_fail=10),
        "FAILING",
        "More than max_fail = 10 evaluations failed. "
        "19.3% of the evaluations failed; if that depends on the point, estimates are biased.",
    ),
    "callback": (lambda: minimize(distance, callback=lambda res: True), "CALLBACK", "Stopped by the callback."),
    "Ctrl-C": (
        lambda: minimize(breaks(KeyboardInterrupt())),
        "INTERRUPTED",
        "Interrupted; this is the result so far.",
    ),
    "time": (
        lambda: minimize(distance, max_time=1e-9),
        "MAX_TIME",
        "Time limit reached; this is the result so far.",
    ),
    "no variables": (
        lambda: minimize(distance, bounds=[(0, 0), (1, 1)], x0=np.array([0.0, 1.0])),
        "FINISHED",
        "All variables are fixed by their bounds, so there is nothing to optimise.",
    ),
    "no limit": (
        lambda: gs.minimize(distance, [0.0], GFM, rng=0),
        "MAX_EVALS",
        "Evaluation budget used. No limit was given, so max_evals was set to 1000·(d + 1) = 2000.",
    ),
    "start outside": (
        lambda: minimize(distance, x0=np.array([3.0, 0.0]), bounds=[(0, 2)] * 2),
        "MAX_EVALS",
        "Evaluation budget used. x0 is outside the bounds, so the run started at the nearest point inside.",
    ),
    "queries outside": (
        lambda: minimize(distance, projection=Simplex(1.0)),
        "MAX_EVALS",
        "Evaluation budget used. Queries may leave the allowed set by delta = 0.1.",
    ),
    "noise": (
        lambda: minimize(noisy(), output="last"),
        "MAX_EVALS",
        "Evaluation budget used. The function gave 2.12573 and 1.8679 at the same point, so it is treated as noise "
        "that cannot be replayed (Unreplayable); if it takes a seed, use Seeded.",
    ),
    "a certificate": (
        lambda: minimize(
            gs.Deterministic(distance, grad=lambda x: np.sign(x - 1)), "ingd", options={"delta": 0.1, "epsilon": 0.5}
        ),
        "CRITERION",
        "A convex combination of gradients within delta = 0.1 of x has norm 3.14e-16 ≤ epsilon = 0.5.",
    ),
}


@pytest.mark.filterwarnings("ignore:The two values of an estimate carry different noise:RuntimeWarning")
@pytest.mark.parametrize("kind", MESSAGES)
def test_the_message_of_each_kind_of_end(kind):
    run, status, message = MESSAGES[kind]
    res = run()
    assert (res.status.name, res.message) == (status, message)


def test_the_message_of_a_run_that_an_exception_ended():
    with pytest.raises(ZeroDivisionError) as caught:
        minimize(breaks(ZeroDivisionError()))
    assert caught.value.result.status is gs.Status.RAISED
    assert caught.value.result.message == "An exception ended the run; this is the result so far."


def test_failures_everywhere_are_all_that_the_default_says_of_the_values():
    """Not that nothing lower was found, and not that estimates are biased."""
    message = minimize(lambda x: np.nan, "auto").message
    assert message.startswith("Most recent evaluations failed (NaN, infinite or a caught exception). auto ran ")
    assert re.search(r" All \d+ evaluations failed\.$", message)
    assert "lower than the start" not in message
    assert "biased" not in message


def test_a_message_says_how_it_ended_then_what_ran_then_what_to_know():
    notes = [Text("Know this."), Stage(2, 300), Ran("It ran."), InvalidCertificate("rounding.")]
    assert Outcome(gs.Status.FINISHED, notes).message == (
        "The method finished, but its certificate is not valid: rounding. "
        "This is stage 2, from the answer after 300 evaluations. It ran. Know this."
    )
    assert Outcome(gs.Status.FINISHED, []).message == "The method completed its schedule."
    assert Outcome(gs.Status.RUNNING, []).message == "Still running."


def test_exceptions_of_the_user_send_nothing_to_the_terminal():
    res = minimize(ill_behaved, catch=ValueError)
    for text in (res.message, *repr(res).split("\n")):
        assert text.isprintable()


def test_the_words_of_a_status_stand_in_the_table_of_minimize():
    rows = re.findall(r"^ *(\d) +([A-Z_]+) +(true|false) +(.*)$", gs.minimize.__doc__, flags=re.MULTILINE)
    told = [status for status in gs.Status if status is not gs.Status.RUNNING]
    assert [(int(number), name, words) for number, name, _, words in rows] == [
        (status.value, status.name, status.words) for status in told
    ]
    assert [success for _, _, success, _ in rows] == ["true"] + ["false"] * (len(told) - 1)
