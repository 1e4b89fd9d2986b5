"""Zero-shot models: accuracies, ties, and the paper's table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from decal_lab.experiments import zero_shot_models as zero_shot
from decal_lab.experiments.harness.experiment import run
from lab_helpers.experiment_files import with_tables
from lab_helpers.experiment_runs import table
from lab_helpers.undrawn import undrawn


def test_accuracies_and_ties_are_counted(paper_runs, paper_folder, tmp_path):
    rows = {(r["data"], r["measure"]): r for r in table(paper_runs[zero_shot][0] / "rows.csv")}
    with np.load(paper_folder / "clip_cifar10_en.npz") as file:
        right = np.mean(file["logits"].argmax(axis=1) == file["labels"])
    assert float(rows["clip_cifar10_en", "accuracy"]["value"]) == right
    tied = tmp_path / "clip_cifar10_en.npz"
    z = np.array([[2.0, 2.0, 0.0], [0.0, 1.0, 1.0], [3.0, 1.0, 1.0]])
    np.savez(tied, logits=z, labels=[0, 2, 1], human=np.eye(3), classes=list("abc"))
    found = zero_shot.measures(tied, zero_shot.PROMPTED[0])
    assert found["ties"] == 2
    assert found["accuracy"] == 1 / 3


@pytest.mark.parametrize(("off", "holds"), [(0.019, True), (0.03, False)])
@undrawn()
def test_accuracies_of_the_paper_are_compared_once_entered(
    paper_folder, paper_runs, tmp_path, off, holds
):
    with np.load(paper_folder / "clip_cifar10_en.npz") as file:
        ours = 100 * float(np.mean(file["logits"].argmax(axis=1) == file["labels"]))
    entered = {"zero-shot accuracy": {"clip_cifar10_en": ours + off}}
    report = run(
        zero_shot.experiment, with_tables(paper_folder, tmp_path, **entered), tmp_path / "out"
    )
    assert report.claims[0].text.startswith("clip_cifar10_en: accuracy")
    assert report.claims[0].holds is holds
    assert report.sections["CIFAR-10, English prompts"][0][2] == f"{ours + off:.2f}"
    assert zero_shot.TABLE not in report.needs
    assert zero_shot.TABLE in paper_runs[zero_shot][1].needs


ELEVEN = (
    *(f"clip_cifar10_{language}" for language in ("en", "fr", "zh", "sw")),
    *(f"siglip_cifar10_{language}" for language in ("en", "fr", "zh", "sw")),
    *("siglip2_cifar10_en", "clip_dermamnist_en", "biomedclip_dermamnist_en"),
)


@pytest.mark.data
@undrawn()
def test_all_eleven_accuracies_are_the_papers_within_0_02_points(data_folder, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ELEVEN:
        (folder / f"{name}.npz").symlink_to(data_folder / f"{name}.npz")
    tables = json.loads((data_folder / "published.json").read_text(encoding="utf-8"))["tables"]
    (folder / "published.json").write_text(json.dumps({"tables": tables}))
    report = run(zero_shot.experiment, folder, tmp_path / "out")
    claims = {claim.text.partition(":")[0]: claim.holds for claim in report.claims}
    assert claims == dict.fromkeys(ELEVEN, True)
    for name in ELEVEN:
        with np.load(data_folder / f"{name}.npz") as file:
            prefix = "test_" if "dermamnist" in name else ""
            right = np.mean(file[f"{prefix}logits"].argmax(axis=1) == file[f"{prefix}labels"])
        assert abs(100 * right - tables["zero-shot accuracy"][name]) <= 0.02
