"""Figures for light and dark pages."""

from __future__ import annotations

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
