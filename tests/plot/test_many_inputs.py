"""Figures of many inputs: binary intervals, and kinds of uncertainty."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from matplotlib.collections import PolyCollection

from decal import plot
from helpers.plotted import legend_of

PAIR = decal.IntervalCredalSet(
    [[0.1, 0.5], [0.6, 0.1], [0.3, 0.2], [0.7, 0.7], [0.4, 0.3]],
    [[0.5, 0.9], [0.9, 0.4], [0.8, 0.7], [0.9, 0.9], [0.7, 0.6]],
    point=[[0.3, 0.7], [0.8, 0.2], [0.55, 0.45], [0.5, 0.5], [0.6, 0.4]],
    classes=["no", "yes"],
)


def spans(ax):
    """Place, lower and upper end of each interval by kind of decision."""
    found = {}
    for made in ax.collections:
        if isinstance(made, PolyCollection) and made.get_gid():
            corners = [path.vertices[:4] for path in made.get_paths()]
            found[made.get_gid()] = [
                (c[:, 0].mean(), c[:, 1].min(), c[:, 1].max()) for c in corners
            ]
    return found


def test_intervals_of_two_classes_lie_in_the_order_of_prediction_by_decision():
    ax = plot.binary(PAIR, labels=[1, 0, 0, 1, 1])
    found = spans(ax)
    # Row 3 is empty. The others by prediction: rows 1, 4, 2, 0. Bounds of both classes count.
    assert found["against"] == [pytest.approx((0, 0.1, 0.4))]
    assert found["undetermined"] == [pytest.approx((1, 0.3, 0.6)), pytest.approx((2, 0.2, 0.7))]
    assert found["for"] == [pytest.approx((3, 0.5, 0.9))]
    assert legend_of(ax) == ["yes: 1", "undetermined: 2", "no: 1", "prediction"]
    assert ax.get_xlabel() == "4 inputs, by prediction (1 empty left out)"
    above, below = [c for c in ax.collections if not c.get_gid()][1:]
    assert [s[0, 0] for s in above.get_segments()] == [1, 3]
    assert [s[0, 0] for s in below.get_segments()] == [0, 2]


def test_the_class_and_the_threshold_can_be_chosen():
    ax = plot.binary(PAIR, positive="no", threshold=0.65)
    found = spans(ax)
    assert found["for"] == []
    assert [round(s[2], 9) for s in found["undetermined"]] == [0.8, 0.7, 0.9]
    assert ax.get_ylabel() == "probability of no"
    with pytest.raises(ValueError, match="event must hold classes 0 to 1 or one of no, yes"):
        plot.binary(PAIR, positive="maybe")
    with pytest.raises(ValueError, match="threshold must lie between 0 and 1: got 2"):
        plot.binary(PAIR, threshold=2)
    with pytest.raises(ValueError, match="credal must have two classes: got 4"):
        plot.binary(decal.IntervalCredalSet(np.zeros((1, 4)), np.ones((1, 4))))


def test_an_interval_that_touches_the_threshold_is_decided_for_from_above_only():
    credal = decal.IntervalCredalSet([[0.25, 0.5], [0.5, 0.25]], [[0.5, 0.75], [0.75, 0.5]])
    found = spans(plot.binary(credal, threshold=0.5))
    assert found["for"] == [(1, 0.5, 0.75)]
    assert found["undetermined"] == [(0, 0.25, 0.5)]


def test_thousands_of_inputs_and_none_are_drawn():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, size=3000)
    point = np.stack([1 - p, p], axis=1)
    credal = decal.IntervalCredalSet(point - 0.1, point + 0.1, point=point)
    ax = plot.binary(credal, labels=(p > 0.5).astype(int))
    ax.figure.canvas.draw()
    assert sum(map(len, spans(ax).values())) == 3000
    line = next(line for line in ax.lines if len(line.get_ydata()) == 3000)
    assert line.get_ydata() == pytest.approx(np.sort(p))
    plot.binary(credal[:0]).figure.canvas.draw()
