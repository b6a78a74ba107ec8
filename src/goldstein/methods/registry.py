"""Methods by the name that `minimize` takes; `register` adds one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from goldstein import retired
from goldstein.methods.method import Method
from goldstein.methods.probed import FromScale, Probed

METHODS: dict[str, type[Method]] = {}
_FROM_SCALE: dict[str, FromScale] = {}


def register(kind: type[Method], name: str | None = None, from_scale: FromScale | None = None) -> type[Method]:
    """Let `minimize` and everything else know a method by name.

    Parameters
    ----------
    kind : type
        The method's class; `register` can stand above it as a decorator.
    name : str, optional
        Its name; None: `kind.name`.
    from_scale : callable, optional
        Chooses the settings that were not given; None: `kind.from_scale`.

    Returns
    -------
    type
        The class itself.

    Examples
    --------
    >>> import goldstein as gs
    >>> gs.register(gs.GFM) is gs.GFM
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise TypeError(f"register takes a class that derives from Method, got {kind!r:.80}.")
    retired.check_members(kind)
    key = kind.name if name is None else name
    if not isinstance(key, str) or not key:
        raise ValueError(f'{kind.__name__} needs a name, such as name: ClassVar[str] = "walk".')
    before = METHODS.get(key, kind)
    if (before.__module__, before.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"There is another method called {key!r}.")
    METHODS[key] = kind
    _FROM_SCALE[key] = kind.from_scale if from_scale is None else from_scale
    return kind


def resolve(method: str | Method, options: Mapping[str, Any] | None) -> Method:
    """Return the method object that `minimize` was asked for."""
    if isinstance(method, Method):
        if options is not None and options != {}:
            raise ValueError("options belong to a method given by name; a method object has its settings already.")
        return method
    if isinstance(method, type):
        raise TypeError(f"method must be a name or a method object; {method.__name__} is a class, so give it settings.")
    if not isinstance(method, str):
        raise TypeError(f"method must be a name or a method object, got {type(method).__name__}.")
    method = _known(method)
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options must be a mapping from setting to value, got {type(options).__name__}.")
    kind = METHODS[method]
    settings = dict(options or {})
    accepted = kind._options()
    for name in settings:
        if name not in accepted:
            raise ValueError(
                f"{method} has no option {name!r}; it takes {', '.join(accepted) or 'none'}.{_elsewhere(name)}"
            )
    if kind._complete(settings):
        return kind(**settings)
    return Probed(method, settings, _FROM_SCALE[method])


def _known(name: str) -> str:
    """Return a name as it is registered, in any case; say which one may have been meant."""
    if name in METHODS:
        return name
    if name.lower() in METHODS:
        return name.lower()
    bare = name.lower().replace("plus", "+").replace("cma-es", "cma")
    for mark in "-_ ":
        bare = bare.replace(mark, "")
    by_bare = {known.replace("-", ""): known for known in METHODS}
    near = difflib.get_close_matches(bare, by_bare, 1, 0.75)
    meant = f" Is {by_bare[near[0]]!r} meant?" if near else ""
    raise ValueError(f"Unknown method {name!r}; known are {', '.join(METHODS)}.{meant}")


def _elsewhere(option: str) -> str:
    """Return where something is said that scipy takes as an option."""
    if option in ("maxfev", "maxfun", "max_evals", "maxiter", "max_iter"):
        return " The budget is an argument of minimize: max_evals= or max_iter=."
    return ""
