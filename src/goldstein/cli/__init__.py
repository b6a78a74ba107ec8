"""The command `goldstein` (extra: cli); each group of commands has a file of its own."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Run the command line; say which extra is missing when one is."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print("The command line needs typer and rich: pip install 'goldstein[cli]'.", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that it has not got is no reason to lose a result
    try:
        from goldstein.cli.app import app

        app(prog_name="goldstein")
    except KeyboardInterrupt:
        sys.exit(130)
