"""What an attack returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.loss import Flags, Labels
from goldstein.attack.sheet import draw
from goldstein.oracle import Array

Counts = Labels


@dataclass(repr=False)
class AttackResult:
    """Adversarial images, and what they cost.

    Attributes
    ----------
    x : ndarray of float32, shape (n, *shape)
        The adversarial image where there is success, else the last one tried; always within the radius and in range.
    success : ndarray of bool, shape (n,)
        Whether the model, right about the original, is wrong about x (targeted: says the target).
    misclassified : ndarray of bool, shape (n,)
        Images that the model had wrong from the start, or that were at their target: not attacked, one query each.
    queries : ndarray of int, shape (n,)
        Rows that the model saw for each image, success checks included. The budget binds this number.
    queries_estimation : ndarray of int, shape (n,)
        The same without success checks, as papers count.
    predicted : ndarray of int, shape (n,)
        The model's class of x as it was last seen; −1 where it was never seen.
    errors : dict
        Index -> sentence, for the images that the model failed on.
    originals, labels : ndarray
        The images and classes that were given; with `labels=None` the model's classes, −1 where it was not asked.
    bounds : (float, float)
        Smallest and largest pixel.
    targets : ndarray of int, shape (n,), or None
        The classes that were to be reached.

    Notes
    -----
    Classes are places in the scores, 0, 1, and so on, also where labels were given by name (`sklearn_model`):
    `classifier.classes_[res.predicted]` are the names.
    """

    x: npt.NDArray[np.float32]
    success: Flags
    misclassified: Flags
    queries: Counts
    queries_estimation: Counts
    predicted: Counts
    originals: npt.NDArray[Any]
    labels: Counts
    errors: dict[int, str] = field(default_factory=dict)
    bounds: tuple[float, float] = (0.0, 1.0)
    targets: Counts | None = None

    @property
    def attacked(self) -> Flags:
        """The images that count in rates: all but those that were misclassified from the start."""
        return ~self.misclassified

    @property
    def at_target(self) -> Flags:
        """The images that were at their target from the start; they are among the `misclassified` ones."""
        if self.targets is None:
            return np.zeros(len(self.queries), bool)
        return np.asarray(self.misclassified & (self.predicted == self.targets))

    def curve(self, at: npt.ArrayLike, *, checks: bool = True) -> Array:
        """Return the share of the attacked images that were won within each number of queries.

        Parameters
        ----------
        at : array_like
            Numbers of queries.
        checks : bool, optional
            Count success checks too; False counts estimation only.

        Returns
        -------
        ndarray, of the shape of `at`; NaN when no image was attacked
        """
        queries = self.queries if checks else self.queries_estimation
        won = np.searchsorted(np.sort(queries[self.success]), np.asarray(at, float), side="right")
        return np.asarray(won / (self.attacked.sum() or np.nan))

    def summary(self) -> dict[str, Any]:
        """Return the numbers that describe the attack; queries are those of the images that were won."""
        attacked = int(self.attacked.sum())
        won = int(self.success.sum())
        out: dict[str, Any] = {
            "images": len(self.queries),
            "misclassified": int(self.misclassified.sum()),
            "at_target": int(self.at_target.sum()),
            "attacked": attacked,
            "success": won,
            "success_rate": won / attacked if attacked else float("nan"),
        }
        for name in ("queries", "queries_estimation"):
            cost = getattr(self, name)[self.success] if won else np.nan
            out[f"mean_{name}"] = float(np.mean(cost))
            out[f"median_{name}"] = float(np.median(cost))
        return {**out, "total_queries": int(self.queries.sum()), "errors": len(self.errors)}

    def __repr__(self) -> str:
        numbers = self.summary()
        wrong = numbers["misclassified"] - numbers["at_target"]
        text = "AttackResult: {success} of {attacked} images won".format(**numbers)
        text += f", {wrong} more were misclassified before"
        if self.targets is not None:
            text += f", {numbers['at_target']} more were at their target"
        if numbers["success"]:
            text += f"; median {numbers['median_queries']:g} queries, mean {numbers['mean_queries']:.1f}"
        return text + (f"; {numbers['errors']} errors" if self.errors else "")

    def contact_sheet(self, path: str | Path, count: int = 10) -> Path:
        """Draw the first won images: original, adversarial, difference. Needs the extra plot.

        Parameters
        ----------
        path : path-like
            Where the picture goes, in a format that matplotlib knows by the suffix.
        count : int, optional
            How many images at most; when fewer were won, others fill up.
        """
        return draw(self, Path(path), count)
