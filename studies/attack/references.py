"""Attacks that the study compares with: Square Attack of the Adversarial Robustness Toolbox, and PGD with gradients."""

from __future__ import annotations

import hashlib
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.scoring import CountedModel, Model
from studies.attack.lenet import Floats, LeNet

SQUARE, SHORT = "Square Attack (ART)", "Square Attack (ART) for 1,000"
SHORT_QUERIES = 1_000  # the budget that its squares shrink for in the second run
ITERATIONS = 1.6  # for each query: about so many candidates are tried until one in a budget's number is a new image
SQUARE_SHARE = 0.3  # p: the share of the pixels that a square has at the start
PGD_STEPS = 100
CHUNK = 256  # rows in a model batch

Labels = npt.NDArray[np.int64]


class Remembering:
    """A counted model that is never asked the same row of an image twice, for ART's Square Attack.

    In each iteration ART asks for all images, then twice for those that are still classified right. Most of these rows
    were asked before. `asked` counts all rows of an image up to its success; what reaches the model, and is charged,
    are the different ones.
    """

    def __init__(self, model: Model, images: Floats, labels: Labels) -> None:
        self.counted, self.labels = CountedModel(model, len(images)), labels
        self.asked = np.zeros(len(images), np.int64)
        self.right = np.ones(len(images), bool)  # as far as is known
        self.known: list[dict[bytes, Any]] = [{} for _ in images]

    def __call__(self, images: npt.ArrayLike) -> Any:
        """Return the scores of all images, or of those that are right."""
        rows = np.ascontiguousarray(images, np.float32).reshape(-1, 28, 28)
        everyone = len(rows) == len(self.labels)
        owners = np.arange(len(rows)) if everyone else np.flatnonzero(self.right)
        self.asked[owners[self.right[owners]]] += 1
        keys = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]
        new = [k for k, owner in enumerate(owners) if keys[k] not in self.known[owner]]
        for start in range(0, len(new), CHUNK):
            part = new[start : start + CHUNK]
            scores = self.counted(rows[part], owners[part], np.ones(len(part), bool))
            for k, score in zip(part, scores, strict=True):
                self.known[owners[k]][keys[k]] = score.astype(np.float32)
        out = np.stack([self.known[owner][key] for owner, key in zip(owners, keys, strict=True)])
        if everyone:
            self.right = out.argmax(axis=1) == self.labels
        return out


def has_art() -> bool:
    """Whether the Adversarial Robustness Toolbox is installed."""
    return find_spec("art") is not None


def square(
    model: Model, images: Floats, labels: Labels, *, radius: float, max_queries: int, seed: int
) -> dict[str, list[int]]:
    """Run ART's Square Attack on images together.

    ART counts iterations, many of which try an image that was tried before. It gets so many, and its squares shrink
    over so many, that an image which is not won has about `max_queries` different rows; a success beyond that many is
    none. ART draws one square in an iteration for all images.

    Returns
    -------
    dict
        For each image `queries` (different rows), `asked` (all rows that ART asked for), `success`, `misclassified`.
    """
    evasion: Any = import_module("art.attacks.evasion")
    classification: Any = import_module("art.estimators.classification")
    memory = Remembering(model, images, labels)
    estimator = classification.BlackBoxClassifierNeuralNetwork(
        memory, (1, 28, 28), 10, channels_first=True, clip_values=(0.0, 1.0)
    )
    attack = evasion.SquareAttack(
        estimator,
        eps=radius,
        max_iter=max(1, int(ITERATIONS * (max_queries - 2))),  # the original and stripes at the start cost one each
        p_init=SQUARE_SHARE,
        nb_restarts=1,
        batch_size=len(images),
        verbose=False,
    )
    pictures = images.reshape(-1, 1, 28, 28)
    wrong = memory(pictures).argmax(axis=1) != labels
    before = np.random.get_state()  # noqa: NPY002  ART draws from NumPy's global generator
    np.random.seed(seed)  # noqa: NPY002
    try:
        found = attack.generate(pictures, labels)
    finally:
        np.random.set_state(before)  # noqa: NPY002
    spent = memory.counted.queries
    success = (memory(found).argmax(axis=1) != labels) & ~wrong & (spent <= max_queries)
    return {
        "queries": np.minimum(spent, max_queries).tolist(),
        "asked": memory.asked.tolist(),
        "success": success.astype(int).tolist(),
        "misclassified": wrong.astype(int).tolist(),
    }


def pgd(model: LeNet, images: Floats, labels: Labels, *, radius: float, steps: int = PGD_STEPS) -> list[int]:
    """Return which images projected gradient descent on the margin wins: it sees gradients, and bounds what can be won.

    Steps of radius/10 along the sign of the gradient, from the image itself; an image is won at its first success.
    """
    return [
        won
        for start in range(0, len(images), CHUNK)
        for won in _pgd(model, images[start : start + CHUNK], labels[start : start + CHUNK], radius, steps)
    ]


def _pgd(model: LeNet, images: Floats, labels: Labels, radius: float, steps: int) -> list[int]:
    """Return that for some images, all at once."""
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
