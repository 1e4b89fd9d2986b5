"""Reading .npz archives in tests."""

import numpy as np


def read_npz(path):
    """The arrays of an archive, which is closed again at once."""
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)
