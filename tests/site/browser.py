"""Pages of the site, and a report, in a real browser: wide and narrow, light and dark, nothing wrong in any of them.

Run by `make browser`, which builds the site first. Needs Chromium (`apt install chromium`; another place in CHROMIUM),
the package playwright, and axe-core, whose `axe.min.js` the make target puts into `out/browser`, where screenshots are
left, too.
"""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import goldstein as gs

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "out" / "docs"
SHOTS = ROOT / "out" / "browser"
AXE = SHOTS / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAGES = [
    "index",
    "methods",
    "theory",
    "examples/index",
    "examples/plot_stationarity",
    "api/generated/goldstein.minimize",
]
WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}


class Silent(SimpleHTTPRequestHandler):
    """A server that does not tell of each request."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(BUILT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "no chromium was found; install it or give its place in CHROMIUM"
    SHOTS.mkdir(parents=True, exist_ok=True)
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


def looked_at(tab, place, name, scheme, width):
    """Go to a page, take its picture, and return what is wrong with it."""
    wrong = []
    tab.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(place, wait_until="networkidle")
    tab.screenshot(path=SHOTS / f"{name.replace('/', '-')}-{width}-{scheme}.png")
    home = place.split("/")[2]
    wrong += [f"{url} is fetched" for url in asked if home not in url and not url.startswith("data:")]
    wide = tab.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        wrong.append(f"the page is {wide} pixels wider than the window")
    tab.add_script_tag(path=str(AXE))
    for one in tab.evaluate("async () => (await axe.run()).violations"):
        if one["impact"] in ("serious", "critical"):
            wrong.append(f"{one['help']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)")
    return wrong


@pytest.fixture
def tab(browser, width, scheme):
    wide, high = WIDTHS[width]
    context = browser.new_context(viewport={"width": wide, "height": high}, color_scheme=scheme)
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_sound_in_a_browser(page, width, scheme, tab, address):
    assert looked_at(tab, f"{address}/{page}.html", page, scheme, width) == []
    assert tab.locator("html").get_attribute("data-theme") == scheme


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_is_sound_in_a_browser(width, scheme, tab, address):
    res = gs.minimize(noisy, np.full(3, 4.0), max_evals=3_000, rng=0, stationarity=(0.5, 0.5))
    res.report(BUILT / "report.html")
    wrong = looked_at(tab, f"{address}/report.html", "report", scheme, width)
    (BUILT / "report.html").unlink()
    assert wrong == []


noisy = gs.Seeded(lambda x, seed: float(np.abs(x - np.random.default_rng(seed).normal(1, 0.3, x.size)).sum()))


def test_mathematics_is_set(browser, address):
    tab = browser.new_page()
    tab.goto(f"{address}/theory.html", wait_until="networkidle")
    tab.wait_for_selector("mjx-container svg")
    assert tab.locator("mjx-container").count() > 50
    assert tab.locator("mjx-merror").count() == 0
    tab.close()
