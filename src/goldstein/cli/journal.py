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
from goldstein.cli.parsing import load_object
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

MEAN = "mean of the last 10 %"
WIDTH = 64  # columns of the curve
HEIGHT = 8  # and its lines
MARGIN = 15  # columns for the numbers beside it
WRITERS = {True: "; a process is writing to it", False: "; no process is writing to it", None: ""}
EIGHTHS = " ▁▂▃▄▅▆▇█"

File = Annotated[Path, typer.Argument(help="The journal.", exists=True, dir_okay=False, show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON.")]


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
    workers: Annotated[int | None, typer.Option(help="Processes that evaluate; -1: all cores.")] = None,
    max_evals: Annotated[int | None, typer.Option(help="A larger budget than before.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="More iterations than before.")] = None,
    extend: Annotated[bool, typer.Option("--extend", help="Continue from the answer, as a new stage.")] = False,
    max_time: Annotated[float | None, typer.Option(help="Seconds that this call may take, besides the replay.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds that one evaluation may take.")] = None,
    retries: Annotated[int, typer.Option(help="Repeats of an evaluation that was lost or took too long.")] = 2,
    report: Annotated[Path | None, typer.Option(help="Page about the run, such as run.html.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the answer x, .npy or .txt.")] = None,
    progress: Annotated[bool, typer.Option(help="Show a line while it runs, on a terminal.")] = True,
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


def _rows(inspection: Inspection) -> dict[str, str]:
    """Return the rows of the table about a run."""
    evaluations = f"{inspection.evaluations:,}"
    if inspection.max_evals is not None:
        evaluations += f" of {inspection.max_evals:,} ({inspection.evaluations / inspection.max_evals:.0%})"
    rows = {"evaluations": evaluations}
    if inspection.gradients:
        rows["gradients"] = f"{inspection.gradients:,}"
    if inspection.max_iter is not None:
        rows["iterations"] = f"{inspection.max_iter:,} at most"
    if inspection.stage > 1:
        rows["stage"] = str(inspection.stage)
    rows[MEAN if inspection.noisy else "best so far"] = f"{inspection.best:.6g}"
    rows["failures"] = f"{inspection.failures:,}"
    if inspection.unanswered:
        rows["in flight or lost"] = f"{inspection.unanswered:,}"
    if inspection.seconds_each is not None:
        rows["time an evaluation"] = _short(inspection.seconds_each)
    if inspection.seconds_left is not None:
        rows["time left"] = lasting(inspection.seconds_left)
    if inspection.seconds_since is not None and inspection.outcome is None:
        rows["last value"] = f"{lasting(inspection.seconds_since)} ago"
    if inspection.compiled:
        rows["compiled"] = "values are not in the journal, only snapshots"
    if inspection.outcome is not None:
        rows["ended"] = f"{inspection.outcome['status']}: {inspection.outcome['message']}"
        rows["answer"] = f"f = {inspection.outcome['fun']:.6g} ± {inspection.outcome['fun_stderr']:.2g}"
    else:
        rows["ended"] = f"not yet{WRITERS[inspection.running]}"
    if inspection.x is not None:
        value = "" if inspection.x_fun is None else f" f = {inspection.x_fun:.6g}"
        when = "x at the last snapshot" if inspection.outcome is None else "x"
        rows[when] = f"{numbers(np.array(inspection.x), MOST_NUMBERS)}{value}"
    elif inspection.outcome is not None:
        rows["x"] = f"{resume_command(inspection.path)} prints it without an evaluation"
    rows |= {name: str(value) for name, value in inspection.settings.items() if value not in (None, [])}
    rows["versions"] = ", ".join(f"{name} {version}" for name, version in inspection.versions.items())
    return rows


def _page(inspection: Inspection) -> Summary:
    """Return the page about a run in a journal."""
    rows = _rows(inspection)
    settings = {name: rows.pop(name) for name in ("versions", *inspection.settings) if name in rows}
    evaluations = np.array([count for count, _ in inspection.curve], float)
    values = np.array([value for _, value in inspection.curve], float)
    name = "mean of the values since the point before" if inspection.noisy else "lowest value so far"
    words = f"{len(values)} points" + (f", from {values[0]:.4g} to {values[-1]:.4g}." if values.size else ".")
    message = f"It has not ended yet{WRITERS[inspection.running]}."
    if inspection.outcome is not None:
        message = str(inspection.outcome["message"])
    return Summary(
        title=f"The run in {inspection.path}",
        headline=f"{MEAN if inspection.noisy else 'best so far'}: {inspection.best:.6g}",
        facts=[Fact(*line) for line in rows.items()],
        message=message,
        charts=[Chart(name, words, [Line(evaluations, values, name)])],
        settings=[Fact(name, settings[name]) for name in inspection.settings if name in settings],
        versions=[Fact(*line) for line in inspection.versions.items()],
        next_steps=[("To continue; no value in the journal is evaluated again:", resume_command(inspection.path))],
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
