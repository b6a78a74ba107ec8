"""How a command ends: exit codes, and one sentence instead of a traceback for what the user can mend."""

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
from typing import Any, NoReturn, get_type_hints

import typer
from typer.models import OptionInfo

from goldstein.arguments import ArgumentError, printable
from goldstein.run.records import DamagedError
from goldstein.run.result import Status

FAILED = 1  # the user's function raised, or a file is damaged
WRONG_USE = 2
FAILING = 3  # the run was stopped because evaluations failed, or all of them did
INTERRUPTED = 130  # as a shell says it
BROKEN_PIPE = 141
TERMINATED = 143
CODES = {Status.FAILING: FAILING, Status.INTERRUPTED: INTERRUPTED}
ROOT = str(Path(__file__).parents[1])
PARAMETERS = {"rng": "seed", "L": "lipschitz"}  # arguments in Python whose options have another name
HTML = re.compile(rb"(\xef\xbb\xbf)?\s*(<!doctype html|<html|<!--)", re.IGNORECASE)
NPY = re.compile(rb"\x93NUMPY")
NUMBERS = re.compile(rb"[-+0-9.eEinfa,;#\s]*\Z")
BEGINNING = 512  # bytes by which the kind of a file is recognised


def end(sentence: str, code: int) -> NoReturn:
    """End the command with a sentence on stderr."""
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def in_one_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command, whose errors are one sentence each and an exit code."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with _sigterm_as_ctrl_c() as signals:
            try:
                return command(*args, **kwargs)
            except KeyboardInterrupt:
                end("Interrupted.", TERMINATED if signals else INTERRUPTED)
            except typer.Exit as error:
                if signals and error.exit_code == INTERRUPTED:
                    raise typer.Exit(TERMINATED) from None
                raise
            except Exception as error:
                _end_for(error, command)
                raise

    return wrapped


def _end_for(error: Exception, command: Callable[..., Any]) -> None:
    """End with the sentence and the code of an exception; return if it is a mistake of this package."""
    if hasattr(error, "point"):
        end(function_raised(error), FAILED)
    if isinstance(error, BrokenPipeError):
        _discard_stdout()
        raise typer.Exit(BROKEN_PIPE)
    if isinstance(error, MemoryError):
        end(f"There is not enough memory: {error}." if str(error) else "There is not enough memory.", FAILED)
    if isinstance(error, DamagedError):
        end(str(error), FAILED)
    if isinstance(error, ArgumentError):
        end(error.as_option(_option(command, error.name)), WRONG_USE)
    if isinstance(error, ValueError | TypeError | OSError | ImportError) and is_own(error):
        end(str(error), WRONG_USE)


def _option(command: Callable[..., Any], name: str) -> str:
    """Return how a command spells an argument; one that it has no option for stays as it is."""
    parameter = PARAMETERS.get(name, name)
    annotation = get_type_hints(command, include_extras=True).get(parameter)
    for option in getattr(annotation, "__metadata__", ()):
        if isinstance(option, OptionInfo):
            spellings = option.param_decls or (f"--{parameter.replace('_', '-')}",)
            return spellings[0]
    return name


def _discard_stdout() -> None:
    """Discard what is still to be written to stdout, so that Python does not complain when it exits."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[list[int]]:
    """Make SIGTERM what Ctrl-C is; yield a list that holds the signals that came."""
    signals: list[int] = []
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield signals
        return
    process = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a forked worker
            os._exit(TERMINATED)
        signals.append(number)
        if not callable(signal.getsignal(signal.SIGINT)):  # ignored, as by a shell script for background jobs
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGTERM, before)


def function_raised(error: BaseException) -> str:
    """Return the sentence about an exception of the user's function."""
    return f"The function raised {describe(error)}."


def describe(error: BaseException) -> str:
    """Return an exception in words: its type, its message, and where outside of this package it was raised."""
    if isinstance(error, SyntaxError) and error.filename:
        return printable(f"{type(error).__name__}: {error.msg} ({Path(error.filename).name}, line {error.lineno})")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ROOT)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{printable(message).rstrip('.')}{place}"


def exit_call(error: SystemExit) -> str:
    """Return a call of `sys.exit` as it was written."""
    return "sys.exit()" if error.code is None else printable(f"sys.exit({error.code!r})")


def is_own(error: BaseException) -> bool:
    """Whether the sentence is one of this package, or about a file that cannot be read or written."""
    frames = traceback.extract_tb(error.__traceback__)
    return isinstance(error, OSError) or frames[-1].filename.startswith(ROOT)


def check_writable(
    path: Path | None, what: str, *, journal: Path | None = None, replaces: re.Pattern[bytes] | None = None
) -> None:
    """Refuse a place that cannot be written before anything is evaluated: also the journal, and an existing file
    unless it begins like what it `replaces`.
    """
    if path is None:
        return
    if path.is_dir():
        end(f"{what} cannot be written: {path} is a folder.", WRONG_USE)
    if not path.parent.is_dir():
        end(f"{what} cannot be written: {path} lies in {path.parent}, which is no folder.", WRONG_USE)
    if journal is not None and path.resolve() == journal.resolve():
        end(f"{what} cannot be written: {path} is the journal; choose another name.", WRONG_USE)
    if replaces is not None and path.is_file():
        with path.open("rb") as file:
            beginning = file.read(BEGINNING)
        if beginning and not replaces.match(beginning):
            end(f"{what} would replace {path}, which is something else; choose another name.", WRONG_USE)


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made, before anything is run."""
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not existing.is_dir():
        end(f"Cannot create {path}: {existing} is a file.", WRONG_USE)
