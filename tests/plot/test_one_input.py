"""Rows, truths and names of figures that show one input."""

import pytest

import decal

pytest.importorskip("matplotlib")


from helpers.plotted import BOX, ROW_FIGURES, texts


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
@pytest.mark.parametrize("row", [2, -3, 1.5, True, "cat"])
def test_a_row_out_of_range_is_named(draw, row):
    with pytest.raises(ValueError, match=rf"row must be one of the 2 inputs, 0 to 1: got {row!r}"):
        draw(BOX, row)


def test_maps_are_told_to_pass_some_of_their_inputs():
    maps = decal.CredalMaps(BOX, (2,), 1)
    with pytest.raises(ValueError, match=r"got CredalMaps. Pass some inputs: maps\[mask\].flat"):
        decal.plot.intervals(maps)


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_a_row_without_distributions_is_named(draw):
    empty = decal.IntervalCredalSet([[0.2] * 3, [0.5] * 3], [[0.5] * 3, [0.6] * 3])
    draw(empty, 0)
    with pytest.raises(ValueError, match="row must have distributions to draw: got row 1"):
        draw(empty, 1)


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_negative_rows_count_from_the_end_and_wrong_truths_are_refused(draw):
    draw(BOX, -1)
    with pytest.raises(ValueError, match="truth must sum to 1"):
        draw(BOX, truth=[0.5, 0.3, 0.3])
    with pytest.raises(ValueError, match=r"truth must have shape \(2, 3\)"):
        draw(BOX, truth=[[0.5, 0.3, 0.2]])


@pytest.mark.parametrize("draw", ROW_FIGURES.values(), ids=ROW_FIGURES)
def test_names_of_classes_and_models_are_shown_literally(draw):
    hostile = ["$x_$", "a_{b", r"\frac{1}^^ % #"]
    credal = decal.IntervalCredalSet(BOX.lower, BOX.upper, point=BOX.point, classes=hostile)
    ax = draw({"$m^": credal, "<b>_": credal})
    ax.figure.canvas.draw()
    shown = {text.get_text(): text for text in texts(ax.figure)}
    for name in [*hostile, "$m^", "<b>_"]:
        assert not shown[name].get_parse_math()
