"""Streams of rows: what every format yields, in constant memory, and what is wrong with a file."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

from decal._io import sources as files  # noqa: E402
from decal._io import writers  # noqa: E402
from helpers.commands import succeed  # noqa: E402
from helpers.logit_files import ALL, NAMES, make_labelled, opened, write_logits  # noqa: E402
from helpers.logit_folders import PROGRAM, make_data, table, write  # noqa: E402


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data():
    return make_labelled()


# Reading


@pytest.mark.parametrize("kind", ALL)
def test_blocks_of_a_large_file_join_without_loss(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("decal._io.formats.CHUNK_ELEMENTS", 1000)
    logits = np.random.default_rng(0).standard_normal((40_000, 3))  # 2 MB, two blocks of a .csv
    labels = np.arange(40_000) % 3
    source = opened(tmp_path, kind, logits, labels)
    assert sum(1 for _ in source.logits.read()) > 1
    chunks = list(source.chunks(7777))
    np.testing.assert_array_equal(np.concatenate([c.logits for c in chunks]), logits)
    np.testing.assert_array_equal(np.concatenate([c.labels for c in chunks]), labels)


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet"])
def test_float32_stays_float32(tmp_path, data, kind):
    logits, labels = data
    source = opened(tmp_path, kind, logits.astype(np.float32), labels)
    assert source.all().logits.dtype == np.float32


@pytest.mark.parametrize("kind", ["npz", "npy"])
def test_arrays_in_fortran_order_are_read_right(tmp_path, data, kind):
    logits, labels = data
    source = opened(tmp_path, kind, np.asfortranarray(logits), labels)
    np.testing.assert_array_equal(np.concatenate([c.logits for c in source.chunks(21)]), logits)


@pytest.mark.parametrize("kind", [".npz", ".csv", ".parquet", ".feather", ".arrow"])
def test_every_format_can_be_read_from_a_row_on(kind, monkeypatch):
    monkeypatch.setattr("decal._io.formats.CHUNK_ELEMENTS", 12)  # blocks of four rows
    logits, labels = make_data(50)
    path = Path(f"x{kind}")
    if kind == ".npz":
        np.savez_compressed(path, logits=logits, labels=labels)
    elif kind == ".csv":
        columns = {name: logits[:, k] for k, name in enumerate(NAMES)}
        writers.write_columns(path, columns | {"label": labels})
    else:
        write(path, table(logits, labels))
    source = files.open_source(path)
    for start in (0, 1, 15, 16, 17, 33, 49):
        chunks = list(source.chunks(24, start))
        np.testing.assert_array_equal(np.concatenate([c.logits for c in chunks]), logits[start:])
        np.testing.assert_array_equal(np.concatenate([c.labels for c in chunks]), labels[start:])


def test_a_file_is_opened_once_and_its_names_are_listed_once(tmp_path, data, monkeypatch):
    logits, labels = data
    path = write_logits(tmp_path, "npz", logits, labels, truth=np.full((50, 3), 1 / 3))
    calls = []

    class Archive(zipfile.ZipFile):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            calls.append(("opened", self.filename))

        def namelist(self):
            calls.append(("listed", self.filename))
            return super().namelist()

    monkeypatch.setattr(zipfile, "ZipFile", Archive)
    monkeypatch.chdir(tmp_path)
    for command in (
        ("fit", path, "-o", "model.npz"),
        ("predict", "model.npz", path, "-o", "out.npy"),
        ("evaluate", "model.npz", path),
        ("explore", "model.npz", path, "--export", "page.html"),
    ):
        calls.clear()
        succeed(*command)
        assert sorted(c for c in calls if c[1] == str(path)) == [
            ("listed", str(path)),
            ("opened", str(path)),
        ]


# What is wrong with a file


def test_text_columns_of_a_parquet_are_refused_as_classes(tmp_path):
    pq.write_table(pa.table({"id": ["x"], "a": [1.0], "b": [2.0]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"got type string in .*column id\. Leave out .*--ignore"):
        files.open_source(tmp_path / "x.parquet")


@pytest.mark.parametrize("kind", ["npz", "npy", "parquet"])
def test_damaged_files_are_refused(tmp_path, data, kind):
    path = write_logits(tmp_path, kind, *data)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=rf"must be in an intact \.{kind} file: got .*logits"):
        files.open_source(path).all()
    path.write_bytes(b"hello")
    with pytest.raises(ValueError, match=rf"must be in an intact \.{kind} file: got .*logits"):
        files.open_source(path).all()


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[{}, {}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="logits must be numbers: got dtype object"):
        files.open_source(tmp_path / "x.npy")


def test_unknown_endings_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must end in .npz, .npy, .csv, .parquet, .feather or .arrow: got .*x.txt"
    ):
        files.open_source(tmp_path / "x.txt")


# Memory


STATUS = Path("/proc/self/status")

MEASURED = (
    "import sys, decal._base.numerics\n"
    "decal._base.numerics._kernels()\n"  # with Numba from the start, or not at all
    "try:\n    {program}\n"
    "finally:\n    print(open('/proc/self/status').read().split('VmHWM:')[1], file=sys.stderr)"
)


def peak_megabytes(*arguments):
    """Largest resident memory of a command, which must succeed."""
    # Not ru_maxrss: a child starts with that of the process that forked it.
    code = MEASURED.format(program=PROGRAM.format(elements=1 << 19))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stderr.partition("Wrote")[2].partition("\n")[2].split()[0]) / 2**10


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux to measure memory")
@pytest.mark.parametrize("kind", ["C.npy", "F.npy", "parquet"])
def test_memory_does_not_grow_with_the_file(kind):
    K = 40
    for size, rows in (("small", 120_000), ("large", 480_000)):  # 19 and 77 MB
        if kind.endswith("npy"):
            z = np.lib.format.open_memmap(
                f"{size}.npy", "w+", np.float32, (rows, K), fortran_order=kind == "F.npy"
            )
            y = np.zeros(rows, np.intp)
        for first in range(0, rows, 20_000):
            logits, labels = make_data(20_000, K, seed=first)
            if kind.endswith("npy"):
                z[first : first + 20_000], y[first : first + 20_000] = logits, labels
            else:
                part = table(logits.astype(np.float32), labels, names=[f"c{k}" for k in range(K)])
                if first == 0:
                    writer = pq.ParquetWriter(f"{size}.parquet", part.schema)
                writer.write_table(part)
        if kind.endswith("npy"):
            z.flush()
            np.save(f"{size}-labels.npy", y)
            del z
        else:
            writer.close()

    def commands(size):
        source = [f"{size}.{kind[-3:]}" if kind.endswith("npy") else f"{size}.parquet"]
        labels = ["--labels", f"{size}-labels.npy"] if kind.endswith("npy") else []
        yield ["fit", *source, *labels, "-o", f"{size}.npz"]
        yield ["predict", f"{size}.npz", *source, "-o", f"{size}-out.npy"]

    small, large = ([peak_megabytes(*c) for c in commands(s)] for s in ("small", "large"))
    for of_small, of_large in zip(small, large, strict=True):
        assert of_large - of_small < 40, (small, large)
