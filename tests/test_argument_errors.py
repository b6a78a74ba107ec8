"""Arguments: each kind of argument is checked in one way, before the first evaluation, and refused in one sentence."""

import warnings

import numpy as np
import pytest
from scipy.optimize import Bounds

import goldstein as gs
from goldstein import steps
from goldstein.estimate.smoothing import LeaveOneOut

X0 = np.array([1.0, -0.5, 0.25, 2.0])
REFUSED = (TypeError, ValueError)


class Asked:
    """Σ|x_i|, which knows whether it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x, *xi):
        self.calls += 1
        return float(abs(x).sum())


def assert_refused(call, *names: str) -> None:
    """Whether a call is refused in one sentence of the library's own, which names what was wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(REFUSED) as caught:
            call()
    sentence = str(caught.value)
    assert sentence.endswith("."), sentence
    assert any(name in sentence for name in names), sentence


NO_NUMBERS = {
    "strings": ["1.0", "2.0"],
    "an array of strings": np.array(["1.0", "2.0"]),
    "bytes": np.array([b"1.0", b"2.0"]),
    "one string": "1.0",
    "strings as objects": np.array(["1.0", "2.0"], dtype=object),
    "masked": np.ma.masked_array([1.0, 2.0], [False, True]),
    "dates": np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[D]"),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_a_start_that_is_no_vector_of_numbers_is_refused(kind):
    f = Asked()
    assert_refused(lambda: gs.minimize(f, NO_NUMBERS[kind], max_evals=50, rng=0), "x0")
    assert f.calls == 0
    assert_refused(lambda: gs.GFM(0.1, 0.1).start(NO_NUMBERS[kind], rng=0), "x0")


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_a_centre_that_is_no_vector_of_numbers_is_refused(kind):
    f = Asked()
    oracle = gs.Deterministic(f, grad=np.sign)
    checks = [
        lambda: gs.certify(oracle, NO_NUMBERS[kind], 0.1, 0.1, max_evals=50, rng=0),
        lambda: gs.min_norm_hull(oracle, NO_NUMBERS[kind], 0.1, 5, rng=0),
        lambda: gs.smoothed_gradient_norm(oracle, NO_NUMBERS[kind], 0.1, 50, rng=0),
    ]
    for check in checks:
        assert_refused(check, "x must")
    assert f.calls == 0


def test_a_masked_array_without_a_mask_is_a_vector_of_numbers():
    res = gs.minimize(Asked(), np.ma.masked_array([1.0, 2.0]), max_evals=100, rng=0)
    assert type(res.x) is np.ndarray


@pytest.mark.parametrize("vectorized", [False, True])
def test_masked_values_are_no_numbers(vectorized):
    """A masked answer has no value: it is a failed evaluation or refused, and what lies under the mask is not used."""

    def f(x):
        value = np.abs(x).sum(axis=-1)
        return np.ma.masked_array(value - 1e6, mask=np.asarray(value > 3.5))

    oracle = gs.Deterministic(f, vectorized=vectorized)
    try:
        res = gs.minimize(oracle, X0, gs.GFM(0.5, 1e-3, 4), max_evals=400, rng=0)
    except REFUSED as error:
        assert "mask" in str(error)  # noqa: PT017
        return
    assert res.nfail > 0


def test_the_masked_constant_is_no_number():
    """`np.ma.masked` reads as 0.0 if it is only converted."""

    def f(x):
        return np.ma.masked if x[0] > 1 else float(abs(x).sum())

    try:
        res = gs.minimize(gs.Deterministic(f), X0, gs.GFM(0.5, 1e-3, 4), max_evals=400, rng=0)
    except REFUSED as error:
        assert "mask" in str(error)  # noqa: PT017
        return
    assert res.nfail > 0


def test_masked_gradients_are_no_numbers():
    oracle = gs.Deterministic(Asked(), grad=lambda x: np.ma.masked_array(np.sign(x), mask=x > 0))
    try:
        res = gs.minimize(oracle, X0, gs.O2NC(0.5, 5), max_evals=50, rng=0)
    except REFUSED as error:
        assert "mask" in str(error)  # noqa: PT017
        return
    assert res.nfail > 0


@pytest.mark.parametrize("told", [["1.0", "2.0"], np.ma.masked_array([1.0, 2.0], [True, False])])
def test_values_told_that_are_no_numbers_are_refused(told):
    run = gs.GFM(0.1, 0.1).start(X0, rng=0)
    query = run.ask()
    assert_refused(lambda: run.tell(query, told), "values", "numbers", "answer", "mask")


BOUNDS = {
    "infinite from both sides": [(np.inf, np.inf)] * 4,
    "minus infinite from both sides": [(-np.inf, -np.inf)] * 4,
    "scipy's": Bounds([np.inf] * 4, [np.inf] * 4),
    "one of them": [(0, 1), (0, 1), (np.inf, np.inf), (0, 1)],
    "strings": [("0", "1")] * 4,
    "masked": np.ma.masked_array(np.tile([0.0, 1.0], (4, 1)), np.eye(4, 2, dtype=bool)),
    "complex": [(0, 1j)] * 4,
}


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("method", ["auto", gs.GFM(0.1, 0.1)], ids=["auto", "gfm"])
def test_bounds_without_a_point_between_them_are_refused(kind, method):
    f = Asked()
    assert_refused(lambda: gs.minimize(f, X0, method, bounds=BOUNDS[kind], max_evals=50, rng=0), "ounds")
    assert f.calls == 0


@pytest.mark.parametrize(
    "scale",
    [1e-320, 5e-324, [1.0, 1.0, 1e-310, 1.0], "1.0", True, np.ma.masked_array(1.0, True), 1j],
    ids=["1e-320", "5e-324", "one of them", "string", "true", "masked", "complex"],
)
@pytest.mark.parametrize("method", ["auto", gs.GFM(0.1, 0.1)], ids=["auto", "gfm"])
def test_scales_in_which_x_is_not_finite_are_refused(scale, method):
    """x0 / x_scale would leave the floats, or the scale is no number."""
    f = Asked()
    assert_refused(lambda: gs.minimize(f, X0, method, x_scale=scale, max_evals=50, rng=0), "x_scale")
    assert f.calls == 0


def complex_point(x):
    return x + 1j


PROJECTIONS = {
    "NaN": lambda x: np.full(x.size, np.nan),
    "infinite": lambda x: np.full(x.size, np.inf),
    "complex": complex_point,
    "strings": lambda x: [str(value) for value in x],
    "masked": lambda x: np.ma.masked_array(x, x > 0),
    "nothing": lambda x: None,
}


@pytest.mark.parametrize("kind", PROJECTIONS)
@pytest.mark.parametrize("method", ["auto", "gfm", gs.GFM(0.1, 0.1), "o2nc"], ids=["auto", "by name", "gfm", "o2nc"])
def test_projections_that_return_no_point_are_refused(kind, method):
    f = Asked()
    oracle = gs.Deterministic(f, grad=np.sign)
    assert_refused(
        lambda: gs.minimize(oracle, X0, method, projection=PROJECTIONS[kind], max_evals=50, rng=0), "rojection"
    )
    assert f.calls == 0


def test_a_projection_that_fails_later_is_refused_with_the_run_so_far():
    calls = 0

    def project(x):
        nonlocal calls
        calls += 1
        return x if calls < 10 else np.full(x.size, np.nan)

    with pytest.raises(REFUSED, match="rojection") as caught:
        gs.minimize(gs.Deterministic(Asked()), X0, gs.GFM(0.1, 0.1), projection=project, max_evals=500, rng=0)
    assert np.isfinite(caught.value.result.x).all()


BAD_NUMBERS = [True, np.True_, "0.1", None, np.nan, np.inf, 0.0, -1.0, 1j, [0.1], np.ma.masked]
RULES = {
    "steps.Constant": lambda value: steps.Constant(value),
    "steps.LinearDecay": lambda value: steps.LinearDecay(value),
    "steps.InverseSqrt": lambda value: steps.InverseSqrt(value),
    "steps.HalveOnPlateau": lambda value: steps.HalveOnPlateau(value),
    "steps.HalveOnPlateau factor": lambda value: steps.HalveOnPlateau(0.1, factor=value),
    "steps.Calibrated": lambda value: steps.Calibrated(value, 10),
    "steps.Calibrated power": lambda value: steps.Calibrated(1.0, 10, value),
    "GFM delta": lambda value: gs.GFM(value, 0.1),
    "GFM step_size": lambda value: gs.GFM(0.1, value),
    "GFMPlus step_size": lambda value: gs.GFMPlus(0.1, value, 4, 2),
    "GFMPlus momentum": lambda value: gs.GFMPlus(0.1, 0.1, 4, 2, momentum=value if value is not None else 0.0),
    "O2NC delta": lambda value: gs.O2NC(value, 5),
    "INGD epsilon": lambda value: gs.INGD(0.1, value),
    "L2Ball radius": lambda value: gs.projection.L2Ball(np.zeros(3), value),
    "linf_ball radius": lambda value: gs.projection.linf_ball(np.zeros(3), value),
    "Simplex total": lambda value: gs.projection.Simplex(value),
    "Knapsack total": lambda value: gs.projection.Knapsack([1.0], value),
    "Stationary delta": lambda value: gs.stop.Stationary(value, 0.1),
    "value_gap_bound delta": lambda value: gs.value_gap_bound(1.0, 0.0, value),
    "certify epsilon": lambda value: gs.certify(gs.Deterministic(Asked()), X0, 0.1, value, rng=0, max_evals=50),
    "minimize stationarity": lambda value: gs.minimize(
        gs.Deterministic(Asked()), X0, gs.GFM(0.1, 0.1), stationarity=(value, 0.1), max_evals=50, rng=0
    ),
}


INFINITE_IS_FINE = ("L2Ball radius", "linf_ball radius", "Simplex total")  # sets that hold everything
PLACES = [
    (name, value) for name in RULES for value in BAD_NUMBERS if not (name in INFINITE_IS_FINE and value is np.inf)
]


@pytest.mark.parametrize(("name", "value"), PLACES, ids=str)
def test_positive_numbers_are_asked_for_alike_everywhere(name, value):
    """What `GFM(0.1, True)` refuses, `steps.Constant(True)` refuses too."""
    assert_refused(lambda: RULES[name](value), name.split()[-1], "step_size", "radius", "delta", "number", "factor")


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("value", [np.float64(0.25), np.float32(0.25), 0.25], ids=repr)
def test_numbers_of_numpy_are_numbers_everywhere(name, value):
    RULES[name](value)


BAD_COUNTS = [True, np.True_, "5", 2.5, 5.0, 0, -1, 1j, [5], np.ma.masked]
GFM = gs.GFM(0.1, 0.1)
COUNTS = {
    "WarmStart iterations": lambda value: gs.WarmStart(GFM, GFM, iterations=value),
    "GFM batch_size": lambda value: gs.GFM(0.1, 0.1, value),
    "GFMPlus epoch_length": lambda value: gs.GFMPlus(0.1, 0.1, value, 2),
    "FiniteSum n": lambda value: gs.FiniteSum(Asked(), value),
    "steps.LinearDecay iterations": lambda value: steps.LinearDecay(0.1, iterations=value),
    "steps.HalveOnPlateau patience": lambda value: steps.HalveOnPlateau(0.1, patience=value),
    "steps.Calibrated iterations": lambda value: steps.Calibrated(1.0, value),
    "LeaveOneOut group_size": lambda value: LeaveOneOut(value),
    "Target samples": lambda value: gs.stop.Target(0.0, samples=value),
    "Stationary every": lambda value: gs.stop.Stationary(0.1, 0.1, every=value),
    "minimize max_evals": lambda value: gs.minimize(gs.Deterministic(Asked()), X0, GFM, max_evals=value, rng=0),
    "minimize max_iter": lambda value: gs.minimize(gs.Deterministic(Asked()), X0, GFM, max_iter=value, rng=0),
    "start max_evals": lambda value: GFM.start(X0, rng=0, max_evals=value),
    "certify max_evals": lambda value: gs.certify(gs.Deterministic(Asked()), X0, 0.1, 0.1, max_evals=value, rng=0),
    "min_norm_hull n": lambda value: gs.min_norm_hull(np.sign, X0, 0.1, value, rng=0),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", BAD_COUNTS, ids=repr)
def test_whole_numbers_are_asked_for_alike_everywhere(name, value):
    """`WarmStart(iterations=True)` is refused as `GFM(batch_size=True)` is."""
    assert_refused(lambda: COUNTS[name](value), name.split()[-1].rstrip("s"))


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [np.int64(5), np.int32(5), np.uint8(5), 5], ids=lambda value: type(value).__name__)
def test_whole_numbers_of_numpy_are_whole_numbers_everywhere(name, value):
    """`WarmStart(iterations=np.int64(5))` is taken as `GFM(batch_size=np.int64(5))` is."""
    COUNTS[name](value)


@pytest.mark.parametrize("value", [True, "1.0", None, np.nan, 1j, [1.0], np.ma.masked], ids=repr)
def test_a_target_is_a_number(value):
    assert_refused(lambda: gs.stop.Target(value), "Target", "fun")


def test_gfm_by_name_with_its_own_delta_cautions_about_noise_that_cannot_be_replayed():
    """A δ that the user chose is cautioned about by name as by object; one chosen by the noise measured is not."""
    noise = np.random.default_rng(0)

    def f(x):
        return abs(x).sum() + 0.01 * noise.normal()

    for method, options in (("gfm", {"delta": 1e-3}), ("one-phase", {"delta": 1e-3}), ("zo-o2nc", {"delta": 1e-3})):
        with pytest.warns(RuntimeWarning, match="different noise"):
            gs.minimize(gs.Unreplayable(f), X0, method, options=options, max_evals=400, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.minimize(gs.Unreplayable(f), X0, "gfm", max_evals=400, rng=0)


def test_a_warm_start_cautions_about_noise_that_cannot_be_replayed():
    noise = np.random.default_rng(0)
    oracle = gs.Unreplayable(lambda x: abs(x).sum() + 0.01 * noise.normal())
    with pytest.warns(RuntimeWarning, match="different noise"):
        gs.minimize(oracle, X0, gs.WarmStart(gs.GFM(1e-3, 1e-3), gs.GFM(1e-3, 1e-3)), max_evals=400, rng=0)
    with pytest.warns(RuntimeWarning, match="different noise"):
        gs.minimize(oracle, X0, "ws-gfm", options={"first": gs.GFM(1e-3, 1e-3)}, max_evals=400, rng=0)
