"""Members of sets by a few parameters: inside, closest, and with the right slopes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

import decal
from decal_lab.members._families import MixedVertices, TiltedBoxes, into_boxes
from helpers.strategies import at_most


def boxes(rng, n, K):
    p = rng.dirichlet(np.full(K, 0.5), size=n)
    lower = p * rng.uniform(0, 1, (n, K)) * (rng.random((n, K)) < 0.8)
    upper = np.where(rng.random((n, K)) < 0.2, p, p + (1 - p) * rng.uniform(0, 1, (n, K)))
    tight = decal.IntervalCredalSet(lower, upper, point=p).tighten()
    return tight.lower, tight.upper, p


@at_most(60)
@given(st.integers(0, 10**6), st.integers(2, 6), st.sampled_from([0.1, 3.0, 60.0]))
def test_what_is_brought_into_a_box_lies_in_it_and_is_proportional_where_it_is_free(seed, K, size):
    rng = np.random.default_rng(seed)
    lower, upper, _ = boxes(rng, 8, K)
    log_r = size * rng.normal(size=(8, K))
    log_r -= np.log(np.exp(log_r - log_r.max(1, keepdims=True)).sum(1, keepdims=True)) + log_r.max(
        1, keepdims=True
    )
    q = into_boxes(log_r, lower, upper)
    assert q.sum(axis=1) == pytest.approx(np.ones(8), abs=1e-9)
    assert (q >= lower).all()
    assert (q <= upper).all()
    for row in range(8):
        # One factor v for all: classes held down would be more, classes held up less.
        with np.errstate(divide="ignore"):
            v = np.log(q[row]) - log_r[row]
        free = (q[row] > lower[row]) & (q[row] < upper[row])
        down, up = q[row] == upper[row], q[row] == lower[row]
        if free.any():
            assert np.ptp(v[free]) <= 1e-9
            assert (v[down & ~up] <= v[free].max() + 1e-9).all()
            assert (v[up & ~down] >= v[free].min() - 1e-9).all()


def test_the_member_is_the_closest_in_divergence():
    rng = np.random.default_rng(3)
    lower, upper, _ = boxes(rng, 5, 4)
    r = rng.dirichlet(np.ones(4), size=5)
    q = into_boxes(np.log(r), lower, upper)
    for row in range(5):
        found = minimize(
            lambda x, r=r[row]: np.sum(x * np.log(np.maximum(x, 1e-12) / r)),
            (lower[row] + upper[row]) / 2,
            bounds=list(zip(lower[row], upper[row], strict=True)),
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
            method="SLSQP",
        )
        assert q[row] == pytest.approx(found.x, abs=1e-3)


def families(rng):
    lower, upper, p = boxes(rng, 12, 4)
    yield TiltedBoxes.around(lower, upper, p)
    yield MixedVertices.of(rng.dirichlet(np.ones(4), size=(12, 3)))


@pytest.mark.parametrize("which", [0, 1])
def test_slopes_are_those_of_finite_differences(which):
    rng = np.random.default_rng(which)
    family = list(families(rng))[which]
    at = family.start + 0.3 * rng.normal(size=len(family.start))
    weights = rng.normal(size=(12, 4))

    def value(parameters):
        return float(np.sum(weights * family.members(parameters) ** 2))

    q = family.members(at)
    assert len(family.bounds) == len(family.start)
    expected = approx_fprime(at, value, 1e-7)
    assert family.pull_back(at, q, 2 * weights * q) == pytest.approx(expected, abs=1e-4)


def test_families_start_at_the_prediction_and_at_the_mean_of_the_vertices():
    rng = np.random.default_rng(0)
    tilted, mixed = families(rng)
    assert tilted.members(tilted.start) == pytest.approx(np.exp(tilted.log_point), abs=1e-9)
    assert mixed.members(mixed.start) == pytest.approx(mixed.vertices.mean(axis=1))


def test_a_prediction_of_zero_can_be_lifted_if_the_box_allows_it():
    family = TiltedBoxes.around(np.zeros((1, 2)), np.ones((1, 2)), np.array([[1.0, 0.0]]))
    lifted = family.members(np.array([-3.0, 0.0, 12.0]))
    assert lifted[0, 1] > 0.99
