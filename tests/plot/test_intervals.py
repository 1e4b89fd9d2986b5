"""Horizontal bars, one per class."""

import itertools

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")


from decal import plot
from helpers.plotted import BOX, HULL, NAMES, TRUTH


def rectangles(ax):
    return np.array([[p.get_x(), p.get_x() + p.get_width(), p.get_y()] for p in ax.patches])


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize(
    ("sort", "order"), [("class", [0, 1, 2]), ("upper", [1, 0, 2]), ("lower", [0, 1, 2])]
)
def test_bars_run_from_lower_to_upper_in_the_order_asked_for(sort, order):
    ax = plot.intervals(BOX, truth=TRUTH, sort=sort)
    assert names_of(ax) == [NAMES[k] for k in order]
    low, high, _ = rectangles(ax).T
    assert low == pytest.approx(BOX.lower[0, order])
    assert high == pytest.approx(BOX.upper[0, order])
    ticks = np.array(ax.collections[0].get_segments())
    assert ticks[:, 0, 0] == pytest.approx(BOX.point[0, order])
    assert ax.lines[0].get_xdata() == pytest.approx(TRUTH[0, order])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]


def test_many_classes_are_folded_into_the_last_bar():
    rng = np.random.default_rng(5)
    point = rng.dirichlet(np.ones(300), size=1)
    credal = decal.IntervalCredalSet(point / 2, np.minimum(1, 2 * point), point=point)
    ax = plot.intervals(credal)
    assert len(ax.patches) == 41
    assert names_of(ax)[-1] == "260 other classes"
    outside = np.setdiff1d(np.arange(300), [int(name) for name in names_of(ax)[:-1]])
    low, high, _ = rectangles(ax)[-1]
    lower, upper = credal.lower[0], credal.upper[0]
    inside = np.setdiff1d(np.arange(300), outside)
    assert low == pytest.approx(max(lower[outside].sum(), 1 - upper[inside].sum()))
    assert high == pytest.approx(min(upper[outside].sum(), 1 - lower[inside].sum()))


def test_bars_of_several_models_do_not_overlap():
    ax = plot.intervals({"one": BOX, "two": HULL}, top=3)
    tops = sorted((p.get_y(), p.get_y() + p.get_height()) for p in ax.patches)
    assert len(tops) == 6
    assert all(below[0] >= above[1] for above, below in itertools.pairwise(tops))


def test_a_sort_must_be_known_and_possible():
    bare = decal.IntervalCredalSet(BOX.lower, BOX.upper)
    with pytest.raises(ValueError, match="sort must be one of"):
        plot.intervals(BOX, sort="size")
    with pytest.raises(ValueError, match="sort must not be 'point'"):
        plot.intervals(bare, sort="point")
