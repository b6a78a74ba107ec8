"""The criterion of an attack: the model is wrong about an image that is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goldstein.attack.loss import Flags, Labels
from goldstein.attack.region import Region, Rows
from goldstein.criterion import Check, Criterion
from goldstein.oracle import Answer, Array, Oracle, Query, Tally

PROBE = 32  # pixels that are compared first


@dataclass(eq=False)
class Scores(Answer):
    """What the model said of some rows: also the rows themselves, their margins and classes, and who is surely won.

    The rows come in the parts in which they were asked for.
    """

    rows: tuple[Rows, ...] = ()
    margins: Array = None  # type: ignore[assignment]
    classes: Labels = None  # type: ignore[assignment]
    sure: Flags = None  # type: ignore[assignment]
    counted: Tally | None = None

    def tally(self, *, precise: bool = False) -> Tally:
        return super().tally(precise=True) if self.counted is None else self.counted

    def joined(self, others: Sequence[Answer]) -> Scores:
        every: list[Any] = [self, *others]
        names = ("values", "margins", "classes", "sure")
        joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in every]) for name in names}
        return Scores(roundoff=self.roundoff, rows=tuple(rows for part in every for rows in part.rows), **joined)

    def row(self, place: int) -> Rows:
        """Return one of the rows, as a copy."""
        for rows in self.rows:
            if place < len(rows):
                row: Rows = rows[place].copy()
                return row
            place -= len(rows)
        raise IndexError(place)


class ImageQuery(Query):
    """A query for images as they are, which is no part of an estimate; other queries are projected first."""


class Misclassified(Criterion):
    """Stop at the first allowed image that the model has wrong (targeted: that it takes for the target).

    Every row that was asked for can be the answer if `inside`; and each new iterate is asked for by a row of its own,
    unless it was among them or was an iterate before.
    """

    message = "The model is wrong about an allowed image."
    each_step = True
    reserve = 1

    def __init__(self, index: int, region: Region, label: int, target: int, inside: bool) -> None:
        self.index = index
        self.region = region
        self.label = label  # −1: what the model says of the original
        self.target = target
        self.inside = inside
        self.x: Rows = region.start  # the adversarial image, or the last one that was tried
        self.predicted = -1  # the class of x; −1: not known yet
        self.success = False
        self.at_start = False  # whether the original was misclassified already
        self._last_scores: Scores | None = None
        self._tried: dict[int, int] = {}

    def met_at_start(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        """Ask for the class of the original; one that is wrong already is not attacked."""
        yield from self._ask(self.x)
        if self.label < 0:
            self.label = self.predicted
        self.success = False
        self.at_start = self.predicted != self.label or self.predicted == self.target
        return self.at_start

    def found(self, query: Query, answer: Answer) -> Array | None:
        assert isinstance(answer, Scores)
        self._last_scores = answer
        if not self.inside or not np.count_nonzero(answer.sure):
            return None
        best = int(np.where(answer.sure, answer.margins, np.inf).argmin())
        self.x = answer.row(best)
        self.predicted = int(answer.classes[best])
        self.success = True
        return self.x.astype(np.float64)

    def screen(self, fun: float, lowest: float, noisy: bool) -> bool:
        return True

    def confirm(self, x: Array, oracle: Oracle, rng: np.random.Generator) -> Check[bool]:
        image = self.region.rows(x[None])[0]
        scores = self._last_scores
        self._last_scores = None
        if not self._known(image) and (scores is None or not self._tried_among(image, scores)):
            del scores
            yield from self._ask(image)
        return self.success

    def _ask(self, image: Rows) -> Check[None]:
        """Ask for the scores of one image."""
        answer = yield ImageQuery(image[None])  # type: ignore[arg-type]  # in single precision, as the model sees it
        assert isinstance(answer, Scores)
        self._tried_among(image, answer)

    def _known(self, image: Rows) -> bool:
        """Take an iterate as tried if it was an iterate before."""
        predicted = self._tried.get(hash(image.tobytes()))
        if predicted is None:
            return False
        self.x = image
        self.predicted = predicted
        return True

    def _tried_among(self, image: Rows, scores: Scores) -> bool:
        """Take an iterate as tried if it is among the rows of these scores; it may be a success."""
        place = _place(image, scores.rows)
        if place is None:
            return False
        self.x = image
        self.predicted = int(scores.classes[place])
        self.success = bool(scores.sure[place])
        self._tried[hash(image.tobytes())] = self.predicted
        return True


def _place(x: Rows, parts: tuple[Rows, ...]) -> int | None:
    """Return at which row an image stands; None when at none."""
    middle = slice(x.size // 2, x.size // 2 + PROBE)
    before = 0
    for rows in parts:
        few = (rows[:, middle] == x[middle]).all(axis=1).nonzero()[0]
        for row in few.tolist():
            if not np.count_nonzero(rows[row] != x):
                return before + int(row)
        before += len(rows)
    return None
