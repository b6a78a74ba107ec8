"""One page about a run: self-contained HTML with its pictures drawn by hand (extra: report)."""

from goldstein.report.account import Account, Fact, account_of, facts_of, picture
from goldstein.report.page import page, write

__all__ = ["Account", "Fact", "account_of", "facts_of", "page", "picture", "write"]
