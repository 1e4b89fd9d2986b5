"""Stand-ins for the likelihood: as wrong as they say, and never more."""

import numpy as np
import pytest
from scipy.stats import chi2
from tests.oracles import label_shift as oracle

from decal.shift import _surrogate
from decal.shift._likelihood import Likelihood
from decal.shift._observed import Observed
from decal.shift._surrogate import Surrogate, inverse_roots


def points_of(region, rng, count):
    inputs = region.likelihood.ratios, region.likelihood.weights
    return oracle.plausible_points(region.middle, *inputs, region.floor, rng, count)


@pytest.fixture(scope="module")
def large():
    """Few rows that count often: a region of many inputs, cheap for an oracle that loops."""
    ratios = np.exp(1.5 * np.random.default_rng(0).normal(size=(400, 4)))
    ratios /= ratios.max(axis=1, keepdims=True)
    return Observed(Likelihood(ratios, np.full(400, 10.0))).region(chi2.ppf(0.95, 3) / 2)


@pytest.mark.parametrize("fourth", [True, False])
def test_the_surrogate_is_as_wrong_as_it_says(large, fourth, monkeypatch):
    geometry, rng = large.geometry, np.random.default_rng(1)
    points = points_of(large, rng, 8)
    z = (points - geometry.middle) @ geometry.inverse.T
    exact = [
        oracle.log_likelihood(v, large.likelihood.ratios, large.likelihood.weights) for v in points
    ]
    monkeypatch.setattr(_surrogate, "QUARTIC_PAIRS", 300 if fourth else 0)
    surrogate = Surrogate.of(geometry, 48)
    assert 0 < len(surrogate.rows) < 200
    assert (surrogate.fourth is not None) == fourth
    value, slope, excess = surrogate.evaluate(z)
    assert np.all(value - excess <= np.array(exact) + 1e-9)
    assert np.all(np.array(exact) <= value + 1e-9)
    assert np.all(excess < (0.2 if fourth else 0.5))
    for i in range(len(z)):  # and the ellipsoid laid against each point holds all others
        away = z - z[i]
        bent = np.einsum("pi,ij,pj->p", away, surrogate.bend, away) / 2
        tangent = value[i] + away @ slope[i] - bent + geometry.pay
        assert np.all(np.array(exact) <= tangent)
    whole = Surrogate.of(geometry, 400)
    assert whole.exact
    value, _, excess = whole.evaluate(z)
    assert value == pytest.approx(exact)
    assert np.array_equal(excess, np.zeros(len(z)))


def test_curvatures_are_differences_of_slopes(large):
    z = np.array([[0.5, -1.0, 0.3]])
    assert not large.surrogate.exact
    for surrogate in (large.surrogate, large.whole):
        step = 1e-5
        lines = [
            (surrogate.evaluate(z - step * e)[1] - surrogate.evaluate(z + step * e)[1]) / (2 * step)
            for e in np.eye(3)
        ]
        expected = np.concatenate(lines) + surrogate.plain
        assert surrogate.curvature(z)[0] == pytest.approx(expected, abs=1e-5)


def test_landmarks_and_the_outer_ellipsoid_are_what_they_say(large):
    geometry = large.geometry
    assert np.all(large.likelihood.at(geometry.landmarks) >= large.floor)
    z = (points_of(large, np.random.default_rng(2), 8) - geometry.middle) @ geometry.inverse.T
    assert np.all(np.einsum("pi,ij,pj->p", z, geometry.outer, z) <= geometry.radius**2 + 1e-9)


def test_curvatures_are_numbers_where_an_input_is_impossible(large):
    """And so are their inverses, though the curvature across is a million times as large."""
    whole = large.whole
    z = -whole.rows[0] / (whole.rows[0] @ whole.rows[0])  # its likelihood is 0
    curvature = whole.curvature(z[None])
    roots = inverse_roots(curvature)
    assert np.isfinite(roots).all()
    assert curvature[0] @ roots[0] @ roots[0].T == pytest.approx(np.eye(3), abs=1e-3)


def test_inverse_roots_of_singular_forms_are_numbers():
    forms = np.array([[[1.0, 1.0], [1.0, 1.0]], [[4.0, 0.0], [0.0, 9.0]]])
    roots = inverse_roots(forms)
    assert np.isfinite(roots).all()
    assert roots[1] == pytest.approx(np.diag([1 / 2, 1 / 3]))
