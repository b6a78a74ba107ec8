"""The default: which kind of function it sees, what it then reaches, and that it stays near.

The cases in which new users were let down before are those of the study `bars`.
"""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import goldstein as gs
from goldstein.methods.survey import KINDS
from studies import bars


def kind_of(res):
    return res.message.split('Kind "')[1].split('"')[0]


def staircase(x):
    return float(np.abs(np.floor(x) - 7).sum())


@pytest.mark.parametrize("case", list(bars.newcomers()), ids=lambda case: case.name)
def test_what_let_new_users_down(case):
    """Five of six seeds within the bar, the right kind, every call counted, no warning, and no query far away."""
    row = bars.summary(case, [bars.measure(case, seed) for seed in bars.SEEDS[bars.NEWCOMERS]])
    assert row["passed"], row


@pytest.mark.parametrize(
    "change",
    [{"value": 3.0}, {"far": 10.1}, {"kind": "exact"}, {"counted": False}, {"warnings": ["rounding"]}],
    ids=lambda change: next(iter(change)),
)
def test_two_bad_runs_miss_a_bar(change):
    case = next(iter(bars.newcomers()))
    good = {"value": 1.0, "far": 2.0, "kind": "jumps", "counted": True, "warnings": []}
    assert bars.summary(case, 6 * [good])["passed"]
    assert not bars.summary(case, 4 * [good] + 2 * [good | change])["passed"]


def test_a_noisy_function_hears_of_seeds():
    noise = np.random.default_rng(0)
    res = gs.minimize(lambda x: float(np.abs(x).sum()) + noise.normal(), np.ones(3), max_evals=400, rng=0)
    assert kind_of(res) == "fresh"
    assert "if it takes a seed, use Seeded" in res.message


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


def ignoring_its_seed(x, seed, noise):
    return float(np.abs(x - 1).sum()) + 0.5 * noise.normal()


@pytest.mark.parametrize("evals", [300, 600, 3000])
def test_a_simulator_that_ignores_its_seed_is_treated_as_fresh_noise(evals):
    """As good as `Unreplayable`, up to the seed; sifting would stay at f(x0) = 5."""

    def distance(oracle, seed):
        res = gs.minimize(oracle, np.zeros(5), max_evals=evals, rng=seed)
        assert res.nfev <= evals
        assert kind_of(res) == "fresh"
        return np.abs(res.x - 1).sum()

    liars, honest = [], []
    for seed in range(9):
        noise = np.random.default_rng(100 + seed)
        with pytest.warns(RuntimeWarning, match="same seed"):
            liars.append(distance(gs.Seeded(ignoring_its_seed, (noise,)), seed))
        honest.append(distance(gs.Unreplayable(lambda x, noise: ignoring_its_seed(x, 0, noise), (noise,)), seed))
    assert np.median(liars) < 1.5 * np.median(honest) + 0.1


@pytest.mark.filterwarnings("ignore:The same seed")
def test_a_run_of_a_simulator_that_ignores_its_seed_is_resumed_exactly(tmp_path):
    def oracle():
        return gs.Seeded(ignoring_its_seed, (np.random.default_rng(1),))

    def stop(intermediate_result):
        return intermediate_result.nfev >= 300

    keys = {"max_evals": 600, "rng": 0}
    whole = gs.minimize(oracle(), np.zeros(5), **keys)
    one = oracle()
    gs.minimize(one, np.zeros(5), callback=stop, journal=tmp_path / "run.journal", **keys)
    res = gs.minimize(one, np.zeros(5), journal=tmp_path / "run.journal", **keys)
    assert kind_of(res) == kind_of(whole) == "fresh"
    assert res.nfev == whole.nfev <= 600


def test_rounding_under_the_same_seed_is_no_noise():
    def rounded(x, seed):
        z = np.random.default_rng(seed).normal(size=x.size)
        return np.float32(np.abs(x - z).sum()) * (1 + 1e-8 * np.random.default_rng().random())

    res = gs.minimize(gs.Seeded(rounded), np.zeros(5), max_evals=1000, rng=0)
    assert kind_of(res) in ("replayed", "jumps")


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
    assert "No point lower than the start was found" in res.message


def test_choice_is_in_the_history():
    res = gs.minimize(staircase, np.zeros(2), max_evals=600, rng=0)
    assert [said.sentence for said in res.history.choices][-1] in res.message
    assert 0 < res.history.choices[-1].nfev < 600


class Counted:
    """A function that counts its calls, also those of threads."""

    def __init__(self, fun):
        self.fun = fun
        self.calls = 0
        self.lock = threading.Lock()

    def __call__(self, x, *xi):
        with self.lock:
            self.calls += 1
            return self.fun(x, *xi)


@given(
    family=st.sampled_from(["exact", "sum", "expectation", "seeded", "fresh", "stairs"]),
    forced=st.booleans(),
    d=st.integers(1, 6),
    max_evals=st.integers(1, 900),
    boxed=st.booleans(),
    failing=st.sampled_from([0.0, 0.1, 1.0]),
    raising=st.booleans(),
    threads=st.booleans(),
    seed=st.integers(0, 100),
)
@settings(max_examples=120, deadline=None)
def test_every_call_is_counted(family, forced, d, max_evals, boxed, failing, raising, threads, seed):
    """Whatever the oracle, the kind, the bounds, the failures and the workers are."""
    noise = np.random.default_rng(seed)
    centre = np.linspace(-1, 1, d)
    lost = np.random.default_rng(seed + 1)

    def value(x, xi=0):
        if lost.random() < failing:
            if raising:
                raise ZeroDivisionError
            return np.nan
        near = np.abs(x - centre * (1 + 0.1 * (int(xi) % 7))).sum()
        if family == "stairs":
            return float(np.floor(4 * near))
        return float(near + (0.1 * noise.normal() if family == "fresh" else 0.0))

    counted = Counted(value)
    make = {
        "sum": lambda f: gs.FiniteSum(f, 50),
        "expectation": lambda f: gs.Expectation(f, lambda rng, k: rng.integers(0, 50, k)),
        "seeded": gs.Seeded,
        "fresh": gs.Unreplayable,
    }
    oracle = make.get(family, lambda f: f)(counted)
    kinds = {"exact": "exact", "stairs": "jumps", "fresh": "fresh"}
    options = {"kind": kinds.get(family, "replayed")} if forced else None
    bounds = [(-0.5, 2.0)] * d if boxed else None
    start = np.full(d, 1.5)
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("ignore")
        more = {"workers": pool if threads else None, "catch": ZeroDivisionError, "bounds": bounds, "options": options}
        res = gs.minimize(oracle, start, max_evals=max_evals, rng=seed, **more)
    assert counted.calls == res.nfev <= max_evals
    assert not boxed or ((res.x >= -0.5) & (res.x <= 2.0)).all()


@pytest.mark.parametrize("d", [5, 20])
def test_rounding_in_batches_of_another_size_is_no_noise(d):
    """A matrix product rounds a row differently beside others; where f is 0 that is much relative to f."""
    rng = np.random.default_rng(d)
    A = rng.normal(size=(d, 3 * d))
    b = rng.normal(size=d) @ A
    oracle = gs.Deterministic(lambda X: np.abs(X @ A - b).mean(axis=1), vectorized=True)
    res = gs.minimize(oracle, np.zeros(d), max_evals=1000 * (d + 1), rng=0)
    assert "taken as noise" not in res.message
    assert res.fun < 1e-12


def test_noise_of_rounding_size_is_no_noise_and_a_jump_seen_on_the_only_walk_is_one():
    calls = []

    def rounds(x):
        calls.append(1)
        return float(np.abs(x - 1).sum() * (1 + 1e-15 * (len(calls) % 3)))

    assert gs.minimize(rounds, np.zeros(10), max_evals=4000, rng=0).fun < 1e-9
    kinds = [
        gs.minimize(lambda x: float(abs(np.round(x) - 4).sum()), np.full(3, 0.2), max_evals=2000, rng=seed).message
        for seed in range(4)
    ]
    assert all('"jumps"' in message for message in kinds), kinds
