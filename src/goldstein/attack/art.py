"""The attack as an evasion attack of the Adversarial Robustness Toolbox (ART), which must be installed."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from goldstein.attack.core import attack
from goldstein.attack.result import AttackResult
from goldstein.extras import how_to_install

try:
    from art.attacks.attack import EvasionAttack
    from art.estimators.classification.classifier import ClassifierMixin
    from art.estimators.estimator import BaseEstimator
except ModuleNotFoundError as error:
    raise ImportError(f"goldstein.attack.art needs ART: {how_to_install('art')}.", name="art") from error

SETTINGS = [
    name
    for name, parameter in signature(attack).parameters.items()
    if parameter.kind is Parameter.KEYWORD_ONLY and name not in ("targets", "bounds", "outputs")
]
NORMS: dict[Any, str] = {np.inf: "linf", "inf": "linf", 2: "l2"}  # as ART writes them


class GoldsteinAttack(EvasionAttack):  # type: ignore[misc]
    """`goldstein.attack` behind ART's `generate(x, y)`.

    Parameters
    ----------
    estimator : ART classifier
        Asked by `predict`; its `clip_values` are the pixel range ((0, 1) when it has none).
    targeted : bool, optional
        y holds classes to reach; the true ones are then what the classifier says. An image that is at its class
        already costs one query and is marked `misclassified` in the result.
    outputs : {"logits", "probabilities"}, optional
        What `predict` returns.
    **settings
        Arguments of `attack`: radius, norm (also np.inf or 2), method, max_queries, seed, … They become attributes,
        and `set_params` changes them.

    Attributes
    ----------
    result : AttackResult
        Of the last `generate`, with the queries of each image.
    """

    attack_params: ClassVar[list[str]] = [*EvasionAttack.attack_params, "targeted", "outputs", *SETTINGS]
    _estimator_requirements: ClassVar[tuple[type, ...]] = (BaseEstimator, ClassifierMixin)

    def __init__(self, estimator: Any, *, targeted: bool = False, outputs: str = "logits", **settings: Any) -> None:
        super().__init__(estimator=estimator)
        self.targeted = targeted
        self.outputs = outputs
        for name, value in settings.items():
            if name not in SETTINGS:
                raise TypeError(f"There is no setting {name}; there are {', '.join(SETTINGS)}.")
            setattr(self, name, value)
        self.result: AttackResult | None = None

    def generate(
        self, x: npt.NDArray[Any], y: npt.NDArray[Any] | None = None, **kwargs: Any
    ) -> npt.NDArray[np.float32]:
        """Return adversarial images, float32; where none was found, the last one tried.

        Without y the class to leave is what the classifier says, by the first query of each image. Further arguments
        are settings for this call alone.
        """
        if self.targeted and y is None:
            raise ValueError("A targeted attack needs the classes to reach, y.")
        classes = None if y is None else _classes(y)
        settings = {name: getattr(self, name) for name in SETTINGS if hasattr(self, name)} | kwargs
        if "norm" in settings:
            settings["norm"] = NORMS.get(settings["norm"], settings["norm"])
        clip = self.estimator.clip_values
        if clip is not None:
            settings["bounds"] = (float(np.min(clip[0])), float(np.max(clip[1])))
        labels = classes
        if self.targeted:
            labels = None
            settings["targets"] = classes
        self.result = attack(self.estimator.predict, np.asarray(x), labels, outputs=self.outputs, **settings)
        return self.result.x


def _classes(y: Any) -> npt.NDArray[np.int64]:
    """Return class numbers from class numbers, from a column of them or from one-hot rows."""
    classes = np.asarray(y)
    if classes.ndim == 2:
        classes = classes[:, 0] if classes.shape[1] == 1 else classes.argmax(axis=1)
    return np.asarray(classes, np.int64)
