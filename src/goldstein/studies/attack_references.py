"""Attacks that the study compares with: Square Attack of the Adversarial Robustness Toolbox, and PGD with gradients."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.counted import CountedModel, Model
from goldstein.attack.lockstep import stream
from goldstein.studies.lenet import Floats, LeNet

SQUARE = "Square Attack (ART)"
SQUARE_SHARE = 0.3  # p: the share of the pixels that a square has at the start
PGD_STEPS = 100

Labels = npt.NDArray[np.int64]


class BudgetSpent(Exception):
    """Ends an attack that would go on asking."""


class Remembering:
    """One image's way to a counted model, which is never asked the same row twice.

    ART's Square Attack asks for most rows two or three times. `rows` counts what it asks; what reaches the model, and
    is charged, are the different rows only.
    """

    def __init__(self, counted: CountedModel, index: int, most: int) -> None:
        self.counted, self.index, self.most, self.rows = counted, index, most, 0
        self.known: dict[bytes, Any] = {}

    def __call__(self, images: npt.ArrayLike) -> Any:
        rows = np.asarray(images, np.float32).reshape(-1, 28, 28)
        self.rows += len(rows)
        return np.stack([self._one(row) for row in rows])

    def _one(self, row: Floats) -> Any:
        key = row.tobytes()
        if key not in self.known:
            if self.counted.queries[self.index] >= self.most:
                raise BudgetSpent
            owner = np.array([self.index])
            answer = self.counted(row[None], owner, np.array([True]))[0]
            # only the current image is asked for again: all others can be forgotten
            self.known = dict([*self.known.items()][-8:]) | {key: answer}
        return self.known[key]


def has_art() -> bool:
    """Whether the Adversarial Robustness Toolbox is installed."""
    return find_spec("art") is not None


def square(
    model: Model, images: Floats, labels: Labels, *, radius: float, max_queries: int, seed: int
) -> dict[str, list[int]]:
    """Run ART's Square Attack on one image after the other; p follows its schedule over `max_queries` iterations.

    Returns
    -------
    dict
        For each image `queries` (different rows), `asked` (all rows that ART asked for), `success`, `misclassified`.
    """
    evasion: Any = import_module("art.attacks.evasion")
    classification: Any = import_module("art.estimators.classification")
    counted = CountedModel(model, len(images))
    out: dict[str, list[int]] = {"queries": [], "asked": [], "success": [], "misclassified": []}
    before = np.random.get_state()  # noqa: NPY002  ART draws from NumPy's global generator
    try:
        for index, (image, label) in enumerate(zip(images, labels, strict=True)):
            one = Remembering(counted, index, max_queries)
            right = int(np.argmax(one(image)[0])) == label
            success = False
            if right:
                np.random.seed(int(stream(seed, image).integers(2**32)))  # noqa: NPY002
                estimator = classification.BlackBoxClassifierNeuralNetwork(
                    one, (1, 28, 28), 10, channels_first=True, clip_values=(0.0, 1.0)
                )
                attack = evasion.SquareAttack(
                    estimator, eps=radius, max_iter=max_queries, p_init=SQUARE_SHARE, nb_restarts=1, verbose=False
                )
                try:
                    found = attack.generate(image.reshape(1, 1, 28, 28), np.array([label]))
                    success = int(np.argmax(one(found)[0])) != label
                except BudgetSpent:
                    success = False
            out["queries"].append(int(counted.queries[index]))
            out["asked"].append(one.rows)
            out["success"].append(int(success))
            out["misclassified"].append(int(not right))
    finally:
        np.random.set_state(before)  # noqa: NPY002
    return out


def pgd(model: LeNet, images: Floats, labels: Labels, *, radius: float, steps: int = PGD_STEPS) -> list[int]:
    """Return which images projected gradient descent on the margin wins: it sees gradients, and bounds what can be won.

    Steps of radius/10 along the sign of the gradient, from the image itself; an image is won at its first success.
    """
    torch: Any = import_module("torch")
    z = torch.from_numpy(np.ascontiguousarray(images)).reshape(-1, 1, 28, 28)
    lower, upper = (z - radius).clamp(min=0.0), (z + radius).clamp(max=1.0)
    classes = torch.from_numpy(labels)[:, None]
    x, won = z.clone(), torch.zeros(len(z), dtype=torch.bool)
    for _ in range(steps + 1):
        x.requires_grad_()
        logits = model.logits(x)
        own = logits.gather(1, classes)[:, 0]
        margin = own - logits.scatter(1, classes, -torch.inf).max(dim=1).values
        won |= margin.detach() < 0
        gradient = torch.autograd.grad(margin.sum(), x)[0]
        x = (x.detach() - radius / 10 * gradient.sign()).clamp(lower, upper)
    return [int(it) for it in won]
