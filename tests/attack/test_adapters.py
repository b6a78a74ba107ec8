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
    for given in (y[:, None], None):
        model.rows = 0
        shell = art(model)
        np.testing.assert_array_equal(shell.generate(X, given), ours.x)
        assert shell.result.queries.sum() == model.rows


def test_art_reaches_targets(art):
    y = labels(Linear(), X)
    goals = (y + 1) % 3
    ours = attack(Linear(), X, y, targets=goals, radius=0.1, max_queries=200)
    model = Linear()
    shell = art(model, targeted=True)
    np.testing.assert_array_equal(shell.generate(X, np.eye(3)[goals]), ours.x)
    assert shell.result.queries.sum() == model.rows
    assert shell.result.queries.max() <= 200
    with pytest.raises(ValueError, match="needs the classes to reach"):
        shell.generate(X)


def test_art_leaves_images_that_are_at_their_target(art):
    there = labels(Linear(), X) == 0
    assert there.any()
    shell = art(Linear(), targeted=True)
    found = shell.generate(X, np.zeros(len(X), int))
    np.testing.assert_array_equal(found[there], X[there])
    np.testing.assert_array_equal(shell.result.misclassified, there)
    assert (shell.result.queries[there] == 1).all()
    assert shell.result.success.any()


def test_art_settings(art):
    y = labels(Linear(), X)
    with pytest.raises(TypeError, match=r"no setting eps; there are .*radius"):
        art(Linear(), eps=0.3)
    for given, name, radius in ((np.inf, "linf", 0.1), (2, "l2", 0.4)):
        ours = attack(Linear(), X, y, norm=name, radius=radius, max_queries=50)
        shell = art(Linear(), norm=given)
        shell.set_params(radius=radius, max_queries=50)
        np.testing.assert_array_equal(shell.generate(X, y), ours.x)
        np.testing.assert_array_equal(art(Linear()).generate(X, y, norm=given, radius=radius, max_queries=50), ours.x)
    shell.set_params(targeted=True)
    shell.generate(X, (y + 1) % 3)
    assert "radius=0.4" in repr(shell)
    won = shell.result.success
    np.testing.assert_array_equal(shell.result.predicted[won], ((y + 1) % 3)[won])
    with pytest.raises(ValueError, match="eps"):
        shell.set_params(eps=0.3)


class Eager:
    """Holds a tensor as EagerPy does, and is no array itself."""

    def __init__(self, raw):
        self.raw = raw

    def __array__(self, *_, **__):
        raise TypeError("an EagerPy tensor is no array")


def test_foolbox_returns_images_and_success():
    y = labels(Linear(), X)
    shell = FoolboxAttack(max_queries=200)
    raw, clipped, success = shell(Linear(), X, y, epsilons=0.1)
    ours = attack(Linear(), X, y, radius=0.1, max_queries=200)
    np.testing.assert_array_equal(raw, ours.x)
    np.testing.assert_array_equal(clipped, ours.x)
    np.testing.assert_array_equal(success, ours.success)
    raw, clipped, success = shell(Linear(), X, SimpleNamespace(labels=Eager(y)), epsilons=[0.01, 0.1])
    assert success.shape == (2, 20)
    robust = 1 - success.mean(axis=-1)
    assert robust[0] > robust[1]
    np.testing.assert_array_equal(raw[1], ours.x)
    np.testing.assert_array_equal(clipped[1], ours.x)
    raw, _, success = shell(Linear(), Eager(X), Eager(y), epsilons=0.1)
    assert isinstance(raw, Eager)
    np.testing.assert_array_equal(raw.raw, ours.x)
    np.testing.assert_array_equal(success.raw, ours.success)


def test_foolbox_at_epsilon_zero_checks_the_originals():
    model = Linear()
    y = labels(model, X)
    y[::4] = (y[::4] + 1) % 3
    shell = FoolboxAttack(max_queries=50)
    raw, _, success = shell(model, X, y, epsilons=[0.0, 0.1])
    np.testing.assert_array_equal(raw[0], X)
    np.testing.assert_array_equal(np.flatnonzero(success[0]), np.arange(0, 20, 4))
    assert (shell.results[0].queries == 1).all()
    assert sum(result.queries.sum() for result in shell.results) == model.rows
    assert success[1].sum() > success[0].sum()


def test_foolbox_counts_every_row_and_images_at_their_target_as_success():
    model = Linear()
    there = labels(model, X) == 0
    assert there.any()
    shell = FoolboxAttack(max_queries=100)
    criterion = SimpleNamespace(target_classes=Eager(np.zeros(len(X), int)))
    for epsilon in (0.0, 0.1):
        model.rows = 0
        raw, _, success = shell(model, X, criterion, epsilons=epsilon)
        queries = shell.results[0].queries
        assert queries.sum() == model.rows
        assert queries.max() <= 100
        assert (queries[there] == 1).all()
        np.testing.assert_array_equal(raw[there], X[there])
        np.testing.assert_array_equal(success, labels(model, raw) == 0)
    assert success.sum() > there.sum()


def test_the_real_foolbox():
    pytest.importorskip("foolbox")
    torch = pytest.importorskip("torch")
    import eagerpy
    import foolbox

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3)).eval()
    model = foolbox.PyTorchModel(net, bounds=(0, 1))
    x = torch.from_numpy(X)
    y = net(x).argmax(1)
    theirs = foolbox.attacks.LinfPGD()(model, x, y, epsilons=[0.0, 0.1])[2]
    shell = FoolboxAttack(max_queries=300)
    for criterion in (y, foolbox.criteria.Misclassification(y)):
        raw, _, success = shell(model, x, criterion, epsilons=[0.0, 0.1])
        assert (type(success), success.shape, success.dtype) == (type(theirs), theirs.shape, theirs.dtype)
        assert not success[0].any()
        assert success[1].any()
        assert torch.equal(net(raw[1]).argmax(1) != y, success[1])
    raw, _, success = shell(model, x, foolbox.criteria.TargetedMisclassification(y * 0), epsilons=0.1)
    assert torch.equal(net(raw).argmax(1) == 0, success)
    raw, _, success = shell(model, *eagerpy.astensors(x, y), epsilons=0.1)
    assert isinstance(raw, eagerpy.PyTorchTensor)
    assert success.any()


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
    from goldstein import demo
    from tests.cli.test_app import run

    monkeypatch.setattr(demo, "EPOCHS", 3)
    code, said = run("demo-attack", "--out", tmp_path, "--images", 30, "--max-queries", 60)
    assert code == 0
    assert "sign averaging alone" in said
    numbers = json.loads((tmp_path / "attack.json").read_text())
    assert numbers["accuracy"] > 0.7
    assert [row["method"] for row in numbers["rows"]] == list(demo.ATTACKS)
    assert numbers["rows"][0]["rates"]["50"] > 0.3
    for picture in ("attack.png", "attack-images.png"):
        assert (tmp_path / picture).stat().st_size > 1000
