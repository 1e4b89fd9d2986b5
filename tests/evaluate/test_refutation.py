"""Refutation by cells: its bins, bounds, p-values, size and power."""

from itertools import pairwise
from math import comb

import numpy as np
import pytest
from decal.calibration import refute
from hypothesis import given
from hypothesis import strategies as st

import decal
from decal.evaluate.refutation import bins_of, cell_p_value
from helpers.strategies import at_most
from oracles import counts as oracles


def drawn(truth, rng):
    return np.minimum((truth.cumsum(axis=1) < rng.random((len(truth), 1))).sum(axis=1), 9)


def around(p, width, **options):
    return decal.IntervalCredalSet(
        np.maximum(p - width, 0), np.minimum(p + width, 1), point=p, **options
    )


@at_most(40)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=6), st.data())
def test_no_probabilities_within_the_bounds_make_a_cell_less_likely_than_its_p_value(pairs, data):
    lower, upper = np.sort(np.array(pairs), axis=1).T
    count = data.draw(st.integers(0, len(pairs)))
    above = oracles.greatest_tail(count, lower, upper)
    below = oracles.greatest_tail(len(pairs) - count, 1 - upper, 1 - lower)
    found = cell_p_value(count, lower, upper)
    if lower.sum() <= count <= upper.sum():
        assert found == 1
    else:
        assert found == pytest.approx(min(1, 2 * min(above, below)), rel=1e-9, abs=1e-300)


@at_most(40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=80), st.integers(1, 12))
def test_bins_hold_every_row_once_in_order_and_not_too_few(point, bins):
    found = bins_of(np.array(point), bins)
    assert sorted(np.concatenate(found).tolist()) == list(range(len(point)))
    assert len(found) <= bins
    assert len(found) == 1 or min(map(len, found)) >= 10
    ends = [(min(point[i] for i in cell), max(point[i] for i in cell)) for cell in found]
    assert all(high <= low for (_, high), (low, _) in pairwise(ends))


def test_a_small_last_bin_joins_its_neighbour():
    point = np.repeat([0.001, 0.5, 0.999], [30, 20, 3])
    assert [len(cell) for cell in bins_of(point, 10)] == [30, 23]


def test_cells_by_hand():
    p = np.tile([0.2, 0.8], (30, 1))
    found = refute(around(p, 0.1, classes=["no", "yes"]), [0] * 20 + [1] * 10)
    assert found.column.tolist() == [0, 1]
    assert found.rows.tolist() == [30, 30]
    assert found.point == pytest.approx([0.2, 0.8])
    assert found.frequency == pytest.approx([2 / 3, 1 / 3])
    assert (found.lower, found.upper) == (pytest.approx([0.1, 0.7]), pytest.approx([0.3, 0.9]))
    tail = float(sum(oracles.mass([0.3] * 30)[20:]))
    assert found.p_values == pytest.approx([4 * tail, 4 * tail])
    assert found.refuted
    assert found.cells.all()
    assert repr(found).splitlines()[:3] == [
        "Refutation: 2 of 2 cells refuted at level 0.05, 30 examples",
        "  class    rows  point  frequency  lower  upper  p-value",
        f"  no         30  0.200      0.667  0.100  0.300  {4 * tail:.2g}",
    ]
    top = refute(around(p, 0.1), [0] * 20 + [1] * 10, by="top")
    assert (top.column.tolist(), top.frequency.tolist()) == ([-1], [pytest.approx(1 / 3)])
    assert top.names() == ["most probable"]


def test_nothing_refuted_is_not_called_valid():
    found = refute(around(np.tile([0.5, 0.5], (8, 1)), 0.1), [0, 1] * 4)
    assert not found.refuted
    assert "Not refuted is not valid" in repr(found)


def test_bounds_need_not_be_reachable_nor_have_a_point():
    loose = decal.IntervalCredalSet([[0.0, 0.7]] * 20, [[1.0, 0.9]] * 20)
    found = refute(loose, [0] * 20)
    assert (found.lower, found.upper) == (pytest.approx([0.1, 0.7]), pytest.approx([0.3, 0.9]))
    hull = decal.HullCredalSet([[[0.1, 0.9], [0.3, 0.7]]] * 20)
    assert refute(hull, [0] * 20).p_values == pytest.approx(found.p_values)


def test_text_labels_are_names_and_the_table_has_a_row_per_cell():
    pytest.importorskip("pandas")
    credal = around(np.tile([0.5, 0.5], (8, 1)), 0.1, classes=["no", "yes"])
    found = refute(credal, np.array(["yes", "no"] * 4)).to_pandas()
    assert found["class"].tolist() == ["no", "yes"]
    assert found["frequency"].tolist() == [0.5, 0.5]


def test_with_exceptions_the_most_harmful_inputs_may_be_wrong():
    p = np.linspace(0.05, 0.4, 200)
    p = np.stack([1 - p, p], axis=1)
    y = np.array([1] * 80 + [0] * 120)
    strict = refute(around(p, 0.05), y, bins=1)
    assert strict.refuted
    found = refute(around(p, 0.05), y, bins=1, exceptions=0.1)
    chance = [comb(200, m) * 0.1**m * 0.9 ** (200 - m) for m in range(201)]
    allowed = next(m for m in range(200) if sum(chance[m + 1 :]) <= 0.005)
    raised = np.sort(p[:, 1] + 0.05)
    raised[:allowed] = 1
    assert found.upper[1] == pytest.approx(raised.mean())
    assert found.p_values.min() > strict.p_values.min()
    assert refute(around(p, 0.05), y, bins=1, exceptions=0.4).p_value == 1
    assert "exceptions 0.1" in repr(found)


@pytest.mark.parametrize("exceptions", [0.0, 0.1])
@pytest.mark.parametrize("by", ["class", "top"])
def test_sets_that_hold_the_truth_are_refuted_no_more_often_than_the_level(by, exceptions):
    repetitions, hits = 150, 0
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, 17])
        truth = rng.dirichlet(np.ones(3), size=100)
        y = drawn(truth, rng)
        wrong = rng.random(100) < exceptions
        shown = np.where(wrong[:, None], np.roll(truth, 1, axis=1), truth)
        credal = decal.IntervalCredalSet(shown, shown, point=shown)
        hits += refute(credal, y, by=by, level=0.2, bins=4, exceptions=exceptions).refuted
    assert hits / repetitions <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / repetitions)
    if exceptions == 0:
        assert hits > 0  # points leave no room: the test must err now and then


def test_sets_that_miss_the_truth_grossly_are_refuted():
    hits = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = rng.dirichlet(np.ones(3), size=400)
        off = np.roll(truth, 1, axis=1)
        hits += refute(around(off, 0.1), drawn(truth, rng)).refuted
    assert hits == 20


def test_errors_that_cancel_are_not_seen():
    rng = np.random.default_rng(0)
    side = rng.integers(2, size=2000)
    truth = np.stack([0.1 + 0.8 * side, 0.9 - 0.8 * side], axis=1)
    credal = around(np.full((2000, 2), 0.5), 0.05)
    assert decal.metrics.coverage(credal, truth) == 0
    assert not refute(credal, drawn(truth, rng)).refuted


def test_bad_input_is_refused():
    credal = around(np.tile([0.5, 0.5], (4, 1)), 0.1)
    with pytest.raises(ValueError, match="labels must lie in 0 to 1, the columns of logits: got 2"):
        refute(credal, [0, 1, 2, 0])
    with pytest.raises(ValueError, match="labels must be integers 0 to 1: got dtype float64"):
        refute(credal, [0.0, 1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="labels must be known in every row: .* in row 2"):
        refute(credal, [0, 1, np.nan, 0])
    with pytest.raises(ValueError, match="labels must be a vector with one label per row"):
        refute(credal, [0, 1])
    with pytest.raises(ValueError, match="credal must have an input and two classes, or more: got"):
        refute(credal[:0], [])
    with pytest.raises(ValueError, match="got 1 inputs, 1 classes"):
        refute(decal.IntervalCredalSet([[1.0]], [[1.0]]), [0])
    with pytest.raises(ValueError, match="credal must have members in every row: .* in row 1"):
        refute(decal.IntervalCredalSet([[0.2, 0.2], [0.7, 0.7]], [[0.9, 0.9]] * 2), [0, 1])
    with pytest.raises(ValueError, match="credal must be a credal set: got list"):
        refute([[0.5, 0.5]], [0])
    with pytest.raises(ValueError, match="level must be above 0 and below 1: got 0"):
        refute(credal, [0] * 4, level=0)
    with pytest.raises(ValueError, match="exceptions must be at least 0 and below 1: got 1"):
        refute(credal, [0] * 4, exceptions=1)
    with pytest.raises(ValueError, match="by must be one of 'class', 'top': got 'bin'"):
        refute(credal, [0] * 4, by="bin")
    with pytest.raises(ValueError, match="bins must be a whole number, at least 1: got 0"):
        refute(credal, [0] * 4, bins=0)


def test_one_input_is_enough_for_an_answer_and_too_few_to_refute():
    found = refute(around(np.array([[0.5, 0.5]]), 0.1), [0])
    assert found.p_value == 1
    certain = decal.IntervalCredalSet([[0.0, 1.0]], [[0.0, 1.0]])
    assert refute(certain, [0]).p_value == 0  # what has probability zero happened
