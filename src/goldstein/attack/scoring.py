"""How the rows that images ask for become values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from goldstein.attack.counted import CountedModel
from goldstein.attack.loss import are_probabilities, log_scores, margins, sure
from goldstein.attack.misclassified import ImageQuery, Misclassified, Scores
from goldstein.attack.region import Rows
from goldstein.oracle import Answer, Array, Deterministic, Tally
from goldstein.run.lockstep import Part
from goldstein.run.session import Session

PROBABILITIES = (
    "The model's scores look like probabilities but are taken as logits, by which fewer images are won: give "
    'outputs="probabilities" if that is what they are.'
)


def _one_point(x: Array) -> NoReturn:
    raise NotImplementedError("The loss of an attack is evaluated by `Scoring`, for many images at a time.")


LOSS = Deterministic(_one_point)
"""The oracle of each image's session: it says what can be asked, values without noise; `Scoring` evaluates."""


class Scoring:
    """A counted model that answers the parts of a batch.

    `criteria` has the criterion of each session under way, which knows its image; `margin` is θ, the lead beyond which
    the loss is flat; `warn` takes a key and a sentence, and warns once for each key.
    """

    def __init__(
        self,
        model: CountedModel,
        criteria: Mapping[Session, Misclassified],
        shape: tuple[int, ...],
        margin: float,
        outputs: str,
        targeted: bool,
        warn: Callable[[str, str], None],
    ) -> None:
        self.model = model
        self.criteria = criteria
        self.shape = shape
        self.margin = margin
        self.outputs = outputs
        self.targeted = targeted
        self.warn = warn
        self.first_batch = True

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
        self,
        parts: Sequence[Part],
        rows: list[Rows],
        raw: Array,
        classes: npt.NDArray[np.int64],
        certain: npt.NDArray[np.bool_],
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
    rows: Rows = points
    if not isinstance(part.query, ImageQuery):
        rows = criterion.region.rows(points) if criterion.inside else points.astype(np.float32)
    return rows
