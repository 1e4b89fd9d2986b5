"""Model files: arrays and JSON, replaced in one step, and nothing else is read."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from decal._io import model_files


@pytest.mark.parametrize("compressed", [True, False])
def test_settings_and_arrays_come_back_from_a_path_and_from_an_open_file(tmp_path, compressed):
    settings, arrays = {"alpha": 0.8, "classes": ["a", "b"]}, {"center": np.arange(3.0)}
    opened = io.BytesIO()
    for file in (tmp_path / "model.npz", opened):
        model_files.write(file, settings, arrays, compressed=compressed)
    opened.seek(0)
    for file in (tmp_path / "model.npz", opened):
        found, read = model_files.read(file)
        assert found == settings | {"version": model_files.VERSION}
        np.testing.assert_array_equal(read["center"], arrays["center"])


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(FileNotFoundError):
        model_files.read(path)
    path.write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"a file that `save` wrote: got .*x.npz, which is not"):
        model_files.read(path)
    for header, message in [
        ({"format": "other"}, "got .*, of another format"),
        ({"format": model_files.FORMAT, "version": 99}, "got .*, of format 99. Upgrade decal"),
    ]:
        np.savez(path, header=np.array(json.dumps(header)))
        with pytest.raises(ValueError, match=message):
            model_files.read(path)
    np.savez(path, header=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="which is not one, or is damaged"):
        model_files.read(path)
