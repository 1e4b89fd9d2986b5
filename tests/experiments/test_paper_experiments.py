"""The paper's experiments on logits: tiny files in the real formats, and the real data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import brentq

import decal
from decal._experiments import coverage_efficiency, single_models, solvers, spider_gallery
from decal._experiments import zero_shot_models as zero_shot
from decal._experiments.harness.logit_sets import NothingAtHandError
from decal._experiments.harness.published_results import ALPHAS, Published
from decal._experiments.harness.rows import Cell, RowStore
from helpers.experiment_runs import numbers, table

EVERY = [coverage_efficiency, solvers, zero_shot, spider_gallery, single_models]
TEXTS = {"rows.csv", "table.md", "table.tex"}
PAPER_IMAGES = 9300
"""Rows of the tiny CIFAR-10 files: the paper's figures name images up to 9216."""


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def draw(rng, rows, classes):
    """Logits, labels and a truth that they are drawn from."""
    latent = rng.standard_normal((rows, classes))
    truth = softmax(latent)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((rows, 1)), axis=1)
    logits = 2 * latent + rng.standard_normal((rows, classes))
    return logits.astype(np.float32), labels.astype(np.int16), truth.astype(np.float32)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A folder of small files of every kind, and published curves of CLIP."""
    folder, rng = tmp_path_factory.mktemp("tiny"), np.random.default_rng(0)
    names = ["a", "b", "c", "d"]
    z, y, q = draw(rng, PAPER_IMAGES, 4)
    np.savez(folder / "clip_cifar10_en", logits=z, labels=y, human=q, classes=names)
    np.savez(folder / "clip_cifar10_sw", logits=z, labels=y, human=q, classes=["x", "y", "x", "z"])
    z, y, q = draw(rng, 80, 4)
    np.savez(folder / "cnn_vgg_15_BN_64_test", logits=z, labels=y, human=q, classes=names)
    train, test = draw(rng, 90, 4), (z, y)
    np.savez(
        folder / "resnet20_cifar10",
        cifar10_train=train[0],
        train_labels=train[1],
        cifar10_test=test[0],
        test_labels=test[1],
    )
    for name, truth in (("snli_roberta0", "human"), ("tabpfn_MIC_46980_seed1", "truth")):
        train, test = draw(rng, 50, 3), draw(rng, 40, 3)
        keys = dict(zip(("train_logits", "train_labels"), train[:2], strict=True))
        keys |= dict(zip(("test_logits", "test_labels", truth), test, strict=True))
        np.savez(folder / name, **keys)
    train, test = draw(rng, 60, 3), draw(rng, 1200, 3)
    keys = dict(zip(("train_logits", "train_labels"), train[:2], strict=True))
    keys |= dict(zip(("test_logits", "test_labels"), test[:2], strict=True))
    np.savez(folder / "biomedclip_dermamnist_en", classes=["p", "q", "r"], **keys)
    curve = {"alpha": ALPHAS, "coverage": [0.5] * 8, "efficiency": [0.25] * 8}
    other = curve | {"coverage": [0.7] * 8}
    results = {"cov_eff_cifar10_clip_1": curve, "cov_eff_cifar10_resnet_1": curve}
    results |= {"cov_eff_cifar10_resnet_2": other}
    (folder / "published.json").write_text(json.dumps({"effcre": results}))
    return folder


@pytest.fixture(scope="module")
def done(tiny, tmp_path_factory):
    """What each experiment left and told, by module."""
    out = tmp_path_factory.mktemp("results")
    return {
        module: (out / module.__name__, module.run(tiny, out / module.__name__, quick=True))
        for module in EVERY
    }


# All of them


@pytest.mark.parametrize("module", EVERY)
def test_rows_tables_and_figures_are_left_and_told(done, module):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    out, report = done[module]
    assert {path.name for path in report.files} == {path.name for path in out.iterdir()}
    written = {path.name for path in out.iterdir()}
    assert written >= TEXTS
    pictures = {name for name in written - TEXTS if name.endswith(".png")}
    assert pictures
    for name in pictures:
        assert {name.replace(".png", ".svg"), name.replace(".png", "_dark.svg")} <= written
    assert report.notes == ()
    for told in report.tables:
        assert told.sections
        for rows in told.sections.values():
            assert all(len(row) == len(told.headings) for row in rows)
            assert all(isinstance(cell, str) for row in rows for cell in row)


@pytest.mark.parametrize("module", EVERY)
def test_a_second_run_computes_nothing_and_the_same_seed_gives_the_same_rows(
    done, module, tiny, tmp_path
):
    out, _ = done[module]
    before = (out / "rows.csv").read_bytes()
    computed = []

    def track(cells):
        computed.extend(cells)
        yield from cells

    module.run(tiny, out, quick=True, track=track)
    assert computed == []
    assert (out / "rows.csv").read_bytes() == before
    module.run(tiny, tmp_path, quick=True)
    assert numbers(tmp_path / "rows.csv") == numbers(out / "rows.csv")


@pytest.mark.parametrize("module", [coverage_efficiency, zero_shot, single_models])
def test_a_killed_run_resumes_to_the_same_tables(done, module, tiny, tmp_path):
    out, _ = done[module]
    whole = (out / "rows.csv").read_bytes()
    (tmp_path / "rows.csv").write_bytes(whole[: len(whole) // 2 + 3])  # within a line
    module.run(tiny, tmp_path, quick=True)
    for name in ("table.md", "table.tex"):
        assert (tmp_path / name).read_bytes() == (out / name).read_bytes()
    assert len(table(tmp_path / "rows.csv")) == len(table(out / "rows.csv"))


@pytest.mark.parametrize("module", EVERY)
def test_an_empty_folder_is_refused_and_what_is_needed_is_named(module, tmp_path):
    with pytest.raises(NothingAtHandError, match=r"got none in .*\. Needs .*\.npz"):
        module.run(tmp_path, tmp_path / "out")


# Coverage and efficiency


def by_brentq(logits, labels, alpha):
    """(2, K) ends of the plausible shifts, each by a root of its own: the definition."""
    z, rows = logits.astype(float), np.arange(len(logits))
    model = np.log(softmax(z)[rows, labels]).mean()
    ends = np.empty((2, z.shape[1]))
    for k in range(z.shape[1]):

        def slack(t, k=k):
            moved = z.copy()
            moved[:, k] += t
            return np.log(softmax(moved)[rows, labels]).mean() - model - np.log(alpha)

        ends[:, k] = [brentq(slack, 0, side, xtol=1e-12) for side in (-60, 60)]
    return ends


def by_definition(logits, ends):
    """Lower and upper probabilities over the model and all that are moved to an end."""
    models = [softmax(logits.astype(float))]
    for k in range(logits.shape[1]):
        for t in ends[:, k]:
            moved = logits.astype(float)
            moved[:, k] += t
            models.append(softmax(moved))
    return np.min(models, axis=0), np.max(models, axis=0)


@pytest.mark.parametrize("alpha", [0.4, 0.9])
def test_coverage_and_efficiency_are_those_of_the_definition(done, tiny, alpha):
    (row,) = (
        row
        for row in table(done[coverage_efficiency][0] / "rows.csv")
        if (row["data"], row["method"], float(row["alpha"]))
        == ("snli_roberta0/own", "class", alpha)
    )
    with np.load(tiny / "snli_roberta0.npz") as file:
        data = dict(file)
    ends = by_brentq(data["train_logits"], data["train_labels"], alpha)
    lower, upper = by_definition(data["test_logits"], ends)
    inside = (data["human"] >= lower - 5e-4) & (data["human"] <= upper + 5e-4)
    assert float(row["coverage"]) == inside.all(axis=1).mean()
    assert float(row["efficiency"]) == pytest.approx(1 - (upper - lower).mean(), abs=1e-9)


def test_published_numbers_stand_beside_ours_with_the_difference(done):
    _, report = done[coverage_efficiency]
    rows = report.sections["CLIP"]
    assert [float(row[0]) for row in rows] == list(ALPHAS)
    for _, coverage, theirs, difference, *_ in rows:
        assert theirs == "0.500"
        assert float(difference) == pytest.approx(float(coverage) - 0.5, abs=6e-4)
    (claim,) = report.claims
    assert claim.text.startswith("CLIP: within 0.006")
    assert not claim.holds  # these published numbers are made up
    network = report.further[0].sections["ResNet-20, own split"]
    assert network[-1][0] == "published ResNet-18"
    assert network[-1][1] == ".60/.25"  # the mean of two seeds


def test_what_draws_nothing_is_computed_once_for_all_seeds(tiny, tmp_path):
    coverage_efficiency.run(tiny, tmp_path, seeds=(3, 4))
    seeds = {}
    for row in table(tmp_path / "rows.csv"):
        seeds.setdefault(row["data"], set()).add(int(row["seed"]))
    assert seeds["cnn_vgg_15_BN_64"] == {3, 4}
    assert seeds["clip_cifar10_en"] == seeds["resnet20_cifar10"] == {0}


def test_without_the_humans_resnet_20_is_listed_as_needed(tiny, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "resnet20_cifar10.npz").symlink_to(tiny / "resnet20_cifar10.npz")
    report = coverage_efficiency.run(folder, tmp_path / "out")
    assert any("CIFAR-10H, to evaluate ResNet-20" in need for need in report.needs)
    assert "ResNet-20, own split" not in report.further[0].sections


# The solvers


def test_every_end_of_decal_reaches_its_alpha_by_a_likelihood_of_our_own(done, tiny):
    with np.load(tiny / "snli_roberta0.npz") as file:
        z, y = file["train_logits"].astype(float), file["train_labels"]
    mean = np.log(softmax(z)[np.arange(len(z)), y]).mean()
    rows = [r for r in table(done[solvers][0] / "rows.csv") if r["data"] == "snli_roberta0"]
    assert {row["method"] for row in rows} == {"decal", "SLSQP"}
    for row in rows:
        moved = z.copy()
        moved[:, int(row["end"].split()[1])] += float(row["shift"])
        ratio = np.exp(np.log(softmax(moved)[np.arange(len(z)), y]).mean() - mean)
        assert float(row["reached"]) == pytest.approx(ratio, abs=1e-9)
        if row["method"] == "decal":
            assert ratio == pytest.approx(float(row["alpha"]), abs=1e-9)
    assert all(claim.holds for claim in done[solvers][1].claims)


def test_the_box_over_moved_models_is_the_one_of_the_library(tiny):
    with np.load(tiny / "cnn_vgg_15_BN_64_test.npz") as file:
        z, y = file["logits"], file["labels"]
    model = decal.Decalibrator().fit(z, y)
    ends = np.array([[s.lower, s.upper] for s in [model.shifts(0.7)]])
    found, expected = solvers.box(z, ends), model.predict(z, alpha=0.7)
    np.testing.assert_allclose(found.lower, expected.lower, atol=1e-9)
    np.testing.assert_allclose(found.upper, expected.upper, atol=1e-9)


def test_an_end_that_was_lost_is_counted_and_said(tmp_path):
    store = RowStore(tmp_path / "rows.csv", solvers.COLUMNS, level="end")
    for method, lost in (("decal", 0.0), ("SLSQP", 1e31)):
        rows = []
        for alpha in solvers.ALPHAS:
            for side in solvers.SIDES:
                shift, reached = (lost, 0.0) if lost and alpha == 0.2 else (2.0, alpha)
                row = {"end": f"{alpha} 0 {side}", "alpha": alpha, "side": side, "shift": shift}
                row |= {"reached": reached, "coverage": 1.0, "efficiency": 0.5, "seconds": 0.0}
                rows.append(row | {"decal": "0", "numpy": "0", "commit": ""})
        same = {"data": "clip_cifar10_en", "method": method, "seed": 0}
        store.add(Cell("clip_cifar10_en", method, 0), [same | row for row in rows])
    report = solvers.report(store, tmp_path)
    first, second, *_ = report.sections["CLIP"]
    assert first[:4] == ("0.2", "2 of 2", "0.000 to 0.000", "1e+31")
    assert second[:4] == ("0.4", "0 of 2", "0.400 to 0.400", "2")


# Zero-shot models and single models


def test_accuracies_and_ties_are_counted(done, tiny, tmp_path):
    rows = {(r["data"], r["measure"]): r for r in table(done[zero_shot][0] / "rows.csv")}
    with np.load(tiny / "clip_cifar10_en.npz") as file:
        right = np.mean(file["logits"].argmax(axis=1) == file["labels"])
    assert float(rows["clip_cifar10_en", "accuracy"]["value"]) == right
    tied = tmp_path / "clip_cifar10_en.npz"
    z = np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 1.0], [3.0, 1.0, 1.0]])
    np.savez(tied, logits=z, labels=[0, 2, 1], human=np.eye(3), classes=list("abc"))
    found = zero_shot.measures(tied, zero_shot.SOURCES[0])
    assert found["ties"] == 2
    assert found["accuracy"] == 1 / 3


def with_tables(tiny, folder, **tables):
    """A folder like `tiny`, with tables of the paper entered."""
    for path in tiny.glob("*.npz"):
        (folder / path.name).symlink_to(path)
    (folder / "published.json").write_text(json.dumps({"tables": tables}))
    return folder


@pytest.mark.parametrize(("off", "holds"), [(0.019, True), (0.03, False)])
def test_accuracies_of_the_paper_are_compared_once_entered(tiny, done, tmp_path, off, holds):
    with np.load(tiny / "clip_cifar10_en.npz") as file:
        ours = 100 * float(np.mean(file["logits"].argmax(axis=1) == file["labels"]))
    entered = {"zero-shot accuracy": {"clip_cifar10_en": ours + off}}
    report = zero_shot.run(with_tables(tiny, tmp_path, **entered), tmp_path / "out")
    assert report.claims[0].text.startswith("clip_cifar10_en: accuracy")
    assert report.claims[0].holds is holds
    assert report.sections["CIFAR-10, English prompts"][0][2] == f"{ours + off:.2f}"
    assert zero_shot.TABLE not in report.needs
    assert zero_shot.TABLE in done[zero_shot][1].needs


def test_published_single_models_stand_below_ours_once_entered(tiny, done, tmp_path):
    entered = {"single models": {"ResNet-18, CIFAR-10": [12.345, 0.0678]}}
    report = single_models.run(with_tables(tiny, tmp_path, **entered), tmp_path / "out")
    rows = report.sections["Published: the paper's own networks"]
    assert rows == [("ResNet-18, CIFAR-10", "12.35", "0.068", "", "")]
    assert single_models.TABLE not in report.needs
    assert single_models.TABLE in done[single_models][1].needs


def test_single_models_are_measured_and_tables_draw_their_labels(done, tiny, tmp_path):
    rows = table(done[single_models][0] / "rows.csv")
    names = {row["data"] for row in rows}
    assert names == {path.stem for path in tiny.glob("*.npz")}
    found = {r["measure"]: float(r["value"]) for r in rows if r["data"] == "resnet20_cifar10"}
    with np.load(tiny / "resnet20_cifar10.npz") as file:
        p, y = softmax(file["cifar10_test"].astype(float)), file["test_labels"]
    log_loss = -np.log(p[np.arange(len(p)), y]).mean()
    assert found["accuracy"] == np.mean(p.argmax(axis=1) == y)
    assert found["negative log-likelihood"] == pytest.approx(log_loss, abs=1e-9)
    single_models.run(tiny, tmp_path, seeds=(0, 1))
    of_table = [r for r in table(tmp_path / "rows.csv") if r["data"].startswith("tabpfn")]
    accuracy = [float(r["value"]) for r in of_table if r["measure"] == "accuracy"]
    assert len(accuracy) == 2
    assert accuracy[0] != accuracy[1]


def test_drawn_labels_follow_the_truth(tmp_path):
    truth = np.tile([0.1, 0.2, 0.7], (20_000, 1))
    np.savez(tmp_path / "tabpfn_MIC_46980_seed1", test_logits=np.log(truth), truth=truth)
    (source,) = single_models.sources(["tabpfn_MIC_46980_seed1"])
    _, labels = source.load(tmp_path, 0)
    np.testing.assert_allclose(np.bincount(labels) / len(labels), truth[0], atol=0.01)


# Spiders


def test_spiders_are_rebuilt_from_their_rows(done, tiny):
    out, _ = done[spider_gallery]
    store = RowStore(out / "rows.csv", spider_gallery.COLUMNS, level="place")
    title, credal, truth = spider_gallery.spider_of(
        store, "clip_cifar10_en", 1600, 0.8, title="one"
    )
    with np.load(tiny / "clip_cifar10_en.npz") as file:
        z, y, q = file["logits"], file["labels"], file["human"]
    expected = decal.decalibrate(z, y, alpha=0.8).predict(z[1600:1601])
    assert title == "one"
    assert credal.classes == ("a", "b", "c", "d")
    np.testing.assert_array_equal(credal.lower, expected.lower)
    np.testing.assert_array_equal(credal.upper, expected.upper)
    np.testing.assert_allclose(truth, q[1600], atol=1e-7)
    assert spider_gallery.spider_of(store, "clip_cifar10_en", 17, 0.8) is None


def test_classes_of_one_name_are_told_apart_and_gaps_are_said(done):
    out, _ = done[spider_gallery]
    store = RowStore(out / "rows.csv", spider_gallery.COLUMNS, level="place")
    pages = spider_gallery.pages_of(store)
    ((_, english, _), (title, gap, _), _, (_, swahili, _)) = pages["languages_0.9"][0]
    assert english.classes == ("a", "b", "c", "d")
    assert swahili.classes == ("x (0)", "y", "x (2)", "z")
    assert gap is None
    assert title == "CLIP · French"


def test_rankings_are_by_the_exact_entropies(done, tiny):
    out, report = done[spider_gallery]
    with np.load(tiny / "clip_cifar10_en.npz") as file:
        z, y = file["logits"], file["labels"]
    lower, upper = decal.decalibrate(z, y, alpha=0.8).predict(z).entropy()
    rows = table(out / "rows.csv")
    for method, score in (("most epistemic", upper - lower), ("most aleatoric", lower)):
        of_method = [row for row in rows if row["method"] == method]
        ours = [r for r in of_method if r["place"].startswith("rank ")]
        best = np.sort(score)[::-1][: len(ours)]
        np.testing.assert_allclose([float(r["nats"]) for r in ours], best, atol=1e-12)
        for r in (r for r in of_method if r["place"].startswith("published ")):
            assert int(r["rank"]) == 1 + np.sum(score > score[int(r["image"])])
    assert set(report.further[0].sections) == {"most epistemic", "most aleatoric"}


# The real data


def test_published_curves_are_read_by_name(tiny):
    published = Published(tiny)
    curve = published.coverage("cifar10", "resnet")
    assert curve.seeds == (1, 2)
    assert curve.at("coverage", 0.8) == pytest.approx(0.6)
    assert np.isnan(curve.at("coverage", 0.81))
    assert published.coverage("cifar10", "res") is None
    assert published.ood("cifar10", "svhn", "resnet") is None
    assert published.active_learning(46941, "random") is None


@pytest.mark.data
@pytest.mark.slow
def test_the_published_curves_are_reproduced(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("clip_cifar10_en.npz", "siglip_cifar10_en.npz", "siglip2_cifar10_en.npz"):
        (folder / name).symlink_to((data_folder / name).resolve())
    (folder / "published.json").symlink_to((data_folder / "published.json").resolve())
    report = coverage_efficiency.run(folder, tmp_path / "out")
    assert [claim.holds for claim in report.claims] == [True] * 3
    for row in report.sections["CLIP"]:
        assert abs(float(row[3])) < 0.002
        assert abs(float(row[6])) < 0.002
    accuracy = zero_shot.run(folder, tmp_path / "zero")
    found = {row[0]: row[1] for row in accuracy.sections["CIFAR-10, English prompts"]}
    assert found == {"CLIP": "88.97", "SigLIP": "92.17", "SigLIP-2": "93.90"}


@pytest.mark.data
@pytest.mark.slow
def test_the_most_epistemic_images_of_siglip_are_the_published_ones(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    name = "siglip_cifar10_en.npz"
    (folder / name).symlink_to((data_folder / name).resolve())
    report = spider_gallery.run(folder, tmp_path / "out")
    (row,) = report.further[0].sections["most epistemic"]
    assert row[2] == "20 of 20"


@pytest.mark.data
@pytest.mark.slow
def test_the_published_solver_loses_ends_of_confident_networks(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    name = "cnn_vgg_15_BN_64_test.npz"
    (folder / name).symlink_to((data_folder / name).resolve())
    report = solvers.run(folder, tmp_path / "out", quick=True)
    missed = [int(row[1].split()[0]) for row in report.sections["VGG 15"]]
    assert sum(missed[:3]) > 0
    assert sum(missed[3:]) == 0
    assert all(claim.holds for claim in report.claims)
