"""Model files that somebody changed and then gave a checksum that fits."""

from __future__ import annotations

import json

import numpy as np

from decal.io.model_files import checksum


def write_sealed(path, members):
    """Write the members of a model file, header included, with the checksum that they have."""
    arrays = {name: np.asarray(array) for name, array in members.items()}
    header = json.loads(str(arrays.pop("header")))
    header.pop("checksum", None)
    header["checksum"] = checksum(header, arrays)
    np.savez(path, header=np.array(json.dumps(header)), **arrays)
