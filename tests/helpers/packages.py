"""Packages that one test needs, in a folder of pytest's cache: fetched once, skipped if absent."""

import subprocess
import sys

import pytest


def installed(request, requirements):
    """A folder with these packages, without what they depend on: torch is here already."""
    folder = request.config.cache.mkdir(requirements[0].replace("==", "-"))
    complete = folder / "complete"
    if not complete.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        done = subprocess.run(
            [*command, "--target", str(folder), *requirements], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"cannot install {requirements[0]}: {done.stderr.strip()[-200:]}")
        complete.touch()
    return folder
