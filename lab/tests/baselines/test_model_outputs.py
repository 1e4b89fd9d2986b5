"""Outputs of models: inputs of all shapes, modes kept, and what is refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from decal_lab.baselines import CredalWrapper  # noqa: E402
from lab_helpers.small_models import Moody, labelled  # noqa: E402

pytestmark = pytest.mark.torch


def test_inputs_come_in_all_shapes_and_give_the_same():
    models = [Moody(seed).train() for seed in range(3)]
    models[0].inner[1].eval()
    modes = [m.training for model in models for m in model.modules()]
    x, y = labelled(n=1200)
    method = CredalWrapper.from_models(models)
    expected = method.predict_credal(x)
    pairs = TensorDataset(x, y)
    for inputs in (
        x.numpy(),
        x.numpy().astype(np.float64),
        DataLoader(pairs, batch_size=97),
        DataLoader(TensorDataset(x), batch_size=97),
        [x[:500], x[500:]],
        ({"features": part, "labels": part} for part in (x[:7], x[7:])),
    ):
        credal = method.predict_credal(inputs)
        np.testing.assert_allclose(credal.lower, expected.lower, atol=1e-6)
        np.testing.assert_allclose(credal.upper, expected.upper, atol=1e-6)
    assert [m.training for model in models for m in model.modules()] == modes


def test_members_see_the_same_rows_of_a_loader_that_shuffles():
    model = Moody(0)
    twins = CredalWrapper.from_models([model, model])
    x, y = labelled()
    credal = twins.predict_credal(DataLoader(TensorDataset(x, y), batch_size=10, shuffle=True))
    assert np.array_equal(credal.lower, credal.upper)


def test_what_is_wrong_is_named():
    x, _ = labelled()
    method = CredalWrapper.from_models([Moody(0), nn.Linear(4, 2)])
    with pytest.raises(ValueError, match="member 1 must return as many columns as member 0"):
        method.predict_credal(x)
    with pytest.raises(ValueError, match="inputs must hold at least one row: got none"):
        method.predict_credal(x[:0])
    with pytest.raises(ValueError, match="inputs must have a row per example"):
        method.predict_credal(x[0])
    with pytest.raises(ValueError, match="inputs must be an array, a tensor or a loader"):
        method.predict_credal(3)
    broken = Moody(0)
    nn.init.constant_(broken.inner[2].bias, float("nan"))
    with pytest.raises(ValueError, match="member 1 must return finite numbers: got nan for inp"):
        CredalWrapper.from_models([Moody(0), broken]).predict_credal(x)
