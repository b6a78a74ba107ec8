"""What `make docs` built: every page stands on its own, fetches nothing from elsewhere and leads nowhere wrong.

Run by `make docs` after the build, on `out/docs`; no part of `make test`, which does not build the site.
"""

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

BUILT = Path(__file__).parents[2] / "out" / "docs"
PAGES = sorted(path for path in BUILT.rglob("*.html") if "_static" not in path.parts)
GALLERY = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("plot_*.py"))
# What a browser fetches by itself, and not only when somebody clicks.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """What a page fetches, where it leads, and which places it has."""

    def __init__(self, path):
        super().__init__()
        self.fetched = []
        self.links = []
        self.places = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if given.get("id"):
            self.places.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        target = given.get(FETCHED.get(tag, ""))
        if target and given.get("rel") not in ("canonical", "author", "index", "search", "next", "prev"):
            self.fetched.append(target)


@cache
def read(path):
    return Page(path)


def test_the_site_is_there():
    assert (BUILT / "index.html").exists(), "run make docs first"
    assert len(PAGES) > 100


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(BUILT)))
def test_nothing_is_fetched_from_elsewhere(path):
    for target in read(path).fetched:
        assert not urlsplit(target).netloc, f"{target} is fetched from elsewhere"
        if not target.startswith("data:"):
            assert (path.parent / unquote(urlsplit(target).path)).exists(), f"{target} is not there"


@pytest.mark.parametrize("path", sorted(BUILT.rglob("*.css")), ids=lambda path: str(path.relative_to(BUILT)))
def test_no_style_fetches_a_font_or_a_picture_from_elsewhere(path):
    text = path.read_text(encoding="utf-8")
    assert "url(http" not in text
    assert "url(//" not in text
    assert '@import "http' not in text


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(BUILT)))
def test_no_link_inside_is_broken(path):
    for link in read(path).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
        assert target.exists(), f"{link} leads nowhere"
        if parts.fragment and target.suffix == ".html":
            assert unquote(parts.fragment) in read(target).places, f"{link}: there is no such place"


@pytest.mark.parametrize("name", [path.stem for path in GALLERY])
def test_every_example_of_the_gallery_ran_and_left_a_picture(name):
    text = (BUILT / "examples" / f"{name}.html").read_text(encoding="utf-8")
    assert "Total running time" in text
    assert f"sphx_glr_{name}_001.png" in text
