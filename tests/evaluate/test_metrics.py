"""Coverage, efficiency, AUROC and calibration error against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decal
from helpers.strategies import at_most
from oracles import class_shifts as oracles
from oracles import triage as triage_oracle

levels = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=12)


def test_coverage_and_efficiency_by_hand():
    c = decal.IntervalCredalSet([[0.1, 0.6], [0.1, 0.6]], [[0.4, 0.9], [0.4, 0.9]])
    assert decal.metrics.coverage(c, [[0.3, 0.7], [0.5, 0.5]]) == 0.5
    assert decal.metrics.efficiency(c) == pytest.approx(0.7)
    vacuous = decal.IntervalCredalSet(np.zeros((2, 3)), np.ones((2, 3)))
    assert decal.metrics.efficiency(vacuous) == 0.0
    assert decal.metrics.coverage(vacuous, np.eye(3)[:2]) == 1.0


@given(levels, levels)
def test_auroc_is_the_share_of_pairs_in_order_with_ties_as_one_half(inside, outside):
    assert decal.metrics.auroc(inside, outside) == pytest.approx(oracles.auroc(inside, outside))


def test_auroc_orders_infinite_scores_and_refuses_nan():
    assert decal.metrics.auroc([0.0, -np.inf], [np.inf]) == 1.0
    with pytest.raises(ValueError, match="out_scores must not contain NaN: got NaN at index 1"):
        decal.metrics.auroc([1.0], [0.0, np.nan])
    with pytest.raises(ValueError, match="in_scores must be a vector of numbers, at least one"):
        decal.metrics.auroc([], [1.0])


@at_most(100)
@given(st.integers(0, 10**6), st.integers(1, 20))
def test_calibration_error_is_its_definition(seed, bins):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(3, 0.5), size=30)
    p[0] = [1.0, 0.0, 0.0]
    y = rng.integers(0, 3, 30)
    expected = oracles.expected_calibration_error(p.tolist(), y.tolist(), bins)
    found = decal.metrics.expected_calibration_error(p, y, bins=bins)
    assert found == pytest.approx(expected, abs=1e-9)


def test_calibration_error_refuses_what_is_not_a_probability():
    with pytest.raises(ValueError, match="probabilities must sum to 1 in every row: got 0.9"):
        decal.metrics.expected_calibration_error([[0.5, 0.4]], [0])
    with pytest.raises(ValueError, match="bins must be a whole number, at least 1: got 0"):
        decal.metrics.expected_calibration_error([[0.5, 0.5]], [0], bins=0)


def test_auroc_takes_both_vectors_by_name_too():
    assert decal.metrics.auroc(out_scores=[0.2, 0.3], in_scores=[0.1, 0.2]) == 0.875


def test_labels_passed_as_scores_are_refused():
    labels, scores = [0, 1, 1, 0] * 3, [0.1, 0.8, 0.7, 0.3] * 3
    with pytest.raises(ValueError, match=r"in_scores must be scores: got zeros and ones alone"):
        decal.metrics.auroc(labels, scores)
    with pytest.raises(ValueError, match=r"out_scores must be scores: got zeros and ones alone"):
        decal.metrics.auroc(scores, labels)
    # Sizes of sets may happen to be zeros and ones, and both kinds can be such.
    sizes = np.array([0, 1, 2] * 4)
    found = decal.metrics.auroc(labels, sizes)
    assert found == pytest.approx(oracles.auroc(np.array(labels), sizes))
    assert decal.metrics.auroc(labels, labels) == 0.5
    assert decal.metrics.auroc([0, 1], [0.1, 0.8, 0.7]) == pytest.approx(0.5)


@at_most(60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 0.5])), min_size=1, max_size=6)
)
def test_the_risk_is_the_mean_over_all_orders_of_equal_scores(rows):
    scores, losses = zip(*rows, strict=True)
    curve = decal.metrics.risk_coverage(scores, losses)
    expected = triage_oracle.risks(scores, losses)
    assert curve.risk == pytest.approx(np.array(expected, dtype=float))
    assert curve.area == pytest.approx(float(sum(expected) / len(expected)))
    best = triage_oracle.risks(losses, losses)
    assert curve.excess == pytest.approx(float(sum(expected) - sum(best)) / len(best), abs=1e-12)
    assert decal.metrics.aurc(scores, losses) == curve.area


def test_losses_are_refused_by_name():
    with pytest.raises(ValueError, match="losses must be 2, one for every score: got 1"):
        decal.metrics.aurc([0.1, 0.2], [1])
    with pytest.raises(ValueError, match="losses must be finite and not negative: got -1"):
        decal.metrics.aurc([0.1, 0.2], [1, -1])
    with pytest.raises(ValueError, match="scores must not contain NaN"):
        decal.metrics.aurc([0.1, np.nan], [1, 0])


def test_no_sets_have_no_mean():
    metrics = decal.metrics
    none = decal.IntervalCredalSet(np.empty((0, 3)), np.empty((0, 3)))
    for ask in (metrics.efficiency, lambda sets: metrics.coverage(sets, np.empty((0, 3)))):
        with pytest.raises(ValueError, match="credal must hold at least one input: got none"):
            ask(none)


def test_confidences_on_an_edge_fall_into_the_bin_below():
    for bins in (7, 10, 100, 1000):
        for edge in range(bins // 2 + 1, bins + 1):
            p = edge / bins
            (found,) = np.flatnonzero(decal.metrics.calibration_gaps([[p, 1 - p]], [1], bins=bins))
            assert found == edge - 1, (edge, bins)


def test_the_efficiency_of_empty_sets_is_refused_or_left_out():
    lower, upper = [[0.2, 0.2], [0.9, 0.9]], [[0.6, 0.6], [0.3, 0.3]]
    sets = decal.IntervalCredalSet(lower, upper)
    with pytest.raises(ValueError, match=r"credal set must have members: got bounds .* in row 1"):
        decal.metrics.efficiency(sets)
    assert decal.metrics.efficiency(sets, empty="nan") == pytest.approx(0.6)
    assert np.isnan(decal.metrics.efficiency(sets[1:], empty="nan"))
    with pytest.raises(ValueError, match="empty must be one of 'raise', 'nan': got 'zero'"):
        decal.metrics.efficiency(sets, empty="zero")
    labels = decal.MultiLabelCredalSet([[0.6, 0.1]], [[0.9, 0.3]])
    assert decal.metrics.efficiency(labels) == pytest.approx(0.75)
