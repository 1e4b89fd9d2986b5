"""The comparison on images of brains: end to end on tiny files in the real formats."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from lab_helpers.experiment_runs import in_one_thread, table

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from decal_lab.experiments import mriqc
from decal_lab.experiments.comparison.plan import CREDAL
from decal_lab.experiments.harness.experiment import run
from decal_lab.experiments.mriqc import MriPlan, images

TINY = MriPlan(name="tiny", seeds=1, members=2, epochs=2, batch=25)
IMAGES = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Measures and ratings as MRIQC has them, in other orders; one image has no ratings."""
    folder = tmp_path_factory.mktemp("ratings")
    (folder / "mriqc").mkdir()
    rng = np.random.default_rng(0)
    lines = ["subject_id,cjv,cnr"]
    lines += [f"{50 + i},{rng.normal()},{rng.normal()}" for i in range(IMAGES)]
    (folder / mriqc.MEASURES).write_text("\n".join(lines) + "\n")
    rated = [f"{50 + i},PITT,{','.join(map(str, rng.integers(-1, 2, 3)))}" for i in range(2, 99)]
    rated = ["50,NYU,1,1,-1", "51,NYU,,0,1", *rated]
    rated[2] = "52,NYU,,,"
    (folder / mriqc.RATINGS).write_text(
        "\n".join(["subject_id,site,rater_1,rater_2,rater_3", *rated[::-1]]) + "\n"
    )
    curve = {"alpha": [0.0, 0.8, 1.0], "coverage": [1.0, 0.5, 0.0], "efficiency": [0.0, 0.5, 1.0]}
    text = json.dumps({"effcre": {"cov_eff_qualitymri_torchresnet_1": curve}})
    (folder / "published.json").write_text(text)
    return folder


def test_ratings_are_matched_by_the_number_of_the_image_and_counted(data):
    x, shares = images(data)
    assert x.shape == (IMAGES - 1, 2)
    np.testing.assert_allclose(shares[0], [1 / 3, 0, 2 / 3])
    np.testing.assert_allclose(shares[1], [0, 1 / 2, 1 / 2])
    np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.torch
@pytest.mark.slow
def test_all_methods_stand_beside_the_published_curve_and_the_stand_in_is_named(data, tmp_path):
    with in_one_thread():
        told = run(partial(mriqc.experiment, plan=TINY), data, tmp_path, seeds=(3,))
    rows = table(tmp_path / "rows.csv")
    assert {row["method"] for row in rows} == set(CREDAL)
    assert {row["data"] for row in rows} == {"mriqc/measures/drawn/tiny"}
    assert told.needs == (mriqc.STAND_IN,)
    assert "stand-in" in told.title
    (lines,) = told.further[0].sections.values()
    assert lines[3][:3] == ("0.8", "0.500", "0.500")
