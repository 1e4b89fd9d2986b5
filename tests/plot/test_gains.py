"""The gain along a direction, and the cut."""

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

from decal import plot
from helpers.plotted import legend_of
from oracles import class_shifts as oracles


def curve(ax, name):
    return next(line for line in ax.lines if line.get_gid() == name)


def dots(ax):
    return [line for line in ax.lines if line.get_marker() == "o"]


def test_a_curve_is_the_gain_by_its_definition_and_dots_lie_on_the_cut(sample):
    logits, labels, model = sample
    ax = plot.likelihood(model, of="b", alpha=0.8)
    t, gain = curve(ax, "b").get_data()
    wanted = [oracles.gain(logits, labels, 1, shift) / len(labels) for shift in t[::50]]
    assert gain[::50] == pytest.approx(wanted, abs=1e-8)
    (marks,) = dots(ax)
    ends = model.shifts(0.8)
    assert marks.get_xdata() == pytest.approx([ends.lower[1], ends.upper[1]])
    assert marks.get_ydata() == pytest.approx(np.log([0.8, 0.8]))
    assert curve(ax, "cut").get_ydata()[0] == pytest.approx(np.log(0.8))
    assert np.interp(marks.get_xdata(), t, gain) == pytest.approx(np.log([0.8, 0.8]), abs=2e-3)


def test_the_scale_is_cut_at_its_own_budget():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 4))
    labels = (3 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    model = decal.decalibrate(
        logits, labels, alpha=0.99, directions=("class", decal.Temperature(evidence="labels"))
    )
    ax = plot.likelihood(model, direction="temperature")
    (marks,) = dots(ax)
    found = model.scales()
    assert marks.get_xdata() == pytest.approx([found.lower, found.upper])

    def loss(s):
        z = s * logits
        return np.mean(np.log(np.exp(z).sum(axis=1)) - z[np.arange(300), labels])

    scales, gain = curve(ax, "scale").get_data()
    assert gain[::80] == pytest.approx([loss(1) - loss(s) for s in scales[::80]], abs=1e-8)
    reached = [loss(1) - loss(s) for s in (found.lower, found.upper)]
    assert marks.get_ydata() == pytest.approx(reached, abs=1e-8)


def test_a_class_without_labels_has_a_plateau_and_one_dot():
    model = decal.decalibrate([[2.0, 0, 1], [0.3, 0.9, 0.2], [1, 0, 0]], [0, 1, 1], alpha=0.8)
    ax = plot.likelihood(model, of=2)
    (marks,) = dots(ax)
    assert marks.get_xdata() == pytest.approx([model.shifts().upper[2]])
    assert (np.diff(curve(ax, "2").get_ydata()) < 0).all()


def test_of_many_classes_the_widest_and_the_narrowest_are_drawn():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(500, 8))
    model = decal.decalibrate(logits, rng.integers(8, size=500), alpha=0.9)
    width = np.ptp([model.shifts().lower, model.shifts().upper], axis=0)
    order = np.argsort(-width, kind="stable")
    *curves, cut = legend_of(plot.likelihood(model))
    assert curves == [str(k) for k in sorted([*order[:2], *order[-2:]])]
    assert cut == "alpha = 0.9"


def test_what_cannot_be_drawn_is_refused(sample):
    _, _, model = sample
    with pytest.raises(ValueError, match=r"alpha must be greater than 0: got 0"):
        plot.likelihood(model, alpha=0)
    with pytest.raises(ValueError, match=r"directions must include 'temperature': got class"):
        plot.likelihood(model, direction="temperature")
    many = decal.decalibrate(np.eye(6), range(6), alpha=0.9)
    with pytest.raises(ValueError, match=r"of must name at most 5 classes: got 6"):
        plot.likelihood(many, of=range(6))
    with pytest.raises(ValueError, match=r"direction must be"):
        plot.likelihood(model, direction="bias")
    with pytest.raises(ValueError, match=r"values must be finite"):
        model.gains("class", [np.inf])
    with pytest.raises(ValueError, match=r"values must be finite and at least 0"):
        decal.decalibrate(np.eye(3), range(3), alpha=0.9, directions=("temperature",)).gains(
            "temperature", [-1.0]
        )
