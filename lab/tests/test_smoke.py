"""One fast test per room: does it import, run, and say what the arrays say?"""

import numpy as np
import pytest


def drawn(rows=60, seed=0):
    """Logits of three classes, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((rows, 3))
    return logits, np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)


@pytest.mark.torch
def test_baselines():
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    from decal_lab.baselines import CredalWrapper, Trainer, mlp

    logits, labels = drawn()
    inputs = torch.tensor(logits, dtype=torch.float32)
    loader = DataLoader(TensorDataset(inputs, torch.tensor(labels)), batch_size=30)
    wrapper = CredalWrapper(
        lambda: mlp(3, inputs=3, hidden=(4,)),
        members=2,
        trainer=Trainer(epochs=20, learning_rate=0.05),
    )
    credal = wrapper.fit(loader).predict_credal(inputs)
    with torch.no_grad():
        members = np.stack([net(inputs).double().softmax(1).numpy() for net in wrapper.members])
    np.testing.assert_allclose(credal.lower, members.min(axis=0), atol=1e-6, rtol=0)
    np.testing.assert_allclose(credal.upper, members.max(axis=0), atol=1e-6, rtol=0)


def test_data(tmp_path):
    from decal_lab import data

    logits, labels = drawn()
    human = np.eye(3)[labels]
    np.savez(tmp_path / "clip_cifar10_en.npz", logits=logits, labels=labels, human=human)
    read = data.published_logits("clip_cifar10_en", folder=tmp_path)
    np.testing.assert_allclose(read.logits, logits, rtol=1e-6)
    assert read.labels.tolist() == labels.tolist()


def test_experiments(tmp_path):
    from helpers.commands import succeed

    logits, labels = drawn()
    human = np.eye(3)[labels]
    np.savez(tmp_path / "clip_cifar10_en.npz", logits=logits, labels=labels, human=human)
    out = tmp_path / "results"
    succeed("reproduce", "single-models", "--quick", "--data", tmp_path, "--out", out)
    accuracy = np.mean(logits.argmax(axis=1) == labels)
    assert f"{100 * accuracy:.2f}" in (out / "table.md").read_text(encoding="utf-8")
