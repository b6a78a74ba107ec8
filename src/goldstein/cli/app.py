"""Minimise noisy, nonsmooth, nonconvex functions from their values alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import goldstein
from goldstein.cli import journal
from goldstein.cli.attack import attack_model
from goldstein.cli.errors import check_folder, in_one_sentence
from goldstein.cli.minimize import minimize_function
from goldstein.cli.plans import plan
from goldstein.extras import check_installed

app = typer.Typer(
    help=__doc__,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"goldstein {goldstein.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Minimise noisy, nonsmooth, nonconvex functions from their values alone."""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for table, figure and numbers.")] = Path("out/demo"),
    max_evals: Annotated[int, typer.Option(min=1000, help="Evaluations of each run.")] = 200_000,
    seeds: Annotated[int, typer.Option(min=2, help="Runs of each method.")] = 10,
) -> None:
    """Run the paper's four methods and "auto" on a capped-l1 SVM over data inside scikit-learn.

    Example: goldstein demo --out out/demo
    """
    check_installed(["numba", "sklearn", "matplotlib"], "goldstein demo")
    from goldstein.demo import run_svm

    check_folder(out)
    run_svm(out, max_evals=max_evals, seeds=seeds)


def demo_attack(
    out: Annotated[Path, typer.Option(help="Folder for table, figure, images and numbers.")] = Path("out/demo"),
    images: Annotated[int, typer.Option(min=1, max=400, help="Digits to attack.")] = 200,
    max_queries: Annotated[int, typer.Option(min=1, help="Queries for each of them at most.")] = 500,
) -> None:
    """Train a small network on digits inside scikit-learn, and attack it through its scores alone.

    Example: goldstein demo-attack --images 50
    """
    check_installed(["sklearn", "torch", "matplotlib"], "goldstein demo-attack")
    from goldstein.demo import run_attack

    check_folder(out)
    run_attack(out, images=images, max_queries=max_queries)


COMMANDS: dict[str, Callable[..., Any]] = {
    "minimize": minimize_function,
    "attack": attack_model,
    "inspect": journal.inspect_journal,
    "resume": journal.resume_journal,
    "plan": plan,
    "demo": demo,
    "demo-attack": demo_attack,
}
for _name, _command in COMMANDS.items():
    app.command(name=_name)(in_one_sentence(_command))
