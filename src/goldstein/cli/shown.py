"""How results look on the command line."""

from __future__ import annotations

import json
import math
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from goldstein.cli.polite import CODES
from goldstein.report import Fact, facts_of
from goldstein.run.result import Result

COUNTS = ("nfev", "ngev", "nit", "nfail", "nrepeat")


def show(result: Result, as_json: bool) -> None:
    """Print a result."""
    if as_json:
        typer.echo(json.dumps(plain(result), ensure_ascii=False))
        return
    show_facts([*facts_of(result), Fact("message", result.message)])


def plain(result: Result) -> dict[str, Any]:
    """Return a result in JSON types, None where a number is not finite."""
    numbers = {name: result[name] for name in ("fun", "fun_stderr", *COUNTS)}
    about: dict[str, Any] = {
        "status": result.status.name,
        "success": bool(result.success),
        "message": result.message,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
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
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(fact.name, fact.said)
    Console(markup=False, highlight=False).print(table)


def leave(result: Result) -> None:
    """End with the code that says how the run ended."""
    code = CODES.get(result.status, 0)
    if code:
        raise typer.Exit(code)
