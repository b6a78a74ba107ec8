"""What a run leaves to look at: its page, its pictures, and what it says when it is printed."""

import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import goldstein as gs
from goldstein import report
from goldstein.report.chart import WIDTH, Axis, Chart, Line, Point, short

jinja2 = pytest.importorskip("jinja2")

EVIL = "<script>alert('x')</script>"


def noisy(x, seed):
    return abs(x - 1).sum() + np.random.default_rng(seed).normal()


def absolute(x):
    return abs(x - 1).sum()


@pytest.fixture(scope="module")
def simulated():
    return gs.minimize(gs.Seeded(noisy), np.zeros(5), max_evals=2000, rng=7, stationarity=(0.1, 0.5))


@pytest.fixture(scope="module")
def exact():
    return gs.minimize(absolute, np.zeros(5), max_evals=1000, rng=0)


def page_of(res, tmp_path):
    return res.report(tmp_path / "run.html").read_text(encoding="utf-8")


class Reader(HTMLParser):
    """Takes a page apart: its tags with their attributes, and its text."""

    VOID = frozenset({"meta", "link", "br", "circle", "path", "img"})

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.text = ""
        self.open = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.text += f" {data}"


def test_the_page_tells_what_happened(simulated, tmp_path):
    said = " ".join(Reader(page_of(simulated, tmp_path)).text.split())
    assert f"{simulated.nfev:,}" in said
    assert simulated.message in said
    assert simulated.stationarity.message in said
    assert simulated.history.choices[0].sentence in said
    for name, version in simulated.versions.items():
        assert f"{name} {version}" in " ".join(said.split())
    assert "seed 7" in said
    assert "max_evals 2000" in said
    assert "0.95" in said  # the confidence of the interval
    assert "No evaluation failed" in said  # failed
    assert 'journal="run.journal"' in said


def test_the_page_is_small_whole_and_asks_nobody_for_anything(simulated, exact, tmp_path):
    for res in (simulated, exact):
        page = page_of(res, tmp_path)
        assert len(page.encode()) < 50_000
        reader = Reader(page)
        assert reader.open == []
        assert not {"script", "iframe", "img"} & {tag for tag, _ in reader.tags}
        places = [attrs[name] for _, attrs in reader.tags for name in ("src", "href") if name in attrs]
        assert places == ["data:,"]
        assert "url(" not in page
        assert "@import" not in page


def test_the_page_of_a_long_run_in_many_variables_is_small_too(tmp_path):
    res = gs.minimize(absolute, np.zeros(5000), gs.GFM(0.1, 0.01), max_iter=3000, rng=0)
    assert len(res.history.nfev) > 100
    assert len(page_of(res, tmp_path).encode()) < 50_000


def test_texts_of_users_are_escaped(simulated, tmp_path):
    res = gs.Result(simulated)
    res.message = EVIL * 200
    res.settings = {"function": EVIL, "journal": EVIL, EVIL: EVIL}
    res.history.choices.append(type(res.history.choices[0])(3, EVIL))
    try:
        page = page_of(res, tmp_path)
    finally:
        res.history.choices.pop()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
    assert len(page.encode()) < 50_000
    assert "<script" not in res._repr_html_()


def test_the_page_can_be_read_by_everybody(simulated, tmp_path):
    reader = Reader(page_of(simulated, tmp_path))
    tags = [tag for tag, _ in reader.tags]
    assert ("html", {"lang": "en"}) in reader.tags
    assert tags.count("main") == tags.count("h1") == 1
    assert tags.count("title") == 1 + tags.count("svg")
    pictures = [attrs for tag, attrs in reader.tags if tag == "svg"]
    ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
    assert len(pictures) == 3  # values, gradient norm, step
    assert len(ids) == len(set(ids))
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set(attrs["aria-labelledby"].split()) <= set(ids)
    assert all(attrs.get("scope") in ("row", "col") for tag, attrs in reader.tags if tag == "th")


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_contrast_suffices_in_light_and_dark(simulated, tmp_path):
    page = page_of(simulated, tmp_path)
    themes = re.findall(r":root\{([^}]*)\}", page)
    assert len(themes) == 2
    assert "prefers-color-scheme:dark" in page
    for theme in themes:
        colours = dict(re.findall(r"--(\w+):(#\w+)", theme))
        colours["paper"] = colours["paper"] if len(colours["paper"]) == 7 else "#ffffff"
        for name in ("ink", "soft", "main", "point"):
            for ground in ("paper", "code"):
                bright, dim = sorted((luminance(colours[name]), luminance(colours[ground])), reverse=True)
                assert (bright + 0.05) / (dim + 0.05) > 4.5, (name, ground, theme)


def test_a_run_with_failures_and_a_journal_says_how_to_go_on(tmp_path):
    def fails(x, seed):
        return np.nan if np.random.default_rng(seed).random() < 0.2 else abs(x).sum()

    journal = tmp_path / "a run.journal"
    res = gs.minimize(gs.Seeded(fails), np.ones(3), gs.GFM(0.1, 0.01), max_evals=500, rng=0, journal=journal)
    said = " ".join(Reader(page_of(res, tmp_path)).text.split())
    assert f"{res.nfail} of 500 evaluations failed" in said
    assert "failed evaluations so far" in said
    assert f"goldstein resume '{journal}' --with my_module:my_function" in said
    assert "--max-evals 1000" in said


def test_a_function_in_a_module_is_named_in_the_command():
    res = gs.minimize(absolute, np.zeros(2), max_evals=200, rng=0)
    res.settings["journal"] = "run.journal"
    commands = [command for _, command in report.summary_of(res).next_steps]
    assert commands[0] == f"goldstein resume run.journal --with {__name__}:absolute"
    assert commands[1].endswith("--max-evals 400 --extend")  # auto plans its steps for the budget


def test_a_run_that_was_interrupted_at_once_has_a_page(tmp_path):
    def stop(x):
        raise KeyboardInterrupt

    res = gs.minimize(stop, np.zeros(2), max_evals=100)
    assert res.status is gs.Status.INTERRUPTED
    assert "Interrupted" in page_of(res, tmp_path)
    assert "Interrupted" in repr(res)


def test_a_place_that_cannot_be_written_or_is_none_is_refused(exact, tmp_path):
    with pytest.raises(TypeError, match="path must be a path, got int"):
        exact.report(3)
    with pytest.raises(FileNotFoundError):
        exact.report(tmp_path / "no" / "run.html")


def test_without_the_extra_one_sentence_names_it(exact, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"^A report needs jinja2: pip install 'goldstein\[report\]'\.$"):
        exact.report(tmp_path / "run.html")
    assert "f(x)" in repr(exact)
    assert "<svg" in exact._repr_html_()


# Printing


def test_printing_shows_first_what_a_person_wants_to_know(simulated, exact):
    lines = str(simulated).splitlines()
    assert [line.split(":")[0].strip() for line in lines[:5]] == ["f(x)", "evaluations", "iterations", "ended", "x"]
    assert re.search(r"f\(x\): -?\d+\.\d+ ± 0\.\d\d \(standard error\)$", lines[0])
    assert "MAX_EVALS" in lines[3]
    assert lines[3].endswith("MAX_EVALS, evaluation budget used")
    assert "supported" in str(simulated)
    assert str(exact).splitlines()[0].endswith("(exact)")
    assert max(map(len, lines)) <= 120
    assert exact.fun == exact["fun"]  # it is a scipy result as before
    assert {"x", "fun", "plot", "report"} <= set(dir(exact))


def test_a_report_is_html(exact):
    with pytest.raises(ValueError, match=r"A report is a page in HTML: give it a name such as run.html, got 'a.pdf'"):
        exact.report("a.pdf")


def test_the_answer_can_be_copied_from_the_page(exact):
    assert report.summary_of(exact).x == str(exact.x.tolist())


def test_a_value_is_called_exact_only_if_it_is():
    assert "(exact)" not in str(gs.minimize(absolute, np.zeros(2), max_evals=1, rng=0))
    flat = gs.minimize(gs.Seeded(lambda x, seed: 3.0), np.zeros(2), max_evals=300, rng=0)
    assert "3 ± 0: all values agree" in str(flat)
    failed = gs.minimize(lambda x: np.nan, np.zeros(2), max_evals=30, rng=0)
    assert "unknown: every evaluation failed" in str(failed)


def test_the_notebook_form_is_a_table_and_a_picture(simulated):
    said = simulated._repr_html_()
    reader = Reader(said)
    assert reader.open == []
    assert "<table" in said
    assert "<svg" in said
    assert simulated.message in reader.text


def test_settings_are_what_was_given_and_nothing_else(exact, simulated):
    assert exact.settings == {
        "oracle": "Deterministic",
        "function": f"{__name__}:absolute",
        "x0": "[0.0, 0.0, 0.0, 0.0, 0.0]",
        "seed": "0",
        "max_evals": 1000,
    }
    assert simulated.settings["oracle"] == "Seeded"
    rng = np.random.default_rng(0)
    drawn = gs.minimize(lambda x: abs(x).sum() + 1e-3 * rng.normal(), np.ones(2), max_evals=200, rng=rng)
    assert drawn.settings["oracle"] == "Unreplayable"
    assert drawn.settings["seed"] == "a generator of the caller"
    assert "cannot be repeated" in gs.minimize(absolute, [0.0], max_evals=50).settings["seed"]


# Charts


def test_axes_have_round_numbers_and_few_of_them():
    assert Axis(0.0, 100.0, 0, 1, False).ticks() == [0, 20, 40, 60, 80, 100]
    assert Axis(-0.3, 0.31, 0, 1, False).ticks() == pytest.approx([-0.2, 0, 0.2])
    assert Axis(-3.0, 2.0, 0, 1, True).ticks() == pytest.approx([1e-3, 1e-2, 0.1, 1, 10, 100])
    assert Axis(0.0, 1.0, 0, 1, True).ticks() == pytest.approx([1, 2, 5, 10])
    assert len(Axis(-15.0, 5.0, 0, 1, True).ticks()) <= 8
    assert [short(value) for value in (0, 999, 1500, 2e6, 3e9)] == ["0", "999", "1.5k", "2M", "3G"]


def places(svg, look):
    (path,) = re.findall(rf'class="{look}" d="([^"]*)"', svg)
    return [tuple(map(float, place.split())) for place in re.findall(r"[ML]([\d.]+ [\d.]+)", path)]


def chart(x, y, **more):
    return Chart("values", "words", [Line(np.asarray(x, float), np.asarray(y, float), "y")], **more).svg("k")


def test_a_curve_goes_through_the_right_places():
    drawn = places(chart([0, 50, 100], [0, 5, 10]), "main")
    assert drawn[0] == (64.0, 260.0)
    assert drawn[1] == (384.0, 136.0)
    assert drawn[2] == (WIDTH - 16.0, 12.0)


def test_positive_values_of_many_sizes_are_drawn_on_a_logarithmic_axis():
    heights = [y for _, y in places(chart([0, 1, 2], [1e-4, 1e-2, 1.0]), "main")]
    assert heights == pytest.approx([260, 136, 12])
    heights = [y for _, y in places(chart([0, 1, 2, 3], [0.0, 1e-4, 1e-2, 1.0]), "main")]
    assert heights == pytest.approx([260, 260, 136, 12])  # 0 has no logarithm, and a place nevertheless


def test_gaps_constants_and_nothing_at_all_can_be_drawn():
    assert 'd="M64.0 260.0M704.0 12.0"' in chart([0, 1, 2], [0, np.nan, 10])
    assert places(chart([0, 1], [3, 3]), "main")[0][1] == 136.0
    assert 'class="main" d=""' in chart([], [])
    assert "nan" not in chart([0, 1], [np.nan, np.inf], point=Point(1.0, np.nan, np.nan, "answer"))


def test_wild_first_values_do_not_press_the_rest_flat():
    y = np.concatenate([[-1e6, 1e6], np.linspace(-1, -2, 98)])
    drawn = places(chart(np.arange(100), y), "main")
    assert drawn[1][1] == 12.0  # at the edge
    assert drawn[-1][1] - drawn[30][1] > 150


def test_the_page_works_where_only_the_core_and_jinja_are(tmp_path):
    """No other optional package is imported for it."""
    program = (
        "import sys\n"
        "for name in ('matplotlib', 'rich', 'typer', 'sklearn', 'torch'): sys.modules[name] = None\n"
        "import goldstein as gs\n"
        "gs.minimize(lambda x: abs(x).sum(), [1.0, 2.0], max_evals=100, rng=0).report('run.html')\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
    assert (tmp_path / "run.html").stat().st_size > 1000


EXTREMES = [
    [np.inf, 1.0, np.inf],
    [5e-324, 0.0, 5e-324],
    [0.0, 1e-323, 5e-324],
    [1e308, -1e308, 1.7e308],
    [-1.7e308, 1.7e308, 0.0],
    [1.7e308, 1.7e308, 1.7e308],
    [5e-324, 1.0, 1.7e308],
]


@pytest.mark.parametrize("values", EXTREMES, ids=str)
@pytest.mark.parametrize("error", [0.0, 5e-324, 1e308, np.inf])
def test_numbers_at_the_edge_of_floats_can_be_drawn(values, error):
    drawn = chart([0, 1, 2], values, point=Point(2.0, values[-1], error, "answer"))
    assert "nan" not in drawn
    assert "inf" not in drawn


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.inf,
        lambda x: 5e-324 if x[0] > 1 else 0.0,
        lambda x: 1e308 * float(np.tanh(x).sum()),
        lambda x: -1e308 if x[0] < 1 else 1e308,
    ],
    ids=["inf", "5e-324", "1e308", "jump"],
)
@pytest.mark.parametrize("kind", [gs.Deterministic, gs.Unreplayable])
def test_runs_at_the_edge_of_floats_have_their_report(f, kind, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = gs.minimize(kind(f), np.ones(2), gs.GFM(0.1, 0.01), max_evals=100, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "<svg" in res._repr_html_() or not np.isfinite(res.fun)
        res.report(tmp_path / "run.html")
        res.plot(tmp_path / "run.png")
