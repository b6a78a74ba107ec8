"""The attack with the call of Foolbox, `attack(model, inputs, criterion, epsilons=...)`; Foolbox is not needed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.core import attack
from goldstein.attack.result import AttackResult


class FoolboxAttack:
    """`goldstein.attack` for those who have a Foolbox model, or any callable on their tensors.

    Parameters
    ----------
    norm : {"linf", "l2"}, optional
        How distance is measured.
    **settings
        Further arguments of `attack`: method, max_queries, seed, …

    Attributes
    ----------
    results : list of AttackResult
        Of the last call, one for each epsilon.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.attack.foolbox import FoolboxAttack
    >>> def model(x):
    ...     return np.stack([0.5 - x[:, 0, 0], x[:, 0, 0] - 0.5], axis=1)
    >>> raw, clipped, success = FoolboxAttack()(model, np.full((1, 4, 4), 0.4), np.array([0]), epsilons=[0.05, 0.2])
    >>> [bool(won[0]) for won in success]
    [False, True]
    """

    def __init__(self, norm: str = "linf", **settings: Any) -> None:
        self.norm, self.settings = norm, settings
        self.results: list[AttackResult] = []

    def __call__(self, model: Any, inputs: Any, criterion: Any, *, epsilons: Any) -> tuple[Any, Any, Any]:
        """Return adversarials, the same clipped to epsilon (they are already), and success.

        Parameters
        ----------
        model : callable
            From inputs to logits, on PyTorch tensors or NumPy arrays; its `bounds` are the pixel range.
        inputs : tensor or ndarray, shape (n, *shape)
            Originals.
        criterion : labels, or an object with `labels` or with `target_classes`
            As in Foolbox: misclassification, or targeted misclassification.
        epsilons : float or sequence of float
            Radii. A sequence makes each answer a list.
        """
        like = _Tensors(inputs)
        targets = getattr(criterion, "target_classes", None)
        labels = getattr(criterion, "labels", criterion if targets is None else None)
        scores = like.wrap(model)
        images = like.array(inputs)
        if labels is None:  # a targeted criterion does not know them
            labels = scores(images.astype(np.float32)).argmax(axis=1)
        several = isinstance(epsilons, Iterable)
        low, high = getattr(model, "bounds", (0.0, 1.0))
        self.results = [
            attack(
                scores,
                images,
                like.array(labels).astype(np.int64),
                targets=None if targets is None else like.array(targets).astype(np.int64),
                norm=self.norm,
                radius=float(radius),
                bounds=(float(low), float(high)),
                **self.settings,
            )
            for radius in (epsilons if several else [epsilons])
        ]
        found = [like.tensor(result.x) for result in self.results]
        won = [like.tensor(result.success | result.misclassified) for result in self.results]
        return (found, found, won) if several else (found[0], found[0], won[0])


class _Tensors:
    """Arrays for us, and the caller's kind of tensor for the caller."""

    def __init__(self, like: Any) -> None:
        self.torch = import_module("torch") if type(like).__module__.startswith("torch") else None
        self.device = getattr(like, "device", None)

    def array(self, tensor: Any) -> npt.NDArray[Any]:
        return np.asarray(tensor.detach().cpu().numpy() if hasattr(tensor, "detach") else tensor)

    def tensor(self, array: npt.NDArray[Any]) -> Any:
        return array if self.torch is None else self.torch.from_numpy(array).to(self.device)

    def wrap(self, model: Any) -> Any:
        if self.torch is None:
            return lambda images: self.array(model(images))
        torch = self.torch

        def scores(images: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
            with torch.no_grad():
                return self.array(model(self.tensor(images)))

        return scores
