"""One network against a Credal Wrapper of several: what is claimed, and what is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest

from decal_lab.experiments import local_against_wrapper as several
from decal_lab.experiments.harness.logit_sets import HELD_OUT, TRAINING
from decal_lab.experiments.harness.reports import number
from decal_lab.experiments.harness.several_networks import SIX, Members
from decal_lab.experiments.local_against_wrapper import METHODS


def found(wrapper, alone, *, members=(), kind=HELD_OUT):
    values = {method: np.array(alone, dtype=float) for method in METHODS}
    group = several.Group("digits", members, kind)
    return several.Found(group, np.full(len(wrapper), 0.9), np.array(wrapper), values)


def test_one_network_must_cover_more_than_the_wrapper_in_every_run():
    nan = math.nan
    won = found([0.2, 0.3], [[0.3, 0.2], [0.3, 0.4]])
    lost = found([0.2, 0.3], [[0.3, 0.2], [0.3, 0.2]])
    none = found([0.2, 0.3], [[nan, nan], [0.4, 0.4]])
    for each, share, holds in ((won, "2 of 2", True), (lost, "1 of 2", False)):
        claims = list(several.claims([each]))
        assert [c.holds for c in claims] == [holds] * 3
        assert f"in {share} runs" in claims[0].text
    (claim, *_) = several.claims([none])
    assert not claim.holds
    assert claim.text.endswith("in 1 of 2 runs; 1 without such a reference")
    claims = list(several.claims([found([0.25], [[0.3, 0.2]], members=SIX[:2])]))
    assert len(claims) == len(METHODS)
    assert not any(c.holds for c in claims)
    assert "0.200 to 0.300 against 0.250" in claims[0].text


def test_a_network_that_cannot_be_so_narrow_has_no_coverage():
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=40)
    sure = 8.0 * np.eye(3)[rng.integers(3, size=40)]  # wrong most of the time, and sure of it
    both = np.stack([sure, sure + 1e-3 * rng.standard_normal((40, 3))])
    members = Members(both, labels, both, np.eye(3)[labels])
    (wrapper,) = several.rows(several.Cell("", several.WRAPPER, 0), members)
    assert wrapper["efficiency"] > 0.999
    for method, there in ((several.CLASS, False), (several.MODEL, True)):
        rows = list(several.rows(several.Cell("", method, 0), members))
        assert [row["level"] for row in rows] == [0, 1]
        assert [math.isfinite(row["coverage"]) for row in rows] == [there, there]


def test_tables_show_the_wrapper_and_count_the_runs_won():
    cifar = found([0.25], [[0.3, 0.2]], members=SIX[:2])
    digits = found([0.2, 0.3], [[0.3, 0.2], [0.3, 0.2]])
    first, second = several.tables([cifar, digits])
    ((heading, lines),) = first.sections.items()
    assert heading == "digits, efficiency 0.900"
    assert lines[1] == ("ResNet 110", "0.250", *["0.200"] * 5)
    ((heading, lines),) = second.sections.items()
    assert heading == "Fitted on held-out rows"
    assert lines == [("digits", "0.900", "0.250", *["0.250"] * 5, "1 1 1 of 2")]
    none = found([0.2], [[math.nan, math.nan]], kind=TRAINING)
    ((lines,),) = (one.sections.values() for one in several.tables([none]))
    assert lines[0][3:] == (*[number(math.nan)] * 5, "0 0 0 of 1")


def test_dots_are_the_means_and_bars_the_wrapper():
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs decal[plot]")
    cifar = found([0.2, 0.4], [[0.3, 0.5], [0.5, 0.5]], members=SIX[:2])
    digits = found([0.1, 0.3], [[0.3, 0.5], [0.5, 0.7]])
    figure = several.draw(several.panels_of([cifar, digits]))
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "DenseNet-BC 100-12", "ResNet 110"
    ]  # fmt: skip
    assert [label.get_text() for label in right.get_yticklabels()] == ["digits"]
    bars, *dots = [line.get_xydata() for line in left.lines]
    np.testing.assert_allclose(bars, [[0.3, 0], [0.3, 1]])
    assert len(dots) == len(several.FEW_STYLES)
    np.testing.assert_allclose(dots[0], [[0.4, 0], [0.5, 1]])
    (bar, *dots) = [line.get_xydata() for line in right.lines]
    np.testing.assert_allclose(bar, [[0.2, 0]])
    np.testing.assert_allclose(dots[-1], [[0.5, 0]])
    pyplot.close(figure)
