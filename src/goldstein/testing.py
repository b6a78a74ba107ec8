"""Conformance checks that every method must pass: the library's own, and yours.

Examples
--------
>>> import goldstein as gs
>>> from goldstein.testing import check_method
>>> check_method(gs.GFM(delta=0.1, step_size=0.05))
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from goldstein.methods.method import Context, Method, Run
from goldstein.minimize import minimize
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle
from goldstein.run.result import Result, Status
from goldstein.state import pack

D, BUDGET = 4, 400
START = np.array([1.0, -0.5, 2.0, 0.25])
CENTRES = np.random.default_rng(0).normal(scale=0.2, size=(16, D))


class _Counted:
    """Σ_j |x_j − c_ij|, with or without a ξ, that keeps count and can fail."""

    def __init__(self, fails: float = 0.0) -> None:
        self.values = self.gradients = 0
        self.rng = np.random.default_rng(1)
        self.fails = fails

    def value(self, X: Array, i: Any = None) -> Array:
        self.values += len(X)
        out = np.abs(X - (0.0 if i is None else CENTRES[i])).sum(axis=1)
        return np.where(self.rng.random(len(X)) < self.fails, np.nan, out)

    def gradient(self, X: Array, i: Any = None) -> Array:
        self.gradients += len(X)
        return np.sign(X - (0.0 if i is None else CENTRES[i]))

    def oracle(self, stochastic: bool) -> Oracle:
        if stochastic:
            return FiniteSum(self.value, len(CENTRES), vectorized=True, grad=self.gradient)
        return Deterministic(self.value, vectorized=True, grad=self.gradient)


def _run(method: Method, function: _Counted, stochastic: bool, **keys: Any) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # what a run finds out about its settings is not at stake here
        return minimize(function.oracle(stochastic), START, method, **{"rng": 0, "max_evals": BUDGET, **keys})


def budget_is_kept(method: Method, stochastic: bool) -> None:
    """The function is asked exactly as often as the result says, and never more often than allowed."""
    for max_evals in (1, 2, 7, 50, BUDGET):
        function = _Counted()
        result = _run(method, function, stochastic, max_evals=max_evals)
        assert result.nfev == function.values, f"nfev is {result.nfev}, the function was asked {function.values} times"
        assert result.ngev == function.gradients, f"ngev is {result.ngev}, not {function.gradients}"
        assert function.values + function.gradients <= max_evals, f"more than {max_evals} evaluations were asked for"


def seed_decides(method: Method, stochastic: bool) -> None:
    """The same seed gives the same run to the last bit."""
    one, two = (_run(method, _Counted(), stochastic) for _ in range(2))
    assert np.array_equal(one.x, two.x), "two runs with the same seed differ"


def asking_changes_nothing(method: Method, stochastic: bool) -> None:
    """`ask` may draw random numbers; the state stays as it is, so that a query can be asked again."""
    function = _Counted()
    oracle = function.oracle(stochastic)
    rng = np.random.default_rng(0)
    run = Run(method, START, Context(rng, oracle.sample, None, BUDGET, None, stochastic, n=oracle.n))
    for _ in range(20):
        before, bits = _frozen(run.state), rng.bit_generator.state
        first = run.ask(BUDGET)
        assert _frozen(run.state) == before, "ask changed the state"
        if first is None:
            break
        rng.bit_generator.state = bits
        second = run.ask(BUDGET)
        assert second is not None
        assert np.array_equal(first.points, second.points), "the same random numbers gave another query"
        run.tell(second, oracle.evaluate(second).values)


def state_is_plain_data(method: Method, stochastic: bool) -> None:
    """A run that was saved halfway and loaded ends where the uninterrupted one does, to the last bit."""
    whole = _run(method, _Counted(), stochastic)
    half = whole.nit // 2

    def stop(result: Result) -> None:
        if result.nit >= half:
            raise StopIteration

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        _run(method, _Counted(), stochastic, journal=path, callback=stop)
        rest = _run(method, _Counted(), stochastic, journal=path, rng=None)
    assert np.array_equal(rest.x, whole.x), "a resumed run differs from the uninterrupted one"


def failures_are_survived(method: Method, stochastic: bool) -> None:
    """A fifth of failed values is counted and does not end up in the answer; nothing but failures stops the run."""
    function = _Counted(fails=0.2)
    result = _run(method, function, stochastic)
    assert np.isfinite(result.x).all(), "failed values reached the answer"
    function = _Counted(fails=1.0)
    result = _run(method, function, stochastic, max_evals=100_000)
    assert not result.success
    if function.values:
        assert result.status in (Status.FAILING, Status.MAX_EVALS, Status.FINISHED)
        assert np.isfinite(result.x).all(), "failed values reached the answer"


def descends(method: Method, stochastic: bool) -> None:
    """With its settings made for it, a run ends lower than it began, on a problem that any method can do."""
    result = _run(method, _Counted(), stochastic, max_evals=10 * BUDGET)
    target = CENTRES if stochastic else np.zeros((1, D))
    start, end = (float(np.abs(x - target).sum(axis=1).mean()) for x in (START, result.x))
    assert end < start, f"f rose from {start:.3g} to {end:.3g}"


CHECKS: tuple[Callable[[Method, bool], None], ...] = (
    budget_is_kept,
    seed_decides,
    asking_changes_nothing,
    state_is_plain_data,
    failures_are_survived,
    descends,
)


def check_method(method: Method) -> None:
    """Run every check on a method, on a deterministic f and, if the method takes it, on a finite sum.

    Parameters
    ----------
    method : Method
        With settings that suit f(x) = Σ|x_j| from about 2 away.

    Raises
    ------
    AssertionError
        With a sentence that says what is wrong.
    """
    for stochastic in (False, True):
        if method.needs.refusal(method.name, _Counted().oracle(stochastic)) is None:
            for check in CHECKS:
                try:
                    check(method, stochastic)
                except AssertionError as error:
                    where = "a finite sum" if stochastic else "a deterministic function"
                    raise AssertionError(f"{check.__name__} on {where}: {error}") from error


def _frozen(state: Any) -> Any:
    """Return a state as something that can be compared."""
    arrays: dict[str, Array] = {}
    structure = pack(state, arrays)
    return repr(structure), {name: array.tobytes() for name, array in arrays.items()}


__all__ = ["CHECKS", "check_method"]
