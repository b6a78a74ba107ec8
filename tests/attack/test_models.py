"""Models of other libraries: the same scores whatever the batch, and an attack through each."""

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from attack_models import Linear, explode, images, labels

import goldstein as gs
from goldstein.attack import FixedRows, SignAveraging, attack, onnx_model, sklearn_model, torch_model
from goldstein.attack.foolbox import FoolboxAttack
from goldstein.attack.region import Region
from goldstein.testing import CHECKS, START

X = images(40, shape=(1, 8, 8))
BALL = Region(START.reshape(2, 2), "linf", 1.0, (-9.0, 9.0))


@dataclass(frozen=True)
class InABall(SignAveraging):
    """The method as the checks of anyone's method can run it."""

    def _region(self, context):
        return BALL


def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 32), nn.ReLU()]
    module = nn.Sequential(*layers, nn.Dropout(0.5), nn.Linear(32, 4)).eval()
    with torch.no_grad():
        module[-1].bias -= module(torch.from_numpy(X)).mean(axis=0)  # else one class has them all
    return module.train()


def test_torch_scores_do_not_depend_on_the_batch():
    model = torch_model(network())
    many = images(300, shape=(1, 8, 8))
    whole = model(many)
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(model(many[order]), whole[order])
    for size in (1, 2, 7, 64, 250):
        np.testing.assert_array_equal(model(many[:size]), whole[:size])


def test_an_attack_on_torch_is_the_same_for_all_batch_sizes():
    model = torch_model(network())
    y = model(X).argmax(axis=1)
    one, two, three = (attack(model, X, y, radius=0.02, max_queries=300, chunk=chunk) for chunk in (256, 4096, 30))
    assert 0 < one.success.sum() < 40
    for other in (two, three):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.queries, other.queries)


def test_torch_images_are_wrong_by_a_pass_of_another_kind():
    torch = pytest.importorskip("torch")
    module = network()
    model = torch_model(module)
    y = model(X).argmax(axis=1)
    res = attack(model, X, y, radius=0.03, max_queries=500)
    assert res.success.any()
    module.eval()
    with torch.no_grad():
        said = np.array([int(module(torch.from_numpy(x[None])).argmax()) for x in res.x])
    np.testing.assert_array_equal(said != y, res.success)


def test_only_counted_rows_are_asked_of_a_plain_model_and_full_rows_of_a_fixed_one():
    plain, inner = Linear(), Linear()
    x = images(20)
    y = labels(plain, x)
    fixed = FixedRows(inner, rows=16)
    res = attack(fixed, x, y, radius=0.1)
    other = attack(plain, x, y, radius=0.1)
    np.testing.assert_array_equal(res.x, other.x)
    assert plain.rows == res.queries.sum()
    assert set(inner.batches) == {16}


def test_sklearn_by_probabilities_and_by_decisions():
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression, RidgeClassifier

    digits = load_digits()
    x = digits.images[:40] / 16
    for classifier, outputs in ((LogisticRegression(max_iter=1000), "probabilities"), (RidgeClassifier(), "logits")):
        model = sklearn_model(classifier.fit(digits.data / 16, digits.target))
        assert model.outputs == outputs
        res = attack(model, x, digits.target[:40], radius=0.25, max_queries=500)
        assert res.success[~res.misclassified].mean() > 0.8
        said = classifier.predict(res.x.reshape(40, 64))
        assert (said != digits.target[:40])[res.success].all()


def test_sklearn_with_two_classes():
    pytest.importorskip("sklearn")
    from sklearn.svm import LinearSVC

    x = images(60, shape=(4, 4))
    y = (x.mean(axis=(1, 2)) > 0.5).astype(int)
    res = attack(sklearn_model(LinearSVC(C=100).fit(x.reshape(60, 16), y)), x, y, radius=0.3)
    assert res.success[~res.misclassified].all()
    with pytest.raises(TypeError, match="neither predict_proba nor decision_function"):
        sklearn_model(object())


@pytest.mark.parametrize("batch", ["n", 64, 5])
def test_an_attack_through_onnx_runtime(batch):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    make, kind, rng = onnx.helper, onnx.TensorProto.FLOAT, np.random.default_rng(0)
    weights = {"kernel": (8, 1, 3, 3), "last": (512, 4)}
    tensors = [onnx.numpy_helper.from_array(rng.normal(size=s).astype(np.float32), k) for k, s in weights.items()]
    nodes = [
        make.make_node("Conv", ["pixels", "kernel"], ["mapped"], pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["mapped"], ["kept"]),
        make.make_node("Flatten", ["kept"], ["features"]),
        make.make_node("MatMul", ["features", "last"], ["scores"]),
    ]
    ends = [make.make_tensor_value_info(k, kind, [batch, w]) for k, w in (("features", 512), ("scores", 4))]
    graph = make.make_graph(nodes, "g", [make.make_tensor_value_info("pixels", kind, [batch, 1, 8, 8])], ends, tensors)
    made = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])

    assert onnx_model(session)(X).shape == (40, 512)
    assert onnx_model(session).rows == (64 if batch == "n" else batch)
    if batch != "n":
        with pytest.raises(ValueError, match=rf"The graph takes {batch} images at a time, got rows=16"):
            onnx_model(session, rows=16)
    with pytest.raises(ValueError, match="no output 'labels'; it has features, scores"):
        onnx_model(session, scores="labels")
    model = onnx_model(session, scores="scores")
    y = model(X).argmax(axis=1)
    one, two = (attack(model, X, y, radius=0.02, max_queries=200, chunk=chunk) for chunk in (256, 30))
    assert 0 < one.success.sum() < 40
    np.testing.assert_array_equal(one.x, two.x)
    said = model(one.x).argmax(axis=1)
    np.testing.assert_array_equal(said != y, one.success)


def test_what_is_not_a_model_is_refused():
    with pytest.raises(TypeError, match=r"must be a callable from images to scores .*sklearn_model.*, got int"):
        attack(3, X, np.zeros(40, int))
    with pytest.raises(TypeError, match="must be callable, got str"):
        FixedRows("model")
    with pytest.raises(TypeError, match=r"takes an onnxruntime\.InferenceSession, got str"):
        onnx_model("model.onnx")
    with pytest.raises(ValueError, match="rows must be a whole number"):
        FixedRows(len, 0)
    with pytest.raises(ValueError, match="a row of scores for each image"):
        FixedRows(lambda x: x[:-1].reshape(len(x) - 1, -1))(X)


@pytest.mark.parametrize("check", CHECKS[:-1], ids=lambda check: check.__name__)  # a step to a corner need not descend
@pytest.mark.parametrize("search", [None, 2])
def test_sign_averaging_is_a_method_like_any_other(search, check):
    check(InABall(delta=0.1, batch_size=4, search=search), False)


def test_sign_averaging_works_in_an_attack_only():
    with pytest.raises(ValueError, match=r"use it as the method of goldstein\.attack"):
        gs.minimize(lambda x: abs(x).sum(), np.ones(4), SignAveraging(), max_evals=10)


@pytest.mark.parametrize("name", ["step", "rounds", "weight", "resolution", "release", "shape", "norm", "radius"])
def test_a_switch_that_is_retired_says_so(name):
    with pytest.raises(TypeError, match=rf"SignAveraging\({name}=\.\.\.\) is retired since goldstein 0\.3"):
        SignAveraging(**{name: 1})


def test_a_model_may_use_its_array_again():
    inner, store = Linear(), np.empty((4, 3))

    def reusing(x):
        store[:] = inner(x)
        return store

    x = images(10)
    np.testing.assert_array_equal(FixedRows(reusing, rows=4)(x), inner.scores(x))


def digit_classes(count):
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_digits

    digits = load_digits()
    few = digits.target < count
    return digits.data[few][:300] / 16, digits.target[few][:300]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("wrapped", [False, True])
def test_svc_success_is_confirmed_by_predict(wrapped):
    x, y = digit_classes(10)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    svc = SVC(probability=True, break_ties=True, random_state=0)
    classifier = (make_pipeline(StandardScaler(), svc) if wrapped else svc).fit(x, y)
    model = sklearn_model(classifier)
    assert model.outputs == "logits"
    flat = pytest.warns(RuntimeWarning, match="differences at delta=0.1 are exactly 0")
    with flat if wrapped else nullcontext():  # far from all scaled images the kernel is 0, and scores are constant
        res = attack(model, x[:60].reshape(60, 8, 8), y[:60], radius=0.25, max_queries=200)
    assert res.success.sum() > 20
    assert (classifier.predict(res.x.reshape(60, 64)) != y[:60])[res.success].all()


def test_scores_that_do_not_belong_to_classes_are_refused():
    for count in (3, 4):  # three classes have three pairs
        x, y = digit_classes(count)
        from sklearn.svm import NuSVC

        with pytest.raises(
            ValueError, match='NuSVC gives scores of pairs of classes: use decision_function_shape="ovr"'
        ):
            sklearn_model(NuSVC(nu=0.1, decision_function_shape="ovo").fit(x, y))
    two = NuSVC(nu=0.1, decision_function_shape="ovo").fit(x[y < 2], y[y < 2])
    np.testing.assert_array_equal(sklearn_model(two)(x[y < 2]).argmax(axis=1), two.predict(x[y < 2]))
    odd = SimpleNamespace(classes_=[0, 1, 2, 3], decision_function=lambda x: np.zeros((len(x), 6)))
    with pytest.raises(ValueError, match=r"each of its 4 classes, got \(64, 6\)"):
        sklearn_model(odd)(X)


def test_a_bare_module_is_taken_as_torch_model_takes_it():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.LazyLinear(3)).train()
    images = np.random.default_rng(0).random((6, 1, 8, 8)).astype(np.float32)
    with torch.no_grad():
        net(torch.zeros(1, 1, 8, 8))
    bare = attack(net, images, None, radius=0.3, max_queries=100)
    wrapped = attack(torch_model(net), images, None, radius=0.3, max_queries=100)
    np.testing.assert_array_equal(bare.x, wrapped.x)
    assert bare.success.any()
    assert net.training


def test_a_module_in_training_is_asked_in_evaluation_mode_and_left_as_it_was():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 3)).train()
    net[0].eval()  # a part that is frozen stays so
    modes = [part.training for part in net.modules()]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    one, two = (attack(net, X, None, radius=0.05, max_queries=50) for _ in range(2))
    np.testing.assert_array_equal(one.x, two.x)
    model = torch_model(net)
    shell = FoolboxAttack(max_queries=50)
    raw, _, _ = shell(net, torch.from_numpy(X), torch.from_numpy(model(X).argmax(axis=1)), epsilons=0.05)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert [part.training for part in net.modules()] == modes
    np.testing.assert_array_equal(model(raw.numpy()).argmax(axis=1), shell.results[0].predicted)
    net.forward = explode
    with pytest.raises(ConnectionError):
        attack(net, X, None)
    assert [part.training for part in net.modules()] == modes
    with pytest.raises(TypeError, match=r"module of PyTorch, which takes tensors: give torch.from_numpy\(images\)"):
        shell(net, X, np.zeros(40, int), epsilons=0.1)


@pytest.mark.parametrize("kind", [tuple, dict])
def test_a_module_that_returns_more_than_scores_gets_one_sentence(kind):
    torch = pytest.importorskip("torch")

    class Two(torch.nn.Module):
        def forward(self, x):
            scores = x.flatten(1)[:, :3]
            return (scores, scores) if kind is tuple else {"logits": scores}

    with pytest.raises(TypeError, match=rf"must return a tensor of scores, got {kind.__name__}: give torch_model"):
        attack(Two(), X, None)


def test_what_cannot_be_a_model_is_refused_when_it_is_made():
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match="torch_model takes a module of PyTorch, or a callable on tensors; got int"):
        torch_model(3)
    for make in (torch_model, FixedRows):
        with pytest.raises(ValueError, match="outputs must be one of logits, probabilities, got 'softmax'"):
            make(len, outputs="softmax")


@pytest.mark.parametrize("names", [np.arange(1, 10), np.array(list("abcdefghi")), np.arange(9)])
def test_labels_are_those_of_the_classifier(names):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression

    x, y = digit_classes(9)
    classifier = LogisticRegression(max_iter=1000).fit(x, names[y])
    some = y[:40] < 8
    model, z = sklearn_model(classifier), x[:40][some].reshape(-1, 8, 8)
    res = attack(model, z, names[y[:40][some]], radius=0.25, max_queries=300)
    assert not res.misclassified.any()
    np.testing.assert_array_equal(names[res.predicted], classifier.predict(res.x.reshape(-1, 64)))
    goal = attack(model, z, None, targets=names[8], radius=0.4, max_queries=300)
    assert (goal.predicted[goal.success] == 8).all()
    assert goal.success.any()
    for strange in (["?"] * some.sum(), np.full(some.sum(), 77)):
        with pytest.raises(ValueError, match=r"labels must be among the model's classes .*; got ('\?'|77)\.$"):
            attack(model, z, strange)


def linear(x):
    weights = np.random.default_rng(5).normal(size=(16, 3))
    return (x - 0.5).reshape(len(x), -1) @ weights


def test_a_method_is_taken_by_name_and_its_probes_count():
    images = np.random.default_rng(0).random((4, 4, 4)).astype(np.float32)
    asked = []

    def counting(x):
        asked.append(len(x))
        return linear(x)

    res = attack(counting, images, None, method="gfm", radius=0.4, max_queries=200)
    assert res.queries.sum() == sum(asked)
    assert res.queries.max() <= 200
    assert res.success.any()
    default = attack(linear, images, None, radius=0.4, max_queries=200)
    named = attack(linear, images, None, method="sign averaging", radius=0.4, max_queries=200)
    np.testing.assert_array_equal(named.x, default.x)


def test_one_target_for_all_leaves_images_of_that_class_alone():
    images = np.random.default_rng(0).random((12, 4, 4)).astype(np.float32)
    labels = linear(images).argmax(axis=1)
    goal = int(np.bincount(labels).argmax())
    res = attack(linear, images, labels, targets=goal, radius=0.5, max_queries=500)
    there = labels == goal
    assert 0 < there.sum() < 12
    np.testing.assert_array_equal(res.misclassified, there)
    np.testing.assert_array_equal(res.queries[there], 1)
    np.testing.assert_array_equal(res.predicted[res.success], goal)
    assert res.success.sum() > 0
    assert not res.success[there].any()
