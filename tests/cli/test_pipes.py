"""`-` for standard input and output."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from helpers.archives import read_npz

pytest.importorskip("typer", reason="needs decal[cli]")
pytest.importorskip("pyarrow", reason="needs decal[cli]")

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.feather as pf
import pyarrow.parquet as pq

import decal
from helpers.commands import refused, run, succeed

pytestmark = pytest.mark.usefixtures("logit_files")


def as_bytes(kind):
    """The labelled logits in a format."""
    if kind in ("csv", "npz", "npy"):
        return Path(f"logits.{kind}").read_bytes()
    table, sink = pc.read_csv("logits.csv"), io.BytesIO()
    if kind == "parquet":
        pq.write_table(table, sink)
    elif kind == "feather":
        pf.write_feather(table, sink, compression="uncompressed")
    else:
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["csv", "npz", "npy", "parquet", "feather", "arrow"])
def test_every_format_is_read_from_standard_input(model, kind):
    succeed("predict", model, "-", "-o", "piped.npz", stdin=as_bytes(kind))
    succeed("predict", model, "logits.npy", "-o", "named.npz")
    np.testing.assert_allclose(
        read_npz("piped.npz")["upper"], read_npz("named.npz")["upper"], rtol=0, atol=1e-12
    )


def test_fit_reads_standard_input(model):
    succeed("fit", "--alpha=0.8", "-", "-o", "piped.npz", stdin=Path("logits.csv").read_bytes())
    assert repr(decal.Decalibrator.load("piped.npz")) == repr(decal.Decalibrator.load(model))
    labels = ("--labels", "-")
    succeed(
        "fit",
        "--alpha=0.8",
        "logits.npy",
        *labels,
        "-o",
        "b.npz",
        stdin=Path("labels.npy").read_bytes(),
    )


def test_standard_output_holds_the_file_and_nothing_else(model):
    for command in (["predict"], ["evaluate", "--alpha", "0.5"], ["report"]):
        succeed(command[0], model, "logits.csv", *command[1:], "-o", "named.csv", "--force")
        result = succeed(command[0], model, "logits.csv", *command[1:], "-o", "-")
        assert result.stdout_bytes == Path("named.csv").read_bytes()
        assert "Wrote standard output" in result.stderr


def test_the_format_of_standard_output_can_be_chosen(model):
    result = succeed("predict", model, "logits.csv", "-o", "-", "--format", "npz")
    assert len(read_npz(io.BytesIO(result.stdout_bytes))["upper"]) == 200


def test_messages_speak_of_standard_input(model):
    bad = b"cat,dog,eel,label\n1,2,3,cat\n1,x,3,dog\n"
    message = refused("fit", "--alpha=0.8", "-", "-o", "m2.npz", stdin=bad)
    assert "got 'x' in standard input, line 3, column dog." in message
    message = refused("evaluate", model, "-", stdin=b"cat,dog,eel\n1,2,3\n")
    assert "got neither in standard input." in message
    message = refused("predict", model, "-", "-o", "x.csv", stdin=b"")
    assert "standard input must hold a file: got nothing." in message
    rare = b"cat,dog,eel,label\n1,2,3,0\n1,4,3,1\n"
    result = succeed("fit", "--alpha=0.8", "-", "-o", "m3.npz", stdin=rare)
    assert "never labelled in standard input: eel." in result.stderr


def test_nothing_is_written_to_standard_output_on_failure(model):
    bad = Path("logits.csv").read_bytes() + b"1,2,nan,cat\n"
    message = refused("predict", model, "-", "-o", "-", stdin=bad)
    assert "got nan in standard input, line 202, column eel." in message


def test_what_a_stream_cannot_be_is_refused(model):
    message = refused("evaluate", model, "-", "--labels", "-")
    assert "standard input must be one file: got - for logits and labels." in message
    Path("folder").mkdir()
    message = refused("predict", model, "folder", "-o", "-")
    assert "output must be a folder for a folder of logits: got -." in message
    assert "output must end in .npz: got -." in refused(
        "fit", "--alpha=0.8", "logits.csv", "-o", "-"
    )
    result = run("predict", "-", "logits.csv", "-o", "x.csv")
    assert result.exit_code == 2
    assert "MODEL must be a file: got standard input." in result.stderr
    result = run("predict", "logits.csv", model, "-o", "x.csv")
    assert result.exit_code == 2
    assert (
        "MODEL must be a model, which ends in .npz: got logits.csv. The model comes"
        in result.stderr
    )
