"""Conformance checks that every method must pass: the library's own, and yours.

Examples
--------
>>> import goldstein as gs
>>> from goldstein.testing import check_method
>>> check_method(gs.GFM(delta=0.1, step_size=0.05))
"""

from __future__ import annotations

import copy
import io
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from goldstein import retired
from goldstein.facts import Facts
from goldstein.methods.method import Context, Method, MethodState, Needs, Scale, Step
from goldstein.methods.probed import NOMINAL, Probed
from goldstein.methods.registry import METHODS
from goldstein.minimize import minimize
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle, Query
from goldstein.projection import Box, Projection
from goldstein.run.result import Result, Status
from goldstein.state import State, pack, unpack

D, BUDGET = 4, 400
START = np.array([1.0, -0.5, 2.0, 0.25])
CENTRES = np.random.default_rng(0).normal(scale=0.2, size=(16, D))
BOX = Box(START - [0.0, 3.0, 0.0, 3.0], START + 3.0)  # two variables would go where they must not
SAVED = (2, 20)  # turns after which a run is saved
SIDE_BY_SIDE = 40  # turns of two runs
SCALES = (NOMINAL, Scale(3.0, 1e-6, BUDGET, 2.0, 4.0))


class _Counted:
    """Σ_j |x_j − c_ij|, with or without a ξ, that keeps count and can fail."""

    def __init__(self, fails: float = 0.0) -> None:
        self.values = self.gradients = 0
        self.rng = np.random.default_rng(1)
        self.fails = fails

    def value(self, X: Array) -> Array:
        self.values += len(X)
        return np.where(self.rng.random(len(X)) < self.fails, np.nan, np.abs(X).sum(axis=1))

    def gradient(self, X: Array) -> Array:
        self.gradients += len(X)
        return np.sign(X)

    def oracle(self, stochastic: bool) -> Oracle:
        if not stochastic:
            return Deterministic(self.value, vectorized=True, grad=self.gradient)
        return FiniteSum(
            lambda X, i: self.value(X - CENTRES[i]),
            len(CENTRES),
            vectorized=True,
            grad=lambda X, i: self.gradient(X - CENTRES[i]),
        )


class _Play:
    """A run of a method without a session: what passes between the two is there to be looked at."""

    def __init__(self, method: Method, stochastic: bool, project: Projection | None = None, seed: int = 0) -> None:
        self.method = method
        self.oracle = oracle = _Counted().oracle(stochastic)
        rng = np.random.default_rng(seed)
        self.context = Context(rng, oracle.sample, project, BUDGET, n=oracle.n, facts=Facts(noisy=stochastic))
        self.start = self.context.projected(START.copy(), method.needs.query_radius)
        self.state = method.init(self.start, self.context)
        assert isinstance(self.state, MethodState), f"init returned {_shown(self.state)}; return a MethodState"
        self.step = Step(self.state.x)

    def ask(self) -> Query | None:
        """Return the next query; None when the run is over."""
        limit = BUDGET - self.context.nfev
        if limit <= 0 or self.step.done is not None:
            return None
        with _quiet():
            return self.method.ask(self.state, self.context, limit)

    def tell(self, query: Query) -> Step:
        """Evaluate a query and tell the answer."""
        with _quiet():
            answer = self.oracle.evaluate(query)
            self.context.facts.update(query, answer)
            self.step = self.method.tell(self.state, self.context, query, answer.values)
        self.context.nfev += len(query)
        return self.step

    def queries(self) -> Iterator[Query]:
        """Play to the end; yield each query once it is told."""
        while (query := self.ask()) is not None:
            self.tell(query)
            yield query

    def saved(self) -> bytes:
        """Return what a snapshot holds of the method, as it is on disk."""
        context = self.context
        return _written([self.state, self.step, context.rng.bit_generator.state, context.nfev, context.facts])

    def go_on_from(self, saved: bytes) -> None:
        """Take the place of the run that was saved."""
        self.state, self.step, bits, self.context.nfev, self.context.facts = _read(saved)
        self.context.rng.bit_generator.state = bits


def _run(method: Method, function: _Counted, stochastic: bool, **keys: Any) -> Result:
    with _quiet():
        return minimize(function.oracle(stochastic), START.copy(), method, **{"rng": 0, "max_evals": BUDGET, **keys})


def queries_can_be_answered(method: Method, stochastic: bool) -> None:
    """A query has one row for each point, and a ξ for each row where there is one to choose."""
    play = _Play(method, stochastic)
    query = play.ask()
    assert query is not None, f"ask returned None with {BUDGET} evaluations left; None says that limit is too small"
    while query is not None:
        assert isinstance(query, Query), f"ask returned {_shown(query)}; return a Query, or None"
        shape = np.shape(query.points)
        assert shape[1:] == (D,), (
            f"the points of a query have shape {shape}; make it (k, {D}), one point a row: x[None] for a single one"
        )
        assert len(query), "ask returned a query without points; return None when there is nothing to ask within limit"
        assert np.isfinite(query.points).all(), "the points of a query are not finite; check what they are made of"
        _check_samples(query, stochastic)
        step = play.tell(query)
        assert isinstance(step, Step), f"tell returned {_shown(step)}; return a Step, such as state.make_step(left)"
        query = play.ask()


def _check_samples(query: Query, stochastic: bool) -> None:
    if not stochastic:
        return
    k = len(query)
    how = f"draw {k} with context.sample(context.rng, {k}), or fewer and np.repeat them"
    assert query.samples is not None, f"a query of {k} points has no samples, though f is a mean over ξ; {how}"
    assert len(query.samples) == k, f"a query of {k} points has {len(query.samples)} samples; {how}"


def iterates_are_finite(method: Method, stochastic: bool) -> None:
    """Finite values lead to finite iterates."""
    play = _Play(method, stochastic)
    for _ in play.queries():
        x = play.step.x
        assert np.shape(x) == (D,), f"Step.x has shape {np.shape(x)}; give the iterate, of shape ({D},)"
        assert np.isfinite(x).all(), f"the iterate is not finite: x is {x} after {play.context.nfev} finite values"


def iterates_are_not_changed_in_place(method: Method, stochastic: bool) -> None:
    """Whoever holds an iterate (the user's x0, the output rule, the last step) may rely on it."""
    play = _Play(method, stochastic)
    while (query := play.ask()) is not None:
        held = [array for array in (play.start, play.state.x, play.step.x, play.step.iterate) if array is not None]
        before = [array.copy() for array in held]
        play.tell(query)
        for array, was in zip(held, before, strict=True):
            assert np.array_equal(array, was), (
                f"tell changed an iterate in place, {was} is {array} now, so that the point that was left is lost; "
                "write state.x = state.x - … and not state.x -= …"
            )


def state_is_plain_data(method: Method, stochastic: bool) -> None:
    """A run continues from its state on disk, with another object of the method, as if nothing had happened."""
    fresh = copy.deepcopy(method)
    play = _Play(method, stochastic)
    queries = []
    saved = {}
    for query in play.queries():
        queries.append(query)
        if len(queries) in SAVED:
            _check_states([play.state, play.step])
            saved[len(queries)] = play.saved()
    for turns, data in saved.items():
        what = f"saved after {turns} of {len(queries)} queries and loaded into another object of the method, the run"
        why = "keep all that changes in fields of the state, and nothing in self or in the context"
        try:
            again = _Play(copy.deepcopy(fresh), stochastic)
            again.go_on_from(data)
            same = [_same(*pair) for pair in zip(queries[turns:], again.queries(), strict=True)]
        except Exception as error:
            raise AssertionError(f"{what} fails with {type(error).__name__}: {error}; {why}") from error
        assert all(same), f"{what} goes another way; {why}"


def _check_states(value: Any) -> None:
    """Say which states a snapshot would write down only in part."""
    for state in _states(value):
        kind = type(state)
        assert "__dataclass_fields__" in vars(kind), f"{kind.__name__} is no dataclass; write @dataclass above it"
        lost = sorted(vars(state).keys() - {field.name for field in fields(state)})  # type: ignore[arg-type]
        assert not lost, (
            f"{kind.__name__} holds {', '.join(lost)}, which a snapshot leaves out; make each a field, with a type"
        )


def _states(value: Any) -> Iterator[State]:
    inside: Any = ()
    if isinstance(value, State):
        yield value
        inside = vars(value).values()
    elif isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    for item in inside:
        yield from _states(item)


def asking_changes_nothing(method: Method, stochastic: bool) -> None:
    """`ask` may draw random numbers; the state stays as it is, so that a query can be asked again."""
    play = _Play(method, stochastic)
    rng = play.context.rng
    for _ in range(20):
        before = _frozen(play.state)
        bits = rng.bit_generator.state
        first = play.ask()
        assert _frozen(play.state) == before, "ask changed the state; what tell needs goes into query.aux"
        if first is None:
            break
        rng.bit_generator.state = bits
        second = play.ask()
        assert second is not None, "asked again with the same random numbers, ask returned None"
        assert _same(first, second), "the same random numbers gave another query; draw all of them from context.rng"
        play.tell(second)


def runs_do_not_meet(method: Method, stochastic: bool) -> None:
    """One object of a method serves many runs at a time, as `minimize_many` and an attack have it."""
    alone = list(islice(_Play(copy.deepcopy(method), stochastic).queries(), SIDE_BY_SIDE))
    one = _Play(method, stochastic)
    two = _Play(method, stochastic, seed=1)
    for query in alone:
        first = one.ask()
        second = two.ask()
        if first is None or not _same(first, query):
            raise AssertionError(
                "a run goes another way when the same object of the method serves a second run beside it; keep what "
                "changes in the state, and what tell needs of a query in query.aux"
            )
        one.tell(first)
        if second is not None:
            two.tell(second)


def bounds_are_kept(method: Method, stochastic: bool) -> None:
    """Iterates lie in the allowed set."""
    for play, _ in _within_bounds(method, stochastic):
        for x in (play.step.x, play.step.iterate):
            assert x is None or not _outside(x), (
                f"an iterate lies outside of the bounds by {_outside(x):.2g}; "
                "let state.x = context.projected(x, margin), with the query_radius of needs as margin"
            )


def queries_keep_to_bounds(method: Method, stochastic: bool) -> None:
    """Queries lie in the allowed set, if it has room for the method's query radius."""
    if BOX.holds(method.needs.query_radius):
        for _, query in _within_bounds(method, stochastic):
            assert not _outside(query.points), (
                f"a query lies outside of the bounds by {_outside(query.points):.2g}; say in needs how far queries lie "
                "from the iterate, query_radius=…, and let state.x = context.projected(x, margin) with that margin"
            )


def _within_bounds(method: Method, stochastic: bool) -> Iterator[tuple[_Play, Query]]:
    """Play a run within bounds; a method may refuse sets in `init`, and then there is nothing to see."""
    try:
        play = _Play(method, stochastic, BOX)
    except ValueError:
        return
    for query in play.queries():
        yield play, query


def _outside(x: Array) -> float:
    return float(np.abs(x - BOX(x)).max())


def budget_is_kept(method: Method, stochastic: bool) -> None:
    """The function is asked exactly as often as the result says, and never more often than allowed."""
    for max_evals in (1, 2, 7, 50, BUDGET):
        function = _Counted()
        result = _run(method, function, stochastic, max_evals=max_evals)
        assert result.nfev == function.values, f"nfev is {result.nfev}, the function was asked {function.values} times"
        assert result.ngev == function.gradients, f"ngev is {result.ngev}, not {function.gradients}"
        evaluations = function.values + function.gradients
        assert evaluations <= max_evals, (
            f"{evaluations} evaluations were made of {max_evals}; a query has at most limit rows"
        )


def seed_decides(method: Method, stochastic: bool) -> None:
    """The same seed gives the same run to the last bit."""
    one, two = (_run(method, _Counted(), stochastic) for _ in range(2))
    assert np.array_equal(one.x, two.x, equal_nan=True), (
        "two runs with the same seed differ; draw all random numbers from context.rng"
    )


def stopped_runs_go_on(method: Method, stochastic: bool) -> None:
    """A run that was stopped halfway and is resumed from its journal ends where the whole one does, to the last bit."""
    fresh = copy.deepcopy(method)
    whole = _run(method, _Counted(), stochastic)
    half = whole.nit // 2

    def stop(result: Result) -> None:
        if result.nit >= half:
            raise StopIteration

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        _run(method, _Counted(), stochastic, journal=path, callback=stop)
        rest = _run(fresh, _Counted(), stochastic, journal=path, rng=None)
    assert np.array_equal(rest.x, whole.x, equal_nan=True), "a resumed run differs from the uninterrupted one"


def failures_are_survived(method: Method, stochastic: bool) -> None:
    """A fifth of failed values is counted and does not end up in the answer; nothing but failures stops the run."""
    reached = "failed values reached the answer; values that are not finite failed, and tell must do without them"
    function = _Counted(fails=0.2)
    result = _run(method, function, stochastic)
    assert np.isfinite(result.x).all(), reached
    function = _Counted(fails=1.0)
    result = _run(method, function, stochastic, max_evals=3_000)
    assert not result.success, f"every value failed, and the run claims success: {result.message}"
    if function.values:
        ends = (Status.FAILING, Status.MAX_EVALS, Status.FINISHED)
        assert result.status in ends, f"every value failed, and the run ended with: {result.message}"
        assert np.isfinite(result.x).all(), reached


def from_scale_keeps_options(method: Method, stochastic: bool) -> None:
    """`from_scale`, if there is one, chooses what was not given at any scale, and leaves what was given as it is."""
    kind = type(method)
    owner = next(base for base in kind.__mro__ if "from_scale" in vars(base))
    names = [name for name, other in METHODS.items() if other is kind]
    if owner is Method or (names and kind.name not in names):  # each of its names chooses settings of its own
        return
    settings = _other_settings(method)
    needed = [field.name for field in fields(kind) if field.name in settings and field.default is MISSING]
    for scale in SCALES:
        for names in ([], *([name] for name in needed), [*settings]):
            built = _built_from_scale(kind, scale, {name: settings[name] for name in names})
            for name in names:
                assert repr(getattr(built, name)) == repr(settings[name]), (
                    f"from_scale was given {name}={settings[name]!r} and took {getattr(built, name)!r}; let options "
                    "come last, as in cls(**{…, **options})"
                )
    result = _run(Probed(kind.name, {}, kind.from_scale), _Counted(), stochastic)
    assert np.isfinite(result.x).all(), f"with guessed settings the iterate is not finite: {result.message}"


def _built_from_scale(kind: type[Method], scale: Scale, options: Mapping[str, Any]) -> Method:
    try:
        built = kind.from_scale(scale, options)
    except Exception as error:
        raise AssertionError(
            f"from_scale({scale}, {options}) fails with {type(error).__name__}: {error}; it may be given any of the "
            "settings, none or all, and a floor of 0"
        ) from error
    assert isinstance(built, kind), f"from_scale({scale}, {options}) returned {_shown(built)}; return a {kind.__name__}"
    return built


def _other_settings(method: Method) -> dict[str, Any]:
    """Return settings near those of a method, if they are allowed, which `from_scale` would hardly choose by itself."""
    settings = {field.name: getattr(method, field.name) for field in fields(method) if field.init}
    others = {name: 0.9 * value if isinstance(value, float) else value for name, value in settings.items()}
    try:
        replace(method, **others)
    except Exception:
        return settings
    return others


def descends(method: Method, stochastic: bool) -> None:
    """With its settings made for it, a run ends lower than it began, on a problem that any method can do."""
    result = _run(method, _Counted(), stochastic, max_evals=10 * BUDGET)
    assert np.isfinite(result.x).all(), f"the iterate is not finite: x is {result.x} after {result.nfev} values"
    assert not np.array_equal(result.x, START), (
        f"the run never moved: after {result.nit} iterations and {result.nfev + result.ngev} evaluations x is x0; "
        "tell must set state.x"
    )
    target = CENTRES if stochastic else np.zeros((1, D))
    start, end = (float(np.abs(x - target).sum(axis=1).mean()) for x in (START, result.x))
    assert end < start, f"f rose from {start:.3g} to {end:.3g}; check the sign of the step, or take a smaller one"


CHECKS: tuple[Callable[[Method, bool], None], ...] = (
    queries_can_be_answered,
    iterates_are_finite,
    iterates_are_not_changed_in_place,
    state_is_plain_data,
    asking_changes_nothing,
    runs_do_not_meet,
    bounds_are_kept,
    budget_is_kept,
    seed_decides,
    stopped_runs_go_on,
    failures_are_survived,
    from_scale_keeps_options,
    descends,
)
"""What the method of attacks does too, whose queries may lie outside of bounds because `attack` moves them inside."""
EVERY_CHECK = (*CHECKS[:-1], queries_keep_to_bounds, descends)


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
    TypeError
        If it is given anything but a method with its settings.
    """
    if isinstance(method, type):
        raise TypeError(f"check_method takes a method with its settings, {method.__name__}(…), got the class alone.")
    if not isinstance(method, Method):
        raise TypeError(f"check_method takes a method with its settings, such as GFM(0.1, 0.05), got {method!r:.80}.")
    retired.check_members(type(method))
    for stochastic in (False, True):
        where = "a finite sum" if stochastic else "a deterministic function"
        if _promised("needs", where, _takes, method, stochastic):
            for check in EVERY_CHECK:
                _promised(check.__name__, where, check, copy.deepcopy(method), stochastic)


def _promised(check: str, where: str, what: Callable[..., Any], *arguments: Any) -> Any:
    """Call a check; what it raises says by which check, and where."""
    try:
        return what(*arguments)
    except AssertionError as error:
        raise AssertionError(f"{check} on {where}: {error}") from error
    except Exception as error:
        raise AssertionError(f"{check} on {where}: the run fails with {type(error).__name__}: {error}") from error


def _takes(method: Method, stochastic: bool) -> bool:
    needs = method.needs
    assert isinstance(needs, Needs), f"needs is {_shown(needs)}; make it a property that returns Needs(…)"
    return needs.unsupported(method.name, _Counted().oracle(stochastic)) is None


@contextmanager
def _quiet() -> Iterator[None]:
    """What a run finds out about its settings is not at stake here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _same(one: Query, two: Query) -> bool:
    alike = np.array_equal(one.points, two.points) and one.order == two.order
    if one.samples is None or two.samples is None:
        return alike and one.samples is two.samples
    return alike and np.array_equal(one.samples, two.samples)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _frozen(state: Any) -> Any:
    """Return a state as something that can be compared."""
    arrays: dict[str, Array] = {}
    return repr(pack(state, arrays)), {name: array.tobytes() for name, array in arrays.items()}


def _written(value: Any) -> bytes:
    """Return plain data as a snapshot has it on disk."""
    arrays: dict[str, Any] = {}
    text = json.dumps(pack(value, arrays))
    file = io.BytesIO()
    np.savez(file, json=np.frombuffer(text.encode(), np.uint8), **arrays)
    return file.getvalue()


def _read(data: bytes) -> Any:
    """Undo `_written`."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return unpack(json.loads(arrays.pop("json").tobytes().decode()), arrays)


__all__ = ["CHECKS", "check_method"]
