"""Figures of tests with labels: which cells they show, in what order, and what they say."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from decal.calibration import refute

from decal import plot
from helpers.plotted import legend_of

POINT = np.repeat([[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]], 20, axis=0)
CREDAL = decal.IntervalCredalSet(
    np.maximum(POINT - 0.05, 0), np.minimum(POINT + 0.05, 1), point=POINT, classes=["no", "yes"]
)
LABELS = [1] * 18 + [0] * 2 + [0] * 19 + [1] * 21  # the last forty contradict the sets


def dots(ax):
    return {
        line.get_gid(): line.get_xydata().round(6).tolist() for line in ax.lines if line.get_gid()
    }


def test_dots_are_frequencies_and_refuted_ones_are_marked():
    found = refute(CREDAL, LABELS)
    ax = plot.reliability(found, of="no")
    assert found.cells.sum() >= 2
    expected = {"frequency": [[0.1, 0.1]], "refuted": [[0.5, 0.95], [0.9, 0.0]]}
    assert dots(ax) == expected
    assert ax.get_title() == "no"
    assert legend_of(ax) == ["mean bounds", "frequency", "refuted", "calibrated"]
    band = ax.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.05)
    assert band[:, 1].max() == pytest.approx(0.95)
    assert dots(plot.reliability(found, of=1))["frequency"] == [[0.9, 0.9]]


def test_all_classes_together_have_a_bar_each():
    ax = plot.reliability(refute(CREDAL, LABELS), legend=False)
    bars = ax.collections[0].get_segments()
    assert len(bars) == 6
    assert sorted({round(b[0, 1], 6) for b in bars}) == [0.05, 0.45, 0.85]
    assert ax.get_legend() is None


def test_whiskers_show_chance():
    ax = plot.reliability(refute(CREDAL[:20], LABELS[:20], by="top"))
    (whisker,) = ax.collections[-1].get_segments()
    # Wilson's interval of 18 of 20.
    assert whisker[:, 1].tolist() == pytest.approx([0.699, 0.972], abs=1e-3)
    with pytest.raises(ValueError, match="of must be a class that the refutation has cells of"):
        plot.reliability(refute(CREDAL, LABELS, by="top"), of="no")
    with pytest.raises(ValueError, match="event must hold classes 0 to 1 or one of no, yes"):
        plot.reliability(refute(CREDAL, LABELS), of="maybe")


def test_panels_are_the_worst_classes_in_order():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(5), size=300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    y[y == 3] = 1
    names = ["a", "b", "c", "a long name of a class that needs two lines $x_1$", "e"]
    credal = decal.IntervalCredalSet(p * 0.9, p * 0.9 + 0.1, point=p, classes=names)
    axes = plot.grid(plot.reliability, refute(credal, y), top=2)
    titles = [ax.get_title() for ax in axes.flat]
    assert titles[0].startswith("b (p ")
    assert titles[1].startswith("a long name of a class\nthat needs two lines …")
    axes = plot.grid(plot.reliability, refute(credal, y))
    assert axes.shape == (2, 4)
    assert [ax.get_visible() for ax in axes.flat] == [True] * 5 + [False] * 3
    assert plot.grid(plot.reliability, refute(credal, y), ncols=2).shape == (3, 2)
    axes[0, 0].figure.canvas.draw()
