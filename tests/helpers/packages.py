"""Packages that only a few tests need, from PyPI into folders of pytest's cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest


def installed(request: pytest.FixtureRequest, name: str, requirements: Iterable[str]) -> Path:
    """The folder `name` with these packages, without what they depend on; skips if they fail."""
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
