"""Configuration of the documentation site: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import commands  # noqa: E402
from sphinx import addnodes  # noqa: E402

import decal  # noqa: E402

GENERATED = HERE / "reference" / "generated"

project = "decal"
author = "The decal developers"
copyright = "2026, the decal developers"
release = version = decal.__version__

extensions = [
    "myst_nb",  # all of myst_parser, and notebooks, which it executes
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx-mathjax-offline",
    "linked_names",
]
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3

# The pages below tutorials are notebooks. What they print is kept until their code changes.
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = ["pyspark"]  # no page runs it, and it is large
autosummary_generate = [str(page) for page in (HERE / "reference").glob("*.md")]
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes as a list, like parameters
napoleon_use_rtype = False  # what is returned and its type in one line
exclude_patterns = ["_build", "_templates"]

html_theme = "furo"
html_title = "decal"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["story_frame.js"]


def without_guesses(_, doctree):
    """Names of attributes are no references: that of one class would lead to that of another."""
    for xref in list(doctree.findall(addnodes.pending_xref)):
        if xref.get("reftype") == "obj" and "refspecific" in xref:
            xref.replace_self(xref.children)


def setup(app):
    app.connect("builder-inited", lambda _: commands.write(GENERATED / "commands.md"))
    app.connect("doctree-read", without_guesses)
