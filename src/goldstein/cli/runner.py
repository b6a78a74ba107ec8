"""A run from the command line: the user's code under control, and the files that the run leaves."""

from __future__ import annotations

import math
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typer

from goldstein.arguments import printable
from goldstein.cli import errors
from goldstein.cli.errors import FAILED, WRONG_USE, check_writable, end
from goldstein.cli.rendering import exit_with_status, print_result
from goldstein.extras import needed
from goldstein.run.result import Result, Status

STOPPED = (Status.INTERRUPTED, Status.MAX_TIME)  # such a run can be continued
FORMATS = {".npy": errors.NPY, ".txt": errors.NUMBERS}
TYPER = str(Path(typer.__file__).parent)


@dataclass(frozen=True)
class Runner:
    """Runs `minimize`, writes files and prints the result."""

    function: str  # as module:name
    journal: Path | None = None
    report: Path | None = None
    out: Path | None = None
    as_json: bool = False  # and nothing else on stdout

    def check_files(self) -> None:
        """Refuse what cannot be written, before anything is evaluated."""
        if self.report is not None:
            needed("jinja2", "A report")
            check_writable(self.report, "The report", journal=self.journal, replaces=errors.HTML)
        if self.out is not None:
            if self.out.suffix not in FORMATS:
                end(f"--out takes a file that ends in .npy or .txt; got {self.out}.", WRONG_USE)
            check_writable(self.out, "The answer", journal=self.journal, replaces=FORMATS[self.out.suffix])
            if self.report is not None and self.out.resolve() == self.report.resolve():
                end("--out and --report must be two files.", WRONG_USE)

    def run(self, call: Callable[[], Result]) -> None:
        """Run, write the files, print the result, and end with its exit code."""
        error: Exception | None = None
        try:
            with user_code(self.as_json):
                result = call()
        except SystemExit as exit_error:
            end(" ".join([f"The function called {errors.exit_call(exit_error)}.", *self._continuation()]), FAILED)
        except Exception as exception:
            partial = getattr(exception, "result", None)
            if partial is None or not math.isfinite(partial.fun):
                raise
            error = exception
            result = partial
            reason = errors.function_raised(error) if hasattr(error, "point") else printable(str(error))
            result.message = f"{reason} This is the run so far."
        trouble = self._write(result)
        print_result(result, self.as_json, raised=error is not None)
        if not self.as_json:
            lines = [f"Report: {self.report}"] if self.report is not None and not trouble else []
            if error is not None or result.status in STOPPED:
                lines += self._continuation()
            typer.echo("\n".join(lines), nl=bool(lines))
        if error is not None:
            raise error
        if trouble:
            end(trouble, WRONG_USE)
        exit_with_status(result)

    def _write(self, result: Result) -> str:
        """Write the files; return what went wrong, since the result must be printed all the same."""
        try:
            if self.out is not None and self.out.suffix == ".npy":
                np.save(self.out, result.x)
            elif self.out is not None:
                np.savetxt(self.out, result.x, fmt="%.17g")
            if self.report is not None:
                result.report(self.report)
        except OSError as error:
            return str(error)
        return ""

    def _continuation(self) -> list[str]:
        return [] if self.journal is None else [f"To continue: {resume_command(self.journal, self.function)}"]


def resume_command(journal: Path | str, function: str = "my_module:my_function") -> str:
    """Return the command that continues a run."""
    return f"goldstein resume {shlex.quote(str(journal))} --with {shlex.quote(function)}"


@contextmanager
def user_code(as_json: bool) -> Iterator[None]:
    """Run the user's code: its warnings in one line; under --json what it prints goes to stderr, from workers, too."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        if not as_json:
            yield
            return
        sys.stdout.flush()
        with redirect_stdout(sys.stderr), _stdout_to_stderr():
            yield


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect the file descriptor, too, for processes and libraries that write to it."""
    try:
        stdout = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # closed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.dup2(stdout, 1)
        os.close(stdout)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning in one line; with its place only if that is in the user's code."""
    place = "" if filename.startswith((errors.ROOT, TYPER)) else f" ({Path(filename).name}, line {lineno})"
    typer.echo(f"{category.__name__}: {printable(str(message))}{place}", err=True)
