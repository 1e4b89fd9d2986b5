"""Ensembles of trained members, of given models and of saved logits."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from decal_lab.baselines import CredalWrapper, Trainer, mlp  # noqa: E402
from lab_helpers.small_models import Moody, labelled, literal_softmax  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_folder_keeps_what_was_trained(tmp_path):
    x, y = labelled()

    def made():
        trainer = Trainer(epochs=8, learning_rate=0.05)
        return CredalWrapper(
            lambda: mlp(3, inputs=4, hidden=(8,)), members=2, trainer=trainer, folder=tmp_path
        )

    first = made().fit([(x, y)])
    again = made().fit([(x, y)])
    assert again.trainings == first.trainings
    assert np.array_equal(first.predict_credal(x).lower, again.predict_credal(x).lower)


def test_scikit_learn_estimators_are_models_too():
    pytest.importorskip("sklearn")
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.tree import DecisionTreeClassifier

    bunch = load_iris()
    names = bunch.target_names[bunch.target]
    models = [
        model.fit(bunch.data[::2], names[::2])
        for model in (LogisticRegression(max_iter=500), GaussianNB(), DecisionTreeClassifier())
    ]
    method = CredalWrapper.from_models(models)
    p = np.stack([model.predict_proba(bunch.data) for model in models])
    credal = method.predict_credal(bunch.data)
    assert credal.classes == ("setosa", "versicolor", "virginica")
    np.testing.assert_allclose(credal.lower, p.min(axis=0))
    np.testing.assert_allclose(credal.upper, p.max(axis=0))
    np.testing.assert_allclose(method.predict_proba(bunch.data.tolist()), p.mean(axis=0))
    fewer = GaussianNB().fit(bunch.data[:100], names[:100])
    with pytest.raises(ValueError, match=r"models\[3\] must have the classes of models\[0\]"):
        CredalWrapper.from_models([*models, fewer])


def test_saved_logits_are_enough():
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(30, 4)) * 5 for _ in range(3)]
    logits[1] = torch.tensor(logits[1])
    method = CredalWrapper.from_logits(logits)
    p = np.stack([literal_softmax(z) for z in logits])
    np.testing.assert_allclose(method.predict_credal().upper, p.max(axis=0))
    np.testing.assert_allclose(method.predict_proba(), p.mean(axis=0))
    huge = CredalWrapper.from_logits([[[1e4, -1e4]], [[-1e4, 1e4]]]).predict_credal()
    assert huge.lower.tolist() == [[0.0, 0.0]]
    assert huge.upper.tolist() == [[1.0, 1.0]]
    with pytest.raises(ValueError, match="inputs must be left out, as the logits were given"):
        method.predict_credal(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="factory must be a function that builds a module"):
        method.fit([labelled()])


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"logits\[1\] must have the shape of logits\[0\]"):
        CredalWrapper.from_logits([np.zeros((4, 3)), np.zeros((5, 3))])
    with pytest.raises(ValueError, match="logits must hold a matrix per member"):
        CredalWrapper.from_logits([])
    with pytest.raises(ValueError, match="models must hold one classifier or more"):
        CredalWrapper.from_models([])
    with pytest.raises(ValueError, match=r"models\[1\] must be a module or an estimator"):
        CredalWrapper.from_models([Moody(0), "net"])
    with pytest.raises(ValueError, match="members must be a whole number, at least 1: got 0"):
        CredalWrapper(lambda: Moody(0), members=0)
    method = CredalWrapper.from_models([Moody(0)])
    with pytest.raises(ValueError, match="inputs must be given to models: got None"):
        method.predict_credal()
