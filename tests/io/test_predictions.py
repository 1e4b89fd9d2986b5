"""Folders of predictions: continued after an interruption, never mixed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

from helpers.commands import succeed  # noqa: E402
from helpers.logit_folders import (  # noqa: E402
    PARTS,
    fail,
    program,
    wait_until,
    write_folder,
)


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_predict_keeps_finished_files_and_continues(number):
    write_folder(Path("in"), rows=4000)
    succeed("fit", "in", "-o", "model.npz")
    process = program("predict", "model.npz", "in", "-o", "out")
    wait_until(Path("out/part-0001.parquet").exists, process)
    process.send_signal(number)
    _, message = process.communicate(timeout=60)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130), message
    assert not Path("out/_SUCCESS.json").exists()
    finished = {p.name: p.stat().st_mtime_ns for p in Path("out").glob("part-*.parquet")}
    assert 2 <= len(finished) < PARTS
    result = succeed("predict", "model.npz", "in", "-o", "out")
    assert f"Wrote out: 5 files, {5 * 4000:,} inputs" in result.stderr
    for name, modified in finished.items():
        assert Path("out", name).stat().st_mtime_ns == modified
    succeed("predict", "model.npz", "in", "-o", "through")
    for part in Path("through").glob("*.parquet"):
        found, expected = pq.read_table(Path("out", part.name)), pq.read_table(part)
        assert found.schema.equals(expected.schema)
        for name in expected.column_names:  # read in other chunks, so equal but for round-off
            np.testing.assert_allclose(
                found[name].to_pylist(), expected[name].to_pylist(), rtol=0, atol=1e-12
            )
    assert sorted(os.listdir("out")) == sorted(os.listdir("through"))


def test_predictions_of_another_model_are_not_mixed_in():
    write_folder(Path("in"))
    succeed("fit", "in", "-o", "model.npz")
    succeed("predict", "model.npz", "in", "-o", "out", "--alpha", 0.5)
    message = fail("predict", "model.npz", "in", "-o", "out", "--alpha", 0.6)
    assert message == (
        "output must be of the same model, level and input: got out/part-0000.parquet, which is "
        "not. Choose another folder, or overwrite it with --force."
    )
    succeed("predict", "model.npz", "in", "-o", "out", "--alpha", 0.6, "--force")
    assert json.loads(Path("out/_SUCCESS.json").read_text())["alpha"] == 0.6
    shutil.copy("out/part-0000.parquet", "out/other.parquet")
    message = fail("predict", "model.npz", "in", "-o", "out", "--alpha", 0.6)
    assert message.startswith("output must hold no other predictions: got out/other.parquet,")
