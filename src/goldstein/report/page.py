"""The page itself: a template, filled in."""

from __future__ import annotations

import os
from pathlib import Path

from goldstein.extras import needed
from goldstein.report.summary import Summary


def page(summary: Summary) -> str:
    """Return a report as HTML; every text in it is escaped."""
    jinja2 = needed("jinja2", "A report")
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    markup = needed("markupsafe", "A report").Markup
    pictures = [(chart, markup(chart.svg(f"c{number}"))) for number, chart in enumerate(summary.charts)]
    text: str = environment.get_template("page.html").render(summary=summary, pictures=pictures)
    return text


def write(summary: Summary, path: str | os.PathLike[str]) -> Path:
    """Write a report; return where it is."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path, got {type(path).__name__}.")
    where = Path(path)
    if where.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"A report is a page in HTML: give it a name such as run.html, got {str(path)!r:.200}.")
    where.write_text(page(summary), encoding="utf-8")
    return where
