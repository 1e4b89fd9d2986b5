"""The gate: what a file claims is compared with what is there, and errors name the file."""

from __future__ import annotations

import errno
import io
import tokenize
import zipfile
import zlib

import numpy as np
import pytest

from decal.io import gate


def saved(array, **options):
    opened = io.BytesIO()
    np.lib.format.write_array(opened, array, **options)
    return opened.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array("text"),
        np.zeros((0, 3), dtype=">f4"),
        np.arange(5)[::-1],
    ],
    ids=str,
)
def test_arrays_come_back_as_they_were(array, version):
    content = saved(array, version=version)
    found = gate.read_array(io.BytesIO(content), len(content))
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable


def headed(text, numbers=b""):
    encoded = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded + numbers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "magic string"),
        (b"\x93NUMPY\x09\x00", "its version is"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\x7f", "its header has 2,147,483,647 bytes"),
        (headed("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"), "it says .* 16 bytes"),
        (
            headed("{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}", bytes(16)),
            "holds 8 bytes of numbers: got 16",
        ),
        (headed("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -2)}"), "it says that"),
        (headed("{'descr': '<U0', 'fortran_order': False, 'shape': (9**99,)}"), ""),
        (headed("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x"), "pickled"),
        (headed("(" * 9000), ""),
    ],
)
def test_headers_that_do_not_describe_the_file_are_refused(content, message):
    with (
        pytest.raises(ValueError, match=f"x.npy: .*{message}"),
        gate.intact("x.npy", lambda reason: ValueError(f"x.npy: {reason}")),
    ):
        gate.read_array(io.BytesIO(content), len(content))


@pytest.mark.parametrize(
    "error",
    [
        zlib.error("bad"),
        tokenize.TokenError("bad"),
        EOFError("bad"),
        MemoryError("bad"),
        RecursionError("bad"),
        zipfile.BadZipFile("bad"),
        OSError("bad"),
        OSError(errno.EINVAL, "bad"),
        KeyError("bad"),
        NotImplementedError("bad"),
    ],
    ids=repr,
)
def test_whatever_damage_causes_becomes_the_one_complaint(error):
    with (
        pytest.raises(ValueError, match="x.npz: .*bad"),
        gate.intact("x.npz", lambda reason: ValueError(f"x.npz: {reason}")),
    ):
        raise error


def test_errors_of_the_system_stay_what_they_are_and_name_the_file(tmp_path):
    def complaint(reason):
        return ValueError(reason)

    with pytest.raises(FileNotFoundError, match="absent"), gate.intact("x", complaint):
        (tmp_path / "absent").read_bytes()
    with pytest.raises(OSError, match="Input/output error: 'x.npz'"):  # noqa: SIM117
        with gate.intact("x.npz", complaint):
            raise OSError(errno.EIO, "Input/output error")
    with pytest.raises(ImportError, match="pip install"), gate.intact("x", complaint):
        raise ImportError("pip install it")


def archive_of(*members, packing=zipfile.ZIP_DEFLATED):
    opened = io.BytesIO()
    with zipfile.ZipFile(opened, "w", packing) as archive:
        for name, content in members:
            archive.writestr(name, content)
    opened.seek(0)
    return opened


def test_archives_hold_every_array_once_and_packed_as_numpy_does():
    one = saved(np.ones(3))
    with gate.Archive(archive_of(("a.npy", one), ("b.npy", one))) as archive:
        assert archive.names == ("a", "b")
        assert archive.read("b").tolist() == [1.0, 1.0, 1.0]
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = archive_of(("a.npy", one), ("a.npy", one))
    with pytest.raises(ValueError, match="it holds a twice"):
        gate.Archive(twice)
    strange = [archive_of(("a.npy", one), packing=zipfile.ZIP_LZMA), archive_of(("a", one))]
    for file in strange:
        with gate.Archive(file) as archive, pytest.raises(ValueError, match="as NumPy does"):
            archive.read("a")


def test_zeros_may_be_packed_well_but_not_beyond_all_measure():
    zeros = saved(np.zeros(gate.SMALL // 8 - 1000))
    with gate.Archive(archive_of(("a.npy", zeros))) as archive:
        assert not archive.read("a").any()
        held, packed = gate.SMALL + gate.LARGEST_RATIO * 10**6, archive.packed_size("a")
        with pytest.raises(ValueError, match="it says that [\\d,]+ bytes unpack to"):
            gate.require_modest(held, packed)
