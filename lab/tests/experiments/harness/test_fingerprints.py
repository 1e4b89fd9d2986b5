"""What rows were computed from: another content is another fingerprint, and nothing else is."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pytest

from decal_lab.experiments.harness.fingerprints import Fingerprints, is_current


def of(**parts):
    return Fingerprints().of(parts)


@dataclass(frozen=True)
class Settings:
    size: int
    where: object = None


def test_equal_content_has_equal_fingerprints(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"x" * 10)
        os.utime(tmp_path / name, ns=(0, ord(name)))
    assert of(data=tmp_path / "a") == of(data=tmp_path / "b")
    array = np.arange(6.0).reshape(2, 3)
    assert of(data=array) == of(data=np.asfortranarray(array)) == of(data=array.copy())
    assert of(data=Settings(3)) == of(data=Settings(3))


DIFFERENT = [
    1,
    1.5,
    "1",
    None,
    True,
    (1, 2),
    ((1,), 2),
    ("1", "2"),
    ("12",),
    {"a": 1},
    {"b": 1},
    Settings(1),
    Settings(1, "x"),
    np.arange(4),
    np.arange(4.0),
    np.arange(4).reshape(2, 2),
    np.array(["a", "bc"]),
    np.array(["ab", "c"]),
    np.array([None, "x"], dtype=object),
]


def test_other_content_has_other_fingerprints(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "b").write_bytes(b"y")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"x")
    values = [*DIFFERENT, tmp_path / "a", tmp_path / "b", folder]
    assert len({of(data=value) for value in values}) == len(values)
    assert of(data=1, settings=2) != of(data=2, settings=1)


def test_a_file_is_read_again_when_it_was_changed(tmp_path):
    known, path = Fingerprints(), tmp_path / "a"
    path.write_bytes(b"x")
    first = known.of({"data": path})
    assert known.of({"data": path}) == first
    path.write_bytes(b"yy")
    assert known.of({"data": path}) != first


def test_what_has_no_plain_content_is_refused():
    with pytest.raises(TypeError, match="inputs must be paths, arrays or plain values: got <obj"):
        of(data=object())


def test_parts_that_were_not_there_change_nothing():
    before = of(images=1)
    assert is_current(before, of(images=1))
    assert is_current(before, of(images=1, MNIST=2))
    assert is_current(of(images=1, MNIST=2), before)
    assert not is_current(of(images=1, MNIST=2), of(images=1, MNIST=3))
    assert not is_current(of(images=1, MNIST=2), of(images=3, MNIST=2))
    assert not is_current("", before)
    assert not is_current(of(other=1), before)
    assert is_current(of(), of())
