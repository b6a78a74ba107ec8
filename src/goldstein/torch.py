"""Oracles from PyTorch functions: values, and gradients by automatic differentiation (extra: torch)."""

from __future__ import annotations

import re
from collections.abc import Callable
from numbers import Real
from typing import Any, overload

import numpy as np

from goldstein import arguments
from goldstein.extras import needed
from goldstein.oracle import Array, Deterministic, FiniteSum, Samples

torch = needed("torch", "goldstein.torch")

FLOATS = (torch.float64, torch.float32, torch.float16)
WORDS = {"float32": {"float", "float32"}, "float64": {"double", "float64"}, "float16": {"half", "float16"}}


@overload
def torch_oracle(
    fun: Callable[..., Any], n: None = None, *, dtype: Any = ..., device: Any = ..., batched: bool | None = ...
) -> Deterministic: ...
@overload
def torch_oracle(
    fun: Callable[..., Any], n: int, *, dtype: Any = ..., device: Any = ..., batched: bool | None = ...
) -> FiniteSum: ...
def torch_oracle(
    fun: Callable[..., Any],
    n: int | None = None,
    *,
    dtype: Any = "float64",
    device: Any = "cpu",
    batched: bool | None = None,
) -> Deterministic | FiniteSum:
    """Return an oracle with gradients for a function written in PyTorch.

    Parameters
    ----------
    fun : callable
        `fun(x)` with x a tensor of shape (d,), returns a tensor with one number. With `n`: `fun(x, i)`, i a tensor
        with one whole number in 0..n-1, which indexes other tensors.
    n : int, optional
        Number of components, for a mean f(x) = (1/n) Σ fun(x, i).
    dtype : torch.dtype or str, optional
        Precision of x: "float64", "float32" or "float16". It must be that of the tensors that x meets in `fun`;
        modules and most tensors of PyTorch are of "float32". The oracle knows the precision of what `fun` returns: with
        "float32" the run warns where rounding errors count.
    device : torch.device or str, optional
        Where x and i are put.
    batched : bool, optional
        Evaluate many points in one call, by `torch.func.vmap`. None: where that works, else one by one; finding out
        that it does not costs one call of `fun` that is not counted. False: one by one.

    Notes
    -----
    At a kink PyTorch returns some number that need not be a subgradient: relu(x) − relu(−x) is x, but its derivative at
    0 comes out as 0. Methods that ask at random points only (`PINGD`, `PSINGD`, `CuttingPlane`) never meet one.

    Examples
    --------
    >>> import goldstein as gs, numpy as np, torch
    >>> from goldstein.torch import torch_oracle
    >>> rows = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 3)))
    >>> oracle = torch_oracle(lambda x, i: (rows[i] @ (x - 1)).abs(), n=100)
    >>> res = gs.minimize(oracle, np.zeros(3), gs.O2NC(delta=0.2, block_length=20), max_evals=4000, rng=0)
    >>> bool(res.fun < 0.2)
    True
    """
    if not callable(fun):
        raise TypeError(f"torch_oracle needs a callable, got {type(fun).__name__}.")
    tensors = _Tensors(fun, dtype, device, batched)
    if n is None:
        return Deterministic(tensors.values, vectorized=True, grad=tensors.gradients)
    return FiniteSum(tensors.values, n, vectorized=True, grad=tensors.gradients)


class _Tensors:
    """A PyTorch function with NumPy arrays at its border; can be pickled if the function can."""

    def __init__(self, fun: Callable[..., Any], dtype: Any, device: Any, batched: bool | None) -> None:
        kind = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
        if kind not in FLOATS:
            raise ValueError(f'dtype must be "float64", "float32" or "float16", which NumPy has too; got {dtype!r}.')
        _check_device(device)
        if batched is not None:
            arguments.flag("batched", batched)
        self.fun = fun
        self.dtype = kind
        self.device = device
        self.batched = batched

    def values(self, X: Array, *i: Samples) -> Array:
        """Return fun at each row of X; shape (k,)."""
        with torch.no_grad():
            return _numpy(self._call(self._points(X), *i))

    def gradients(self, X: Array, *i: Samples) -> Array:
        """Return the gradient of fun at each row of X; shape (k, d)."""
        points = self._points(X).requires_grad_()
        total = self._call(points, *i).sum()  # no row depends on another
        return _numpy(torch.autograd.grad(total, points)[0])

    def _points(self, X: Array) -> Any:
        return torch.tensor(X, dtype=self.dtype, device=self.device)

    def _call(self, points: Any, *i: Samples) -> Any:
        try:
            return self._called(points, *i)
        except RuntimeError as error:
            message = str(error).lower()
            if "the same" not in message and "same dtype" not in message:
                raise
            mine = str(self.dtype).removeprefix("torch.")
            in_message = set(re.findall(r"\w+", message))
            other = next((name for name, words in WORDS.items() if name != mine and words & in_message), None)
            if other is None:
                raise
            raise TypeError(
                f"The function brings x, which is of {mine}, together with tensors of {other}: give torch_oracle "
                f'dtype="{other}", or make them {mine}.'
            ) from error

    def _called(self, points: Any, *i: Samples) -> Any:
        out = None
        index = [torch.tensor(part, device=self.device) for part in i]
        if self.batched or (self.batched is None and len(points) > 1):
            try:
                out = torch.func.vmap(self.fun)(points, *index)
            except Exception:
                if self.batched:
                    raise
        if out is None:
            rows = [_one_number(self.fun(*row)) for row in zip(points, *index, strict=True)]
            out = torch.stack([_linked(row, points) for row in rows])
            if len(points) > 1:
                self.batched = False
        elif not isinstance(out, torch.Tensor):
            raise _not_one_number(out)
        elif out.numel() != len(points):
            raise _not_one_number(out[0])
        return _linked(out, points).reshape(len(points))


def _check_device(device: Any) -> None:
    """Refuse a device that cannot be used; None is PyTorch's default."""
    try:
        where = torch.device("cpu" if device is None else device)
        there = where.type != "meta"
        if where.type == "cuda":  # which must not be started here: processes that are forked could not use it
            there = torch.cuda.is_available() and (where.index or 0) < torch.cuda.device_count()
        elif there:
            torch.empty(0, device=where)
    except Exception:
        there = False
    if not there:
        raise ValueError(f'device must be one that PyTorch can use here, such as "cpu"; got {device!r:.80}.')


def _one_number(result: Any) -> Any:
    """Return what the function returned as a tensor with one number, or refuse it."""
    if not isinstance(result, torch.Tensor | Real | np.ndarray):
        raise _not_one_number(result)
    tensor = torch.as_tensor(result)
    if tensor.numel() != 1:
        raise _not_one_number(tensor)
    return tensor.reshape(())


def _not_one_number(result: Any) -> Exception:
    if not isinstance(result, torch.Tensor):
        return TypeError(f"The function must return a tensor with one number, got {type(result).__name__}.")
    shape = tuple(result.shape)
    return ValueError(f"The function must return a tensor with one number, got shape {shape}; take its sum or mean.")


def _linked(result: Any, points: Any) -> Any:
    """Return the result, or refuse it if it needs a gradient and has none."""
    if points.requires_grad and not result.requires_grad:
        raise ValueError(
            "The function's result is not linked to x, so PyTorch has no gradient of it: compute it from x with torch "
            "alone, without .item(), .detach() or NumPy, and add 0 * x.sum() where it is constant."
        )
    return result


def _numpy(tensor: Any) -> Array:
    if tensor.dtype not in FLOATS and tensor.is_floating_point():
        raise TypeError(f"The function returned {tensor.dtype}, which NumPy has not: add .float() to its result.")
    array: Array = tensor.detach().cpu().numpy()
    return array
