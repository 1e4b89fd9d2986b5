"""All that was learnt: one value that adds up, is written, and is read again."""

from pathlib import Path

import numpy as np
import pytest

import decal
from decal.directions import _fit_state
from helpers.archives import read_npz

FORMAT_1 = Path(__file__).parents[1] / "fixtures" / "models_of_format_1"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return rng.normal(size=(60, 3)) * 2, rng.integers(0, 3, 60)


@pytest.mark.parametrize(
    "name", ["class", "class_and_temperature", "temperature_by_labels", "best_without_a_class"]
)
def test_model_files_of_format_1_predict_what_they_did(name, tmp_path):
    expected = read_npz(FORMAT_1 / "expected.npz")
    model = decal.Decalibrator.load(FORMAT_1 / f"{name}.npz")
    assert model.classes == ("a", "b", "c")
    assert model.examples == 40
    model.save(tmp_path / "again.npz")
    again = decal.Decalibrator.load(tmp_path / "again.npz")
    for key, boxes in expected.items():
        if key.startswith(f"{name}@"):
            for each in (model, again):
                credal = each.predict(expected["logits"], alpha=float(key.split("@")[1]))
                found = np.stack([credal.lower, credal.upper, credal.point])
                # Peaks over scales, interpolated then, were off by 6e-12.
                atol = 1e-11 if "temperature" in name else 1e-12
                np.testing.assert_allclose(found, boxes, rtol=0, atol=atol)


def test_a_file_of_a_later_format_asks_for_an_upgrade(tmp_path, data, monkeypatch):
    path = tmp_path / "m.npz"
    monkeypatch.setattr("decal.io.model_files.VERSION", 5)
    decal.decalibrate(*data, alpha=0.8).save(path)
    with pytest.raises(ValueError, match="of format 5. Upgrade decal"):
        decal.Decalibrator.load(path)


def test_the_levels_kept_are_bounded(data, monkeypatch):
    model = decal.decalibrate(*data, alpha=0.8)
    for alpha in np.linspace(0.01, 0.99, 3 * _fit_state.KEPT_LEVELS):
        model.shifts(float(alpha))
    assert len(model._fitted._solved) == _fit_state.KEPT_LEVELS
    monkeypatch.setattr(_fit_state, "KEPT_NUMBERS", 1)
    model.shifts(0.5)
    assert len(model._fitted._solved) == 2
    assert model.shifts(0.5) is model.shifts(0.5)


def test_learning_more_leaves_what_was_learnt_before_as_it_is(data):
    logits, labels = data
    model = decal.Decalibrator().partial_fit(logits[:30], labels[:30])
    before = model._fitted
    lower = model.shifts().lower.copy()
    model.partial_fit(logits[30:], labels[30:])
    np.testing.assert_array_equal(before.at(0, "mean", 0.8).lower, lower)
    assert (before.rows, model.examples) == (30, 60)
    assert not np.array_equal(model.shifts().lower, lower)
