"""Packages that only a few tests need, from PyPI into folders of pytest's cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def installed(request: pytest.FixtureRequest, requirements: list[str], name: str = "") -> Path:
    """A folder with these packages, without what they depend on; skips if they fail.

    The folder is called `name`, or after the first of them.
    """
    name = name or requirements[0].replace("==", "-")
    folder = request.config.cache.mkdir(name)
    complete = folder / "complete"
    if not complete.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        done = subprocess.run(
            [*command, "--target", str(folder), *requirements], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"cannot install {name}: {done.stderr.strip()[-200:]}")
        complete.touch()
    return folder
