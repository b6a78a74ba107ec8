"""Methods that take gradients, on values alone: `gradients="sift"`."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import goldstein as gs
from goldstein.methods import METHODS
from goldstein.methods.first_order import Batch

D = 6
ROWS = np.random.default_rng(0).normal(size=(40, D))
NOISY = {
    "o2nc": gs.O2NC(0.5, 10, gradients="sift"),
    "singd": gs.SINGD(0.5, p=20.0, q=20.0, gradients="sift"),
    "psingd": gs.PSINGD(0.5, p=20.0, q=20.0, gradients="sift"),
}
EXACT = {
    "ingd": gs.INGD(0.2, 0.2, gradients="sift"),
    "pingd": gs.PINGD(0.2, 0.2, gradients="sift"),
    "cutting-plane": gs.CuttingPlane(0.2, 0.2, gradients="sift"),
}
EVERY = NOISY | EXACT


class Deviations:
    """|a_i·(x − 1)|, that keeps every point it is asked at."""

    def __init__(self):
        self.points = []

    def __call__(self, X, i):
        self.points.append(X.copy())
        return np.abs((ROWS[i] * (X - 1)).sum(axis=1))

    @property
    def oracle(self):
        return gs.FiniteSum(self, len(ROWS), vectorized=True)


def l1(X):
    return np.abs(X - 1).sum(axis=1)


EXACT_L1 = gs.Deterministic(l1, vectorized=True)


@pytest.mark.parametrize("name", EVERY)
def test_a_method_needs_values_that_can_be_replayed_and_no_gradients(name):
    needs = EVERY[name].needs
    assert not needs.gradients
    assert needs.exact == (name in EXACT)
    with pytest.raises(ValueError, match="cannot replay"):
        gs.minimize(gs.Unreplayable(lambda x: 0.0), np.zeros(D), EVERY[name], max_evals=50)


@pytest.mark.parametrize("name", EVERY)
def test_by_name_and_as_an_object_it_goes_down_on_values_alone(name):
    for method, options in ((EVERY[name], None), (name, {"gradients": "sift"})):
        res = gs.minimize(EXACT_L1, np.zeros(D), method, options=options, max_evals=4000, rng=0)
        assert (res.ngev, res.nfev <= 4000) == (0, True)
        assert l1(res.x[None])[0] < 0.15 * D


@pytest.mark.parametrize("name", EVERY)
def test_the_method_is_told_the_gradients_of_the_oracle(name):
    """On a function without kinks nearby, each round of values ends in the gradient that an oracle would have given."""
    slope = np.arange(1.0, D + 1)
    method = EVERY[name]
    run = method.start(np.zeros(D), rng=0)
    told = []
    tell = type(method)._tell

    def spy(self, state, context, query, values):
        if query.order:
            told.append(values[0])
        return tell(self, state, context, query, values)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(method), "_tell", spy)
        while len(told) < 5:
            query = run.ask()
            if query is None:
                break
            run.tell(query, query.points @ slope)
    np.testing.assert_allclose(told, np.tile(slope, (len(told), 1)), rtol=1e-4)
    assert told


@pytest.mark.parametrize("name", EVERY)
def test_a_gradient_takes_at_most_d_plus_one_values_all_within_rho_of_its_point(name):
    """With a walk that is nearly as long as ρ, so that it must begin near the point."""
    rho = 0.05
    method = replace(EVERY[name], rho=rho, fd_step=0.25 * rho)
    run = method.start(np.full(D, 0.3), rng=1)
    centre = None
    asked = 0
    for _ in range(200):
        query = run.ask()
        if query is None:
            break
        memory = run._asked.aux
        if isinstance(memory, Batch):
            centre = memory.query.points[0]
            asked = 0
        if centre is not None:
            asked += len(query)
            assert asked <= D + 1
            assert np.linalg.norm(query.points - centre, axis=1).max() <= rho * (1 + 1e-12)
        step = run.tell(query, l1(query.points) + query.points[:, 0] ** 2)
        if not step.partial:
            centre = None


@pytest.mark.parametrize("name", EVERY)
def test_no_round_asks_for_more_than_the_limit(name):
    """A round that does not fit is not asked for, and can be asked for later."""
    run = EVERY[name].start(np.full(D, 0.3), rng=1)
    for _ in range(40):
        query = run.ask()
        if query is None:
            break
        if run.state.sifted.bisection is not None:
            assert run.ask(len(query) - 1) is None
            query = run.ask(len(query))
        run.tell(query, l1(query.points))
    assert run.nfev > 10


@pytest.mark.parametrize("name", NOISY)
def test_all_values_of_a_gradient_carry_the_same_noise_and_a_flat_component_takes_two(name):
    run = NOISY[name].start(np.zeros(D), rng=0, n=40)
    for _ in range(30):
        sizes = []
        samples = set()
        while True:
            query = run.ask()
            sizes.append(len(query))
            samples |= set(query.samples.tolist())
            step = run.tell(query, np.where(query.samples % 2 == 0, 1.0, query.points @ ROWS[0]))
            if not step.partial:
                break
        assert len(samples) == 1
        assert sum(sizes) == (2 if samples.pop() % 2 == 0 else D + 1)


@pytest.mark.parametrize("name", NOISY)
def test_no_query_leaves_the_bounds_not_even_narrow_ones(name):
    lower = np.array([-1.0, 0.5, -np.inf, 0.9, 0.0, -3.0])
    upper = np.array([2.0, 0.5, 0.7, 0.91, np.inf, -2.0])  # one side is fixed, another narrower than 2ρ
    for x_scale in (None, np.array([1.0, 3.0, 0.1, 7.0, 1.0, 0.3])):
        F = Deviations()
        res = gs.minimize(
            F.oracle,
            np.full(D, -2.0),
            NOISY[name],
            bounds=list(zip(lower, upper, strict=True)),
            x_scale=x_scale,
            max_evals=1000,
            rng=0,
        )
        seen = np.concatenate(F.points)
        assert res.nfev == len(seen) <= 1000
        slack = 0.0 if x_scale is None else 1e-15  # rounding of the scale
        assert (seen >= lower - slack).all()
        assert (seen <= upper + slack).all()


@pytest.mark.parametrize("name", NOISY)
def test_a_ball_is_not_left_either(name):
    F = Deviations()
    ball = gs.projection.L2Ball(np.zeros(D), 0.7)
    gs.minimize(F.oracle, np.ones(D), NOISY[name], projection=ball, max_evals=1000, rng=0)
    assert np.linalg.norm(np.concatenate(F.points), axis=1).max() <= 0.7 * (1 + 1e-12)


@pytest.mark.parametrize("name", NOISY)
def test_units_of_x_do_not_matter(name):
    scale = np.array([1e-3, 1.0, 1e3, 10.0, 0.1, 1.0])
    plain = gs.minimize(Deviations().oracle, np.zeros(D), NOISY[name], max_evals=800, rng=0)
    scaled = gs.FiniteSum(lambda X, i: np.abs((ROWS[i] * (X / scale - 1)).sum(axis=1)), 40, vectorized=True)
    other = gs.minimize(scaled, np.zeros(D), NOISY[name], x_scale=scale, max_evals=800, rng=0)
    assert other.nfev == plain.nfev
    np.testing.assert_allclose(other.x / scale, plain.x, atol=1e-3)


@pytest.mark.parametrize("name", EVERY)
def test_a_walk_with_a_failed_value_is_a_gradient_that_failed(name):
    """Nothing more is asked of it, and the method never sees a part of it."""
    run = EVERY[name].start(np.full(D, 3.0), rng=0)
    while run.nit == 0:
        query = run.ask()
        values = l1(query.points)
        if run.state.sifted.bisection is not None or isinstance(run._asked.aux, Batch):
            values[-1] = np.nan
        step = run.tell(query, values)
        if name in NOISY and name != "o2nc" and not step.partial:
            break  # SINGD asks for its first gradient until it has one
    np.testing.assert_array_equal(run.x, np.full(D, 3.0))
    assert run.state.sifted.n_estimates == 0


@pytest.mark.parametrize("name", EVERY)
def test_a_run_stopped_within_a_gradient_goes_on_with_a_larger_budget(name, tmp_path):
    """The budget ends in the middle of a bisection, whose values are not asked for again."""
    oracle = EXACT_L1 if name in EXACT else Deviations().oracle
    far = np.linspace(5, 9, D)
    whole = gs.minimize(oracle, far, EVERY[name], max_evals=900, rng=0, output="last")
    file = tmp_path / "run"
    for budget in (100, 101, 104, 200, 900):
        part = gs.minimize(oracle, far, EVERY[name], max_evals=budget, rng=0, output="last", journal=file)
        assert part.nfev <= budget
    np.testing.assert_array_equal(part.x, whole.x)
    assert (part.nfev, part.nit) == (whole.nfev, whole.nit)


def test_values_of_single_precision_take_a_longer_step():
    oracle = gs.FiniteSum(lambda X, i: np.abs((ROWS[i] * (X - 1)).sum(axis=1)).astype(np.float32), 40, vectorized=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res = gs.minimize(oracle, np.zeros(D), NOISY["o2nc"], max_evals=10_000, rng=0)
    assert np.abs(ROWS @ (res.x - 1)).mean() < 0.5


@pytest.mark.parametrize("name", EXACT)
def test_differences_are_no_certificate(name):
    res = gs.minimize(EXACT_L1, np.zeros(D), EXACT[name], max_evals=5000, rng=0)
    assert res.success
    assert "found by differences" in res.message
    assert "stationarity" not in res


@pytest.mark.parametrize("name", EXACT)
def test_what_drowns_in_rounding_is_no_success(name):
    oracle = gs.Deterministic(lambda X: l1(X) + 1e12, vectorized=True)
    with pytest.warns(RuntimeWarning, match="certificate is not valid.*rounding errors"):
        res = gs.minimize(oracle, np.zeros(D), EXACT[name], max_evals=5000, rng=0)
    assert not res.success


@pytest.mark.parametrize("name", EVERY)
def test_settings_are_checked(name):
    given = {"delta": 0.5, "epsilon": 0.1} if name in EXACT else {"delta": 0.5}
    given |= {"block_length": 5} if name == "o2nc" else {}
    given |= {"p": 5.0, "q": 5.0} if "singd" in name else {}
    make = METHODS[name]
    with pytest.raises(ValueError, match="gradients must be one of oracle, sift"):
        make(**given, gradients="differences")
    with pytest.raises(ValueError, match='rho is for gradients="sift"'):
        make(**given, rho=0.1)
    with pytest.raises(ValueError, match=r"rho must be a number between 0 and delta = 0\.5"):
        make(**given, gradients="sift", rho=0.5)
    with pytest.raises(ValueError, match=r"is 0\.367 long: it must be shorter than rho = 0\.1"):
        make(**given, gradients="sift", rho=0.1, fd_step=0.1).start(np.zeros(D))
    assert make(**given, gradients="sift", rho=0.1, fd_step=0.01).start(np.zeros(D)).x.size == D


@pytest.mark.filterwarnings("ignore:All .* differences")
@pytest.mark.parametrize("scale", [1e-170, 1e-320])
@pytest.mark.parametrize("method", [gs.O2NC(0.5, 5, gradients="sift"), gs.Sift(0.5)], ids=["o2nc", "sift"])
def test_slopes_whose_squares_are_zero(method, scale):
    res = gs.minimize(lambda x: scale * float(abs(x).sum()), np.ones(3), method, max_evals=600, rng=0)
    assert res.nfev > 500
