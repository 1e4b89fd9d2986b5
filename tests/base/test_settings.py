"""Settings are what the constructor checked: no assignment changes them, copies keep them."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

import decal

NONSENSE = {
    "alpha": 2,
    "likelihood": "Mean",
    "reference": "Best",
    "box": "nonsense",
    "directions": ("temperature",),
    "probabilities": "no",
    "floor": 0.1,
    "tol": -1.0,
    "certify": "nonsense",
    "confidence": 7,
    "calibrate": "no",
    "region": "nonsense",
    "error": -1,
    "corrected": "no",
    "order": "no",
    "tree": {"low": ["0", "1"], "high": ["2"]},
}
"""What somebody might assign to a setting, by its name."""


def data():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(60, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


def fitted(kind):
    logits, labels = data()
    if kind is decal.MultiLabelDecalibrator:
        return kind(0.9).fit(logits, labels[:, None] == np.arange(3))
    if kind is decal.CoupledDecalibrator:
        return kind(0.9, likelihood="mean").fit(logits[:20], labels[:20])
    if kind is decal.LabelShift:
        return kind().fit(logits, labels).observe(logits)
    return kind(0.9).fit(logits, labels)


MODELS = [
    decal.Decalibrator,
    decal.MultiLabelDecalibrator,
    decal.CoupledDecalibrator,
    decal.LabelShift,
]
SETTINGS = [(kind, name) for kind in MODELS for name in inspect.signature(kind).parameters]


@pytest.mark.parametrize(
    ("kind", "name"), SETTINGS, ids=lambda value: getattr(value, "__name__", value)
)
def test_no_setting_can_be_assigned_once_a_model_is_made(kind, name):
    model = fitted(kind)
    before, predicted = getattr(model, name), model.predict(data()[0][:2])
    with pytest.raises(
        AttributeError, match=f"{name} must stay .* another {kind.__name__} with {name}="
    ):
        setattr(model, name, NONSENSE[name])
    with pytest.raises(AttributeError, match=f"{name} must stay"):
        delattr(model, name)
    assert getattr(model, name) == before
    np.testing.assert_array_equal(model.predict(data()[0][:2]).lower, predicted.lower)


def test_who_assigns_an_alpha_hears_of_predict():
    with pytest.raises(AttributeError, match="Pass alpha= to predict, or build another"):
        fitted(decal.Decalibrator).alpha = 0.5


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_and_pickles_keep_settings_and_stay_frozen(kind, copied):
    model = fitted(kind)
    again = copied(model)
    assert repr(again) == repr(model)
    new = data()[0][:2]
    np.testing.assert_array_equal(again.predict(new).upper, model.predict(new).upper)
    name = next(iter(inspect.signature(kind).parameters))
    with pytest.raises(AttributeError, match="must stay"):
        setattr(again, name, 0.5)


def test_the_names_of_classes_of_a_coupled_model_cannot_be_assigned_either():
    with pytest.raises(AttributeError):
        fitted(decal.CoupledDecalibrator).classes = ("a", "b")


def test_a_subclass_may_have_settings_of_its_own_and_attributes_that_are_none():
    class Noted(decal.Decalibrator):
        def __init__(self, note, **settings):
            super().__init__(**settings)
            self.note = note
            self.seen = 0

    model = Noted("mine", alpha=0.8)
    model.seen = 1
    for name in ("note", "alpha"):
        with pytest.raises(AttributeError, match=f"{name} must stay as it was given to Noted"):
            setattr(model, name, 0.5)
    assert (model.note, model.alpha, model.seen) == ("mine", 0.8, 1)


def test_a_copy_with_other_settings_is_checked_like_a_new_model():
    model = fitted(decal.Decalibrator)
    wider = model.with_settings(alpha=0.5)
    new = data()[0][:2]
    np.testing.assert_array_equal(wider.predict(new).lower, model.predict(new, alpha=0.5).lower)
    assert model.alpha == 0.9
    with pytest.raises(ValueError, match=r"likelihood must be one of 'mean', 'sum': got 'Mean'"):
        model.with_settings(likelihood="Mean")
