"""Streams of rows: what every format yields, in constant memory, and what is wrong with a file."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

from decal.io import row_files as files  # noqa: E402
from decal.io import writers  # noqa: E402
from decal.io.formats import open_file  # noqa: E402
from helpers.commands import succeed  # noqa: E402
from helpers.logit_files import ALL, NAMES, make_labelled, opened, write_logits  # noqa: E402
from helpers.logit_folders import make_data, table, write  # noqa: E402
from helpers.memory import limited_memory  # noqa: E402


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def data():
    return make_labelled()


# Reading


@pytest.mark.parametrize("kind", ALL)
def test_blocks_of_a_large_file_join_without_loss(tmp_path, monkeypatch, kind):
    monkeypatch.setattr("decal.io.formats.CHUNK_ELEMENTS", 1000)
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
    monkeypatch.setattr("decal.io.formats.CHUNK_ELEMENTS", 12)  # blocks of four rows
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

        def infolist(self):
            calls.append(("listed", self.filename))
            return super().infolist()

    monkeypatch.setattr(zipfile, "ZipFile", Archive)
    monkeypatch.chdir(tmp_path)
    for command in (
        ("fit", "--alpha=0.8", path, "-o", "model.npz"),
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
    with pytest.raises(ValueError, match="x.npy .it holds pickled objects"):
        files.open_source(tmp_path / "x.npy")


def test_unknown_endings_are_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"must end in .npz, .npy, .csv, .parquet, .feather or .arrow: got .*x.txt"
    ):
        files.open_source(tmp_path / "x.txt")


# Memory


MEASURED = """
import sys, tracemalloc

import pyarrow as pa

import decal._base.numerics
import decal.io.checkpoints, decal.io.formats, decal.io.row_files
from decal.cli import app

decal._base.numerics._kernels()  # with Numba from the start, or not at all
decal.io.checkpoints.CHUNK_ELEMENTS = decal.io.formats.CHUNK_ELEMENTS = 1 << 19
decal.io.row_files.LogitSource.chunks.__defaults__ = (1 << 19, 0)
pools = []  # one per command: a pool's peak cannot be reset
for number, line in enumerate(sys.stdin):
    if number == 2:  # after what imports, which tracing makes several times as slow
        tracemalloc.start()
    pools.append(pa.proxy_memory_pool(pa.system_memory_pool()))
    pa.set_memory_pool(pools[-1])
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    app(line.split(), standalone_mode=False)
    print("peak", tracemalloc.get_traced_memory()[1] - before + pools[-1].max_memory())
"""


def peak_megabytes(*commands):
    """The most that Python, NumPy and Arrow held in each command but the first two; all succeed.

    What they asked for, not what the system gave: that depends on allocators and on the machine.
    """
    run = [sys.executable, "-c", MEASURED]
    lines = "\n".join(" ".join(command) for command in commands)
    done = subprocess.run(run, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [int(size) / 2**20 for size in re.findall(r"^peak (\d+)$", done.stdout, re.M)[2:]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["C.npy", "F.npy", "parquet"])
def test_memory_does_not_grow_with_the_file(kind):
    K, step = 40, 20_000
    logits, labels = make_data(step, K)
    rows = {"first": 20_000, "small": 40_000, "large": 200_000}  # 3, 6 and 31 MB
    for size, n in rows.items():
        if kind == "parquet":
            part = table(logits.astype(np.float32), labels, names=[f"c{k}" for k in range(K)])
            with pq.ParquetWriter(f"{size}.parquet", part.schema) as writer:
                for _ in range(0, n, step):
                    writer.write_table(part)
        else:
            settings = {"fortran_order": kind == "F.npy"}
            z = np.lib.format.open_memmap(f"{size}.npy", "w+", np.float32, (n, K), **settings)
            for first in range(0, n, step):
                z[first : first + step] = logits
            z.flush()
            np.save(f"{size}-labels.npy", np.tile(labels, n // step))

    def commands(size):
        source = [f"{size}.parquet"]
        if kind != "parquet":
            source = [f"{size}.npy", "--labels", f"{size}-labels.npy"]
        yield ["fit", "--alpha=0.8", *source, "-o", f"{size}.npz"]
        yield ["predict", f"{size}.npz", source[0], "-o", f"{size}-out.npy"]

    # The first two import what all of them need.
    peaks = peak_megabytes(*(c for size in ("first", "small", "large") for c in commands(size)))
    assert len(peaks) == 4
    assert min(peaks) > 1, peaks  # they were measured
    for of_small, of_large in zip(peaks[:2], peaks[2:], strict=True):
        assert of_large - of_small < 8, peaks  # the larger file has 24 MB more


# Files of strangers

READ = """
import sys
from pathlib import Path
from decal.io.row_files import open_source
for path in map(Path, sys.argv[1:]):
    try:
        with open_source(path, needed=("labels",)) as source:
            source.all()
    except ValueError as error:
        assert path.name in str(error), error
    else:
        raise SystemExit(f"{path} was read")
"""


def assert_refused(*paths):
    """In a process of its own: what these files did before would end it."""
    run = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, (run.returncode, run.stderr)


def replaced(path, old, new):
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


@pytest.mark.parametrize("kind", ["feather", "arrow"])
def test_arrow_files_that_point_beyond_their_end_do_not_end_the_process(kind):
    rows = np.arange(101, dtype=np.int32)
    far = np.int32(1 << 29)

    def write(path, columns):
        written = pa.table(columns)
        open_ = pa.ipc.new_file if kind == "feather" else pa.ipc.new_stream
        with open_(str(path), written.schema) as writer:
            writer.write_table(written)
        return path

    logits = {"a": rows[1:] / 7, "b": rows[1:] / 3}
    lists = pa.ListArray.from_arrays(3 * rows, pa.array(np.arange(300.0)))
    paths = [
        write(Path(f"lists.{kind}"), {"logits": lists, "label": rows[1:] % 3}),
        write(Path(f"texts.{kind}"), {**logits, "label": pa.array(["a", "b"] * 50)}),
        write(
            Path(f"coded.{kind}"),
            {**logits, "label": pa.array(["a", "b"] * 50).dictionary_encode()},
        ),
    ]
    replaced(paths[0], (3 * rows).tobytes(), (3 * rows + far).tobytes())
    replaced(paths[1], rows.tobytes(), (rows + far).tobytes())
    coded = np.tile(np.array([0, 1], np.int32), 50)
    replaced(paths[2], coded.tobytes(), (coded + far).tobytes())
    assert_refused(*paths)


@pytest.mark.parametrize("key", ["logits", "labels", "classes"])
def test_arrays_that_claim_more_than_the_file_holds_ask_for_no_memory(tmp_path, data, key):
    logits, labels = data
    arrays = {"logits": np.asfortranarray(logits), "labels": labels, "classes": np.array(NAMES)}
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as member:
                if name != key:
                    np.save(member, array)
                    continue
                shape = (10**9 // array[:1].nbytes * 8, *array.shape[1:])
                header = {"descr": array.dtype.str, "fortran_order": True, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
    with (
        limited_memory(512),
        pytest.raises(ValueError, match="x.npz .it says that it holds"),
    ):
        files.open_source(path).all()


def test_a_shape_that_was_made_smaller_is_noticed(tmp_path, data):
    path = write_logits(tmp_path, "npy", *data)
    replaced(path, b"(50, 3)", b"(10, 3)")
    with pytest.raises(ValueError, match="it says that it holds 240 bytes of numbers: got 1,200"):
        files.open_source(path, labels=tmp_path / "labels.npy")


def test_a_bomb_in_an_archive_is_refused_and_one_that_nobody_asks_for_is_not_unpacked(
    tmp_path, data
):
    logits, labels = data
    path = tmp_path / "x.npz"
    np.savez(path, logits=logits, labels=labels)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("bomb.npy", "w") as member,
    ):
        header = {"descr": "<f8", "fortran_order": False, "shape": (1, 1 << 25)}
        np.lib.format.write_array_header_1_0(member, header)
        for _ in range(256):
            member.write(bytes(1 << 20))
    assert len(files.open_source(path).all()) == 50
    with pytest.raises(ValueError, match=r"it says that [\d,]+ bytes unpack to 268,435,456"):
        files.open_source(path, keys={"logits": "bomb"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "cat;dog;label\n0,5;1,5;cat\n",
            "commas between its columns: got semicolons. Convert it first, for instance: "
            "tr ',;' '.,' < x.csv > with_commas.csv",
        ),
        ("cat;dog;label\n0.5;1.5;cat\n", "tr ';' ',' < x.csv > with_commas.csv"),
        ("cat\tdog\tlabel\n0.5\t1.5\tcat\n", "tr '\\t' ',' < x.csv > with_commas.csv"),
        (
            'cat,dog,label\n"0,5",1.5,cat\n',
            "got '0,5' in x.csv, line 2, column cat. Write",
        ),
        ("cat,dog,label\n0,5,1,5,cat\n", "If a comma stands for the decimal point: Write"),
    ],
)
def test_other_separators_and_decimal_commas_are_explained(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        files.open_source(Path("x.csv")).all()


def test_a_semicolon_in_the_only_name_of_a_column_is_no_separator(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("hot; or not\n1\n0\n")
    assert open_file(path).names == ("hot; or not",)


def test_rows_that_are_too_long_without_decimals_get_no_such_advice(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("cat,dog,label\n0.5,1.5,cat,x\n")
    with pytest.raises(ValueError, match="intact rows") as error:
        files.open_source(path).all()
    assert "decimal" not in str(error.value)
