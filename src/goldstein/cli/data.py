"""List, fetch and verify the public data sets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from goldstein import datasets
from goldstein.cli.polite import polite
from goldstein.cli.shown import Printer
from goldstein.download import download

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)

Folder = Annotated[Path | None, typer.Option("--data", help="Folder with the files; else GOLDSTEIN_DATA or the cache.")]


def _complete(incomplete: str) -> list[str]:
    return [name for name in datasets.SOURCES if name.startswith(incomplete)]


Names = Annotated[
    list[str] | None,
    typer.Argument(help="Data sets; all when none is named.", show_default=False, autocompletion=_complete),
]


@app.command(name="list")
@polite
def list_sets(data: Folder = None) -> None:
    """Show the data sets and which of their files are on this machine.

    Example: goldstein data list
    """
    table = Table()
    for head in ("name", "rows", "features", "files", "here"):
        table.add_column(head, justify="right" if head in ("rows", "features") else "left", overflow="fold")
    for name, source in datasets.SOURCES.items():
        places = [_place(file, source, data) for file in source.files]
        here = sum(place is not None for place in places)
        known = sorted({str(place.parent) for place in places if place is not None})
        files = ", ".join(file.name for file in source.files) if len(source.files) < 3 else "train and test, IDX"
        where = f"{here} of {len(places)}" + (f" in {', '.join(known)}" if known else "")
        table.add_row(name, f"{source.rows:,}", f"{source.features:,}", files, where)
    Printer().print(table)


@app.command()
@polite
def fetch(names: Names = None, data: Folder = None) -> None:
    """Download what is missing into the cache or the folder named by --data, and verify it.

    A download that broke goes on where it ended. What is in a folder of yours is never replaced.

    Example: goldstein data fetch a9a
    """
    console = Printer()
    failed: list[str] = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def show(file: str, have: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file)
            bars.update(tasks[file], completed=have, total=total)

        for name in _known(names):
            try:
                paths = datasets.fetch(name, progress=show) if data is None else _fetched(name, data, show)
            except (OSError, ValueError) as error:
                failed.append(name)
                console.print(f"{name}: {_with_option(error)}")
            else:
                console.print(f"{name}: whole, in {paths[0].parent}")
    _end(failed)


@app.command()
@polite
def verify(names: Names = None, data: Folder = None) -> None:
    """Compare the files on this machine with their known SHA-256; download nothing.

    Sets of which no file is here are left out, unless they are named.

    Example: goldstein data verify a9a
    """
    console = Printer()
    failed: list[str] = []
    absent: list[str] = []
    for name in _known(names):
        source = datasets.SOURCES[name]
        if not names and not any(_place(file, source, data) for file in source.files):
            absent.append(name)
            continue
        try:
            for file in source.files:
                path = datasets.local_path(file, source, data)
                if path is None:
                    raise FileNotFoundError(f"not here: {file.name}; goldstein data fetch {name} gets it.")
                datasets.verify(path, file)
        except (OSError, ValueError) as error:
            failed.append(name)
            console.print(f"{name}: {error}")
        else:
            console.print(f"{name}: right")
    if absent:
        console.print(f"not here, so not verified: {', '.join(absent)}")
    _end(failed or ([] if len(absent) < len(datasets.SOURCES) else absent))


def _known(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in datasets.SOURCES:
            raise typer.BadParameter(f"Unknown data set {name!r}; known are {', '.join(datasets.SOURCES)}.")
    return names or list(datasets.SOURCES)


def _place(file: datasets.File, source: datasets.Source, folder: Path | None) -> Path | None:
    try:
        return datasets.local_path(file, source, folder)
    except FileNotFoundError:
        return None


def _fetched(name: str, folder: Path, progress: Callable[[str, int, int | None], None]) -> list[Path]:
    """Download into a folder what it lacks; return the paths of all files, each of them whole."""
    source = datasets.SOURCES[name]
    paths = []
    for file in source.files:
        path = _place(file, source, folder)
        if path is not None:
            datasets.verify(path, file)
        else:
            path = folder.expanduser() / source.folder / file.name
            download(file, path, progress)
        paths.append(path)
    return paths


def _with_option(error: Exception) -> str:
    """Return what went wrong with a download, in words of the command line."""
    return str(error).replace("name it by GOLDSTEIN_DATA or an argument", "name it by --data or GOLDSTEIN_DATA")


def _end(failed: list[str]) -> None:
    if failed:
        raise typer.Exit(1)
