"""What the tests of decal and of its laboratory share: how a session of pytest runs.

How many examples Hypothesis draws, one thread per process, real data, and which files come first.
A conftest.py imports what it needs, hooks included.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before NumPy and PyTorch are imported, here and in every process that a test starts: threads that
# wait for each other, or for the tests of the other process, cost more than they save.
for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# A loaded machine must not fail a test for being slow.
PATIENT = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("quick", max_examples=10, **PATIENT)
settings.register_profile("test", max_examples=25, **PATIENT)
settings.register_profile("ci", max_examples=100, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure():
    """Look for no garbage while tests are collected: what is imported stays."""
    gc.disable()


def pytest_collection_finish():
    """Then look rarely: the modules that all tests import are large, and each look passes them all.

    Freezing them (`gc.freeze`) hides who refers to whom, and Hypothesis asks that.
    """
    gc.enable()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real logits, from the environment variable DECAL_DATA."""
    folder = os.environ.get("DECAL_DATA")
    if not folder:
        pytest.skip("needs the shared data: set DECAL_DATA to their folder")
    return Path(folder)


# `make test` and `make lab` distribute by file: what the tests of a file share, a trained network
# or a Spark session, is then made once. Some files share even that. (Marks `xdist_group` would say
# so too, but pytest-xdist 3.8 ignores them with pytest 9.2.)


def slow_files_first(items, longest, group_of):
    """Begin with the slow files, so that no process is left alone with one at the end.

    `longest` names groups in their order; others follow by their number of slow tests. `group_of`
    gives what stays in one process with a file.
    """
    rank = {group: place for place, group in enumerate(longest)}
    slow = Counter(
        group_of(file_of(item.nodeid))
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("browser")
    )

    def order(item):
        group = group_of(file_of(item.nodeid))
        return rank.get(group, len(rank)), -slow[group]

    items.sort(key=order)
    for item in items:  # drawn logits may look like probabilities, and are none
        if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.filterwarnings("ignore:.* must not be probabilities"))


def file_of(nodeid):
    """The file of a test, below the folder that pytest runs in."""
    return nodeid.partition("::")[0]


def by_group(config, log, group_of):
    """A scheduler of pytest-xdist that keeps groups of files in one process, if files are asked."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return group_of(file_of(nodeid))

    return ByGroup(config, log)
