"""Evaluation: counts that add up, and say what one would count by hand."""

import numpy as np
import pytest

import decal
from decal.evaluate import Evaluation
from decal.promise import Promise


def counted(n=60, K=4, seed=0, promise=None):
    rng = np.random.default_rng(seed)
    point = rng.dirichlet(np.ones(K), n)
    sets = decal.IntervalCredalSet(point * 0.7, np.minimum(1, point + 0.2), point=point)
    kept, y = rng.random((n, K)) < 0.6, rng.integers(0, K, n)
    return Evaluation.of(sets, kept, y, point.argmax(axis=1), promise), sets, kept, y, point


def test_shares_are_those_counted_by_hand():
    found, sets, kept, y, point = counted()
    missed = [not kept[i, y[i]] for i in range(60)]
    assert found.rows == 60
    assert found.miss_rate == pytest.approx(sum(missed) / 60)
    assert found.set_size == pytest.approx(kept.sum() / 60)
    assert found.single == pytest.approx(sum(row.sum() == 1 for row in kept) / 60)
    assert found.width == pytest.approx(1 - decal.metrics.efficiency(sets))
    assert found.accuracy == pytest.approx(np.mean([point[i].argmax() == y[i] for i in range(60)]))
    rates = [np.mean([missed[i] for i in range(60) if y[i] == k]) for k in range(4)]
    np.testing.assert_allclose(found.class_miss_rates, rates)
    assert found.class_gap == pytest.approx(np.mean(np.abs(np.array(rates) - np.mean(missed))))
    for size in range(1, 5):
        rows = [i for i in range(60) if kept[i].sum() == size]
        assert found.size_coverage[size] == pytest.approx(np.mean([not missed[i] for i in rows]))
    assert found.unit_miss_rate is None
    assert found.to_dict()["class_miss_rates"]["2"] == pytest.approx(rates[2])


def test_parts_add_up_and_units_count_alike():
    (a, _, kept, y, _), (b, *_) = counted(seed=1), counted(30, seed=2)
    both = a + b
    assert both.rows == 90
    assert both.miss_rate == pytest.approx((60 * a.miss_rate + 30 * b.miss_rate) / 90)
    assert both.widths == pytest.approx(a.widths + b.widths)
    missed, units = ~kept[np.arange(60), y], np.array([7] * 50 + [9] * 10)
    in_units = a.with_units(missed, units)
    expected = (missed[:50].mean() + missed[50:].mean()) / 2
    assert in_units.unit_miss_rate == pytest.approx(expected)
    assert (in_units + in_units).unit_miss_rate == pytest.approx(expected)
    assert "over 2 units" in repr(in_units)


def test_an_input_with_several_labels_counts_once_and_is_of_each_class_by_its_share():
    found, sets, kept, _, point = counted()
    rng = np.random.default_rng(5)
    votes = decal.Votes.of_counts(rng.integers(0, 4, (60, 4)) + np.eye(4, dtype=int)[0])
    promise = Promise("miss", 0.1, 60, unit="input", tolerate=0.3)
    guess = point.argmax(axis=1)
    of_votes = Evaluation.of(sets, kept, votes, guess, promise)
    shares = votes.counts / votes.counts.sum(axis=1, keepdims=True)
    missed = [shares[i][~kept[i]].sum() for i in range(60)]
    assert of_votes.rows == 60
    assert of_votes.miss_rate == pytest.approx(np.mean(missed))
    assert of_votes.set_size == found.set_size
    assert of_votes.accuracy == pytest.approx(np.mean([shares[i, guess[i]] for i in range(60)]))
    for k in range(4):
        expected = np.average(~kept[:, k], weights=shares[:, k])
        assert of_votes.class_miss_rates[k] == pytest.approx(expected)
    rows = [i for i in range(60) if kept[i].sum() == 2]
    assert of_votes.size_coverage[2] == pytest.approx(1 - np.mean([missed[i] for i in rows]))
    assert of_votes.bad_unit_rate == pytest.approx(np.mean([m > 0.3 + 1e-9 for m in missed]))
    assert "of an input's labels are outside the kept classes" in repr(of_votes)
    single = decal.Votes.of_annotations(counted()[3][:, None], classes=4)
    alike = Evaluation.of(sets, kept, single, guess)
    assert alike.to_dict() == found.to_dict()


def test_what_is_tolerated_exactly_is_no_bad_input():
    sets = decal.IntervalCredalSet([[0.1, 0.1]], [[0.9, 0.9]])
    promise = Promise("miss", 0.1, 60, unit="input", tolerate=0.3)
    votes = decal.Votes.of_counts([[7, 3]])
    kept, guess = np.array([[True, False]]), np.array([0])
    assert Evaluation.of(sets, kept, votes, guess, promise).bad_unit_rate == 0


def test_tables_and_words():
    pytest.importorskip("pandas")
    d = decal.decalibrate(np.eye(3).repeat(60, 0) * 2, np.arange(3).repeat(60), miss=0.1)
    found = counted(promise=d.promise)[0]
    frame = found.to_pandas()
    assert frame.index.name == "class"
    assert frame["misses"].sum() == pytest.approx(found.miss_rate * 60)
    assert "Promised: misses at most 1 in 10.\nFound: " in repr(found)
    assert "60 inputs, 4 classes" in repr(found)
