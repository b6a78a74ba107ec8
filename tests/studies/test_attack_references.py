"""What the attack study compares with: Square Attack, counted by our own counter, and PGD."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from studies.attack import references as attack_references
from tests.studies.test_attack import HEIGHT, problems
from tests.studies.test_lenet import bars


def test_a_row_that_is_asked_again_is_remembered_and_charged_once():
    seen = []

    def model(rows):  # class 1 when the image is light, else 0
        seen.append(len(rows))
        light = rows.mean(axis=(1, 2)) > 0.5
        return np.stack([~light, light], axis=1).astype(float)

    dark = np.random.default_rng(0).random((3, 1, 28, 28)).astype(np.float32) / 3
    memory = attack_references.Remembering(model, dark, np.zeros(3, int))
    assert memory(dark).argmax(axis=1).tolist() == [0, 0, 0]
    memory(dark)
    assert (memory.counted.queries.tolist(), memory.asked.tolist(), sum(seen)) == ([1, 1, 1], [2, 2, 2], 3)
    changed = dark.copy()
    changed[1] += 0.6
    assert memory(changed).argmax(axis=1).tolist() == [0, 1, 0]  # the second is won
    assert memory.counted.queries.tolist() == [1, 2, 1]
    memory(changed[[0, 2]] + 0.01)  # those that are still right
    memory(changed)
    assert (memory.counted.queries.tolist(), memory.asked.tolist()) == ([2, 2, 2], [5, 3, 5])
    assert sum(seen) == 6


@pytest.mark.skipif(not attack_references.has_art(), reason="the Adversarial Robustness Toolbox is not installed")
def test_square_attack_is_counted_and_bounded():
    (problem, _) = problems()
    images, labels = bars(12, 3, HEIGHT)
    labels[:2] = (labels[:2] + 1) % 10  # two that are wrong from the start
    rows, settings = [], {"radius": 0.2, "max_queries": 100, "seed": 0}

    def model(batch):
        rows.append(len(batch))
        return problem.model(batch)

    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, again = (attack_references.square(model, images, labels, **settings) for _ in range(2))
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002
    assert one == again
    assert sum(one["queries"]) * 2 <= sum(rows)
    wrong = problem.model(images).argmax(axis=1) != labels
    assert one["misclassified"] == wrong.astype(int).tolist()
    assert not any(np.array(one["success"]) & wrong)
    assert 0 < sum(one["success"]) < 10
    assert wrong.sum() == 2
    queries, asked = np.array(one["queries"]), np.array(one["asked"])
    assert (queries[wrong] == 1).all()
    assert queries.max() <= 100
    assert (asked >= queries).all()
    far = np.array(one["success"]) == 0
    assert queries[far & ~wrong].min() > 80  # it had about the whole budget


def test_a_row_that_comes_back_late_is_not_charged_again():
    images, labels = bars(2, 3)
    memory = attack_references.Remembering(
        lambda rows: np.eye(10)[labels[:1]].repeat(len(rows), axis=0), images, labels
    )
    memory.right[:] = True
    for shift in (*range(30), 0, 3, *range(30)):
        memory(np.clip(images + shift / 100, 0, 1))
    assert memory.counted.queries.tolist() == [30, 30]


def test_pgd_wins_with_a_large_radius_and_not_with_none():
    (problem, _) = problems()
    images, labels = bars(30, 5, HEIGHT)
    right = problem.model(images).argmax(axis=1) == labels
    images, labels = images[right], labels[right]
    assert len(labels)
    assert attack_references.pgd(problem.model, images, labels, radius=1e-6, steps=5) == [0] * len(labels)
    assert sum(attack_references.pgd(problem.model, images, labels, radius=0.9, steps=30)) > 0.9 * len(labels)
