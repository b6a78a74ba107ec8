"""Look at the journal of a run, and go on with it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from goldstein.methods.method import Method
from goldstein.minimize import minimize
from goldstein.run.call import made_again
from goldstein.run.inspection import Inspection, inspect, stages_in, total_limits
from goldstein.run.progress import lasting
from goldstein.run.records import DamagedError
from goldstein.run.result import Result, Status

WIDTH = 64  # columns of the curve
HEIGHT = 8  # and its lines
EIGHTHS = " ▁▂▃▄▅▆▇█"
INTERRUPTED = 130  # as a shell says it

File = Annotated[Path, typer.Argument(help="The journal.", exists=True, dir_okay=False, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON.")]


def inspect_journal(path: File, as_json: AsJson = False) -> None:
    """Show how far a run is, its best value, failures, pace and settings; also while it is going on."""
    try:
        seen = inspect(path)
    except (ValueError, OSError) as error:
        _end(str(error), 1)
    if as_json:
        typer.echo(json.dumps(seen.plain(), ensure_ascii=False, indent=1))
        return
    table = _table()
    for name, said in _said(seen).items():
        table.add_row(name, said)
    Console().print(table)
    if len(seen.curve) > 1:
        typer.echo("\n" + "\n".join(drawn([value for _, value in seen.curve])))


def resume_journal(
    path: File,
    function: Annotated[
        str, typer.Option("--with", help="The function or oracle, as module:name; found from the current folder, too.")
    ],
    workers: Annotated[int | None, typer.Option(help="Processes that evaluate; -1: all cores.")] = None,
    max_evals: Annotated[int | None, typer.Option(help="A larger budget than before.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="More iterations than before.")] = None,
    extend: Annotated[bool, typer.Option("--extend", help="Go on from the answer, as a new stage.")] = False,
    max_time: Annotated[float | None, typer.Option(help="Seconds that this call may take.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one evaluation may take.")] = None,
    retries: Annotated[int, typer.Option(help="How often one is done again that was lost or took too long.")] = 2,
    progress: Annotated[bool, typer.Option(help="Show a line while it runs, on a terminal.")] = True,
    as_json: AsJson = False,
) -> None:
    """Go on with a run from its journal alone; no value that is there is asked for again."""
    if path.stat().st_size == 0:
        _end(f"{path} is empty: there is no run to go on with.", 2)
    try:
        call = _call(path, function)
    except DamagedError as error:
        _end(str(error), 1)
    for name, limit in (("max_evals", max_evals), ("max_iter", max_iter)):
        if limit is not None:
            call[name] = limit
    more: dict[str, Any] = {"workers": workers, "extend": extend, "max_time": max_time, "timeout": timeout}
    try:
        result = minimize(**call, **more, retries=retries, journal=path, progress=progress)
    except (ValueError, TypeError) as error:
        if hasattr(error, "point"):  # the function raised it
            raise
        _end(str(error), 2)
    _show(result, as_json)
    if result.status is Status.INTERRUPTED:
        raise typer.Exit(INTERRUPTED)


def _call(path: Path, function: str) -> dict[str, Any]:
    """Return the arguments of `minimize` by which the run in a journal goes on."""
    fun = _found(function)
    try:
        stages = stages_in(path)
        if not stages:
            raise ValueError("no run was begun in it")
        return {**made_again(stages[0].header.get("call"), fun), **total_limits(stages)}
    except DamagedError:
        raise
    except ValueError as error:
        advice = f"call gs.minimize(..., journal={str(path)!r}) instead"
        _end(f"{path} does not tell how to go on, since {error}: {advice}.", 2)


def _found(function: str) -> Any:
    module, _, name = function.partition(":")
    if not module or not name:
        raise typer.BadParameter(f"--with takes module:function, such as my_model:loss; got {function!r}.")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(f"There is no module {module!r} on the path or in the current folder.") from None
    except AttributeError:
        raise typer.BadParameter(f"The module {module!r} has no {name!r}.") from None
    finally:
        sys.path.pop(0)
    return found


def _said(seen: Inspection) -> dict[str, str]:
    """Return what there is to say of a run, in words."""
    made = f"{seen.evaluations:,}"
    if seen.max_evals is not None:
        made += f" of {seen.max_evals:,} ({seen.evaluations / seen.max_evals:.0%})"
    said = {"evaluations": made}
    if seen.gradients:
        said["gradients"] = f"{seen.gradients:,}"
    if seen.max_iter is not None:
        said["iterations"] = f"{seen.max_iter:,} at most"
    if seen.stage > 1:
        said["stage"] = str(seen.stage)
    said["mean of late" if seen.noisy else "best so far"] = f"{seen.best:.6g}"
    said["failures"] = f"{seen.failures:,}"
    if seen.unanswered:
        said["in flight or lost"] = f"{seen.unanswered:,}"
    if seen.seconds_each is not None:
        said["time an evaluation"] = _short(seen.seconds_each)
    if seen.seconds_left is not None:
        said["time left"] = lasting(seen.seconds_left)
    if seen.seconds_since is not None and seen.outcome is None:
        said["last value"] = f"{lasting(seen.seconds_since)} ago"
    if seen.compiled:
        said["compiled"] = "values are not in the journal, only snapshots"
    said["ended"] = "not yet"
    if seen.outcome is not None:
        said["ended"] = f"{seen.outcome['status']}: {seen.outcome['message']}"
        said["answer"] = f"f = {seen.outcome['fun']:.6g} ± {seen.outcome['fun_stderr']:.2g}"
    said |= {name: str(value) for name, value in seen.settings.items() if value not in (None, [])}
    said["versions"] = ", ".join(f"{name} {version}" for name, version in seen.versions.items())
    return said


def drawn(values: list[float], width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Return a curve as lines of text, its largest and smallest value at the left.

    Examples
    --------
    >>> drawn([4.0, 2.0, 1.0, 0.0], height=2)
    ['4 ┤█▁▁▁', '0 ┤█▇▄▁']
    """
    step = max(len(values) / width, 1.0)
    chosen = [values[min(int(place * step), len(values) - 1)] for place in range(min(width, len(values)))]
    low = min(chosen)
    high = max(chosen)
    span = (high - low) or 1.0
    levels = [1 + round((value - low) / span * (8 * height - 1)) for value in chosen]
    labels = {height - 1: f"{high:.6g}", 0: f"{low:.6g}"}
    margin = max(map(len, labels.values()))
    lines = []
    for line in reversed(range(height)):
        marks = "".join(EIGHTHS[min(max(level - 8 * line, 0), 8)] for level in levels)
        lines.append(f"{labels.get(line, ''):>{margin}} ┤{marks}".rstrip())
    return lines


def _show(result: Result, as_json: bool) -> None:
    """Print a result."""
    numbers = {name: result[name] for name in ("fun", "fun_stderr", "nfev", "ngev", "nit", "nfail", "nrepeat")}
    if as_json:
        plain = {name: value if value == value else None for name, value in numbers.items()}
        about = {"status": result.status.name, "success": bool(result.success), "message": result.message}
        typer.echo(json.dumps({**about, **plain, "x": result.x.tolist()}, ensure_ascii=False))
        return
    table = _table()
    table.add_row("f", f"{result.fun:.6g} ± {result.fun_stderr:.2g}")
    table.add_row("evaluations", f"{result.nfev:,}, {result.nfail:,} failed, {result.nrepeat:,} done again")
    table.add_row("ended", f"{result.status.name}: {result.message}")
    method: Method = result.method
    table.add_row("method", method.name)
    table.add_row("x", " ".join(f"{entry:.6g}" for entry in result.x[:8]) + (" …" if result.x.size > 8 else ""))
    Console().print(table)


def _table() -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    return table


def _short(seconds: float) -> str:
    if seconds >= 60:
        return lasting(seconds)
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _end(sentence: str, code: int) -> NoReturn:
    typer.echo(sentence, err=True)
    raise typer.Exit(code)
