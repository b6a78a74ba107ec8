"""The attack: what it counts, what it promises about its images, and what it does when the model fails."""

import tracemalloc

import numpy as np
import pytest
from attack_models import SOME, Linear, explode, images, labels, run

import goldstein as gs
from goldstein.attack import SignAveraging, attack

METHODS = {
    "default": None,
    "averaging": SignAveraging(search=None),
    "central": SignAveraging(search=None, estimator="central", batch_size=5),
    "gfm": gs.GFM(0.05, gs.steps.HalveOnPlateau(0.5), 5),
    "gfm+": gs.GFMPlus(0.05, 0.2, 5, 4),
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_images_that_are_allowed_and_wrong(name):
    res, model, y = run(method=METHODS[name])
    assert res.success.mean() > 0.7
    assert (np.abs(res.x - SOME) <= 0.1).all()
    assert res.x.min() >= 0
    assert res.x.max() <= 1
    wrong = model.scores(res.x).argmax(axis=1) != y
    np.testing.assert_array_equal(wrong, res.success)
    np.testing.assert_array_equal(model.scores(res.x).argmax(axis=1), res.predicted)


@pytest.mark.parametrize("queries", ["inside", "free"])
@pytest.mark.parametrize("max_queries", [1, 2, 3, 7, 50, 301])
@pytest.mark.parametrize("name", METHODS)
def test_no_row_beyond_the_budget_and_every_row_counted(name, max_queries, queries):
    res, model, _ = run(method=METHODS[name], max_queries=max_queries, radius=0.02, queries=queries)
    assert res.queries.max() <= max_queries
    assert res.queries.sum() == model.rows
    assert (res.queries_estimation < res.queries).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_budget_is_used_to_its_end_but_for_less_than_a_batch(name):
    res, _, _ = run(method=METHODS[name], max_queries=301, radius=1e-3)
    assert res.queries[~res.success].min() > 301 - 25


@pytest.mark.parametrize("name", METHODS)
def test_answers_do_not_depend_on_batches_order_or_company(name):
    res, _, y = run(method=METHODS[name], chunk=250)
    order = np.random.default_rng(0).permutation(len(SOME))
    for keys in ({"chunk": 1}, {"chunk": 7}, {"chunk": 4096}, {"at_once": 2}):
        other = attack(Linear(), SOME[order], y[order], method=METHODS[name], radius=0.1, max_queries=300, **keys)
        np.testing.assert_array_equal(other.x, res.x[order])
        np.testing.assert_array_equal(other.queries, res.queries[order])
        np.testing.assert_array_equal(other.queries_estimation, res.queries_estimation[order])
    alone = attack(Linear(), SOME[3:4], y[3:4], method=METHODS[name], radius=0.1, max_queries=300)
    np.testing.assert_array_equal(alone.x[0], res.x[3])


def test_the_seed_matters_to_methods_that_draw():
    one, two = (run(method=METHODS["averaging"], seed=seed)[0] for seed in (0, 1))
    assert not np.array_equal(one.x, two.x)


def test_batches_are_full_until_images_run_out():
    _, model, _ = run(x=images(200), chunk=16, max_queries=60)
    assert max(model.batches) == 16
    short = np.flatnonzero(np.array(model.batches) < 16)
    last = len(model.batches) - short[0]
    assert last < 0.35 * len(model.batches)  # images at the end of the line, with nobody left to fill up with
    assert model.batches[: short[0]] == [16] * short[0]


@pytest.mark.parametrize("name", ["zo-o2nc", *(name for name in METHODS if name != "default")])
def test_no_image_is_asked_twice(name):
    """Directions are drawn, so that a second time could only be a check of an iterate that was there before.

    Those that are constant on a few tiles may all lead out of the ball, and so back to the iterate.
    """
    model, method = Linear(), METHODS.get(name, gs.ZOO2NC(0.2, 5, batch_size=3, rho=0.1, displacement=0.02))
    run(model, SOME[:5], method=method, chunk=1000)
    rows = np.concatenate(model.seen).reshape(-1, 36)
    assert len(rows) > 100
    assert len(np.unique(rows, axis=0)) == len(rows)


@pytest.mark.parametrize("max_queries", [10, 30, 300])
@pytest.mark.parametrize("queries", ["inside", "free"])
def test_an_iterate_that_was_asked_for_is_a_success_where_it_is_one(queries, max_queries):
    """Pixels and radius are whole 64ths, so that free rows and allowed images are the same numbers."""
    x = (np.floor(64 * SOME) / 64).astype(np.float32)
    res, model, y = run(x=x, radius=0.125, max_queries=max_queries, queries=queries)
    assert res.success.any()
    np.testing.assert_array_equal(res.success, model.scores(res.x).argmax(axis=1) != y)


def test_misclassified_images_cost_one_query_and_are_reported_apart():
    model = Linear()
    y = labels(model, SOME)
    y[::3] = (y[::3] + 1) % 3
    res = attack(model, SOME, y, radius=0.1, max_queries=100)
    np.testing.assert_array_equal(np.flatnonzero(res.misclassified), np.arange(0, 30, 3))
    assert (res.queries[::3] == 1).all()
    assert not res.success[::3].any()
    np.testing.assert_array_equal(res.x[::3], SOME[::3])
    assert res.summary()["attacked"] == 20
    assert res.curve(100) == res.success.sum() / 20


def test_everything_misclassified_and_nothing_at_all():
    model = Linear()
    res = attack(model, SOME, (labels(model, SOME) + 1) % 3)
    assert res.misclassified.all()
    assert model.rows == 30
    assert np.isnan(res.curve([1, 10])).all()
    assert "0 of 0" in repr(res)
    none = attack(model, SOME[:0], [])
    assert none.summary()["images"] == 0


def test_targets_are_reached():
    model = Linear()
    y = labels(model, SOME)
    goals = (y + 1) % 3
    res = attack(model, SOME, y, targets=goals, radius=0.2, max_queries=500)
    assert res.success.mean() > 0.6
    said = model.scores(res.x).argmax(axis=1)
    np.testing.assert_array_equal(said[res.success], goals[res.success])
    assert (said[~res.success] != goals[~res.success]).all()


def test_l2_images_lie_in_the_ball():
    res, model, y = run(norm="l2", radius=0.4)
    assert res.success.mean() > 0.5
    assert (np.linalg.norm((res.x - SOME).reshape(30, -1), axis=1) <= 0.4).all()
    assert (model.scores(res.x).argmax(axis=1) != y)[res.success].all()
    assert res.x.min() >= 0
    assert res.x.max() <= 1


def test_rows_are_allowed_images_unless_they_are_free():
    method = gs.GFM(0.5, 0.5, 5)
    for queries, allowed in (("inside", True), ("free", False)):
        _, model, _ = run(x=SOME[:1], method=method, queries=queries)
        rows = np.concatenate(model.seen)
        assert bool((np.abs(rows - SOME[:1]) <= 0.1).all() and rows.min() >= 0 and rows.max() <= 1) is allowed


def test_curve_counts_by_both_conventions():
    res, _, _ = run(x=images(100))
    at = [0, 1, 5, 20, 100, 300]
    won = res.queries[res.success]
    np.testing.assert_allclose(res.curve(at), [np.sum(won <= q) / 100 for q in at])
    assert (res.curve(at, checks=False) >= res.curve(at)).all()
    assert res.summary()["median_queries"] == np.median(won)
    assert res.curve(300) == res.success.mean()


def test_progress_is_told():
    told = []
    run(progress=lambda done, n: told.append((done, n)))
    assert told == [(k, 30) for k in range(1, 31)]


@pytest.mark.parametrize("shape", [(6, 6), (1, 6, 6), (6, 6, 3), (3, 6, 6), (36,)])
def test_any_shape_of_image_and_its_contact_sheet(shape, tmp_path):
    pytest.importorskip("matplotlib")
    x = images(4, shape=shape)
    weights = np.random.default_rng(3).normal(size=(2, x[0].size))

    def model(batch):
        assert batch.shape[1:] == shape
        return (batch.reshape(len(batch), -1) - 0.5) @ weights.T

    res = attack(model, x, model(x).argmax(axis=1), radius=0.1, max_queries=400)
    assert res.success.any()
    path = res.contact_sheet(tmp_path / "sheet.png", 3)
    assert path.stat().st_size > 1000


WRONG = [
    ({"images": np.zeros((2, 6, 6), int)}, "floating point .* divide by 255 first"),
    ({"images": np.ones((2, 6, 6), np.uint8), "bounds": (0, 255)}, r"got uint8; give images.astype\(np.float32\)"),
    ({"images": np.full((2, 6, 6), 1.5)}, r"got \[1.5, 1.5\]; bounds=\(smallest, largest\) is another range"),
    ({"images": np.zeros(6)}, "must have the shape"),
    ({"images": np.full((2, 6, 6), 1.5)}, r"pixels in \[0, 1\], got \[1.5, 1.5\]"),
    ({"images": np.full((2, 6, 6), np.nan)}, r"pixels in \[0, 1\]"),
    ({"images": np.zeros((2, 0, 6))}, r"at least one pixel each, got shape \(2, 0, 6\)"),
    ({"images": SOME[0], "labels": [0]}, r"labels must be 6 whole numbers, .* one image, give images\[None\]"),
    ({"labels": [0]}, "labels must be 2 whole numbers"),
    ({"labels": [0.0, 1.0]}, "labels must be 2 whole numbers"),
    ({"labels": [0, -1]}, "classes from 0 on, got -1"),
    ({"labels": [0, 7]}, "3 classes, but there is a label or target 7"),
    ({"targets": [1, 2, 0]}, r"targets must be 2 whole numbers, got shape \(3,\)"),
    ({"targets": [0, 2]}, "target equals its image's label, at 0"),
    ({"norm": "l1"}, "norm must be one of linf, l2"),
    ({"outputs": "scores"}, "outputs must be one of"),
    ({"queries": "outside"}, "queries must be one of"),
    ({"radius": 0.0}, "radius must be a positive number, got 0.0"),
    ({"radius": "0.1"}, "radius must be a positive number, got '0.1'"),
    ({"max_queries": 0}, "max_queries must be a whole number of at least 1, got 0"),
    ({"chunk": 2.5}, "chunk must be a whole number"),
    ({"bounds": (1.0, 0.0)}, "bounds must be"),
    ({"bounds": None}, r"bounds must be \(smallest, largest\) pixel, got None"),
    ({"bounds": ("0", "1")}, r"bounds must be \(smallest, largest\) pixel, got \('0', '1'\)"),
    ({"method": "walk"}, r"Unknown method 'walk'; known are sign averaging, auto, two-point, .*gfm.*, cma\.$"),
    (
        {"labels": ["cat", "dog"]},
        r"labels must be 2 whole numbers, .*np.searchsorted\(classes, y\) makes them of names",
    ),
    ({"method": gs.SINGD(delta=0.5, p=20.0, q=20.0)}, "needs gradients"),
    ({"method": SignAveraging, "model": None}, "method must be a name or a method object"),
]


@pytest.mark.parametrize(("keys", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_bad_arguments_are_answered_before_the_model_is_asked(keys, sentence):
    model = Linear()
    given = {"images": SOME[:2], "labels": [0, 1], **{k: v for k, v in keys.items() if k != "model"}}
    with pytest.raises((TypeError, ValueError), match=sentence) as caught:
        attack(model, **given)
    assert str(caught.value).endswith(".")
    assert model.rows == (2 if "7" in sentence else 0)


@pytest.mark.parametrize("targeted", [False, True])
def test_without_labels_the_first_query_gives_them(targeted):
    model = Linear()
    y = labels(model, SOME)
    keys = {"targets": (y + 1) % 3 if targeted else None, "radius": 0.1, "max_queries": 100}
    known, found = attack(Linear(), SOME, y, **keys), attack(model, SOME, None, **keys)
    for name in ("x", "success", "misclassified", "queries", "queries_estimation", "predicted", "labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(known, name))
    assert found.success.any()
    assert not found.misclassified.any()
    assert found.queries.max() <= 100
    assert found.queries.sum() == model.rows


def test_without_labels_an_image_at_its_target_ends_after_one_query():
    model = Linear()
    there = labels(model, SOME) == 0
    res = attack(model, SOME, None, targets=0, radius=0.2, max_queries=300)
    np.testing.assert_array_equal(res.misclassified, there)
    assert (res.queries[there] == 1).all()
    np.testing.assert_array_equal(res.x[there], SOME[there])
    assert not res.success[there].any()
    assert res.success[~there].any()
    assert res.summary()["attacked"] == (~there).sum()
    assert res.queries.sum() == model.rows


@pytest.mark.parametrize("first", [True, False])
def test_a_warm_start_may_contain_the_default_method(first):
    phases = (SignAveraging(), METHODS["gfm"]) if first else (METHODS["gfm"], SignAveraging())
    res, _, _ = run(method=gs.WarmStart(*phases, iterations=3))
    assert res.success.mean() > 0.6
    assert (np.abs(res.x - SOME) <= 0.1).all()


def test_as_a_second_phase_the_default_method_goes_to_corners_of_the_ball_around_the_original():
    model, shape = Linear(), (6, 6)
    seen = []

    def watched(x):
        seen.append(x.copy())
        return model(x)

    x = images(1)
    second = SignAveraging(search=None, delta=1e-7)
    method = gs.WarmStart(gs.GFM(0.01, 1e-3, 5), second, iterations=2)
    attack(watched, x, labels(model, x), method=method, radius=0.01, max_queries=200, bounds=(-9.0, 9.0))
    last = np.concatenate(seen)[-1].reshape(shape)
    np.testing.assert_allclose(np.abs(last - x[0]), 0.01, atol=1e-5)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_images_that_are_not_attacked_are_within_bounds_too(norm):
    x = np.full((4, 6, 6), 0.1)  # the nearest float32 number lies above
    y = (labels(Linear(), x) + 1) % 3
    res = attack(Linear(), x, y, norm=norm, radius=0.01, bounds=(0.0, 0.1))
    assert res.misclassified.all()
    assert res.x.max() <= np.float64(0.1)
    with pytest.raises(ConnectionError) as caught:
        attack(Linear(after=0, answer=explode), x, y, norm=norm, radius=0.01, bounds=(0.0, 0.1), chunk=1)
    assert caught.value.result.x.max() <= np.float64(0.1)
    model = Linear()
    with pytest.raises(ValueError, match="No float32 image lies within 1e-12"):
        attack(model, x, y, norm=norm, radius=1e-12)
    assert model.rows == 0


@pytest.mark.parametrize("shape", [(6, 6), (6, 6, 3)])
@pytest.mark.parametrize("bounds", [(0.0, 255.0), (-1.0, 1.0), (-np.inf, np.inf)])
def test_a_contact_sheet_shows_the_range_and_leaves_the_backend(shape, bounds, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    low, high = bounds if np.isfinite(bounds[0]) else (-40.0, 70.0)
    x = np.linspace(low, high, int(np.prod(shape)), dtype=np.float32).reshape(1, *shape)
    before = matplotlib.get_backend(auto_select=False)
    res = attack(lambda x: np.stack([np.full(len(x), 2.0), np.zeros(len(x))], axis=1), x, [1], bounds=bounds)
    shown = imread(res.contact_sheet(tmp_path / "sheet.png"))[..., :3]
    assert matplotlib.get_backend(auto_select=False) == before
    for gray in (0.2, 0.5, 0.8):  # dark, middle and light areas, not only ink
        assert (np.abs(shown - gray).max(axis=-1) < 0.15).mean() > 0.015


def test_few_images_hold_the_rows_of_a_query_at_a_time():
    model, x = Linear(), images(40, seed=3)
    y = labels(model, x)
    one = 2 * 500 * 36 * 8  # bytes of the points of a query
    tracemalloc.start()
    attack(model.scores, x, y, method=gs.GFM(0.01, 1e-6, 500), radius=0.01, max_queries=2_002, chunk=50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * one


def test_no_method_is_offered_that_an_attack_refuses():
    with pytest.raises(ValueError, match="Unknown method") as caught:
        attack(Linear(), SOME[:2], [0, 1], method="walk")
    names = str(caught.value).split("known are ")[1].rstrip(".").split(", ")
    assert "cutting-plane" not in names
    for name in names:
        attack(Linear(), SOME[:2], None, method=name, radius=0.01, max_queries=150)


def targets_of_all_kinds():
    yield "list", [2]
    yield "array", np.array([2])
    yield "number", np.array(2)
    try:
        import torch
    except ImportError:
        return
    yield "tensor", torch.tensor(2)


@pytest.mark.parametrize("given", [pytest.param(each, id=name) for name, each in targets_of_all_kinds()])
def test_one_target_for_all_is_one_however_it_is_given(given):
    y = labels(Linear(), SOME)
    assert (y == 2).any()
    plain, other = (attack(Linear(), SOME, y, targets=goal, radius=0.1, max_queries=50) for goal in (2, given))
    np.testing.assert_array_equal(plain.x, other.x)
    np.testing.assert_array_equal(other.at_target, y == 2)
    with pytest.raises(ValueError, match="target equals its image's label, at 0"):
        attack(Linear(), SOME[:1], y[:1], targets=y[:1])


def test_images_at_their_target_are_not_called_wrong():
    y = labels(Linear(), SOME)
    there = int((y == 0).sum())
    wrong = y.copy()
    wrong[np.flatnonzero(y == 1)[:2]] = 2
    res = attack(Linear(), SOME, wrong, targets=0, radius=0.1, max_queries=50)
    assert f"2 more were misclassified before, {there} more were at their target" in repr(res)
    assert (res.summary()["misclassified"], res.summary()["at_target"]) == (there + 2, there)
    assert "target" not in repr(attack(Linear(), SOME, y, radius=0.1, max_queries=50))


@pytest.fixture
def titles(monkeypatch):
    """The titles of the pictures that are drawn."""
    axes = pytest.importorskip("matplotlib.axes").Axes
    said = []
    before = axes.set_title
    monkeypatch.setattr(axes, "set_title", lambda self, text, **keys: (said.append(text), before(self, text, **keys)))
    return said


def test_a_contact_sheet_says_why_an_image_was_not_won(titles, tmp_path):
    y = labels(Linear(), SOME)
    wrong = y.copy()
    wrong[np.flatnonzero(y == 1)[0]] = 2
    attack(Linear(), SOME, wrong, targets=0, radius=1e-4, max_queries=3).contact_sheet(tmp_path / "sheet.png", 30)
    outcomes = titles[1::2]
    assert outcomes.count("at target") == (y == 0).sum()
    assert outcomes.count("wrong before") == 1
    assert outcomes.count("not won") == (y != 0).sum() - 1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("shape", [(6, 6), (6, 6, 3)])
def test_the_footer_of_a_contact_sheet_is_not_cut_off(count, shape, tmp_path):
    imread = pytest.importorskip("matplotlib.image").imread
    x = images(count, shape=shape)
    model = lambda x: np.stack([x.mean(axis=tuple(range(1, x.ndim))), 0 * x[:, 0].ravel()[: len(x)]], axis=1)  # noqa: E731
    shown = imread(attack(model, x, None, radius=0.01, max_queries=2).contact_sheet(tmp_path / "sheet.png"))[..., :3]
    assert (shown[:, [0, 1, -2, -1]] == 1).all()
    assert (shown[[0, -1]] == 1).all()


@pytest.mark.parametrize("count", [0, -1, "5", 2.0])
def test_a_contact_sheet_shows_a_number_of_images(count, tmp_path):
    pytest.importorskip("matplotlib")
    res, _, _ = run(max_queries=2)
    with pytest.raises((TypeError, ValueError), match="count must be a whole number of at least 1"):
        res.contact_sheet(tmp_path / "sheet.png", count)
    with pytest.raises(ValueError, match=r"cannot be drawn as sheet.xyz; known suffixes are .*png"):
        res.contact_sheet(tmp_path / "sheet.xyz")


def test_flat_images_are_drawn_as_squares_or_not_at_all(tmp_path, monkeypatch):
    axes = pytest.importorskip("matplotlib.axes").Axes
    drawn = []
    before = axes.imshow
    monkeypatch.setattr(axes, "imshow", lambda self, x, **keys: (drawn.append(x.shape), before(self, x, **keys))[1])
    for pixels in (36, 35):
        x = images(2, shape=(pixels,))
        res = attack(lambda x: x[:, :2], x, None, radius=0.01, max_queries=2)
        if pixels == 36:
            res.contact_sheet(tmp_path / "sheet.png")
            assert set(drawn) == {(6, 6)}
        else:
            with pytest.raises(ValueError, match=r"needs images of shape \(h, w\), .* got \(35,\): reshape"):
                res.contact_sheet(tmp_path / "sheet.png")
