"""Model files of earlier formats predict what they did; `fixtures/write_models.py` wrote them."""

from pathlib import Path

import numpy as np
import pytest

import decal
from decal.choose import Triage
from helpers.archives import read_npz

FIXTURES = Path(__file__).parents[1] / "fixtures"
DECALIBRATORS = [
    "class",
    "temperature_halfway",
    "temperature_by_labels",
    "local_best",
    "local_mixed",
    "sum_own",
    "floored",
]


@pytest.fixture(scope="module", params=[2, 3])
def folder(request):
    return FIXTURES / f"models_of_format_{request.param}"


@pytest.fixture(scope="module")
def expected(folder):
    return read_npz(folder / "expected.npz")


def same(credal, found, atol=1e-12):
    bounds = np.stack([credal.lower, credal.upper, credal.point])
    np.testing.assert_allclose(bounds, found, rtol=0, atol=atol)


@pytest.mark.parametrize("name", DECALIBRATORS)
def test_a_decalibrator_predicts_what_it_did(name, folder, expected, tmp_path):
    model = decal.Decalibrator.load(folder / f"{name}.npz")
    model.save(tmp_path / "again.npz")
    inputs = expected["probabilities" if model.probabilities else "logits"]
    for each in (model, decal.Decalibrator.load(tmp_path / "again.npz")):
        # Peaks over scales, interpolated when these were written, were off by 5e-12.
        same(each.predict(inputs), expected[name], 1e-11 if "temperature" in name else 1e-12)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("multilabel", decal.MultiLabelDecalibrator),
        ("coupled", decal.CoupledDecalibrator),
        ("label_shift", decal.LabelShift),
    ],
)
def test_other_estimators_predict_what_they_did(name, kind, folder, expected, tmp_path):
    model = kind.load(folder / f"{name}.npz")
    model.save(tmp_path / "again.npz")
    for each in (model, kind.load(tmp_path / "again.npz")):
        credal = each.predict(expected["logits"])
        bounds = np.stack([credal.lower, credal.upper, credal.point])
        # Coupled bounds are certified to 1e-6. Those of label shift are to `error`, and another
        # search may end elsewhere within it; the point has no error.
        error = each.error if name == "label_shift" else 1e-6
        np.testing.assert_allclose(bounds[:2], expected[name][:2], rtol=0, atol=error)
        np.testing.assert_allclose(bounds[2], expected[name][2], rtol=0, atol=1e-6)


def test_triage_doubts_what_it_did(folder, expected, tmp_path):
    triage = Triage.load(folder / "triage.npz")
    triage.save(tmp_path / "again.npz")
    for each in (triage, Triage.load(tmp_path / "again.npz")):
        np.testing.assert_allclose(each.doubt(expected["logits"]), expected["triage"], atol=1e-12)


def test_a_classifier_predicts_what_it_did(folder, expected):
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression

    from decal.sklearn import CredalClassifier

    estimator = LogisticRegression()
    estimator.classes_ = np.arange(3)
    estimator.coef_, estimator.intercept_ = expected["coef"], expected["intercept"]
    clf = CredalClassifier.load(folder / "classifier.npz", estimator)
    same(clf.predict_credal(expected["logits"]), expected["classifier"])
