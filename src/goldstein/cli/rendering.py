"""How results look on the command line."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from goldstein.cli.errors import CODES, FAILING, end
from goldstein.report import Fact, facts_of
from goldstein.report.summary import numbers
from goldstein.run.result import Result

COUNTS = ("nfev", "ngev", "nit", "nfail", "nrepeat")
MOST_NUMBERS = 50  # entries of the answer that are printed
RAISED = "RAISED"  # in the place of a status: the function raised, and the run is over


class Printer(Console):
    """A console that raises BrokenPipeError where rich would exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def print_result(result: Result, as_json: bool, *, raised: bool = False) -> None:
    """Print a result; `raised`: an exception ended the run, and this is the run so far."""
    if as_json:
        print_json(_result_as_json(result) | ({"status": RAISED} if raised else {}))
        return
    facts = [Fact("x", numbers(result.x, MOST_NUMBERS)) if fact.name == "x" else fact for fact in facts_of(result)]
    if not raised:
        facts.append(Fact("message", result.message))
    print_facts(facts)


def print_json(about: Any, indent: int | None = None) -> None:
    """Print plain data, null for numbers that are not finite; in ASCII where stdout is not UTF-8."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "")
    typer.echo(json.dumps(_finite(about), ensure_ascii=encoding != "utf8", indent=indent))


def _finite(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def _result_as_json(result: Result) -> dict[str, Any]:
    about = {
        "status": result.status.name,
        "success": bool(result.success),
        "message": result.message,
        **{name: result[name] for name in ("fun", "fun_stderr", *COUNTS)},
        "x": result.x.tolist(),
    }
    certificate = result.get("stationarity")
    if certificate is not None:
        about["stationarity"] = {name: getattr(certificate, name) for name in ("answer", "bound", "delta", "epsilon")}
    return about


def print_facts(facts: list[Fact]) -> None:
    """Print lines of a table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for fact in facts:
        table.add_row(fact.name, fact.text)
    Printer(markup=False, highlight=False).print(table)


def exit_with_status(result: Result) -> None:
    """End with the exit code of the status."""
    code = CODES.get(result.status, 0)
    if code:
        raise typer.Exit(code)
    if result.nfail >= result.nfev > 0:
        end("Every evaluation failed (NaN, infinite or a caught exception), so there is no answer.", FAILING)
    if result.nfail and not math.isfinite(result.fun):
        end("The evaluations at the answer failed, so its value is not known.", FAILING)
