"""The scaling study: its bound is one, its fits find exponents, its loops are the library's, and it can be resumed."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs
from goldstein.estimate.smoothing import ball

pytest.importorskip("numba")

from studies.scaling import fit as scaling_fit
from studies.scaling import kernels
from studies.scaling import planned as scaling_planned
from studies.scaling import report as scaling_report
from studies.scaling import study as scaling
from studies.scaling import tuned as scaling_tuned
from studies.scaling.problems import SHARES, TERRAINS, N

ROOT = Path(__file__).parents[2]
TINY_SEEDS = scaling_planned.Seeds(
    smoothed=10, blocks=2, momentum=0, certifying=2, epsilons=(1.0,), problems=("ridge",)
)
TINY = replace(
    scaling_tuned.QUICK,
    steps=(0.125, 0.03125),
    epochs=((8, 4),),
    fine=(0.4, 0.3),
    coarse=(0.4,),
    dims=(3, 4),
    radii=(0.5,),
    most=20_000,
)


# Exponents


def test_exponents_and_ratios_are_recovered_from_exact_power_laws():
    scales = [0.16, 0.08, 0.04, 0.02]
    fit = scaling_fit.exponent(scales, [[5 * e**-3.0] * 4 for e in scales])
    assert fit["exponent"] == pytest.approx(-3)
    assert fit["interval"] == pytest.approx([-3, -3])
    assert fit["residual"] == pytest.approx(0, abs=1e-12)
    assert scaling_fit.ratio([8, 2], [1, 1])["ratio"] == pytest.approx(4)


def test_departures_from_a_power_law_are_told():
    fit = scaling_fit.exponent([1, 10, 100], [[1, 1], [1000, 1000], [100, 100]])
    assert fit["exponent"] == pytest.approx(1)
    assert fit["residual"] == pytest.approx(4 / 3)  # log10 of the points: 0, 3, 2; of the line: 2/3, 5/3, 8/3


def test_intervals_of_exponents_cover_the_truth():
    """Coverage is 0.94 nominally (percentile bootstrap, 20 seeds): below 170 of 200 with probability 1e-6."""
    rng, scales = np.random.default_rng(0), np.array([0.16, 0.08, 0.04, 0.02])
    covered = 0
    for _ in range(200):
        times = [50 * e**-2.5 * np.exp(0.5 * rng.standard_normal(20)) for e in scales]
        low, high = scaling_fit.exponent(scales, times)["interval"]
        covered += low <= -2.5 <= high
    assert covered >= 170


# The bound


@pytest.mark.parametrize("name", scaling_planned.SHAPES)
def test_the_shortest_smoothed_gradient_bounds_the_exact_distance(name):
    rng, problem = np.random.default_rng(1), scaling_planned.SHAPES[name][0](4)
    for delta in (0.1, 0.3):
        for _ in range(20):
            x = 1.5 * rng.standard_normal(4) / 2
            norms = [np.linalg.norm(problem.smoothed_gradient(x, share * delta)) for share in SHARES]
            assert min(norms) >= problem.distance(x, delta) - 1e-9


def slopes(terrain, t, coordinate, d):
    """φ'_j on a grid, from the components' kinks themselves."""
    if terrain.reach and coordinate == 0:
        return -np.where(t <= 0, 1.0, np.where(t < terrain.reach, 1 / (1 + np.maximum(t, 0)), 0.0))
    xi, counts = np.unique(terrain.args(d)[0][:, coordinate], return_counts=True)
    s = t[:, None] - xi
    return np.sign(s) * np.where(np.abs(s) > terrain.well, 1, -1) @ (counts / N) / np.sqrt(d - bool(terrain.reach))


@pytest.mark.parametrize("terrain", TERRAINS.values(), ids=TERRAINS)
def test_the_bound_of_the_study_is_never_below_what_the_distance_must_be(terrain):
    """dist(0, ∂_δ f(x)) ≥ min over the ball of ⟨∇f, v⟩ for each unit v; here v = ± the coordinates."""
    d, delta, rng, tight = 3, 0.25, np.random.default_rng(2), 0.0
    ground = scaling_tuned.Ground(terrain, d, delta)
    for _ in range(40):
        x = ground.start + rng.standard_normal(d)
        least = 0.0
        for j in range(d):
            there = slopes(terrain, x[j] + delta * np.linspace(-1, 1, 801), j, d)
            least = max(least, there.min(), -there.max())
        assert ground.bound(x) >= least - 1e-4
        tight = max(tight, least)
    assert tight > 0.3  # the test has something to say


@pytest.mark.parametrize("terrain", TERRAINS.values(), ids=TERRAINS)
def test_smoothed_gradients_of_the_study_are_means_of_gradients_over_balls(terrain):
    """Each of 2 × 4 × 4 means is 5 standard errors off with probability 6e-7."""
    d, delta, rng = 4, 0.5, np.random.default_rng(3)
    gauge = terrain.gauge(d, delta)
    x, out = terrain.start(d) + 0.1 * np.arange(d), np.empty(d)
    for k, share in enumerate(SHARES):
        points = x + share * delta * ball(rng, 20_000, d)
        for j in range(d):
            sample = slopes(terrain, points[:, j], j, d)
            kernels.smoothed(x, k, gauge, out)
            assert abs(out[j] - sample.mean()) <= 5 * sample.std() / np.sqrt(sample.size) + 1e-4


@pytest.mark.parametrize("terrain", TERRAINS.values(), ids=TERRAINS)
def test_gaps_are_those_of_the_components(terrain):
    d, args = 3, terrain.args(3)
    low = np.full(d, terrain.well)
    if terrain.reach:
        low[0] = terrain.reach
    start, end = (np.mean([kernels.component(x, i, *args) for i in range(N)]) for x in (terrain.start(d), low))
    assert terrain.gap(d) == pytest.approx(start - end)


def test_a_target_counts_at_the_second_of_two_consecutive_checks():
    ground = scaling_tuned.Ground(TERRAINS["slope"], 3, 0.5)
    far, near = np.array([0.0, 2, 2]), np.array([200.0, 0, 0])
    assert ground.bound(near) < 0.1 < ground.bound(far)
    targets, below, hits = np.array([0.1, 1e-9]), np.zeros(2, np.int64), np.zeros(2)
    for evals, x in ((10, near), (20, far), (30, near), (40, near), (50, near)):
        assert not kernels._check(x, evals, targets, below, hits, ground.gauge, np.empty(3))
    assert hits.tolist() == [40, 0]


# The loops


def hits_of(method, setting, steps, seed=7):
    """Run a loop of the study for `steps` and return where it is; its target is out of reach."""
    terrain, d, delta = TERRAINS["slope"], 4, 0.5
    x, rng = terrain.start(d), np.random.default_rng(seed)
    common = (delta, np.array([1e-12]), float(steps), 1.03, terrain.gauge(d, delta), np.zeros(1), np.zeros(6))
    getattr(kernels, method)(terrain.args(d), rng, N, x, *setting, *common)
    return x


def test_the_loops_of_the_study_are_those_of_the_library():
    oracle, x0 = TERRAINS["slope"].oracle(4), TERRAINS["slope"].start(4)
    plain = {"rng": 7, "output": "last", "compiled": False}
    expected = gs.minimize(oracle, x0, gs.GFM(0.5, 0.05), max_iter=300, **plain).x
    np.testing.assert_allclose(hits_of("hit_gfm", (0.05, False), 600), expected, rtol=1e-9)
    expected = gs.minimize(oracle, x0, gs.GFM(0.5, gs.steps.InverseSqrt(0.5)), max_iter=300, **plain).x
    np.testing.assert_allclose(hits_of("hit_gfm", (0.5, True), 600), expected, rtol=1e-9)
    expected = gs.minimize(oracle, x0, gs.GFMPlus(0.5, 0.05, 4, 3), max_iter=8, **plain).x
    np.testing.assert_allclose(hits_of("hit_gfm_plus", (0.05, 4, 3), 2 * (24 + 3 * 12)), expected, rtol=1e-9)
    for learner, step in (("ogd", 0.002), ("adagrad", None)):
        run = gs.ZOO2NC(0.5, 16, step, learner=learner).start(x0, rng=7, sample=oracle.sample)
        while run.nit < 48:
            query = run.ask()
            run.tell(query, oracle.evaluate(query).values)
        np.testing.assert_allclose(hits_of("hit_zo_o2nc", (step or 0.0, 16), 96), run.state.position, rtol=1e-9)


@pytest.mark.parametrize("name", scaling_planned.SHAPES)
def test_planned_loops_are_those_of_the_library(name):
    problem = scaling_planned.SHAPES[name][0](scaling_planned.D)
    made = scaling_planned.plan(problem, "zo-o2nc", "ogd", 1.0)
    for ours, theirs in zip(
        scaling_planned.run_zo_o2nc(made, problem, 3), scaling_planned.run_o2nc(made, problem, 3), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    for method in ("singd", "psingd"):
        made, wanted = scaling_planned.plan(problem, method, "", 0.5), np.array([1, 2, 50, 200])
        run, seen = made.method.start(problem.x0, rng=4), [problem.x0]
        while run.nit < 200:
            query, before = run.ask(), run.nit
            run.tell(query, problem.oracle.evaluate(query).values)
            seen += [run.x] if run.nit > before else []
        points = scaling_planned.run_singd(made, problem, 4, wanted)
        np.testing.assert_allclose(points, np.array(seen)[wanted - 1], rtol=1e-9)


# The study


def test_seeds_that_tune_never_report():
    for tuning in (scaling_tuned.FULL, scaling_tuned.QUICK):
        assert not set(tuning.tuning_seeds) & set(tuning.reporting_seeds)
    with pytest.raises(ValueError, match="must not report"):
        scaling.work(Path("nowhere"), TINY_SEEDS, replace(TINY, reporting_seeds=TINY.tuning_seeds))


def test_all_methods_have_the_same_steps_and_the_grids_are_wide_enough():
    full = scaling_tuned.FULL
    for method in scaling_tuned.METHODS:
        steps = {setting["step"] for setting in full.grid(method) if "step" in setting}
        assert steps in (set(), set(full.steps))
    assert max(full.fine) / min(full.fine) >= 8 * (1 - 1e-12)
    assert max(full.dims) / min(full.dims) >= 8
    assert max(full.radii) / min(full.radii) >= 4


def test_a_stopped_study_goes_on_where_it_was_and_ends_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(scaling_tuned, "METHODS", ("gfm", "gfm+", "zo-o2nc adagrad"))
    monkeypatch.setattr(scaling, "TERRAINS", {"slope": TERRAINS["slope"]})
    few = ("gfm", "zo-o2nc ogd", "o2nc adagrad", "ingd")
    units = [unit for unit in scaling_planned.units(TINY_SEEDS) if unit.label in few]
    monkeypatch.setattr(scaling_planned, "units", lambda seeds: iter(units))
    done, whole = [], scaling_tuned.measure

    def stopping(terrain, place, method, *rest):
        done.append((terrain, place, method))
        if len(done) == 3:
            raise KeyboardInterrupt
        return whole(terrain, place, method, *rest)

    monkeypatch.setattr(scaling_tuned, "measure", stopping)
    with pytest.raises(KeyboardInterrupt):
        scaling.work(tmp_path / "a", TINY_SEEDS, TINY)
    kept = json.loads((tmp_path / "a" / scaling.FILE).read_text())
    assert (len(kept["planned"]), len(kept["tuned"])) == (len(units), 2)
    first = scaling.work(tmp_path / "a", TINY_SEEDS, TINY)
    assert done[2] == done[3]
    assert len(set(done)) == len(done) - 1 == 6
    second = scaling.work(tmp_path / "b", TINY_SEEDS, TINY)
    assert {**first, "cpu_seconds": 0} == {**second, "cpu_seconds": 0}
    assert json.loads((tmp_path / "a" / scaling.FILE).read_text()) == json.loads(json.dumps(first))
    with pytest.raises(ValueError, match="other settings"):
        scaling.work(tmp_path / "a", TINY_SEEDS, replace(TINY, most=30_000))
    _check_report(first, tmp_path)


def _check_report(record, tmp_path):
    scaling_report.write(record, tmp_path)
    text = (tmp_path / "scaling.md").read_text()
    assert all(f"| {method} |" in text for method in scaling_report.TABLES)
    assert (tmp_path / "scaling.png").stat().st_size > 10_000


def test_plans_that_are_too_dear_are_reported_and_not_run():
    row = scaling_planned.measure(scaling_planned.Unit("singd", "", "ridge", 0.25), scaling_planned.FULL)
    assert row["evaluations"] > scaling_planned.MOST
    assert row["runs"] == 0


def test_the_committed_report_is_made_of_the_committed_numbers():
    folder = ROOT / "results" / "scaling"
    record = json.loads((folder / scaling.FILE).read_text())
    assert (folder / "scaling.md").read_text() == scaling_report.tables(record)


def test_the_caption_of_the_theorems_says_what_their_plans_need():
    """With the constants of the caption the library gives the costs of the table, and without noise=0 it does not."""
    record = json.loads((ROOT / "results" / "scaling" / "scaling.json").read_text())
    assert "gap = 1 (1/2 for the capped ridge), R = 1 where f is convex" in scaling_report.tables(record)
    known = {"d": 5, "L": 1.0, "gap": 1.0, "delta": 0.3}
    for name in gs.theory.PLANS:
        for learner in ("ogd", "adagrad") if name in ("o2nc", "zo-o2nc") else (None,):
            label = f"{name} {learner}" if learner else name
            for epsilon in (0.5, 0.25):
                rows = [r for r in record["planned"].values() if (r["method"], r["epsilon"]) == (label, epsilon)]
                extra = {"learner": learner, "noise": 0.0 if name == "o2nc" else None, "epsilon": epsilon}
                radius = 1.0 if "ws-" in name or name == "one-phase" else None
                made = gs.theory.plan(name, **known, **extra, radius=radius)
                assert made.evaluations == max(row["evaluations"] for row in rows), label
                if name == "o2nc":
                    assert gs.theory.plan(name, **known, **extra | {"noise": None}).evaluations > made.evaluations
