"""The methods that take gradients: gradients from PyTorch."""

import importlib
import pickle
import sys
import warnings

import numpy as np
import pytest
from first_order_models import ALL, CERTIFYING, EXACT, ORACLES, SUM, TILT, X0

import goldstein as gs
from goldstein.oracle import Query

# PyTorch


@pytest.fixture
def torch():
    """PyTorch, an optional dependency; skip without it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, while it is imported
        return pytest.importorskip("torch", reason="the extra torch is not installed")


def torch_kinky(torch):
    tilt = torch.from_numpy(TILT)

    def fun(x, i=None):
        value = (x[0] - 0.3).abs() + torch.maximum(x[1].abs(), (x[2] + 0.4 * x[1]).abs())
        value = value + 0.2 * (x[1] - 2 * x[2].abs() + 0.7).abs()
        return value if i is None else value + tilt[i] @ x

    return fun


@pytest.mark.parametrize("batched", [None, True, False])
@pytest.mark.parametrize("kind", ORACLES)
def test_torch_gives_the_same_values_and_gradients(torch, kind, batched):
    from goldstein.torch import torch_oracle

    n = {"exact": None, "sum": 6}[kind]
    oracle, ours = torch_oracle(torch_kinky(torch), n, batched=batched), ORACLES[kind]
    assert type(oracle) is type(ours)
    assert oracle.n == n
    for k in (1, 9):
        points = np.random.default_rng(k).normal(size=(k, 3))
        for order in (0, 1):
            query = Query(points, None if n is None else np.arange(k) % 6, order)
            answer = oracle.evaluate(query)
            assert answer.values.dtype == np.float64
            np.testing.assert_allclose(answer.values, ours.evaluate(query).values, rtol=0, atol=1e-14)


def test_torch_functions_that_cannot_be_batched_go_one_by_one(torch):
    from goldstein.torch import torch_oracle

    def branching(x):
        return x.sum() if x[0] > 0 else -2 * x.sum()

    oracle = torch_oracle(branching)
    points = np.random.default_rng(0).normal(size=(8, 3))
    slope = np.where(points[:, :1] > 0, 1.0, -2.0)
    for _ in range(2):
        assert (oracle.evaluate(Query(points, order=1)).values == slope).all()
        np.testing.assert_allclose(oracle.evaluate(Query(points)).values, slope[:, 0] * points.sum(axis=1), rtol=1e-14)
    with pytest.raises(RuntimeError, match="vmap"):
        torch_oracle(branching, batched=True).evaluate(Query(points))


def test_torch_says_its_precision_and_what_is_wrong(torch):
    from goldstein.torch import torch_oracle

    points = np.random.default_rng(0).normal(size=(4, 3))
    single = torch_oracle(lambda x: x.abs().sum(), dtype="float32")
    for order in (0, 1):
        answer = single.evaluate(Query(points, order=order))
        assert answer.values.dtype == np.float64
        assert answer.roundoff == 2.0**-24
        double = torch_oracle(lambda x: x.abs().sum(), dtype=torch.float64)
        assert double.evaluate(Query(points, order=order)).roundoff == 2.0**-53
    lost = [lambda x: x.detach().sum(), lambda x: x.sum().item(), lambda x: torch.tensor(1.0)]
    lost.append(lambda x: x.sum() if x[0] > points[:, 0].min() else torch.tensor(1.0, dtype=x.dtype))
    for fun in lost:
        for k in (1, 4)[fun is lost[-1] :]:
            with pytest.raises(ValueError, match="not linked to x"):
                torch_oracle(fun).evaluate(Query(points[:k], order=1))
    for k in (1, 4):
        for batched in (None, False):
            with pytest.raises(ValueError, match=r"one number, got shape \(3,\); take its sum or mean"):
                torch_oracle(lambda x: x, batched=batched).evaluate(Query(points[:k]))
            for result in (None, "sorry", {}):
                with pytest.raises(TypeError, match=f"with one number, got {type(result).__name__}"):
                    torch_oracle(lambda x, result=result: result, batched=batched).evaluate(Query(points[:k]))
            with pytest.raises(TypeError, match="with one number, got tuple"):
                torch_oracle(lambda x: (x.sum(), x.sum()), batched=batched).evaluate(Query(points[:k]))
        with pytest.raises(TypeError, match=r"returned torch.bfloat16, .*: add .float\(\) to its result"):
            torch_oracle(lambda x: x.sum().bfloat16()).evaluate(Query(points[:k]))
        assert torch_oracle(lambda x: x.sum()[None]).evaluate(Query(points[:k])).values.shape == (k,)
    for dtype in ("int64", "bfloat16", "sixty-four", None):
        with pytest.raises(ValueError, match='dtype must be "float64", "float32" or "float16"'):
            torch_oracle(lambda x: x.sum(), dtype=dtype)
    for device in ("gpu0", "meta", "cuda:99", 3.5):
        with pytest.raises(ValueError, match='device must be one that PyTorch can use here, such as "cpu"; got'):
            torch_oracle(lambda x: x.sum(), device=device)
    with pytest.raises(TypeError, match="batched must be True or False, got 'yes'"):
        torch_oracle(lambda x: x.sum(), batched="yes")
    with pytest.raises(TypeError, match="torch_oracle needs a callable"):
        torch_oracle(3)
    with pytest.raises(ValueError, match="mine"):
        torch_oracle(_raises).evaluate(Query(points))
    again = pickle.loads(pickle.dumps(torch_oracle(_one_norm)))
    np.testing.assert_allclose(again.evaluate(Query(points)).values, np.abs(points).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("name", ["vector", "matrix", "linear", "convolution"])
@pytest.mark.parametrize("order", [0, 1])
def test_torch_says_which_precision_the_tensors_have(torch, name, order):
    from goldstein.torch import torch_oracle

    torch.manual_seed(0)
    A, linear, convolution = torch.randn(5, 3), torch.nn.Linear(3, 1), torch.nn.Conv1d(1, 1, 2)
    fun = {
        "vector": lambda x: A[0] @ x,
        "matrix": lambda x: (A @ x).abs().sum(),
        "linear": lambda x: linear(x).squeeze(),
        "convolution": lambda x: convolution(x[None]).sum(),
    }[name]
    points = np.random.default_rng(0).normal(size=(4, 3))
    for k in (1, 4):
        with pytest.raises(
            TypeError, match=r'float64, together with tensors of float32: give torch_oracle dtype="float32"'
        ):
            torch_oracle(fun).evaluate(Query(points[:k], order=order))
        torch_oracle(fun, dtype="float32").evaluate(Query(points[:k], order=order))


def test_torch_errors_of_the_function_are_its_own(torch):
    from goldstein.torch import torch_oracle

    def shapes(x):
        return (torch.ones(4, dtype=x.dtype) * x).sum()

    with pytest.raises(RuntimeError, match="size of tensor"):
        torch_oracle(shapes).evaluate(Query(np.ones((1, 3))))


def _raises(x):
    raise ValueError("mine")


def _one_norm(x):
    return x.abs().sum()


@pytest.mark.parametrize("name", ALL)
def test_every_method_runs_on_torch_as_on_numpy(torch, name):
    from goldstein.torch import torch_oracle

    n = None if name in CERTIFYING else 6
    res = gs.minimize(torch_oracle(torch_kinky(torch), n), X0, ALL[name], max_evals=60, rng=1)
    ours = gs.minimize(EXACT if n is None else SUM, X0, ALL[name], max_evals=60, rng=1)
    np.testing.assert_allclose(res.x, ours.x, rtol=0, atol=1e-9)
    assert (res.nfev, res.ngev) == (ours.nfev, ours.ngev)


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "goldstein.torch", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'goldstein\[torch\]'"):
        importlib.import_module("goldstein.torch")
