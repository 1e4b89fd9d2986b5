"""HullCredalSet: what it holds and that it answers what boxes answer."""

import numpy as np
import pytest

import decal
from helpers.credal_sets import NAMES


@pytest.fixture
def hull():
    rng = np.random.default_rng(4)
    return decal.HullCredalSet(rng.dirichlet(np.ones(3), size=(6, 4)), classes=NAMES)


def test_a_hull_has_the_surface_of_a_box_and_lies_within_its_box(hull):
    box = hull.box()
    np.testing.assert_array_equal(hull.lower, hull.vertices.min(axis=1))
    np.testing.assert_array_equal(box.upper, hull.vertices.max(axis=1))
    np.testing.assert_allclose(hull.point, hull.vertices.mean(axis=1))
    assert hull.contains(hull.point, atol=1e-9).all()
    assert box.contains(hull.point).all()
    assert (hull.total() <= box.total() + 1e-9).all()
    assert (hull.aleatoric() >= box.aleatoric() - 1e-9).all()
    for measure in ("entropy", "zero_one", "total_variation", "hartley", "width"):
        assert (hull.epistemic(measure) <= box.epistemic(measure) + 1e-9).all()
    for rule in ("interval_dominance", "maximality", "e_admissible"):
        assert not (hull.decide(rule) & ~box.decide(rule)).any()
    np.testing.assert_array_equal(hull.decide("point"), hull.point.argmax(axis=1))
    least, greatest = hull.expectation([0.0, 1.0, 2.0])
    assert (least <= greatest).all()
    assert (hull.upper_entropy().gap <= 1e-9).all()
    assert not hull.is_empty.any()
    assert hull.tighten() is hull
    np.testing.assert_array_equal(hull.intersection_probability(), box.intersection_probability())
    assert decal.metrics.efficiency(hull) == decal.metrics.efficiency(box)
    assert decal.metrics.coverage(hull, hull.point) == 1.0


def test_rows_of_a_hull_are_hulls(hull):
    assert len(hull) == 6
    assert hull[2].vertices.shape == (1, 4, 3)
    assert [h.shape for h in hull[:2]] == [(1, 3), (1, 3)]
    assert repr(hull).startswith("HullCredalSet: 6 inputs, 4 vertices, 3 classes, mean width")
    with pytest.raises(ValueError, match="read-only"):
        hull.vertices[0, 0, 0] = 1


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([[0.5, 0.5]], r"vertices must be inputs × members × classes.*got shape \(1, 2\)"),
        (np.zeros((2, 0, 3)), r"got shape \(2, 0, 3\)"),
        ([[[0.5, 0.5], [0.5, 0.6]]], "vertices must sum to 1 .*got 1.1 for member 1 of row 0"),
        (np.full((5, 4, 2), 0.25), r"Axis 1 does: move it with np.moveaxis\(vertices, 1, -1\)"),
        (np.full((4, 5, 2), 0.25), r"Axis 0 does"),
        ([[[1.5, -0.5]]], "vertices must lie between 0 and 1: got 1.5"),
    ],
)
def test_bad_vertices_are_refused(vertices, message):
    with pytest.raises(ValueError, match=message):
        decal.HullCredalSet(vertices)


def test_members_may_come_first(hull):
    members = np.moveaxis(hull.vertices, 1, 0)
    same = decal.HullCredalSet(members, axis=0, classes="abc")
    np.testing.assert_array_equal(same.vertices, hull.vertices)
    assert same.classes == ("a", "b", "c")
    with pytest.raises(ValueError, match="axis must be 0 or 1, where the members are: got 2"):
        decal.HullCredalSet(members, axis=2)
    with pytest.raises(ValueError, match="vertices must have one member or more"):
        decal.HullCredalSet(np.zeros((0, 2, 3)), axis=0)


def test_predictions_of_few_members_for_many_inputs_are_not_mistaken_in_silence():
    members = np.full((5, 100, 3), 1 / 3)
    message = "taken as 5 inputs with 100 members each. If they are 5 members' predictions for 100"
    with pytest.warns(UserWarning, match=message) as caught:
        assert len(decal.HullCredalSet(members)) == 5
    assert caught[0].filename == __file__
    assert len(decal.HullCredalSet(members, axis=0)) == 100  # no warning
    assert len(decal.HullCredalSet(members, axis=1)) == 5
    assert len(decal.HullCredalSet(members[:1])) == 1  # a thousand draws for one input are usual
    assert len(decal.HullCredalSet(members[:, :30])) == 5
