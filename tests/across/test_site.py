"""The site, as far as it can be judged without building it; `make docs` builds it and looks at what came out."""

import contextlib
import importlib
import inspect
import io
import re
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest

import goldstein as gs

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
GALLERY = sorted((DOCS / "gallery").glob("plot_*.py"))
OPTIONAL = {"numba", "sklearn", "torch", "simopt"}
# Pages whose programs are run from top to bottom, and pages with programs that a reader saves as files of their own.
GUIDES = ["quickstart", "objective", "noise", "stationarity"]
RECIPES = ["add-a-method", "add-an-oracle", "add-a-step-rule"]
PROGRAM = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def documented():
    """Return what has a page in the reference: full name -> object."""
    names = {}
    for page in sorted((DOCS / "api").glob("*.md")):
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.removeprefix(".. currentmodule:: ")
            elif re.fullmatch(r"   \w+", line):
                names[f"{module}.{line.strip()}"] = (module, line.strip())
    return names


NAMES = documented()


def found(full):
    module, name = NAMES[full]
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if error.name and error.name.split(".")[0] in OPTIONAL:
            pytest.skip(f"{full} needs {error.name}")
        raise


def described(thing, section="Parameters"):
    """Return the names in a section of a docstring; None without that section."""
    pattern = rf"^{section}\n-+\n(.*?)(?=^\w[^\n]*\n-{{3,}}$|\Z)"
    text = re.search(pattern, inspect.getdoc(thing) or "", re.MULTILINE | re.DOTALL)
    if text is None:
        return None
    heads = [line.split(":")[0] for line in text.group(1).splitlines() if re.match(r"\S", line)]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def taken(thing):
    """Return the names that a call takes."""
    return {name for name in inspect.signature(thing).parameters if name not in ("self", "cls")}


# Made by the library or by SimOpt; and d and ball of problems are explained once, on their page.
NOT_CALLED = {"goldstein.Result", "goldstein.ManyResults", "goldstein.Status", "goldstein.projection.Projection"}
NOT_CALLED |= {"goldstein.Oracle", "goldstein.methods.Run", "goldstein.run.history.History"}
NOT_CALLED |= {"goldstein.simopt.Simulation", "goldstein.simopt.Goldstein"}


@pytest.mark.parametrize("full", [full for full in NAMES if full not in NOT_CALLED])
def test_docstrings_describe_the_parameters_that_are_there(full):
    thing = found(full)
    words = described(thing)
    if words is None and is_dataclass(thing):
        assert taken(thing) <= set().union(*(described(kind, "Attributes") or () for kind in thing.__mro__))
    elif words is None:
        alike = {"d", "ball"} if full.startswith("goldstein.problems.") else set()
        assert taken(thing) <= alike, f"{full} takes {taken(thing)} and describes none of them"
    else:
        assert words == taken(thing)


@pytest.mark.parametrize("full", [full for full in NAMES if not full.startswith("goldstein.problems.")])
def test_methods_of_classes_describe_their_parameters(full):
    thing = found(full)
    if not inspect.isclass(thing):
        return
    for name, member in vars(thing).items():
        if not name.startswith("_") and inspect.isfunction(member) and described(member) is not None:
            assert described(member) == taken(member), f"{full}.{name}"


@pytest.mark.parametrize(
    "module", ["goldstein", "goldstein.theory", "goldstein.problems", "goldstein.attack", "goldstein.stationarity"]
)
def test_every_public_name_has_a_page(module):
    shown = {name for _, name in NAMES.values()}
    public = {
        name
        for name in importlib.import_module(module).__all__
        if not inspect.ismodule(getattr(importlib.import_module(module), name)) and not name.isupper()
    }
    methods = {name for name in gs.__all__ if name.isupper()}
    assert public | (methods if module == "goldstein" else set()) <= shown


def test_every_page_of_the_reference_is_in_its_contents():
    index = (DOCS / "api" / "index.md").read_text(encoding="utf-8")
    pages = {page.stem for page in (DOCS / "api").glob("*.md")} - {"index"}
    assert set(contents(index)) == pages


def contents(text):
    """Return the entries of the tables of contents of a page."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    return [line.strip() for tree in trees for line in tree.splitlines() if line.strip() and not line.startswith(":")]


def test_every_page_is_in_a_table_of_contents_and_every_entry_is_a_page():
    listed = {DOCS / "index"}
    for page in PAGES:
        for entry in contents(page.read_text(encoding="utf-8")):
            target = page.parent / entry
            assert entry == "examples/index" or target.with_suffix(".md").exists(), f"{page.name} lists {entry}"
            listed.add(target)
    assert {page.with_suffix("") for page in PAGES} <= listed


def slugs(text):
    """Return the anchors of a page, made of its headings as MyST and GitHub make them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(text):
    """Return the targets of the links of a page that lead to something in the repository."""
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    targets = re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", prose)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


REPORTS = sorted((ROOT / "results").rglob("*.md"))
TEXTS = [*PAGES, *REPORTS, ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_link_inside_is_broken(page):
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path)
        if path.startswith("examples/"):
            made = path.removeprefix("examples/")
            assert made == "index" or (DOCS / "gallery" / f"{made}.py").exists(), f"{page.name}: {link}"
            continue
        assert target.exists(), f"{page.name}: {link}"
        if anchor:
            assert anchor in slugs(target.read_text(encoding="utf-8")), f"{page.name}: {link}"


def test_every_report_is_a_page_of_the_site():
    for report in REPORTS:
        page = DOCS / report.relative_to(ROOT)
        (included,) = re.findall(r"```{include} (\S+)", page.read_text(encoding="utf-8"))
        assert (page.parent / included).resolve() == report


# A page, what it says, the report that it is about, and what that must hold.
SAID = [
    ("peers", "154 of 192 cases (80 %), and first in 130", "peers/table", "all: 154 of 192 cells (80%), first in 130"),
    ("peers", "on 20 of 21", "peers/table", "1,000·(d + 1) values: 20 of 21 cells"),
    ("peers", "2.0e-03; pycma's is 1.7e-01", "peers/table", "on all functions: auto 2.0e-03, pycma 1.7e-01"),
    ("peers", "25 of 31 cases, first in 24", "peers/table", "Noise replayable: 25 of 31 cells (81%), first in 24."),
    ("benchmarks", "2.3 to 2.4 times", "benchmarks", "F, and writing its points | 0.327 | 2.38 |"),
    ("benchmarks", "a journal 2 % or less", "benchmarks", "| gfm | 2,000 | 2.343 | 2.298 | 1.02 |"),
    ("bars", "44 of 44", "bars", "All 44 targets are met."),
    ("bars", "19 of 19", "defaults", "The default meets 19 of 19 targets."),
    ("reproduction", "lower on 2 of 6", "svm/table", "it is lower on 2 of 6, level on 4 and higher on 0 than GFM"),
    ("reproduction", "lower than GFM on 1 of 6", "svm/table", "it is lower on 1 of 6, level on 1 and higher on 4"),
    ("reproduction", "scatter more on 5", "svm/table", "on 4 of 6 for GFM+ and on 1 with m > 1"),
    ("reproduction", "Tuning always chose m = 1", "svm/table", "and no recursion, on 6 of 6."),
    ("reproduction", "about three times", "svm/table", "the median ratio is 3."),
    ("reproduction", "on all six sets, close to", "svm/table", "by two standard errors on 6.\n- Component"),
    ("reproduction", "With a tenth of", "svm/table", "tuned, at the whole budget on 6 of 6"),
    ("reproduction", "against GFM on 5 of 6", "svm/table", "below tuned GFM at the whole budget on 5 of 6"),
    ("reproduction", "on all six sets when", "svm/table", "counted as it charges, is lower on 6 of 6"),
    ("reproduction", "92.5 % and 97.3 %", "attack/table", "92.5 (91–94) | 97.3 (96–98)"),
    ("attack", "92.5 % of the images within 500", "attack/table", "| 77.4 (75–80) | 92.5 (91–94) |"),
    ("attack", "66.0 % (86.4 %", "attack/table", "| 28.8 (26–32) | 66.0 (63–69) |"),
    ("attack", "(86.4 %", "attack/table", "| 56.0 (53–59) | 86.4 (84–88) |"),
    ("methods", "92 of 92 met their target", "scaling/scaling", "92 of 92 plans met their target"),
    ("benchmarks", "900,000 pairs a second", "benchmarks", "| compiled GFM | 1.083 | 923,775 |"),
    ("benchmarks", "35,000", "benchmarks", "| straightforward NumPy script | 28.455 | 35,144 |"),
    ("benchmarks", "about 4,000", "benchmarks", "| plain loop, batch 1 | 245.836 | 4,068 |"),
    ("benchmarks", "about 180,000", "benchmarks", "| plain loop, batch 100 | 5.474 | 182,682 |"),
    ("benchmarks", "SepCMA takes 4 times", "benchmarks", "| cmaes SepCMA | 58.0 | 4.0 |"),
    ("benchmarks", "pycma 8", "benchmarks", "| pycma, diagonal | 111.6 | 7.7 |"),
    ("benchmarks", "nevergrad's SPSA 32", "benchmarks", "| nevergrad SPSA | 462.8 | 31.9 |"),
    ("benchmarks", "ours takes 7", "benchmarks", "| goldstein GFM, batch 1 | 100.0 | 6.9 |"),
    ("benchmarks", "15 µs an evaluation", "benchmarks", "| goldstein GFM, batch 100 | 14.5 | 1.0 |"),
    (
        "benchmarks",
        "5 vectors of length d (GFM) or 8",
        "benchmarks",
        "| gfm | 10,000,000 | 5.0 |\n| gfm+ | 10,000,000 | 8.0 |",
    ),
    ("benchmarks", "Dask 3.1", "benchmarks", "| Dask | 50 | 3.13 |"),
    ("benchmarks", "3.7 to 4.0", "benchmarks", "| Ray | 50 | 3.69 |"),
]


@pytest.mark.parametrize(("page", "said", "report", "held"), SAID, ids=[f"{row[0]}: {row[1]}" for row in SAID])
def test_the_numbers_of_a_page_are_those_of_its_report(page, said, report, held):
    prose = " ".join((DOCS / f"{page}.md").read_text(encoding="utf-8").split())
    assert said in prose
    assert held in (ROOT / "results" / f"{report}.md").read_text(encoding="utf-8")


def test_mathematics_is_set_by_a_file_of_our_own():
    conf = (DOCS / "conf.py").read_text(encoding="utf-8")
    (path,) = re.findall(r'mathjax_path = "([^"]+)"', conf)
    script = DOCS / "_static" / path
    assert script.stat().st_size > 1_000_000
    assert "Apache License" in (script.parent / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GUIDES)
def test_the_programs_of_a_guide_run_and_print_what_the_page_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {"__name__": "guide"}
    for program, expected in PROGRAM.findall((DOCS / f"{name}.md").read_text(encoding="utf-8")):
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                exec(compile(program, f"{name}.md", "exec"), scope)
        except ImportError as error:
            if error.name not in OPTIONAL:
                raise
            continue
        assert not expected or printed.getvalue() == expected


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_works_when_its_programs_are_saved_and_run(name, tmp_path):
    programs = PROGRAM.findall((DOCS / f"{name}.md").read_text(encoding="utf-8"))
    assert programs
    for program, expected in programs:
        file = tmp_path / "program.py"
        file.write_text(program, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        assert expected
        assert done.stdout == expected


def test_theory_names_functions_and_tests_that_are_there():
    rows = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", (DOCS / "theory.md").read_text(encoding="utf-8"))
    assert len(rows) >= 16
    for file, names in rows:
        path = ROOT / "tests" / file if Path(file).name.startswith("test_") else ROOT / "src" / "goldstein" / file
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"\w+", names):
            assert re.search(rf"(def|class) {name}\b", text), f"{name} is not in {file}"


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_an_example_of_the_gallery_has_a_title_a_story_and_a_picture(path):
    text = path.read_text(encoding="utf-8")
    title, rule, story = re.match(r'r?"""\n(.+)\n(=+)\n\n(.+?)"""', text, re.DOTALL).groups()
    assert len(title) == len(rule)
    assert len(story) > 100
    assert "plt.subplots" in text or "plt.figure" in text
    compile(text, path.name, "exec")


def test_the_gallery_shows_every_case():
    assert {path.stem.removeprefix("plot_") for path in GALLERY} == {
        "attack",
        "cartpole",
        "cvar",
        "inventory",
        "own_method",
        "queue",
        "robust_regression",
        "stationarity",
        "svm",
    }
