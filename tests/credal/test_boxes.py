"""IntervalCredalSet: what it holds, which distributions it admits, how it reads."""

import numpy as np
import pytest
from hypothesis import given

import decal
from decal.credal import union
from helpers.credal_sets import LOWER, NAMES, POINT, UPPER, boxes
from helpers.strategies import at_most
from oracles.boxes import maxima_of, random_boxes


def test_it_holds_its_arrays_and_nobody_can_change_them(credal):
    np.testing.assert_array_equal(credal.lower, LOWER)
    np.testing.assert_array_equal(credal.upper, UPPER)
    np.testing.assert_array_equal(credal.point, POINT)
    assert credal.classes == ("cat", "dog", "犬")
    assert credal.shape == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        credal.lower[0, 0] = 0.5
    with pytest.raises(AttributeError):
        credal.lower = None


def test_the_callers_arrays_stay_writable_and_apart():
    lower = np.array([[0.1, 0.2]])
    c = decal.IntervalCredalSet(lower, [[0.9, 0.8]])
    lower[0, 0] = 0.7
    assert c.lower[0, 0] == 0.1


def test_rows_are_picked_like_those_of_an_array(credal):
    assert len(credal) == 2
    np.testing.assert_array_equal(credal[1].lower, LOWER[1:])
    np.testing.assert_array_equal(credal[-1].point, POINT[1:])
    assert len(credal[:0]) == 0
    np.testing.assert_array_equal(credal[[1, 0]].upper, UPPER[::-1])
    np.testing.assert_array_equal(credal[np.array([True, False])].upper, UPPER[:1])
    assert [c.shape for c in credal] == [(1, 3), (1, 3)]
    with pytest.raises(IndexError, match="row 2 is out of range for 2 inputs"):
        credal[2]
    with pytest.raises(IndexError, match="rows only"):
        credal[0, 1]


def test_it_contains_what_lies_within_its_bounds_give_or_take_a_rounding(credal):
    assert credal.contains(POINT).tolist() == [True, True]
    just_out = [[0.3004, 0.6, 0.0996], [0.61, 0.2, 0.19]]
    assert credal.contains(just_out).tolist() == [True, False]
    assert credal.contains(just_out, atol=0).tolist() == [False, False]


@at_most(200)
@given(boxes())
def test_tightened_bounds_are_the_ones_that_members_attain(box):
    lower, upper, p = box
    tight = decal.IntervalCredalSet(lower, upper).tighten()
    assert tight.contains(p, atol=1e-12).all()
    each = np.eye(lower.shape[1])
    greatest = maxima_of(np.concatenate([each, -each]), lower[0], upper[0])
    attained = np.concatenate([tight.upper[0], -tight.lower[0]])
    np.testing.assert_allclose(attained, greatest, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("lower", "upper", "empty"),
    [
        ([0.5, 0.5], [0.5, 0.5], False),
        ([0.6, 0.5], [0.7, 0.6], True),
        ([0.1, 0.1], [0.3, 0.3], True),
        ([0.4, 0.2], [0.3, 0.9], True),
        ([1 / 3] * 3, [1 / 3] * 3, False),
    ],
)
def test_emptiness_is_reported_not_hidden(lower, upper, empty):
    c = decal.IntervalCredalSet([lower], [upper])
    assert c.is_empty.tolist() == [empty]
    assert np.isnan(c.intersection_probability(empty="nan")).all() == empty
    assert c.contains([np.full(len(lower), 1 / len(lower))], atol=1.0)[0] != empty
    np.testing.assert_array_equal(c.tighten().is_empty, [empty])


def test_the_intersection_probability_lies_at_one_fraction_of_all_intervals(credal):
    p = credal.intersection_probability()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    share = (p - credal.lower) / (credal.upper - credal.lower)
    np.testing.assert_allclose(share, np.broadcast_to(share[:, :1], share.shape))
    loose = decal.IntervalCredalSet([[0.4, 0.0, 0.0]], [[1.0, 1.0, 0.1]])
    np.testing.assert_allclose(
        loose.intersection_probability(), loose.tighten().intersection_probability()
    )
    point = decal.IntervalCredalSet(POINT, POINT)
    np.testing.assert_allclose(point.intersection_probability(), POINT)


def test_it_reads_well(credal):
    assert repr(credal) == (
        "IntervalCredalSet: 2 inputs, 3 classes, mean width 0.267\n"
        "  0  dog [0.500, 0.800]  cat [0.100, 0.300]  犬 [0.000, 0.200]\n"
        "  1  cat [0.200, 0.600]  dog [0.200, 0.500]  犬 [0.200, 0.400]"
    )
    many = decal.IntervalCredalSet(np.zeros((1000, 9)), np.ones((1000, 9)))
    lines = repr(many).splitlines()
    assert lines[0] == "IntervalCredalSet: 1,000 inputs, 9 classes, mean width 1.000"
    assert lines[-1] == "  … 995 more"
    assert lines[1].endswith("…")
    assert repr(many[:0]) == "IntervalCredalSet: 0 inputs, 9 classes"
    named = credal.with_index(["Indtast to gyldige værdier", "x" * 60])
    assert repr(named).splitlines()[1:] == [
        "  Indtast to gyldige værdier                dog [0.500, 0.800]  cat [0.100, 0.300]  …",
        f"  {'x' * 39}…  cat [0.200, 0.600]  dog [0.200, 0.500]  …",
    ]


def test_lines_of_long_names_show_fewer_classes_and_at_least_one():
    bounds = np.full((1, 4), 0.1), np.full((1, 4), 0.7)
    long = decal.IntervalCredalSet(*bounds, classes=[f"{k} " + "n" * 20 for k in range(4)])
    line = repr(long).splitlines()[1]
    assert line == "  0" + "".join(f"  {k} {'n' * 20} [0.100, 0.700]" for k in range(2)) + "  …"
    longest = decal.IntervalCredalSet(*bounds, classes=[f"{k} " + "n" * 99 for k in range(4)])
    assert repr(longest).splitlines()[1].count("[") == 1


def test_as_a_data_frame_it_is_tidy(credal):
    pytest.importorskip("pandas")
    frame = credal.to_pandas()
    assert frame.index.names == ["row", "class"]
    assert list(frame.columns) == ["lower", "upper", "point"]
    assert frame.loc[(1, "dog"), "upper"] == 0.5
    assert list(decal.IntervalCredalSet(LOWER, UPPER).to_pandas().columns) == ["lower", "upper"]
    hull = decal.HullCredalSet([POINT, POINT], classes=NAMES)
    assert hull.to_pandas().shape == (6, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lower": [0.1, 0.2], "upper": [0.3, 0.9]}, r"lower must be a matrix.*got shape \(2,\)"),
        ({"lower": LOWER, "upper": UPPER[:1]}, r"upper must have the shape of lower, \(2, 3\)"),
        ({"lower": [[-0.1, 0.2]], "upper": [[1, 1]]}, r"lower must lie.*-0.1 at index \(0, 0\)"),
        ({"lower": [[0, 0]], "upper": [[1, 1.5]]}, r"upper must lie.*got 1.5 at index \(0, 1\)"),
        ({"lower": [[0, np.nan]], "upper": [[1, 1]]}, r"lower must lie.*got nan at index \(0, 1\)"),
        ({"lower": LOWER, "upper": UPPER, "point": POINT[0]}, "point must be a matrix"),
        ({"lower": LOWER, "upper": UPPER, "point": POINT[:1]}, "point must have the shape"),
        ({"lower": LOWER, "upper": UPPER, "classes": ["a"]}, "classes must be 3 names.*got 1"),
        ({"lower": LOWER, "upper": UPPER, "classes": ["a", "b", "a"]}, "distinct: got 'a'"),
    ],
)
def test_bad_bounds_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        decal.IntervalCredalSet(**arguments)


@pytest.mark.parametrize(
    ("distributions", "message"),
    [
        (POINT[:1], r"distributions must have shape \(2, 3\): got shape \(1, 3\)"),
        ([[0.5, 0.5, 0.5], POINT[1]], "distributions must sum to 1.*got 1.5 in row 0"),
        ([[1.2, -0.2, 0.0], POINT[1]], "distributions must lie between 0 and 1: got 1.2"),
    ],
)
def test_bad_distributions_are_refused(credal, distributions, message):
    with pytest.raises(ValueError, match=message):
        credal.contains(distributions)
    with pytest.raises(ValueError, match="atol must be a finite number, not negative"):
        credal.contains(POINT, atol=-1)


# Unions: the smallest intervals around several sets


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
