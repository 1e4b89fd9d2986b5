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

from helpers.commands import run, succeed  # noqa: E402
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
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    process = program("predict", "model.npz", "in", "-o", "out")
    wait_until(Path("out/part-0001.parquet").exists, process)
    process.send_signal(number)
    _, message = process.communicate(timeout=300)
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
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
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


def test_an_output_that_cannot_be_written_never_drops_a_good_file():
    write_folder(Path("in"))
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    Path("out/part-0001.parquet").mkdir(parents=True)
    result = run("predict", "model.npz", "in", "-o", "out", "--force", "--skip-bad")
    assert result.exit_code != 0
    assert "part-0001.parquet, which is a folder" in result.stderr
    assert not Path("out/_SUCCESS.json").exists()


def test_two_predicts_cannot_write_one_folder_at_once():
    write_folder(Path("in"), rows=20_000)
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    predict = ["predict", "model.npz", "in", "-o", "out"]
    process = program(*predict, elements=60)
    lock = Path("out/.decal.lock")
    wait_until(lambda: lock.exists() and lock.read_text(), process)
    message = fail(*predict)
    process.kill()
    process.communicate()
    assert message.startswith(
        f"out must be written by one run at a time: got process {process.pid} on "
    )
    succeed(*predict)
    assert [p.name for p in sorted(Path("out").iterdir()) if p.name.startswith(".")] == []
