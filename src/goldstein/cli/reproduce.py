"""Run a study from data to figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def studies() -> None:
    """Run a study from data to figure."""


@app.command()
def defaults(
    out: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("results"),
    docs: Annotated[Path | None, typer.Option(help="Markdown file for the table.")] = None,
    quick: Annotated[bool, typer.Option(help="Leave out the cases of more than 100,000 evaluations.")] = False,
) -> None:
    """What minimize(f, x0, max_evals=N) reaches with no settings at all."""
    from goldstein.studies import defaults

    defaults.run(out, quick=quick, docs=docs)
