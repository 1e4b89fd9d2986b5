"""Every test of figures starts and ends without any, and one model is shared."""

import numpy as np
import pytest

import decal


@pytest.fixture(autouse=True)
def close_figures():
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs decal[plot]")
    plt.switch_backend("agg")
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def sample():
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(400, 4)) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, labels, decal.decalibrate(logits, labels, alpha=0.9, classes="abcd")
