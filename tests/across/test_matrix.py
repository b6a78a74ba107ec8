"""What one driver promises, all promise: promises × drivers × methods, and a reason for every cell that is empty.

`drive` plays one session, `lockstep` several side by side, and a kernel does whole iterations in machine code; the
session keeps the promises for all of them.
"""

import warnings
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
from numba import njit

import goldstein as gs
from goldstein import arguments
from goldstein.methods import METHODS, resolve
from goldstein.methods.method import Unsupported
from goldstein.oracle import Answer
from goldstein.run.lockstep import lockstep
from goldstein.run.session import Session
from goldstein.run.spec import RunSpec

X0 = np.array([1.0, -0.5, 0.25, 2.0])
N = 30
CENTRES = 0.1 * np.sin(np.arange(N)[:, None] + np.arange(X0.size))
BUDGET = 600
TARGET = gs.stop.Target(3.9, samples=20)
EXACT = ("ingd", "pingd", "cutting-plane")
GRADIENTS = (*EXACT, "singd", "psingd", "o2nc", "SINGD", "PSINGD", "O2NC")
OBJECTS = {
    "GFM": gs.GFM(0.1, 0.02, 3),
    "Sift": gs.Sift(0.5, fd_step=0.01, batch_size=3),
    "GFMPlus": gs.GFMPlus(0.1, 0.01, 4, 2),
    "GFMPlus coin": gs.GFMPlus(0.1, 0.01, 4, 2, restart="coin"),
    "OnePhase": gs.OnePhase(0.1, 0.02),
    "ZOO2NC": gs.ZOO2NC(0.5, 5),
    "WS-GFM+": gs.WarmStart(gs.GFM(0.1, 0.02), gs.GFMPlus(0.1, 0.01, 4, 2), iterations=30),
    "WS-INGD": gs.WarmStart(gs.GFM(0.1, 0.02), gs.INGD(0.4, 0.5), iterations=30),
    "INGD": gs.INGD(0.4, 0.5),
    "PINGD": gs.PINGD(0.4, 0.5),
    "CuttingPlane": gs.CuttingPlane(0.4, 0.5),
    "SINGD": gs.SINGD(0.5, p=20.0, q=20.0),
    "PSINGD": gs.PSINGD(0.5, p=20.0, q=20.0),
    "O2NC": gs.O2NC(0.5, 5),
    "O2NC sifted": gs.O2NC(0.5, 5, gradients="sift", rho=0.2, fd_step=0.05),
    "SINGD sifted": gs.SINGD(0.5, p=20.0, q=20.0, gradients="sift", rho=0.2, fd_step=0.05),
    "PSINGD sifted": gs.PSINGD(0.5, p=20.0, q=20.0, gradients="sift", rho=0.2, fd_step=0.05),
    "INGD sifted": gs.INGD(0.4, 0.5, gradients="sift"),
    "PINGD sifted": gs.PINGD(0.4, 0.5, gradients="sift"),
    "CuttingPlane sifted": gs.CuttingPlane(0.4, 0.5, gradients="sift"),
    "WS-O2NC sifted": gs.WarmStart(gs.GFM(0.1, 0.02), gs.O2NC(0.5, 5, gradients="sift", fd_step=1e-3), iterations=30),
    "BlockCMA": gs.BlockCMA(sigma=0.5, population=10),
    "BFGS": gs.BFGS(0.5),
    "BFGS limited": gs.BFGS(0.5, memory=3),
}
RANKING = ("BlockCMA",)
CERTIFYING = ("INGD", "PINGD", "CuttingPlane", "WS-INGD")
EVERY = [*METHODS, *OBJECTS]
DRIVERS = ("drive", "lockstep", "kernel")
COMPILED = (
    "gfm",
    "gfm+",
    "ws-gfm",
    "ws-gfm+",
    "one-phase",
    "zo-o2nc",
    "auto",
    "two-point",
    "GFM",
    "GFMPlus",
    "OnePhase",
    "ZOO2NC",
)
COMPILED += ("WS-GFM+", "sift", "Sift")
# Cells that are empty, with the reason.
REASONS = {
    "kernel": "it has no machine code: `method.kernel` says so in a sentence, which is tested below",
    "journal": "a lockstep keeps no journal: the attack has one of its own, with the images that are done",
    "warnings": "it asks for gradients, which carry no rounding error of a difference, or it only ranks values",
}


def method_of(name):
    return OBJECTS[name] if name in OBJECTS else resolve(name, None)


WITHOUT_DIFFERENCES = (*RANKING, *(name for name in OBJECTS if method_of(name).needs.gradients))


def needs_exact(name):
    return method_of(name).needs.exact


@njit
def jitted(x, i, calls, centres, offset, edge):
    """Σ|x_j − c_ij| + offset; it fails for one component in five where x_0 lies above the edge."""
    calls[0] += 1
    total = offset
    for j in range(x.size):
        total += abs(x[j] - centres[i, j])
    return np.nan if i % 5 == 0 and x[0] > edge else total


@njit
def jitted_exact(x, calls, centres, offset, edge):
    return jitted(x, 0, calls, centres, offset, edge)


class Function:
    """The same in NumPy, with gradients: a sum of N components, or its first one without noise."""

    def __init__(self, exact, offset=0.0, edge=np.inf):
        self.exact, self.offset, self.edge = exact, offset, edge
        self.calls = np.zeros(1, dtype=np.int64)

    def value(self, X, i=0):
        self.calls[0] += len(X)
        values = np.abs(X - CENTRES[i]).sum(axis=1) + self.offset
        return np.where((np.asarray(i) % 5 == 0) & (X[:, 0] > self.edge), np.nan, values)

    def gradient(self, X, i=0):
        self.calls[0] += len(X)
        return np.sign(X - CENTRES[i])

    def oracle(self, driver):
        if driver == "kernel":
            args = (self.calls, CENTRES, self.offset, self.edge)
            return gs.Deterministic(jitted_exact, args) if self.exact else gs.FiniteSum(jitted, N, args)
        if self.exact:
            return gs.Deterministic(self.value, vectorized=True, grad=self.gradient)
        return gs.FiniteSum(self.value, N, vectorized=True, grad=self.gradient)


@dataclass
class Outcome:
    """What a driver made of a run."""

    result: gs.Result
    calls: int
    said: list[str]


def play(driver, name, *, exact=False, offset=0.0, edge=np.inf, seed=3, **settings):
    """Run a method by a driver; the lockstep plays two sessions, of which the first is looked at."""
    method = method_of(name)
    exact = exact or method.needs.exact
    settings = {"max_evals": BUDGET, **settings}
    function = Function(exact, offset, edge)
    oracle = function.oracle(driver)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if driver == "lockstep":
            result, calls = in_lockstep(method, function, oracle, seed, settings)
        else:
            compiled = driver == "kernel"
            result = gs.minimize(oracle, X0, method, rng=seed, compiled=compiled, **settings)
            calls = int(function.calls[0])
    return Outcome(result, calls, [str(warning.message) for warning in caught])


by_drive = cache(partial(play, "drive"))  # what others are compared with, played once


def together(oracle):
    """Return what answers batches by one oracle: the rows of all parts of one kind in one query."""

    def evaluate(parts):
        answers = [Answer(np.empty(0))] * len(parts)
        for order in (0, 1):
            alike = [place for place, part in enumerate(parts) if part.query.order == order]
            if not alike:
                continue
            queries = [parts[place].query.rows(parts[place].first, parts[place].last) for place in alike]
            samples = [query.samples for query in queries if query.samples is not None]
            merged = gs.Query(
                np.concatenate([query.points for query in queries]),
                np.concatenate(samples) if samples else None,
                order,
                fresh=True,
            )
            answer = oracle.evaluate(merged)
            first = 0
            for place, query in zip(alike, queries, strict=True):
                last = first + len(query)
                answers[place] = Answer(answer.values[first:last], answer.roundoff)
                first = last
        return answers

    return evaluate


def in_lockstep(method, function, oracle, seed, settings):
    spec = RunSpec(fun=oracle, x0=X0, method=method, **settings)
    sessions = [Session(spec, arguments.generator(number)) for number in (seed, seed + 1)]
    ended = {}
    lockstep(sessions, together(oracle), lambda one, result: ended.update({id(one): result}), rows=7)
    assert int(function.calls[0]) == sum(one.facts.counted for one in sessions)
    first = ended[id(sessions[0])]
    return first, first.nfev + first.ngev  # calls of both were compared just now


def cells(names=EVERY, drivers=DRIVERS):
    return [
        pytest.param(driver, name, id=f"{driver}-{name}")
        for driver in drivers
        for name in names
        if driver != "kernel" or name in COMPILED
    ]


def same(one, two, driver):
    """Whether two drivers made the same run: to the last bit, machine code to rounding."""
    a, b = one.result, two.result
    assert (a.nfev, a.ngev, a.nit, a.nfail, a.status) == (b.nfev, b.ngev, b.nit, b.nfail, b.status)
    if driver == "kernel":
        np.testing.assert_allclose(a.x, b.x, atol=1e-6)
    else:
        np.testing.assert_array_equal(a.x, b.x)
        assert a.message == b.message


@pytest.mark.parametrize(("driver", "name"), cells())
def test_the_budget_is_exact_and_every_call_is_counted(driver, name):
    for budget in (7, 50, BUDGET):
        one = play(driver, name, max_evals=budget)
        assert one.result.nfev + one.result.ngev == one.calls <= budget
    if driver != "drive":
        same(one, by_drive(name), driver)


@pytest.mark.parametrize(("driver", "name"), cells())
def test_failures_are_counted_and_never_become_the_answer(driver, name):
    one = play(driver, name, edge=0.6)
    assert one.result.nfev + one.result.ngev == one.calls <= BUDGET
    assert np.isfinite(one.result.x).all()
    assert "failed" in one.result.message if one.result.nfail else one.result.nfev + one.result.ngev > 0
    if name not in GRADIENTS and not needs_exact(name):
        assert one.result.nfail > 0
    if driver != "drive":
        same(one, by_drive(name, edge=0.6), driver)


@pytest.mark.parametrize(("driver", "name"), cells())
def test_a_criterion_is_success(driver, name):
    """The target is the value at the start, which any iterate will do for."""
    one = play(driver, name, stop=TARGET, max_evals=4000)
    assert one.result.success
    assert one.result.status is gs.Status.CRITERION
    assert "target" in one.result.message or name in CERTIFYING or needs_exact(name)
    assert one.result.nfev + one.result.ngev == one.calls < 4000
    if driver != "drive":
        same(one, by_drive(name, stop=TARGET, max_evals=4000), driver)


@pytest.mark.parametrize(("driver", "name"), cells([name for name in OBJECTS if name not in WITHOUT_DIFFERENCES]))
def test_rounding_errors_are_warned_of(driver, name):
    """Differences of values of 1e14 at δ = 0.1 are mostly rounding."""
    one = play(driver, name, offset=1e14)
    assert [said for said in one.said if "rounding errors" in said.lower() or "exactly 0" in said]


@pytest.mark.parametrize(("driver", "name"), cells())
def test_the_certificate_that_was_asked_for_is_in_the_result(driver, name):
    one = play(driver, name, stationarity=(0.5, 1e-9))
    certificate = one.result.stationarity
    assert (certificate.delta, certificate.epsilon) == (0.5, 1e-9) or certificate.answer == "certified"
    assert one.result.nfev + one.result.ngev == one.calls <= BUDGET
    assert one.result.nfev_diagnostic + one.result.ngev >= certificate.nfev


@pytest.mark.parametrize(("driver", "name"), cells(CERTIFYING))
def test_the_certificate_that_a_method_ends_with_is_kept(driver, name):
    certificate = play(driver, name, max_evals=4000).result.stationarity
    assert certificate.answer == "certified"
    assert certificate.bound <= 0.5


@pytest.mark.parametrize(("driver", "name"), cells(drivers=("drive", "kernel")))
def test_a_run_that_was_stopped_goes_on_to_the_same_end(driver, name, tmp_path):
    whole = by_drive(name) if driver == "drive" else play(driver, name)
    half = whole.result.nit // 2

    def stop(result):
        if result.nit >= half:
            raise StopIteration

    play(driver, name, journal=tmp_path / "run", callback=stop)
    rest = play(driver, name, journal=tmp_path / "run")
    np.testing.assert_array_equal(rest.result.x, whole.result.x)
    assert (rest.result.fun, rest.result.nfev, rest.result.nit) == (
        whole.result.fun,
        whole.result.nfev,
        whole.result.nit,
    )
    np.testing.assert_array_equal(rest.result.history.nfev, whole.result.history.nfev)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in COMPILED])
def test_a_method_without_machine_code_says_so(name):
    method = method_of(name)
    oracle = Function(method.needs.exact).oracle("kernel")
    with pytest.raises(Unsupported, match=r"\w \w.*\.$"):
        method.kernel(oracle)


def test_every_cell_that_is_empty_has_a_reason():
    empty = {("kernel", name) for name in EVERY if name not in COMPILED}
    empty |= {("warnings", name) for name in WITHOUT_DIFFERENCES}
    empty |= {("journal", name) for name in EVERY}
    assert {kind for kind, _ in empty} == set(REASONS)
