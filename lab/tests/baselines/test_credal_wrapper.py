"""Credal Wrapper: bounds of the members' predictions, against their definition."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import decal  # noqa: E402
from decal_lab.baselines import CredalWrapper, Trainer, credal_wrapper, mlp  # noqa: E402
from lab_helpers.small_models import labelled, literal_softmax  # noqa: E402

pytestmark = pytest.mark.torch


def dirichlet(n=40, M=6, K=5, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(K, 0.5), size=(n, M))


def test_bounds_are_the_least_and_the_greatest_prediction_of_each_class():
    p = dirichlet()
    credal = credal_wrapper(p, classes="abcde")
    for row in range(len(p)):
        for k in range(5):
            predictions = [p[row, m, k] for m in range(6)]
            assert credal.lower[row, k] == min(predictions)
            assert credal.upper[row, k] == max(predictions)
            assert credal.point[row, k] == pytest.approx(sum(predictions) / 6)
    assert credal.classes == tuple("abcde")
    assert not credal.is_empty.any()
    for m in range(6):
        assert credal.contains(p[:, m], atol=0).all()


def test_one_member_gives_a_point():
    p = dirichlet(M=1)
    credal = credal_wrapper(p)
    assert np.array_equal(credal.lower, credal.upper)
    np.testing.assert_allclose(credal.intersection_probability(), p[:, 0])


def test_trained_members_are_wrapped():
    x, y = labelled()
    trainer = Trainer(epochs=15, learning_rate=0.02)
    method = CredalWrapper(lambda: mlp(3, inputs=4, hidden=(16,)), members=4, trainer=trainer)
    assert repr(method) == "CredalWrapper: 4 members, not fitted"
    with pytest.raises(decal.NotFittedError, match="CredalWrapper has seen no data"):
        method.predict_credal(x)
    loader = DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True)
    assert method.fit(loader) is method
    assert len(method.members) == len(method.trainings) == 4
    assert all(t.converged and t.epochs == 15 for t in method.trainings)
    with torch.no_grad():
        p = np.stack([literal_softmax(net(x).numpy()) for net in method.members])
    credal = method.predict_credal(x)
    np.testing.assert_allclose(credal.lower, p.min(axis=0), atol=1e-12)
    np.testing.assert_allclose(credal.upper, p.max(axis=0), atol=1e-12)
    np.testing.assert_allclose(method.predict_proba(x), p.mean(axis=0), atol=1e-12)
    assert np.mean(method.predict_proba(x).argmax(axis=1) == y.numpy()) > 0.8
    assert credal.lower.dtype == np.float64


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"probabilities\[:, 1\] must sum to 1 .* 0.9 in row 0"):
        credal_wrapper([[[0.5, 0.5], [0.5, 0.4]]])
    with pytest.raises(ValueError, match="probabilities must be inputs × members × classes"):
        credal_wrapper([[0.5, 0.5]])
