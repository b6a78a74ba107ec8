"""What the theorems promise, in the width of a terminal or as JSON."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import warnings
from typing import Annotated, Any

import typer

from goldstein.cli.parsing import AsJson
from goldstein.cli.rendering import print_json

INDENT = 24  # of continuation lines


def plan(
    d: Annotated[int, typer.Option(help="Dimension.")],
    lipschitz: Annotated[float, typer.Option("--L", help="Lipschitz constant L.")],
    delta: Annotated[float, typer.Option(help="Radius of stationarity.")],
    epsilon: Annotated[float, typer.Option(help="Size of the stationarity.")],
    method: Annotated[str | None, typer.Argument(help="One method by name; all side by side when not given.")] = None,
    gap: Annotated[float | None, typer.Option(help="f(x0) - inf f.")] = None,
    radius: Annotated[float | None, typer.Option(help="Distance of x0 to a minimiser (convex f).")] = None,
    constants: Annotated[str, typer.Option(help="sharp or paper.")] = "sharp",
    parameters: Annotated[str, typer.Option(help="repaired or printed; for one method.")] = "repaired",
    as_json: AsJson = False,
) -> None:
    """Print what the theorems promise: one method's parameters and exact cost, or all methods side by side.

    Example: goldstein plan gfm+ --d 5 --L 1 --gap 1 --delta 0.3 --epsilon 0.5
    """
    from goldstein import theory

    goal: dict[str, Any] = {"d": d, "L": lipschitz, "gap": gap, "delta": delta, "epsilon": epsilon, "radius": radius}
    goal["constants"] = constants
    if method is None and parameters != "repaired":
        raise typer.BadParameter(f"--parameters {parameters} is for one method: name it, such as goldstein plan gfm+.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is wrong with printed parameters stands in the plan
        answer: Any
        if method is None:
            answer = theory.compare(**goal)
        else:
            answer = theory.plan(method, parameters=parameters, **goal)
    if as_json:
        print_json(_comparison_as_json(answer) if method is None else _plan_as_json(answer), indent=1)
        return
    text = str(answer)
    width = _width()
    if width is not None and max(map(len, text.splitlines())) > width:
        text = _wrap(_narrow_table(answer) if method is None else text, width)
    typer.echo(text)


def _width() -> int | None:
    """Return the columns of the terminal; None: there is none, as in a pipe."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return None


def _wrap(text: str, width: int) -> str:
    """Return a text with lines of at most `width` letters, unless a word is longer; spaces in short lines stay."""
    lines = []
    for line in text.splitlines():
        lines += [line] if len(line) <= width else textwrap.wrap(line, width, subsequent_indent=" " * INDENT)
    return "\n".join(lines)


def _narrow_table(comparison: Any) -> str:
    """Return all methods in a narrow table: guarantees have letters, and are spelled out below it."""
    guarantees = list(dict.fromkeys(row.guarantee for row in comparison))
    letter = {guarantee: chr(ord("a") + k) for k, guarantee in enumerate(guarantees)}
    lines = [("method", "needs", "evaluations", "")]
    lines += [(row.method, row.needs, row.cost, letter[row.guarantee]) for row in comparison]
    sides = "<<><"
    widths = [max(len(line[k]) for line in lines) for k in range(4)]
    table = ["  ".join(f"{text:{sides[k]}{widths[k]}}" for k, text in enumerate(line)).rstrip() for line in lines]
    notes = [f"{letter[guarantee]}: {guarantee}" for guarantee in guarantees]
    notes += [f"{row.mark}: {row.method}" for row in comparison if row.mark]
    return "\n".join([*table, *notes, *comparison.left_out])


def _comparison_as_json(comparison: Any) -> dict[str, Any]:
    rows = []
    for row in comparison:
        about = {name: getattr(row, name) for name in ("method", "needs", "guarantee", "mark")}
        about |= {name: getattr(row.plan, name) for name in ("evaluations", "exact", "expected_evaluations")}
        rows.append(about)
    return {"rows": rows, "left_out": list(comparison.left_out)}


def _plan_as_json(plan: Any) -> dict[str, Any]:
    counts = ("iterations", "evaluations", "gradients", "expected_evaluations")
    return {
        "method": plan.name,
        "guarantee": plan.target,
        "constants": plan.constants.kind,
        "parameters": dict(plan.parameters),
        **{name: getattr(plan, name) for name in ("d", "oracle", "output", *counts, "exact")},
        "notes": [text for text in (plan.note, *plan.defects) if text],
    }
