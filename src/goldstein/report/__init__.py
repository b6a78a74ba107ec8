"""One page about a run: self-contained HTML with its pictures drawn by hand (extra: report)."""

from goldstein.report.page import page, write
from goldstein.report.summary import Fact, Summary, facts_of, picture, summary_of

__all__ = ["Fact", "Summary", "facts_of", "page", "picture", "summary_of", "write"]
