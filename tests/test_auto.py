"""The default: which kind of function it sees, what it then reaches, and that it stays near.

Cases in which new users were let down before; each is told nothing but a start and a budget. The seeds here had no
part in choosing constants.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goldstein as gs
from goldstein.methods.survey import KINDS

SEEDS = range(40, 46)


class Watched:
    """A function that counts its calls and keeps the farthest point."""

    def __init__(self, fun):
        self.fun = fun
        self.calls = 0
        self.start = None
        self.farthest = 0.0

    def __call__(self, x, *xi):
        self.calls += 1
        if self.start is None:
            self.start = x.copy()
        self.farthest = max(self.farthest, float(np.linalg.norm(x - self.start)))
        return self.fun(x, *xi)


def minimised(fun, x0, max_evals, seed, oracle=None, known=None, **settings):
    """Run the default; check that it counts rightly and asks nowhere far away."""
    watched = Watched(fun)
    target = watched if oracle is None else oracle(watched)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res = gs.minimize(target, x0, max_evals=max_evals, rng=seed, **settings)
    assert watched.calls == res.nfev <= max_evals
    best = res.x if known is None else known
    scale = max(float(np.linalg.norm(best - x0)), float(np.linalg.norm(x0)) or 1.0)
    assert watched.farthest <= 10 * scale
    return res


def kind_of(res):
    return res.message.split('the kind is "')[1].split('"')[0]


def enough(values, bar):
    """Five of six seeds reach the bar."""
    return sum(value <= bar for value in values) >= 5


def staircase(x):
    return float(np.abs(np.floor(x) - 7).sum())


def test_staircase():
    runs = [minimised(staircase, np.zeros(4), 5000, seed) for seed in SEEDS]
    assert enough([res.fun for res in runs], 2.0)
    assert {kind_of(res) for res in runs} == {"jumps"}


def test_waves():
    runs = [minimised(lambda x: float(np.sin(x).sum()), np.zeros(5), 2000, seed) for seed in SEEDS]
    assert enough([res.fun for res in runs], -4.5)


def test_start_in_the_corner_of_a_box():
    runs = []
    for seed in SEEDS:
        runs.append(minimised(lambda x: float(np.abs(x - 0.3).sum()), np.zeros(5), 1000, seed, bounds=[(0, 1)] * 5))
    assert enough([res.fun for res in runs], 0.05)


def test_capped_residuals():
    values = []
    for seed in SEEDS:
        rows = np.random.default_rng(seed).normal(size=(300, 10))

        def component(x, i, rows=rows):
            return min(abs(rows[i] @ (x - 1)), 3.0)

        res = minimised(component, np.zeros(10), 20_000, seed, lambda f: gs.FiniteSum(f, 300), np.ones(10))
        assert kind_of(res) == "replayed"
        values.append(np.minimum(np.abs(rows @ (res.x - 1)), 3).mean())
    assert enough(values, 0.05)


@pytest.mark.parametrize("exact", [True, False])
def test_lasso_from_zero(exact):
    """At x0 = 0 every component has a kink; the loss left at ‖x‖₁ weight 0.1 is a quarter of that at the start."""
    shares = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(60, 20))
        truth = np.where(np.arange(20) < 4, 2.0, 0.0)
        wanted = rows @ truth + 0.1 * rng.normal(size=60)

        def component(x, i, rows=rows, wanted=wanted):
            return abs(rows[i] @ x - wanted[i]) + 0.1 * np.abs(x).sum()

        def whole(x, rows=rows, wanted=wanted):
            return float(np.abs(rows @ x - wanted).mean() + 0.1 * np.abs(x).sum())

        if exact:
            res = minimised(whole, np.zeros(20), 6000, seed)
        else:
            res = minimised(component, np.zeros(20), 12_000, seed, lambda f: gs.FiniteSum(f, 60))
        shares.append(whole(res.x) / whole(np.zeros(20)))
    assert enough(shares, 0.45)


def test_exact_penalty_from_a_feasible_start():
    shares = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        centre = 1 + np.abs(rng.normal(size=6))
        walls = rng.normal(size=(4, 6))
        room = np.abs(rng.normal(size=4)) + 0.2

        def penalised(x, centre=centre, walls=walls, room=room):
            return float(((x - centre) ** 2).sum() + 100 * np.maximum(walls @ x - room, 0).sum())

        res = minimised(penalised, np.zeros(6), 4000, seed)
        shares.append(res.fun / penalised(np.zeros(6)))
    assert enough(shares, 0.9)


def inventory(x, seed):
    """A (s, S) inventory with Poisson demand over thirty days."""
    low = x[0]
    high = x[0] + x[1]
    stock = high
    cost = 0.0
    for demand in np.random.default_rng(seed).poisson(25, size=30):
        stock -= demand
        cost += max(stock, 0.0) + 5 * max(-stock, 0.0)
        if stock < low:
            cost += 32 + 3 * (high - stock)
            stock = high
    return cost / 30


def test_inventory_against_differential_evolution():
    """2,700 simulations each; differential evolution takes means of ten at each point, from scipy's own defaults."""
    from scipy.optimize import differential_evolution

    bounds = [(0, 100), (0, 150)]
    judges = range(10_000, 10_800)

    def judged(x):
        return np.mean([inventory(x, seed) for seed in judges])

    def mean_of_ten(x):
        return np.mean([inventory(x, seed) for seed in range(10)])

    evolved = differential_evolution(mean_of_ten, bounds, maxiter=8, popsize=15, rng=0, polish=False)
    assert evolved.nfev == 270
    reached = []
    for seed in SEEDS:
        res = minimised(inventory, np.array([10.0, 20.0]), 2700, seed, gs.Seeded, bounds=bounds)
        reached.append(judged(res.x))
    assert enough(reached, 1.01 * judged(evolved.x))


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_noise_that_cannot_be_replayed(share):
    """Noise in a tenth of the calls is noticed too: by the message, and by what is reached."""
    shares = []
    for seed in SEEDS:
        noise = np.random.default_rng(seed)

        def noisy(x, noise=noise):
            return float(np.abs(x - 1).sum()) + (0.4 * noise.normal() if noise.random() < share else 0.0)

        res = minimised(noisy, np.zeros(10), 4000, seed)
        assert kind_of(res) == "fresh"
        assert "if it takes a seed, use Seeded" in res.message
        shares.append(np.abs(res.x - 1).sum() / 10)
    assert enough(shares, 0.04)


def test_heavy_tails():
    shares = []
    for seed in SEEDS:
        noise = np.random.default_rng(seed)

        def heavy(x, noise=noise):
            return float(np.abs(x - 1).sum()) + 0.4 * noise.standard_t(1.5)

        res = minimised(heavy, np.zeros(10), 4000, seed)
        shares.append(np.abs(res.x - 1).sum() / 10)
    assert enough(shares, 0.08)


def test_noise_that_begins_late_is_noticed_and_resumed(tmp_path):
    """Calls 1 to 200 are exact, so only asking for the lowest point again can show the noise."""

    def late():
        calls = [0]
        noise = np.random.default_rng(3)

        def fun(x):
            calls[0] += 1
            return float(np.abs(x - 1).sum()) + (0.1 * noise.normal() if calls[0] > 200 else 0.0)

        return fun

    res = gs.minimize(late(), np.zeros(5), max_evals=3000, rng=0)
    assert kind_of(res) == "fresh"
    assert "at the same point" in res.message
    assert res.nfev <= 3000
    assert np.isfinite(res.fun_stderr)
    assert res.fun_stderr > 0


def test_cvar_from_a_kink():
    """The value at risk starts where losses of both signs meet."""
    shares = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        mixing = rng.normal(size=(10, 10)) / np.sqrt(10)

        def component(z, xi, mixing=mixing):
            returns = 0.1 + mixing @ np.random.default_rng(xi).normal(size=10)
            loss = -(z[:10] @ returns) / 10 + 0.01 * np.abs(z[:10]).sum()
            return z[10] + max(loss - z[10], 0.0) / 0.1

        draws = np.random.default_rng(99).normal(size=(4000, 10))

        def whole(z, mixing=mixing, draws=draws):
            loss = -((0.1 + draws @ mixing.T) @ z[:10]) / 10 + 0.01 * np.abs(z[:10]).sum()
            return z[10] + np.maximum(loss - z[10], 0).mean() / 0.1

        start = np.append(np.ones(10), 0.0)
        res = minimised(component, start, 8000, seed, gs.Seeded)
        shares.append(whole(res.x) / whole(start))
    assert enough(shares, 0.6)


def test_single_precision_network_gives_no_false_alarm():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(200, 6)).astype(np.float32)
    teacher = rng.normal(size=6).astype(np.float32)
    outputs = np.maximum(inputs @ teacher, 0)

    def component(x, i):
        weights = x.astype(np.float32)
        return float(np.abs(np.maximum(inputs[i] @ weights, np.float32(0)) - outputs[i]))

    start = rng.normal(size=6)
    for seed in SEEDS:
        res = minimised(component, start, 5000, seed, lambda f: gs.FiniteSum(f, 200))
        assert kind_of(res) == "replayed"
        before = np.abs(np.maximum(inputs @ start, 0) - outputs).mean()
        assert np.abs(np.maximum(inputs @ res.x, 0) - outputs).mean() < 0.2 * before


def test_no_worse_when_values_and_coordinates_are_scaled():

    def plain(x):
        return float(np.abs(x - 1).sum() + np.abs(x[0] - x[1]))

    start = np.array([2.0, -1.5, 3.0])
    usual = gs.minimize(plain, start, max_evals=2000, rng=1)
    scaled = gs.minimize(lambda x: 2.0**14 * plain(x / 2.0**-13), 2.0**-13 * start, max_evals=2000, rng=1)
    assert usual.fun < 1e-9
    assert scaled.fun / 2.0**14 < 1e-9


def test_the_kind_can_be_forced():
    for kind in KINDS:
        if kind == "replayed":
            continue
        res = gs.minimize(staircase, np.zeros(2), options={"kind": kind}, max_evals=400, rng=0)
        assert res.nfev <= 400
        assert kind_of(res) == kind
    rows = np.eye(3)
    oracle = gs.FiniteSum(lambda x, i: abs(rows[i] @ x - 1), 3)
    res = gs.minimize(oracle, np.zeros(3), options={"kind": "jumps"}, max_evals=400, rng=0)
    assert kind_of(res) == "jumps"
    res = gs.minimize(oracle, np.zeros(3), options={"kind": "replayed"}, max_evals=400, rng=0)
    assert kind_of(res) == "replayed"


@pytest.mark.parametrize(
    ("oracle", "kind", "sentence"),
    [
        (gs.Unreplayable(sum), "replayed", "needs a ξ that can be replayed"),
        (gs.Unreplayable(sum), "exact", "is for functions without noise"),
        (gs.Deterministic(sum), "smooth", "kind must be"),
    ],
)
def test_kinds_that_do_not_fit_are_refused(oracle, kind, sentence):
    with pytest.raises(ValueError, match=sentence):
        gs.minimize(oracle, np.ones(2), options={"kind": kind}, max_evals=500)


def test_the_answer_says_that_nothing_better_was_found():
    res = gs.minimize(lambda x: 1.0, np.zeros(3), max_evals=500, rng=0)
    assert np.array_equal(res.x, np.zeros(3))
    assert "Nothing lower than the start was found" in res.message


def test_choice_is_in_the_history():
    res = gs.minimize(staircase, np.zeros(2), max_evals=600, rng=0)
    assert [said.sentence for said in res.history.choices][-1] in res.message
    assert 0 < res.history.choices[-1].nfev < 600


@given(
    family=st.sampled_from(["exact", "sum", "seeded", "fresh", "stairs"]),
    d=st.integers(1, 6),
    max_evals=st.integers(1, 900),
    boxed=st.booleans(),
    failing=st.sampled_from([0.0, 0.1, 1.0]),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_every_call_is_counted(family, d, max_evals, boxed, failing, seed):
    noise = np.random.default_rng(seed)
    centre = np.linspace(-1, 1, d)
    lost = np.random.default_rng(seed + 1)

    def value(x, xi=0):
        if lost.random() < failing:
            return np.nan
        near = np.abs(x - centre * (1 + 0.1 * (xi % 7))).sum()
        if family == "stairs":
            return float(np.floor(4 * near))
        return float(near + (0.1 * noise.normal() if family == "fresh" else 0.0))

    watched = Watched(value)
    make = {"sum": lambda f: gs.FiniteSum(f, 50), "seeded": gs.Seeded, "fresh": gs.Unreplayable}
    oracle = make.get(family, lambda f: f)(watched)
    bounds = [(-0.5, 2.0)] * d if boxed else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = gs.minimize(oracle, np.full(d, 1.5), max_evals=max_evals, rng=seed, bounds=bounds)
    assert watched.calls == res.nfev <= max_evals
    assert not boxed or ((res.x >= -0.5) & (res.x <= 2.0)).all()
