"""How a command ends: exit codes, and one sentence in the place of a traceback for what the user can mend."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import typer

from goldstein.run.result import Status

FAILED = 1  # the user's function raised, or a file is damaged
WRONG_USE = 2
FAILING = 3  # the run was stopped because evaluations failed
INTERRUPTED = 130  # as a shell says it
CODES = {Status.FAILING: FAILING, Status.INTERRUPTED: INTERRUPTED}
ROOT = str(Path(__file__).parents[1])


def end(sentence: str, code: int) -> NoReturn:
    """End the command with a sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def polite(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command, which says what is wrong in one sentence, and ends with the code that fits."""

    @wraps(command)
    def with_manners(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            end("Interrupted.", INTERRUPTED)
        except Exception as error:
            if hasattr(error, "point"):  # the user's function raised it
                end(f"The function raised {described(error)}.", FAILED)
            if isinstance(error, ValueError | TypeError | OSError | ImportError) and is_ours(error):
                end(str(error), WRONG_USE)
            raise

    return with_manners


def described(error: BaseException) -> str:
    """Return an exception in words: its kind, what it says, and where outside of this package it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ROOT)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{said.rstrip('.')}{where}"


def is_ours(error: BaseException) -> bool:
    """Whether the sentence is one of this package, or of a file that cannot be read or written."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, OSError) or frames[-1].filename.startswith(ROOT)


def check_place(path: Path | None, what: str) -> None:
    """Refuse a place that cannot be written, before anything is evaluated."""
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        reason = "is a folder" if path.is_dir() else f"lies in {path.parent}, which is no folder"
        end(f"{what} cannot be written: {path} {reason}.", WRONG_USE)


def is_terminal() -> bool:
    """Whether somebody is looking."""
    return sys.stderr.isatty()
