"""Folders of files of logits, and the commands run on them."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from helpers.commands import run  # noqa: E402
from helpers.logit_files import NAMES  # noqa: E402

PARTS, ROWS = 5, 40


def make_data(rows, K=3, seed=0):
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((rows, K))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def table(logits, labels, *, layout="columns", names=NAMES):
    if layout == "columns":
        columns = {name: logits[:, k] for k, name in enumerate(names)}
        return pa.table(columns | {"label": np.array(names)[labels]})
    flat = pa.array(logits.ravel())
    if layout == "fixed":
        lists = pa.FixedSizeListArray.from_arrays(flat, logits.shape[1])
    else:
        lists = pa.ListArray.from_arrays(np.arange(len(logits) + 1) * logits.shape[1], flat)
    return pa.table({"logits": lists, "label": labels})


def write(path, written):
    """A table into a file of the format that its name says; .arrow in the stream format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(written, path, row_group_size=16)
    elif path.suffix == ".feather":
        feather.write_feather(written, path, chunksize=16, compression="lz4")
    else:
        with pa.ipc.new_stream(str(path), written.schema) as writer:
            writer.write_table(written, max_chunksize=16)


def write_folder(folder, kind=".parquet", *, parts=PARTS, rows=ROWS, layout="columns"):
    logits, labels = make_data(parts * rows)
    for i in range(parts):
        piece = slice(i * rows, (i + 1) * rows)
        part = table(logits[piece], labels[piece], layout=layout)
        write(folder / f"part-{i:04d}{kind}", part)
    return logits, labels


def fail(*arguments):
    """Exit code 2 and one line of message, which is returned without the command's name."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.removeprefix(f"decal {arguments[0]}: ").rstrip("\n")


def assert_same_bits(first, second):
    a, b = read_npz(first), read_npz(second)
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].tobytes() == b[name].tobytes(), name


def assert_fits(model, logits, labels, **settings):
    found = decal.Decalibrator.load(model).shifts([0.3, 0.9])
    expected = decal.decalibrate(logits, labels, alpha=0.8, **settings).shifts([0.3, 0.9])
    np.testing.assert_allclose(found.lower, expected.lower, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.upper, expected.upper, rtol=0, atol=1e-9)


PROGRAM = (
    "import decal.io.checkpoints, decal.io.formats, decal.__main__ as entry;"
    "decal.io.checkpoints.CHUNK_ELEMENTS = {elements};"
    "decal.io.formats.CHUNK_ELEMENTS = {elements};"
    "decal.io.row_files.LogitSource.chunks.__defaults__ = ({elements}, 0);"
    "entry.main()"
)


def program(*arguments, elements=600):
    """The command, as a program of its own that reads small chunks."""
    command = [sys.executable, "-c", PROGRAM.format(elements=elements), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(ready, process):
    """Until something is seen of a process; fails if it ends before."""
    while not ready():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.002)
