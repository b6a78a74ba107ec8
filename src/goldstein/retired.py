"""Names of earlier versions: each answers with one sentence that names the new one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NoReturn, TypeVar

Kind = TypeVar("Kind", bound=type)

MODULES = {  # of 0.2 -> what took its place
    "goldstein.caution": "goldstein.warnings",
    "goldstein.counting": "goldstein.facts",
    "goldstein.datasets": "studies.datasets",
    "goldstein.oracle.gather": "goldstein.oracle.scheduler",
    "goldstein.oracle.parts": "goldstein.oracle.tasks",
    "goldstein.oracle.tally": "goldstein.oracle.stats",
    "goldstein.run.call": "goldstein.run.spec",
    "goldstein.run.closing": "goldstein.run.final_estimate",
}
NAMES = {  # module: {name: what took its place}
    "goldstein.methods.kernel": {"MachineCode": "CompiledKernel", "obstacle": "compilable"},
    "goldstein.methods.method": {"Refusal": "Unsupported", "Bulk": "ChunkResult"},
    "goldstein.oracle": {"Meter": "StartedCounter"},
    "goldstein.oracle.pool": {"Pool": "ProcessPool"},
    "goldstein.oracle.ray": {"Crew": "RayPool"},
    "goldstein.oracle.tasks": {
        "Crew": "WorkerPool",
        "Part": "Chunk",
        "Done": "TaskResult",
        "Lost": "TaskLost",
        "Ledger": "EvaluationLog",
    },
}
POOL_MEMBERS = {  # of a user's pool of workers
    "employ": "initialize",
    "begin": "submit",
    "ended": "wait",
    "give_up": "kill",
    "recall": "cancel_pending",
    "begun": "rows_started",
}
MOVED = {  # module: names that left the package, now in studies/ of the repository
    "goldstein.problems": (
        *(
            "active_faces",
            "brown2",
            "chained_cb3_1",
            "chained_cb3_2",
            "chained_crescent2",
            "chained_mifflin2",
            "mxhilb",
        ),
        *("capped_ridge", "catalogue", "l1", "max_coordinate", "negative_abs"),
        *("cb2", "demyanov_malozemov", "el_attar", "gill", "goffin", "l1hilb", "maxl", "maxquad", "mifflin1", "ql"),
        *(
            "chained_crescent1",
            "chained_lq",
            "chebyshev_rosenbrock",
            "max_of_quadratics",
            "maxq",
            "robust_phase_retrieval",
        ),
        *("rosen_suzuki", "shor", "steiner2", "wolfe"),
    ),
}
METHOD_MEMBERS = {"guess": "from_scale"}  # of a user's method


def instead(name: str, new: str) -> str:
    """Say what took the place of a name."""
    return f"{name} is called {new} since goldstein 0.3."


def gone(name: str) -> str:
    """Say that nothing took the place of a name."""
    return f"{name} is retired since goldstein 0.3."


def fields(*dropped: str, **renamed: str) -> Callable[[Kind], Kind]:
    """Return a decorator for a class some of whose fields are gone, or have a new name: old=new."""

    def decorate(kind: Kind) -> Kind:
        init = kind.__init__  # type: ignore[misc]

        @wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            try:
                init(self, *args, **kwargs)
            except TypeError:
                for name in renamed.keys() & kwargs.keys():
                    raise TypeError(instead(f"{kind.__name__}({name}=...)", renamed[name])) from None
                for name in kwargs.keys() & set(dropped):
                    raise TypeError(gone(f"{kind.__name__}({name}=...)")) from None
                raise

        def missing(self: Any, name: str) -> NoReturn:
            if name in renamed:
                raise AttributeError(instead(f"{kind.__name__}.{name}", renamed[name]))
            if name in dropped:
                raise AttributeError(gone(f"{kind.__name__}.{name}"))
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

        kind.__init__ = checked  # type: ignore[misc]
        kind.__getattr__ = missing  # type: ignore[attr-defined]
        return kind

    return decorate


def check_members(kind: type, renamed: Mapping[str, str] = METHOD_MEMBERS) -> None:
    """Refuse a user's class that still has a member of an earlier version, which would be ignored."""
    for name in renamed:
        if any(name in vars(base) for base in kind.__mro__):
            raise TypeError(instead(f"{kind.__name__}.{name}", renamed[name]))


def names(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module some of whose names have a new one, or are gone."""

    def missing(name: str) -> NoReturn:
        # an AttributeError would be replaced by the import statement
        if name in NAMES.get(module, {}):
            raise ImportError(instead(f"{module}.{name}", NAMES[module][name]))
        if name in MOVED.get(module, ()):
            place = module.replace("goldstein.", "studies/")
            raise ImportError(f"{module}.{name} left the package in goldstein 0.3: see {place} in its repository.")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing


class _Finder:
    """Answers the import of a module that is gone."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        if fullname in MODULES:
            raise ModuleNotFoundError(instead(fullname, MODULES[fullname]), name=fullname)


def install() -> None:
    """Answer imports of modules that are gone."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
