"""The contact sheet: original, adversarial and difference of a few images (extra: plot)."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from goldstein import arguments
from goldstein.attack.tiles import layout
from goldstein.extras import needed

if TYPE_CHECKING:
    from goldstein.attack.result import AttackResult

LETTER = 0.065  # inches that a letter of the footer is wide


def check_suffix(path: Path) -> None:
    """Refuse a picture in a format that cannot be drawn."""
    canvas = needed("matplotlib.backend_bases", "A contact sheet").FigureCanvasBase
    suffixes = sorted(canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in suffixes:
        raise ValueError(f"A contact sheet cannot be drawn as {path.name}; known suffixes are {', '.join(suffixes)}.")


def draw(result: AttackResult, path: Path, count: int) -> Path:
    """Write a picture with three rows and up to `count` columns."""
    count = arguments.count("count", count)
    check_suffix(path)
    # not pyplot, which has windows and a backend of its own
    Figure = needed("matplotlib.figure", "A contact sheet").Figure

    chosen = np.argsort(~result.success, kind="stable")[:count]  # the won ones first
    if chosen.size == 0:
        raise ValueError("There are no images to draw.")
    low, high = result.bounds
    if not np.isfinite(high - low):
        pixels = np.stack([result.originals[chosen], result.x[chosen]])
        low = float(pixels.min())
        high = float(pixels.max())
    scale = (high - low) or 1.0
    width = 1.1 * chosen.size + 0.6
    figure = Figure(figsize=(width, 4.0), layout="constrained")
    axes = figure.subplots(3, chosen.size, squeeze=False)
    gray = {"cmap": "gray", "vmin": 0.0, "vmax": 1.0}
    for column, index in enumerate(chosen):
        before = _picture((result.originals[index] - low) / scale)
        after = _picture((result.x[index] - low) / scale)
        change = after - before
        reach = float(np.abs(change).max()) or 1.0
        axes[0, column].imshow(before, **gray)
        axes[1, column].imshow(after, **gray)
        signed = change if change.ndim == 2 else (change / reach + 1) / 2
        axes[2, column].imshow(signed, cmap="RdBu_r", vmin=-reach, vmax=reach)
        axes[0, column].set_title(f"{result.labels[index]}", fontsize=9)
        axes[1, column].set_title(_outcome(result, int(index)), fontsize=9)
        axes[2, column].set_xlabel(f"{result.queries[index]:,}", fontsize=8)
    for row, name in enumerate(("original", "adversarial", "difference")):
        axes[row, 0].set_ylabel(name, fontsize=9)
    for axis in axes.flat:
        axis.set_xticks([])
        axis.set_yticks([])
    gray_pictures = all(axis.images[0].get_array().ndim == 2 for axis in axes[2])
    change = "red is brighter, blue is darker" if gray_pictures else "gray is no change"
    footer = f"difference: {change}; each as strong as its largest; below it the queries"
    figure.supxlabel(fill(footer, int(width / LETTER)), fontsize=8)
    figure.savefig(path, dpi=130)
    return path


def _outcome(result: AttackResult, index: int) -> str:
    """Return what became of an image: the class that it was brought to, or why there is none."""
    if result.success[index]:
        return f"{result.predicted[index]}"
    if result.at_target[index]:
        return "at target"
    return "wrong before" if result.misclassified[index] else "not won"


def _picture(image: Any) -> Any:
    """Return an image as matplotlib wants it: (height, width), or with three channels last; a flat one as a square."""
    side = math.isqrt(image.size)
    if image.ndim == 1 and side * side == image.size:
        image = image.reshape(side, side)
    channels, height, width, first = layout(image.shape)
    if height == 1 < width and image.shape[-2:] != (1, width):
        raise ValueError(
            f"A contact sheet needs images of shape (h, w), (c, h, w) or (h, w, c), got {image.shape}: reshape "
            "res.originals and res.x first."
        )
    image = np.asarray(image, float)
    if first:
        grid = np.moveaxis(image.reshape(channels, height, width), 0, -1)
    else:
        grid = image.reshape(height, width, channels)
    return np.clip(grid[..., :3], 0, 1) if channels in (3, 4) else grid[..., 0]
