"""A Triage that was saved answers as before, and damaged files are refused."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

import decal
from decal.choose import Triage
from decal.choose import triage as choose
from helpers.archives import read_npz
from helpers.sealed_files import write_sealed

WISHES = {
    "cost": {"cost": 0.1},
    "share": {"budget": 0.2},
    "rows of a batch": {"budget": 7},
    "error rate": {"error_rate": 0.1},
    "error rate of batches": {"error_rate": 0.1, "confidence": None},
    "slips": {"slip_rate": 0.05},
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(400, 3))
    return logits, (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)


def again(triage):
    file = io.BytesIO()
    triage.save(file)
    file.seek(0)
    return Triage.load(file)


@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES)
@pytest.mark.parametrize("score", [None, "recalibrated entropy", "width, alpha 0.9"])
def test_what_was_saved_answers_as_before(rows, wish, score):
    z, y = rows
    before = choose(z[:300], y[:300], **wish, score=score, classes=["cat", "dog", "eel"])
    after = again(before)
    assert repr(after) == repr(before)
    for ask in (Triage.hand_over, Triage.predict, Triage.doubt):
        np.testing.assert_array_equal(ask(after, z[300:]), ask(before, z[300:]))
    assert list(after.trials) == list(before.trials)
    for name, trial in before.trials.items():
        assert after.trials[name].gain == trial.gain
        for curve in ("coverage", "risk", "best"):
            wanted = getattr(trial.curve, curve)
            np.testing.assert_array_equal(getattr(after.curves[name], curve), wanted)


def test_probabilities_and_scores_of_your_own_are_remembered(rows):
    z, y = rows
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    asked = again(choose(p, y, budget=0.1, probabilities=True))
    np.testing.assert_array_equal(asked.predict(p), z.argmax(axis=1))
    luck = np.random.default_rng(1).random(len(y))
    mine = again(choose(z, y, budget=0.1, scores={"luck": luck}, score="luck"))
    handed = mine.hand_over(z, scores={"luck": luck})
    np.testing.assert_array_equal(handed, luck >= mine.threshold)


def test_only_a_decalibrator_is_saved(rows):
    class Foreign:
        def predict(self, logits, *, alpha=None):
            return decal.decalibrate(*rows, alpha=0.5).predict(logits, alpha=alpha)

    chosen = choose(*rows, budget=0.1, model=Foreign())
    with pytest.raises(ValueError, match="model must be a Decalibrator to be saved: got Foreign"):
        chosen.save(io.BytesIO())


def test_older_files_raise_small_probabilities_as_they_always_did(rows, tmp_path):
    z, y = rows
    p = np.exp(9 * z) / np.exp(9 * z).sum(axis=1, keepdims=True)
    choose(p, y, budget=0.1, probabilities=True, score="entropy").save(tmp_path / "old.npz")
    members = {key: np.array(value) for key, value in read_npz(tmp_path / "old.npz").items()}
    settings = json.loads(str(members["header"]))
    del settings["floor"]
    write_sealed(tmp_path / "old.npz", members | {"header": np.array(json.dumps(settings))})
    q = np.maximum(p, 1e-12)
    q /= q.sum(axis=1, keepdims=True)
    found = Triage.load(tmp_path / "old.npz").doubt(p)
    np.testing.assert_allclose(found, -(q * np.log(q)).sum(axis=1), atol=1e-14)


@pytest.fixture
def saved(rows, tmp_path):
    path = tmp_path / "triage.npz"
    choose(*rows, error_rate=0.1, confidence=None, score="recalibrated confidence").save(path)
    return path


def damage(path, name, values):
    members = {key: np.array(value) for key, value in read_npz(path).items()}
    members[name] = np.array(values)
    write_sealed(path, members)


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("slips", [np.nan], "its slips are damaged"),
        ("slips", np.zeros(1000), "its slips are damaged"),
        ("threshold", np.nan, "its threshold is NaN"),
        ("shifts", [0.0, np.inf, 0.0], "its recalibration is damaged"),
        ("shifts", [0.0], "its recalibration is damaged"),
        ("scale", -1.0, "its recalibration is damaged"),
        ("curve 0", [[2.0], [0.0]], "its curves are damaged"),
        ("model", np.zeros(10, dtype=np.uint8), "not one, or is damaged"),
    ],
)
def test_damaged_files_are_refused(saved, name, values, reason):
    damage(saved, name, values)
    with pytest.raises(ValueError, match=reason):
        Triage.load(saved)


def test_other_files_are_refused(rows, saved, tmp_path):
    decal.decalibrate(*rows, alpha=0.5).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="path must"):
        Triage.load(tmp_path / "model.npz")
    damage(saved, "stranger", [0])
    with pytest.raises(ValueError, match="nothing unknown"):
        Triage.load(saved)
