"""Every argument is checked in one place: what is taken comes back in plain form, what is not is said in a sentence."""

from fractions import Fraction

import numpy as np
import pytest

import goldstein as gs
from goldstein import arguments
from goldstein.attack import FixedRows, SignAveraging, attack
from studies.problems import l1

NO_NUMBERS = [True, np.True_, "1", None, 1j, np.complex128(1), [1.0], np.ones(1), np.ma.masked, np.ma.array(1.0)]
GFM = gs.GFM(0.1, 0.1)


def value(x):
    return float(np.abs(x).sum())


def run(**keys):
    return gs.minimize(value, keys.pop("x0", np.ones(2)), GFM, max_evals=20, rng=0, **keys)


@pytest.mark.parametrize("given", [2, 2.0, np.float32(2), np.int8(2), np.array(2.0), Fraction(2)], ids=repr)
def test_a_number_of_any_kind_comes_back_as_a_float(given):
    assert type(arguments.positive("delta", given)) is float
    assert arguments.positive("delta", given) == 2


@pytest.mark.parametrize("given", [5, np.int64(5), np.uint8(5), np.array(5)], ids=repr)
def test_a_count_of_any_kind_comes_back_as_an_int(given):
    assert type(arguments.count("n", given)) is int
    assert arguments.count("n", given) == 5


@pytest.mark.parametrize("given", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_neither_a_number_nor_a_count_nor_a_seed(given):
    for check in (arguments.number, arguments.positive, arguments.share, arguments.count):
        with pytest.raises(TypeError, match=r"^delta must be .*, got .*\.$"):
            check("delta", given)
    if given is not None:
        with pytest.raises(TypeError, match=r"^rng must be a seed .*\.$"):
            arguments.generator(given)


@pytest.mark.parametrize(
    ("check", "given", "sentence"),
    [
        (arguments.positive, -1, "delta must be a positive number, got -1."),
        (arguments.positive, np.inf, "delta must be a positive number, got inf."),
        (arguments.positive, 10**400, "delta must be a positive number, got 1000"),
        (arguments.number, np.nan, "delta must be a number, got nan."),
        (arguments.optional_positive, 0, "delta must be a positive number or None, got 0."),
        (arguments.not_negative, -1, "delta must be a finite number of at least 0, got -1."),
        (arguments.share, 1, "delta must be a number between 0 and 1, got 1."),
        (arguments.count, 0, "delta must be a whole number of at least 1, got 0."),
        (arguments.optional_count, 0, "delta must be a whole number of at least 1 or None, got 0."),
    ],
)
def test_the_wrong_size_is_a_value_error_in_one_form(check, given, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        check("delta", given)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "x0",
    [
        "1.0",
        ["1", "2"],
        np.array(["1", 2.0], dtype=object),
        np.ma.array([1.0, 2.0], mask=[True, False]),
        np.ma.array([[1.0], [2.0]], mask=[[True], [False]]),
        np.array([True, False]),
        [1j, 1],
        [[1.0], [1.0, 2.0]],
        None,
    ],
    ids=repr,
)
def test_what_is_no_vector_of_real_numbers_is_no_start(x0):
    for call in (
        lambda: run(x0=x0),
        lambda: GFM.start(x0),
        lambda: gs.minimize_many(value, x0, GFM, seeds=1, workers=1, max_evals=20),
        lambda: gs.theory.estimate(gs.Deterministic(value), x0),
    ):
        with pytest.raises(TypeError, match=r"^x0 must be a vector of real numbers.*, got [^\n]*\.$"):
            call()
    with pytest.raises(TypeError, match=r"^x must be a vector of real numbers, got [^\n]*\.$"):
        gs.certify(gs.Deterministic(value), x0, 0.1, 0.1)


def test_a_point_is_a_fresh_array():
    x = np.ones(3)
    assert not np.shares_memory(arguments.point("x0", x), x)
    assert arguments.point("x0", [Fraction(1, 2), 2]).tolist() == [0.5, 2.0]
    assert arguments.point("x0", 3).shape == (1,)


COUNTS = {
    "WarmStart": lambda k: gs.WarmStart(GFM, GFM, k).iterations,
    "GFM": lambda k: gs.GFM(0.1, 0.1, k).batch_size,
    "GFMPlus": lambda k: gs.GFMPlus(0.1, 0.1, 3, 2, k).large_batch_size,
    "O2NC": lambda k: gs.O2NC(0.1, k).block_length,
    "LinearDecay": lambda k: gs.steps.LinearDecay(0.1, k).iterations,
    "HalveOnPlateau": lambda k: gs.steps.HalveOnPlateau(0.1, k).patience,
    "Calibrated": lambda k: gs.steps.Calibrated(1.0, k).iterations,
    "LeaveOneOut": lambda k: gs.smoothing.LeaveOneOut(k).group_size,
    "Target": lambda k: gs.stop.Target(0.0, k).samples,
    "FiniteSum": lambda k: gs.FiniteSum(lambda x, i: value(x), k).n,
    "FixedRows": lambda k: FixedRows(value, k).rows,
    "SignAveraging": lambda k: SignAveraging(group=k).group,
    "problem": lambda k: l1(k).dim,
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_home_takes_the_same_counts(name):
    kept = COUNTS[name](np.int64(5))
    assert kept == 5
    assert type(kept) is int
    for bad in (True, 2.5, "5"):
        with pytest.raises(TypeError, match=r"must be a whole number of at least \d.*, got "):
            COUNTS[name](bad)
    with pytest.raises(ValueError, match=r"must be a whole number of at least \d.*, got 0"):
        COUNTS[name](0)


NUMBERS = {
    "GFM": lambda v: gs.GFM(v, 0.1).delta,
    "step_size": lambda v: gs.GFM(0.1, v)._rule.step_size,
    "Constant": lambda v: gs.steps.Constant(v).step_size,
    "HalveOnPlateau": lambda v: gs.steps.HalveOnPlateau(v).step_size,
    "Calibrated": lambda v: gs.steps.Calibrated(v, 5).radius,
    "SINGD": lambda v: gs.SINGD(v, 20, 20).delta,
    "INGD": lambda v: gs.INGD(v, 0.1).delta,
    "O2NC": lambda v: gs.O2NC(v, 2).delta,
    "Stationary": lambda v: gs.stop.Stationary(v, 0.1).delta,
    "L2Ball": lambda v: gs.projection.L2Ball(np.zeros(2), v).radius,
    "SignAveraging": lambda v: SignAveraging(delta=v).delta,
    "constants": lambda v: gs.theory.constants(3, 1, v) and float(v),
    "problem": lambda v: l1(2, v) and float(v),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_every_home_takes_the_same_numbers(name):
    kept = NUMBERS[name](np.float32(0.5))
    assert kept == 0.5
    assert type(kept) is float
    for bad in (True, "0.5", np.ma.array(0.5), np.ma.masked, 1j):
        with pytest.raises(TypeError, match=r"must be a positive number.*, got "):
            NUMBERS[name](bad)
    for bad in (0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"must be a positive number.*, got "):
            NUMBERS[name](bad)


@pytest.mark.parametrize("pair", [(np.inf, np.inf), (-np.inf, -np.inf)])
def test_bounds_without_a_finite_point_are_refused(pair):
    with pytest.raises(ValueError, match="Bounds must leave room for a finite point"):
        run(bounds=[pair, (0, 1)])


def test_bounds_are_numbers():
    with pytest.raises(TypeError, match=r"Lower bounds must be real numbers.*\.$"):
        run(bounds=[("0", 1), (0, 1)])


@pytest.mark.parametrize("scale", [1e-320, [1.0, 1e-320]])
def test_a_scale_without_an_inverse_is_refused(scale):
    with pytest.raises(ValueError, match=r"x_scale must be at least 2\.23e-308, below which 1/x_scale overflows"):
        run(x_scale=scale)


@pytest.mark.parametrize("scale", [None, 2.0])
@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (np.array([np.nan, 1.0]), ValueError, r"projection returned array\(\[nan, 1.\]\) for a finite point"),
        (np.array([np.inf, 1.0]), ValueError, "projection returned .* for a finite point"),
        (np.array([1j, 1.0]), TypeError, "What projection returns must be a vector of real numbers"),
        (["1", "2"], TypeError, "What projection returns must be a vector of real numbers"),
        (
            np.ma.array([1.0, 1.0], mask=[True, False]),
            TypeError,
            "What projection returns must be a vector of real numbers",
        ),
        (None, TypeError, "What projection returns must be a vector of real numbers, got None"),
    ],
)
def test_a_projection_that_returns_no_point_is_named(answer, kind, sentence, scale):
    with pytest.raises(kind, match=sentence):
        run(projection=lambda x: answer, x_scale=scale)


def test_choices_are_names():
    with pytest.raises(TypeError, match=r"^output must be one of last, .* or None, got \['last'\]\.$"):
        run(output=["last"])
    with pytest.raises(TypeError, match=r"^norm must be one of linf, l2, got 2\.$"):
        attack(value, np.zeros((1, 2, 2)), [0], norm=2)
