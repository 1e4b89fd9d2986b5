"""The p-box of one input, and ranges of the mean of several."""

from itertools import pairwise

import numpy as np
import pytest

import decal
from decal import plot


def credal():
    return decal.KLCredalSet([[0.2, 0.5, 0.3], [0.7, 0.2, 0.1]], 0.1, classes=["1", "2", "3"])


def test_the_band_is_the_p_box_and_diamonds_are_the_truth():
    ax = plot.cumulative(credal(), 1, truth=[0.5, 0.3, 0.2])
    low, high = credal().cumulative()
    (band,) = ax.collections
    y = np.unique(band.get_paths()[0].vertices[:, 1])
    for end in (*low[1], *high[1]):
        assert np.abs(y - end).min() < 1e-12
    diamonds = [line for line in ax.lines if line.get_linestyle() == "None"]
    np.testing.assert_allclose(diamonds[0].get_ydata(), [0.5, 0.8, 1.0])
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["range", "prediction", "truth"]


def test_bars_are_the_ranges_of_the_mean_in_order_of_prediction():
    ax = plot.means(credal(), truth=[2.0, 1.5])
    low, high = credal().mean()
    found = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches]
    np.testing.assert_allclose(found, [(low[1], high[1]), (low[0], high[0])])
    diamonds = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert diamonds[0].get_ydata().tolist() == [1.5, 2.0]


def test_sets_without_members_are_not_drawn():
    empty = decal.IntervalCredalSet([[0.9, 0.9], [0.1, 0.2]], [[1.0, 1.0], [0.8, 0.9]])
    assert len(plot.means(empty).patches) == 1
    with pytest.raises(decal.InputError, match="row must have distributions to draw"):
        plot.cumulative(empty)


def test_means_take_a_truth_for_every_input():
    with pytest.raises(decal.InputError, match="truth must be 2 numbers, one per input: got 3"):
        plot.means(credal(), truth=[1, 2, 3])


@pytest.mark.parametrize(("length", "count"), [(3, 5), (9, 5), (40, 5), (9, 30)])
def test_names_of_classes_do_not_overlap_however_long_they_are(length, count):
    names = [f"{k:0{length}}" for k in range(count)]
    bounds = np.zeros((1, count)), np.ones((1, count))
    ax = plot.cumulative(decal.IntervalCredalSet(*bounds, classes=names))
    ax.figure.canvas.draw()
    labels = ax.get_xticklabels()
    assert len(labels) <= 12
    boxes = [label.get_window_extent() for label in labels]
    if labels[0].get_rotation() == 0:
        assert all(a.x1 <= b.x0 for a, b in pairwise(boxes))
    legend = ax.get_legend().get_window_extent()
    assert min(box.y0 for box in boxes) >= legend.y1
