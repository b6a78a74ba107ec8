"""SimOpt in both directions: its problems as oracles, and the solver in its experiments."""

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import goldstein as gs
from goldstein.projection import Knapsack, Simplex

pytest.importorskip("simopt")
import joblib
from mrg32k3a.mrg32k3a import MRG32k3a
from simopt.base import ConstraintType, Solution
from simopt.directory import problem_directory
from simopt.experiment import single
from simopt.experiment.post_normalize import post_normalize
from simopt.experiment.run_solver import run_solver

from goldstein.simopt import Goldstein, Simulation, oracle
from studies import peers_simopt

MINIMISED = ["AMBULANCE-1", "EXAMPLE-1", "FIXEDSAN-1", "MM1-1", "NETWORK-1", "SAN-1", "SSCONT-1"]
MAXIMISED = ["CNTNEWS-1", "DYNAMNEWS-1", "FACSIZE-2", "IRONORECONT-1", "PARAMESTI-1"]
TAKEN = sorted(MINIMISED + MAXIMISED)
NOT_A_BOX = ["FACSIZE-2", "NETWORK-1"]
ALIKE = ["DYNAMNEWS-1", "FACSIZE-2"]  # the first has customers who always buy, the second the values 0 and 1
QUICK = ["CNTNEWS-1", "EXAMPLE-1", "PARAMESTI-1"]

every = pytest.mark.parametrize("name", TAKEN)


def replications(problem, x, count, stream=3):
    """Return replications as SimOpt takes them."""
    solution = Solution(tuple(x), problem)
    solution.attach_rngs([MRG32k3a(s_ss_sss_index=[stream, place, 0]) for place in range(problem.model.n_rngs)])
    problem.simulate(solution, count)
    return solution.objectives[:, 0]


def beside(p):
    """Return an allowed point beside the start."""
    x = p.x0 + np.linspace(0.05, 0.15, p.x0.size) * np.maximum(np.abs(p.x0), 1)
    return x if p.projection is None else p.projection(x)


def counted(problem):
    """Let a problem count its replications."""
    calls = Counter()
    replicate = problem.replicate

    def replicate_and_count(x):
        calls["made"] += 1
        return replicate(x)

    problem.replicate = replicate_and_count
    return calls


@every
@pytest.mark.parametrize("stream", [3, 5])
def test_a_seed_is_the_number_of_a_replication_of_simopt(name, stream):
    p = oracle(name, stream=stream)
    problem = problem_directory[name]()
    for x in (p.x0, beside(p)):
        values = [p.fun(x, seed) for seed in (3, 0, 2, 1)]  # in any order
        assert values == list(p.sign * replications(problem, x, 4, stream)[[3, 0, 2, 1]])


@every
def test_a_seed_is_replayed_bit_for_bit_and_others_differ(name):
    p = oracle(name)
    x = np.ones(1) if name == "CNTNEWS-1" else beside(p)  # where sales depend on the demand
    seeds = [1, 2**32 - 1, 77, 4_000_000_000]
    first = [p.fun(x, seed) for seed in seeds]
    p.fun(p.x0, 5)
    assert [p.fun(x, seed) for seed in seeds] == first
    if name not in ALIKE:
        assert len(set(first)) == len(seeds)


@every
def test_maximisation_is_turned_round(name):
    p = oracle(name)
    assert p.sign == (-1 if name in MAXIMISED else 1)
    problem = problem_directory[name]()
    assert problem.minmax == ((1,) if name in MAXIMISED else (-1,))


def test_common_random_numbers_leave_nothing_but_f_between_two_points():
    p = oracle("EXAMPLE-1")  # |x|² and a normal number
    other = p.x0 + 0.7
    for seed in (0, 10, 2**31):
        noise = p.fun(p.x0, seed) - p.x0 @ p.x0
        assert p.fun(other, seed) - other @ other == pytest.approx(noise, abs=1e-13)


@every
def test_start_bounds_and_budget_are_those_of_the_problem(name):
    p = oracle(name)
    problem = problem_directory[name]()
    assert isinstance(p, gs.Seeded)
    assert p.name == name
    assert p.x0 == pytest.approx(problem.factors["initial_solution"])
    assert p.max_evals == problem.factors["budget"]
    assert sorted(p.arguments) == ["bounds", "max_evals", "projection", "x0"]
    if name in NOT_A_BOX:
        assert p.bounds is None
        assert isinstance(p.projection, Simplex if name == "NETWORK-1" else Knapsack)
    elif name == "EXAMPLE-1":
        assert p.bounds is None
        assert p.projection is None
    else:
        assert p.projection is None
        assert tuple(p.bounds.lb) == problem.lower_bounds
        assert tuple(p.bounds.ub) == problem.upper_bounds


@every
def test_every_value_that_is_counted_is_a_replication_and_no_other(name):
    p = oracle(name)
    calls = counted(p.problem)
    res = gs.minimize(p, **(p.arguments | {"max_evals": 150}), rng=0)
    assert calls["made"] == res.nfev <= 150
    if p.bounds is not None:
        assert (p.bounds.lb <= res.x).all()
        assert (res.x <= p.bounds.ub).all()


@pytest.mark.parametrize("name", NOT_A_BOX)
def test_the_simulator_is_asked_at_allowed_points_only(name):
    p = oracle(name)
    replicate = p.problem.replicate

    def replicate_allowed(x):
        assert p.problem.check_deterministic_constraints(x), x
        return replicate(x)

    p.problem.replicate = replicate_allowed
    res = gs.minimize(p, **(p.arguments | {"max_evals": 300}), rng=0)
    assert res.nfev > 200
    assert p.problem.check_deterministic_constraints(tuple(res.x))
    p.fun(p.x0 + 1000.0, 0)


def test_progress_is_made_on_a_problem_of_simopt():
    """The newsvendor's optimum is 0.1878, with profit 0.464; 500 replications have a standard error below 0.02."""
    p = oracle("CNTNEWS-1")
    res = gs.minimize(p, **p.arguments, rng=0)
    profit = replications(problem_directory["CNTNEWS-1"](), res.x, 500, stream=0).mean()
    assert p.sign * res.fun == pytest.approx(profit, abs=0.15)
    assert profit > 0.38


def test_the_given_problem_is_left_alone_and_its_factors_are_kept():
    problem = problem_directory["MM1-1"](fixed_factors={"budget": 70, "initial_solution": (4.0,)})
    before = dict(problem.model.factors)
    p = oracle(problem)
    p.fun(np.array([2.0]), 0)
    assert (p.max_evals, p.x0.tolist()) == (70, [4.0])
    assert problem.model.factors == before
    assert p.problem is not problem


@pytest.mark.parametrize("name", ["PARAMESTI-1", "FACSIZE-2"])
def test_workers_change_nothing(name):
    p = oracle(name)
    limits = p.arguments | {"max_evals": 120}
    alone = gs.minimize(p, **limits, rng=0)
    processes = gs.minimize(p, **limits, rng=0, workers=2)
    with ThreadPoolExecutor(4) as threads:
        threaded = gs.minimize(p, **limits, rng=0, workers=threads)
    for res in (processes, threaded):
        assert (res.x.tolist(), res.fun, res.nfev) == (alone.x.tolist(), alone.fun, alone.nfev)


def test_generators_that_were_forgotten_are_found_again(monkeypatch):
    monkeypatch.setattr("goldstein.simopt.KEPT", 2)
    p = oracle("PARAMESTI-1")
    first = [p.fun(p.x0, seed) for seed in range(5)]
    assert [p.fun(p.x0, seed) for seed in range(5)] == first
    assert p.fun._generators_of.cache_info().currsize == 2


class Multi(problem_directory["EXAMPLE-1"]):
    n_objectives = 2


class Odd(problem_directory["EXAMPLE-1"]):
    class_name_abbr = "ODD-1"
    constraint_type = ConstraintType.DETERMINISTIC


REFUSED = [
    (lambda: oracle("SAN-2"), ValueError, "SAN-2 has stochastic constraints"),
    (lambda: oracle("HOTEL-1"), ValueError, "HOTEL-1 has discrete variables; continuous ones are needed"),
    (lambda: oracle("IRONORE-1"), ValueError, "IRONORE-1 has mixed variables; continuous ones are needed"),
    (lambda: oracle(Multi()), ValueError, "EXAMPLE-1 has 2 objectives; a problem with one is needed"),
    (lambda: oracle(Odd()), ValueError, "ODD-1 has deterministic constraints whose shape is not known here"),
    (lambda: oracle("SAN-9"), ValueError, "Unknown problem 'SAN-9'; SimOpt has AMBULANCE-1, "),
    (lambda: oracle(7), TypeError, "problem must be a problem of SimOpt or a name .* got 7"),
    (lambda: oracle("SAN-1", stream=-1), ValueError, "stream must be a whole number of at least 0, got -1"),
    (lambda: oracle("SAN-1", projection=3), TypeError, "projection must be a callable"),
]


@pytest.mark.parametrize(("make", "kind", "sentence"), REFUSED, ids=[sentence[:30] for *_, sentence in REFUSED])
def test_what_cannot_be_taken_is_refused_in_a_sentence(make, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        make()
    assert str(caught.value).endswith(".")


def test_constraints_of_unknown_shape_are_taken_with_a_projection():
    p = oracle(Odd(), projection=lambda x: np.maximum(x, 3.0))
    assert p.x0.tolist() == [3.0, 3.0]
    assert p.fun(np.zeros(2), 1) == p.fun(np.array([3.0, 3.0]), 1)


def test_without_simopt_the_error_names_the_extra():
    program = "import sys; sys.modules['simopt'] = None; import goldstein.simopt"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "ImportError: goldstein.simopt needs SimOpt: pip install 'goldstein[simopt]'." in process.stderr


def macroreplications(solver, problem, count=2):
    table, _ = run_solver(solver, problem, n_macroreps=count, n_jobs=1)
    return [rows.reset_index(drop=True) for _, rows in table.groupby("mrep")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Let experiments write into a folder of their own and post-replicate in this process."""
    monkeypatch.setattr(single, "EXPERIMENT_DIR", tmp_path)
    with joblib.parallel_config(backend="sequential"):
        yield


def test_the_solver_runs_in_an_experiment_and_gets_near_the_optimum(here):
    experiment = single.ProblemSolver(solver=Goldstein(), problem=problem_directory["CNTNEWS-1"](), create_pickle=False)
    assert experiment.check_compatibility() == ""
    experiment.run(n_macroreps=3, n_jobs=1)
    experiment.post_replicate(n_postreps=100)
    post_normalize([experiment], n_postreps_init_opt=100, create_pair_pickles=False)
    for budgets, points in zip(experiment.all_intermediate_budgets, experiment.all_recommended_xs, strict=True):
        assert (budgets[0], points[0]) == (0, (0.0,))
        assert budgets[-1] == 1000
        assert budgets == sorted(set(budgets))
        assert len(points) > 3
    assert len({points[-1] for points in experiment.all_recommended_xs}) == 3  # streams of their own
    for objectives in experiment.all_est_objectives:
        assert objectives[-1] > 0.3  # the optimum is 0.464


@pytest.mark.parametrize("factors", [{}, {"crn_across_solns": False}, {"method": "gfm"}], ids=str)
@pytest.mark.parametrize("name", [*QUICK, "FACSIZE-2"])
def test_the_solver_keeps_to_the_budget_exactly(name, factors):
    problem = problem_directory[name](fixed_factors={"budget": 230})
    solver = Goldstein(fixed_factors=factors)
    solver.solution_progenitor_rngs = [MRG32k3a(s_ss_sss_index=[3, i, 0]) for i in range(problem.model.n_rngs)]
    solver.rng_list = [MRG32k3a(s_ss_sss_index=[3, problem.model.n_rngs + i, 0]) for i in range(3)]
    calls = counted(problem)
    table = solver.run(problem)
    assert calls["made"] == solver.budget.used
    assert 100 < solver.budget.used <= 230
    assert table["budget"].max() <= solver.budget.used
    for x in table["solution"]:
        assert len(x) == problem.dim


def test_a_macroreplication_is_repeated_bit_for_bit():
    problem = problem_directory["PARAMESTI-1"](fixed_factors={"budget": 200})
    once = macroreplications(Goldstein(), problem)
    again = macroreplications(Goldstein(), problem)
    for first, second in zip(once, again, strict=True):
        assert first.equals(second)
    assert not once[0].equals(once[1])


def test_without_common_random_numbers_every_replication_has_its_own(monkeypatch):
    seen = []
    monkeypatch.setattr("goldstein.simopt.minimize", lambda asked, *args, **keys: seen.append(asked) or fake())

    def fake():
        oracle = seen[-1]
        if oracle.replayable:
            values = [oracle.fun(np.ones(2), seed) for seed in (0, 0, 1)]
        else:
            values = [oracle.fun(np.ones(2)) for _ in range(3)]
        seen.append(values)
        return gs.Result(x=np.ones(2))

    for crn in (True, False):
        run_solver(Goldstein(fixed_factors={"crn_across_solns": crn}), problem_directory["EXAMPLE-1"](), 1, n_jobs=1)
    replayed, with_seeds, fresh, without = seen
    assert isinstance(replayed, gs.Seeded)
    assert isinstance(fresh, gs.Unreplayable)
    assert with_seeds[0] == with_seeds[1] != with_seeds[2]
    assert len(set(without)) == 3


def test_the_solver_says_what_it_does_not_take():
    with pytest.raises(ValueError, match="Unknown method 'newton'"):
        Goldstein(fixed_factors={"method": "newton"})
    with pytest.raises(ValueError, match="SAN-2 has stochastic constraints"):
        run_solver(Goldstein(), problem_directory["SAN-2"](), 1, n_jobs=1)
    experiment = dict.fromkeys(("SAN-2", "HOTEL-1", "SAN-1"), single.ProblemSolver.check_compatibility)
    said = {name: check(Pair(Goldstein(), problem_directory[name]())) for name, check in experiment.items()}
    assert "stochastic constraints" in said["SAN-2"]
    assert "continuous variables" in said["HOTEL-1"]
    assert said["SAN-1"] == ""


class Pair:
    def __init__(self, solver, problem):
        self.solver = solver
        self.problem = problem


def test_the_factors_are_described_as_simopt_wants_them():
    assert Goldstein.specifications["method"]["default"] == "auto"
    assert Goldstein.compatibility == "SDCN"
    assert Goldstein().factors == {"crn_across_solns": True, "method": "auto"}
    assert isinstance(oracle("SAN-1"), Simulation)


def test_a_macroreplication_of_the_study_is_judged_as_simopt_does(here):
    ours = peers_simopt.run("PARAMESTI-1", "goldstein", 1, post_replications=60)
    theirs = peers_simopt.run("PARAMESTI-1", "RNDSRCH", 1, post_replications=60)
    experiment = single.ProblemSolver("RNDSRCH", "PARAMESTI-1", create_pickle=False)
    experiment.run(n_macroreps=2, n_jobs=1)
    experiment.post_replicate(60, crn_across_macroreps=True)
    assert theirs.x == experiment.all_recommended_xs[1][-1]
    assert theirs.value == pytest.approx(-experiment.all_est_objectives[1][-1])
    assert theirs.start == ours.start == pytest.approx(-experiment.all_est_objectives[0][0])
    assert theirs.nfev == 1000
    assert ours.nfev <= 1000
    assert ours.value < ours.start
    assert ours == peers_simopt.run("PARAMESTI-1", "goldstein", 1, post_replications=60)
    assert ours.x != peers_simopt.run("PARAMESTI-1", "goldstein", 2, post_replications=60).x
    assert ours.x != peers_simopt.run("PARAMESTI-1", "goldstein:gfm", 1, post_replications=60).x
