"""What all tests of the laboratory share: how a session runs, and which files come first.

Helpers of decal's own tests are used, too: ../tests is on the path.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from helpers.sessions import (  # noqa: F401
    by_group,
    data_folder,
    pytest_collection_finish,
    pytest_configure,
    slow_files_first,
)

EXPERIMENTS = "runs of experiments"
RUNS = re.compile(r"\b(paper_runs|directions_run|directions_copy)\b")
"""Fixtures with runs of experiments that several files share."""

LONGEST = (
    *(EXPERIMENTS, "tests/experiments/test_fashion_mnist.py"),
    *("tests/experiments/test_ood.py", "tests/test_command.py"),
)
"""What takes some twenty seconds of a processor or more, about in this order."""


@cache
def group_of(file):
    """What stays in one process with this file, by a name: tests of the same runs."""
    path = Path(__file__).parents[1] / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return EXPERIMENTS if RUNS.search(text) else file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    root = Path(__file__).parents[1]
    gone = [group for group in LONGEST[1:] if not (root / group).exists()]
    assert not gone, f"LONGEST in {__file__} must list what exists: got {gone}."
    slow_files_first(items, LONGEST, group_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return by_group(config, log, group_of)
