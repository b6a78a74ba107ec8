"""The attack behind the interfaces of ART and Foolbox."""

from types import SimpleNamespace

import numpy as np
import pytest

from attack_models import Linear, images, labels
from goldstein.attack import attack
from goldstein.attack.foolbox import FoolboxAttack

X = images(20)


@pytest.fixture
def art():
    pytest.importorskip("art")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from art.estimators.classification import BlackBoxClassifier

        from goldstein.attack.art import GoldsteinAttack
    return lambda model, **keys: GoldsteinAttack(
        BlackBoxClassifier(model, (6, 6), 3, clip_values=(0.0, 1.0)), radius=0.1, max_queries=200, **keys
    )


def test_art_generates_what_attack_finds(art):
    model = Linear()
    y = labels(model, X)
    ours = attack(Linear(), X, y, radius=0.1, max_queries=200)
    for given in (y, np.eye(3)[y], None):
        shell = art(Linear())
        np.testing.assert_array_equal(shell.generate(X, given), ours.x)
        np.testing.assert_array_equal(shell.result.queries, ours.queries)


def test_art_reaches_targets(art):
    y = labels(Linear(), X)
    goals = (y + 1) % 3
    ours = attack(Linear(), X, y, targets=goals, radius=0.1, max_queries=200)
    shell = art(Linear(), targeted=True)
    np.testing.assert_array_equal(shell.generate(X, np.eye(3)[goals]), ours.x)
    with pytest.raises(ValueError, match="needs the classes to reach"):
        shell.generate(X)


def test_foolbox_returns_images_and_success():
    y = labels(Linear(), X)
    shell = FoolboxAttack(max_queries=200)
    raw, clipped, success = shell(Linear(), X, y, epsilons=0.1)
    ours = attack(Linear(), X, y, radius=0.1, max_queries=200)
    np.testing.assert_array_equal(raw, ours.x)
    np.testing.assert_array_equal(clipped, ours.x)
    np.testing.assert_array_equal(success, ours.success)
    raw, _, success = shell(Linear(), X, SimpleNamespace(labels=y), epsilons=[0.01, 0.1])
    assert success[0].sum() < success[1].sum()
    np.testing.assert_array_equal(raw[1], ours.x)


def test_foolbox_counts_images_that_were_wrong_before_as_adversarial():
    y = (labels(Linear(), X) + 1) % 3
    _, _, success = FoolboxAttack()(Linear(), X, y, epsilons=0.1)
    assert success.all()


def test_foolbox_on_tensors_and_with_targets():
    torch = pytest.importorskip("torch")
    inner = Linear()

    class Model:
        bounds = (0, 1)

        def __call__(self, x):
            assert isinstance(x, torch.Tensor)
            return torch.from_numpy(inner(x.numpy()))

    goals = (labels(inner, X) + 1) % 3
    criterion = SimpleNamespace(target_classes=torch.from_numpy(goals))
    raw, _, success = FoolboxAttack(max_queries=300)(Model(), torch.from_numpy(X), criterion, epsilons=0.2)
    assert isinstance(raw, torch.Tensor)
    said = inner.scores(raw.numpy()).argmax(axis=1)
    np.testing.assert_array_equal(said == goals, success.numpy())
    assert success.any()


def test_the_demo_leaves_numbers_a_figure_and_images(tmp_path, monkeypatch):
    import json

    for needed in ("typer", "torch", "sklearn", "matplotlib"):
        pytest.importorskip(needed)
    from goldstein.studies import demo_attack
    from test_cli import run

    monkeypatch.setattr(demo_attack, "EPOCHS", 3)
    code, said = run("demo-attack", "--out", tmp_path, "--images", 30, "--max-queries", 60)
    assert code == 0
    assert "sign averaging alone" in said
    numbers = json.loads((tmp_path / "attack.json").read_text())
    assert numbers["accuracy"] > 0.7
    assert [row["method"] for row in numbers["rows"]] == list(demo_attack.METHODS)
    assert numbers["rows"][0]["rates"]["50"] > 0.3
    for picture in ("attack.png", "attack-images.png"):
        assert (tmp_path / picture).stat().st_size > 1000
