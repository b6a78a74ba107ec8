"""How results look on the command line."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from goldstein.cli.errors import CODES, FAILING, end
from goldstein.report import Fact, facts_of
from goldstein.report.summary import numbers
from goldstein.run.result import Result

COUNTS = ("nfev", "ngev", "nit", "nfail", "nrepeat")
MOST_NUMBERS = 50  # of the answer that are shown
RAISED = "RAISED"  # in the place of a status: the function raised, and the run is over


class Printer(Console):
    """A console that takes texts as they are, and leaves it to the command what to do when nobody reads them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(markup=False, highlight=False, **settings)

    def on_broken_pipe(self) -> None:
        """Go on with the exception, where rich would end the program."""
        raise BrokenPipeError


def show(result: Result, as_json: bool, *, raised: bool = False) -> None:
    """Print a result, or what there is of it when an exception ended the run."""
    if as_json:
        print_json(plain(result) | ({"status": RAISED} if raised else {}))
        return
    facts = [Fact("x", numbers(result.x, MOST_NUMBERS)) if fact.name == "x" else fact for fact in facts_of(result)]
    if not raised:
        facts.append(Fact("message", result.message))
    show_facts(facts)


def print_json(about: Any, indent: int | None = None) -> None:
    """Print plain data, in letters that stdout has."""
    letters = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    typer.echo(json.dumps(about, ensure_ascii=not letters, indent=indent))


def plain(result: Result) -> dict[str, Any]:
    """Return a result in JSON types, None where a number is not finite."""
    counted = {name: result[name] for name in ("fun", "fun_stderr", *COUNTS)}
    about: dict[str, Any] = {
        "status": result.status.name,
        "success": bool(result.success),
        "message": result.message,
        **{name: value if math.isfinite(value) else None for name, value in counted.items()},
        "x": result.x.tolist(),
    }
    certificate = result.get("stationarity")
    if certificate is not None:
        about["stationarity"] = {name: getattr(certificate, name) for name in ("answer", "bound", "delta", "epsilon")}
        if not math.isfinite(certificate.bound):
            about["stationarity"]["bound"] = None
    return about


def show_facts(facts: list[Fact]) -> None:
    """Print lines of a table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(fact.name, fact.text)
    Printer().print(table)


def leave(result: Result) -> None:
    """End with the code that says how the run ended."""
    code = CODES.get(result.status, 0)
    if code:
        raise typer.Exit(code)
    if result.nfail >= result.nfev > 0:
        end("Every evaluation failed (NaN, infinite or a caught exception), so there is no answer.", FAILING)
    if result.nfail and not math.isfinite(result.fun):
        end("The evaluations of the answer failed, so nothing is known of it.", FAILING)
