"""Many images side by side, the rows that they ask for merged into model batches of one size.

Each image is a `Course`, a generator that yields rows and receives their margins, with a method's run inside and a
random stream of its own. `merge` plays the courses: it fills batches with rows, asking one course after the other for
them only when there is room, and lets further images in when rows run short. So few images hold the rows of a query at
a time. A course never learns what else was in its batches.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from goldstein.attack.counted import CountedModel
from goldstein.attack.loss import Flags, Labels, log_scores, margins, sure
from goldstein.attack.region import Region, Rows
from goldstein.methods.method import Context, Method, Run
from goldstein.oracle import Array

PROBE = 32  # so many pixels are compared first


@dataclass(frozen=True)
class Terms:
    """What is the same for all images of an attack; see `attack` for the meaning."""

    method: Method
    norm: str
    radius: float
    bounds: tuple[float, float]
    margin: float
    outputs: str
    targeted: bool
    max_queries: int
    seed: int
    inside: bool


class Waiting:
    """Rows that were asked for, and what is known of them: `margins`, `classes` and `sure` once all are."""

    def __init__(self, rows: Rows, estimating: bool) -> None:
        self.rows, self.estimating, self.left = rows, estimating, len(rows)
        self._parts: list[tuple[Array, Labels, Flags]] = []
        self.margins: Array
        self.classes: Labels
        self.sure: Flags

    def take(self, values: Array, classes: Labels, certain: Flags) -> None:
        """Take what the next rows came to."""
        count = len(values)
        if count == len(self.rows):  # mostly: nothing to put together
            self.left, self.margins, self.classes, self.sure = 0, values, classes, certain
            return
        self._parts.append((values, classes, certain))
        self.left -= count
        if not self.left:
            self.margins, self.classes, self.sure = map(np.concatenate, zip(*self._parts, strict=True))

    @property
    def known(self) -> int:
        """How many rows are known."""
        return len(self.rows) - self.left


class Course:
    """One image on its way.

    Attributes
    ----------
    index, label, target : int
        Which image, its class (−1: what the model says of the original), and the class to reach (−1: any other).
    x : ndarray of float32, shape (d,)
        The adversarial image, or the last one that was tried.
    predicted : int
        Its class as the model has it; −1 as long as that is not known.
    spent : int
        Rows that the model was given for it.
    success, misclassified : bool
        What became of it.
    waiting : Waiting or None
        The rows that it waits for; None while it has told what it knows and not asked yet.
    """

    def __init__(self, index: int, image: npt.NDArray[np.floating], label: int, target: int, terms: Terms) -> None:
        self.index, self.label, self.target, self.terms = index, label, target, terms
        self.region = Region(image.ravel(), terms.norm, terms.radius, terms.bounds)
        self.x: Rows = self.region.start
        self.predicted, self.spent = -1, 0
        self.success = self.misclassified = False
        self._tried: dict[int, int] = {}
        self._play = self._course()
        self.waiting: Waiting | None = next(self._play)

    def asks(self) -> Waiting | None:
        """Return the rows that it waits for, and make up its mind which; None when it has ended."""
        if self.waiting is None:
            self.waiting = next(self._play, None)
        return self.waiting

    def answer(self, values: Array, classes: Labels, certain: Flags) -> bool:
        """Take what the next rows came to; return whether the image is still on its way."""
        waiting = self.waiting
        assert waiting is not None
        waiting.take(values, classes, certain)
        self.spent += len(values)
        if waiting.left:
            return True
        try:
            self.waiting = next(self._play)
        except StopIteration:
            return False
        return True

    def _course(self) -> Generator[Waiting | None, None, None]:
        """Check the original; then ask, tell and check each iterate, until success or the end of the budget.

        An iterate that was among the rows just asked for, or an iterate before, is not checked again.
        """
        method, region = self.terms.method, self.region
        yield from self._check(self.x)
        self.label = self.predicted if self.label < 0 else self.label
        self.success, self.misclassified = False, self.predicted != self.label or self.predicted == self.target
        if self.misclassified:
            return
        context = Context(stream(self.terms.seed, self.x), None, region, self.terms.max_queries)
        run = Run(method, region.center, context)
        while not self.success and method.finished(run.state) is None:
            yield None  # the next rows take memory: not before there is room for them
            left = self.terms.max_queries - self.spent - 1  # for the check of the next iterate
            query = run.ask(left) if left > 0 else None
            if query is None:
                return
            asked = Waiting(self._rows(query.points), estimating=True)
            yield asked
            if self.terms.inside and self._found(asked):
                return
            before = run.x
            run.tell(query, np.maximum(asked.margins, -self.terms.margin))
            x = self.x if run.x is before else region.rows(run.x[None])[0]
            tried = run.x is before or self._known(x) or self._see(x, asked)
            del query, asked
            if not tried:
                yield from self._check(x)

    def _check(self, x: Rows) -> Generator[Waiting, None, None]:
        """Ask for the scores of one image."""
        check = Waiting(x[None], estimating=False)
        yield check
        self._see(x, check)

    def _known(self, x: Rows) -> bool:
        """Take an iterate as tried if it was an iterate before."""
        said = self._tried.get(hash(x.tobytes()))
        if said is None:
            return False
        self.x, self.predicted = x, said
        return True

    def _see(self, x: Rows, asked: Waiting) -> bool:
        """Take an iterate as tried if it is among the rows that were asked; it may be a success."""
        place = _place(x, asked.rows)
        if place is None:
            return False
        self.x, self.predicted, self.success = x, int(asked.classes[place]), bool(asked.sure[place])
        self._tried[hash(x.tobytes())] = self.predicted
        return True

    def _rows(self, points: Array) -> Rows:
        return self.region.rows(points) if self.terms.inside else points.astype(np.float32)

    def _found(self, asked: Waiting) -> bool:
        """Return whether one of the rows is an adversarial image, and keep the one that is most clearly so."""
        if not np.count_nonzero(asked.sure):
            return False
        best = int(np.where(asked.sure, asked.margins, np.inf).argmin())
        self.x, self.predicted, self.success = asked.rows[best].copy(), int(asked.classes[best]), True
        return True


def _place(x: Rows, rows: Rows) -> int | None:
    """Return at which row an image stands; None when at none."""
    middle = slice(x.size // 2, x.size // 2 + PROBE)
    few = (rows[:, middle] == x[middle]).all(axis=1).nonzero()[0]
    return next((row for row in few.tolist() if not np.count_nonzero(rows[row] != x)), None)


def stream(seed: int, image: Rows) -> np.random.Generator:
    """Return the random numbers of an image: by the seed and its pixels, wherever it stands among others."""
    digest = hashlib.sha256(image.tobytes()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16])])


def merge(
    courses: Iterator[Course],
    model: CountedModel,
    shape: tuple[int, ...],
    terms: Terms,
    chunk: int,
    at_once: int | None,
    done: Callable[[Course, str | None], None],
) -> None:
    """Play all courses to their ends; `done` gets each that has ended, with a sentence if the model failed on it."""
    active: deque[Course] = deque()
    while True:
        parts = _take(active, courses, chunk, at_once, done)
        if not parts:
            return
        sizes = [count for _, _, count in parts]
        rows = np.concatenate([asked.rows[asked.known : asked.known + count] for _, asked, count in parts])
        owners = np.repeat([c.index for c, _, _ in parts], sizes)
        estimating = np.repeat([asked.estimating for _, asked, _ in parts], sizes)
        scores = model(rows.reshape(-1, *shape), owners, estimating)
        labels, classes = np.repeat([c.label for c, _, _ in parts], sizes), scores.argmax(axis=1)
        labels = np.where(labels < 0, classes, labels)
        targets = np.repeat([c.target for c, _, _ in parts], sizes) if terms.targeted else None
        _check_classes(max(int(labels.max()), -1 if targets is None else int(targets.max())), scores.shape[1])
        log_z = log_scores(scores, terms.outputs)
        values = margins(log_z, labels, targets)
        certain = sure(values, log_z, labels, targets)
        start, fine = 0, bool(np.isfinite(values).all())
        for course, _, count in parts:
            stop = start + count
            if not (fine or np.isfinite(values[start:stop]).all()):
                done(course, f"The model returned scores that are not finite, after {course.spent} queries.")
            elif course.answer(values[start:stop], classes[start:stop], certain[start:stop]):
                # one that has rows in memory goes on first
                (active.append if course.waiting is None else active.appendleft)(course)
            else:
                done(course, None)
            start = stop


def _take(
    active: deque[Course],
    courses: Iterator[Course],
    chunk: int,
    at_once: int | None,
    done: Callable[[Course, str | None], None],
) -> list[tuple[Course, Waiting, int]]:
    """Return from which courses, in order, the next batch takes how many of which rows; they are no longer active."""
    parts: list[tuple[Course, Waiting, int]] = []
    room = chunk
    while room:
        course = active.popleft() if active else None
        if course is None and (at_once is None or len(parts) < at_once):
            course = next(courses, None)
        if course is None:
            break
        asked = course.asks()
        if asked is None:
            done(course, None)
            continue
        count = min(room, asked.left)
        parts.append((course, asked, count))
        room -= count
    return parts


def _check_classes(largest: int, classes: int) -> None:
    if largest >= classes:
        raise ValueError(f"The model has {classes} classes, but there is a label or target {largest}.")
