"""The binned summary stands in for the data, whatever the order in which they came."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decal.directions._bins import BIN_WIDTH
from decal.directions._margins import MarginSummary, merge
from decal.directions._summarise import Summariser
from helpers.strategies import at_most


def summarise(m, labels, weights=None, blocks=1, max_bins=1 << 20):
    summariser = Summariser(len(m), max_bins)
    for rows in np.array_split(np.arange(m.shape[1]), blocks):
        if rows.size:
            summariser.add(m[:, rows], labels[rows], None if weights is None else weights[rows])
    return summariser.summary()


def literal_sum(m, t, weights=None):
    weights = np.ones(m.shape[1]) if weights is None else weights
    return np.array([np.sum(weights * np.logaddexp(0, m[k] + t[k])) for k in range(len(m))])


@st.composite
def margin_sets(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    K, n = draw(st.integers(2, 5)), draw(st.integers(1, 60))
    spread = draw(st.sampled_from([0.0, 0.01, 2.0, 40.0, 3e4]))
    m = rng.normal(size=(K, n)) * spread
    weights = rng.integers(1, 4, n).astype(float) if draw(st.booleans()) else None
    return m, rng.integers(0, K, n), weights


@at_most(150)
@given(margin_sets(), st.floats(-30, 30), st.integers(1, 6))
def test_it_holds_the_sum_of_softplus_within_its_own_bound(data, t, blocks):
    m, labels, weights = data
    summary = summarise(m, labels, weights, blocks)
    shifts = np.full((1, len(m)), t)
    (value,), (slope,) = summary.series.softplus_sum(shifts)
    value += summary.series.hinges[0]
    noise = 1e-14 * summary.total_weight * (1 + np.abs(m).max() + abs(t))
    assert (
        np.abs(value - literal_sum(m, shifts[0], weights)) <= summary.series.remainder + noise
    ).all()
    assert (summary.series.remainder <= 3e-11 * summary.total_weight).all()
    step = 1e-5
    up, down = (literal_sum(m, shifts[0] + s, weights) for s in (step, -step))
    np.testing.assert_allclose(slope, (up - down) / (2 * step), rtol=1e-4, atol=1e-4)


@at_most(80)
@given(margin_sets(), st.sampled_from([2, 4, 16]))
def test_wider_bins_hold_the_same_evidence_within_their_own_bound(data, factor):
    m, labels, weights = data
    wide = summarise(m, labels, weights).coarsened(factor)
    assert wide.bin_width == factor * BIN_WIDTH
    t = np.linspace(-3, 3, len(m))
    (value,), _ = wide.series.softplus_sum(t[None])
    value += wide.series.hinges[0]
    noise = 1e-14 * wide.total_weight * (1 + np.abs(m).max())
    assert (np.abs(value - literal_sum(m, t, weights)) <= wide.series.remainder + noise).all()
    total = np.add.reduceat(
        wide.moments[0] * wide.series.centers + wide.moments[1], wide.series.edges[:-1]
    )
    expected = (m if weights is None else m * weights).sum(axis=1)
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-7)


@at_most(80)
@given(margin_sets(), st.integers(2, 6))
def test_blocks_and_merges_give_the_summary_of_the_whole(data, blocks):
    m, labels, weights = data
    whole = summarise(m, labels, weights)
    parts = [
        summarise(m[:, rows], labels[rows], None if weights is None else weights[rows])
        for rows in np.array_split(np.arange(m.shape[1]), blocks)
        if rows.size
    ]
    for other in (summarise(m, labels, weights, blocks), merge(parts), merge(parts[::-1])):
        np.testing.assert_array_equal(other.keys, whole.keys)
        np.testing.assert_allclose(other.moments, whole.moments, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(other.label_weight, whole.label_weight)


def test_few_margins_over_a_wide_range_are_kept_sparsely():
    m = np.array([[0.0, 1e6, -1e6], [5.0, 2e5, 3.0]])
    summary = summarise(m, np.array([0, 1, 1]))
    assert len(summary.keys) == 6
    np.testing.assert_allclose(np.sort(summary.series.centers[:3]), [-1e6, 0, 1e6], atol=BIN_WIDTH)


def test_bins_are_merged_when_they_outgrow_their_budget_and_not_beyond_use():
    rng = np.random.default_rng(0)
    m = rng.normal(size=(3, 500)) * 200
    labels = rng.integers(0, 3, 500)
    fine = summarise(m, labels)
    coarse = summarise(m, labels, blocks=5, max_bins=len(fine.keys) // 2)
    assert BIN_WIDTH < coarse.bin_width <= 2
    assert len(coarse.keys) < len(fine.keys)
    assert summarise(m, labels, max_bins=1).bin_width == 2


def test_a_later_block_may_reach_beyond_the_first():
    m = np.concatenate([np.zeros((2, 5000)), np.full((2, 5000), 30.0)], axis=1)
    m[:, -1] = -200.0
    labels = np.arange(10_000) % 2
    summary = summarise(m, labels, blocks=4)
    t = np.array([-31.0, 0.5])
    (value,), _ = summary.series.softplus_sum(t[None])
    value += summary.series.hinges[0]
    np.testing.assert_allclose(value, literal_sum(m, t), rtol=1e-10)


def test_parts_that_do_not_fit_together_are_refused():
    s = summarise(np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([0, 1]))
    MarginSummary.from_arrays(s.arrays())
    for name, bad in [
        ("bin_width", np.array(0.1)),
        ("keys", s.keys[::-1]),
        ("keys", s.keys.astype(float)),
        ("keys", s.keys[0]),
        ("moments", s.moments[:3]),
        ("moments", -s.moments),
        ("label_weight", s.label_weight * 0),
        ("label_weight", np.ones(5)),
    ]:
        with pytest.raises(ValueError, match=r"shapes|types|damaged"):
            MarginSummary.from_arrays(s.arrays() | {name: bad})


def test_far_and_infinite_margins_come_back_from_arrays():
    m = np.array([1e15, -7e12, -np.inf, np.inf, 0.3])  # of two classes: one against the other
    summary = summarise(np.stack([m, -m]), np.array([0, 1, 1, 0, 0]))
    again = MarginSummary.from_arrays(summary.arrays())
    np.testing.assert_array_equal(again.series.centers, summary.series.centers)
    np.testing.assert_array_equal(again.open_labels, [2, 1])
    np.testing.assert_array_equal(again.open_others, [1, 2])
    np.testing.assert_allclose(
        np.sort(again.series.centers[again.series.far]), [-1e15, -7e12, 7e12, 1e15]
    )
