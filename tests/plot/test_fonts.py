"""Names of classes in any script, and names beside curves."""

import warnings

import numpy as np
import pytest

import decal

pytest.importorskip("matplotlib")

import matplotlib.pyplot as plt
from matplotlib.font_manager import fontManager

from decal.plot._fonts import beside, wrapped
from helpers.plotted import BOX, ROW_FIGURES, texts

CHINESE = ("飞机", "汽车", "鸟")


def has_chinese():
    from matplotlib.ft2font import FT2Font

    real = [f for f in fontManager.ttflist if "Last Resort" not in f.name]
    return any(FT2Font(f.fname).get_char_index(ord("飞")) for f in real if f.style == "normal")


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_chinese_names_are_drawn_where_a_font_has_them(draw):
    if not has_chinese():
        pytest.skip("needs an installed font with Chinese characters, such as Noto Sans CJK")
    ax = draw(decal.IntervalCredalSet(BOX.lower, BOX.upper, classes=CHINESE))
    ax.figure.canvas.draw()  # matplotlib would warn here of missing glyphs
    assert set(CHINESE) <= {text.get_text() for text in texts(ax.figure)}


def test_a_font_that_matplotlibs_cache_does_not_know_is_found(monkeypatch):
    if not has_chinese():
        pytest.skip("needs an installed font with Chinese characters, such as Noto Sans CJK")
    from matplotlib.ft2font import FT2Font

    known = [f for f in fontManager.ttflist if not FT2Font(f.fname).get_char_index(ord("飞"))]
    monkeypatch.setattr(fontManager, "ttflist", known)
    ax = ROW_FIGURES["intervals"](decal.IntervalCredalSet(BOX.lower, BOX.upper, classes=CHINESE))
    ax.figure.canvas.draw()
    assert set(CHINESE) <= {text.get_text() for text in texts(ax.figure)}


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_names_that_no_font_has_become_numbers_and_one_readable_warning(draw):
    unassigned = "\U0003fff0"
    credal = decal.IntervalCredalSet(BOX.lower, BOX.upper, classes=["a", f"x{unassigned}", "c"])
    with pytest.warns(
        UserWarning, match=f"no installed font can draw {unassigned}.*Install"
    ) as caught:
        ax = draw(credal)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax.figure.canvas.draw()
    assert {"a", "class 1", "c"} <= {text.get_text() for text in texts(ax.figure)}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("short", "short"),
        ("northern spotted woodpecker of the third kind", "northern spotted … third kind"),
        ("a" * 30 + "b" * 30, "a" * 21 + " … " + "b" * 12),
        ("飞" * 20 + "鸟" * 20, "飞" * 9 + " … " + "鸟" * 6),
    ],
)
def test_a_long_name_on_one_line_keeps_its_beginning_and_its_end(name, shown):
    assert wrapped(name, 36, 1) == shown


def axes(width=5.0):
    ax = plt.figure(figsize=(width, 4)).add_subplot()
    ax.set(xlim=(0, 1), ylim=(0, 1))
    return ax


def curves(count):
    x = np.linspace(0, 1, 30)
    return {f"curve number {m}": np.stack([x, (m + 0.5) / count + 0 * x]) for m in range(count)}


def test_names_cover_neither_curves_nor_each_other_and_stay_within_the_axes():
    ax, drawn = axes(), curves(6)
    for line in drawn.values():
        ax.plot(*line)
    assert beside(ax, drawn, ["k"] * 6)
    assert [text.get_text() for text in ax.texts] == list(drawn)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts]
    whole = ax.get_window_extent()
    for i, box in enumerate(boxes):
        assert whole.x0 <= box.x0
        assert box.x1 <= whole.x1
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])
        for line in drawn.values():
            inside = ax.transData.transform(line.T)
            assert not any(box.contains(x, y) for x, y in inside)


def test_a_name_stands_next_to_its_own_curve():
    ax, drawn = axes(), curves(3)
    assert beside(ax, drawn, ["k"] * 3)
    for text, line in zip(ax.texts, drawn.values(), strict=True):
        assert abs(text.get_position()[1] - line[1, 0]) < 0.08


def test_without_room_nothing_is_written():
    ax = axes(width=1.0)
    assert not beside(ax, curves(6), ["k"] * 6)
    assert not ax.texts
