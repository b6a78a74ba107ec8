"""Run a study from data to figure: python -m studies svm | attack | lenet | scaling | defaults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from goldstein import datasets
from studies.record import Refusal

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def defaults(
    out: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("results"),
    docs: Annotated[Path | None, typer.Option(help="Markdown file for the table.")] = None,
    quick: Annotated[bool, typer.Option(help="Leave out the cases of more than 100,000 evaluations.")] = False,
) -> None:
    """What minimize(f, x0, max_evals=N) reaches with no settings at all."""
    from studies import defaults

    defaults.run(out, quick=quick, docs=docs)


@app.command()
def svm(
    out: Annotated[
        Path | None, typer.Option(help="Folder for all of it; results/svm, or out/svm-quick with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="A tenth of every budget, one tuning seed, five others.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the files; else GOLDSTEIN_DATA or the cache.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Markdown file with the markers of the table.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Runs at a time; all cores when not given.")] = None,
    fresh: Annotated[bool, typer.Option(help="Throw away what an earlier start has saved.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run this method again, keep all other results.")] = None,
    report: Annotated[bool, typer.Option(help="Only table and figure again, from the numbers there are.")] = False,
) -> None:
    """The capped-l1 SVM of the paper's first experiment, every value counted; goes on where it was stopped."""
    import json
    import shutil

    from studies.svm import report as sheet
    from studies.svm import study

    if quick and docs is not None:
        raise typer.BadParameter("--docs takes the results of the full study only, not those of --quick.")
    out = out or Path("out/svm-quick" if quick else "results/svm")
    with _study(out):
        if report:
            sheet.write(json.loads((out / "results.json").read_text()), out, docs)
            return
        if fresh:
            shutil.rmtree(out / "cells", ignore_errors=True)
        study.run(out, quick=quick, data=data, docs=docs, jobs=jobs, only=only or ())


@app.command()
def lenet(
    names: Annotated[list[str] | None, typer.Argument(help="mnist, fashion-mnist; both when none is named.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for weights and accuracies.")] = Path("results/attack"),
    full: Annotated[bool, typer.Option(help="The paper's 100 epochs; else a short schedule.")] = False,
    data: Annotated[Path | None, typer.Option(help="Folder with the files; else GOLDSTEIN_DATA or the cache.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first weights and of the order of the images.")] = 0,
) -> None:
    """Train the networks that the attack study attacks, and record their accuracies."""
    from studies.attack import lenet

    for name in names or ():
        if name not in lenet.DATA:
            raise typer.BadParameter(f"Unknown data set {name!r}; known are {', '.join(lenet.DATA)}.")
    schedule = "full" if full else "short"
    with _study(out):
        lenet.run(out, names=tuple(names or lenet.DATA), schedule=schedule, data=data, seed=seed)


@app.command()
def attack(
    out: Annotated[
        Path | None, typer.Option(help="Folder for all of it; results/attack, or out/attack-quick with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Few images, small budgets, networks trained for one epoch.")] = False,
    images: Annotated[int | None, typer.Option(min=1, max=10_000, help="Test images of each data set.")] = None,
    max_queries: Annotated[int | None, typer.Option(min=100, help="Queries for each image.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with the files; else GOLDSTEIN_DATA or the cache.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Folder with trained networks; OUT/weights.")] = None,
    docs: Annotated[Path | None, typer.Option(help="Markdown file with the markers of the table.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Attacks at a time; all cores when not given.")] = None,
    fresh: Annotated[bool, typer.Option(help="Throw away what an earlier start has saved.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run this method again, keep all other results.")] = None,
    report: Annotated[bool, typer.Option(help="Only table and figure again, from the numbers there are.")] = False,
) -> None:
    """The black-box attack of the paper's second experiment, every query counted; goes on where it was stopped."""
    import json
    import shutil

    from studies.attack import report as sheet
    from studies.attack import study

    if quick and docs is not None:
        raise typer.BadParameter("--docs takes the results of the full study only, not those of --quick.")
    out = out or Path("out/attack-quick" if quick else "results/attack")
    with _study(out):
        if report:
            sheet.write(json.loads((out / "results.json").read_text()), out, docs)
            return
        if fresh:
            shutil.rmtree(out / "cells", ignore_errors=True)
        study.run(
            out,
            quick=quick,
            images=images,
            max_queries=max_queries,
            data=data,
            docs=docs,
            jobs=jobs,
            weights=weights,
            only=only or (),
        )


@contextmanager
def _study(out: Path) -> Iterator[None]:
    """Say in one sentence what stopped a study."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What is done is in {out}; the same command goes on from there.", err=True)
        raise typer.Exit(130) from None
    except (OSError, datasets.ChecksumError, Refusal) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def scaling(
    out: Annotated[
        Path | None, typer.Option(help="Folder for all of it; results/scaling, or out/scaling-quick with --quick.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Tiny grids, a minute.")] = False,
    docs: Annotated[Path | None, typer.Option(help="Markdown file with the markers of the tables.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores when not given.")] = None,
) -> None:
    """Theorem and measurement side by side: planned runs, and exponents in ε, δ and d; goes on where it was stopped."""
    from studies.scaling import study

    out = out or Path("out/scaling-quick" if quick else "results/scaling")
    with _study(out):
        study.run(out, quick=quick, docs=docs, workers=workers)


if __name__ == "__main__":
    app(prog_name="python -m studies")
