"""Spiders: a spoke per class, a bar per interval."""

import itertools

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt

from decal import plot
from helpers.plotted import BOX, HULL, PAIR, TRUTH, bars_of


@pytest.mark.parametrize("credal", [BOX, HULL], ids=["intervals", "hull"])
def test_a_spider_has_a_bar_per_class_from_lower_to_upper(credal):
    ax = plot.spider(credal, truth=TRUTH[0])
    angle, low, high = bars_of(ax).T
    assert angle == pytest.approx([0, 2 * np.pi / 3, 4 * np.pi / 3])
    assert low == pytest.approx(credal.lower[0])
    assert high == pytest.approx(credal.upper[0])
    prediction, truth = ax.lines
    assert prediction.get_ydata() == pytest.approx(credal.point[0])
    assert truth.get_ydata() == pytest.approx(TRUTH[0])
    assert ax.get_ylim() == (0, 1)


def test_labels_of_a_spider_lie_outside_the_circle_in_the_order_of_the_spokes():
    long = "a very long name of a class that needs lines"
    K = 9
    credal = decal.IntervalCredalSet(
        np.zeros((1, K)), np.ones((1, K)), classes=[f"{long} {k}" for k in range(K)]
    )
    ax = plot.spider(credal)
    ax.figure.canvas.draw()
    rim = ax.transData.transform((0, 1))
    box = ax.get_window_extent()
    centre, radius = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2]), box.width / 2
    for text in ax.texts[:K]:
        b = text.get_window_extent()
        nearest = np.clip(centre, [b.x0, b.y0], [b.x1, b.y1])
        assert np.hypot(*(nearest - centre)) >= radius
    assert np.hypot(*(rim - centre)) == pytest.approx(radius, rel=0.01)


def test_bars_of_several_models_lie_beside_their_spoke():
    ax = plot.spider({"one": BOX, "two": BOX[[1, 0]]}, 0)
    first, second = bars_of(ax, 0), bars_of(ax, 1)
    spokes = 2 * np.pi / 3 * np.arange(3)
    assert (first[:, 0] + second[:, 0]) / 2 == pytest.approx(spokes)
    assert (second[:, 0] > first[:, 0]).all()
    assert second[:, 1:] == pytest.approx(np.stack([BOX.lower[1], BOX.upper[1]], axis=1))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["one", "two", "prediction"]


def test_models_with_other_classes_are_not_drawn_into_one_picture():
    other = decal.IntervalCredalSet(BOX.lower, BOX.upper, classes="xyz")
    with pytest.raises(ValueError, match="the same classes for every model"):
        plot.spider({"one": BOX, "two": other})
    assert plot.grid(plot.spider, {"one": BOX, "two": other}).shape == (1, 2)
    with pytest.raises(ValueError, match=r"one number of classes: got \[2, 3\]"):
        plot.spider({"one": BOX, "two": PAIR})


def folded_by_search(lower, upper, outside):
    """Range of the probability of a set of classes: all corners of the box, one by one."""
    K, found = len(lower), []
    for free in range(K):
        others = [k for k in range(K) if k != free]
        for ends in itertools.product(*((lower[k], upper[k]) for k in others)):
            p = np.empty(K)
            p[others] = ends
            p[free] = 1 - sum(ends)
            if lower[free] - 1e-12 <= p[free] <= upper[free] + 1e-12:
                found.append(p[outside].sum())
    return min(found), max(found)


def test_classes_beyond_the_top_share_one_spoke_with_the_exact_bounds_of_their_union():
    rng = np.random.default_rng(3)
    point = rng.dirichlet(np.ones(8), size=1)
    lower, upper = 0.3 * point, np.minimum(1, 1.1 * point + 0.01)
    credal = decal.IntervalCredalSet(lower, upper, point=point, classes="abcdefgh")
    truth = np.eye(8)[int(upper[0].argmin())]
    ax = plot.spider(credal, truth=truth, top=4)
    reach = np.maximum(upper[0], truth)
    kept = sorted(np.argsort(-reach)[:4])
    outside = [k for k in range(8) if k not in kept]
    labels = [text.get_text() for text in ax.texts[:5]]
    assert labels == ["abcdefgh"[k] for k in kept] + ["4 other classes"]
    _, low, high = bars_of(ax).T
    assert low[:4] == pytest.approx(lower[0, kept])
    assert (low[4], high[4]) == pytest.approx(folded_by_search(lower[0], upper[0], outside))
    assert low[4] > lower[0, outside].sum() + 0.01  # more than the sum of the parts
    prediction, right = ax.lines
    assert prediction.get_ydata()[4] == pytest.approx(point[0, outside].sum())
    assert right.get_ydata().sum() == pytest.approx(1)


def test_a_single_class_left_over_is_shown_and_not_folded():
    credal = decal.IntervalCredalSet(np.zeros((1, 13)), np.ones((1, 13)))
    assert len(bars_of(plot.spider(credal))) == 13
    assert len(bars_of(plot.spider(credal, top=11))) == 12


def test_an_interval_without_width_still_shows():
    p = np.array([[0.5, 0.3, 0.2]])
    ax = plot.spider(decal.IntervalCredalSet(p, p))
    (dots,) = ax.lines
    assert dots.get_ydata() == pytest.approx(p[0])


def test_axes_that_are_not_polar_are_refused_with_the_way_to_make_them():
    ax = plt.subplots()[1]
    with pytest.raises(ValueError, match=r'subplot_kw=\{"projection": "polar"\}'):
        plot.spider(BOX, ax=ax)


def test_spiders_side_by_side_have_a_column_per_model_and_a_line_per_input():
    axes = plot.grid(plot.spider, {"one": BOX, "two": BOX[[1, 0]]}, [0, 1], truth=TRUTH)
    assert axes.shape == (2, 2)
    assert bars_of(axes[1, 0])[:, 1] == pytest.approx(BOX.lower[1])
    assert bars_of(axes[1, 1])[:, 1] == pytest.approx(BOX.lower[0])
    assert axes[0, 1].get_title() == "two · input 0"
    axes[0, 0].figure.canvas.draw()
    assert plot.grid(plot.spider, BOX, [0, 1], titles=["sure", "unsure"]).shape == (1, 2)
    with pytest.raises(ValueError, match="titles must be 2, one per row: got 1"):
        plot.grid(plot.spider, BOX, [0, 1], titles=["sure"])
    with pytest.raises(ValueError, match="rows must name at least one input"):
        plot.grid(plot.spider, BOX, [])
