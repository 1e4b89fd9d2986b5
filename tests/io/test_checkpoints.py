"""Fits that are interrupted, continued, and end with the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("typer", reason="needs decal[cli]")
pa = pytest.importorskip("pyarrow", reason="needs decal[cli]")

import decal  # noqa: E402
from decal.io import checkpoints  # noqa: E402
from decal.io.checkpoints import FitCheckpoint, Monitor, Stopped, learn  # noqa: E402
from decal.io.folders import open_folder  # noqa: E402
from helpers.commands import succeed  # noqa: E402
from helpers.logit_folders import (  # noqa: E402
    PARTS,
    ROWS,
    assert_fits,
    assert_same_bits,
    fail,
    make_data,
    program,
    table,
    wait_until,
    write,
    write_folder,
)
from helpers.strategies import at_most  # noqa: E402


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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


@at_most(12)
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


KILLED_FIT = (
    "fit",
    "--alpha=0.8",
    "in",
    "--checkpoint-every",
    0,
    "--directions",
    "class,temperature",
    "-o",
)


@pytest.fixture(scope="module")
def fitted_without_a_stop(tmp_path_factory):
    """The model file that the killed fits must end with."""
    folder = tmp_path_factory.mktemp("through")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_folder(Path("in"), rows=1500)
        through = program(*KILLED_FIT, "through.npz")
        _, message = through.communicate(timeout=300)
        assert through.returncode == 0, message
    return folder / "through.npz"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_fit_killed_again_and_again_ends_with_the_same_bits(number, fitted_without_a_stop):
    write_folder(Path("in"), rows=1500)
    fit = *KILLED_FIT, "model.npz"
    for finished in (1, 3):
        process = program(*fit)
        seen = Path("model.npz.checkpoint/state.json")

        def far_enough(finished=finished, seen=seen):
            return seen.exists() and len(json.loads(seen.read_text())["done"]) >= finished

        wait_until(far_enough, process)
        process.send_signal(number)
        _, message = process.communicate(timeout=300)
        assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
        if number != signal.SIGKILL:
            assert "Stopped. model.npz.checkpoint holds" in message
            assert "Run the same command again to continue." in message
        assert not Path("model.npz").exists()
        json.loads(seen.read_text())
    process = program(*fit)
    _, message = process.communicate(timeout=300)
    assert process.returncode == 0, message
    assert "Continuing after" in message
    assert not seen.exists()
    assert_same_bits("model.npz", fitted_without_a_stop)


def test_small_fits_write_no_checkpoint_and_time_decides_for_others(monkeypatch):
    write_folder(Path("in"))
    written = []
    monkeypatch.setattr(FitCheckpoint, "write", lambda _, state: written.append(str(state)))
    monkeypatch.setattr(checkpoints, "CHUNK_ELEMENTS", 60)
    succeed("fit", "--alpha=0.8", "in", "-o", "a.npz")
    assert written == []
    succeed("fit", "--alpha=0.8", "in", "-o", "b.npz", "--checkpoint-every", 0)
    assert written[:3] == [
        "0 finished files and 20 rows of part-0000.parquet",
        "0 finished files and 40 rows of part-0000.parquet",
        "1 finished file and 20 rows of part-0001.parquet",
    ]


ONE_PROCESS = """
import sys
from pathlib import Path

import decal
from decal._base import numerics
from decal.io import checkpoints
from decal.io.folders import open_folder


class StopAfterOneChunk(checkpoints.Monitor):
    def stopping(self):
        return stop == "stop"


path, labels, to, stop, elements, compiled = sys.argv[1:]
checkpoints.CHUNK_ELEMENTS = int(elements)
if int(compiled):
    numerics.COMPILED_ELEMENTS = int(compiled)
model = decal.Decalibrator(directions=("class", "temperature"))
folder = open_folder(Path(path), labels=Path(labels), needed=("labels",))
try:
    checkpoint = checkpoints.FitCheckpoint(Path(to + ".checkpoint"))
    checkpoints.learn(model, folder, checkpoint, monitor=StopAfterOneChunk())
except checkpoints.Stopped:
    assert stop == "stop"
else:
    assert stop == "go"
    model.save(to)
"""


@pytest.mark.parametrize(
    ("rows", "K", "elements", "compiled"),
    [
        pytest.param(900, 3, 600, 0, id="too little for compiled code"),
        pytest.param(9_500, 3, 6_000, 1 << 12, id="compiled code but for the last chunk"),
        pytest.param(
            900_000, 10, checkpoints.CHUNK_ELEMENTS, 0, id="large", marks=pytest.mark.slow
        ),
    ],
)
def test_a_fit_continued_in_a_new_process_ends_with_the_same_bits(rows, K, elements, compiled):
    pytest.importorskip("numba", reason="needs decal[fast]")
    logits, labels = make_data(min(rows, 100_000), K)
    np.save("logits.npy", np.resize(logits.astype(np.float32), (rows, K)))
    np.save("labels.npy", np.resize(labels, rows))

    def process(to, stop):
        arguments = ["logits.npy", "labels.npy", to, stop, elements, compiled]
        command = [sys.executable, "-c", ONE_PROCESS, *map(str, arguments)]
        subprocess.run(command, check=True)

    process("stopped.npz", "stop")
    assert Path("stopped.npz.checkpoint/state.json").exists()
    process("stopped.npz", "go")
    process("through.npz", "go")
    assert_same_bits("stopped.npz", "through.npz")


# What changed since


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
    message = fail("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert message == (
        "files must stay as they were when they were fitted: got part-0001.parquet, of another "
        "size or time of change. Put it back, or forget model.npz.checkpoint with --restart."
    )
    Path("in/part-0001.parquet").unlink()
    assert "got part-0001.parquet, which is gone." in fail(
        "fit", "--alpha=0.8", "in", "-o", "model.npz"
    )
    result = succeed("fit", "--alpha=0.8", "in", "-o", "model.npz", "--restart")
    assert "Continuing" not in result.stderr
    assert decal.Decalibrator.load("model.npz").examples == (PARTS - 1) * ROWS


def test_a_file_that_changed_while_half_done_is_read_anew(stopped):
    logits, labels = make_data(7, seed=1)
    write(Path("in/part-0002.parquet"), table(logits, labels))
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
    keep = np.r_[0:80, 120:200]
    both = np.concatenate([stopped[0][keep], logits])
    assert_fits("model.npz", both, np.concatenate([stopped[1][keep], labels]))


def test_files_that_came_since_are_added(stopped):
    logits, labels = make_data(30, seed=1)
    write(Path("in/a-new-one.parquet"), table(logits, labels))
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz")
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
    assert fail("fit", "--alpha=0.8", "in", "-o", "model.npz", *options).startswith(message)


@pytest.mark.usefixtures("stopped")
def test_a_damaged_checkpoint_is_refused():
    state = Path("model.npz.checkpoint/state.json")
    kept = json.loads(state.read_text())
    evidence = state.parent / kept["evidence"]
    intact = evidence.read_bytes()
    evidence.write_bytes(b"hello")
    message = fail("fit", "--alpha=0.8", "in", "-o", "model.npz")
    assert message.startswith("checkpoint must be intact: got model.npz.checkpoint (")
    assert message.endswith("Start over with --restart.")
    evidence.write_bytes(intact)
    changes = [{"version": 2}, {"done": [{}]}, {"layout": 3}, {"settings": None}, {"done": None}]
    changes.append({"current": kept["current"] | {"rows": -1}})
    for text in ("{", "[]", "[" * 10**5, *(json.dumps(kept | change) for change in changes)):
        state.write_text(text)
        assert "checkpoint must be intact" in fail("fit", "--alpha=0.8", "in", "-o", "model.npz")
    succeed("fit", "--alpha=0.8", "in", "-o", "model.npz", "--restart")


# Writing


@pytest.mark.parametrize("skip_bad", [True, False])
def test_a_checkpoint_that_cannot_be_written_never_drops_a_good_file(monkeypatch, skip_bad):
    monkeypatch.setattr(checkpoints, "CHUNK_ELEMENTS", 60)
    write_folder(Path("in"))
    kept = Path("model.npz.checkpoint")

    class Obstacle(Monitor):
        def advance(self, rows):  # noqa: ARG002
            kept.touch()  # where the folder would be made

    with pytest.raises(FileExistsError, match=r"model\.npz\.checkpoint"):
        learn(
            decal.Decalibrator(),
            open_folder(Path("in"), needed=("labels",)),
            FitCheckpoint(kept),
            every=0,
            skip_bad=skip_bad,
            monitor=Obstacle(),
        )


def test_errors_of_the_machine_never_drop_a_good_file():
    write_folder(Path("in"))
    resource = pytest.importorskip("resource", reason="needs POSIX")
    folder = open_folder(Path("in"), needed=("labels",))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    class Exhaust(Monitor):
        def start(self, rows, done):  # noqa: ARG002
            os.close(lowest_free := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))

    try:
        with pytest.raises(OSError, match="Too many open files"):
            learn(
                decal.Decalibrator(),
                folder,
                FitCheckpoint(Path("kept")),
                skip_bad=True,
                monitor=Exhaust(),
            )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_two_fits_cannot_write_one_model_at_once():
    write_folder(Path("in"), rows=20_000)
    fit = ["fit", "--alpha=0.8", "in", "-o", "model.npz"]
    process = program(*fit, elements=60)
    wait_until(Path(".model.npz.checkpoint.lock").exists, process)
    wait_until(lambda: Path(".model.npz.checkpoint.lock").read_text(), process)
    message = fail(*fit)
    process.kill()
    process.communicate()
    assert message.startswith(
        f"model.npz.checkpoint must be written by one run at a time: got process {process.pid} on "
    )
    succeed(*fit)  # the lock ended with the process that was killed
    assert not Path(".model.npz.checkpoint.lock").exists()


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


@at_most(100)
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
