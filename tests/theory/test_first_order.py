"""Plans of ZO-O2NC and of the methods that ask for gradients: known numbers, the bounds they rest on, and runs.

Randomised claims run on fixed seeds and state their error probability. Where a plan draws its answer at random from
the blocks of a run, the mean over that draw is taken exactly: the distance is computed at every block.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import betainc
from scipy.stats import t as student

import goldstein as gs
from goldstein.estimate.smoothing import sphere
from goldstein.theory import plan
from studies.problems import capped_ridge, cone, ridge, shell

SMALL = {"d": 10, "L": 1.0, "delta": 0.5, "epsilon": 0.3, "gap": 1.0}
BLOCKS, MOMENTUM, CERTIFYING = ("zo-o2nc", "o2nc"), ("singd", "psingd"), ("ingd", "pingd", "cutting-plane")
ALL = BLOCKS + MOMENTUM + CERTIFYING
REGRET = {"ogd": 1.0, "adagrad": 2 * math.sqrt(2)}
D, DELTA = 5, 0.3
WRONG = 1e-3  # chance that a test of a guarantee passes although the guarantee is wrong

patient = settings(deadline=None)
dimensions = st.integers(1, 10**4)
scales = st.floats(-3, 3).map(lambda e: 10.0**e)
accuracies = st.floats(-3, 0.5).map(lambda e: 10.0**e)  # ε/L, also above 1
learners = st.sampled_from(["ogd", "adagrad"])
kinds = st.sampled_from(["sharp", "paper"])
shares = st.floats(0, 1)


# Known numbers


def test_zo_o2nc_on_the_reference_problem():
    made = plan("zo-o2nc", **SMALL)
    assert made.parameters["block_length"] == 1112
    assert made.parameters["blocks"] == 22
    assert (made.iterations, made.evaluations) == (1112 * 22, 48928)
    assert made.method.learner == "ogd"
    assert made.parameters["rho"] == made.method.rho == pytest.approx(0.025)
    assert made.method.displacement == pytest.approx(0.475 / 1112)
    assert made.method.step_size == pytest.approx(0.475 / 1112 / math.sqrt(100 / 9 * 1112))


@pytest.mark.parametrize(
    ("d", "epsilon", "cost"),
    [
        (10, 0.3, "2.4e+05"),
        (10, 0.03, "2.4e+08"),
        (100, 0.1, "5.8e+07"),
        (100, 0.01, "5.8e+10"),
        (1000, 0.1, "5.7e+08"),
    ],
)
def test_predicted_costs_of_zo_o2nc(d, epsilon, cost):
    made = plan("zo-o2nc", d=d, L=1, gap=1, delta=0.1, epsilon=epsilon)
    assert f"{made.evaluations:.1e}" == cost


@pytest.mark.parametrize("name", BLOCKS)
def test_adagrad_needs_blocks_of_33_squares(name):
    made = plan(name, **SMALL, learner="adagrad")
    G2 = made.constants.second_moment if name == "zo-o2nc" else 1
    assert made.parameters["block_length"] == pytest.approx(33 * G2 / 0.09, rel=2e-3)
    assert made.method.step_size is None
    assert made.parameters["blocks"] == plan(name, **SMALL).parameters["blocks"]


def test_o2nc_takes_27_squares_over_delta_epsilon_cubed():
    made = plan("o2nc", d=10, L=2.0, gap=3.0, delta=1e-3, epsilon=1e-2)
    assert made.parameters["block_length"] == 9 * 4 * 10**4
    assert made.evaluations == made.gradients == pytest.approx(27 * 4 * 3 / (1e-3 * 1e-6), rel=1e-4)


def test_exact_gradients_make_o2nc_cheaper():
    made = {noise: plan("o2nc", **SMALL, noise=noise).parameters["block_length"] for noise in (None, 1.0, 0.5, 0)}
    assert made == {None: 100, 1.0: 100, 0.5: 57, 0: 25}


def test_singd_has_the_parameters_of_its_theorem():
    made, G, log = plan("singd", **SMALL, constants="paper"), math.sqrt(2), math.log(16 * math.sqrt(2) / 0.3)
    p = 64 * 2 * log / (0.5 * 0.09)
    want = {"delta": 0.5, "p": p, "q": 4 * G * p, "beta": 1 - 0.09 / 128, "lookback": int(p * 0.5)}
    assert made.parameters == pytest.approx(want, rel=1e-12)
    assert made.iterations == math.ceil(2**16 * G**3 * log / (0.3**4 * 0.5))  # the guard is idle here
    assert (made.evaluations, made.gradients, made.values) == (made.iterations + 1, made.iterations + 1, 0)
    assert made.method == gs.SINGD(0.5, made.parameters["p"], made.parameters["q"], made.parameters["beta"])
    easy = plan("singd", **SMALL | {"gap": 1e-3})
    assert easy.iterations == math.ceil(2**13 * math.log(16 / 0.3) / 0.3**4)  # max{1, Gδ/(8Δ)} > 1


def test_psingd_takes_the_parameters_of_singd_and_says_so():
    singd, psingd = plan("singd", **SMALL), plan("psingd", **SMALL)
    assert psingd.parameters == singd.parameters
    assert type(psingd.method) is gs.PSINGD
    assert "not verified" in str(psingd)


def test_ingd_and_pingd_have_the_counts_of_their_theorems():
    places, gamma = math.ceil(4 / (0.5 * 0.3)), 0.01
    made = plan("pingd", **SMALL, failure_probability=gamma)
    inner = math.ceil(64 / 0.09) * math.ceil(2 * math.log(places / gamma))
    assert made.gradients == made.iterations == places * (1 + inner)
    assert made.values == made.gradients + 1
    made = plan("ingd", **SMALL, failure_probability=gamma)
    assert made.gradients == places * (1 + math.ceil(48 / 0.09) * math.ceil(math.log(places / gamma)))
    assert made.method == gs.INGD(0.5, 0.3, lipschitz=1.0)


def test_the_cutting_plane_method_has_the_cuts_of_its_theorem():
    made = plan("cutting-plane", **SMALL)
    places, cuts = math.ceil(3 / 0.15) + 1, math.ceil(80 * math.log(8 / 0.3))
    assert made.parameters["places"] == places
    assert made.values == 1 + places * (1 + cuts)
    draws = (made.gradients - places) * 0.05 / 1.15  # (ε/6)/(L + ε/2)
    assert places * cuts < draws < 1.1 * places * cuts  # at many cuts, hardly more than the mean


# What the theorems need of the parameters


@patient
@given(d=dimensions, L=scales, delta=scales, share=accuracies, gap=scales, kind=kinds, learner=learners)
def test_zo_o2nc_meets_its_bound(d, L, delta, share, gap, kind, learner):
    made = plan("zo-o2nc", d=d, L=L, delta=delta, epsilon=share * L, gap=gap, constants=kind, learner=learner)
    M, K, rho, D = (made.parameters[key] for key in ("block_length", "blocks", "rho", "displacement"))
    G = math.sqrt(made.constants.second_moment)
    bound = (gap + rho * L) / (D * M * K) + (REGRET[learner] + 1) * G / math.sqrt(M)
    assert bound <= share * L * (1 + 1e-12)
    assert rho + M * D <= delta * (1 + 1e-12)  # ∂_ν f_ρ ⊂ ∂_{ν+ρ} f
    assert rho == made.method.needs.query_radius


@patient
@given(L=scales, delta=scales, share=accuracies, gap=scales, noise=shares, learner=learners)
def test_o2nc_meets_its_bound(L, delta, share, gap, noise, learner):
    made = plan("o2nc", d=3, L=L, delta=delta, epsilon=share * L, gap=gap, noise=noise * L, learner=learner)
    M, K = made.parameters["block_length"], made.parameters["blocks"]
    bound = gap / (delta * K) + (REGRET[learner] + noise) * L / math.sqrt(M)
    assert bound <= share * L * (1 + 1e-12)


@patient
@given(L=scales, delta=scales, share=accuracies, gap=scales, noise=shares, kind=kinds)
def test_singd_meets_its_bound(L, delta, share, gap, noise, kind):
    """avg E h(‖m‖) ≤ pΔ/T + G/(8αβT) + αG/(8β), h(r) = r²/(r + 4G); then what lies before K, and the noise."""
    made = plan("singd", d=3, L=L, delta=delta, epsilon=share * L, gap=gap, noise=noise * L, constants=kind)
    method, T, K, s = made.method, made.iterations, made.parameters["lookback"], noise * L
    G, beta = method.q / (4 * method.p), method.beta
    alpha = 1 - beta
    h = method.p * gap / T + G / (8 * alpha * beta * T) + alpha * G / (8 * beta)
    r = h / 2 + math.sqrt(h * h / 4 + 4 * G * h)
    inside = (r + beta**K * G + s * math.sqrt(alpha / (1 + beta))) / (1 - beta**K)
    assert inside + s * K / T <= 0.35 * share * L
    assert K / method.p <= delta
    assert G >= L * (1 - 1e-12)  # E‖∇F‖² ≤ L²


# Counting


@pytest.mark.parametrize("learner", ["ogd", "adagrad"])
@pytest.mark.parametrize("name", BLOCKS)
def test_block_plans_know_their_cost_exactly(name, learner):
    problem = shell(2)
    made = plan(name, d=2, L=1.0, gap=1.0, delta=DELTA, epsilon=1.0, learner=learner)
    result = gs.minimize(problem.oracle, problem.x0, made.method, max_iter=made.iterations, output="last", rng=0)
    assert result.nit == made.iterations
    assert result.nfev - result.nfev_diagnostic == made.values
    assert result.ngev == made.gradients
    M, K = made.parameters["block_length"], made.parameters["blocks"]
    assert made.expected_evaluations == pytest.approx(made.evaluations / K * np.mean(np.arange(1, K + 1)), rel=1e-12)
    stops = {made.method.needs.random_stop(np.random.default_rng(seed), made.iterations) for seed in range(30 * K)}
    assert stops == {M * k for k in range(1, K + 1)}  # misses one with probability K e^{−30}


def test_singd_knows_its_cost_exactly():
    problem = shell(2)
    made = plan("singd", d=2, L=1.0, gap=0.01, delta=DELTA, epsilon=1.0)
    result = gs.minimize(problem.oracle, problem.x0, made.method, max_iter=made.iterations, output="last", rng=0)
    assert result.nit == made.iterations == math.ceil(2**13 * math.log(16))
    assert result.ngev == made.gradients == made.evaluations

    class Fixed:
        def integers(self, low, high):
            assert (low, high) == (1, made.iterations + 1)
            return self.i

    spent, rng = [], Fixed()
    for rng.i in range(1, made.iterations + 1):
        n = made.method.needs.random_stop(rng, made.iterations)
        spent.append(n + 1 if n else 0)  # the gradient at x_1 comes before the first iteration
    assert made.expected_evaluations == pytest.approx(np.mean(spent), rel=1e-12)
    drawn = made.run(problem.oracle, problem.x0, rng=1)
    assert drawn.ngev == drawn.nit + 1


# Runs


def near(make):
    """A closed-form problem, started where its gap is a half and its distance from stationarity 0.8 or more."""
    problem = make(D)
    length = np.linalg.norm(problem.x0)
    x0 = problem.x0 / length * (1.5 if make is shell else 0.5)
    assert problem.value(x0) == pytest.approx(0.5)
    assert problem.distance(x0, DELTA) >= 0.8
    return problem, x0


def blocks(made, oracle, x0, seed):
    """Play all blocks of a plan; return their means, their gradient norms as the run sees them, and their points z."""
    run = made.method.start(x0, rng=seed, sample=oracle.sample)
    means, norms, points = [], [], []
    for _ in range(made.iterations):
        query = run.ask()
        points.append(query.points.mean(axis=0))  # of x ± ρw
        run.tell(query, oracle.evaluate(query).values)
        if run.state.done == 0:
            means.append(run.x)
            norms.append(run.state.block_norm)
    return np.array(means), np.array(norms), np.array(points).reshape(len(means), -1, x0.size)


def assert_mean_at_most(values, bound):
    """The mean of the law of `values` is at most `bound`: by Student's test, wrong with probability 1e-3."""
    n = len(values)
    assert np.mean(values) + student.ppf(1 - WRONG, n - 1) * np.std(values, ddof=1) / math.sqrt(n) <= bound


@pytest.mark.parametrize(
    ("learner", "make", "seeds"),
    [("ogd", ridge, 4), ("ogd", cone, 4), ("ogd", capped_ridge, 4), ("ogd", shell, 4), ("adagrad", cone, 3)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_planned_zo_o2nc_reaches_its_target(learner, make, seeds):
    """E dist(0, ∂_δ f(x_out)) ≤ ε by the exact distance. Error probability 1e-3 each."""
    problem, x0 = near(make)
    made = plan("zo-o2nc", d=D, L=1.0, gap=0.5, delta=DELTA, epsilon=0.5, learner=learner)
    distances = []
    for seed in range(seeds):
        means, _, points = blocks(made, problem.oracle, x0, seed)
        distances.append([problem.distance(x, DELTA) for x in means])
        reach = np.linalg.norm(points - means[:, None], axis=2).max() + made.method.rho
        assert reach <= DELTA * (1 + 1e-12)
    assert_mean_at_most(np.mean(distances, axis=1), 0.5)
    assert np.mean(distances) > 0.05  # there was a way to go


def test_the_block_mean_of_smoothed_gradients_is_what_the_theorem_bounds():
    """avg E‖mean of ∇f_ρ(z)‖ ≤ ε, and it bounds the distance at the block mean. Error probability 1e-3."""
    problem, x0 = near(ridge)
    made, e = plan("zo-o2nc", d=D, L=1.0, gap=0.5, delta=DELTA, epsilon=0.5), x0 / np.linalg.norm(x0)
    averages = []
    for seed in range(4):
        means, _, points = blocks(made, problem.oracle, x0, seed)
        s = points @ e
        slopes = np.sign(s) * betainc(0.5, (D + 1) / 2, np.minimum(1, (s / made.method.rho) ** 2))
        norms = np.abs(slopes.mean(axis=1))
        assert (norms >= [problem.distance(x, DELTA) - 1e-9 for x in means]).all()
        averages.append(norms.mean())
    assert_mean_at_most(averages, 0.5)


@pytest.mark.parametrize("learner", ["ogd", "adagrad"])
@pytest.mark.parametrize("make", [ridge, cone, capped_ridge, shell])
def test_planned_o2nc_reaches_its_target_and_its_norms_are_certificates(make, learner):
    """With exact gradients the distance is at most the norm of each block, and both ≤ ε in the mean (1e-3 each)."""
    problem, x0 = near(make)
    made = plan("o2nc", d=D, L=1.0, gap=0.5, delta=DELTA, epsilon=0.4, noise=0, learner=learner)
    averages = []
    for seed in range(5):
        means, norms, _ = blocks(made, problem.oracle, x0, seed)
        assert (norms >= [problem.distance(x, DELTA) - 1e-9 for x in means]).all()
        averages.append(norms.mean())
    assert_mean_at_most(averages, 0.4)


def test_planned_o2nc_reaches_its_target_with_noisy_gradients():
    """f = |e·x| + E⟨ξ, x⟩ with ξ of size 0.6 and mean 0; E‖∇F‖² ≤ 1 + 0.36. Error probability 1e-3."""
    problem, x0 = near(ridge)

    def component(X, xi):
        return problem.oracle.fun(X) + (xi * X).sum(axis=1)

    def gradient(X, xi):
        return problem.oracle.grad(X) + xi

    oracle = gs.Expectation(component, lambda rng, k: 0.6 * sphere(rng, k, D), vectorized=True, grad=gradient)
    made = plan("o2nc", d=D, L=math.hypot(1, 0.6), gap=0.5, delta=DELTA, epsilon=0.5, noise=0.6)
    averages = []
    for seed in range(6):
        means, *_ = blocks(made, oracle, x0, seed)
        averages.append(np.mean([problem.distance(x, DELTA) for x in means]))
    assert_mean_at_most(averages, 0.5)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_planned_run_answers_with_one_of_its_blocks_drawn_beforehand(name):
    problem, x0 = near(shell)
    made = plan(name, d=D, L=1.0, gap=0.5, delta=DELTA, epsilon=1.0)
    M = made.parameters["block_length"]
    for seed in range(3):
        means, *_ = blocks(made, problem.oracle, x0, seed)
        result = made.run(problem.oracle, x0, rng=seed)
        np.testing.assert_array_equal(result.x, means[result.nit // M - 1])
        assert result.nit % M == 0
        assert result.nfev + result.ngev - result.nfev_diagnostic == made.evaluations // made.iterations * result.nit


@pytest.mark.parametrize("make", [ridge, cone, capped_ridge, shell])
@pytest.mark.parametrize("name", CERTIFYING)
def test_planned_runs_with_certificates_end_in_time(name, make):
    """Each of 20 runs may miss with probability 0.05; three or more do with probability 0.08 at most, none is seen."""
    problem = make(D)
    made = plan(name, d=D, L=1.0, gap=problem.gap, delta=DELTA, epsilon=0.3)
    for seed in range(20):
        result = made.run(problem.oracle, problem.x0, rng=seed)
        assert result.success
        assert problem.distance(result.x, DELTA) <= 0.3
        assert result.ngev <= made.gradients
        assert result.nfev - result.nfev_diagnostic <= made.values


@pytest.mark.parametrize("name", ["ingd", "pingd"])
def test_a_gradient_is_followed_by_one_value_at_most(name):
    problem = cone(D)
    result = plan(name, d=D, L=1.0, gap=1.0, delta=0.05, epsilon=0.1).run(problem.oracle, problem.x0, rng=0)
    assert result.nfev - result.nfev_diagnostic <= result.ngev + 1
    assert result.ngev > 15


# Units


units = st.integers(-6, 6).map(lambda e: 2.0**e)  # powers of two, so that rounding is the same too


def unit_of(key, value, length):
    """Return the unit of a parameter; a step is a length for a slope, and SINGD's 1/(p‖m‖ + q) too."""
    lengths = {"delta": length, "rho": length, "displacement": length, "step_size": length**2 / value}
    slopes = {"epsilon": value / length, "lipschitz": value / length}
    return {**lengths, **slopes, "p": 1 / length, "q": value / length**2}.get(key, 1)


@patient
@pytest.mark.parametrize("name", ALL)
@given(value=units, length=units, d=st.integers(1, 20), share=accuracies, delta=scales, gap=scales, learner=learners)
def test_plans_do_not_depend_on_units(name, value, length, d, share, delta, gap, learner):
    extra = {"learner": learner} if name in BLOCKS else {}
    slope = value / length
    here = plan(name, d=d, L=1.7, delta=delta, epsilon=1.7 * share, gap=gap, **extra)
    scaled = {"L": 1.7 * slope, "delta": delta * length, "epsilon": 1.7 * share * slope, "gap": gap * value}
    there = plan(name, d=d, **scaled, **extra)
    for quantity in ("iterations", "evaluations", "gradients", "expected_evaluations"):
        assert getattr(here, quantity) == getattr(there, quantity)
    for key, number in here.parameters.items():
        if isinstance(number, str):
            assert there.parameters[key] == number
        else:
            assert there.parameters[key] == pytest.approx(number * unit_of(key, value, length), rel=1e-12)


# What a plan says, and input


@pytest.mark.parametrize("name", ALL)
def test_a_plan_says_what_it_needs_and_what_it_promises(name):
    made = plan(name, **SMALL)
    text = str(made)
    assert made.target in text
    assert made.oracle in text
    if name in BLOCKS:
        assert "E dist(0, ∂_δ f(x_out)) ≤ ε, by the mean gradient of a block" in made.target
    if name in CERTIFYING:
        assert "with probability 0.95" in made.target
        assert (made.oracle, made.exact, made.expected_evaluations) == ("exact values and gradients", False, None)
        assert "at most evaluations" in text
        assert f"of them gradients    {made.gradients:,}" in text
    else:
        assert made.exact
        assert made.oracle == ("replayed values" if name == "zo-o2nc" else "gradients")
        assert made.gradients == (0 if name == "zo-o2nc" else made.evaluations)
        assert "at most" not in text


def test_the_failure_probability_is_bought_with_evaluations():
    for name in CERTIFYING:
        sure, bold = (plan(name, **SMALL, failure_probability=gamma) for gamma in (1e-6, 0.5))
        assert sure.evaluations > bold.evaluations
        assert "probability 0.999999" in sure.target


@pytest.mark.parametrize("name", ALL)
def test_an_easy_goal_is_planned_too(name):
    """Where ε > L every point is stationary."""
    made = plan(name, **SMALL | {"epsilon": 100.0})
    assert made.iterations >= 1
    assert made.evaluations <= plan(name, **SMALL | {"epsilon": 1.0}).evaluations


@pytest.mark.parametrize(
    ("name", "change", "error", "words"),
    [
        ("singd", {"gap": None}, ValueError, '"singd" needs gap'),
        ("o2nc", {"parameters": "printed"}, ValueError, 'prints no parameters for "o2nc"'),
        ("o2nc", {"learner": "adam"}, ValueError, "learner must be one of ogd, adagrad or None, got 'adam'"),
        ("singd", {"learner": "ogd"}, ValueError, "learner can be chosen for zo-o2nc, o2nc only"),
        ("o2nc", {"noise": -0.1}, ValueError, "noise must be a finite number of at least 0, got -0.1"),
        ("o2nc", {"noise": 1.1}, ValueError, "noise is at most L"),
        ("o2nc", {"noise": "1"}, TypeError, "noise must be a finite number of at least 0, got '1'"),
        ("zo-o2nc", {"noise": 0.1}, ValueError, "noise can be chosen for singd, psingd, o2nc only"),
        ("ingd", {"failure_probability": 0}, ValueError, "failure_probability must be a number between 0 and 1"),
        (
            "ingd",
            {"failure_probability": 1.0},
            ValueError,
            "must be a number between 0 and 1, got 1.0",
        ),
        ("singd", {"failure_probability": 0.1}, ValueError, "can be chosen for ingd, pingd, cutting-plane only"),
        ("cutting-plane", {"d": 21}, ValueError, "at most 20 variables, got d = 21"),
        ("o2nc", {"batch_size": 2}, ValueError, "for gfm only"),
        ("singd", {"epsilon": 1e-9}, ValueError, "range of floating point"),
        ("singd", {"epsilon": 1e-90}, ValueError, "range of floating point"),
        ("pingd", {"epsilon": 1e-170}, ValueError, "range of floating point"),
        ("zo-o2nc", {"epsilon": 1e-150}, ValueError, "range of floating point"),
    ],
)
def test_bad_arguments_get_one_clear_sentence(name, change, error, words):
    with pytest.raises(error, match=words) as caught:
        plan(name, **SMALL | change)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
