"""How a command ends: exit codes, and one sentence in the place of a traceback for what the user can mend."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import typer

from goldstein.run.records import DamagedError
from goldstein.run.result import Status

FAILED = 1  # the user's function raised, or a file is damaged
WRONG_USE = 2
FAILING = 3  # the run was stopped because evaluations failed, or all of them did
INTERRUPTED = 130  # as a shell says it
UNREAD = 141  # nobody reads what is printed any more, as a shell says it
TERMINATED = 143
CODES = {Status.FAILING: FAILING, Status.INTERRUPTED: INTERRUPTED}
ROOT = str(Path(__file__).parents[1])
PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype html|<html|<!--)", re.IGNORECASE)
ARRAY = re.compile(rb"\x93NUMPY")
NUMBERS = re.compile(rb"[-+0-9.eEinfa,;#\s]*\Z")
BEGINNING = 512  # bytes by which a file is told
OPTIONS = "max_evals|max_iter|max_time|x0|timeout|workers|retries|bounds|stationarity"
WORDS = (  # of a call in Python, and on the command line
    (re.compile(r"\bjournal= another file"), "--journal another file"),
    (re.compile(r"\brng=None"), "no --seed"),
    (re.compile(r"\bextend=True( \(on the command line --extend\))?"), "--extend"),
    (re.compile(rf"\b({OPTIONS}) must be\b"), r"--\1 must be"),
    (re.compile(rf"\b({OPTIONS})=(?=\d)"), r"--\1 "),
    (re.compile(r" or None, got "), ", got "),
    (re.compile(r"--(\w+)_(\w+)"), r"--\1-\2"),
)


def end(sentence: str, code: int) -> NoReturn:
    """End the command with a sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def polite(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command, which says what is wrong in one sentence, and ends with the code that fits."""

    @wraps(command)
    def with_manners(*args: Any, **kwargs: Any) -> Any:
        with _terminable() as terminated:
            try:
                return command(*args, **kwargs)
            except KeyboardInterrupt:
                end("Interrupted.", TERMINATED if terminated else INTERRUPTED)
            except typer.Exit as done:
                if terminated and done.exit_code == INTERRUPTED:
                    raise typer.Exit(TERMINATED) from None
                raise
            except Exception as error:
                _complain(error)
                raise

    return with_manners


def _complain(error: Exception) -> None:
    """End with the sentence and the code that an exception stands for; return if it is a mistake of this package."""
    if hasattr(error, "point"):
        end(raised(error), FAILED)
    if isinstance(error, BrokenPipeError):
        _print_no_more()
        raise typer.Exit(UNREAD)
    if isinstance(error, MemoryError):
        end(f"There is not enough memory: {error}." if str(error) else "There is not enough memory.", FAILED)
    if isinstance(error, DamagedError):
        end(in_options(str(error)), FAILED)
    if isinstance(error, ValueError | TypeError | OSError | ImportError) and is_ours(error):
        end(in_options(str(error)), WRONG_USE)


def _print_no_more() -> None:
    """Let what is still to be written to stdout go nowhere, so that Python has nothing to complain of at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Make SIGTERM what Ctrl-C is; what is given is empty until one came."""
    came: list[int] = []
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield came
        return
    home = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != home:  # a forked worker
            os._exit(TERMINATED)
        came.append(number)
        if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as by a shell script for what is in its background
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def raised(error: BaseException) -> str:
    """Return the sentence about an exception of the user's function."""
    return f"The function raised {described(error)}."


def described(error: BaseException) -> str:
    """Return an exception in words: its kind, what it says, and where outside of this package it was raised."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ROOT)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{said.rstrip('.')}{where}"


def exited(error: SystemExit) -> str:
    """Return a call of `sys.exit` as it was written.

    Examples
    --------
    >>> exited(SystemExit(0)), exited(SystemExit())
    ('sys.exit(0)', 'sys.exit()')
    """
    return "sys.exit()" if error.code is None else f"sys.exit({error.code!r})"


def is_ours(error: BaseException) -> bool:
    """Whether the sentence is one of this package, or of a file that cannot be read or written."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, OSError) or frames[-1].filename.startswith(ROOT)


def in_options(sentence: str) -> str:
    """Return a sentence about arguments of Python as one about options.

    Examples
    --------
    >>> in_options("max_evals must be a whole number of at least 1, got 0.")
    '--max-evals must be a whole number of at least 1, got 0.'
    """
    for python, shell in WORDS:
        sentence = python.sub(shell, sentence)
    return sentence


def check_place(
    path: Path | None, what: str, *, journal: Path | None = None, replaces: re.Pattern[bytes] | None = None
) -> None:
    """Refuse a place that cannot be written, before anything is evaluated.

    Parameters
    ----------
    path, what
        The place, and what shall stand there; None: nothing shall.
    journal : Path, optional
        The journal of the run, which must not be written over.
    replaces : Pattern, optional
        How a file begins that may be written over; any other that is there already is refused.
    """
    if path is None:
        return
    if path.is_dir() or not path.parent.is_dir():
        reason = "is a folder" if path.is_dir() else f"lies in {path.parent}, which is no folder"
        end(f"{what} cannot be written: {path} {reason}.", WRONG_USE)
    if journal is not None and path.resolve() == journal.resolve():
        end(f"{what} cannot be written: {path} is the journal; give another name.", WRONG_USE)
    if replaces is not None and path.is_file():
        with path.open("rb") as file:
            begins = file.read(BEGINNING)
        if begins and not replaces.match(begins):
            end(f"{what} would replace {path}, which is something else; give another name.", WRONG_USE)


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made, before anything is run."""
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not there.is_dir():
        end(f"There is no room for the folder {path}: {there} is a file.", WRONG_USE)


def is_terminal() -> bool:
    """Whether somebody is looking."""
    return sys.stderr.isatty()
