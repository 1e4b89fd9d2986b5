"""The files that the tests of commands work on."""

from __future__ import annotations

import numpy as np
import pytest

# What needs decal[cli] is imported in the fixtures: without it, the tests are skipped before.


@pytest.fixture
def logit_files(tmp_path, monkeypatch):
    """The current folder: logits in logits.csv, logits.npz and logits.npy, truth in truth.csv."""
    from decal.io import writers
    from helpers.logit_files import NAMES

    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((200, 3))
    truth = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.argmax(truth.cumsum(axis=1) > rng.random((200, 1)), axis=1)
    monkeypatch.chdir(tmp_path)
    columns = {name: logits[:, k] for k, name in enumerate(NAMES)}
    writers.write_columns(tmp_path / "logits.csv", columns | {"label": np.array(NAMES)[labels]})
    writers.write_columns(
        tmp_path / "truth.csv", {name: truth[:, k] for k, name in enumerate(NAMES)}
    )
    np.savez("logits.npz", logits=logits, labels=labels, classes=NAMES, truth=truth)
    np.save("logits.npy", logits)
    np.save("labels.npy", labels)


@pytest.fixture
def model(logit_files):  # noqa: ARG001
    """The name of a model file that was fitted on them."""
    from helpers.commands import succeed

    succeed("fit", "--alpha=0.8", "logits.csv", "-o", "model.npz")
    return "model.npz"
