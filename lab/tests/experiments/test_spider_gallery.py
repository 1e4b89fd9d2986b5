"""Spiders rebuilt from rows, and rankings by exact entropies."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal_lab.experiments import (
    spider_gallery,
)
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.harness.rows import RowStore
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


def test_spiders_are_rebuilt_from_their_rows(paper_runs, paper_folder):
    out, _ = paper_runs[spider_gallery]
    store = RowStore(out / "rows.csv", spider_gallery.COLUMNS, level="place")
    title, credal, truth = spider_gallery.spider_of(
        store, "clip_cifar10_en", 1600, 0.8, title="one"
    )
    with np.load(paper_folder / "clip_cifar10_en.npz") as file:
        z, y, q = file["logits"], file["labels"], file["human"]
    expected = decal.decalibrate(z, y, alpha=0.8).predict(z[1600:1601])
    assert title == "one"
    assert credal.classes == ("a", "b", "c", "d")
    np.testing.assert_array_equal(credal.lower, expected.lower)
    np.testing.assert_array_equal(credal.upper, expected.upper)
    np.testing.assert_allclose(truth, q[1600], atol=1e-7)
    assert spider_gallery.spider_of(store, "clip_cifar10_en", 17, 0.8) is None


def test_classes_of_one_name_are_told_apart_and_gaps_are_said(paper_runs):
    out, _ = paper_runs[spider_gallery]
    store = RowStore(out / "rows.csv", spider_gallery.COLUMNS, level="place")
    pages = spider_gallery.pages_of(store)
    ((_, english, _), (title, gap, _), _, (_, swahili, _)) = pages["languages_0.9"][0]
    assert english.classes == ("a", "b", "c", "d")
    assert swahili.classes == ("x (0)", "y", "x (2)", "z")
    assert gap is None
    assert title == "CLIP · French"


def test_rankings_are_by_the_exact_entropies(paper_runs, paper_folder):
    out, report = paper_runs[spider_gallery]
    with np.load(paper_folder / "clip_cifar10_en.npz") as file:
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


@pytest.mark.data
@pytest.mark.slow
@undrawn()
def test_the_most_epistemic_images_of_siglip_are_the_published_ones(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    name = "siglip_cifar10_en.npz"
    (folder / name).symlink_to((data_folder / name).resolve())
    report = run(spider_gallery.experiment, folder, tmp_path / "out")
    (row,) = report.further[0].sections["most epistemic"]
    assert row[2] == "20 of 20"
