"""What all tests share: how many examples Hypothesis draws, one thread per process, real data.

`make test` runs two processes, `-n 2 --dist loadgroup`; without these options there is one.
"""

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
settings.register_profile("ci", max_examples=300, **PATIENT)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

GROUP = pytest.StashKey[str]()
"""Under which name a test shares a process with others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Let a file stay in one process, and begin with the slow ones (for `--dist loadgroup`).

    What the tests of a file share, a trained network or a Spark session, is then made once, and
    there is one browser; and neither process ends with a long file while the other waits.
    """
    slow = Counter()
    for item in items:
        in_browser = item.get_closest_marker("browser")
        item.stash[GROUP] = "browser" if in_browser else item.path.stem
        item.add_marker(pytest.mark.xdist_group(item.stash[GROUP]))
        slow[item.stash[GROUP]] += bool(in_browser or item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.stash[GROUP]])


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
