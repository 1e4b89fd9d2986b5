"""Files of logits and labels in every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.csv as pc  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal.io import row_files as files  # noqa: E402
from decal.io.writers import write_columns  # noqa: E402
from helpers.archives import read_npz  # noqa: E402

ALL = ("npz", "npy", "csv", "parquet")

NAMES = ("cat", "dog", "eel")


def make_labelled():
    """Logits (50, 3) and labels drawn from their softmax."""
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((50, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def write_logits(folder, kind, logits, labels, *, names=NAMES, truth=None):
    """A file of logits and labels in the documented layout; for .npy, two files."""
    path = folder / f"logits.{kind}"
    if kind == "npy":
        np.save(path, logits)
        np.save(folder / "labels.npy", labels)
    elif kind == "npz":
        more = {} if truth is None else {"truth": truth}
        np.savez(path, logits=logits, labels=labels, classes=np.array(names), **more)
    else:
        columns = {name: logits[:, k] for k, name in enumerate(names)}
        table = pa.table(columns | {"label": labels})
        (pc.write_csv if kind == "csv" else pq.write_table)(table, path)
    return path


def opened(folder, kind, logits, labels, **options):
    path = write_logits(folder, kind, logits, labels)
    beside = folder / "labels.npy" if kind == "npy" else None
    return files.open_source(path, labels=beside, needed=("labels",), **options)


def text_file(folder, text, name="logits.csv"):
    path = folder / name
    path.write_text(text)
    return path


def read_by_several(kind):
    """A file of logits and the labels of three people, one of whom skips rows, and their votes."""
    data = read_npz("logits.npz")
    y = data["labels"]
    said = np.column_stack([y, y, np.arange(len(y)) % len(NAMES)])
    said[::3, 1] = -1
    people = dict(zip(["ann", "bob", "cy"], said.T, strict=True))
    path = f"read.{kind}"
    if kind == "npz":
        np.savez(path, logits=data["logits"], **people)
    else:
        words = np.array([*NAMES, ""], dtype=object)
        columns = {name: words[column].tolist() for name, column in people.items()}
        logits = dict(zip(NAMES, data["logits"].T.tolist(), strict=True))
        write_columns(Path(path), logits | columns)
    names = None if kind == "npz" else NAMES
    votes = decal.Votes.of_annotations(said, classes=names or len(NAMES))
    return path, data["logits"], votes
