"""Pages of the site in a real browser: wide and narrow, light and dark, nothing on the console, nothing in the way.

Run by `make browser`, which builds the site first. Needs Chromium (`apt install chromium`; another place in CHROMIUM),
the package playwright, and axe-core, whose `axe.min.js` the make target puts into `out/browser`. Screenshots are left
in `out/browser`.
"""

import os
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.sync_api")

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "out" / "docs"
SHOTS = ROOT / "out" / "browser"
AXE = SHOTS / "node_modules" / "axe-core" / "axe.min.js"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or ""
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PAGES = [
    "index",
    "theory",
    "examples/plot_stationarity",
    "api/generated/goldstein.minimize",
    "methods",
    "examples/index",
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
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_sound_in_a_browser(page, width, scheme, browser, address):
    wide, high = WIDTHS[width]
    context = browser.new_context(viewport={"width": wide, "height": high}, color_scheme=scheme)
    tab = context.new_page()
    said = []
    asked = []
    tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{address}/{page}.html", wait_until="networkidle")
    SHOTS.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=SHOTS / f"{page.replace('/', '-')}-{width}-{scheme}.png")
    assert tab.locator("html").get_attribute("data-theme") == scheme
    assert said == []
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    room = tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert room[0] <= room[1], f"the page is {room[0]} wide in a window of {room[1]}"
    tab.add_script_tag(path=str(AXE))
    found = tab.evaluate("async () => (await axe.run()).violations")
    serious = [
        f"{one['id']}: {one['help']}: {one['nodes'][0]['html'][:200]} ({len(one['nodes'])} places)"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == [], "\n".join(serious)
    context.close()


def test_mathematics_is_set(browser, address):
    tab = browser.new_page()
    tab.goto(f"{address}/theory.html", wait_until="networkidle")
    tab.wait_for_selector("mjx-container svg")
    assert tab.locator("mjx-container").count() > 50
    assert tab.locator("mjx-merror").count() == 0
    tab.close()
