"""Recipes: from what is sent in the place of points, the same points are made, bit for bit."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest

import goldstein as gs
from goldstein.estimate import stream as streams
from goldstein.estimate.smoothing import draw_ball, draw_sphere
from goldstein.estimate.stream import NORMAL, NUMBERS, UNIFORM, draw_rows
from goldstein.methods.cma import BlockCMA
from goldstein.projection import Box
from goldstein.run.drive import drive
from goldstein.run.session import Session
from goldstein.run.spec import RunSpec
from goldstein.state import BIT_GENERATORS

D = 7
DRAWN = {  # most of their points come from a random stream
    "sift": "sift",
    "two-point": "two-point",
    "gfm": "gfm",
    "gfm+": "gfm+",
    "ws-gfm": "ws-gfm",
    "zo-o2nc": "zo-o2nc",
    "GFM": gs.GFM(0.1, 0.01, 5),
    "GFM loo": gs.GFM(0.1, 0.01, 6, estimator="loo"),
    "GFMPlus": gs.GFMPlus(0.1, 0.01, 3, 4),
    "GFMPlus coin": gs.GFMPlus(0.1, 0.01, 3, 4, restart="coin"),
    "ZOO2NC": gs.ZOO2NC(0.5, 4, batch_size=3),
    "Sift": gs.Sift(1.0, batch_size=4),
    "Sift rho": gs.Sift(1.0, batch_size=3, rho=0.01, max_evals_per_sample=5),
    "O2NC sifted": gs.O2NC(0.5, 4, gradients="sift"),
    "SINGD sifted": gs.SINGD(0.5, 0.1, 3, gradients="sift"),
    "INGD sifted": gs.INGD(0.5, 0.1, gradients="sift"),
    "CuttingPlane sifted": gs.CuttingPlane(0.5, 0.1, gradients="sift"),
}
NOT_DRAWN = {
    "GFM orthogonal": gs.GFM(0.1, 0.01, 5, directions="orthogonal"),
    "BlockCMA": BlockCMA(),
    "BFGS": gs.BFGS(1.0),
}
METHODS = {"auto": "auto", **DRAWN, **NOT_DRAWN}
REFUSALS = ("needs exact values", "without constraints", "takes no set")

MATRIX = np.random.default_rng(1).normal(size=(20, D))
MATRIX[np.abs(MATRIX) < 0.8] = 0.0  # sparse components, many of which are flat
ORACLES = {
    "deterministic": gs.Deterministic(lambda X: np.abs(X - 0.3).sum(axis=1), vectorized=True),
    "finite sum": gs.FiniteSum(lambda X, i: np.maximum(0, (MATRIX[i] * X).sum(axis=1) - 0.2), 20, vectorized=True),
    "seeded": gs.Seeded(lambda x, seed: float(np.abs(x - np.random.default_rng(seed).normal(size=x.size)).sum())),
}
SCALES = {"unscaled": None, "scaled": 10.0 ** np.linspace(-1, 1, D) / 3}
BOXES = {
    "free": None,
    "box": Box(np.linspace(-1.1, -0.2, D), np.linspace(0.4, 1.9, D)),
    "interval": Box(-1.0, 1.0),
    "fixed": Box([-1.0] * (D - 2) + [0.3, -np.inf], [1.0] * (D - 2) + [0.3, np.inf]),
}


def same(one, other):
    return one.shape == other.shape and one.tobytes() == np.ascontiguousarray(other).tobytes()


class Checking:
    """Answers queries; the points of any chunk must be those that its recipe makes once it was sent."""

    def __init__(self, oracle):
        self.oracle = oracle
        self.started = 0
        self.repeated = 0
        self.n_values = 0
        self.made = 0
        self.rng = np.random.default_rng(0)

    def check_time(self):
        pass

    def __call__(self, query, known=(), log=None):
        self.n_values += len(query)
        if query.recipe is not None:
            assert len(query.recipe) == len(query)
            self.made += len(query)
            edges = [0, *np.sort(self.rng.integers(0, len(query) + 1, size=3)).tolist(), len(query)]
            self.compare(query, 0, len(query))
            for first, last in pairwise(edges):
                if first < last:
                    self.compare(query, first, last)
        return self.oracle.evaluate(query)

    def compare(self, query, first, last):
        chunk = query.rows(first, last)
        sent = pickle.loads(pickle.dumps(chunk.recipe))
        assert same(sent.points(), chunk.points)
        half = (last - first) // 2
        if half:  # a chunk of a chunk, as when the rows of a lost chunk are done one by one
            assert same(sent.rows(half, last - first).points(), chunk.points[half:])


@pytest.fixture
def always(monkeypatch):
    """However few numbers are drawn, it is kept where they stand."""
    monkeypatch.setattr(streams, "MANY", 0)


def run(method, oracle, scale=None, box=None, rng=3, evals=400, x0=None):
    x0 = np.full(D, 0.2) if x0 is None else x0
    spec = RunSpec(fun=oracle, x0=x0, method=method, max_evals=evals, projection=box, x_scale=scale)
    session = Session(spec, np.random.default_rng(rng))
    checking = Checking(oracle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return drive(session, checking), checking


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("name", METHODS)
def test_a_recipe_makes_the_points_that_were_asked_for(name, kind, scale, box, monkeypatch):
    """And nothing else of the run knows whether there are recipes."""
    try:
        plain, without = run(METHODS[name], ORACLES[kind], SCALES[scale], BOXES[box])
        monkeypatch.setattr(streams, "MANY", 0)
        res, checking = run(METHODS[name], ORACLES[kind], SCALES[scale], BOXES[box])
    except ValueError as error:
        if any(words in str(error) for words in REFUSALS):
            return
        raise
    assert same(res.x, plain.x)
    assert res.nfev == plain.nfev == checking.n_values
    assert without.made == 0
    if name in DRAWN:
        assert checking.made > 0.7 * checking.n_values
    if name in NOT_DRAWN:
        assert checking.made == 0


@pytest.mark.parametrize("d", [1, 1000, NUMBERS // 3, NUMBERS, NUMBERS + 1])
@pytest.mark.parametrize("kind", [NORMAL, UNIFORM])
@pytest.mark.parametrize("bits", BIT_GENERATORS)
@pytest.mark.usefixtures("always")
def test_any_rows_of_a_stream_can_be_drawn_again(bits, kind, d):
    rng = np.random.Generator(BIT_GENERATORS[bits](5))
    rng.integers(0, 10, dtype=np.int32)  # leaves half of a number in the generator
    at_once = np.random.Generator(BIT_GENERATORS[bits](5))
    at_once.integers(0, 10, dtype=np.int32)
    rows, stream = draw_rows(kind, rng, 23, d)
    assert same(rows, getattr(at_once, kind)((23, d)))
    assert rng.random() == at_once.random()
    for first, last in [(0, 23), (0, 1), (22, 23), (9, 17)]:
        assert same(stream.rows(first, last).numbers(), rows[first:last])
        assert same(stream.rows(first, 23).rows(0, last - first).numbers(), rows[first:last])
        assert same(stream.rows(0, last).rows(first, last).numbers(), rows[first:last])


def test_a_part_needs_one_state_of_the_generator():
    _, stream = draw_rows(NORMAL, np.random.default_rng(0), 500, 1000)
    assert len(pickle.dumps(stream.rows(100, 110))) - len(pickle.dumps(stream.rows(0, 0))) < 10
    assert len(stream.rows(100, 110).states) == 1


@pytest.mark.parametrize("draw", [draw_sphere, draw_ball])
@pytest.mark.usefixtures("always")
def test_a_generator_of_a_strange_kind_gives_no_recipe(draw):
    class Strange(np.random.PCG64):
        pass

    w, directions = draw(np.random.Generator(Strange(0)), 3, 4)
    assert directions is None
    assert same(w, draw(np.random.default_rng(0), 3, 4)[0])


@pytest.mark.usefixtures("always")
def test_a_direction_that_had_to_be_drawn_twice_gives_no_recipe():
    class Zero(np.random.Generator):
        zeros = 1

        def standard_normal(self, size=None, out=None):
            row = super().standard_normal(size, out=out)
            if self.zeros:
                row[0] = 0.0
                self.zeros = 0
            return row

    w, directions = draw_sphere(Zero(np.random.PCG64(0)), 2, 3)
    assert directions is None
    np.testing.assert_allclose(np.linalg.norm(w, axis=1), 1)


@pytest.mark.usefixtures("always")
def test_steps_that_machine_code_drew_are_sent_as_points():
    """Until they are drawn anew the plain way."""
    method = gs.Sift(1.0, batch_size=2)
    oracle = ORACLES["finite sum"]
    context = gs.methods.method.Context(np.random.default_rng(0), oracle.sample, max_evals=1000, n=20)
    state = method.init(np.full(D, 0.2), context)
    state.units = np.ones((2, D))
    state.resample = np.array([True, False])
    query = method.ask(state, context, None)
    assert query.recipe is None
    state.resample = np.array([True, True])
    assert method.ask(state, context, None).recipe is not None
