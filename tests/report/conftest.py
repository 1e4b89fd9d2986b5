"""A model, new inputs and their report."""

from __future__ import annotations

import numpy as np
import pytest

import decal

NAMES = ("cat", "<dog>", "=eel")
COSTS = {"feed": {"cat": 0, "<dog>": 1, "=eel": 2}, "flee": {"cat": 3, "<dog>": 1, "=eel": 0}}


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    logits = 2 * rng.standard_normal((200, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return decal.Decalibrator(alpha=0.9).fit(logits, labels, classes=NAMES)


@pytest.fixture(scope="module")
def new():
    return 2 * np.random.default_rng(1).standard_normal((30, 3))


@pytest.fixture(scope="module")
def report(model, new):
    ids = np.array([f"P-{i}" for i in range(30)])
    return model.report(new, ids=ids, check=0.1, costs=COSTS)
