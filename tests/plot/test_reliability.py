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


def lines(ax):
    """Name, ends of the bar, frequency and p-value of every line of the figure, from the top."""
    frequency = {y: x for dots in dots(ax).values() for x, y in dots}
    ends = np.array([(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches])
    return [
        (label.get_text(), *low_high, frequency[place], text.get_text())
        for place, (label, low_high, text) in enumerate(
            zip(ax.get_yticklabels(), ends.round(6).tolist(), ax.texts, strict=True)
        )
    ]


def test_cells_stand_below_each_other_the_worst_first_with_their_p_values():
    ax = plot.calibration_test(refute(CREDAL, LABELS))
    # The tail of the worst cells is 0.15 ** 20, of the next P(Binomial(20, 0.55) >= 19); doubled,
    # and with Holm's factors: the six cells, then the four that are left.
    tail = 20 * 0.55**19 * 0.45 + 0.55**20
    assert (2 * 6 * 0.15**20, 2 * 4 * tail) == pytest.approx((4e-16, 9e-4), rel=0.1)
    drawn = lines(ax)
    assert sorted(drawn[:2]) == [
        ("no  n = 20", 0.85, 0.95, 0.0, "p = 4e-16"),
        ("yes  n = 20", 0.05, 0.15, 1.0, "p = 4e-16"),
    ]
    assert sorted(drawn[2:4]) == [
        ("no  n = 20", 0.45, 0.55, 0.95, "p = 9e-4"),
        ("yes  n = 20", 0.45, 0.55, 0.05, "p = 9e-4"),
    ]
    assert sorted(drawn[4:]) == [
        ("no  n = 20", 0.05, 0.15, 0.1, "p = 1"),
        ("yes  n = 20", 0.85, 0.95, 0.9, "p = 1"),
    ]
    assert sorted(y for _, y in dots(ax)["refuted"]) == [0, 1, 2, 3]
    (ticks,) = [made for made in ax.collections if len(made.get_segments()) == 6]
    middles = [(low + high) / 2 for _, low, high, *_ in drawn]
    assert [tick[0, 0] for tick in ticks.get_segments()] == pytest.approx(middles)
    assert ax.get_title(loc="left") == "4 of 6 cells refuted"
    said = ["what the sets allow", "prediction", "labels", "labels refute the sets"]
    assert legend_of(ax) == said


def test_the_title_says_what_is_left_out_and_that_passing_proves_nothing():
    ax = plot.calibration_test(refute(CREDAL[:20], LABELS[:20]), top=1, legend=False)
    assert ax.get_title(loc="left") == (
        "None of 2 cells refuted\nNot refuted is not valid\nThe 1 smallest p-values"
    )
    assert set(dots(ax)) == {"frequency"}
    assert ax.get_legend() is None
    with pytest.raises(ValueError, match="top must be"):
        plot.calibration_test(refute(CREDAL, LABELS), top=0)


def test_whiskers_show_chance_and_the_pooled_cells_have_a_name():
    ax = plot.calibration_test(refute(CREDAL[:20], LABELS[:20], by="top"))
    (whisker,) = ax.collections[-1].get_segments()
    assert whisker[:, 0].tolist() == pytest.approx([0.699, 0.972], abs=1e-3)  # Wilson, 18 of 20
    assert [label.get_text() for label in ax.get_yticklabels()] == ["most probable  n = 20"]
    assert ax.get_title(loc="left").startswith("None of 1 cell refuted")
