"""One call for labels that do not exclude each other: split, kind, promise, costs."""

import numpy as np
import pytest

import decal
from decal import InputError

LABELS = ["dog", "cat", "owl"]


def answered(n, seed=0, sharp=2.0):
    """Logits that are too sure, and answers drawn from the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.normal([0.5, -1, 0], 2, (n, 3))
    return sharp * truth, (rng.random((n, 3)) < 1 / (1 + np.exp(-truth))).astype(int)


def test_rows_that_fit_do_not_choose_alpha(tmp_path):
    logits, answers = answered(800)
    d = decal.decalibrate_labels(logits, answers, miss=0.1, classes=LABELS)
    assert d.examples == 240
    assert d.promise.rows == 560
    assert d.promise.per == "label"
    assert list(d.promise.levels) == LABELS
    assert d.promise.costs["chosen_on"] == 240
    assert "of the answers are decided" in repr(d)
    d.save(tmp_path / "labels.npz")
    again = decal.load(tmp_path / "labels.npz")
    assert again.promise == d.promise
    assert (again.predict(logits).decide() == d.predict(logits).decide()).all()


def test_the_promise_holds_for_every_label_over_draws():
    wrong = []
    for seed in range(25):
        logits, answers = answered(700, seed)
        d = decal.decalibrate_labels(logits[:300], answers[:300], miss=0.1, seed=seed)
        said = d.predict(logits[300:]).decide()
        wrong.append(((said >= 0) & (said != answers[300:])).mean(axis=0))
    error = np.std(wrong, axis=0) / 5
    assert (np.mean(wrong, axis=0) <= 0.1 + 3 * error).all()
    assert (np.mean(wrong, axis=0) >= 0.06).all()


def test_few_rows_are_not_split():
    logits, answers = answered(80)
    d = decal.decalibrate_labels(logits, answers, miss=0.1)
    assert d.reference == "model"
    assert d.promise.rows == 80
    with pytest.raises(InputError, match="labels must leave rows to fit these sets on"):
        decal.decalibrate_labels(logits, answers, miss=0.1, directions=("class",))


def test_settings_leave_less_to_choose():
    logits, answers = answered(400)
    d = decal.decalibrate_labels(logits, answers, miss=0.1, directions=("class",))
    assert [direction.name for direction in d.directions] == ["class"]
    p = 1 / (1 + np.exp(-logits))
    same = decal.decalibrate_labels(p, answers, miss=0.1, directions="class", probabilities=True)
    assert (same.predict(p).decide() == d.predict(logits).decide()).mean() > 0.999


def test_a_width_is_that_of_the_ranges(tmp_path):
    logits, answers = answered(400)
    d = decal.decalibrate_labels(logits, answers, width=0.2, classes=LABELS)
    sets = d.predict(logits)
    assert (sets.upper - sets.lower).mean() == pytest.approx(0.2, abs=1e-5)
    assert d.examples == 400
    assert str(d.promise) == "Intervals are 0.2 wide on average, as on these 400 rows."
    d.save(tmp_path / "labels.npz")
    assert decal.load(tmp_path / "labels.npz").promise == d.promise


def test_alpha_is_the_plain_model():
    logits, answers = answered(50)
    d = decal.decalibrate_labels(logits, answers, alpha=0.9, classes=LABELS)
    same = decal.MultiLabelDecalibrator(0.9).fit(logits, answers, classes=LABELS)
    assert d.promise is None
    assert (d.predict(logits).lower == same.predict(logits).lower).all()


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({}, "one of alpha, miss, width must be given: got none"),
        ({"alpha": 0.5, "miss": 0.1}, "got alpha and miss"),
        ({"miss": 0}, "miss must lie between 0 and 1, and be neither"),
        ({"miss": 2}, "miss must lie between 0 and 1"),
        ({"width": 2}, "width must lie between 0 and 1: got 2"),
    ],
)
def test_bad_wishes_are_refused(wish, message):
    with pytest.raises(InputError, match=message):
        decal.decalibrate_labels(*answered(200), **wish)
    with pytest.raises(TypeError, match="Did you mean reference"):
        decal.decalibrate_labels(*answered(200), miss=0.1, refrence="auto")


def test_labels_that_nobody_knows_promise_nothing():
    z = np.random.default_rng(0).normal(size=(200, 3))
    unknown = np.full(z.shape, -1)
    for wish in ({"miss": 0.1}, {"width": 0.5}):
        with pytest.raises(InputError, match="labels must be known for some inputs: got none"):
            decal.decalibrate_labels(z, unknown, **wish)
    d = decal.decalibrate_labels(z, unknown, alpha=0.5)  # as a first chunk may be
    assert (d.predict(z).upper == 1).all()
