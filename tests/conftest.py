"""What all tests share: how many examples Hypothesis draws, one thread per process, real data.

`make test` runs four processes, `-n 4 --dist loadfile`: on two cores, too, as many tests wait for
browsers, files and other processes. Without these options there is one.
"""

import gc
import os
import re
from collections import Counter
from functools import cache
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


# `make test` distributes by file: what the tests of a file share, a trained network or a Spark
# session, is then made once. Some files share even that. (Marks `xdist_group` would say so too, but
# pytest-xdist 3.8 ignores them with pytest 9.2.)

BROWSER = "tests/explorer/browser/"
EXPERIMENTS = "runs of experiments"
RUNS = re.compile(r"\b(paper_runs|directions_run|directions_copy)\b")
"""Fixtures with runs of experiments that several files share."""

LONGEST = (
    *(EXPERIMENTS, BROWSER, "tests/test_torch.py", "tests/experiments/test_fashion_mnist.py"),
    *("tests/test_selection.py", "tests/test_sklearn_tabpfn.py", "tests/io/test_checkpoints.py"),
    *("tests/distributed/test_spark.py", "tests/experiments/test_ood.py"),
    *("tests/coupled/test_coupled.py", "tests/test_sklearn.py", "tests/io/test_formats.py"),
    *("tests/selection/test_distributions.py", "tests/test_docs.py", "tests/cli/test_reproduce.py"),
)
"""What takes some twenty seconds of a processor or more, about in this order.

Other groups follow by their number of slow tests: a new file needs no line here to start early.
"""


@cache
def group_of(file):
    """What stays in one process with this file, by a name."""
    if file.startswith(BROWSER):
        return BROWSER
    path = Path(__file__).parents[1] / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return EXPERIMENTS if RUNS.search(text) else file


def together(nodeid):
    """What stays in one process: a file, all tests in a browser, those of the same runs."""
    return group_of(nodeid.partition("::")[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begin with the slow files, so that no process is left alone with one at the end."""
    root = Path(__file__).parents[1]
    gone = [group for group in LONGEST if group != EXPERIMENTS and not (root / group).exists()]
    assert not gone, f"LONGEST in {__file__} must list what exists: got {gone}."
    rank = {group: place for place, group in enumerate(LONGEST)}
    slow = Counter(
        together(item.nodeid)
        for item in items
        if item.get_closest_marker("slow") or item.get_closest_marker("browser")
    )

    def order(item):
        group = together(item.nodeid)
        return rank.get(group, len(rank)), -slow[group]

    items.sort(key=order)
    for item in items:  # drawn logits may look like probabilities, and are none
        if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.filterwarnings("ignore:.* must be logits"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Distribute by file, or by group of files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return together(nodeid)

    return ByFile(config, log)


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real logits, from the environment variable DECAL_DATA."""
    folder = os.environ.get("DECAL_DATA")
    if not folder:
        pytest.skip("needs the shared data: set DECAL_DATA to their folder")
    return Path(folder)


@pytest.fixture
def clear_data():
    """Logits (200, 3), and labels drawn from their softmax."""
    import numpy as np

    from oracles import class_shifts as oracles

    rng = np.random.default_rng(7)
    logits = rng.normal(size=(200, 3)) * 2
    labels = np.array([rng.choice(3, p=p) for p in oracles.softmax(logits, axis=1)])
    return logits, labels
