"""Minimise a function from the command line."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from goldstein.arguments import signature, takes
from goldstein.cli import parsing
from goldstein.cli.errors import WRONG_USE, end
from goldstein.cli.parsing import AsJson, Out, Progress, Report, Workers
from goldstein.cli.runner import Runner, user_code
from goldstein.methods.registry import METHODS
from goldstein.minimize import minimize
from goldstein.oracle import Deterministic, FiniteSum, Oracle, Seeded
from goldstein.stop import Target


def _complete(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def minimize_function(
    function: Annotated[
        str, typer.Argument(help="module:function, also from the current folder; or module:oracle.", show_default=False)
    ],
    x0: Annotated[
        str, typer.Option(help="Start: numbers with commas between them, or a file (.npy or text).", show_default=False)
    ],
    max_evals: Annotated[
        int | None, typer.Option(help="Most evaluations, everything included. Default: 1000 (d + 1).")
    ] = None,
    dim: Annotated[int | None, typer.Option(min=1, help="Number of variables, if --x0 is one number for all.")] = None,
    seeded: Annotated[bool, typer.Option("--seeded", help="It is F(x, seed): a simulator with a seed.")] = False,
    n: Annotated[int | None, typer.Option("--n", help="It is F(x, i), i in 0..n-1: minimise the mean.")] = None,
    vectorized: Annotated[bool, typer.Option("--vectorized", help="It takes many points at once, one a row.")] = False,
    bounds: Annotated[
        str | None, typer.Option(help="lower:upper for all variables, or one for each with commas; 0: means no upper.")
    ] = None,
    method: Annotated[
        str, typer.Option(help=f"A method by name: {', '.join(METHODS)}.", autocompletion=_complete)
    ] = "auto",
    option: Annotated[list[str] | None, typer.Option(help="Setting of the method, name=value; repeatable.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes the run repeatable.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Most iterations.")] = None,
    max_time: Annotated[float | None, typer.Option(help="Seconds that it may take.")] = None,
    target: Annotated[float | None, typer.Option(help="Stop when f is at most this.")] = None,
    stationarity: Annotated[str | None, typer.Option(help="delta,epsilon: how stationary is the answer?")] = None,
    catch: Annotated[list[str] | None, typer.Option(help="Exception that counts as a failure; repeatable.")] = None,
    workers: Workers = None,
    journal: Annotated[Path | None, typer.Option(help="File that keeps every value; continues an earlier run.")] = None,
    report: Report = None,
    out: Out = None,
    progress: Progress = True,
    as_json: AsJson = False,
) -> None:
    """Minimise a function from its values.

    Example: goldstein minimize my_model:loss --x0 0,0,0 --max-evals 5000 --seeded --report run.html

    Exit codes: 0 done, 1 the function raised or the journal is damaged, 2 wrong use, 3 evaluations failed, 130
    interrupted, 143 terminated.
    """
    runner = Runner(function, journal, report, out, as_json)
    runner.check_files()
    if target is not None and not math.isfinite(target):
        raise typer.BadParameter(f"--target takes a number, got {target}.")
    start = parsing.parse_point(x0, dim)
    with user_code(as_json):
        fun = _oracle(parsing.load_object(function, "The first argument"), seeded, n, vectorized)
        caught = parsing.parse_exceptions(catch or ())
    call = partial(
        minimize,
        fun,
        start,
        method,
        options=parsing.parse_options(option or ()),
        max_evals=max_evals,
        max_iter=max_iter,
        max_time=max_time,
        bounds=parsing.parse_bounds(bounds, start.size),
        stop=None if target is None else Target(target),
        stationarity=parsing.parse_pair("--stationarity", stationarity),
        catch=caught,
        rng=seed,
        workers=workers,
        journal=journal,
        progress=progress,
    )
    runner.run(call)


def _oracle(fun: Any, seeded: bool, n: int | None, vectorized: bool) -> Any:
    """Return an oracle as it is, or a function in the form that the options say."""
    if seeded and n is not None:
        end("--seeded and --n exclude each other: F(x, seed) or F(x, i).", WRONG_USE)
    if isinstance(fun, Oracle):
        if seeded or n is not None or vectorized:
            end("An oracle needs no options: leave out --seeded, --n and --vectorized.", WRONG_USE)
        return fun
    if not callable(fun):
        end(f"The first argument must be a function or an oracle, got {type(fun).__name__}.", WRONG_USE)
    if seeded:
        return Seeded(fun, vectorized=vectorized)
    if n is not None:
        return FiniteSum(fun, n, vectorized=vectorized)
    if not takes(fun, 1):
        end(f"{signature(fun)} takes more than the point: use --seeded for F(x, seed), or --n for F(x, i).", WRONG_USE)
    return Deterministic(fun, vectorized=True) if vectorized else fun
