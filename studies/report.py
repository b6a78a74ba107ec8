"""What the reports of all studies share: pages, tables, and settings in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

SIGNS = {"eta": "η"}


def page(title: str, parts: Iterable[str], setup: Path | None = None) -> str:
    """Return a report as Markdown; `setup` is a file that says how the numbers were measured, and comes last."""
    pieces = [f"# {title}", *(part for part in parts if part)]
    if setup is not None:
        pieces.append(setup.read_text(encoding="utf-8").rstrip())
    return "\n\n".join(pieces) + "\n"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as Markdown; a bar inside a cell does not end it."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table on the screen, its first column to the left and the others to the right."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for number, name in enumerate(head):
        table.add_column(name, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def in_words(setting: Mapping[str, float]) -> str:
    """Return the values of a setting with their names."""
    return ", ".join(f"{SIGNS.get(key, key)} = {value:g}" for key, value in setting.items()) or "untuned"
