"""Colours that can be told apart: in grey, and by readers who do not see green (deuteranopia)."""

from itertools import combinations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.colors import to_rgb

from decal.plot.style import EIGHT_ON_DARK, EIGHT_ON_LIGHT, ink_on

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
DEUTERANOPIA = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)

JUST_NOTICEABLE = 2.3
"""Of CIE Lab's distance."""


def linear(colour):
    c = np.array(to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    ratio = TO_XYZ @ rgb / WHITE
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def in_grey(colour):
    return lab(np.full(3, linear(colour) @ TO_XYZ[1]))


def without_green(colour):
    return lab(np.clip(DEUTERANOPIA @ linear(colour), 0, 1))


def apart(colours, seen):
    return min(np.linalg.norm(seen(a) - seen(b)) for a, b in combinations(colours, 2))


@pytest.mark.parametrize("background", ["white", "#131416", "black", "#fdf6e3"])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_intervals_of_several_models_differ_in_grey_and_without_green(background, count):
    ink = ink_on(background)
    tints = ink.tints(ink.colours(count, None))
    wanted = {2: 20, 3: 10, 4: 7, 5: 5}[count]
    assert apart(tints, in_grey) >= wanted > 2 * JUST_NOTICEABLE
    assert apart(tints, without_green) >= wanted
    assert apart([*tints, ink.face], in_grey) >= 5  # and from the background


@pytest.mark.parametrize("background", ["white", "#131416"])
def test_marks_and_lines_of_five_models_differ_without_green(background):
    assert apart(ink_on(background).models, without_green) >= 2 * JUST_NOTICEABLE


@pytest.mark.parametrize("palette", [EIGHT_ON_LIGHT, EIGHT_ON_DARK])
def test_eight_methods_have_colours_that_differ_without_green(palette):
    assert len(set(palette)) == 8
    assert apart(palette, without_green) >= 2 * JUST_NOTICEABLE


def test_one_model_keeps_the_usual_tint():
    ink = ink_on("white")
    assert ink.tints(["#0072B2"]) == [ink.tint("#0072B2")]
