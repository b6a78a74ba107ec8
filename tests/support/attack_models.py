"""Small models in NumPy for the tests of the attack, with a counter of their own, and an attack on them."""

import numpy as np

from goldstein.attack import attack


class Linear:
    """Scores A·x of 6×6 images in three classes; each row is computed by itself, so batches cannot matter."""

    shape = (6, 6)

    def __init__(self, seed=0, **faults):
        self.weights = np.random.default_rng(seed).normal(size=(3, 36))
        self.rows = 0
        self.batches = []
        self.seen = []
        self.faults = faults

    def scores(self, x):
        flat = np.asarray(x, np.float64).reshape(len(x), -1) - 0.5
        return np.einsum("kd,cd->kc", flat, self.weights) + 0.3 * np.einsum("kd,cd->kc", flat**2, self.weights[::-1])

    def __call__(self, x):
        assert x.dtype == np.float32
        assert x.shape[1:] == self.shape
        self.rows += len(x)
        self.batches.append(len(x))
        self.seen.append(x.copy())
        out = self.scores(x)
        if "after" in self.faults and self.rows > self.faults["after"]:
            return self.faults["answer"](out)
        return out


def images(n, seed=1, shape=(6, 6)):
    return np.random.default_rng(seed).random((n, *shape)).astype(np.float32)


def labels(model, x):
    return model.scores(x).argmax(axis=1)


SOME = images(30)


def run(model=None, x=SOME, **keys):
    model = model or Linear()
    y = labels(model, x)
    return attack(model, x, y, **{"radius": 0.1, "max_queries": 300, **keys}), model, y


def explode(scores):
    raise ConnectionError("the line is dead")
