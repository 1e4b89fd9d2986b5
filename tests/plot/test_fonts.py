"""Names of classes in any script."""

import warnings

import pytest

import decal

pytest.importorskip("matplotlib")

from matplotlib.font_manager import fontManager

from decal.plot._fonts import wrapped
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
