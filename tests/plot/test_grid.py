"""Panels of one kind on one figure: lines, columns, labels and the one legend."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from decal import plot
from helpers.plotted import BOX


def diagrams(classes, **options):
    rng = np.random.default_rng(0)
    point = rng.dirichlet(np.ones(classes), size=100)
    credal = decal.IntervalCredalSet(point * 0.8, np.minimum(1, point * 1.2), point=point)
    labels = (point.cumsum(axis=1) > rng.random((100, 1))).argmax(axis=1)
    return plot.grid(plot.reliability, decal.calibration.refute(credal, labels), **options)


def test_places_without_a_panel_are_empty_and_only_outer_axes_have_labels():
    axes = diagrams(5, ncols=3)
    assert axes.shape == (2, 3)
    assert [ax.get_visible() for ax in axes.flat] == [True] * 5 + [False]
    assert [ax.get_xlabel() for ax in axes.flat[:5]] == ["", "", *["prediction"] * 3]
    first = "share of labels"
    assert [ax.get_ylabel() for ax in axes.flat[:5]] == [first, "", "", first, ""]
    ticks = [ax.xaxis.get_major_ticks() for ax in axes.flat[:5]]
    below = [any(tick.label1.get_visible() for tick in some) for some in ticks]
    assert below == [False, False, True, True, True]


@pytest.mark.parametrize(("options", "shape"), [({}, (2, 4)), ({"top": 3}, (1, 3))])
def test_lines_are_as_long_as_usual_or_as_there_are_panels(options, shape):
    assert diagrams(6, **options).shape == shape


def test_all_panels_share_one_legend():
    axes = plot.grid(plot.spider, BOX, [0, 1])
    assert [ax.get_legend() for ax in axes.flat] == [None, None]
    (legend,) = axes[0, 0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["interval", "prediction"]


def test_other_figures_and_other_arguments_are_refused():
    with pytest.raises(ValueError, match=r"draw must be decal.plot.spider.*: got 'binary'"):
        plot.grid(plot.binary, BOX)
    with pytest.raises(TypeError, match=r"decal.plot.grid\(\) .*: got title. Did you mean titles"):
        plot.grid(plot.spider, BOX, title="one")
