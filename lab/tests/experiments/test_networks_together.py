"""One network against several: on tiny files in the real formats, by the definitions."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from lab_helpers.experiment_files import softmax
from lab_helpers.experiment_runs import Stopped, numbers, table
from lab_helpers.undrawn import undrawn

pytest.importorskip("torch")

from decal_lab.experiments import networks_together as together
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError

SEED, ROWS, CLASSES = 5, 120, 4
NAMES = ("cnn_vgg_15_BN_64_test", "cnn_resnet_basic_110_test", "resnet20_cifar10")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three networks that see the same images with noise of their own; one knows other images."""
    folder, rng = tmp_path_factory.mktemp("networks"), np.random.default_rng(0)
    latent = 2 * rng.standard_normal((ROWS, CLASSES))
    human = softmax(latent)
    labels = np.argmax(human.cumsum(axis=1) > rng.random((ROWS, 1)), axis=1)
    for name in NAMES:
        z = (1.5 * latent + rng.standard_normal(latent.shape)).astype(np.float32)
        if name == "resnet20_cifar10":
            np.savez(folder / name, cifar10_test=z, test_labels=labels)
        else:
            np.savez(folder / name, logits=z, labels=labels, human=human)
    foreign = {"logits": z[:50], "labels": labels[:50], "human": human[:50]}
    np.savez(folder / "cnn_resnext_29_8x64d_test", **foreign)
    return folder


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    return out, run(together.experiment, data, out, seeds=(SEED,))


def logits_of(data):
    found = []
    for name in sorted(NAMES, key=list(together.NETWORKS).index):
        with np.load(data / f"{name}.npz") as file:
            found.append(file["cifar10_test" if name.startswith("resnet20") else "logits"])
    return found


def covered(low, high, truth):
    return np.mean([
        all(a - 5e-4 <= t <= b + 5e-4 for a, t, b in zip(*row, strict=True))
        for row in zip(low, truth, high, strict=True)
    ])  # fmt: skip


def test_all_networks_together_are_the_box_of_those_that_agree_most(finished, data):
    with np.load(data / f"{NAMES[0]}.npz") as file:
        human = file["human"]
    judged = np.random.default_rng(SEED).permutation(ROWS)[ROWS // 2 :]
    members = np.stack([softmax(z.astype(float)) for z in logits_of(data)], axis=1)
    rows = {
        float(row["discarded"]): row
        for row in table(finished[0] / "rows.csv")
        if row["method"] == together.ENSEMBLING
    }
    for share, kept in ((0.0, 3), (0.2, 2), (0.4, 2), (0.6, 1)):
        low, high = [], []
        for i in judged:
            center = members[i].mean(axis=0)
            nearest = sorted(members[i], key=lambda p, c=center: sum((p - c) ** 2))[:kept]
            low.append(np.min(nearest, axis=0))
            high.append(np.max(nearest, axis=0))
        low, high = np.array(low), np.array(high)
        assert float(rows[share]["coverage"]) == covered(low, high, human[judged])
        assert float(rows[share]["efficiency"]) == pytest.approx(1 - np.mean(high - low))


def test_each_alone_is_as_wide_and_fitted_on_the_other_half(finished, data):
    rows = table(finished[0] / "rows.csv")
    wanted = {
        row["discarded"]: float(row["efficiency"])
        for row in rows
        if row["method"] == together.ENSEMBLING
    }
    with np.load(data / f"{NAMES[0]}.npz") as file:
        z, labels, human = file["logits"], file["labels"], file["human"]
    order = np.random.default_rng(SEED).permutation(ROWS)
    fitted, judged = order[: ROWS // 2], order[ROWS // 2 :]
    alone = [r for r in rows if r["data"] == f"{NAMES[0]}/3" and r["method"] == "class"]
    assert len(alone) == len(together.DISCARDED)
    for row in alone:
        if row["alpha"] == "nan":  # no alpha is that narrow
            assert wanted[row["discarded"]] > 0.99
            continue
        assert float(row["efficiency"]) == pytest.approx(wanted[row["discarded"]], abs=2e-6)
        sets = decal.decalibrate(z[fitted], labels[fitted], alpha=float(row["alpha"]))
        box = sets.predict(z[judged])
        assert float(row["coverage"]) == covered(box.lower, box.upper, human[judged])


def test_it_tells_what_it_found_and_what_is_missing(finished):
    told = finished[1]
    assert told.needs == (
        "cnn_densenet_BC_100_12_test.npz",
        "cnn_resnet_preact_bottleneck_164_test.npz",
        "cnn_resnext_29_8x64d_test.npz",
    )
    assert [len(rows) for rows in told.sections.values()] == [3, 3, 3]
    assert len(told.claims) == 2
    lowest = min(float(row[1]) for row in told.sections["Each alone: class + temperature"])
    box = float(told.sections["All together"][1][1])
    assert told.claims[1].holds == (lowest >= box)
    assert {path.name for path in told.files} >= {"together.svg", "table.md", "table.tex"}
    assert all(path.exists() for path in told.files)


def test_a_killed_run_resumes_and_the_same_seeds_give_the_same_rows(finished, data, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(together.experiment, data, tmp_path, seeds=(SEED,), track=Stopped(after=0))
    half = Stopped(after=3)
    with pytest.raises(KeyboardInterrupt):
        run(together.experiment, data, tmp_path, seeds=(SEED,), track=half)
    rest = Stopped()
    with undrawn():  # the same rows as those of `finished`, whose figures are drawn
        run(together.experiment, data, tmp_path, seeds=(SEED,), track=rest)
    assert not set(half.cells) & set(rest.cells)
    assert numbers(tmp_path / "rows.csv") == numbers(finished[0] / "rows.csv")


def test_one_network_is_not_several(data, tmp_path):
    (tmp_path / f"{NAMES[0]}.npz").write_bytes((data / f"{NAMES[0]}.npz").read_bytes())
    with pytest.raises(NoDataAvailableError, match="two or more networks for CIFAR-10"):
        run(together.experiment, tmp_path, tmp_path / "out")
