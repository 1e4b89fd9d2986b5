"""Triangles: the exact polygons of boxes and hulls."""

import itertools

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from matplotlib.patches import Polygon

from decal import plot
from helpers.plotted import BOX, HULL, NAMES, PAIR, SQUARE_ROOT, TRUTH


def in_plane(p):
    corners = np.array([[0, 0], [1, 0], [0.5, SQUARE_ROOT]])
    return np.asarray(p) @ corners


def corners_by_search(lower, upper):
    """Corners of a box of three classes: two classes at a bound, the third takes the rest."""
    found = []
    for a, b, c in itertools.permutations(range(3)):
        for x, y in itertools.product((lower[a], upper[a]), (lower[b], upper[b])):
            p = np.empty(3)
            p[a], p[b], p[c] = x, y, 1 - x - y
            inside = (p >= lower - 1e-9).all() and (p <= upper + 1e-9).all()
            if inside and all(np.abs(p - q).max() > 1e-9 for q in found):
                found.append(p)
    return np.array(found)


def outline(ax):
    return [p.get_xy()[:-1] for p in ax.patches if isinstance(p, Polygon)][-1]


def as_set(points):
    return {tuple(np.round(point, 7) + 0.0) for point in points}


@pytest.mark.parametrize("seed", range(30))
def test_the_polygon_has_the_corners_of_the_box(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3))
    lower, upper = p * rng.uniform(0, 1, 3), np.minimum(1, p + (1 - p) * rng.uniform(0, 1, 3))
    ax = plot.simplex(decal.IntervalCredalSet([lower], [upper]))
    drawn = outline(ax)
    assert as_set(drawn) == as_set(in_plane(corners_by_search(lower, upper)))
    # They are in order: the outline of a convex polygon never turns back.
    sides = np.roll(drawn, -1, axis=0) - drawn
    following = np.roll(sides, -1, axis=0)
    turns = sides[:, 0] * following[:, 1] - sides[:, 1] * following[:, 0]
    assert (np.sign(turns[np.abs(turns) > 1e-12]) == np.sign(turns.sum())).all()


@pytest.mark.parametrize(
    ("lower", "upper", "count"),
    [
        ([0, 0, 0], [1, 1, 1], 3),
        ([0.2, 0.2, 0.2], [0.5, 0.5, 0.5], 6),
        ([0.3, 0, 0], [0.3, 1, 1], 2),
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 1),
        ([1 / 3] * 3, [1 / 3] * 3, 1),
    ],
)
def test_triangles_hexagons_segments_and_points_are_drawn(lower, upper, count):
    ax = plot.simplex(decal.IntervalCredalSet([lower], [upper]))
    ax.figure.canvas.draw()
    assert len(outline(ax)) == count
    assert as_set(outline(ax)) == as_set(
        in_plane(corners_by_search(*map(np.array, (lower, upper))))
    )


def test_a_hull_is_drawn_with_its_members_and_without_those_inside():
    ax = plot.simplex(HULL)
    assert as_set(outline(ax)) == as_set(in_plane(HULL.vertices[0, :3]))
    members = next(
        line for line in ax.lines if len(line.get_xdata()) == 4 and line.get_marker() == "o"
    )
    assert np.column_stack(members.get_data()) == pytest.approx(in_plane(HULL.vertices[0]))


@pytest.mark.parametrize("members", [1, 2, 3])
def test_hulls_without_area_are_drawn(members):
    line = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2], [0.4, 0.25, 0.35]])[:members]
    ax = plot.simplex(decal.HullCredalSet([line]))
    ax.figure.canvas.draw()
    assert as_set(outline(ax)) == as_set(in_plane(line[:2]))


@pytest.mark.parametrize(
    ("center", "radius"),
    [
        ([0.5, 0.3, 0.2], 0.1),
        ([0.97, 0.02, 0.01], 0.001),
        ([0.4, 0.35, 0.25], 1.0),  # two of the three corners are members
    ],
)
def test_the_rim_of_a_ball_is_drawn(center, radius):
    ball = decal.KLCredalSet([center], radius)
    drawn = outline(plot.simplex(ball))
    corners = np.array([[0, 0, 1], [1, 0, 1], [0.5, SQUARE_ROOT, 1]])
    p = np.column_stack([drawn, np.ones(len(drawn))]) @ np.linalg.inv(corners)
    p = np.maximum(p, 0)
    assert len(p) > 50
    same = decal.KLCredalSet(np.tile(center, (len(p), 1)), radius)
    assert same.contains(p, atol=1e-7).all()
    # Between neighbours nothing is left out: all that is far from the drawing is no member.
    widest = ball.expectation(np.column_stack([np.eye(3)[0], np.eye(3)[1] - np.eye(3)[2]]).T)
    np.testing.assert_allclose(widest[1][0, 0], p[:, 0].max(), atol=1e-3)
    np.testing.assert_allclose(widest[1][0, 1], (p[:, 1] - p[:, 2]).max(), atol=1e-3)


def test_nested_sets_are_drawn_widest_first_and_share_one_prediction():
    wide = decal.IntervalCredalSet([[0, 0, 0]], [[1, 1, 1]], point=BOX.point[:1], classes=NAMES)
    ax = plot.simplex([BOX[0], wide], nested=True, truth=TRUTH[0])
    first, second = [p.get_xy() for p in ax.patches if isinstance(p, Polygon)]
    assert (len(first) - 1, len(second) - 1) == (
        3,
        len(corners_by_search(BOX.lower[0], BOX.upper[0])),
    )
    single = [line for line in ax.lines if len(line.get_xdata(orig=False)) == 1]
    assert [line.get_marker() for line in single] == ["o", "D"]
    assert np.ravel(single[0].get_data()) == pytest.approx(in_plane(BOX.point[0]))
    assert np.ravel(single[1].get_data()) == pytest.approx(in_plane(TRUTH[0]))


def test_a_triangle_needs_three_classes():
    with pytest.raises(ValueError, match="credal must have three classes for a triangle: got 2"):
        plot.simplex(PAIR)
