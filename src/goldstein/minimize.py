"""The one call: `minimize`, and the same as a method of `scipy.optimize.minimize`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.methods import Method, resolve
from goldstein.oracle import Array, Deterministic, Oracle
from goldstein.projection import Projection
from goldstein.run.journal import Journal
from goldstein.run.result import Result
from goldstein.run.spec import RunSpec, asks_for
from goldstein.run.stages import run
from goldstein.stop import Criterion
from goldstein.warnings import warn

SCIPY_NAMES = {"maxfev": "max_evals", "maxiter": "max_iter", "disp": "progress"}
TOLERANCES = {"tol", "ftol", "gtol", "xtol", "fatol", "xatol"}


def minimize(
    fun: Oracle | Callable[[Array], float],
    x0: npt.ArrayLike,
    method: str | Method = "auto",
    *,
    args: tuple[Any, ...] = (),
    options: Mapping[str, Any] | None = None,
    max_evals: int | None = None,
    max_iter: int | None = None,
    stop: Criterion | Iterable[Criterion] | None = None,
    bounds: Any = None,
    projection: Projection | Callable[[Array], Array] | None = None,
    x_scale: npt.ArrayLike | None = None,
    output: str | None = None,
    rng: int | np.random.Generator | None = None,
    workers: Any = None,
    callback: Callable[[Result], Any] | None = None,
    monitor: Callable[[Array], float] | None = None,
    catch: type[BaseException] | Iterable[type[BaseException]] = (),
    journal: str | os.PathLike[str] | Journal | None = None,
    extend: bool = False,
    max_time: float | None = None,
    timeout: float | None = None,
    retries: int = 2,
    max_fail: int | None = None,
    progress: bool = False,
    compiled: bool | None = None,
    stationarity: tuple[float, float] | None = None,
    final_seed: int | None = None,
) -> Result:
    """Minimise f(x) = E[F(x; ξ)] from values of F alone.

    Parameters
    ----------
    fun : Oracle or callable
        An oracle (`Deterministic`, `FiniteSum`, `Expectation`, `Seeded`, `Unreplayable`), or a callable `fun(x)`.
        A bare callable is asked twice at x0 (counted) to see whether it is noisy.
    x0 : array_like, shape (d,)
        Start point.
    method : str or Method, optional
        A name (see `goldstein.methods.METHODS`) or a method object such as `GFMPlus(...)`. "auto" needs no settings.
    args : tuple, optional
        Further arguments of a callable, `fun(x, *args)`; an oracle has its own.
    options : mapping, optional
        Arguments of the method's constructor, when `method` is a name. What is not given is chosen from a few counted
        probes.
    max_evals : int, optional
        Most values of F(x; ξ) that may be asked for, everything included. With no limit at all: 1000 · (d + 1).
    max_iter : int, optional
        Most iterations.
    stop : Criterion or list of them, optional
        Criteria from `goldstein.stop`; reaching one is success.
    bounds : scipy.optimize.Bounds or sequence of (lower, upper), optional
        Iterates stay δ inside, so that no query leaves the box; a δ for which it has no room is refused. A variable
        whose bounds are equal is fixed there.
    projection : callable, optional
        x -> nearest allowed point, or a set from `goldstein.projection`.
    x_scale : array_like, optional
        Typical sizes of the coordinates; the run happens in x / x_scale.
    output : {None, "last", "random", "average", "best"}, optional
        Which iterate to return; None is the method's own rule.
    rng : int or Generator, optional
        Seed or generator; the same seed gives the same run.
    workers : int, executor or map-like callable, optional
        Evaluate the rows of a query in parallel; see `goldstein.oracle.evaluate.Evaluator`.
    callback : callable, optional
        `callback(intermediate_result)` at each record of the history; one whose parameter is called `xk` is given
        the point alone, as scipy does. Raise StopIteration or return True to stop.
    monitor : callable, optional
        `monitor(x) -> float` at each record of the history, for curves; the user's own, not counted.
    catch : exception type or several, optional
        Exceptions of `fun` that count as failed evaluations. Others propagate with `.point` and `.result` attached.
    journal : path or Journal, optional
        File that keeps every value as it arrives; if it exists, the run resumes from it and repeats no evaluation. See
        `Journal`.
    extend : bool, optional
        With a journal of a run whose steps were planned for a smaller budget: continue from its answer, as a new stage
        with the rest of the larger budget. Other methods continue with a larger budget by themselves.
    max_time : float, optional
        Seconds that this call may take. Evaluations in flight are given up then, and the answer is the run so far; with
        a journal it can be resumed.
    timeout : float, optional
        Seconds that one evaluation may take; it is stopped and repeated, `retries` times at most, and then counts as
        failed. Our own processes (`workers` is a number) notice within a second and twice that time; other workers only
        when all evaluations of their chunk have had theirs. The first answer has ten seconds more. Needs `workers`.
    retries : int, optional
        How often an evaluation is repeated that crashed its worker or took too long.
    max_fail : int, optional
        Most failed evaluations; with more the run stops, as when most of the recent ones fail.
    progress : bool, optional
        Show evaluations, best value, speed and the time left, in one line on a terminal; elsewhere nothing.
    compiled : bool, optional
        Run the whole loop in machine code, which needs a numba-jitted function. None: whenever that is possible;
        True: it is an error when it is not; False: never.
    stationarity : (delta, epsilon), optional
        Say in `res.stationarity` whether dist(0, ∂_δ f(x)) ≤ ε at the answer; see `goldstein.certify`. A fifth of the
        budget is set aside for it, 10,000 evaluations at most.
    final_seed : int, optional
        Seed of the ξ on which the answer is chosen and its value estimated. Runs that share it are judged on common
        samples, whatever their `rng` and method. None: it comes from `rng`.

    Returns
    -------
    Result
        `x`, `fun` ± `fun_stderr`, `nfev`, `status`, `message`, `history`, …; see `Result`.

    Notes
    -----
    ====== ============ ======= ====================================================================
    status name         success meaning
    ====== ============ ======= ====================================================================
    0      CRITERION    true    a criterion in `stop` was reached
    1      MAX_EVALS    false   evaluation budget used
    2      MAX_ITER     false   iteration limit reached
    3      FAILING      false   most recent evaluations failed (NaN, infinite or a caught exception)
    4      CALLBACK     false   stopped by the callback
    5      INTERRUPTED  false   interrupted; this is the result so far
    6      FINISHED     false   the method completed its schedule
    8      MAX_TIME     false   time limit reached; this is the result so far
    9      RAISED       false   an exception ended the run; this is the result so far
    ====== ============ ======= ====================================================================

    Examples
    --------
    >>> import numpy as np, goldstein as gs
    >>> res = gs.minimize(lambda x: np.abs(x - 1).sum(), np.zeros(10), max_evals=10_000, rng=0)
    >>> bool(res.fun < 0.1), res.nfev <= 10_000
    (True, True)
    """
    return run(RunSpec(**locals()))


# Our arguments that scipy's options may hold; the others have a place of their own in a call of scipy.
OWN = inspect.signature(minimize).parameters.keys() - {"fun", "x0", "method", "args", "options", "bounds", "callback"}


def scipy_method(method: Any = "auto", *scipy_args: Any, **scipy_kwargs: Any) -> Any:
    """Return a method for `scipy.optimize.minimize(f, x0, method=...)`; without brackets it is "auto" itself.

    The `options` of scipy are the keyword arguments of `goldstein.minimize` (`max_evals`, `rng`, …) and those of the
    method's constructor; `maxfev`, `maxiter` and `disp` are understood too. Tolerances are refused: a run ends with its
    budget, or with a criterion given as `stop`. A callable `jac` is the gradient of a function without noise, for the
    methods that take gradients.

    Parameters
    ----------
    method : str or Method, optional
        As in `goldstein.minimize`.
    *scipy_args, **scipy_kwargs
        What scipy gives to a method, when this function itself is the method.

    Returns
    -------
    callable
        What scipy takes as `method=`.

    Notes
    -----
    `res.success` is False after a run that used its budget, unlike in other methods of scipy: see `Result`.

    Examples
    --------
    >>> import numpy as np, goldstein as gs, scipy.optimize
    >>> res = scipy.optimize.minimize(lambda x: abs(x).sum(), np.ones(3), method=gs.scipy_method("gfm"),
    ...                               options={"delta": 0.01, "step_size": 0.01, "max_evals": 3000, "rng": 0})
    >>> bool(res.fun < 0.5)
    True
    """
    if scipy_args or scipy_kwargs:
        return _solve(method, *scipy_args, chosen="auto", **scipy_kwargs)
    return partial(_solve, chosen=method)


def _solve(
    fun: Callable[..., float], x0: Array, args: tuple[Any, ...] = (), *, chosen: str | Method, **kwargs: Any
) -> Result:
    settings = _settings(kwargs)
    jac = kwargs.pop("jac", None)
    if getattr(jac, "__self__", None) is fun and hasattr(fun, "fun"):  # jac=True: what scipy has made of (f, gradient)
        both = fun.fun
        fun = lambda x, *args: both(x, *args)[0]  # noqa: E731
        jac = lambda x, *args: both(x, *args)[1]  # noqa: E731
    unused = [name for name in ("hess", "hessp") if kwargs.pop(name, None) is not None]
    options = kwargs or None
    if callable(jac) and not resolve(chosen, options).needs.gradients:
        unused.append("jac")
        jac = None
    if unused:
        name = chosen if isinstance(chosen, str) else chosen.name
        warn(f"{name} ignores {' and '.join(unused)}.")
    if callable(jac):
        return minimize(Deterministic(fun, args, grad=jac), x0, chosen, options=options, **settings)
    return minimize(fun, x0, chosen, args=args, options=options, **settings)


def _settings(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take out of scipy's keyword arguments what `minimize` calls its own; refuse what it does not take."""
    settings = {key: kwargs.pop(key) for key in OWN & kwargs.keys()}
    for theirs in SCIPY_NAMES.keys() & kwargs.keys():
        ours = SCIPY_NAMES[theirs]
        if ours in settings:
            raise ValueError(f"{theirs} and {ours} are the same: give one of them.")
        value = kwargs.pop(theirs)
        if theirs == "disp":
            value = bool(value)
        elif isinstance(value, float) and value.is_integer():
            value = int(value)
        settings[ours] = value
    for name in TOLERANCES & kwargs.keys():
        raise ValueError(f"goldstein takes no {name}: a run ends with max_evals, or with a criterion given as stop.")
    if kwargs.pop("constraints", None):
        raise ValueError("goldstein takes no constraints; use bounds, or projection in options.")
    callback = kwargs.pop("callback", None)
    if callback is not None:
        settings["callback"] = _scipy_callback(callback)
    settings["bounds"] = kwargs.pop("bounds", None)
    return settings


def _scipy_callback(callback: Callable[..., Any]) -> Callable[[Result], Any]:
    """Call a callback as scipy does: `callback(*, intermediate_result)`, or the older `callback(xk)`."""
    if asks_for(callback, "intermediate_result"):
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(result.x)
