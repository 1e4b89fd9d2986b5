"""Class shifts of margins that are known as intervals."""

import numpy as np

import decal
from decal.directions import BoundedMargins, ClassShifts, Reference


def test_bounds_of_known_margins_are_the_ordinary_endpoints():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 25)
    logits = rng.normal(size=(25, 3)) + np.eye(3)[labels]
    mass = np.exp(logits)
    m = logits - np.log(mass.sum(axis=1, keepdims=True) - mass)
    found = ClassShifts().endpoints(
        BoundedMargins.of(m, m, labels), np.array([-25 * np.log(0.8)]), Reference(np.zeros(3))
    )
    expected = decal.decalibrate(logits, labels, alpha=0.8).shifts()
    np.testing.assert_allclose(found.lower[0], expected.lower, atol=1e-8)
    np.testing.assert_allclose(found.upper[0], expected.upper, atol=1e-8)


def test_a_margin_without_a_lower_bound_moves_the_upper_end_alone():
    m, labels = np.array([[0.5, -0.5], [1.0, -1.0], [-0.3, 0.3]]), np.array([0, 1, 1])
    low = m.copy()
    low[0, 0] = -np.inf

    def ends(low):
        evidence = BoundedMargins.of(low, m, labels)
        return ClassShifts().endpoints(evidence, np.array([1.0]), Reference(np.zeros(2)))

    known, found = ends(m), ends(low)
    np.testing.assert_array_equal(found.lower, known.lower)
    np.testing.assert_allclose(found.upper[0, 1], known.upper[0, 1])
    # The first row, of label 0, now gains t, and the others lose what they did.
    t = found.upper[0, 0]
    lost = np.logaddexp(0, m[1:, 0] + t) - np.logaddexp(0, m[1:, 0])
    np.testing.assert_allclose(t - lost.sum(), -1.0)
