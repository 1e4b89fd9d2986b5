"""Configuration of the documentation site: `make docs`."""

import contextlib
import os
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import commands  # noqa: E402
import landing  # noqa: E402
from docutils import nodes  # noqa: E402
from pygments import lexer, token  # noqa: E402
from sphinx import addnodes  # noqa: E402
from sphinx.ext.autosummary import autosummary_toc  # noqa: E402
from sphinx.transforms import SphinxTransform  # noqa: E402

import decal  # noqa: E402

REFERENCE = HERE / "reference" / "index.md"
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
    "themed_pictures",
]
templates_path = ["_templates"]
default_role = "literal"  # of `names` in docstrings
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
smartquotes = False  # commands in sentences stay as they are typed

# The pages below tutorials are notebooks. What they print is kept until their code changes.
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
# Two of them read published logits, which are not in the repository: without those, their code is
# shown and not run.
DATA = bool(os.environ.get("DECAL_DATA"))
nb_execution_excludepatterns = [] if DATA else ["*medical_images.md", "*zero_shot.md"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = ["pyspark"]  # no page runs it, and it is large
autosummary_generate = [str(REFERENCE)]
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes as a list, like parameters
napoleon_use_rtype = False  # what is returned and its type in one line
copybutton_prompt_text = "$ "
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"  # nobody pastes outputs
exclude_patterns = ["_build", "_templates"]

html_theme = "furo"
html_title = "decal"
pygments_dark_style = "github-dark"
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_copy_source = html_show_sourcelink = False  # pages are read as they are rendered


def write_pages(_):
    """Pages and frames that are made from decal itself, so that they cannot go stale."""
    GENERATED.mkdir(exist_ok=True)
    listed = REFERENCE.read_text(encoding="utf-8")
    wanted = re.findall(r"^   (decal(?:_lab)?\.\S+)$", listed, re.MULTILINE)
    for page in GENERATED.glob("*.rst"):
        if page.stem not in wanted:
            page.unlink()
    commands.write(GENERATED / "commands.md")
    snippets = (HERE / "explorer.md").read_text("utf-8").split("```python\n")
    with contextlib.chdir(HERE / "_static"), contextlib.redirect_stdout(None):
        exec(snippets[1].partition("```")[0], {})  # writes languages.html
    landing.write(HERE / "_build")


def without_guesses(_, doctree):
    """Words in the type of a parameter are no references, unless they look like a class."""
    for xref in list(doctree.findall(addnodes.pending_xref)):
        if "refspecific" in xref and xref["reftarget"][:1].islower():
            xref.replace_self(xref.children)


def dashes(_, doctree):
    """Those that autodoc puts between a parameter or a type and its description."""
    for text in list(doctree.findall(nodes.Text)):
        if text.startswith(" -- "):
            text.parent.replace(text, nodes.Text(text.replace("--", "–", 1)))


def whole_numbers(_, doctree):
    """A number, its sign and its deviation stay in one line."""
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, nodes.literal | nodes.literal_block | nodes.math):
            joined = re.sub(r"(?<=\d) (?=[%×±])|(?<=[±×]) (?=\d)", "\u00a0", text)
            if isinstance(text.parent.parent, nodes.entry):
                joined = re.sub(r"(?<=[\d/]) (?=[.\d/])|(?<=\d,) (?=[.\d])", "\u00a0", joined)
            if joined != text:
                text.parent.replace(text, nodes.Text(joined))


class TablesAlone(SphinxTransform):
    """Pages of objects are found from the tables: in every page's sidebar they take minutes."""

    default_priority = 500

    def apply(self):
        for toc in list(self.document.findall(autosummary_toc)):
            toc.parent.remove(toc)


class Commands(lexer.RegexLexer):
    """Shell commands: nobody's subcommand is a builtin, and no part of a number a number."""

    tokens = {  # noqa: RUF012
        "root": [
            (r"#.*", token.Comment),
            (r"'[^']*'|\"[^\"]*\"", token.String),
            (r"[^#'\"]+|.", token.Text),
        ]
    }


def setup(app):
    for shell in ("bash", "console", "sh"):
        app.add_lexer(shell, Commands)
    if DATA:
        app.tags.add("data")
    app.connect("builder-inited", write_pages, priority=400)  # before autosummary
    app.connect("doctree-read", without_guesses)
    app.connect("doctree-read", dashes)
    app.connect("doctree-read", whole_numbers)
    app.add_transform(TablesAlone)
    # It adds a folder of static files and sets a path, and does not say that it is safe.
    app.extensions["sphinx-mathjax-offline"].parallel_read_safe = True
