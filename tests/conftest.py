"""What all tests share: how many examples Hypothesis draws, one thread per process, real data.

Run with `-n 2` for two processes. What several tests of one file prepare together (a trained
network, a browser, a Spark session) is prepared once, because a file stays in one process.
"""

import os
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


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real logits, from the environment variable DECAL_DATA."""
    folder = os.environ.get("DECAL_DATA")
    if not folder:
        pytest.skip("needs the shared data: set DECAL_DATA to their folder")
    return Path(folder)
