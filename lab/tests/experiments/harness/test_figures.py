"""Figures for light and dark pages."""

from __future__ import annotations

import numpy as np
import pytest

from decal_lab.experiments.harness import figures


def test_figures_are_drawn_for_light_and_dark_and_always_alike(tmp_path):
    pytest.importorskip("matplotlib", reason="needs decal[plot]")
    curve = ([0.0, 0.8, 1.0], [1.0, 0.9, 0.1], [0.0, 0.6, 0.9])
    panels = {"few": {"a": curve}, "many": {"a": curve, "b": curve}, "last": {"a": curve}}

    def draw():
        return figures.tradeoffs(panels, columns=2)

    first = {p.name: p.read_bytes() for p in figures.save(draw, tmp_path, "curves")}
    assert set(first) == {"curves.svg", "curves.png", "curves_dark.svg"}
    assert b"#131416" in first["curves_dark.svg"]
    assert b"#131416" not in first["curves.svg"]
    again = {p.name: p.read_bytes() for p in figures.save(draw, tmp_path, "curves")}
    assert again == first
    figure = draw()
    assert [len(ax.child_axes) for ax in figure.axes if ax.get_title(loc="left")] == [0, 0, 1]
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()][:2] == ["a", "b"]


def test_names_at_the_ends_of_lines_move_apart_and_no_further():
    np.testing.assert_allclose(figures.apart([0.1, 0.5, 0.9], 0.2), [0.1, 0.5, 0.9])
    np.testing.assert_allclose(
        figures.apart([0.1, 0.5, 0.5, 0.52], 0.1), [0.1, 0.406667, 0.506667, 0.606667], atol=1e-6
    )


def test_methods_without_a_range_of_widths_are_grey_and_named_together():
    plt = pytest.importorskip("matplotlib.pyplot", reason="needs decal[plot]")
    wide = ([0.0, 1.0], [1.0, 0.1], [0.1, 0.9])
    curves = {"decal": wide, "wrapper": ([1.0], [0.2], [0.9])}
    styles = {"decal": ("o", "#0072B2"), "wrapper": ("s", "#009E73")}
    figure = figures.tradeoff(curves, styles, "One holds more")
    (legend,) = figure.legends
    assert legend.get_title().get_text() == "One holds more"
    assert [text.get_text() for text in legend.get_texts()] == ["decal"]
    assert [line.get_color() for line in figure.axes[0].lines] == ["#0072B2", figures.GREY]
    assert "wrapper" in figure.axes[0].texts[0].get_text()
    plt.close(figure)
