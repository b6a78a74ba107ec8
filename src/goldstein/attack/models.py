"""Models from other libraries as callables from images to scores: PyTorch, scikit-learn, ONNX Runtime.

A matrix product may be rounded otherwise in a batch of another size, and an attack that compares values would go
another way. So each is called with one number of rows, always: batches are cut, and the last part is filled up. At a
fixed size a row's scores do not depend on its place or its company, and the answers of an attack not on its `chunk`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.attack.loss import OUTPUTS
from goldstein.extras import needed
from goldstein.oracle import Array

ROWS = 64

Images = npt.NDArray[np.float32]


class FixedRows:
    """A model that is called with exactly `rows` images at a time; what is missing is filled up with the last image.

    Filling up costs time on this machine and is no query: use it for models that run here, not for remote ones.

    Parameters
    ----------
    model : callable
        From images (rows, *shape) to scores (rows, classes).
    rows : int, optional
        Images in a call.
    outputs : {"logits", "probabilities"}, optional
        What the scores are; `attack` reads it.
    classes : array_like, shape (classes,), optional
        What the scores belong to, if that is not 0, 1, and so on: `attack` then takes labels and targets from these.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.attack import FixedRows
    >>> sizes = []
    >>> model = FixedRows(lambda x: (sizes.append(len(x)), x.reshape(len(x), -1)[:, :2])[1], rows=4)
    >>> model(np.zeros((6, 2, 2), np.float32)).shape, sizes
    ((6, 2), [4, 4])
    """

    def __init__(
        self,
        model: Callable[[Images], Any],
        rows: int = ROWS,
        outputs: str = "logits",
        classes: npt.ArrayLike | None = None,
    ) -> None:
        if not callable(model):
            raise TypeError(f"The model must be callable, got {type(model).__name__}.")
        self.model = model
        self.rows = arguments.count("rows", rows)
        self.outputs = arguments.one_of("outputs", outputs, OUTPUTS)
        self.classes = None if classes is None else np.asarray(classes)

    def __call__(self, images: Images) -> Array:
        """Return the scores of the images."""
        parts = []
        for start in range(0, len(images), self.rows):
            part = images[start : start + self.rows]
            short = self.rows - len(part)
            if short:
                part = np.concatenate([part, np.repeat(part[-1:], short, axis=0)])
            scores = np.array(self.model(part))  # a copy: the model may use its array again
            if scores.shape[:1] != (self.rows,):
                raise ValueError(f"The model must return a row of scores for each image, got shape {scores.shape}.")
            parts.append(scores[: self.rows - short])
        return np.concatenate(parts)


def torch_model(
    module: Callable[[Any], Any], *, rows: int = ROWS, device: Any = "cpu", outputs: str = "logits"
) -> FixedRows:
    """Return a PyTorch module as a model. Needs the extra torch.

    Each call puts the module into evaluation mode, without gradients, and leaves every part of it in the mode that it
    had: dropout is off, and running means stay as they are, even if the module is being trained.

    Parameters
    ----------
    module : torch.nn.Module or callable
        From a float32 tensor (k, *shape) to scores (k, classes). The mode of a callable that is no module, such as a
        function that calls one, is left to it.
    rows : int, optional
        Images in a call of the module.
    device : torch.device or str, optional
        Where the images are put; the module must be there.
    outputs : {"logits", "probabilities"}, optional
        What the module returns.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from goldstein.attack import attack, torch_model
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
    >>> model, x = torch_model(module), np.full((2, 1, 4, 4), 0.5, np.float32)
    >>> bool(attack(model, x, model(x).argmax(axis=1), radius=0.5).success.all())
    True
    """
    torch = needed("torch", "torch_model")
    if not callable(module):
        raise TypeError(
            f"torch_model takes a module of PyTorch, or a callable on tensors; got {type(module).__name__}."
        )

    def scores(images: Images) -> Any:
        pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device)
        if pixels.dim() == 4:
            pixels = pixels.contiguous(memory_format=torch.channels_last)  # twice as fast on a CPU
        with torch.inference_mode(), evaluating(module):
            output = module(pixels)
        if not isinstance(output, torch.Tensor):
            raise TypeError(
                f"The module must return a tensor of scores, got {type(output).__name__}: give torch_model a function "
                "that picks the scores, such as lambda x: module(x)[0], after module.eval()."
            )
        return output.cpu().numpy()

    return FixedRows(scores, rows, outputs)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a module of PyTorch into evaluation mode for a while, and each of its parts back into the mode it had."""
    training = [part for part in model.modules() if part.training] if is_module(model) else []
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


def is_module(model: Any) -> bool:
    """Whether this is a module of PyTorch."""
    torch = sys.modules.get("torch")  # a module of PyTorch exists only if it is imported
    return torch is not None and isinstance(model, torch.nn.Module)


def as_model(model: Any) -> Any:
    """Return a model as a callable: a bare module of PyTorch by `torch_model`, any other callable as it is."""
    if is_module(model):
        parameter = next(model.parameters(), None)
        return torch_model(model, device="cpu" if parameter is None else parameter.device)
    if callable(model):
        return model
    ways = "sklearn_model and onnx_model of goldstein.attack make one"
    raise TypeError(f"The model must be a callable from images to scores ({ways}), got {type(model).__name__}.")


def sklearn_model(classifier: Any, *, rows: int = ROWS) -> FixedRows:
    """Return a fitted scikit-learn classifier of flat images as a model.

    `attack` then takes labels and targets as the classifier does, from `classifier.classes_`; in its result, and in the
    scores, class i is `classifier.classes_[i]`.

    Parameters
    ----------
    classifier : estimator
        With predict_proba, or else with decision_function; SVC and NuSVC, also at the end of a pipeline, by
        decision_function always.
    rows : int, optional
        Images in a call.

    Notes
    -----
    Success is success by these scores, and `classifier.predict` agrees where it follows them. It does not for SVC and
    NuSVC with more than two classes: they predict by votes of pairs and may differ where votes are equal, unless they
    have `break_ties=True`; their probabilities differ more often and are not used. With
    `decision_function_shape="ovo"` the scores belong to pairs of classes: refused.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from goldstein.attack import attack, sklearn_model
    >>> x = np.random.default_rng(0).random((50, 4, 4))
    >>> y = (x.mean(axis=(1, 2)) > 0.5).astype(int)
    >>> model = sklearn_model(LogisticRegression(C=100).fit(x.reshape(50, 16), y))
    >>> bool(attack(model, x, y, radius=0.3).success.any())
    True
    """
    name = type(classifier).__name__
    last = _last(classifier)
    classes = getattr(classifier, "classes_", None)
    pairs = hasattr(last, "decision_function_shape")  # SVC and NuSVC
    by_decision = hasattr(classifier, "decision_function") and (pairs or not hasattr(classifier, "predict_proba"))
    if not by_decision and not hasattr(classifier, "predict_proba"):
        raise TypeError(f"{name} has neither predict_proba nor decision_function.")
    if pairs and last.decision_function_shape == "ovo" and classes is not None and len(classes) > 2:
        raise ValueError(f'{name} gives scores of pairs of classes: use decision_function_shape="ovr".')

    def scores(images: Images) -> Any:
        ask = classifier.decision_function if by_decision else classifier.predict_proba
        values = np.asarray(ask(images.reshape(len(images), -1)))
        if values.ndim == 1:
            values = np.stack([np.zeros_like(values), values], axis=1)
        if classes is not None and values.shape[1:] != (len(classes),):
            raise ValueError(f"{name} must give a score for each of its {len(classes)} classes, got {values.shape}.")
        return values

    return FixedRows(scores, rows, "logits" if by_decision else "probabilities", classes)


def onnx_model(
    session: Any, *, rows: int | None = None, outputs: str = "logits", scores: str | None = None
) -> FixedRows:
    """Return an ONNX Runtime session as a model; its first input takes the images.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
        Or anything with its `get_inputs`, `get_outputs` and `run`.
    rows : int, optional
        Images in a call. None: the batch size of the graph if it has a fixed one, else 64.
    outputs : {"logits", "probabilities"}, optional
        What the scores are.
    scores : str, optional
        Which of the session's outputs they are; None: the first. Classifiers of scikit-learn have their labels there.
    """
    if not hasattr(session, "get_inputs"):
        raise TypeError(f"onnx_model takes an onnxruntime.InferenceSession, got {type(session).__name__}.")
    entry = session.get_inputs()[0]
    available = [output.name for output in session.get_outputs()]
    images = entry.name
    shape = list(getattr(entry, "shape", None) or [])
    fixed = shape[0] if shape and isinstance(shape[0], int) else None
    if rows is not None and fixed is not None and rows != fixed:
        raise ValueError(f"The graph takes {fixed} images at a time, got rows={rows!r}.")
    if scores is not None and scores not in available:
        raise ValueError(f"The session has no output {scores!r}; it has {', '.join(available)}.")
    names = [scores or available[0]]
    batch_size = (fixed or ROWS) if rows is None else rows
    return FixedRows(lambda batch: session.run(names, {images: batch})[0], batch_size, outputs)


def _last(classifier: Any) -> Any:
    """Return the estimator that decides: of a search the best one, of a pipeline the last step."""
    while True:
        if hasattr(classifier, "best_estimator_"):
            classifier = classifier.best_estimator_
        elif hasattr(classifier, "steps"):
            classifier = classifier.steps[-1][1]
        else:
            return classifier
