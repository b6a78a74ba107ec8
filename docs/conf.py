"""How Sphinx makes the site; `make docs` runs it. Nothing on the pages is fetched from elsewhere."""

import importlib
import inspect
import re
import warnings
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

import goldstein as gs

ROOT = Path(__file__).parent.parent

project = "goldstein"
author = "the authors of goldstein"
copyright = "the authors of goldstein; MIT licence"
version = release = gs.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
# Times of the gallery are on its pages; the table of them would fetch scripts from elsewhere.
exclude_patterns = ["gallery", "_static", "_templates", "sg_execution_times.rst", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
nitpicky = True

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4

mathjax_path = "mathjax/tex-svg-full.js"
mathjax3_config = {"options": {"enableMenu": False}}  # the menu would fetch its parts from elsewhere

autosummary_generate = True
autodoc_typehints = "none"  # types are in the docstrings, in words
autodoc_default_options = {"member-order": "bysource"}
numpydoc_show_class_members = False
# Properties that stand among the attributes of their class; numpydoc would have a page for each.
nitpick_ignore = [("py:obj", "x"), ("py:obj", "history"), ("py:obj", "guarantee")]

html_theme = "pydata_sphinx_theme"
html_title = "goldstein"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "goldstein"},
    "navbar_persistent": ["search-button"],  # its longer form has a label that is not its text
    "show_nav_level": 1,
    "navigation_depth": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": []}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "abort_on_example_error": False,
    "reference_url": {},
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
    "show_memory": False,
    "plot_gallery": "True",
}

# A gallery's figure is shown by Sphinx, not by a window.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def documented() -> dict[str, str]:
    """Return the names that have a page: as they are written in docstrings -> in full."""
    names: dict[str, str] = {}
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        module = "goldstein"
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.removeprefix(".. currentmodule:: ").strip()
            elif line.startswith("   ") and line.strip().isidentifier():
                full = f"{module}.{line.strip()}"
                names[full] = full
                names.setdefault(line.strip(), full)
    return names


NAMES = documented()


def name_role(role, rawtext, text, lineno, inliner, options=None, content=None):
    """Single backticks in a docstring: a link where the name has a page, code where it has none."""
    literal = nodes.literal(rawtext, text, classes=["code"])
    target = NAMES.get(text.removesuffix("(...)"))
    if target is None:
        return [literal], []
    kind = "class" if inspect.isclass(_found(target)) else "obj"
    reference = pending_xref(
        rawtext, literal, refdomain="py", reftype=kind, reftarget=target, refexplicit=True, refwarn=False
    )
    return [reference], []


def _found(full: str):
    module, name = full.rsplit(".", 1)
    return getattr(importlib.import_module(module), name)


default_role = "name"


def plain_signs(app, what, name, obj, options, lines):
    """Let |x| and x* in a docstring be what they are in mathematics; numpydoc comes after."""
    in_example = False
    for place, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            pieces = line.split("`")
            pieces[::2] = [piece.replace("|", r"\|").replace("*", r"\*") for piece in pieces[::2]]
            lines[place] = "`".join(pieces)


def shown_examples(app, docname, source):
    """Lead links to files of the gallery and of results/, which serve readers of the repository, to their pages."""
    source[0] = re.sub(r"\]\(\.\./results/([\w/]+)\.md\)", r"](results/\1.md)", source[0])
    source[0] = re.sub(r"\]\(gallery/(plot_\w+)\.py\)", r"](examples/\1)", source[0])
    source[0] = source[0].replace("](gallery/)", "](examples/index)")


def true_anchors(app, pagename, templatename, context, doctree):
    """Mend links from source to documentation: viewcode takes all names of a module to begin alike."""

    def mended(link):
        page, anchor = link.groups()
        name = page.rsplit(".", 1)[1]
        member = anchor.rpartition(f".{name}.")[2] if not anchor.endswith(f".{name}") else ""
        return f'generated/{page}.html#{page}{"." * bool(member)}{member}"'

    if pagename.startswith("_modules/"):
        context["body"] = re.sub(r'generated/([\w.]+)\.html#([\w.]+)"', mended, context["body"])


def setup(app):
    """Tell Sphinx about the role, the signs and the links above."""
    app.add_role("name", name_role)
    app.connect("autodoc-process-docstring", plain_signs, priority=400)
    app.connect("source-read", shown_examples)
    app.connect("html-page-context", true_anchors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
