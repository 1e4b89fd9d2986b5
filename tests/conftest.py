"""What several tests need: the shared data, where they are, or the reason why a test is skipped."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder():
    """The folder of real logits, from the environment variable DECAL_DATA."""
    folder = os.environ.get("DECAL_DATA")
    if not folder:
        pytest.skip("needs the shared data: set DECAL_DATA to their folder")
    return Path(folder)
