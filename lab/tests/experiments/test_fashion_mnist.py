"""The comparison on images: end to end on tiny files in the real format, and its report."""

from __future__ import annotations

import gzip
import itertools
import math
import os
import shutil
import struct
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lab_helpers.experiment_runs import in_one_thread, table
from lab_helpers.undrawn import undrawn
from oracles.boxes import lower_entropy, upper_entropy

pytest.importorskip("sklearn")
torch = pytest.importorskip("torch")

from sklearn.ensemble import RandomForestClassifier  # noqa: E402

from decal_lab.baselines import small_conv  # noqa: E402
from decal_lab.experiments import fashion_mnist as fashion  # noqa: E402
from decal_lab.experiments.comparison.fashion_images import FashionPlan  # noqa: E402
from decal_lab.experiments.comparison.fashion_summary import findings  # noqa: E402
from decal_lab.experiments.comparison.plan import (  # noqa: E402
    COLUMNS,
    CREDAL,
    CURVES,
    DRAWN,
    ENERGY,
    ENTROPY,
    METHODS,
    REAL,
    SHOWN,
    WRAPPER,
)
from decal_lab.experiments.harness.experiment import Request, run  # noqa: E402
from decal_lab.experiments.harness.rows import RowStore  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TINY = FashionPlan(
    name="tiny",
    seeds=1,
    members=2,
    train=100,
    held_out=90,
    forest=100,
    test=60,
    outside=50,
    epochs=2,
    batch=25,
    evidential_epochs=1,
)
EXPERIMENT = partial(fashion.experiment, plan=TINY)
SEED = 3
UNLIKE = ("train_seconds", "predict_seconds", "commit")
"""Columns that two runs need not share: the sources may be committed in between."""


def write_idx(path, array):
    header = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(
        f">{array.ndim}I", *array.shape
    )
    with gzip.open(path, "wb") as file:
        file.write(header + array.astype(np.uint8).tobytes())


def write_images(folder, rng, *, sizes, shown):
    """IDX files of noisy images; class k has a bright bar at a place of its own, if shown."""
    folder.mkdir()
    for prefix, n in sizes.items():
        labels = rng.integers(0, 10, n)
        images = rng.integers(0, 120, (n, 28, 28))
        for image, label in zip(images, labels, strict=True):
            if shown:
                image[2 * label + 4 : 2 * label + 6] += rng.integers(40, 130)
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", labels)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with tiny Fashion-MNIST and MNIST, as npm calls it; no notMNIST."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    write_images(folder / "fashion-mnist", rng, sizes={"train": 320, "t10k": 80}, shown=True)
    write_images(folder / "mnist-data", rng, sizes={"t10k": 70}, shown=False)
    return folder


@pytest.fixture(scope="module", autouse=True)
def empty_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DECAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    """The results of a run, and its report; `killed` is a run with processes."""
    out = tmp_path_factory.mktemp("results") / "fashion"
    with in_one_thread():
        return out, run(EXPERIMENT, data, out, seeds=(SEED,))


def only(rows, labels, method):
    (row,) = (r for r in rows if (r["labels"], r["method"]) == (labels, method))
    return row


class Stopped:
    """Hands on the cells, remembers them all, and stops like an interrupted run after some."""

    def __init__(self, after):
        self.after, self.cells = after, []

    def __call__(self, cells):
        self.cells = list(cells)
        for number, cell in enumerate(cells):
            if number == self.after:
                raise KeyboardInterrupt
            yield cell


# Slow and literal: what the rows should say, from the networks that the run has stored


def images_of(folder, prefix):
    with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)
    with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz") as file:
        return pixels, np.frombuffer(file.read()[8:], np.uint8).astype(int)


def probabilities(out, labels, index, pixels):
    """What a stored member of the ensemble predicts, and its logits."""
    net = small_conv(10)
    (path,) = (out / "members").glob(f"fashion-mnist-{labels}-tiny-{SEED}-*/ensemble")
    net.load_state_dict(torch.load(path / f"member-{index:03}.pt", weights_only=True))
    net.eval()
    with torch.no_grad():
        z = net(torch.tensor(pixels / 255, dtype=torch.float32)[:, None]).double().numpy()
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True), z


def order_of_images():
    """Which images a seed trains on, holds out, gives to the forest, and tests."""
    rng = np.random.default_rng(SEED)
    order, tested = rng.permutation(320), rng.permutation(80)[:60]
    return order[:100], order[100:190], order[190:290], tested


def evaluated_images(data):
    test = images_of(data / "fashion-mnist", "t10k")
    chosen = order_of_images()[-1]
    other = images_of(data / "mnist-data", "t10k")[0]
    outside = other[np.random.default_rng(SEED).permutation(70)[:50]]
    return test[0][chosen], test[1][chosen], outside


def pairwise_auroc(inside, outside):
    pairs = [(a < b) + (a == b) / 2 for a, b in itertools.product(inside, outside)]
    return float(np.mean(pairs))


# The whole run


def test_every_method_has_its_rows(finished):
    rows = table(finished[0] / "rows.csv")
    found = {(r["labels"], r["method"], float(r["alpha"])) for r in rows if r["alpha"] != "nan"}
    assert found == {
        (labels, method, alpha)
        for labels, levels in ((REAL, SHOWN), (DRAWN, CURVES))
        for method, alphas in levels.items()
        for alpha in alphas
    }
    without = {(r["labels"], r["method"]) for r in rows if r["alpha"] == "nan"}
    assert without == {(REAL, m) for m in METHODS if m not in SHOWN} | {
        (DRAWN, m) for m in CREDAL if m not in SHOWN
    }
    assert {r["seed"] for r in rows} == {str(SEED)}
    for row in rows:
        covers = row["labels"] == DRAWN
        assert (row["coverage"] != "nan") == (row["efficiency"] != "nan") == covers
        assert (row["auroc_mnist"] != "nan") != covers
        assert row["auroc_notmnist"] == "nan"
        assert float(row["train_seconds"]) > 0
        assert float(row["predict_seconds"]) > 0


def test_single_network_scores_agree_with_the_stored_network(finished, data):
    rows = table(finished[0] / "rows.csv")
    pixels, labels, outside = evaluated_images(data)
    (p, z), (q, w) = (probabilities(finished[0], REAL, 0, x) for x in (pixels, outside))

    def entropy(rows_of):
        return [-sum(x * math.log(x) for x in row if x > 0) for row in rows_of]

    def energy(logits):
        return [-math.log(sum(math.exp(x) for x in row)) for row in logits]

    row = only(rows, REAL, ENTROPY)
    assert float(row["auroc_mnist"]) == pytest.approx(
        pairwise_auroc(entropy(p), entropy(q)), abs=1e-9
    )
    assert float(row["accuracy"]) == np.mean(p.argmax(axis=1) == labels)
    bins: dict[int, list[float]] = {}
    for confidence, right in zip(p.max(axis=1), p.argmax(axis=1) == labels, strict=True):
        bins.setdefault(math.ceil(confidence * 10), []).append(confidence - right)
    gap = sum(abs(sum(values)) for values in bins.values()) / len(p)
    assert float(row["ece"]) == pytest.approx(gap, abs=1e-7)
    row = only(rows, REAL, ENERGY)
    assert float(row["auroc_mnist"]) == pytest.approx(
        pairwise_auroc(energy(z), energy(w)), abs=1e-9
    )


def test_the_wrapper_agrees_with_boxes_around_its_stored_members(finished, data):
    rows = table(finished[0] / "rows.csv")
    pixels, _, outside = evaluated_images(data)

    def box(images):
        members = np.stack([probabilities(finished[0], REAL, m, images)[0] for m in (0, 1)])
        return members.min(axis=0), members.max(axis=0)

    scores = {
        "auroc_mnist": lambda low, high: upper_entropy(low, high) - lower_entropy(low, high),
        "auroc_mnist_total": upper_entropy,
        "auroc_mnist_width": lambda low, high: (high - low).mean(axis=1),
    }
    row = only(rows, REAL, WRAPPER)
    for column, score in scores.items():
        values = [score(*box(images)).tolist() for images in (pixels, outside)]
        assert float(row[column]) == pytest.approx(pairwise_auroc(*values), abs=2e-3)
    assert only(rows, REAL, ENERGY)["auroc_mnist_width"] == "nan"


def test_coverage_is_of_a_forest_that_saw_other_images(finished, data):
    rows = table(finished[0] / "rows.csv")
    train = images_of(data / "fashion-mnist", "train")
    fitted, held_out, apart, _ = order_of_images()
    forest = RandomForestClassifier(100, random_state=SEED)
    forest.fit(train[0][apart].reshape(100, -1), train[1][apart])
    pixels = evaluated_images(data)[0]
    truth = forest.predict_proba(pixels.reshape(60, -1))
    members = np.stack([probabilities(finished[0], DRAWN, m, pixels)[0] for m in (0, 1)])
    low, high = members.min(axis=0), members.max(axis=0)
    inside = [
        all(a - 5e-4 <= t <= b + 5e-4 for a, t, b in zip(*row, strict=True))
        for row in zip(low, truth, high, strict=True)
    ]
    row = only(rows, DRAWN, WRAPPER)
    assert float(row["coverage"]) == np.mean(inside)
    assert float(row["efficiency"]) == pytest.approx(1 - np.mean(high - low), abs=1e-6)
    # Labels follow the truth: where the forest is sure, there is no other.
    split = TINY.prepare(DRAWN, SEED, data, finished[0])
    np.testing.assert_allclose(split.truth, truth)
    assert (truth[np.arange(60), split.test[1]] > 0).all()
    assert not set(fitted) & set(held_out)
    assert not set(apart) & {*fitted, *held_out}
    np.testing.assert_array_equal(split.train[0][:, 0], np.float32(train[0][fitted] / 255))


def test_it_reports_tables_figures_and_what_is_missing(finished):
    out, told = finished
    assert {path.name for path in told.files} >= {
        "rows.csv", "table.md", "table.tex", "table.csv", "time.svg", "time.png", "tradeoff.png",
    }  # fmt: skip
    assert all(path.stat().st_size > 0 for path in told.files)
    assert len(told.needs) == 1
    assert told.needs[0].startswith("notMNIST (python -c ")
    assert any("did not converge" in note or "must reach" in note for note in told.notes)
    markdown = (out / "table.md").read_text()
    assert "| Credal Relative Likelihood | 0.9 |" in markdown
    assert "AUROC notMNIST" not in markdown
    assert r"class + temperature & 0.99 &" in (out / "table.tex").read_text()
    assert len(table(out / "table.csv")) == len(table(out / "rows.csv"))


# Resuming


def comparable(path):
    return [{k: v for k, v in row.items() if k not in UNLIKE} for row in table(path)]


@pytest.fixture(scope="module")
def killed(data, tmp_path_factory):
    """The results of a run that was killed once a network was stored, and its workers."""
    folder = tmp_path_factory.mktemp("killed")
    out, script = folder / "results", folder / "run.py"
    script.write_text(
        "from pathlib import Path\n"
        "from functools import partial\n"
        "from decal_lab.experiments.comparison.fashion_images import FashionPlan\n"
        "from decal_lab.experiments.fashion_mnist import experiment\n"
        "from decal_lab.experiments.harness.experiment import run\n"
        "if __name__ == '__main__':\n"
        f"    data, out = Path({str(data)!r}), Path({str(out)!r})\n"
        f"    run(partial(experiment, plan={TINY!r}), data, out, seeds=({SEED},))\n"
    )
    log = folder / "log.txt"
    with log.open("wb") as told:  # a pipe that nobody reads could fill, and the process wait
        process = subprocess.Popen([sys.executable, script], stderr=told)
    try:
        wait_for(lambda: stored_networks(out), while_running=process, log=log)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers = children.read_text().split() if children.exists() else []
    finally:
        process.kill()
        process.wait()
    return out, workers


def stored_networks(out):
    return {path: path.stat().st_mtime_ns for path in out.glob("members/*/*/member-000.json")}


def finished_cells(out):
    return RowStore(out / "rows.csv", COLUMNS, level="alpha").cells


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_when_it_is_killed_its_workers_end(killed):
    _, workers = killed
    assert len(workers) >= 2  # besides workers, Python's tracker of resources
    wait_for(lambda: not any(alive(worker) for worker in workers))


def test_a_run_that_was_killed_and_interrupted_goes_on_and_ends_in_the_same_rows(
    finished, killed, data, monkeypatch
):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)  # so that one worker ends what several began
    out, _ = killed
    kept = stored_networks(out)
    assert kept
    before = len(finished_cells(out))
    first = Stopped(after=3)
    with pytest.raises(KeyboardInterrupt):
        run(EXPERIMENT, data, out, seeds=(SEED,), track=first)
    assert len(finished_cells(out)) == before + 3
    second, third = Stopped(after=None), Stopped(after=0)
    with (
        undrawn(),
        in_one_thread(),
    ):  # the same rows as those of `finished`, whose figures are drawn
        run(EXPERIMENT, data, out, seeds=(SEED,), track=second)
        assert second.cells == first.cells[3:]
        assert stored_networks(out).items() >= kept.items()
        assert comparable(out / "rows.csv") == comparable(finished[0] / "rows.csv")
        run(EXPERIMENT, data, out, seeds=(SEED,), track=third)
    assert third.cells == []


def wait_for(condition, seconds=300, *, while_running=None, log=None):
    """Wait until a condition holds, but not for what a process would do that has ended."""
    end = time.monotonic() + seconds
    while not condition():
        if while_running is not None and while_running.poll() is not None and not condition():
            pytest.fail(f"the process ended with {while_running.returncode}: {log.read_text()}")
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.05)


def test_nobody_waits_for_a_process_that_has_ended(tmp_path):
    log = tmp_path / "log.txt"
    with log.open("wb") as told:
        process = subprocess.Popen([sys.executable, "-c", "raise SystemExit('oh')"], stderr=told)
    with pytest.raises(pytest.fail.Exception, match="the process ended with 1: oh"):
        wait_for(lambda: False, while_running=process, log=log)


def alive(pid):
    """Whether a process is there and runs Python's spawned workers: numbers are used again."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def test_images_that_arrive_later_are_added(finished, data, tmp_path):
    out = Path(shutil.copytree(finished[0], tmp_path / "copy"))
    less = tmp_path / "less"
    less.mkdir()
    shutil.copytree(data / "fashion-mnist", less / "fashion-mnist")
    with undrawn():
        told = run(EXPERIMENT, less, out, seeds=(SEED,), track=Stopped(after=0))
    assert [need.partition(" ")[0] for need in told.needs] == ["MNIST", "notMNIST"]
    lines = (out / "rows.csv").read_text().splitlines(keepends=True)
    column = list(COLUMNS).index("auroc_mnist")
    for number, line in enumerate(lines):
        if f",{ENERGY}," in line:
            fields = line.split(",")
            fields[column] = "nan"
            lines[number] = ",".join(fields)
    (out / "rows.csv").write_text("".join(lines))
    with undrawn():
        run(EXPERIMENT, less, out, seeds=(SEED,), track=Stopped(after=0))
    again = Stopped(after=0)
    with pytest.raises(KeyboardInterrupt), in_one_thread():
        run(EXPERIMENT, data, out, seeds=(SEED,), track=again)
    assert [cell.method for cell in again.cells] == [ENERGY]


def test_the_kept_truth_of_other_images_is_not_taken_for_theirs(data, tmp_path):
    other = Path(shutil.copytree(data, tmp_path / "data"))
    path = other / "fashion-mnist" / "train-images-idx3-ubyte.gz"
    with gzip.open(path) as file:
        content = bytearray(file.read())
    content[16:] = content[:15:-1]
    with gzip.open(path, "wb") as file:
        file.write(content)
    alone = TINY.prepare(DRAWN, SEED, other, tmp_path / "alone").truth
    first = TINY.prepare(DRAWN, SEED, data, tmp_path / "both").truth
    np.testing.assert_array_equal(TINY.prepare(DRAWN, SEED, other, tmp_path / "both").truth, alone)
    assert not np.array_equal(first, alone)


def test_more_images_than_there_are_cannot_be_had(data, tmp_path):
    with pytest.raises(ValueError, match="must have 30,090 images to train: got 320"):
        FashionPlan(train=29_900, held_out=90, forest=100).prepare(REAL, 0, data, tmp_path)


# Reporting


def test_the_report_needs_rows_only_and_no_torch(finished, tmp_path):
    shutil.copy(finished[0] / "rows.csv", tmp_path)
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from decal_lab.experiments.comparison.plan import COLUMNS\n"
        "from decal_lab.experiments.comparison.fashion_images import FashionPlan\n"
        "from decal_lab.experiments.comparison.fashion_summary import findings\n"
        "from decal_lab.experiments.harness.experiment import write\n"
        "from decal_lab.experiments.harness.rows import RowStore\n"
        f"out = Path({str(tmp_path)!r})\n"
        "store = RowStore(out / 'rows.csv', COLUMNS, level='alpha')\n"
        f"found = findings(store, plan={TINY!r}, seeds=({SEED},))\n"
        f"write(found, store, out, seeds=({SEED},), needs={finished[1].needs!r})\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for name in ("table.md", "table.tex", "table.csv", "time.svg", "tradeoff.svg"):
        assert (tmp_path / name).read_bytes() == (finished[0] / name).read_bytes(), name


def test_other_seeds_and_sizes_are_not_mixed_in(finished, data, tmp_path):
    store = RowStore(finished[0] / "rows.csv", COLUMNS, level="alpha")
    for plan, seed in ((FashionPlan(seeds=1), SEED), (TINY, SEED + 1)):
        assert findings(store, plan=plan, seeds=(seed,)).report.sections == {}
    for asked, drawn in (((4,), (4, 5, 6)), ((4, 9), (4, 9))):
        experiment = fashion.experiment(Request(data, tmp_path, asked))
        assert experiment.seeds == drawn
