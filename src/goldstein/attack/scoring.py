"""How the rows that images ask for become values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.counted import CountedModel
from goldstein.attack.loss import are_probabilities, log_scores, margins, sure
from goldstein.attack.misclassified import Misclassified, Scores
from goldstein.attack.region import Rows
from goldstein.oracle import Answer, Array, Tally
from goldstein.run.lockstep import Part

PROBABILITIES = (
    "The model's scores look like probabilities but are taken as logits, by which fewer images are won: give "
    'outputs="probabilities" if that is what they are.'
)


class Scoring:
    """A counted model that answers the parts of a batch.

    Parameters
    ----------
    model : CountedModel
        From images to scores.
    shape : tuple of int
        Of an image.
    margin : float
        θ, the lead beyond which the loss is flat.
    outputs : str
        What the scores are.
    targeted : bool
        Whether there are classes to reach.
    warn : callable
        Takes a key and a sentence, and warns once for each key.
    """

    def __init__(
        self,
        model: CountedModel,
        shape: tuple[int, ...],
        margin: float,
        outputs: str,
        targeted: bool,
        warn: Callable[[str, str], None],
    ) -> None:
        self.model = model
        self.shape = shape
        self.margin = margin
        self.outputs = outputs
        self.targeted = targeted
        self.warn = warn
        self.fresh = True

    def __call__(self, parts: Sequence[Part]) -> list[Answer | Exception]:
        """Answer the parts of a batch; scores that are not finite are the end of their image."""
        criteria: list[Any] = [part.session.criteria.step_criteria[0] for part in parts]
        sizes = [part.last - part.first for part in parts]
        images = [part.query.points.dtype == np.float32 for part in parts]  # which a criterion asks for
        asked = [_rows(*each) for each in zip(parts, criteria, images, strict=True)]
        rows = np.concatenate(asked)  # the model may work in place on it
        owners = np.repeat([criterion.index for criterion in criteria], sizes)
        estimating = ~np.repeat(images, sizes)
        scores = self.model(rows.reshape(-1, *self.shape), owners, estimating)
        classes = scores.argmax(axis=1)
        labels = np.repeat([criterion.label for criterion in criteria], sizes)
        labels = np.where(labels < 0, classes, labels)
        targets = np.repeat([criterion.target for criterion in criteria], sizes) if self.targeted else None
        self._check_classes(max(int(labels.max()), -1 if targets is None else int(targets.max())))
        if self.fresh and self.outputs == "logits" and are_probabilities(scores):
            self.warn("probabilities", PROBABILITIES)
        self.fresh = False
        log_z = log_scores(scores, self.outputs)
        raw = margins(log_z, labels, targets)
        certain = sure(raw, log_z, labels, targets)
        values = np.maximum(raw, -self.margin)
        return self._answers(parts, sizes, asked, raw, values, classes, certain)

    def _answers(
        self,
        parts: Sequence[Part],
        sizes: list[int],
        asked: list[Rows],
        raw: Array,
        values: Array,
        classes: npt.NDArray[np.int64],
        certain: npt.NDArray[np.bool_],
    ) -> list[Answer | Exception]:
        """Cut the answers of a batch into those of its parts."""
        roundoff = self.model.roundoff
        fine = bool(np.isfinite(raw).all())
        ends: npt.NDArray[np.int64] = np.cumsum(sizes)
        starts: npt.NDArray[np.int64] = ends - np.array(sizes)
        totals = np.add.reduceat(values, starts).tolist()
        magnitudes = np.add.reduceat(np.abs(values), starts).tolist()
        lows = np.minimum.reduceat(values, starts).tolist()
        answers: list[Answer | Exception] = []
        for k, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            if not (fine or np.isfinite(raw[start:end]).all()):
                spent = parts[k].session.facts.counted
                when = f"after {spent} queries" if spent else "for the original image"
                answers.append(ValueError(f"The model returned scores that are not finite, {when}."))
                continue
            size = end - start
            tally = Tally(size, size, totals[k], magnitudes[k], lows[k], roundoff=roundoff)
            answers.append(
                Scores(
                    values[start:end],
                    roundoff,
                    (asked[k],),
                    raw[start:end],
                    classes[start:end],
                    certain[start:end],
                    tally,
                )
            )
        return answers

    def _check_classes(self, largest: int) -> None:
        classes = self.model.classes
        if classes is not None and largest >= classes:
            raise ValueError(f"The model has {classes} classes, but there is a label or target {largest}.")


def _rows(part: Part, criterion: Misclassified, image: bool) -> Rows:
    """Return the rows of a part as the model sees them; those of an image are as they are to be."""
    points: Any = part.query.points[part.first : part.last]
    rows: Rows = points
    if not image:
        rows = criterion.region.rows(points) if criterion.inside else points.astype(np.float32)
    return rows
