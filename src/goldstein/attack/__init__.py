"""Black-box attacks on classifiers: from the scores of a model to images that it gets wrong.

`attack` is the one call; a model is any callable from a batch of images to scores.
"""

from goldstein.attack.core import attack
from goldstein.attack.models import FixedRows, onnx_model, sklearn_model, torch_model
from goldstein.attack.result import AttackResult
from goldstein.attack.sign import SignAveraging

__all__ = ["AttackResult", "FixedRows", "SignAveraging", "attack", "onnx_model", "sklearn_model", "torch_model"]
