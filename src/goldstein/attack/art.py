"""The attack as an evasion attack of the Adversarial Robustness Toolbox (ART), which must be installed."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from art.attacks.attack import EvasionAttack
from art.estimators.classification.classifier import ClassifierMixin
from art.estimators.estimator import BaseEstimator

from goldstein.attack.core import attack
from goldstein.attack.result import AttackResult


class GoldsteinAttack(EvasionAttack):  # type: ignore[misc]
    """`goldstein.attack` behind ART's `generate(x, y)`.

    Parameters
    ----------
    estimator : ART classifier
        Asked by `predict`; its `clip_values` are the pixel range ((0, 1) when it has none).
    targeted : bool, optional
        y holds classes to reach; the true ones are then what the classifier says.
    outputs : {"logits", "probabilities"}, optional
        What `predict` returns.
    **settings
        Arguments of `attack`: radius, norm, method, max_queries, seed, …

    Attributes
    ----------
    result : AttackResult
        Of the last `generate`, with the queries of each image.
    """

    attack_params: ClassVar[list[str]] = [*EvasionAttack.attack_params, "outputs", "settings"]
    _estimator_requirements: ClassVar[tuple[type, ...]] = (BaseEstimator, ClassifierMixin)

    def __init__(self, estimator: Any, *, targeted: bool = False, outputs: str = "logits", **settings: Any) -> None:
        super().__init__(estimator=estimator)
        self.targeted = targeted
        self.outputs, self.settings = outputs, settings
        self.result: AttackResult | None = None

    def generate(
        self, x: npt.NDArray[Any], y: npt.NDArray[Any] | None = None, **kwargs: Any
    ) -> npt.NDArray[np.float32]:
        """Return adversarial images, float32; where none was found, the last one tried."""
        images = np.asarray(x)
        if self.targeted and y is None:
            raise ValueError("A targeted attack needs the classes to reach, y.")
        given = None if y is None else _classes(y)
        said = _classes(self.estimator.predict(images)) if given is None or self.targeted else given
        clip = self.estimator.clip_values
        low, high = (0.0, 1.0) if clip is None else (float(np.min(clip[0])), float(np.max(clip[1])))
        self.result = attack(
            self.estimator.predict,
            images,
            said,
            targets=given if self.targeted else None,
            bounds=(low, high),
            outputs=self.outputs,
            **{**self.settings, **kwargs},
        )
        return self.result.x


def _classes(y: Any) -> npt.NDArray[np.int64]:
    """Return class numbers from class numbers or from one-hot rows."""
    given = np.asarray(y)
    return np.asarray(given.argmax(axis=1) if given.ndim == 2 else given, np.int64)
