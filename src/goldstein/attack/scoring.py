"""How the rows that images ask for become values; every row that the model sees is counted here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from goldstein.attack.loss import Flags, Labels, are_probabilities, as_scores, log_scores, margins, sure
from goldstein.attack.misclassified import ImageQuery, Misclassified, Scores
from goldstein.attack.region import Rows
from goldstein.oracle import SINGLE, Answer, Array, Deterministic, Tally
from goldstein.run.lockstep import Part
from goldstein.run.session import Session

Model = Callable[[npt.NDArray[np.float32]], Any]

PROBABILITIES = (
    "The model's scores look like probabilities but are taken as logits, by which fewer images are won: give "
    'outputs="probabilities" if that is what they are.'
)


def _one_point(x: Array) -> NoReturn:
    raise NotImplementedError("The loss of an attack is evaluated by `Scoring`, for many images at a time.")


LOSS = Deterministic(_one_point)
"""The oracle of each image's session: it says what can be asked, values without noise; `Scoring` evaluates."""


class CountedModel:
    """A model with its counters, one of each for every image."""

    def __init__(self, model: Model, n: int) -> None:
        self.model = model
        self.queries: Labels = np.zeros(n, np.int64)
        self.estimation: Labels = np.zeros(n, np.int64)  # without success checks
        self.classes: int | None = None
        self.roundoff = SINGLE  # relative rounding error of the type in which the last scores came

    def __call__(
        self, rows: npt.NDArray[np.float32], owners: npt.NDArray[np.int64], estimating: npt.NDArray[np.bool_]
    ) -> Array:
        """Return the scores of the rows, (k, classes); row i belongs to image owners[i]."""
        n = len(self.queries)
        self.queries += np.bincount(owners, minlength=n)
        self.estimation += np.bincount(owners[estimating], minlength=n)
        answer = self.model(rows)
        scores = as_scores(answer, len(rows))
        kind = np.asarray(answer).dtype
        self.roundoff = float(np.finfo(kind).eps) / 2 if kind.kind == "f" else SINGLE
        if self.classes not in (None, scores.shape[1]):
            raise ValueError(f"The model returned {scores.shape[1]} classes, after {self.classes} before.")
        self.classes = scores.shape[1]
        return scores


@dataclass(eq=False)
class Scoring:
    """A counted model that answers the parts of a batch."""

    model: CountedModel
    criteria: Mapping[Session, Misclassified]  # of each session under way; it knows its image
    shape: tuple[int, ...]
    margin: float  # θ, the lead beyond which the loss is flat
    outputs: str
    targeted: bool
    warn: Callable[[str, str], None]  # a sentence, once for each key
    first_batch: bool = True

    def __call__(self, parts: Sequence[Part]) -> list[Answer | Exception]:
        """Answer the parts of a batch; scores that are not finite are the end of their image."""
        criteria = [self.criteria[part.session] for part in parts]
        sizes = [len(part) for part in parts]
        rows = [_rows(part, criterion) for part, criterion in zip(parts, criteria, strict=True)]
        owners = np.repeat([criterion.index for criterion in criteria], sizes)
        estimating = np.repeat([not isinstance(part.query, ImageQuery) for part in parts], sizes)
        batch = np.concatenate(rows)  # the model may work in place on it
        scores = self.model(batch.reshape(-1, *self.shape), owners, estimating)
        classes = scores.argmax(axis=1)
        labels = np.repeat([criterion.label for criterion in criteria], sizes)
        labels = np.where(labels < 0, classes, labels)
        targets = None
        largest = int(labels.max())
        if self.targeted:
            targets = np.repeat([criterion.target for criterion in criteria], sizes)
            largest = max(largest, int(targets.max()))
        if largest >= scores.shape[1]:
            raise ValueError(f"The model has {scores.shape[1]} classes, but there is a label or target {largest}.")
        if self.first_batch and self.outputs == "logits" and are_probabilities(scores):
            self.warn("probabilities", PROBABILITIES)
        self.first_batch = False
        log_z = log_scores(scores, self.outputs)
        raw = margins(log_z, labels, targets)
        return self._answers(parts, rows, raw, classes, sure(raw, log_z, labels, targets))

    def _answers(
        self, parts: Sequence[Part], rows: list[Rows], raw: Array, classes: Labels, certain: Flags
    ) -> list[Answer | Exception]:
        """Cut the answers of a batch into those of its parts."""
        roundoff = self.model.roundoff
        values = np.maximum(raw, -self.margin)
        finite = bool(np.isfinite(raw).all())
        ends: npt.NDArray[np.int64] = np.cumsum([len(part) for part in parts])
        starts = [0, *ends[:-1].tolist()]
        totals = np.add.reduceat(values, starts).tolist()
        magnitudes = np.add.reduceat(np.abs(values), starts).tolist()
        lows = np.minimum.reduceat(values, starts).tolist()
        answers: list[Answer | Exception] = []
        for k, part in enumerate(parts):
            at = slice(starts[k], starts[k] + len(part))
            if not (finite or np.isfinite(raw[at]).all()):
                nfev = part.session.facts.counted
                when = f"after {nfev} queries" if nfev else "for the original image"
                answers.append(ValueError(f"The model returned scores that are not finite, {when}."))
                continue
            tally = Tally(len(part), len(part), totals[k], magnitudes[k], lows[k], roundoff=roundoff)
            answers.append(Scores(values[at], roundoff, (rows[k],), raw[at], classes[at], certain[at], tally))
        return answers


def _rows(part: Part, criterion: Misclassified) -> Rows:
    """Return the rows of a part as the model sees them."""
    points: Any = part.query.points[part.first : part.last]
    if criterion.inside and not isinstance(part.query, ImageQuery):
        return criterion.region.rows(points)
    rows: Rows = points.astype(np.float32, copy=False)
    return rows
