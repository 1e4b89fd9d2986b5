"""Configuration of the documentation site: `make docs`."""

import decal

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
]
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3

# The pages below tutorials are notebooks. What they print is kept until their code changes.
nb_execution_mode = "cache"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes as a list, like parameters
napoleon_use_rtype = False  # what is returned and its type in one line
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "decal"
html_static_path = ["_static"]
