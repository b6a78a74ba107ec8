"""Inspect the journal of a run, and continue it."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from goldstein.arguments import printable
from goldstein.cli.errors import FAILED, HTML, WRONG_USE, check_writable, end
from goldstein.cli.parsing import AsJson, Out, Progress, Report, Workers, load_object
from goldstein.cli.rendering import MOST_NUMBERS, print_facts, print_json
from goldstein.cli.runner import Runner, resume_command, user_code
from goldstein.extras import needed
from goldstein.minimize import minimize
from goldstein.report import Fact, Summary, write
from goldstein.report.chart import Chart, Line
from goldstein.report.summary import numbers
from goldstein.run.inspection import Inspection, inspect, stages_in
from goldstein.run.journal import total_limits
from goldstein.run.progress import lasting
from goldstein.run.records import MALFORMED, DamagedError
from goldstein.run.spec import RunSpec

WIDTH = 64  # columns of the curve
HEIGHT = 8  # and its lines
MARGIN = 15  # columns for the numbers beside it
WRITERS = {True: "; a process is writing to it", False: "; no process is writing to it", None: ""}
EIGHTHS = " ▁▂▃▄▅▆▇█"

File = Annotated[Path, typer.Argument(help="The journal.", exists=True, dir_okay=False, show_default=False)]


def inspect_journal(
    path: File,
    html: Annotated[Path | None, typer.Option(help="Write a page about it, such as run.html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a run, its best value, failures, pace and settings; also while it is running.

    Example: goldstein inspect run.journal --html run.html
    """
    if html is not None:
        needed("jinja2", "A report")
        check_writable(html, "The page", journal=path, replaces=HTML)
    try:
        inspection = inspect(path)
    except (ValueError, OSError) as error:
        end(str(error), FAILED)
    if not inspection.stage:
        end(f"{path} is empty: it holds no run.", WRONG_USE)
    if html is not None:
        write(_page(inspection), html)
    if as_json:
        print_json(asdict(inspection), indent=1)
        return
    print_facts([Fact(*row) for row in _rows(inspection).items()])
    if len(inspection.curve) > 1:
        width = min(WIDTH, max(shutil.get_terminal_size().columns - MARGIN, 8))
        typer.echo("\n" + "\n".join(curve_lines([value for _, value in inspection.curve], width)))


def resume_journal(
    path: File,
    function: Annotated[
        str, typer.Option("--with", help="The function or oracle, as module:name; found from the current folder, too.")
    ],
    workers: Workers = None,
    max_evals: Annotated[int | None, typer.Option(help="A larger budget than before.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="More iterations than before.")] = None,
    extend: Annotated[bool, typer.Option("--extend", help="Continue from the answer, as a new stage.")] = False,
    max_time: Annotated[float | None, typer.Option(help="Seconds that this call may take, besides the replay.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one evaluation may take.")] = None,
    retries: Annotated[int, typer.Option(help="Repeats of an evaluation that was lost or took too long.")] = 2,
    report: Report = None,
    out: Out = None,
    progress: Progress = True,
    as_json: AsJson = False,
) -> None:
    """Continue a run from its journal alone; no value in it is evaluated again.

    Example: goldstein resume run.journal --with my_model:loss --max-evals 20000 --extend

    The answer of a run that has ended is printed without an evaluation.

    Exit codes: 0 done, 1 the function raised or the journal is damaged, 2 wrong use, 3 evaluations failed, 130
    interrupted, 143 terminated.
    """
    if path.stat().st_size == 0:
        end(f"{path} is empty: there is no run to continue.", WRONG_USE)
    runner = Runner(function, path, report, out, as_json)
    runner.check_files()
    with user_code(as_json):
        fun = load_object(function, "--with")
    call = _call(path, fun)
    for name, limit in (("max_evals", max_evals), ("max_iter", max_iter)):
        if limit is not None:
            call[name] = limit
    more: dict[str, Any] = {"workers": workers, "extend": extend, "max_time": max_time, "timeout": timeout}
    runner.run(partial(minimize, **call, **more, retries=retries, journal=path, progress=progress))


def _call(path: Path, fun: Any) -> dict[str, Any]:
    """Return the arguments of `minimize` that continue the run in a journal."""
    try:
        stages = stages_in(path)
        if not stages:
            raise ValueError("it holds no run")
        return {**RunSpec.arguments_of(stages[0].header.get("call"), fun), **total_limits(stages)}
    except DamagedError:
        raise
    except MALFORMED as error:
        reason = printable(str(error)) if isinstance(error, ValueError) else "its header is malformed"
        advice = f"call gs.minimize(..., journal={str(path)!r}) instead"
        end(f"{path} cannot be continued from here, since {reason:.300}: {advice}.", WRONG_USE)


def _rows(run: Inspection) -> dict[str, str]:
    share = "" if run.max_evals is None else f" of {run.max_evals:,} ({run.evaluations / run.max_evals:.0%})"
    rows: dict[str, str | None] = {
        "evaluations": f"{run.evaluations:,}{share}",
        "gradients": f"{run.gradients:,}" if run.gradients else None,
        "iterations": None if run.max_iter is None else f"{run.max_iter:,} at most",
        "stage": str(run.stage) if run.stage > 1 else None,
        _best_name(run): f"{run.best:.6g}",
        "failures": f"{run.failures:,}",
        "in flight or lost": f"{run.unanswered:,}" if run.unanswered else None,
        "time an evaluation": None if run.seconds_each is None else _short(run.seconds_each),
        "time left": None if run.seconds_left is None else lasting(run.seconds_left),
        "compiled": "values are not in the journal, only snapshots" if run.compiled else None,
        **(_rows_while_it_runs(run) if run.outcome is None else _rows_of_the_end(run, run.outcome)),
        **{name: str(value) for name, value in run.settings.items() if value not in (None, [])},
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
    }
    return {name: text for name, text in rows.items() if text is not None}


def _best_name(run: Inspection) -> str:
    return "mean of the last 10 %" if run.noisy else "best so far"


def _rows_while_it_runs(run: Inspection) -> dict[str, str | None]:
    since = None if run.seconds_since is None else f"{lasting(run.seconds_since)} ago"
    return {"last value": since, "ended": f"not yet{WRITERS[run.running]}", "x at the last snapshot": _point(run)}


def _rows_of_the_end(run: Inspection, outcome: dict[str, Any]) -> dict[str, str | None]:
    return {
        "ended": f"{outcome['status']}: {outcome['message']}",
        "answer": f"f = {outcome['fun']:.6g} ± {outcome['fun_stderr']:.2g}",
        "x": _point(run) or f"{resume_command(run.path)} prints it without an evaluation",
    }


def _point(run: Inspection) -> str | None:
    if run.x is None:
        return None
    value = "" if run.x_fun is None else f" f = {run.x_fun:.6g}"
    return f"{numbers(np.array(run.x), MOST_NUMBERS)}{value}"


def _page(run: Inspection) -> Summary:
    rows = _rows(run)
    settings = {name: rows.pop(name) for name in ("versions", *run.settings) if name in rows}
    evaluations, values = np.array(run.curve or np.empty((0, 2)), float).T
    name = "mean of the values since the point before" if run.noisy else "lowest value so far"
    words = f", from {values[0]:.4g} to {values[-1]:.4g}" if values.size else ""
    message = f"It has not ended yet{WRITERS[run.running]}."
    if run.outcome is not None:
        message = str(run.outcome["message"])
    return Summary(
        title=f"The run in {run.path}",
        headline=f"{_best_name(run)}: {run.best:.6g}",
        facts=[Fact(*line) for line in rows.items()],
        message=message,
        charts=[Chart(name, f"{len(values)} points{words}.", [Line(evaluations, values, name)])],
        settings=[Fact(name, settings[name]) for name in run.settings if name in settings],
        versions=[Fact(*line) for line in run.versions.items()],
        next_steps=[("To continue; no value in the journal is evaluated again:", resume_command(run.path))],
    )


def curve_lines(values: list[float], width: int = WIDTH, height: int = HEIGHT) -> list[str]:
    """Return a curve as lines of text, its largest and smallest value at the left."""
    step = max(len(values) / width, 1.0)
    sample = [values[min(int(place * step), len(values) - 1)] for place in range(min(width, len(values)))]
    low = min(sample)
    high = max(sample)
    unit = max(abs(low), abs(high)) or 1.0  # the difference of huge values may overflow
    span = (high / unit - low / unit) or 1.0
    levels = [1 + round((value / unit - low / unit) / span * (8 * height - 1)) for value in sample]
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
