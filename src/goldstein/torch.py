"""Oracles from PyTorch functions: values, and gradients by automatic differentiation (extra: torch)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from goldstein.extras import needed
from goldstein.oracle import Array, Deterministic, FiniteSum, Samples

torch = needed("torch", "goldstein.torch")


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
        Precision of x. The oracle knows the precision of what `fun` returns: with "float32" the run warns where
        rounding errors count.
    device : torch.device or str, optional
        Where x and i are put.
    batched : bool, optional
        Evaluate many points in one call, by `torch.func.vmap`. None: where that works, else one by one; finding out
        that it does not costs one call of `fun` that is not counted. False: one by one.

    Returns
    -------
    Deterministic or FiniteSum

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
        if not isinstance(kind, torch.dtype) or not kind.is_floating_point:
            raise ValueError(f'dtype must be a floating point type of torch, such as "float64"; got {dtype!r}.')
        self.fun, self.dtype, self.device, self.batched = fun, kind, device, batched

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
        out = None
        index = [torch.tensor(part, device=self.device) for part in i]
        if self.batched or (self.batched is None and len(points) > 1):
            try:
                out = torch.func.vmap(self.fun)(points, *index)
            except Exception:
                if self.batched:
                    raise
        if out is None:
            rows = [torch.as_tensor(self.fun(*row)) for row in zip(points, *index, strict=True)]
            out = torch.stack([_linked(row, points) for row in rows])
            if len(points) > 1:
                self.batched = False
        out = _linked(out, points)
        return out.reshape(len(points)) if out.numel() == len(points) else out


def _linked(result: Any, points: Any) -> Any:
    """Return the result after checking that it has a gradient, if gradients are wanted."""
    if points.requires_grad and not result.requires_grad:
        raise ValueError(
            "The function's result is not linked to x, so PyTorch has no gradient of it: compute it from x with torch "
            "alone, without .item(), .detach() or NumPy, and add 0 * x.sum() where it is constant."
        )
    return result


def _numpy(tensor: Any) -> Array:
    array: Array = tensor.detach().cpu().numpy()
    return array
