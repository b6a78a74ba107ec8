"""A run from the command line: the user's code under control, and what is left of the run when it ends."""

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

from goldstein.cli.errors import ARRAY, FAILED, NUMBERS, PAGE, ROOT, WRONG_USE, check_place, end, exited, raised
from goldstein.cli.rendering import leave, show
from goldstein.extras import needed
from goldstein.oracle import Array
from goldstein.run.result import Result, Status

STOPPED = (Status.INTERRUPTED, Status.MAX_TIME)  # such a run can go on
KINDS = {".npy": ARRAY, ".txt": NUMBERS}
SHELL = str(Path(typer.__file__).parent)


@dataclass(frozen=True)
class Wanted:
    """What is to be left of a run.

    Attributes
    ----------
    function : str
        What is minimised, as it was said.
    journal, report, out : Path or None
        Files that keep the values, a page about the run and the answer.
    as_json : bool
        Whether the result is printed as JSON, and nothing else on stdout.
    """

    function: str
    journal: Path | None = None
    report: Path | None = None
    out: Path | None = None
    as_json: bool = False

    def check(self) -> None:
        """Refuse what cannot be written, before anything is evaluated."""
        if self.report is not None:
            needed("jinja2", "A report")
            check_place(self.report, "The report", journal=self.journal, replaces=PAGE)
        if self.out is not None:
            if self.out.suffix not in KINDS:
                end(f"--out takes a file that ends in .npy or .txt; got {self.out}.", WRONG_USE)
            check_place(self.out, "The answer", journal=self.journal, replaces=KINDS[self.out.suffix])
            if self.report is not None and self.out.resolve() == self.report.resolve():
                end("--out and --report must be two files.", WRONG_USE)

    def play(self, call: Callable[[], Result]) -> None:
        """Run, keep what is wanted, print the result, and end with the code that fits."""
        error: Exception | None = None
        try:
            with aside(self.as_json):
                result = call()
        except SystemExit as left:
            end(" ".join([f"The function called {exited(left)}.", *self._onwards()]), FAILED)
        except Exception as broken:
            so_far = getattr(broken, "result", None)
            if so_far is None or not math.isfinite(so_far.fun):
                raise
            error = broken
            result = so_far
            result.message = f"{raised(error) if hasattr(error, 'point') else error} This is the run so far."
        trouble = self._write(result)
        show(result, self.as_json, raised=error is not None)
        if not self.as_json:
            lines = [f"Report: {self.report}"] if self.report is not None and not trouble else []
            lines += self._onwards() if error is not None or result.status in STOPPED else []
            typer.echo("\n".join(lines), nl=bool(lines))
        if error is not None:
            raise error
        if trouble:
            end(trouble, WRONG_USE)
        leave(result)

    def _write(self, result: Result) -> str:
        """Write what is wanted; return what went wrong, since the result must be printed all the same."""
        try:
            if self.out is not None:
                _write_numbers(self.out, result.x)
            if self.report is not None:
                result.report(self.report)
        except OSError as error:
            return str(error)
        return ""

    def _onwards(self) -> list[str]:
        return [] if self.journal is None else [f"{resume(self.journal, self.function)} goes on."]


def resume(journal: Path | str, function: str = "my_module:my_function") -> str:
    """Return the command that goes on with a run.

    Examples
    --------
    >>> resume("a run.journal", "my_model:loss")
    "goldstein resume 'a run.journal' --with my_model:loss"
    """
    return f"goldstein resume {shlex.quote(str(journal))} --with {shlex.quote(function)}"


def _write_numbers(path: Path, x: Array) -> None:
    if path.suffix == ".npy":
        np.save(path, x)
    else:
        np.savetxt(path, x, fmt="%.17g")


@contextmanager
def aside(as_json: bool) -> Iterator[None]:
    """Let the user's code run: its warnings in one line, and under --json what it prints on stderr, workers' too."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        if not as_json:
            yield
            return
        sys.stdout.flush()
        with redirect_stdout(sys.stderr), _redirected():
            yield


@contextmanager
def _redirected() -> Iterator[None]:
    """Redirect the file behind stdout, too, for processes and libraries that write into it."""
    try:
        kept = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # closed
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.dup2(kept, 1)
        os.close(kept)


def _show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Print a warning in one line; with its place only if that is one of the user's."""
    own = not filename.startswith((ROOT, SHELL))
    where = f" ({Path(filename).name}, line {lineno})" if own else ""
    typer.echo(f"{category.__name__}: {message}{where}", err=True)
