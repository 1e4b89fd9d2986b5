"""Folders of files of logits, and the commands run on them."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import decal  # noqa: E402
from decal._cli import app  # noqa: E402

NAMES = ("cat", "dog", "eel")
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


def run(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


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
