"""Unions of credal sets: the smallest intervals around them."""

import numpy as np
import pytest

import decal
from decal.credal import union
from oracles.boxes import random_boxes


def test_members_of_each_set_are_members_of_the_union():
    rng = np.random.default_rng(0)
    boxes = [decal.IntervalCredalSet(*random_boxes(rng, 30, 4)) for _ in range(3)]
    hull = decal.HullCredalSet(rng.dirichlet(np.ones(4), size=(30, 5)), axis=1)
    both = union([*boxes, hull])
    for box in boxes:
        assert both.contains(box.intersection_probability(), atol=1e-12).all()
    for m in range(5):
        assert both.contains(hull.vertices[:, m], atol=1e-12).all()


def test_bounds_are_reached_by_one_of_the_sets():
    loose = decal.IntervalCredalSet([[0.0, 0.6]], [[1.0, 0.7]])  # really [0.3, 0.4] and [0.6, 0.7]
    other = decal.IntervalCredalSet([[0.35, 0.6]], [[0.4, 0.65]], point=[[0.4, 0.6]])
    found = union([loose, other])
    np.testing.assert_allclose(found.lower, [[0.3, 0.6]])
    np.testing.assert_allclose(found.upper, [[0.4, 0.7]])
    assert found.point is None


def test_sets_of_other_inputs_or_classes_and_empty_ones_are_refused():
    one = decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]], classes=["a", "b"])
    for other, message in [
        (decal.IntervalCredalSet([[0.2, 0.3]] * 2, [[0.7, 0.8]] * 2), r"got \(2, 2\) at index 1"),
        (decal.IntervalCredalSet([[0.2, 0.3]], [[0.7, 0.8]]), "got None at index 1"),
        (decal.IntervalCredalSet([[0.9, 0.9]], [[1, 1]], classes=["a", "b"]), "got an empty one"),
        ("box", "must be credal sets: got str at index 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            union([one, other])
    with pytest.raises(ValueError, match="sets must be one or more: got none"):
        union([])
