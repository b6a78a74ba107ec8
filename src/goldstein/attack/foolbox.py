"""The attack with the call of Foolbox, `attack(model, inputs, criterion, epsilons=...)`; Foolbox is not needed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein.attack.core import attack
from goldstein.attack.models import evaluating, is_module
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
    >>> success.tolist()
    [[False], [True]]
    """

    def __init__(self, norm: str = "linf", **settings: Any) -> None:
        self.norm = norm
        self.settings = settings
        self.results: list[AttackResult] = []

    def __call__(self, model: Any, inputs: Any, criterion: Any, *, epsilons: Any) -> tuple[Any, Any, Any]:
        """Return adversarials, the same clipped to epsilon (they are already), and success.

        Parameters
        ----------
        model : callable
            From inputs to logits, on PyTorch tensors or NumPy arrays; its `bounds` are the pixel range. A bare module
            of PyTorch is asked in evaluation mode, and left in the mode that it had.
        inputs : tensor or ndarray, shape (n, *shape)
            Originals. EagerPy tensors, here and in the criterion, are taken for what they hold, and the answers are
            EagerPy tensors when the originals are.
        criterion : labels, or an object with `labels` or with `target_classes`
            As in Foolbox: misclassification, or targeted misclassification. An image that meets it from the start
            costs one query and counts as success.
        epsilons : float or sequence of float
            Radii. For a sequence of k the images come as lists, and success has the shape (k, n). At 0 the originals
            are checked, with one query each, and returned.
        """
        like = _Tensors(inputs)
        scores = like.wrap(model)
        images = like.array(inputs)
        low, high = getattr(model, "bounds", (0.0, 1.0))
        settings: dict[str, Any] = {"norm": self.norm, "bounds": (float(low), float(high)), **self.settings}
        labels = None
        if hasattr(criterion, "target_classes"):
            settings["targets"] = like.array(criterion.target_classes).astype(np.int64)
        else:
            labels = like.array(getattr(criterion, "labels", criterion)).astype(np.int64)
        several = isinstance(epsilons, Iterable)
        self.results = []
        for radius in epsilons if several else [epsilons]:
            size = {"radius": float(radius)} if radius else {"radius": 1.0, "max_queries": 1}
            self.results.append(attack(scores, images, labels, **settings | size))
        adversarials = [like.tensor(result.x) for result in self.results]
        success = np.array([result.success | result.misclassified for result in self.results], bool)
        if several:
            return adversarials, adversarials, like.tensor(success.reshape(len(adversarials), len(images)))
        return adversarials[0], adversarials[0], like.tensor(success[0])


class _Tensors:
    """Arrays for us, and the caller's kind of tensor for the caller and, without EagerPy around it, for the model."""

    def __init__(self, like: Any) -> None:
        raw = getattr(like, "raw", like)
        self.around = None if raw is like else type(like)
        self.torch = import_module("torch") if type(raw).__module__.startswith("torch") else None
        self.device = getattr(raw, "device", None)

    def array(self, tensor: Any) -> npt.NDArray[Any]:
        raw = getattr(tensor, "raw", tensor)
        return np.asarray(raw.detach().cpu().numpy() if hasattr(raw, "detach") else raw)

    def raw(self, array: npt.NDArray[Any]) -> Any:
        return array if self.torch is None else self.torch.from_numpy(array).to(self.device)

    def tensor(self, array: npt.NDArray[Any]) -> Any:
        return self.raw(array) if self.around is None else self.around(self.raw(array))

    def wrap(self, model: Any) -> Any:
        if self.torch is None and is_module(model):
            raise TypeError("The model is a module of PyTorch, which takes tensors: give torch.from_numpy(images).")
        if self.torch is None:
            return lambda images: self.array(model(images))
        torch = self.torch

        def scores(images: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
            with torch.no_grad(), evaluating(model):
                return self.array(model(self.raw(images)))

        return scores
