"""Folders of files larger than memory: fitted, predicted, interrupted and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")
import pyarrow.parquet as pq  # noqa: E402

import decal  # noqa: E402
from decal._io import (  # noqa: E402
    checkpoints,
    writers,
)
from decal._io import sources as files  # noqa: E402
from decal._io.checkpoints import FitCheckpoint, Monitor, Stopped, learn  # noqa: E402
from decal._io.folders import open_folder  # noqa: E402
from helpers.logit_folders import (  # noqa: E402
    NAMES,
    PARTS,
    ROWS,
    assert_fits,
    assert_same_bits,
    fail,
    make_data,
    succeed,
    table,
    write,
    write_folder,
)


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Folders


@pytest.mark.parametrize("layout", ["columns", "fixed", "lists"])
@pytest.mark.parametrize("kind", [".parquet", ".feather", ".arrow"])
def test_a_folder_fits_and_predicts_like_its_rows_in_memory(kind, layout):
    logits, labels = write_folder(Path("in"), kind, layout=layout)
    succeed("fit", "in", "--labels-key", "label", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)
    assert not Path("model.npz.checkpoint").exists()
    succeed("predict", "model.npz", "in", "--labels-key", "label", "-o", "out", "--alpha", 0.9)
    expected = decal.decalibrate(logits, labels, alpha=0.8).predict(logits, alpha=0.9)
    for i in range(PARTS):
        found = pq.read_table(f"out/part-{i:04d}.parquet")
        rows = slice(i * ROWS, (i + 1) * ROWS)
        assert found["row"].to_pylist() == list(range(ROWS))
        for name in ("lower", "upper", "point"):
            values = np.array(found[name].to_pylist())
            np.testing.assert_allclose(values, getattr(expected, name)[rows], rtol=0, atol=1e-9)
    manifest = json.loads(Path("out/_SUCCESS.json").read_text())
    assert manifest["rows"] == PARTS * ROWS
    assert manifest["alpha"] == 0.9
    assert [p["output"] for p in manifest["parts"]] == [
        f"part-{i:04d}.parquet" for i in range(PARTS)
    ]
    assert manifest["skipped"] == {}


def test_evaluate_takes_a_folder_with_truth_in_lists():
    logits, labels = make_data(90)
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for i in range(3):
        rows = slice(30 * i, 30 * i + 30)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(truth[rows].ravel()), 3)
        part = table(logits[rows], labels[rows], layout="fixed").append_column("human", lists)
        write(Path(f"in/{i}.parquet"), part)
    succeed("fit", "in", "-o", "model.npz")
    succeed("evaluate", "model.npz", "in", "--alpha", "0.9,0.99", "-o", "t.parquet")
    found = pq.read_table("t.parquet").to_pydict()
    model = decal.Decalibrator.load("model.npz")
    sets = [model.predict(logits, alpha=a) for a in (0.9, 0.99)]
    np.testing.assert_allclose(
        found["coverage"], [decal.metrics.coverage(c, truth) for c in sets], rtol=1e-12
    )
    error = decal.metrics.expected_calibration_error(sets[0].point, labels)
    np.testing.assert_allclose(found["calibration_error"], [error] * 2, rtol=1e-12)
    np.testing.assert_allclose(found["accuracy"], [(logits.argmax(1) == labels).mean()] * 2)


def test_folders_named_by_hive_give_a_column():
    logits, labels = make_data(120)
    for k, name in enumerate(NAMES):
        part = table(logits[labels == k], labels[labels == k]).drop_columns("label")
        write(Path("in", f"label={name}", "part-0.parquet"), part)
    Path("in/_SUCCESS").touch()
    write(Path("in/_temporary/part-9.parquet"), part)
    write(Path("in/.hidden.parquet"), part)
    succeed("fit", "in", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)
    succeed("predict", "model.npz", "in", "-o", "out")
    assert Path("out/label=dog/part-0.parquet").exists()


def test_columns_in_another_order_are_matched_by_name():
    logits, labels = write_folder(Path("in"))
    path = Path("in/part-0002.parquet")
    write(path, pq.read_table(path).select(["label", "eel", "cat", "dog"]))
    succeed("fit", "in", "-o", "model.npz")
    assert_fits("model.npz", logits, labels)


def test_weights_are_a_column_and_files_of_zero_weight_add_nothing():
    logits, labels = make_data(60)
    weights = np.arange(60.0)
    weights[20:40] = 0
    for i in range(3):
        rows = slice(20 * i, 20 * i + 20)
        part = table(logits[rows], labels[rows]).append_column("w", pa.array(weights[rows]))
        write(Path(f"in/{i}.parquet"), part)
    succeed("fit", "in", "-o", "model.npz", "--weights-key", "w")
    assert_fits("model.npz", logits, labels, sample_weight=weights)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_mapped_npy_continues_in_the_middle(monkeypatch, order):
    monkeypatch.setattr(checkpoints, "CHUNK_ELEMENTS", 30)
    logits, labels = make_data(200)
    np.save("logits.npy", np.asarray(logits, order=order))
    np.save("labels.npy", labels)
    fit_with_stops("logits.npy", {7, 11}, labels=Path("labels.npy"))
    assert_fits("stopped.npz", logits, labels)
    fit_with_stops("logits.npy", set(), labels=Path("labels.npy"), to="through.npz")
    assert_same_bits("stopped.npz", "through.npz")


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


# Interruptions


class StopAt(Monitor):
    def __init__(self, chunk):
        self.left = chunk

    def stopping(self):
        self.left -= 1
        return self.left == 0


def fit_with_stops(path, stops, *, to="stopped.npz", every=1e9, **options):
    """Fit, stopped after the given numbers of chunks, each counted from the last stop."""
    for stop in [*sorted(stops), 0]:
        folder = open_folder(Path(path), needed=("labels",), **options)
        model = decal.Decalibrator(directions=("class", "temperature"))
        checkpoint = FitCheckpoint(Path(f"{to}.checkpoint"))
        try:
            learn(model, folder, checkpoint, every=every, monitor=StopAt(stop))
        except Stopped:
            continue
        model.save(to)
        checkpoint.remove()


@settings(max_examples=12, deadline=None)
@given(st.sets(st.integers(1, 12), max_size=4))
def test_any_interruptions_leave_the_result_the_same_bit_for_bit(tmp_path_factory, stops):
    folder = tmp_path_factory.mktemp("stops")
    write_folder(folder / "in")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "CHUNK_ELEMENTS", 30)  # four chunks per file
        patch.chdir(folder)
        fit_with_stops("in", stops)
        fit_with_stops("in", set(), to="through.npz")
        assert_same_bits("stopped.npz", "through.npz")


PROGRAM = (
    "import decal._io.checkpoints, decal._io.formats, decal.__main__ as entry;"
    "decal._io.checkpoints.CHUNK_ELEMENTS = {elements};"
    "decal._io.formats.CHUNK_ELEMENTS = {elements};"
    "decal._io.sources.LogitSource.chunks.__defaults__ = ({elements}, 0);"
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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_fit_killed_again_and_again_ends_with_the_same_bits(number):
    write_folder(Path("in"), rows=4000)
    fit = ["fit", "in", "-o", "model.npz", "--checkpoint-every", 0]
    fit += ["--directions", "class,temperature"]
    for finished in (1, 3):
        process = program(*fit)
        seen = Path("model.npz.checkpoint/state.json")

        def far_enough(finished=finished, seen=seen):
            return seen.exists() and len(json.loads(seen.read_text())["done"]) >= finished

        wait_until(far_enough, process)
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
        assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
        if number != signal.SIGKILL:
            assert "Stopped. model.npz.checkpoint holds" in message
            assert "Run the same command again to continue." in message
        assert not Path("model.npz").exists()
        json.loads(seen.read_text())
    process = program(*fit)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 0, message
    assert "Continuing after" in message
    assert not seen.exists()
    through = program(*fit[:3], "through.npz", *fit[4:])
    assert through.wait(timeout=60) == 0
    through.communicate()
    assert_same_bits("model.npz", "through.npz")


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


def test_small_fits_write_no_checkpoint_and_time_decides_for_others(monkeypatch):
    write_folder(Path("in"))
    written = []
    monkeypatch.setattr(FitCheckpoint, "write", lambda _, state: written.append(str(state)))
    monkeypatch.setattr(checkpoints, "CHUNK_ELEMENTS", 60)
    succeed("fit", "in", "-o", "a.npz")
    assert written == []
    succeed("fit", "in", "-o", "b.npz", "--checkpoint-every", 0)
    assert written[:3] == [
        "0 finished files and 20 rows of part-0000.parquet",
        "0 finished files and 40 rows of part-0000.parquet",
        "1 finished file and 20 rows of part-0001.parquet",
    ]


@pytest.fixture
def stopped():
    """A fit stopped within its third file."""
    logits, labels = write_folder(Path("in"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "CHUNK_ELEMENTS", 60)
        folder = open_folder(
            Path("in"),
            keys={"logits": None, "labels": None, "weights": None},
            ignore=[],
            needed=("labels",),
            probabilities=False,
            floor=0.0,
        )
        with pytest.raises(
            Stopped,
            match="model.npz.checkpoint holds 2 finished files and 20 rows of part-0002.parquet",
        ):
            learn(
                decal.Decalibrator(),
                folder,
                FitCheckpoint.next_to(Path("model.npz")),
                monitor=StopAt(5),
            )
    return logits, labels


def test_alpha_may_change_when_a_fit_continues(stopped):
    result = succeed("fit", "in", "-o", "model.npz", "--alpha", 0.5)
    assert "Continuing after 100 rows" in result.stderr
    model = decal.Decalibrator.load("model.npz")
    assert model.alpha == 0.5
    assert model.examples == PARTS * ROWS
    assert_fits("model.npz", *stopped)


@pytest.mark.usefixtures("stopped")
def test_files_that_changed_since_are_noticed():
    write(Path("in/part-0001.parquet"), table(*make_data(41, seed=1)))
    message = fail("fit", "in", "-o", "model.npz")
    assert message == (
        "files must stay as they were when they were fitted: got part-0001.parquet, of another "
        "size or time of change. Put it back, or forget model.npz.checkpoint with --restart."
    )
    Path("in/part-0001.parquet").unlink()
    assert "got part-0001.parquet, which is gone." in fail("fit", "in", "-o", "model.npz")
    result = succeed("fit", "in", "-o", "model.npz", "--restart")
    assert "Continuing" not in result.stderr
    assert decal.Decalibrator.load("model.npz").examples == (PARTS - 1) * ROWS


def test_a_file_that_changed_while_half_done_is_read_anew(stopped):
    logits, labels = make_data(7, seed=1)
    write(Path("in/part-0002.parquet"), table(logits, labels))
    succeed("fit", "in", "-o", "model.npz")
    keep = np.r_[0:80, 120:200]
    both = np.concatenate([stopped[0][keep], logits])
    assert_fits("model.npz", both, np.concatenate([stopped[1][keep], labels]))


def test_files_that_came_since_are_added(stopped):
    logits, labels = make_data(30, seed=1)
    write(Path("in/a-new-one.parquet"), table(logits, labels))
    succeed("fit", "in", "-o", "model.npz")
    both = np.concatenate([stopped[0], logits])
    assert_fits("model.npz", both, np.concatenate([stopped[1], labels]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--probabilities", "--floor", "0.1"],
            "probabilities must be as before the fit was stopped: got True, and False in "
            "model.npz.checkpoint. Give the same options, or start over with --restart.",
        ),
        (
            ["--directions", "temperature"],
            "directions must be as before the fit was stopped: got",
        ),
    ],
)
@pytest.mark.usefixtures("stopped")
def test_evidence_of_other_options_is_not_mixed_in(options, message):
    assert fail("fit", "in", "-o", "model.npz", *options).startswith(message)


@pytest.mark.usefixtures("stopped")
def test_a_damaged_checkpoint_is_refused():
    state = Path("model.npz.checkpoint/state.json")
    kept = json.loads(state.read_text())
    (state.parent / kept["evidence"]).write_bytes(b"hello")
    message = fail("fit", "in", "-o", "model.npz")
    assert message.startswith("checkpoint must be intact: got model.npz.checkpoint (")
    assert message.endswith("Start over with --restart.")
    for text in ("{", "[]", json.dumps(kept | {"version": 2}), json.dumps(kept | {"done": [{}]})):
        state.write_text(text)
        assert "checkpoint must be intact" in fail("fit", "in", "-o", "model.npz")
    succeed("fit", "in", "-o", "model.npz", "--restart")


# Merging


@st.composite
def partitions(draw):
    """Labelled logits, every row's part, and the order in which parts are merged, as a tree."""
    n, K = draw(st.integers(1, 60)), draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 1e4]))
    logits = scale * rng.standard_normal((n, K))
    parts = draw(st.integers(1, min(n, 8)))
    part = np.concatenate([np.arange(parts), rng.integers(parts, size=n - parts)])
    return logits, rng.integers(K, size=n), rng.permutation(part), draw(st.randoms())


@settings(deadline=None)
@given(partitions())
def test_neither_the_partition_nor_the_order_of_merging_changes_results(drawn):
    logits, labels, part, random = drawn

    def fitted(rows):
        model = decal.Decalibrator(directions=("class", "temperature"))
        return model.fit(logits[rows], labels[rows])

    whole = fitted(slice(None))
    pool = [fitted(part == p) for p in np.unique(part)]
    while len(pool) > 1:
        random.shuffle(pool)
        pool.append(pool.pop().merge(pool.pop()))
    (merged,) = pool
    alphas = [0.1, 0.8, 0.99]
    for ask in (decal.Decalibrator.shifts, decal.Decalibrator.scales):
        found, expected = ask(merged, alphas), ask(whole, alphas)
        np.testing.assert_allclose(found.lower, expected.lower, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.upper, expected.upper, rtol=1e-9, atol=1e-9)


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
