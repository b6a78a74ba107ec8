"""What the reports of all studies share: tables, settings in words, and the marked place of a document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.record import Unsupported, write_whole

SIGNS = {"eta": "η"}


@dataclass(frozen=True)
class Markers:
    """The two lines of a Markdown file between which a study's tables go."""

    begin: str
    end: str

    def check(self, docs: Path | None) -> None:
        """Raise when a file has no place for the tables: before the study, not after it."""
        if docs is not None:
            page = docs.read_text()
            once = page.count(self.begin) == page.count(self.end) == 1
            if not once or page.index(self.begin) > page.index(self.end):
                raise Unsupported(f"{docs} must hold the markers {self.begin} and {self.end} once each, in this order.")

    def fill(self, docs: Path, text: str) -> None:
        """Put the text between the markers."""
        self.check(docs)
        block = re.compile(f"{re.escape(self.begin)}.*{re.escape(self.end)}", re.DOTALL)
        write_whole(docs, block.sub(lambda _: f"{self.begin}\n\n{text}\n{self.end}", docs.read_text()))


def leave(text: str, path: Path, docs: Path | None, markers: Markers) -> None:
    """Write the tables to a file, and into the marked place of `docs` if that is named."""
    write_whole(path, text)
    if docs is not None:
        markers.fill(docs, text)


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
