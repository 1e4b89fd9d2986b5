"""Error rates of what is kept, as drawn."""

import numpy as np
import pytest

import decal
from decal.choose import triage

pytest.importorskip("matplotlib")

from decal import plot
from helpers.plotted import legend_of


def drawn(ax):
    return {line.get_gid(): line for line in ax.lines}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    wrong = rng.random(300) < 0.2
    return {name: (rng.normal(size=300) + pull * wrong, wrong) for name, pull in PULLS.items()}


PULLS = {"confidence": 1.0, "sharp": 4.0, "blunt": 0.2, "random": 0.0}


def test_lines_are_the_risks_of_the_curves(rows):
    curves = {name: decal.metrics.risk_coverage(*row) for name, row in rows.items()}
    lines = drawn(plot.risk_coverage(curves, top=4))
    assert list(lines) == [*PULLS, "best possible"]
    for name, curve in curves.items():
        assert np.array(lines[name].get_xdata()) == pytest.approx(curve.coverage)
        assert np.array(lines[name].get_ydata()) == pytest.approx(curve.risk)


def test_the_best_curves_are_drawn_and_the_models_own_confidence(rows):
    curves = {name: decal.metrics.risk_coverage(*row) for name, row in rows.items()}
    ax = plot.risk_coverage(curves, top=1)
    assert list(drawn(ax)) == ["confidence", "sharp", "best possible"]
    area = 1e3 * curves["sharp"].area
    assert f"sharp ({area:.3g})" in legend_of(ax)


def test_what_triage_chose_is_marked(sample):
    logits, labels, _ = sample
    t = triage(logits, labels, budget=0.3)
    ax = plot.risk_coverage(t)
    mark = drawn(ax)["chosen"]
    assert mark.get_xdata()[0] == pytest.approx(1 - t.outcome.handed_over)
    assert mark.get_ydata()[0] == pytest.approx(t.outcome.error_rate)
    assert "chosen" in legend_of(ax)


def test_a_curve_alone_and_one_without_errors_are_drawn():
    ax = plot.risk_coverage(decal.metrics.risk_coverage(np.arange(30.0), np.zeros(30)))
    assert legend_of(ax) == ["area 0", "best possible"]
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match="curves must hold at least one curve"):
        plot.risk_coverage({})
