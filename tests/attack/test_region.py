"""The allowed images: exact as NumPy evaluates it, in single and double precision."""

import numpy as np
import pytest
from attack_models import Linear
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize as scipy_minimize

from goldstein.attack import attack
from goldstein.attack.region import Region
from goldstein.attack.tiles import CoarseToFine

unit = st.floats(0.0, 1.0, allow_subnormal=True)
single = arrays(np.float32, 12, elements=st.floats(0.0, 1.0, width=32))
double = arrays(np.float64, 12, elements=unit)
points = arrays(np.float64, (4, 12), elements=st.floats(-3.0, 3.0))

RANGES = [(0.0, 0.1), (1 / 3, 2 / 3), (-1.0, 1.0), (0.0, 255.0), (-1e4, 1e4), (-1e300, np.inf), (-np.inf, np.inf)]


@st.composite
def originals(draw):
    """An original with its range: float32 or float64, of one pixel to many, often at the ends."""
    low, high = draw(st.sampled_from(RANGES))
    size, kind = draw(st.sampled_from([1, 2, 12, 300])), draw(st.sampled_from([np.float32, np.float64]))
    least, most = max(low, -1e4), min(high, 1e4)
    seed = draw(st.integers(0, 2**32 - 1))
    share = np.random.default_rng(seed).uniform(-0.2, 1.2, size)
    z = np.clip(least + (most - least) * share, least, most).astype(kind)
    return z, (low, high), seed


@settings(max_examples=300, deadline=None)
@given(originals(), st.sampled_from(["linf", "l2"]), st.floats(1e-9, 1e3))
@example((np.array([0.5, 1 / 3, 2 / 3]), (1 / 3, 2 / 3), 0), "l2", 1.2e-7)  # at ends that float32 does not have
def test_rows_and_start_are_allowed_exactly_in_any_range(original, norm, radius):
    z, (low, high), seed = original
    try:
        region = Region(z, norm, radius, (low, high))
    except ValueError:
        assert radius < np.sqrt(z.size) * np.spacing(np.float32(np.abs(z).max()))  # less than float32 can tell
        return
    rng = np.random.default_rng(seed + 1)
    far = z + rng.normal(size=(3, z.size)) * radius * np.array([[0.1], [1.0], [1e3]])
    same = z + rng.choice([-2, 2], (1, 1)) * radius * np.ones((1, z.size))
    rows = region.rows(np.concatenate([far, same, z[None].astype(float)]))
    assert rows.dtype == region.start.dtype == np.float32
    np.testing.assert_array_equal(rows[-1], region.start)
    length = np.linalg.norm if norm == "l2" else lambda change: np.abs(change).max()
    for row in rows:
        assert length(row - z) <= np.float64(radius)
        assert length(row.astype(float) - z.astype(float)) <= radius
    assert rows.min() >= np.float64(low)
    assert rows.max() <= np.float64(high)


@settings(max_examples=100, deadline=None)
@given(single, st.sampled_from(["linf", "l2"]), st.floats(1e-9, 2.0))
def test_a_float32_image_starts_as_it_is_to_the_sign_of_zero(z, norm, radius):
    assert Region(z, norm, radius, (0.0, 1.0)).start.tobytes() == z.tobytes()


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1e4, 1e4), (-np.inf, np.inf)])
@pytest.mark.parametrize(("size", "least"), [(12, 0.9999), (784, 0.9999), (786_432, 0.99)])
def test_the_l2_ball_is_neither_left_nor_shrunk(size, least, bounds):
    z, radius = np.full(size, 0.5, np.float32), 1.3 if size == 12 else 5.0
    signs = np.where(np.arange(size) % 3 == 0, -1.0, 1.0)
    for row in Region(z, "l2", radius, bounds).rows(z + np.array([[1.0], [0.4]]) * np.stack([np.ones(size), signs])):
        assert np.linalg.norm(row - z) <= radius
        assert np.linalg.norm((row - z)[None], axis=1)[0] <= radius
        assert least * radius <= np.linalg.norm(row.astype(float) - z) <= radius


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_an_original_without_a_float32_image_near_it_is_refused(norm):
    for z, radius, bounds in (
        (np.array([0.3, 0.1]), 1e-12, (0.0, 1.0)),
        (np.array([1e4 + 1e-4]), 1e-5, (-np.inf, np.inf)),
        (np.array([1e300]), 1.0, (-np.inf, np.inf)),
        (np.array([0.1]), 0.1, (0.1, 0.1 + 1e-12)),
    ):
        with pytest.raises(ValueError, match="No float32 image lies within"):
            Region(z, norm, radius, bounds)
    assert Region(np.array([0.3, 0.1], np.float32), norm, 1e-12, (0.0, 1.0)).start.dtype == np.float32


@settings(max_examples=300, deadline=None)
@given(st.one_of(single, double), points, st.floats(1e-6, 1.5))
def test_linf_rows_are_within_the_radius_and_in_range_exactly(z, x, radius):
    rows = Region(z, "linf", radius, (0.0, 1.0)).rows(x)
    assert rows.dtype == np.float32
    assert (np.abs(rows - z) <= radius).all()
    assert (np.abs(rows - z) <= np.float64(radius)).all()  # float32 differences against the double radius
    assert (np.abs(rows.astype(float) - z.astype(float)) <= radius).all()
    assert rows.min() >= 0
    assert rows.max() <= 1


@settings(max_examples=300, deadline=None)
@given(st.one_of(single, double), points, st.floats(1e-3, 2.0))
def test_l2_rows_are_within_the_radius_and_in_range(z, x, radius):
    rows = Region(z, "l2", radius, (0.0, 1.0)).rows(x)
    for row in rows:
        assert np.linalg.norm(row - z) <= radius
        assert np.linalg.norm(row.astype(float) - z.astype(float)) <= radius
    assert rows.min() >= 0
    assert rows.max() <= 1


@settings(max_examples=100, deadline=None)
@given(single, points, st.sampled_from(["linf", "l2"]), st.floats(1e-3, 2.0))
def test_projecting_twice_is_projecting_once(z, x, norm, radius):
    region = Region(z, norm, radius, (0.0, 1.0))
    once = region.rows(x)
    np.testing.assert_array_equal(region.rows(np.stack([region(row) for row in x])), once)


@settings(max_examples=200, deadline=None)
@given(single, st.floats(1e-3, 1.0))
def test_the_bounds_are_not_too_tight(z, radius):
    region = Region(z, "linf", radius, (0.0, 1.0))
    exact = np.minimum(z.astype(float) + radius, 1.0)
    assert (exact - region.upper <= 2e-7).all()
    assert (region.lower - np.maximum(z.astype(float) - radius, 0.0) <= 2e-7).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_l2_projection_is_the_nearest_allowed_image(seed):
    rng = np.random.default_rng(seed)
    z, x, radius = rng.random(6), rng.normal(size=6) * 2, 0.6
    ours = Region(z, "l2", radius, (0.0, 1.0))(x)
    theirs = scipy_minimize(
        lambda y: ((y - x) ** 2).sum(),
        z,
        jac=lambda y: 2 * (y - x),
        bounds=[(0, 1)] * 6,
        constraints={"type": "ineq", "fun": lambda y: radius**2 - ((y - z) ** 2).sum()},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 200},
    ).x
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_pixel_that_the_radius_brings_to_the_edge():
    z = np.array([51 / 255, 204 / 255], np.float32)  # 0.2 and 0.8, as far as float32 has them
    rows = Region(z, "linf", 0.2, (0.0, 1.0)).rows(np.array([[-5.0, 5.0]]))
    assert (np.abs(rows - z) <= np.float64(0.2)).all()
    np.testing.assert_allclose(rows, [[0.0, 1.0]], atol=1e-7)


def test_other_ranges():
    z = np.array([-1.0, 0.0, 0.95], np.float32)
    rows = Region(z, "linf", 0.1, (-1.0, 1.0)).rows(np.array([[-5.0, -5.0, 5.0]]))
    np.testing.assert_allclose(rows, [[-1.0, -0.1, 1.0]], atol=1e-7)


@pytest.mark.parametrize("bounds", [(0.0, 0.1), (0.1, 1.0)])
def test_images_that_were_not_begun_lie_within_bounds_that_float32_does_not_have(bounds):
    x = np.full((3, 2, 2), 0.1, np.float32)  # a little above 0.1
    with pytest.raises(ZeroDivisionError) as caught:
        attack(lambda rows: 1 / 0, x, [0, 0, 0], radius=0.01, bounds=bounds, chunk=1)
    started = caught.value.result.x.astype(float)
    assert started.min() >= bounds[0]
    assert started.max() <= bounds[1]


def test_an_image_without_any_allowed_one_is_refused_before_the_first_query():
    x = np.full((40, 6, 6), 0.05, np.float32)
    x[39] = 0.1
    model = Linear()
    with pytest.raises(ValueError, match="No float32 image lies within"):
        attack(model, x, np.zeros(40, int), radius=1e-12, bounds=(0.0, 0.1), chunk=8)
    assert not model.seen


@pytest.mark.parametrize("group", [1, 3, 8])
def test_the_groups_of_a_search_cover_each_grid_in_every_round(group):
    tiles = CoarseToFine((12, 12), 16, 3, group)
    assert tiles.round == 1 + 4 + 16 + 64 + 144
    assert tiles.total == 3 * tiles.round
    edges, place = [], 0
    while place < tiles.total:
        assert 1 <= tiles.stop(place) - place <= group
        edges.append(place)
        place = tiles.stop(place)
    assert place == tiles.total
    starts = {base + start for base in (0, tiles.round, 2 * tiles.round) for start in (0, 1, 5, 21, 85)}
    assert starts <= set(edges)  # no group has tiles of two grids
    assert np.diff([edge for edge in edges if edge < tiles.round]).max() == min(group, 144 // 16)
