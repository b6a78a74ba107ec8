"""What is warned of in a run is warned of in an attack: the precision of the model, corrections that do not help."""

import warnings

import numpy as np
import pytest

import goldstein as gs
from goldstein.attack import attack

PRECISION = r"(?i)rounding|precision"
IMAGES = np.random.default_rng(0).uniform(0.3, 0.45, size=(3, 4, 4)).astype(np.float32)


def model(x):
    """A model in single precision, whose scores are far from 0."""
    light = x.reshape(len(x), -1).astype(np.float32).mean(axis=1)
    return np.stack([np.float32(1000.5) - light, np.float32(999.5) + light], axis=1)


@pytest.mark.parametrize(
    "method",
    [
        gs.GFM(1e-7, 1e-3),
        gs.GFMPlus(1e-7, 1e-3, 5, 2),
        gs.ZOO2NC(1e-6, 5, rho=1e-7),
        gs.WarmStart(gs.GFM(1e-7, 1e-3), gs.GFM(1e-7, 1e-3)),
    ],
    ids=lambda method: method.name,
)
@pytest.mark.parametrize("queries", ["inside", "free"])
def test_an_attack_below_the_precision_of_its_model_warns(method, queries):
    """δ = 10⁻⁷ on float32: the differences are rounding or 0, and the queries are spent for nothing."""
    with pytest.warns(RuntimeWarning, match=PRECISION):
        attack(model, IMAGES, np.zeros(3, int), method=method, radius=0.05, max_queries=300, queries=queries)


def test_an_attack_on_a_torch_model_below_its_precision_warns():
    torch = pytest.importorskip("torch")
    from goldstein.attack import torch_model

    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    labels = network(torch.as_tensor(IMAGES)).argmax(dim=1).numpy()
    with pytest.warns(RuntimeWarning, match=PRECISION):
        attack(torch_model(network), IMAGES, labels, method=gs.GFM(1e-7, 1e-3), radius=0.001, max_queries=300)


def test_an_attack_says_so_once_for_all_images():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        attack(model, IMAGES, np.zeros(3, int), method=gs.GFM(1e-7, 1e-3), radius=0.05, max_queries=300)
    about_precision = [warning for warning in caught if "ounding" in str(warning.message)]
    assert len(about_precision) == 1


def test_an_attack_with_a_sensible_radius_does_not_warn():
    """A guard: the default method and a large δ raise no alarm."""

    def plain(x):
        light = x.reshape(len(x), -1).astype(np.float32).mean(axis=1)
        return np.stack([np.float32(0.5) - light, light - np.float32(0.5)], axis=1)

    for method in (None, gs.GFM(0.05, 0.01)):
        attack(plain, IMAGES, np.zeros(3, int), method=method, radius=0.2, max_queries=300)


def test_corrections_that_do_not_reduce_variance_are_said_in_an_attack_too():
    """The warning of gfm+ holds on every driver: steps that are far too long make its corrections noise."""

    def rough(x):
        flat = x.reshape(len(x), -1).astype(np.float64)
        wave = np.sin(900 * flat).sum(axis=1)
        return np.stack([50 + wave, -50 - wave], axis=1)

    method = gs.GFMPlus(0.001, 1e-6, 20, 5)
    with pytest.warns(RuntimeWarning, match="corrections"):
        attack(rough, IMAGES, np.zeros(3, int), method=method, radius=0.2, margin=500.0, max_queries=3_000)
