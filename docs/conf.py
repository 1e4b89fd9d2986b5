"""Configuration of the documentation site: `make docs`."""

import decal

project = "decal"
author = "The decal developers"
copyright = "2026, the decal developers"
release = version = decal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx-mathjax-offline",
]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "decal"
html_static_path = ["_static"]


def describe_on_the_first_line(app, what, name, obj, options, lines):
    """Let napoleon read "name : description" as a description, which it would take for a type."""
    section = ""
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and set(lines[i + 1]) == {"-"}:
            section = line
        if section in {"Parameters", "Attributes"} and " : " in line and not line.startswith(" "):
            names, description = line.split(" : ", 1)
            lines[i] = f"{names}\n    {description}"
    lines[:] = "\n".join(lines).split("\n")


def setup(app):
    app.connect("autodoc-process-docstring", describe_on_the_first_line, priority=400)
