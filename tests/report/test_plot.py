"""Pictures of runs: what is on them, and that they harm nothing."""

import sys

import numpy as np
import pytest

import goldstein as gs
from goldstein import plot
from goldstein.attack import attack

matplotlib = pytest.importorskip("matplotlib")
Figure = pytest.importorskip("matplotlib.figure").Figure
PolyCollection = pytest.importorskip("matplotlib.collections").PolyCollection


def noisy(x, seed):
    return abs(x - 1).sum() + np.random.default_rng(seed).normal()


@pytest.fixture(scope="module")
def runs():
    return gs.minimize_many(gs.Seeded(noisy), np.zeros(3), seeds=4, max_evals=600, workers=1)


@pytest.fixture(scope="module")
def others():
    return gs.minimize_many(gs.Seeded(noisy), np.zeros(3), gs.GFM(0.1, 0.01), seeds=3, max_evals=600, workers=1)


@pytest.fixture
def axes():
    return Figure().subplots()


def named(axes):
    return [line for line in axes.get_lines() if not line.get_label().startswith("_")]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_run_and_many_runs_go_to_files(runs, tmp_path, suffix):
    before = matplotlib.get_backend()
    figures = sys.modules.get("matplotlib.pyplot")
    open_before = list(figures.get_fignums()) if figures else []
    for what, name in ((runs, "many"), (runs[0], "one")):
        path = tmp_path / f"{name}.{suffix}"
        drawn = what.plot(path)
        assert path.stat().st_size > 1000
        assert drawn.get_xlabel().startswith("evaluations")
    assert matplotlib.get_backend() == before
    assert (list(figures.get_fignums()) if figures else []) == open_before


def test_several_methods_share_a_picture_and_can_be_told_apart_without_colours(runs, others, axes):
    assert runs.plot(axes=axes) is axes
    others.plot(axes=axes)
    others.plot(axes=axes, label="mine")
    curves = named(axes)
    assert [line.get_label() for line in curves] == ["auto", "gfm", "mine"]
    assert len({line.get_color() for line in curves}) == 3
    assert len({line.get_linestyle() for line in curves}) == 3
    assert len({line.get_marker() for line in curves}) == 3


def test_the_band_lies_within_the_data_and_so_on_a_logarithmic_axis(axes):
    nfev = np.tile(np.arange(5.0), (4, 1))
    values = np.array([[1e-6], [1e-3], [1.0], [1e3]]) * np.ones(5)
    plot.band(axes, nfev, values, "wild")
    (area,) = axes.collections
    heights = area.get_paths()[0].vertices[:, 1]
    assert heights.min() >= 1e-6
    assert heights.max() <= 1e3


@pytest.mark.parametrize(
    ("values", "scale"),
    [([5.0, 4.0, 3.0], "linear"), ([1.0, 1e-3, 1e-6], "log"), ([5.0, -1.0, -2.0], "linear"), ([1e4, 1.0, 0.0], "log")],
)
def test_the_axis_is_logarithmic_where_that_shows_more(values, scale, tmp_path, monkeypatch):
    drawn = [Figure().subplots()]
    monkeypatch.setattr(plot, "new_axes", lambda path: drawn[0])
    plot.curves({"one": (np.arange(3.0), np.array(values))}, tmp_path / "one.png", title="", ylabel="y")  # a single run
    assert drawn[0].get_yscale() == scale


def test_large_numbers_of_evaluations_are_written_short(axes):
    plot.band(axes, np.array([0.0, 1e5, 2e5]), np.array([3.0, 2.0, 1.0]), "a")
    plot._finish(axes, "y", None)
    axes.figure.canvas.draw()
    assert axes.xaxis.get_offset_text().get_text() == ""
    assert "100k" in [text.get_text() for text in axes.get_xticklabels()]


def test_runs_of_different_length_and_with_failures_are_drawn(axes):
    nfev = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, np.nan]])
    values = np.array([[3.0, np.nan, 1.0], [3.0, 2.0, np.nan]])
    plot.band(axes, nfev, values, "a")
    (curve,) = named(axes)
    assert np.isfinite(curve.get_ydata()).all()
    plot.band(axes, nfev, np.full((2, 3), np.nan), "nothing")
    assert len(named(axes)) == 1


def test_a_monitor_is_what_is_drawn(axes):
    res = gs.minimize(lambda x: abs(x).sum(), np.ones(2), max_evals=200, rng=0, monitor=lambda x: 7.0)
    res.plot(axes=axes)
    assert axes.get_ylabel() == "monitor"
    assert set(named(axes)[0].get_ydata()) == {7.0}


def test_a_noisy_run_has_a_band_and_an_exact_one_has_none(runs):
    drawn = [Figure().subplots(), Figure().subplots()]
    runs[0].plot(axes=drawn[0])
    gs.minimize(lambda x: abs(x).sum(), np.ones(2), max_evals=200, rng=0).plot(axes=drawn[1])
    bands = [[one for one in axes.collections if isinstance(one, PolyCollection)] for axes in drawn]
    assert [len(there) for there in bands] == [1, 0]


def test_an_exact_run_shows_the_lowest_value_so_far_and_the_answer():
    axes = Figure().subplots()
    res = gs.minimize(lambda x: abs(x).sum(), np.ones(2), max_evals=300, rng=0)
    res.plot(axes=axes)
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["auto, lowest so far", "answer"]
    (lowest,) = (line for line in axes.get_lines() if line.get_label() == names[0])
    assert (np.diff(lowest.get_ydata()) <= 0).all()


@pytest.mark.parametrize("evals", [1, 2, 3])
def test_a_run_of_few_evaluations_can_be_drawn(evals, tmp_path):
    gs.minimize(lambda x: abs(x).sum(), np.ones(2), max_evals=evals, rng=0).plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 1000


def test_axes_in_the_place_of_a_path_are_answered_in_a_sentence(runs):
    with pytest.raises(TypeError, match="path must be a path, got Axes; what to draw into is given as axes="):
        runs[0].plot(Figure().subplots())


def test_without_the_extra_one_sentence_names_it(runs, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for path in (None, tmp_path / "a.png"):
        with pytest.raises(ImportError, match=r"^A picture needs matplotlib: pip install 'goldstein\[plot\]'\.$"):
            runs.plot(path)
    result = attack(lambda x: np.zeros((len(x), 2)), np.zeros((1, 2, 2)), None, max_queries=2)
    with pytest.raises(ImportError, match=r"^A contact sheet needs matplotlib: pip install 'goldstein\[plot\]'\.$"):
        result.contact_sheet(tmp_path / "a.png")


@pytest.mark.parametrize(("shape", "legend"), [((1, 4, 4), "red is brighter"), ((3, 4, 4), "gray is no change")])
def test_a_contact_sheet_says_what_its_colours_mean(shape, legend, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(Figure, "supxlabel", lambda self, text, **_: said.append(text))
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(np.prod(shape), 2))
    images = rng.random((3, *shape))
    result = attack(lambda x: x.reshape(len(x), -1) @ weights, images, None, radius=0.5, max_queries=50)
    result.contact_sheet(tmp_path / "sheet.png")
    assert legend in said[0]
