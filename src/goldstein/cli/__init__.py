"""The command `goldstein` (extra: cli); each group of commands has a file of its own."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say which extra is missing when one is."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print("The command line needs typer and rich: pip install 'goldstein[cli]'.", file=sys.stderr)
        sys.exit(2)
    try:
        from goldstein.cli.app import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
