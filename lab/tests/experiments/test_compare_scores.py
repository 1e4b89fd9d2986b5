"""Which score finds errors and unfamiliar inputs: on tiny files, and on the real data."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import decal
from decal_lab.experiments import compare_scores as scores
from decal_lab.experiments.harness import labelled_logits, score_tables
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.logit_sets import NoDataAvailableError
from lab_helpers.experiment_runs import Stopped, table
from lab_helpers.undrawn import undrawn
from oracles import class_shifts as oracles

HAS_SKLEARN = importlib.util.find_spec("sklearn") is not None


@pytest.fixture(scope="module")
def folder(every_family, resnet20_folder, tmp_path_factory):
    """Tiny files of every family, of ResNet-20, DermaMNIST and FER."""
    folder = tmp_path_factory.mktemp("scored")
    for path in (*every_family.glob("*.npz"), *resnet20_folder.glob("*.npz")):
        (folder / path.name).write_bytes(path.read_bytes())
    rng = np.random.default_rng(5)
    arrays = {}
    for part, n in (("train", 40), ("test", 30)):
        labels = rng.integers(0, 3, n)
        arrays |= {
            f"{part}_logits": rng.normal(size=(n, 3)) + 2 * np.eye(3)[labels],
            f"{part}_labels": labels,
        }
    np.savez(folder / "clip_dermamnist_en.npz", **arrays)
    both = {name: arrays[f"test_{name}"] for name in ("logits", "labels")}
    np.savez(folder / "fer_ferplus.npz", **both)
    return folder


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("scores")
    return out, run(scores.experiment, folder, out, quick=True)


def rows_of(out, data, method):
    return {
        r["score"]: float(r["auroc"])
        for r in table(out / "rows.csv")
        if (r["data"], r["method"]) == (data, method)
    }


MEASURED = {
    "total": lambda c: c.entropy()[1],
    "entropy": lambda c: c.entropy()[1] - c.entropy()[0],
    "width": lambda c: (c.tighten().upper - c.tighten().lower).mean(axis=1),
    "−confidence": lambda c: -c.tighten().lower.max(axis=1),
}


@pytest.mark.parametrize("kind", scores.SETS)
def test_errors_are_those_of_rows_that_did_not_fit_the_sets(finished, folder, kind):
    with np.load(folder / "clip_dermamnist_en.npz") as file:
        data = dict(file)
    d = decal.Decalibrator(directions=scores.SETS[kind])
    d.fit(data["train_logits"], data["train_labels"])
    credal = d.predict(data["test_logits"], alpha=0.8)
    wrong = data["test_logits"].argmax(axis=1) != data["test_labels"]
    found = rows_of(finished[0], "clip_dermamnist_en", f"{kind} @ 0.8")
    assert set(found) == {f"{m} @ errors" for m in scores.MEASURES}
    for measure, score in MEASURED.items():
        values = score(credal).round(12)
        expected = oracles.auroc(values[~wrong], values[wrong])
        assert found[f"{measure} @ errors"] == pytest.approx(expected, abs=1e-3)


def test_unfamiliar_inputs_are_told_from_new_ones(finished, folder):
    with np.load(folder / "resnet20_cifar10.npz") as file:
        data = {name: file[name].astype(float) for name in file.files}
    d = decal.Decalibrator().fit(data["cifar10_train"], data["train_labels"].astype(int))
    inside, outside = (d.predict(data[n], alpha=0.95) for n in ("cifar10_test", "mnist"))
    found = rows_of(finished[0], "resnet20_cifar10", "class @ 0.95")
    for measure, score in MEASURED.items():
        expected = oracles.auroc(score(inside).round(12), score(outside).round(12))
        assert found[f"{measure} @ mnist"] == pytest.approx(expected, abs=1e-3)
    free = rows_of(finished[0], "resnet20_cifar10", scores.FREE)
    expected = oracles.auroc(-data["cifar10_test"].max(axis=1), -data["mnist"].max(axis=1))
    assert free["maximum logit @ mnist"] == pytest.approx(expected, abs=1e-9)


def test_the_report_has_a_table_for_each_aim_and_every_measure(finished):
    out, report = finished
    titles = [t.title for t in report.tables]
    assert titles[0].startswith("Unfamiliar inputs: mean AUROC over")
    assert titles[1].startswith("Errors: mean AUROC over")
    assert "Unfamiliar inputs: MNIST" in titles
    assert {f"Errors: {kind}, alpha 0.8" for kind in scores.SETS} <= set(titles)
    first = report.tables[0]
    assert first.headings == ("score", "0.2", "0.8", "0.95")
    assert list(first.sections) == [*scores.SETS, scores.FREE]
    assert [line[0] for line in first.sections["local"]] == list(scores.MEASURES)
    assert set(score_tables.STYLES) <= set(scores.MEASURES)
    assert any(claim.text.startswith("width never ranks backwards") for claim in report.claims)
    assert {path.name for path in report.files} <= {path.name for path in out.iterdir()}


def test_means_in_tables_are_means_of_rows(finished):
    out, report = finished
    at = [r for r in table(out / "rows.csv") if r["method"] == "class @ 0.8"]
    mean = np.mean([float(r["auroc"]) for r in at if r["score"] == "width @ errors"])
    lines = {line[0]: line for line in report.tables[1].sections["class"]}
    assert lines["width"][2] == f"{mean:.3f}"


@undrawn()
def test_seeds_draw_halves_only_and_finished_cells_are_skipped(folder, tmp_path):
    counted = Stopped()
    run(scores.experiment, folder, tmp_path, quick=True, seeds=(0, 1), track=counted)
    seeds = {}
    for cell in counted.cells:
        seeds.setdefault(cell.data, set()).add(cell.seed)
    assert seeds["fer_ferplus"] == seeds["cnn_vgg_15_BN_64"] == {0, 1}
    assert seeds["resnet20_cifar10"] == seeds["clip_dermamnist_en"] == {0}
    again = Stopped()
    run(scores.experiment, folder, tmp_path, quick=True, seeds=(0, 1), track=again)
    assert again.cells == []


@pytest.mark.skipif(not HAS_SKLEARN, reason="needs scikit-learn")
def test_digits_have_logits_that_are_not_normalised_and_unseen_classes(folder):
    found, _ = labelled_logits.find_labelled(folder)
    split = found["digits"].load(0)
    assert split.logits.shape[1] == 7
    assert set(split.new_labels) == set(range(7))
    assert (~split.wrong).mean() > 0.9
    assert np.ptp(np.exp(split.new_logits).sum(axis=1)) > 1.0
    assert 400 < len(split.outside["unseen digits"]) < 600


def test_without_files_nothing_is_scored(tmp_path):
    with pytest.raises(NoDataAvailableError, match="data must hold files of logits: got none"):
        run(scores.experiment, tmp_path, tmp_path / "out")


@pytest.mark.data
@pytest.mark.slow
def test_on_real_logits_zero_one_is_backwards_and_width_never(data_folder, tmp_path):
    with undrawn():
        report = run(scores.experiment, data_folder, tmp_path, quick=True)
    verdicts = {claim.text.partition(":")[0]: claim.holds for claim in report.claims}
    assert verdicts["class shifts at alpha 0.2"]
    assert verdicts["width never ranks backwards"]
    assert not verdicts["total never ranks backwards"]
