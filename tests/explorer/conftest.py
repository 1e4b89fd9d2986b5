"""A page whose every text tries to break out of it."""

from __future__ import annotations

import pytest

from decal.explorer import explore
from helpers.explorations import HOSTILE, data, fitted


@pytest.fixture(scope="module")
def hostile():
    z, labels, _ = data(5, 5)
    return explore(
        fitted(5, classes=HOSTILE),
        z,
        labels=labels,
        texts=HOSTILE,
        names=HOSTILE,
        name=HOSTILE[0],
        title=HOSTILE[0] + HOSTILE[1],
        alphas=[1.0, 0.9],
    )
