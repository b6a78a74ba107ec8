"""Run a study from data to figure: python -m studies svm | attack | lenet | scaling | defaults | bars | peers | why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from studies import datasets, record
from studies.record import Unsupported

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Out = Annotated[Path | None, typer.Option(help="Folder for all of it; results/STUDY, or out/STUDY-quick with --quick.")]
Data = Annotated[Path | None, typer.Option(help="Folder with the files; else GOLDSTEIN_DATA or the cache.")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Runs at a time; all cores when not given.")]
Fresh = Annotated[bool, typer.Option(help="Throw away what an earlier start has saved.")]
Only = Annotated[list[str] | None, typer.Option(help="Run this method again, keep all other results.")]
Report = Annotated[bool, typer.Option(help="Only table and figure again, from the numbers there are.")]


@app.command()
def svm(
    out: Out = None,
    quick: Annotated[bool, typer.Option(help="A tenth of every budget, one tuning seed, five others.")] = False,
    data: Data = None,
    jobs: Jobs = None,
    fresh: Fresh = False,
    only: Only = None,
    report: Report = False,
) -> None:
    """The capped-l1 SVM of the paper's first experiment, every value counted; continues where it was stopped."""
    with _study("svm", out, quick, fresh and not report) as folder:
        from studies.svm import report as sheet
        from studies.svm import study

        if report:
            sheet.write(record.read(folder), folder)
        else:
            study.run(folder, quick=quick, data=data, jobs=jobs, only=only or ())


@app.command()
def attack(
    out: Out = None,
    quick: Annotated[bool, typer.Option(help="Few images, small budgets, networks trained for one epoch.")] = False,
    images: Annotated[int | None, typer.Option(min=1, max=10_000, help="Test images of each data set.")] = None,
    max_queries: Annotated[int | None, typer.Option(min=100, help="Queries for each image.")] = None,
    data: Data = None,
    weights: Annotated[Path | None, typer.Option(help="Folder with trained networks; OUT/weights.")] = None,
    jobs: Jobs = None,
    fresh: Fresh = False,
    only: Only = None,
    report: Report = False,
) -> None:
    """The black-box attack of the paper's second experiment, every query counted; continues where it was stopped."""
    with _study("attack", out, quick, fresh and not report) as folder:
        from studies.attack import report as sheet
        from studies.attack import study

        if report:
            sheet.write(record.read(folder), folder)
        else:
            scale: dict[str, Any] = {"quick": quick, "images": images, "max_queries": max_queries}
            study.run(folder, **scale, data=data, jobs=jobs, weights=weights, only=only or ())


@app.command()
def lenet(
    names: Annotated[list[str] | None, typer.Argument(help="mnist, fashion-mnist; both when none is named.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for weights and accuracies.")] = Path("results/attack"),
    full: Annotated[bool, typer.Option(help="The paper's 100 epochs; else a short schedule.")] = False,
    data: Data = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the first weights and of the order of the images.")] = 0,
) -> None:
    """Train the networks that the attack study attacks, and record their accuracies."""
    with _study("attack", out) as folder:
        from studies.attack import lenet

        for name in names or ():
            if name not in lenet.DATA:
                raise typer.BadParameter(f"Unknown data set {name!r}; known are {', '.join(lenet.DATA)}.")
        schedule = "full" if full else "short"
        lenet.run(folder, names=tuple(names or lenet.DATA), schedule=schedule, data=data, seed=seed)


@app.command()
def scaling(
    out: Out = None,
    quick: Annotated[bool, typer.Option(help="Tiny grids, a minute.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Threads; all cores when not given.")] = None,
) -> None:
    """Theorem and measurement: planned runs, and exponents in ε, δ and d; continues where it was stopped."""
    with _study("scaling", out, quick) as folder:
        from studies.scaling import study

        study.run(folder, quick=quick, workers=workers)


@app.command()
def defaults(
    out: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("results"),
    quick: Annotated[bool, typer.Option(help="Leave out the cases of more than 100,000 evaluations.")] = False,
) -> None:
    """What minimize(f, x0, max_evals=N) reaches with no settings at all."""
    with _study("defaults", out) as folder:
        from studies import defaults

        defaults.run(folder, quick=quick)


@app.command()
def bars(
    out: Annotated[Path, typer.Option(help="Folder for the numbers.")] = Path("results"),
    jobs: Jobs = None,
    only: Annotated[list[str] | None, typer.Option(help="newcomers or exact; the rest is kept as it is.")] = None,
) -> None:
    """Whether the default meets the bars set for it: cases that let new users down, and functions without noise."""
    with _study("bars", out) as folder:
        from studies import bars

        bars.run(folder, only=only or (), jobs=jobs)


@app.command()
def why(
    out: Annotated[Path, typer.Option(help="Folder for all of it, in which svm lies.")] = Path("results"),
    data: Data = None,
    report: Report = False,
) -> None:
    """The picture of the README: the default against GFM, GFM+ and CMA-ES at equal evaluations."""
    with _study("why", out) as folder:
        from studies import why

        if report:
            why.draw(folder)
        else:
            why.run(folder, data=data)


@app.command()
def peers(
    out: Annotated[Path | None, typer.Option(help="Folder; results, or out/peers-quick, or out/peers-tuning.")] = None,
    quick: Annotated[bool, typer.Option(help="A few small cells, two seeds, in a minute or two.")] = False,
    only: Annotated[list[str] | None, typer.Option(help="Run this family of problems; may be given again.")] = None,
    methods: Annotated[
        list[str] | None, typer.Option(help="Run this method, again if its code has changed; keep all other results.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Other seeds, such as 0-4 or 0,2; instances of COCO.")] = None,
    tuning: Annotated[bool, typer.Option(help="Problems and seeds on which constants may be chosen.")] = False,
    fresh: Annotated[bool, typer.Option(help="Throw away what there is of these families and methods.")] = False,
    report: Report = False,
) -> None:
    """The default against other optimisers, at equal evaluations; continues where it was stopped."""
    place = Path("results")
    if quick:
        place = Path("out/peers-quick")
    if tuning:
        place = Path("out/peers-tuning")
    with _study("peers", out or place, quick or tuning) as folder:
        from studies.peers import report as sheet
        from studies.peers import study

        if report:
            sheet.write(study.read(folder), folder / "peers")
            return
        if fresh:
            study.forget(folder, only or (), methods or ())
        study.run(
            folder,
            quick=quick,
            only=only or (),
            methods=methods or (),
            seeds=_numbers(seeds),
            tuning=tuning,
        )


def _numbers(text: str | None) -> tuple[int, ...]:
    """Read "0-4" or "0,2" as numbers."""
    found: list[int] = []
    for part in (text or "").split(","):
        first, dash, last = part.strip().partition("-")
        try:
            if first:
                found += range(int(first), int(last if dash else first) + 1)
        except ValueError:
            raise typer.BadParameter(f"--seeds takes numbers such as 0-4 or 0,2, not {text!r}.") from None
    return tuple(found)


@contextmanager
def _study(name: str, out: Path | None, quick: bool = False, fresh: bool = False) -> Iterator[Path]:
    """Give the folder of a study, and say in one sentence what stopped it."""
    folder = out or Path(f"out/{name}-quick" if quick else f"results/{name}")
    if fresh:
        shutil.rmtree(folder / "cells", ignore_errors=True)
    try:
        yield folder
    except KeyboardInterrupt:
        typer.echo(f"Stopped. What is done is in {folder}; the same command continues from there.", err=True)
        raise typer.Exit(130) from None
    except ModuleNotFoundError as error:
        if (error.name or "goldstein").partition(".")[0] in ("goldstein", "studies"):
            raise
        typer.echo(f"This study needs {error.name}, which is not installed: pip install 'goldstein[all]'.", err=True)
        raise typer.Exit(1) from None
    except (OSError, datasets.ChecksumError, Unsupported) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    app(prog_name="python -m studies")
