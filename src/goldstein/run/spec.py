"""What was asked of `minimize`: checked once, and written down once.

A `RunSpec` holds every argument of a call. Its `identity` is what a journal compares, its `header` what a resumed run
is made of, its `summary` what a result, a report and `goldstein inspect` show. An argument takes part in all three
unless its field says otherwise.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

from goldstein import arguments
from goldstein.criterion import Criterion
from goldstein.methods.method import Method
from goldstein.methods.registry import resolve
from goldstein.oracle import Array, Deterministic, FiniteSum, Oracle, Seeded, Unreplayable
from goldstein.oracle.coordinates import Coordinates
from goldstein.oracle.evaluate import check_workers
from goldstein.output import OUTPUTS
from goldstein.projection import Box, Projection, as_plain_data, as_projection, coordinates_of, in_coordinates
from goldstein.run.journal import Journal, content_of, point_entry
from goldstein.run.plain_data import ByName, NotPlainError, from_plain, to_plain

MOST_BYTES = 100_000  # of `args` that are worth a copy in every journal
BARE = "bare"
NO_ARGUMENTS = ("function", "oracle", "missing")  # what a header holds besides arguments
ORACLES = {kind.__name__: kind for kind in (Deterministic, Seeded, Unreplayable)}


# Where an argument is not written down.
OMIT = "omit"
OF_CALL = {OMIT: ("identity", "header")}  # of one call and not of the run, but worth showing
UNRECORDED = {OMIT: ("identity", "header", "summary")}  # nowhere, or by code of its own
NOT_COMPARED = {OMIT: ("identity",)}  # may change when a run is resumed
NOT_SHOWN = {OMIT: ("summary",)}


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSpec:
    """The arguments of `minimize`, checked; see there for what they mean."""

    fun: Any = field(metadata=UNRECORDED)
    x0: Any = field(metadata=NOT_COMPARED)
    method: Any = field(default="auto", metadata=UNRECORDED)
    args: Any = field(default=(), metadata=NOT_SHOWN)
    options: Mapping[str, Any] | None = field(default=None, metadata=UNRECORDED)
    max_evals: int | None = field(default=None, metadata=OF_CALL)
    max_iter: int | None = field(default=None, metadata=OF_CALL)
    stop: Any = ()
    bounds: Any = field(default=None, metadata=OF_CALL)
    projection: Any = field(default=None, metadata=OF_CALL)
    x_scale: Any = None
    output: str | None = None
    rng: Any = field(default=None, metadata=UNRECORDED)
    workers: Any = field(default=None, metadata=OF_CALL)
    callback: Callable[..., Any] | None = field(default=None, metadata=UNRECORDED)
    monitor: Callable[[Array], float] | None = field(default=None, metadata=UNRECORDED)
    catch: Any = field(default=(), metadata=NOT_COMPARED)
    journal: Any = field(default=None, metadata=OF_CALL)
    extend: bool = field(default=False, metadata=UNRECORDED)
    max_time: float | None = field(default=None, metadata=OF_CALL)
    timeout: float | None = field(default=None, metadata=OF_CALL)
    retries: int = field(default=2, metadata=OF_CALL)
    max_fail: int | None = field(default=None, metadata=NOT_COMPARED)
    progress: bool = field(default=False, metadata=UNRECORDED)
    compiled: bool | None = field(default=None, metadata=NOT_COMPARED)
    stationarity: Any = None
    final_seed: int | None = None

    seed: str = field(init=False)
    resolved: Method = field(init=False)  # with its options; open settings are chosen when the run begins
    oracle: Oracle = field(init=False)  # `fun` as one
    allowed: Projection | None = field(init=False)  # the set that `bounds` or `projection` gives
    coordinates: Coordinates | None = field(init=False)  # variables and units of the run; None: the user's own
    default_max_evals: int | None = field(init=False, default=None)  # chosen because no limit was given

    def __post_init__(self) -> None:
        arguments.keep(self, seed=_seed(self.rng))
        x0 = arguments.point("x0", self.x0)
        x_scale = arguments.optional_scales("x_scale", self.x_scale, x0.size)
        arguments.keep(
            self,
            x0=x0,
            x_scale=x_scale,
            catch=arguments.exceptions("catch", self.catch),
            max_evals=arguments.optional_count("max_evals", self.max_evals),
            max_iter=arguments.optional_count("max_iter", self.max_iter),
            output=arguments.optional_one_of("output", self.output, OUTPUTS),
            callback=_callback(arguments.optional_callable("callback", self.callback)),
            monitor=arguments.optional_callable("monitor", self.monitor),
            stationarity=_stationarity(self.stationarity),
            final_seed=arguments.optional_count("final_seed", self.final_seed, least=0),
            max_time=arguments.optional_positive("max_time", self.max_time),
            max_fail=arguments.optional_count("max_fail", self.max_fail, least=0),
            extend=arguments.flag("extend", self.extend),
            progress=arguments.flag("progress", self.progress),
            rng=self.rng if self.rng is None else arguments.generator(self.rng),
            journal=_journal(self.journal),
            stop=_criteria(self.stop),
        )
        method = resolve(self.method, self.options)
        if self.output == "best" and not method.needs.values:
            expected = f"another rule: {method.name} evaluates none of its iterates, so it cannot tell which is best"
            raise arguments.WrongValueError("output", expected, "'best'")
        allowed = as_projection(self.bounds, self.projection, x0.size)
        coordinates = coordinates_of(x0, x_scale, allowed)
        arguments.keep(self, resolved=method, allowed=allowed, coordinates=coordinates, oracle=self._as_oracle())
        if self.max_evals is None and self.max_iter is None:
            d = x0.size if coordinates is None else coordinates.inside(x0).size
            arguments.keep(self, max_evals=1000 * (d + 1), default_max_evals=1000 * (d + 1))
        check_room(in_coordinates(allowed, coordinates), coordinates, method)
        check_workers(self.workers, self.timeout, self.retries)
        unsupported = method.needs.unsupported(method.name, self.oracle)
        if unsupported is not None:
            raise ValueError(unsupported)

    def _as_oracle(self) -> Oracle:
        args = self.args if isinstance(self.args, tuple) else (self.args,)
        if isinstance(self.fun, Oracle):
            if args:
                raise ValueError("args belong to a callable; an oracle has its own, such as Seeded(F, args=...).")
            arguments.keep(self, args=self.fun.args)
            return self.fun
        if not callable(self.fun):
            raise arguments.WrongTypeError("fun", "a callable or an oracle", type(self.fun).__name__)
        arguments.keep(self, args=args)
        return Deterministic(self.fun, args)

    @property
    def bare(self) -> bool:
        """Whether `fun` is a callable of which it is not known whether it is noisy."""
        return not isinstance(self.fun, Oracle)

    @property
    def starts_outside(self) -> bool:
        return isinstance(self.allowed, Box) and not np.array_equal(self.allowed(self.x0), self.x0)

    @property
    def limits(self) -> dict[str, int | None]:
        return {"max_evals": self.max_evals, "max_iter": self.max_iter}

    @property
    def identity(self) -> dict[str, Any]:
        """What a run must have in common with one that it is resumed from; each stage adds its start and its rng."""
        own = {
            "method": repr(self.resolved),
            "oracle": f"{type(self.oracle).__name__}, n={self.oracle.n}",
            "bounds": as_plain_data(self.allowed),
        }
        return own | {name: _comparable(name, getattr(self, name)) for name in _recorded(type(self), "identity")}

    @property
    def header(self) -> dict[str, Any]:
        """The call in plain data, of which `arguments_of` makes it again; `missing` names what is not plain data."""
        method = ByName(self.method, self.options or {}) if isinstance(self.method, str) else self.method
        header: dict[str, Any] = {"function": name_of(self.fun), "oracle": _oracle(self.fun)}
        missing = []
        values = {name: getattr(self, name) for name in _recorded(type(self), "header")}
        values |= {"method": method, "projection": self.allowed}
        size = sum(getattr(one, "nbytes", 0) for one in self.args)
        if size > MOST_BYTES:
            missing.append(f"args ({size:,} bytes)")
            values["args"] = ()
        for name, value in values.items():
            try:
                header[name] = to_plain(value)
            except NotPlainError as error:
                missing.append(f"{name} ({error})")
        return {**header, "missing": missing}

    @classmethod
    def arguments_of(cls, header: Mapping[str, Any] | None, fun: Any) -> dict[str, Any]:
        """Return the arguments of `minimize` for the header of a run (a stranger may have written it) and its function.

        An oracle is taken as it is; a callable is made into the kind of oracle that the run had.
        """
        if header is None:
            raise ValueError("it does not say by which call it was made")
        unknown = header.keys() - {*_recorded(cls, "header"), *NO_ARGUMENTS, "method", "projection"}
        if unknown:
            raise ValueError(f"its header has unknown entries: {', '.join(sorted(unknown)):.200}")
        missing = [name for name in header["missing"] if not (name.startswith("args ") and isinstance(fun, Oracle))]
        if missing:
            raise ValueError(f"these arguments are no plain data: {', '.join(missing):.500}")
        again = {name: from_plain(value) for name, value in header.items() if name not in NO_ARGUMENTS}
        args = again.pop("args", ())
        if isinstance(fun, Oracle):
            return {**again, "fun": fun}
        if header["oracle"]["kind"] == BARE:
            return {**again, "fun": fun, "args": args}
        return {**again, "fun": _wrapped(fun, header["oracle"], args)}

    @property
    def summary(self) -> dict[str, Any]:
        """What was asked for, as people read it; an argument that has its default is left out."""
        summary = {"function": name_of(self.fun), "seed": self.seed}
        defaults = {one.name: one.default for one in fields(self)}
        for name in _recorded(type(self), "summary"):
            value = getattr(self, name)
            if value is not None and (name == "max_evals" or not _equal(value, defaults[name])):
                summary[name] = _readable(value)
        return summary


def _recorded(kind: type[RunSpec], where: str) -> list[str]:
    """Return the arguments that stand in the identity, the header or the summary of a run."""
    return [one.name for one in fields(kind) if one.init and where not in one.metadata.get(OMIT, ())]


def check_room(box: Projection | None, coordinates: Coordinates | None, method: Method) -> None:
    """Refuse a method whose queries lie farther from its points than a box has room for."""
    radius = method.needs.query_radius
    if not isinstance(box, Box) or method.needs.respects_bounds or box.holds(radius):
        return
    widths = np.atleast_1d(np.asarray(box.upper) - np.asarray(box.lower))
    narrowest = int(np.argmin(widths))
    room = float(widths[narrowest]) / 2
    free = None if coordinates is None else coordinates.free
    place = narrowest if free is None else int(free[narrowest])
    unit = "" if coordinates is None or coordinates.scale is None else " in x / x_scale"
    raise ValueError(
        f"{method.name} asks for values up to delta = {radius:.6g} from its points, but the bounds of coordinate "
        f"{place} leave only {room:.6g} to each side of their middle{unit}: give it a smaller delta, or use "
        '"auto", which keeps to any bounds.'
    )


def name_of(fun: Any) -> str:
    """Return where a function is found, as module:name, or what it is."""
    bare = fun.fun if isinstance(fun, Oracle) else fun
    name = getattr(bare, "__qualname__", None)
    module = getattr(bare, "__module__", None)
    return f"{module}:{name}" if name and module else type(bare).__name__


def asks_for(callback: Callable[..., Any], name: str) -> bool:
    """Whether a callback has a parameter of this name."""
    try:
        return name in inspect.signature(callback).parameters
    except (TypeError, ValueError):  # some that are not written in Python do not tell
        return False


def _callback(callback: Any) -> Callable[..., Any] | None:
    """Return a callback that takes the result so far; one that asks for `xk` gets the point alone."""
    if callback is None or not asks_for(callback, "xk"):
        return callback  # type: ignore[no-any-return]
    return lambda result: callback(result.x)


def _stationarity(pair: Any) -> tuple[float, float] | None:
    if pair is None:
        return None
    numbers = list(pair) if isinstance(pair, Iterable) else []
    if len(numbers) != 2:
        raise arguments.WrongValueError("stationarity", "a pair (delta, epsilon)", arguments.shown(pair))
    delta, epsilon = numbers
    return arguments.positive("delta", delta), arguments.positive("epsilon", epsilon)


def _journal(journal: Any) -> Journal | None:
    if journal is None or isinstance(journal, Journal):
        return journal
    if not isinstance(journal, str | os.PathLike):
        raise arguments.WrongTypeError("journal", "a path or a Journal", type(journal).__name__)
    return Journal(journal)


def _criteria(stop: Any) -> tuple[Criterion, ...]:
    if stop is None:
        return ()
    criteria = tuple(stop) if isinstance(stop, Iterable) else (stop,)
    for criterion in criteria:
        if not isinstance(criterion, Criterion):
            raise TypeError(f"stop takes criteria from goldstein.stop, got {type(criterion).__name__}.")
    return criteria


def _seed(rng: Any) -> str:
    if isinstance(rng, np.random.Generator):
        return "a generator of the caller"
    if rng is None:
        return "none, so that this run cannot be repeated"
    return arguments.shown(rng)


def _comparable(name: str, value: Any) -> Any:
    if name == "args":
        return content_of(value)
    if isinstance(value, np.ndarray):
        return point_entry(value)
    if isinstance(value, tuple | list):
        return [_comparable("", one) for one in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value) if is_dataclass(value) else type(value).__name__


def _readable(value: Any) -> Any:
    if isinstance(value, Journal):
        return str(value.path)
    if isinstance(value, np.ndarray):
        return arguments.shown(value.tolist())
    if isinstance(value, tuple) and all(isinstance(one, int | float) for one in value):
        return value
    if isinstance(value, tuple):
        return [one.__name__ if isinstance(one, type) else type(one).__name__ for one in value]
    if isinstance(value, bool | int | float | str):
        return value
    return arguments.shown(value)


def _equal(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, bool | int | float | str | tuple) and value == default)


def _oracle(fun: Any) -> dict[str, Any]:
    if not isinstance(fun, Oracle):
        return {"kind": BARE}
    grad = fun.grad is not None
    return {"kind": type(fun).__name__, "n": fun.n, "vectorized": fun.vectorized, "grad": grad}


def _wrapped(fun: Any, oracle: Mapping[str, Any], args: Any) -> Any:
    kind = oracle["kind"]
    if oracle["grad"] or (kind not in ORACLES and kind != FiniteSum.__name__):
        more = " with gradients" if oracle["grad"] else ""
        raise ValueError(f"its function was of the kind {kind}{more}, so an oracle of that kind is needed")
    if kind == FiniteSum.__name__:
        return FiniteSum(fun, oracle["n"], args, oracle["vectorized"])
    return ORACLES[kind](fun, args, oracle["vectorized"])
