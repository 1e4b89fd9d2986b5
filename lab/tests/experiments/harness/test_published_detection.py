"""Published detection by one network, as a table."""

from __future__ import annotations

import json

import pytest

from decal_lab.experiments.comparison.fashion_images import FashionPlan
from decal_lab.experiments.comparison.fashion_summary import findings
from decal_lab.experiments.comparison.plan import COLUMNS
from decal_lab.experiments.harness.published_detection import one_network_table
from decal_lab.experiments.harness.published_results import ALPHAS, Published
from decal_lab.experiments.harness.rows import RowStore

ENTERED = {"detection, single networks": {"EDL": {"SVHN": 0.911}, "DDU": {"CIFAR-100": 0.833}}}
CURVE = {"alpha": ALPHAS, "auroc": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.61, 0.71]}


@pytest.fixture
def published(tmp_path):
    results = {"effcre": {"ood_cifar10_svhn_resnet_1": CURVE}, "tables": ENTERED}
    (tmp_path / "published.json").write_text(json.dumps(results))
    return Published(tmp_path)


def test_edl_and_ddu_stand_above_one_decalibrated_network(published):
    (table,) = one_network_table(published)
    assert table.sections[""] == [
        ("EDL", "0.911", "–", "–", "–", "–"),
        ("DDU", "–", "–", "0.833", "–", "–"),
        ("decalibration, 0.95", "0.610", "–", "–", "–", "–"),
        ("decalibration, 1", "0.710", "–", "–", "–", "–"),
    ]


def test_without_the_published_numbers_there_is_no_table(tmp_path):
    assert list(one_network_table(Published(tmp_path), ours={"energy": {"fmnist": 0.9}})) == []


def test_the_comparison_on_images_shows_it_last(published, tmp_path):
    tables = tuple(one_network_table(published))
    store = RowStore(tmp_path / "rows.csv", COLUMNS, level="alpha")
    found = findings(store, plan=FashionPlan(seeds=1), seeds=(0,), published=tables)
    assert found.report.further[-1:] == tables
    assert found.in_files.further[-1:] == tables


@pytest.mark.data
def test_the_papers_table_is_read_whole(data_folder):
    (table,) = one_network_table(Published(data_folder))
    rows = {line[0]: line[1:] for line in table.sections[""]}
    assert list(rows) == ["EDL", "DDU", "decalibration, 0.95", "decalibration, 1"]
    assert all(cell != "–" for line in rows.values() for cell in line)
