"""The browser of the tests."""

import shutil

# The shell keeps no windows, and takes two thirds of the time for the same pages.
_KINDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _KINDS)), None)
"""Its path, or None where there is none."""
