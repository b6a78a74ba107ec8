"""Attack a classifier in an ONNX file from the command line."""

from __future__ import annotations

import math
import sys
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from goldstein.arguments import printable
from goldstein.attack import AttackResult, attack, onnx_model
from goldstein.attack.sheet import check_suffix
from goldstein.cli import errors
from goldstein.cli.errors import WRONG_USE, check_writable, end
from goldstein.cli.parsing import AsJson, parse_pair
from goldstein.cli.rendering import print_facts, print_json
from goldstein.extras import needed
from goldstein.report import Fact

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
RADIUS = signature(attack).parameters["radius"].default
Images = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int64]


def attack_model(
    model: Annotated[Path, typer.Argument(help="Classifier, an ONNX file.", exists=True, dir_okay=False)],
    images: Annotated[Path, typer.Argument(help="A .npy file of images, or a folder of pictures.", exists=True)],
    labels: Annotated[
        Path | None, typer.Option(help="Classes, a .npy or text file. Default: what the model says.", exists=True)
    ] = None,
    radius: Annotated[float, typer.Option(help="Largest distance from the original, in units of pixels.")] = RADIUS,
    norm: Annotated[str, typer.Option(help="How distance is measured: linf or l2.")] = "linf",
    target: Annotated[int | None, typer.Option(help="Class to reach; any wrong one when not given.")] = None,
    max_queries: Annotated[int, typer.Option(help="Most queries for each image.")] = 10_000,
    method: Annotated[str, typer.Option(help='A method by name, such as "gfm".')] = "sign averaging",
    outputs: Annotated[str, typer.Option(help="What the model returns: logits or probabilities.")] = "logits",
    scores: Annotated[str | None, typer.Option(help="Which output of the model; the first when not given.")] = None,
    pixels: Annotated[str, typer.Option(help="Smallest and largest pixel.")] = "0,1",
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 0,
    journal: Annotated[Path | None, typer.Option(help="File that keeps the images that are done.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the adversarial images go, a .npy file.")] = None,
    sheet: Annotated[Path | None, typer.Option(help="Picture of the first won images, such as sheet.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look for images near the given ones that a model gets wrong, from its scores alone.

    Example: goldstein attack model.onnx images.npy --labels labels.npy --radius 0.1 --sheet sheet.png

    Images in a folder lie in it, or in folders in it that are named by their classes, 0, 1, and so on. Whole numbers
    from 0 to 255, or to 65535 in pictures of 16 bits, are stretched to the range of --pixels.

    Exit codes: 0 done, 1 the model raised, 2 wrong use, 3 the model failed on every image, 130 interrupted.
    """
    runtime = needed("onnxruntime", "An ONNX model")
    if sheet is not None:
        needed("matplotlib", "A contact sheet")
        check_suffix(sheet)
    check_writable(out, "The images")
    check_writable(sheet, "The contact sheet")
    bounds = parse_pair("--pixels", pixels) or (0.0, 1.0)
    session = _session(runtime, model)
    z, classes = _read_images(images, session.get_inputs()[0].shape, bounds)
    if labels is not None:
        classes = _read_labels(labels)
    settings: dict[str, Any] = {"radius": radius, "norm": norm, "targets": target, "max_queries": max_queries}
    settings |= {"method": method, "bounds": bounds, "seed": seed, "journal": journal}
    scorer = onnx_model(session, outputs=outputs, scores=scores)
    code = 0
    try:
        result = attack(scorer, z, classes, progress=sys.stderr.isatty(), **settings)
    except KeyboardInterrupt as error:
        result = error.result  # type: ignore[attr-defined]
        code = errors.INTERRUPTED
    except Exception as error:
        if errors.is_own(error):
            raise
        end(f"The model raised {errors.describe(error)}.", errors.FAILED)
    if len(z) and len(result.errors) == len(z) and not code:
        code = errors.FAILING
    _print(result, as_json)
    if out is not None:
        np.save(out, result.x)
    if sheet is not None:
        result.contact_sheet(sheet)
    if code:
        raise typer.Exit(code)


def _session(runtime: Any, model: Path) -> Any:
    try:
        return runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    except Exception as error:
        end(f"{model} cannot be run as an ONNX model: {printable(str(error)):.200}", WRONG_USE)


def _read_images(path: Path, shape: list[Any], bounds: tuple[float, float]) -> tuple[Images, Labels | None]:
    """Return the images, as the model takes them, and their classes if folders name them."""
    if path.is_dir():
        return _read_folder(path, bounds, channels_last=len(shape) == 4 and shape[-1] in (1, 3))
    try:
        stored = np.load(path)
    except (ValueError, EOFError):
        end(f"{path} is no .npy file of images.", WRONG_USE)
    if not isinstance(stored, np.ndarray) or stored.dtype.kind not in "uif":
        end(f"{path} must hold one array of numbers, one image a row.", WRONG_USE)
    return _as_pixels(path, stored, 255, bounds), None


def _as_pixels(path: Path, stored: npt.NDArray[Any], largest: int, bounds: tuple[float, float]) -> Images:
    """Return whole numbers stretched to the range of pixels, and others as they are."""
    if stored.dtype.kind == "f" or not stored.size:
        return stored.astype(np.float32)
    if stored.min() < 0 or stored.max() > largest:
        end(f"{path} must hold whole numbers from 0 to {largest}, got {stored.min()} to {stored.max()}.", WRONG_USE)
    low, high = bounds
    if not math.isfinite(high - low):
        end(f"--pixels must be finite for the whole numbers in {path}, got {low:g},{high:g}.", WRONG_USE)
    return np.clip(low + stored / largest * (high - low), low, high)  # which float32 might leave


def _read_folder(folder: Path, bounds: tuple[float, float], *, channels_last: bool) -> tuple[Images, Labels | None]:
    reader = needed("PIL.Image", "A folder of pictures")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in PICTURES)
    if not files:
        end(f"There are no pictures in {folder}; the formats are {', '.join(PICTURES)}.", WRONG_USE)
    pictures = []
    for file in files:
        with reader.open(file) as picture:
            grid = np.atleast_3d(_as_pixels(file, *_read_picture(file, picture), bounds))
        pictures.append(grid if channels_last else np.moveaxis(grid, -1, 0))
        if pictures[-1].shape != pictures[0].shape:
            end(f"{file} has another size or other channels than {files[0]}.", WRONG_USE)
    named = all(file.parent != folder and file.parent.name.isdigit() for file in files)
    classes = np.array([int(file.parent.name) for file in files]) if named else None
    return np.stack(pictures), classes


def _read_picture(file: Path, picture: Any) -> tuple[npt.NDArray[Any], int]:
    """Return a picture as whole numbers, and the largest that there can be."""
    if picture.mode == "F":
        end(f"{file} holds floating point numbers: give images in a .npy file.", WRONG_USE)
    if picture.mode == "I" or picture.mode.startswith("I;16"):  # what PIL would clip at 255
        return np.asarray(picture), 65535
    return np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB")), 255


def _read_labels(path: Path) -> Labels:
    try:
        labels = np.load(path) if path.suffix == ".npy" else np.loadtxt(path, dtype=np.int64, ndmin=1)
    except (ValueError, EOFError):
        end(f"{path} holds no whole numbers, one for each image.", WRONG_USE)
    return np.asarray(labels)


def _print(result: AttackResult, as_json: bool) -> None:
    summary = result.summary()
    if as_json:
        print_json({**summary, "queries": result.queries.tolist(), "won": result.success.tolist()})
        return
    before = f"{summary['misclassified'] - summary['at_target']:,} of them wrong before"
    before += f", {summary['at_target']:,} at the target" if result.targets is not None else ""
    share = f" ({summary['success_rate']:.1%})" if summary["attacked"] else ""
    median = f"; median of those won {summary['median_queries']:g}" if summary["success"] else ""
    facts = [
        Fact("images", f"{summary['images']:,}, {before}"),
        Fact("won", f"{summary['success']:,} of {summary['attacked']:,}{share}"),
        Fact("queries", f"{summary['total_queries']:,} in all{median}"),
    ]
    if summary["errors"]:
        first = next(iter(result.errors.values()))
        facts.append(Fact("errors", f"{summary['errors']:,}; the first: {first}"))
    print_facts(facts)
