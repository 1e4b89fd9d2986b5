"""What all estimators do in one way."""

import pickle
import warnings

import numpy as np
import pytest

import decal
from decal.model import predict_rows, read_inputs
from decal.new_inputs import NewInputs
from decal.rows import Rows

RNG = np.random.default_rng(5)
K = 3
Z = 2 * RNG.normal(size=(300, K))
Y = (Z + RNG.gumbel(size=Z.shape)).argmax(axis=1)
ANSWERS = np.eye(K, dtype=int)[Y]
NAMES = ("ant", "bee", "cat")


def models(**settings):
    """An estimator of every kind, and what it learns from."""
    return {
        "decalibrator": (decal.Decalibrator(**settings), Y),
        "several labels": (decal.MultiLabelDecalibrator(**settings), ANSWERS),
        "coupled": (decal.CoupledDecalibrator(likelihood="mean", **settings), Y),
        "label shift": (decal.LabelShift(**settings), Y),
    }


KINDS = list(models())


def fitted(kind, z=Z, **settings):
    model, labels = models(**settings)[kind]
    weights = np.where(np.arange(len(z)) < 200, 1.0, 0.0)
    return model.fit(z, labels, sample_weight=weights, classes=NAMES)


def asked(model, z=Z[:7], **options):
    if isinstance(model, decal.LabelShift):
        options = {"frequencies": {"ant": (0.2, 0.4)}}
    return model.predict(z, **options)


def same(one, other):
    return np.array_equal(one.lower, other.lower) and np.array_equal(one.upper, other.upper)


@pytest.mark.parametrize("kind", KINDS)
def test_one_dialect_classes_weights_probabilities_and_ids(kind):
    model = fitted(kind)
    assert model.classes == NAMES
    assert asked(model).classes == NAMES
    with pytest.raises(TypeError):
        model.fit(Z, models()[kind][1], np.ones(len(Z)))
    p = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True)
    if kind == "several labels":
        p = 1 / (1 + np.exp(-Z))
    again = fitted(kind, p, probabilities=True)
    np.testing.assert_allclose(asked(again, p[:7]).upper, asked(model).upper, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_any_model_is_saved_pickled_copied_and_loaded_by_one_function(kind, tmp_path):
    model = fitted(kind)
    model.save(tmp_path / "model.npz")
    for again in (decal.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        assert repr(again) == repr(model)
        assert same(asked(again), asked(model))
    with (tmp_path / "model.npz").open("rb") as file:
        assert same(asked(decal.load(file)), asked(model))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_predicted_before_a_fit(kind):
    model, _ = models()[kind]
    with pytest.raises(decal.NotFittedError, match="must be fitted first"):
        model.predict(Z)
    assert repr(model).endswith("not fitted")


def test_a_classifier_is_loaded_around_its_estimator(tmp_path):
    linear_model = pytest.importorskip("sklearn.linear_model")
    clf = decal.sklearn.CredalClassifier(linear_model.LogisticRegression()).fit(Z, Y)
    clf.save(tmp_path / "clf.npz")
    again = decal.load(tmp_path / "clf.npz", estimator=clf.estimator_)
    assert same(again.predict_credal(Z[:5]), clf.predict_credal(Z[:5]))
    with pytest.raises(ValueError, match="estimator must go with a CredalClassifier.*: got none"):
        decal.load(tmp_path / "clf.npz")
    fitted("decalibrator").save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="got one for a decalibrator"):
        decal.load(tmp_path / "model.npz", estimator=clf.estimator_)


# Rows that were read before


def test_rows_are_read_once_and_predicted_at_any_level():
    model = fitted("decalibrator")
    rows = model.read(Z[:20], [NAMES[y] for y in Y[:20]], ids=None)
    assert np.array_equal(rows.labels, Y[:20])
    for alpha in (1.0, 0.5, 0.0):
        assert same(model.predict_rows(rows[5:9], alpha=alpha), model.predict(Z[5:9], alpha=alpha))


def test_a_model_of_ones_own_reads_its_logits_itself():
    class Own:
        """Predicts the softmax of half the logits."""

        classes = None

        def predict(self, logits, *, alpha=None):
            p = np.exp(logits / 2) / np.exp(logits / 2).sum(axis=1, keepdims=True)
            return decal.IntervalCredalSet(p * alpha, p**alpha)

    rows = read_inputs(Own(), Z[:4], Y[:4])
    assert np.array_equal(rows.logits, Z[:4])
    assert same(predict_rows(Own(), rows, 0.5), Own().predict(Z[:4], alpha=0.5))


def test_what_chunks_show_together_is_told_once():
    model = fitted("decalibrator")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen = NewInputs(model, 0.01)
        for part in np.split(100 * Z, 3):
            rows = Rows(part)
            seen.add(rows, model.predict_rows(rows, alpha=0.01))
    with pytest.warns(decal.AnswerWarning) as found:
        seen.warn()
    assert {str(w.message).split(":")[0] for w in found} == {
        "logits must look like those that fit was given",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seen.warn()
