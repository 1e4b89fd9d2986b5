"""Figures of many inputs: binary intervals, and kinds of uncertainty."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from matplotlib.backend_bases import MouseEvent
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


def test_marks_lie_at_lower_entropy_and_entropy_range(sample):
    logits, labels, model = sample
    credal = model.predict(logits)
    ax = plot.decomposition(credal, labels=labels)
    low, high = credal.entropy()
    right = credal.point.argmax(axis=1) == labels
    for made, of in zip(ax.collections, (right, ~right), strict=True):
        offsets = made.get_offsets()
        shown = ~np.ma.getmaskarray(offsets).any(axis=1)
        assert np.array_equal(shown, of)
        expected = np.column_stack([low, high - low])
        assert np.asarray(offsets)[of] == pytest.approx(expected[of])
    assert [c.get_gid() for c in ax.collections] == ["right", "wrong"]
    assert legend_of(ax) == [f"right: {right.sum()}", f"wrong: {(~right).sum()}"]


def test_a_click_on_a_mark_tells_its_row(sample):
    logits, labels, model = sample
    credal = model.predict(logits)
    ax = plot.decomposition(credal, labels=labels)
    figure = ax.figure
    figure.canvas.draw()
    picked = []
    figure.canvas.mpl_connect("pick_event", lambda event: picked.append(event))
    row = int(np.flatnonzero(credal.point.argmax(axis=1) != labels)[0])
    least, greatest = (side[row] for side in credal.entropy())
    at = ax.transData.transform((least, greatest - least))
    click = MouseEvent("button_press_event", figure.canvas, *at, button=1)
    figure.canvas.callbacks.process("button_press_event", click)
    assert row in {int(i) for e in picked if e.artist.get_gid() == "wrong" for i in e.ind}


def test_empty_inputs_are_left_out_and_counted():
    ax = plot.decomposition(PAIR)
    shown = ~np.ma.getmaskarray(ax.collections[0].get_offsets()).any(axis=1)
    assert shown.tolist() == [True, True, True, False, True]
    assert "(1 empty inputs left out)" in ax.get_xlabel()
    hull = decal.HullCredalSet([[[0.9, 0.1], [0.5, 0.5]]])
    ((x, y),) = plot.decomposition(hull).collections[0].get_offsets()
    least = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    assert (x, y) == pytest.approx((least, np.log(2) - least))
