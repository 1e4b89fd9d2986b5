"""Figures of class frequencies: what they show, and what they refuse."""

from itertools import pairwise

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from decal import plot
from decal.shift import Frequencies
from helpers.plotted import legend_of


def some(K, names=None):
    rng = np.random.default_rng(K)
    now, before = rng.dirichlet(np.ones(K), size=2)
    names = names or tuple(f"class {k}" for k in range(K))
    return Frequencies(now, now * 0.8, np.minimum(now * 1.3, 1), before, 0.9, 500.0, names)


@pytest.fixture(scope="module")
def shift():
    rng = np.random.default_rng(1)
    y = np.arange(120) % 3
    logits = 2 * np.eye(3)[y] + rng.normal(size=(120, 3))
    return decal.LabelShift(calibrate=False).fit(logits, y, classes=["a", "b", "c"])


def marks(ax, gid):
    (line,) = [line for line in ax.lines if line.get_gid() == gid]
    return line.get_xdata()


def test_intervals_and_both_frequencies_are_drawn():
    found = some(3)
    ax = plot.frequencies(found, sort="class")
    assert marks(ax, "before") == pytest.approx(found.before)
    assert marks(ax, "now") == pytest.approx(found.estimate)
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches]
    assert np.array(bars) == pytest.approx(np.stack([found.lower, found.upper], axis=1))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["class 0", "class 1", "class 2"]
    assert legend_of(ax) == ["before", "now", "interval, 90 %"]


@pytest.mark.parametrize("sort", ["change", "now", "before"])
def test_classes_are_sorted(sort):
    found = some(6)
    ax = plot.frequencies(found, sort=sort)
    value = {
        "now": found.estimate,
        "before": found.before,
        "change": np.abs(found.estimate - found.before),
    }[sort]
    shown = [int(text.get_text()[6:]) for text in ax.get_yticklabels()]
    assert shown == np.argsort(-value).tolist()


def test_of_many_classes_those_that_changed_most_are_shown():
    found = some(100, tuple(f"a long name of a class, the {k}th of them all" for k in range(100)))
    ax = plot.frequencies(found)
    assert len(ax.get_yticklabels()) == 40
    assert ax.get_ylabel() == "and 60 classes that changed less"
    assert not any("\n" in text.get_text() for text in ax.get_yticklabels())
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_yticklabels()]
    assert not any(one.overlaps(other) for one, other in pairwise(boxes))


def test_curves_are_predictions_and_bars_are_sets(shift):
    z = [[1.0, 0.5, 0.0], [0.0, 0.0, 1.0]]
    alone = plot.prevalence(shift, z, "c")
    assert len(alone.patches) == 0
    observed = decal.LabelShift(calibrate=False)
    observed._fitted = shift.fitted
    observed.observe(np.eye(3)[[0, 0, 1, 2]])
    ax = plot.prevalence(observed, z, "c", largest=0.5, names=["x", "y"])
    for i, line in enumerate(ax.lines[:2]):
        x, p = line.get_xdata()[50], line.get_ydata()[50]
        expected = observed.predict(z, frequencies={"c": x}).point[i, 2]
        assert p == pytest.approx(expected)
        assert line.get_gid() == "xy"[i]
    sets = observed.predict(z)
    drawn = [c.get_paths()[0].vertices[:, 1] for c in ax.collections]
    found = np.array([(y.min(), y.max()) for y in drawn])
    assert found == pytest.approx(np.stack([sets.lower[:, 2], sets.upper[:, 2]], axis=1))
    assert ax.get_xlim() == (0, 0.5)
    assert legend_of(ax) == ["x", "y", "before", "plausible, 95 %"]
    assert plot.prevalence(shift, z).get_xlabel() == "frequency of c"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda _: plot.frequencies([0.5, 0.5]), "found must be the frequencies of a LabelShift"),
        (lambda _: plot.frequencies(some(2), sort="size"), "sort must be one of"),
        (lambda _: plot.frequencies(some(2), top=0), "top must be a whole number, at least 1"),
        (lambda s: plot.prevalence(s, np.zeros((9, 3))), "logits must be of 1 to 8 inputs"),
        (lambda s: plot.prevalence(s, np.zeros((1, 3)), "d"), "of must be a class: got 'd'"),
        (lambda s: plot.prevalence(s, np.zeros((1, 3)), largest=2), "largest must be above 0"),
        (lambda s: plot.prevalence(s, np.zeros((1, 3)), names=["a", "b"]), "names must be one"),
        (lambda _: plot.prevalence(decal, np.zeros((1, 3))), "shift must be a LabelShift"),
    ],
)
def test_bad_arguments_are_refused(shift, call, message):
    with pytest.raises(ValueError, match=message):
        call(shift)
