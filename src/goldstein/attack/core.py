"""The one call: `attack`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, nullcontext, suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from goldstein import arguments
from goldstein.attack.journal import AttackJournal
from goldstein.attack.loss import OUTPUTS
from goldstein.attack.misclassified import Misclassified
from goldstein.attack.models import FixedRows, as_model
from goldstein.attack.region import NORMS, Region, Rows
from goldstein.attack.result import AttackResult
from goldstein.attack.scoring import LOSS, CountedModel, Model, Scoring
from goldstein.attack.sign import SignAveraging
from goldstein.extras import needed
from goldstein.methods import BFGS, METHODS, Method, resolve
from goldstein.run.journal import content_of
from goldstein.run.lockstep import lockstep
from goldstein.run.result import Result
from goldstein.run.session import Session
from goldstein.run.spec import RunSpec
from goldstein.warnings import warn

QUERIES = ("inside", "free")

Progress = Callable[[int, int], Any]


def attack(
    model: Model,
    images: npt.ArrayLike,
    labels: npt.ArrayLike | None,
    *,
    method: str | Method | None = None,
    norm: str = "linf",
    radius: float = 0.2,
    margin: float = 4.0,
    targets: npt.ArrayLike | None = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    outputs: str | None = None,
    max_queries: int = 10_000,
    seed: int = 0,
    chunk: int = 256,
    at_once: int | None = None,
    queries: str = "inside",
    progress: bool | Progress = False,
    journal: str | os.PathLike[str] | None = None,
) -> AttackResult:
    """Look for images near the given ones that a classifier gets wrong, from its scores alone.

    The loss max{log Z_t − max_{i≠t} log Z_i, −θ} (targeted: max{max_{i≠target} log Z_i − log Z_target, −θ}) is
    minimised by a zeroth-order method within ‖x − z‖ ≤ radius and the pixel range. All images advance together; an
    image ends at its first success. The answer for an image depends on the seed and the image, not on the others or on
    `chunk` (as far as the model's own rounding does not depend on its batches; see `torch_model`).

    Parameters
    ----------
    model : callable
        From float32 images (k, *shape) to scores (k, classes); `torch_model`, `sklearn_model` and `onnx_model` make
        one, and a bare `torch.nn.Module` is taken by `torch_model`. Pixels are given as they are: normalisation
        belongs to the model.
    images : array_like, shape (n, *shape)
        Originals, with pixels within `bounds`.
    labels : array_like of int, shape (n,), or None
        True classes, as places in the scores; for `sklearn_model` as the classifier has them. None: what the model says
        of the originals, by the first query of each. No image is misclassified then, but with `targets` one that is at
        its target already ends after this query and is marked `misclassified`.
    method : str or Method, optional
        Any zeroth-order method of the library, its lengths in pixels; by name, its settings come from probes, which
        count. None: `SignAveraging()`.
    norm : {"linf", "l2"}, optional
        How distance from the original is measured.
    radius : float, optional
        Largest distance, in units of pixels: 0.2, as in the paper's experiments on digits, is far for photographs.
    margin : float, optional
        θ, the lead beyond which the loss is flat.
    targets : int or array_like of int, shape (n,), optional
        Classes to reach, given as `labels` are; None: any wrong one. One class for all is no goal for images that are
        of it already: those are not attacked, like misclassified ones.
    bounds : (float, float), optional
        Smallest and largest pixel.
    outputs : {None, "logits", "probabilities"}, optional
        What the scores are. None: what the model says by an attribute `outputs`, else logits.
    max_queries : int, optional
        Rows that the model is given for one image at most, success checks included.
    seed : int, optional
        Random numbers of an image come from the seed and its pixels.
    chunk : int, optional
        Rows in a model batch.
    at_once : int, optional
        Images under way at most; None: as many as it takes to fill a batch.
    queries : {"inside", "free"}, optional
        "inside": each row is the allowed image next to the point that the method asks for, so that the model sees only
        allowed images and any of them can be the answer. "free": the points as they are, which may leave the set by δ;
        then only iterates, each checked by a row of its own, can be.
    progress : bool or callable, optional
        True: a bar (extra: cli); or `progress(done, n)`, called when images end.
    journal : path, optional
        File that keeps each image that is done; if it exists, the attack continues from it: the model is not asked
        about those images again, and the result is the same as without a break. Images, labels, targets and the
        settings that matter are compared, but not the model: give the same one.

    Raises
    ------
    Exception
        What the model raises, or a ValueError when its answer has the wrong shape; `.result` holds the attack so far.
        Scores that are not finite end only the image that they belong to, with an entry in `errors`.

    Examples
    --------
    >>> import numpy as np
    >>> from goldstein.attack import attack
    >>> def model(x):  # dark images are class 0
    ...     light = x.mean(axis=(1, 2))
    ...     return np.stack([0.5 - light, light - 0.5], axis=1)
    >>> res = attack(model, np.full((2, 4, 4), 0.45), [0, 0], radius=0.1)
    >>> res.success, bool(abs(res.x - 0.45).max() <= 0.1)
    (array([ True,  True]), True)
    """
    model = as_model(model)
    bounds = arguments.interval("bounds", bounds, "(smallest, largest) pixel")
    z = _images(images, bounds)
    n = len(z)
    names = model.classes if isinstance(model, FixedRows) else None
    classes = np.full(n, -1) if labels is None else _labels("labels", labels, z.shape, names)
    goals = None if targets is None else _targets(targets, classes, z.shape, names)
    if outputs is None:
        outputs = getattr(model, "outputs", "logits")
    norm = arguments.one_of("norm", norm, NORMS)
    outputs = arguments.one_of("outputs", outputs, OUTPUTS)
    queries = arguments.one_of("queries", queries, QUERIES)
    radius = arguments.positive("radius", radius)
    margin = arguments.positive("margin", margin)
    max_queries = arguments.count("max_queries", max_queries)
    chunk = arguments.count("chunk", chunk)
    at_once = arguments.optional_count("at_once", at_once)
    seed = arguments.count("seed", seed, least=0)
    chosen = _method(method)
    identity = {
        "images": content_of(z),
        "labels": None if labels is None else content_of(classes),
        "targets": None if goals is None else content_of(goals),
        "method": repr(chosen),
        "norm": norm,
        "radius": radius,
        "margin": margin,
        "bounds": list(bounds),
        "outputs": outputs,
        "max_queries": max_queries,
        "seed": seed,
        "queries": queries,
    }
    counted = CountedModel(model, n)
    result = AttackResult(
        x=_starts(z, norm, radius, bounds),
        success=np.zeros(n, bool),
        misclassified=np.zeros(n, bool),
        queries=counted.queries,
        queries_estimation=counted.estimation,
        predicted=np.full(n, -1),
        originals=z,
        labels=classes,
        bounds=bounds,
        targets=goals,
    )
    done: set[int] = set()
    under_way: dict[Session, Misclassified] = {}
    warned: set[str] = set()

    def warn_once(key: str, sentence: str) -> None:  # for all images together
        if key not in warned:
            warned.add(key)
            warn(sentence)

    def sessions() -> Iterator[Session]:
        for index in sorted(set(range(n)) - done):
            region = Region(z[index], norm, radius, bounds)
            goal = -1 if goals is None else int(goals[index])
            criterion = Misclassified(index, region, int(classes[index]), goal, queries == "inside")
            spec = RunSpec(
                fun=LOSS, x0=region.center, method=chosen, max_evals=max_queries, stop=[criterion], projection=region
            )
            rng = stream(seed, region.start)
            session = Session(spec, rng, aux=rng, estimating=False, warn=warn_once)
            under_way[session] = criterion
            yield session

    saved = None if journal is None else AttackJournal(journal, identity)
    with ExitStack() as stack, saved or nullcontext():
        show = _progress(progress, n, stack)
        if saved is not None:
            done |= saved.restore(result)

        def finish(session: Session, outcome: Result | Exception) -> None:
            criterion = under_way.pop(session)
            _keep(result, criterion, str(outcome) if isinstance(outcome, Exception) else None)
            if saved is not None:
                saved.keep(result, criterion.index)
            done.add(criterion.index)
            show(len(done), n)

        scoring = Scoring(counted, under_way, z.shape[1:], margin, outputs, goals is not None, warn_once)
        try:
            lockstep(sessions(), scoring, finish, rows=chunk, at_once=at_once)
        except BaseException as error:
            _hand_over(result, under_way.values(), error)
            raise
    return result


def _hand_over(result: AttackResult, unfinished: Iterable[Misclassified], error: BaseException) -> None:
    """Let an exception carry the attack so far."""
    sentence = f"Not finished: {type(error).__name__} was raised."
    for criterion in unfinished:
        _keep(result, criterion, sentence)
    for index in np.flatnonzero(result.queries == 0):
        result.errors[int(index)] = sentence
    with suppress(AttributeError, TypeError):  # some exceptions take no attributes
        error.result = result  # type: ignore[attr-defined]
        error.add_note(f"goldstein: raised after {result.queries.sum()} queries; `.result` holds the attack so far.")


def stream(seed: int, image: Rows) -> np.random.Generator:
    """Return the random numbers of an image: by the seed and its pixels, wherever it stands among others."""
    digest = hashlib.sha256(image.tobytes()).digest()
    return np.random.default_rng([seed, int.from_bytes(digest[:16])])


def _starts(z: npt.NDArray[np.floating], norm: str, radius: float, bounds: tuple[float, float]) -> Rows:
    """Return the allowed float32 image next to each original, or refuse an original that has none."""
    low = np.float64(bounds[0])
    high = np.float64(bounds[1])
    with np.errstate(over="ignore"):  # pixels beyond float32, which are refused
        x = z.astype(np.float32)
    pixels = (x == z) & (x >= low) & (x <= high) & np.isfinite(x)
    for index in np.flatnonzero(~pixels.all(axis=tuple(range(1, z.ndim)))):  # other images are allowed themselves
        x[index] = Region(z[index], norm, radius, bounds).start.reshape(z[index].shape)
    return x


def _keep(result: AttackResult, criterion: Misclassified, error: str | None) -> None:
    index = criterion.index
    result.x[index] = criterion.x.reshape(result.x.shape[1:])
    result.success[index] = criterion.success
    result.misclassified[index] = criterion.at_start
    result.predicted[index] = criterion.predicted
    result.labels[index] = criterion.label
    if error is not None:
        result.errors[index] = error


def _method(method: str | Method | None) -> Method:
    if isinstance(method, str) and method not in (SignAveraging.name, *METHODS):
        able = [name for name in METHODS if name != BFGS.name and _refusal(resolve(name, None)) is None]
        raise ValueError(f"Unknown method {method!r}; known are {', '.join([SignAveraging.name, *able])}.")
    chosen = SignAveraging() if method in (None, SignAveraging.name) else resolve(method, None)
    refusal = _refusal(chosen)
    if refusal is not None:
        raise ValueError(refusal)
    return chosen


def _refusal(method: Method) -> str | None:
    """Return why a method cannot work with values alone; None if it can."""
    return method.needs.unsupported(method.name, LOSS)


def _images(images: npt.ArrayLike, bounds: tuple[float, float]) -> npt.NDArray[np.floating]:
    z = np.asarray(images)
    low, high = bounds
    if not np.issubdtype(z.dtype, np.floating):
        inside = z.dtype.kind in "ui" and high > 1 and bool(((z >= low) & (z <= high)).all())
        what = "give images.astype(np.float32)" if inside else "divide by 255 first"
        raise TypeError(f"images must be floating point with pixels in [{low:g}, {high:g}], got {z.dtype}; {what}.")
    if z.ndim < 2:
        raise ValueError(f"images must have the shape (n, *image shape), got {z.shape}.")
    if len(z) and not z.size:
        raise ValueError(f"images must have at least one pixel each, got shape {z.shape}.")
    if z.size and not (z.min() >= low and z.max() <= high):  # false for NaN too
        raise ValueError(
            f"images must have pixels in [{low:g}, {high:g}], got [{z.min():g}, {z.max():g}]; "
            "bounds=(smallest, largest) is another range."
        )
    return z


def _targets(
    targets: npt.ArrayLike, classes: npt.NDArray[np.int64], shape: tuple[int, ...], names: npt.NDArray[Any] | None
) -> npt.NDArray[np.int64]:
    """Return the class that each image is to reach; one class for all may be the class of some already."""
    n = len(classes)
    each = np.asarray(targets)
    if each.shape == (n,):
        goals = _labels("targets", each, shape, names)
        if (goals == classes).any():
            raise ValueError(f"A target equals its image's label, at {int(np.argmax(goals == classes))}.")
        return goals
    if each.shape in ((), (1,)):
        each = np.broadcast_to(each, n)
    return _labels("targets", each, shape, names)


def _labels(
    name: str, classes: npt.ArrayLike, shape: tuple[int, ...], names: npt.NDArray[Any] | None
) -> npt.NDArray[np.int64]:
    """Return classes as places in the scores, from places or, if the classes have names, from names."""
    labels = np.asarray(classes)
    n = shape[0]
    if names is not None and labels.shape == (n,) and n:
        return _places(name, labels, names)
    if labels.shape != (n,) or (n and not np.issubdtype(labels.dtype, np.integer)):
        if labels.size == 1 < n:
            hint = f"; if images of shape {shape} are one image, give images[None], with a batch axis"
        else:
            hint = "; np.searchsorted(classes, y) makes them of names" if labels.dtype.kind in "USO" else ""
        raise ValueError(f"{name} must be {n} whole numbers, got shape {labels.shape} of {labels.dtype}{hint}.")
    if n and labels.min() < 0:
        raise ValueError(f"{name} must be classes from 0 on, got {labels.min()}.")
    return labels.astype(np.int64)


def _places(name: str, labels: npt.NDArray[Any], names: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return where labels stand among the names of the classes."""
    same = labels[:, None] == names
    strange = np.flatnonzero(~np.broadcast_to(same, (len(labels), len(names))).any(axis=1))
    if strange.size:
        known = ", ".join(str(each) for each in names.tolist()[:10]) + (", …" if len(names) > 10 else "")
        raise ValueError(f"{name} must be among the model's classes {known}; got {labels.tolist()[strange[0]]!r}.")
    return np.asarray(same.argmax(axis=1), np.int64)


def _progress(progress: bool | Progress, n: int, stack: ExitStack) -> Progress:
    """Return a callable that shows how many images have ended: the user's, a bar, or one that does nothing."""
    if progress is not True:
        return progress if callable(progress) else lambda done, n: None
    rich = needed("rich.progress", "A progress bar")
    columns = (rich.TextColumn("images"), rich.BarColumn(), rich.MofNCompleteColumn(), rich.TimeElapsedColumn())
    bar = stack.enter_context(rich.Progress(*columns))
    task = bar.add_task("images", total=n)
    return lambda done, n: bar.update(task, completed=done)
