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
napoleon_use_ivar = True  # attributes as a list, like parameters
napoleon_use_rtype = False  # what is returned and its type in one line
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "decal"
html_static_path = ["_static"]
