"""What an attack makes of a model's scores: their unit, their tolerance, and what is no score at all."""

import numpy as np
import pytest
from attack_models import SOME, Linear, explode, images, run
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from goldstein.attack import attack
from goldstein.attack.loss import log_scores, margins, sure


def test_probabilities_are_as_good_as_logits():
    class Softmax(Linear):
        def __call__(self, x):
            z = np.exp(super().__call__(x))
            return z / z.sum(axis=1, keepdims=True)

    logits, _, _ = run()
    softmax, _, _ = run(Softmax(), outputs="probabilities")
    np.testing.assert_array_equal(logits.success, softmax.success)
    with pytest.raises(ValueError, match="add up to 1"):
        run(outputs="probabilities")
    with pytest.warns(RuntimeWarning, match='look like probabilities .* give outputs="probabilities"') as caught:
        run(Softmax())
    assert len(caught) == 1
    assert caught[0].filename.endswith("attack_models.py")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_end_only_their_image(bad):
    class Sick(Linear):
        def __call__(self, x):
            out = super().__call__(x)
            out[(np.abs(x - SOME[4]) <= 0.1 + 1e-6).all(axis=(1, 2)), 1] = bad
            return out

    res, model, _ = run(Sick())
    well, _, _ = run()
    assert list(res.errors) == [4]
    assert "not finite" in res.errors[4]
    assert not res.success[4]
    others = np.arange(30) != 4
    np.testing.assert_array_equal(res.x[others], well.x[others])
    assert res.queries.sum() == model.rows


@pytest.mark.parametrize(
    ("answer", "kind", "sentence"),
    [
        (lambda s: s[:-1], ValueError, r"scores of shape \(50, classes\) for 50 images, got shape \(49, 3\)"),
        (lambda s: s[:, 0], ValueError, r"got shape \(50,\)"),
        (lambda s: s[:, :2], ValueError, "2 classes, after 3 before"),
        (lambda s: "sorry", TypeError, "must return an array of scores, got str"),
        (explode, ConnectionError, "the line is dead"),
    ],
)
def test_a_model_that_breaks_is_a_clear_error_with_the_results_so_far(answer, kind, sentence):
    model = Linear(after=200, answer=answer)
    x = images(100)
    with pytest.raises(kind, match=sentence) as caught:
        run(model, x, chunk=50)
    res = caught.value.result
    well, _, _ = run(x=x)
    kept = np.array([index not in res.errors for index in range(100)])
    assert 5 <= kept.sum() < 95
    np.testing.assert_array_equal(res.x[kept], well.x[kept])
    np.testing.assert_array_equal(res.success[kept], well.success[kept])
    assert not res.success[~kept].any()
    assert res.queries.sum() == model.rows == 250
    assert (np.abs(res.x - x) <= 0.1).all()


def test_without_labels_only_scores_that_matter_must_be_finite():
    """−∞ for a class that is never chosen is no failure, wherever the class stands."""

    class Closed(Linear):
        def scores(self, x):
            return np.concatenate([super().scores(x), np.full((len(x), 1), -np.inf)], axis=1)

    res = attack(Closed(), SOME, None, radius=0.1, max_queries=100)
    assert not res.errors
    assert res.success.any()
    broken = attack(lambda x: np.full((len(x), 3), np.nan), SOME[:2], None)
    assert broken.errors[0] == "The model returned scores that are not finite, for the original image."
    assert list(broken.errors) == [0, 1]
    assert (broken.labels == -1).all()


class Scaled(Linear):
    """The same classes, with scores in another unit."""

    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def scores(self, x):
        return super().scores(x) * self.scale


@pytest.mark.parametrize("scale", [1e-30, 1e-5, 1.0, 1e6])
def test_the_unit_of_the_scores_does_not_matter_to_success(scale):
    res, model, y = run(Scaled(scale), margin=4.0 * scale)
    assert res.success.mean() > 0.7
    np.testing.assert_array_equal(model.scores(res.x).argmax(axis=1) != y, res.success)


def test_the_margin_is_the_lead_of_the_label_or_what_the_target_lacks():
    z = np.array([[3.0, 1.0, 0.0]])
    assert margins(z, np.array([0])).tolist() == [2.0]
    assert margins(z, np.array([0]), np.array([2])).tolist() == [3.0]


@settings(max_examples=300, deadline=None)
@given(arrays(np.float64, (5, 3), elements=st.floats(-100.0, 100.0)), st.integers(0, 2), st.booleans())
def test_the_tolerance_of_ordinary_scores_is_one_in_ten_thousand_exactly(z, label, targeted):
    z[:, 0] = np.where(np.abs(z).max(axis=1) < 1, 1.0, z[:, 0])
    labels, targets = np.full(5, label), np.full(5, (label + 1) % 3) if targeted else None
    values = margins(z, labels, targets)
    np.testing.assert_array_equal(sure(values, z, labels, targets), values < -1e-4)


@pytest.mark.parametrize(
    ("row", "certain"),
    [
        ([0.5, 0.50004, 0.0], False),
        ([0.5, 0.50006, 0.0], True),
        ([0.5, 0.50006, -3.0], False),
        ([1e-5, 1.2e-5, 0.0], True),
        ([5000.0, 5000.004, 0.0], False),  # float32 has steps of 0.0005 there, and sums are worse
        ([5000.0, 5000.006, 0.0], True),
        ([0.5, 0.6, -1e9], True),  # a class that is masked
        ([0.5, 0.6, -np.inf], True),
        ([-np.inf, 0.5, 0.0], False),
        ([np.nan, 0.5, 0.0], False),
    ],
)
def test_what_is_sure(row, certain):
    z, label = np.array([[3.0, 1.0, 0.0], row]), np.array([0, 0])
    assert sure(margins(z, label), z, label).tolist() == [False, certain]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_probabilities_that_are_not_finite_end_only_their_image(bad):
    class Sick(Linear):
        def __call__(self, x):
            z = np.exp(super().__call__(x))
            out = z / z.sum(axis=1, keepdims=True)
            out[(np.abs(x - SOME[4]) <= 0.1 + 1e-6).all(axis=(1, 2)), 1] = bad
            return out

    res, _, _ = run(Sick(), outputs="probabilities")
    assert list(res.errors) == [4]
    assert res.success.mean() > 0.6
    with pytest.raises(ValueError, match=r"got \[0.5 0.6\]"):
        log_scores(np.array([[bad, 0.5], [0.5, 0.6]]), "probabilities")


def test_complex_scores_are_refused():
    with pytest.raises(TypeError, match="real scores, got complex ones"):
        run(Linear(after=0, answer=lambda s: s + 0j))
