"""The network of the attack study: its layers, its training, and its weights as plain arrays."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from studies.attack import lenet
from tests.studies.test_datasets import REAL, needs_real_data

TINY = lenet.Schedule(epochs=4, step_size=0.1, halve_every=None, batch_size=20, momentum=0.9)


def bars(n, seed=0, height=0.8):
    """Images of a bright bar, its row telling the class."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, n)
    images = 0.2 * rng.random((n, 28, 28))
    for image, label in zip(images, labels, strict=True):
        image[2 * label + 3 : 2 * label + 5] += height
    return images.astype(np.float32), labels


@pytest.fixture(scope="module")
def weights():
    return lenet.train(*bars(400), TINY)


def reference(weights):
    """The same network from PyTorch's own layers."""
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Conv2d(16, 64, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Flatten(), torch.nn.Linear(3136, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)),
    )
    net.load_state_dict({key: torch.tensor(weights[name]) for key, name in zip(net.state_dict(), weights, strict=True)})
    return net


def test_the_network_is_the_one_of_the_public_code(weights):
    net = reference(weights)
    assert sum(parameter.numel() for parameter in net.parameters()) == lenet.count() == 428_906
    images, _ = bars(7, seed=1)
    with torch.no_grad():
        theirs = net(torch.tensor((images[:, None] - 0.1307) / 0.3081)).numpy()
    assert lenet.LeNet(weights)(images) == pytest.approx(theirs, abs=1e-4)


@pytest.mark.parametrize("rows", [0, 1, 5, 63, 64, 65, 150])
def test_an_image_has_the_same_logits_in_any_company(weights, rows):
    images, _ = bars(200, seed=1)
    model = lenet.LeNet(weights)
    assert model(images[:rows]).tolist() == model(images)[:rows].tolist()


def test_training_learns_what_there_is_to_learn_and_repeats(weights):
    images, labels = bars(200, seed=1)
    losses = []
    again = lenet.train(*bars(400), TINY, told=lambda epoch, loss: losses.append((epoch, loss)))
    assert lenet.LeNet(weights).accuracy(images, labels) > 0.95
    assert [epoch for epoch, _ in losses] == [1, 2, 3, 4]
    assert losses[-1][1] < 0.2 * losses[0][1]
    assert lenet.digest(again) == lenet.digest(weights)
    other = lenet.train(*bars(40), replace(TINY, epochs=1), seed=1)
    assert lenet.digest(other) != lenet.digest(lenet.train(*bars(40), replace(TINY, epochs=1), seed=2))


def test_first_weights_are_spread_as_pytorch_spreads_them():
    weights = lenet.fresh(np.random.default_rng(0))
    for name, inputs in {"conv1": 25, "conv2": 400, "full1": 3136, "full2": 128}.items():
        for kind in ("weight", "bias"):
            array = weights[f"{name}.{kind}"]
            assert np.abs(array).max() <= 1 / np.sqrt(inputs)
        assert weights[f"{name}.weight"].std() == pytest.approx(1 / np.sqrt(3 * inputs), rel=0.1)


def test_the_full_schedule_is_the_papers():
    full = lenet.SCHEDULES["full"]
    assert full.epochs == 100
    assert [full.step(epoch, 0.5) for epoch in (0, 19, 20, 59, 99)] == [0.1, 0.1, 0.05, 0.025, 0.00625]
    assert (full.momentum, full.weight_decay) == (0, 0)
    short = lenet.SCHEDULES["short"]
    assert short.step(0, 0) == short.step_size
    assert short.step(short.epochs - 1, 1) == pytest.approx(0)


def test_weights_are_saved_whole_and_read_without_pickle(weights, tmp_path):
    path = tmp_path / "deep" / "w.npz"
    lenet.save(weights, path)
    assert lenet.digest(lenet.load(path)) == lenet.digest(weights)
    assert [it.name for it in path.parent.iterdir()] == ["w.npz"]
    np.savez(path, **{**weights, "conv1.bias": np.array([None])})
    with pytest.raises(ValueError, match="pickle"):
        lenet.load(path)
    np.savez(path, **{**weights, "conv1.bias": np.zeros(3)})
    with pytest.raises(ValueError, match=r"not the weights of LeNet: conv1.bias of shape .*\.$"):
        lenet.load(path)


def test_the_command_trains_what_is_missing_and_records_accuracies(tmp_path, monkeypatch):
    typer = pytest.importorskip("typer.testing")
    from studies.__main__ import app

    monkeypatch.setattr(lenet, "pixels", lambda name, split, data: bars(100, seed=len(name + split)))
    monkeypatch.setitem(lenet.SCHEDULES, "short", TINY)
    command = ["lenet", "--out", str(tmp_path)]
    answer = typer.CliRunner().invoke(app, [*command, "mnist"])
    assert answer.exit_code == 0, answer.output
    assert "mnist: epoch 4 of 4" in answer.output
    assert re.search(r"on the test images \(the paper: 98.95%\)", answer.output)
    record = json.loads((tmp_path / "training.json").read_text())
    found = record["networks"]["mnist"]["short"]
    assert found["sha256"] == lenet.digest(lenet.load(tmp_path / "weights" / "mnist-short.npz"))
    assert found["test"] == pytest.approx(
        lenet.LeNet(lenet.load(tmp_path / "weights" / "mnist-short.npz")).accuracy(*bars(100, seed=len("mnisttest")))
    )
    assert found["paper"] == 0.9895
    assert typer.CliRunner().invoke(app, [*command, "mnist", "--seed", "1"]).exit_code == 0
    both = json.loads((tmp_path / "training.json").read_text())["networks"]["mnist"]
    assert list(both) == ["short", "short-1"]
    assert both["short"] == found != both["short-1"]
    monkeypatch.setattr(lenet, "train", lambda *_, **__: pytest.fail("it was trained again"))
    assert typer.CliRunner().invoke(app, [*command, "mnist"]).exit_code == 0
    assert typer.CliRunner().invoke(app, [*command, "cifar"]).exit_code == 2
    assert (tmp_path / "weights" / ".gitignore").read_text() == "*\n"


def test_a_missing_file_ends_the_command_with_one_sentence(tmp_path):
    typer = pytest.importorskip("typer.testing")
    from studies.__main__ import app

    answer = typer.CliRunner().invoke(app, ["lenet", "--out", str(tmp_path), "--data", str(tmp_path)])
    assert answer.exit_code == 1
    assert "train-images-idx3-ubyte.gz is neither in" in answer.output


@needs_real_data
def test_pixels_of_the_real_images_are_between_zero_and_one():
    images, labels = lenet.pixels("mnist", "test", REAL)
    assert (images.dtype, images.shape, labels.dtype) == (np.float32, (10_000, 28, 28), np.int64)
    assert (images.min(), images.max()) == (0, 1)
    assert images.mean() == pytest.approx(0.1325, abs=1e-3)
