"""The command `goldstein` (extra: cli); each group of commands has a file of its own."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say which extra is missing when one is."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The command line needs the extra: pip install 'goldstein[cli]'.")
    from goldstein.cli.app import app

    try:
        app()
    except ModuleNotFoundError as error:
        if (error.name or "goldstein").startswith("goldstein"):
            raise
        sys.exit(f"This command needs {error.name}, which is not installed: pip install 'goldstein[all]'.")
