"""Look at the journal of a run, and go on with it."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from goldstein.cli.errors import FAILED, PAGE, WRONG_USE, check_place, end
from goldstein.cli.parsing import found
from goldstein.cli.rendering import MOST_NUMBERS, print_json, show_facts
from goldstein.cli.runner import Wanted, aside, resume
from goldstein.extras import needed
from goldstein.minimize import minimize
from goldstein.report import Fact, Summary, write
from goldstein.report.chart import Chart, Line
from goldstein.report.summary import numbers
from goldstein.run.inspection import Inspection, inspect, stages_in, total_limits
from goldstein.run.progress import lasting
from goldstein.run.records import DamagedError
from goldstein.run.spec import arguments_of

WIDTH = 64  # columns of the curve
HEIGHT = 8  # and its lines
MARGIN = 15  # columns for the numbers beside it
WRITTEN = {True: "; a process is writing into it", False: "; no process is writing into it", None: ""}
EIGHTHS = " ▁▂▃▄▅▆▇█"

File = Annotated[Path, typer.Argument(help="The journal.", exists=True, dir_okay=False, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON.")]


def inspect_journal(
    path: File,
    html: Annotated[Path | None, typer.Option(help="Write a page about it, such as run.html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show how far a run is, its best value, failures, pace and settings; also while it is going on.

    Example: goldstein inspect run.journal --html run.html
    """
    if html is not None:
        needed("jinja2", "A report")
        check_place(html, "The page", journal=path, replaces=PAGE)
    try:
        seen = inspect(path)
    except (ValueError, OSError) as error:
        end(str(error).replace(": give journal= another file.", "."), FAILED)
    if not seen.stage:
        end(f"{path} is empty: no run was begun in it.", WRONG_USE)
    if html is not None:
        write(_account(seen), html)
    if as_json:
        print_json(seen.plain(), indent=1)
        return
    show_facts([Fact(name, said) for name, said in _said(seen).items()])
    if len(seen.curve) > 1:
        width = min(WIDTH, max(shutil.get_terminal_size().columns - MARGIN, 8))
        typer.echo("\n" + "\n".join(drawn([value for _, value in seen.curve], width)))


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
    report: Annotated[Path | None, typer.Option(help="Page about the run, such as run.html.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the answer x, .npy or .txt.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a line while it runs, on a terminal.")] = True,
    as_json: AsJson = False,
) -> None:
    """Go on with a run from its journal alone; no value that is there is asked for again.

    Example: goldstein resume run.journal --with my_model:loss --max-evals 20000 --extend

    Of a run that has ended it shows the answer, and asks for nothing.

    Exit codes: 0 done, 1 the function raised or the journal is damaged, 2 wrong use, 3 evaluations failed, 130
    interrupted, 143 terminated.
    """
    if path.stat().st_size == 0:
        end(f"{path} is empty: there is no run to go on with.", WRONG_USE)
    wanted = Wanted(function, path, report, out, as_json)
    wanted.check()
    with aside(as_json):
        fun = found(function, "--with")
    call = _call(path, fun)
    for name, limit in (("max_evals", max_evals), ("max_iter", max_iter)):
        if limit is not None:
            call[name] = limit
    more: dict[str, Any] = {"workers": workers, "extend": extend, "max_time": max_time, "timeout": timeout}
    wanted.play(partial(minimize, **call, **more, retries=retries, journal=path, progress=progress))


def _call(path: Path, fun: Any) -> dict[str, Any]:
    """Return the arguments of `minimize` by which the run in a journal goes on."""
    try:
        stages = stages_in(path)
        if not stages:
            raise ValueError("no run was begun in it")
        return {**arguments_of(stages[0].header.get("call"), fun), **total_limits(stages)}
    except DamagedError:
        raise
    except ValueError as error:
        advice = f"call gs.minimize(..., journal={str(path)!r}) instead"
        end(f"{path} does not tell how to go on, since {error}: {advice}.", WRONG_USE)


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
    if seen.outcome is not None:
        said["ended"] = f"{seen.outcome['status']}: {seen.outcome['message']}"
        said["answer"] = f"f = {seen.outcome['fun']:.6g} ± {seen.outcome['fun_stderr']:.2g}"
    else:
        said["ended"] = f"not yet{WRITTEN[seen.running]}"
    if seen.x is not None:
        value = "" if seen.x_fun is None else f" f = {seen.x_fun:.6g}"
        when = "x at the last snapshot" if seen.outcome is None else "x"
        said[when] = f"{numbers(np.array(seen.x), MOST_NUMBERS)}{value}"
    elif seen.outcome is not None:
        said["x"] = f"{resume(seen.path)} shows it, and asks for nothing"
    said |= {name: str(value) for name, value in seen.settings.items() if value not in (None, [])}
    said["versions"] = ", ".join(f"{name} {version}" for name, version in seen.versions.items())
    return said


def _account(seen: Inspection) -> Summary:
    """Return what there is to tell of a run that is in a journal."""
    said = _said(seen)
    about = {name: said.pop(name) for name in ("versions", *seen.settings) if name in said}
    made = np.array([made for made, _ in seen.curve], float)
    values = np.array([value for _, value in seen.curve], float)
    name = "mean of the values since the point before" if seen.noisy else "lowest value so far"
    words = f"{len(values)} points" + (f", from {values[0]:.4g} to {values[-1]:.4g}." if values.size else ".")
    again = resume(seen.path)
    return Summary(
        title=f"The run in {seen.path}",
        headline=f"{'mean of late' if seen.noisy else 'best so far'}: {seen.best:.6g}",
        facts=[Fact(*line) for line in said.items()],
        message=f"It has not ended yet{WRITTEN[seen.running]}."
        if seen.outcome is None
        else str(seen.outcome["message"]),
        charts=[Chart(name, words, [Line(made, values, name)])],
        settings=[Fact(name, about[name]) for name in seen.settings if name in about],
        versions=[Fact(*line) for line in seen.versions.items()],
        next_steps=[("Go on where it was; no value in the journal is asked for again:", again)],
    )


def drawn(values: list[float], width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Return a curve as lines of text, its largest and smallest value at the left.

    Examples
    --------
    >>> drawn([4.0, 2.0, 1.0, 0.0], height=2)
    ['4 ┤█▁', '0 ┤██▅▁']
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


def _short(seconds: float) -> str:
    if seconds >= 60:
        return lasting(seconds)
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
