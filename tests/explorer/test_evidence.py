"""The likelihood curves that travel with a page, against the likelihood itself."""

from __future__ import annotations

import numpy as np
import pytest

import decal
from decal.explorer import explore
from decal.explorer._evidence import likelihood_curves
from helpers.explorations import data, fitted


def log_likelihood(z, labels):
    """Mean log-probability of the labels, by definition."""
    z = z - z.max(axis=1, keepdims=True)
    return np.mean(z[np.arange(len(z)), labels] - np.log(np.exp(z).sum(axis=1)))


@pytest.mark.parametrize("likelihood", ["mean", "sum"])
def test_likelihood_curves_shifts_are_the_likelihood_of_the_labels(likelihood):
    z, labels, _ = data(120, 3, seed=1)
    model = decal.decalibrate(z, labels, alpha=0.9, likelihood=likelihood, reference="model")
    header, arrays = likelihood_curves(model, [1.0, 0.9])
    budgets = np.array(header["budgets"])
    assert np.isclose(budgets, -np.log(0.9)).any()
    unit = 1 if likelihood == "mean" else len(z)
    at_zero = log_likelihood(z, labels)

    def gain(k, shift):
        return unit * (log_likelihood(z + shift * np.eye(3)[k], labels) - at_zero)

    for k in range(3):
        for side in (0, 1):
            for j in range(0, len(budgets), 9):
                shift = arrays["curve/class"][side, j, k]
                assert gain(k, shift) == pytest.approx(-budgets[j], abs=2e-5 * unit)
        for shift, top in arrays["curve/top"][:, :, k].T:
            assert gain(k, shift) == pytest.approx(top, abs=1e-6 * unit)


def test_other_directions_say_what_the_page_needs():
    both = fitted(3, directions=("class", "temperature"))
    header, arrays = likelihood_curves(both, [1.0, 0.9])
    at = int(np.argmin(np.abs(np.array(header["budgets"]) + np.log(0.9))))
    scales = both.scales(0.9)
    found = arrays["curve/temperature"][:, at, 0]
    np.testing.assert_allclose(found, [scales.lower, scales.upper], rtol=1e-6)
    local = fitted(3, directions=decal.Local(mix=0.1), likelihood="sum")
    header, arrays = likelihood_curves(local, [1.0])
    assert not arrays
    assert header["local"]["mix"] == 0.1
    assert header["local"]["per_example"] == pytest.approx(1 / 120)


def test_models_of_other_kinds_have_no_curves():
    class Other:
        def predict(self, logits, *, alpha=None):  # noqa: ARG002
            return fitted(3).predict(logits)

    z = data(4, 3)[0]
    assert explore(Other(), z).payload.header["models"][0]["evidence"] is None
    assert fitted(3).predict(z).explore().payload.header["models"][0]["evidence"] is None
