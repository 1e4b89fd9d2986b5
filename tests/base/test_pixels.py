"""Pictures as 8-bit levels."""

import numpy as np
import pytest

import decal
from decal._base.pixels import image_levels, levels


def test_floats_run_from_0_to_1_and_integers_to_255():
    np.testing.assert_array_equal(levels(np.array([[0.0, 0.5, 1.0]]), 0), [[0, 128, 255]])
    np.testing.assert_array_equal(levels(np.array([[True, False]]), 0), [[255, 0]])
    for kind in (np.uint8, np.int64, np.uint16):
        np.testing.assert_array_equal(levels(np.array([[0, 77, 255]], kind), 0), [[0, 77, 255]])
    every = np.arange(256) / 255
    np.testing.assert_array_equal(levels(every.astype(np.float32), 0), np.arange(256))


@pytest.mark.parametrize("wrong", [-0.01, 1.01, np.nan, np.inf])
def test_other_levels_are_named_with_their_row(wrong):
    with pytest.raises(
        decal.InputError, match=f"floats from 0 to 1: got {wrong:g} in row 7, dtype"
    ):
        levels(np.array([[0.5, wrong]]), 7)
    with pytest.raises(decal.InputError, match="got 256 in row 0"):
        levels(np.array([[256]]), 0)


def test_colours_stand_on_the_first_or_the_last_axis():
    rng = np.random.default_rng(0)
    for channels in (3, 4):
        image = rng.integers(0, 256, (5, 6, channels)).astype(np.uint8)
        for given in (image, np.moveaxis(image, -1, 0)):
            np.testing.assert_array_equal(image_levels(given, (5, 6), 0), image)
    grey = rng.integers(0, 256, (5, 6)).astype(np.uint8)
    for given in (grey, grey[None], grey[..., None], grey.tolist()):
        np.testing.assert_array_equal(image_levels(given, (5, 6), 0), grey)


def test_an_image_three_pixels_tall_is_not_taken_for_colours():
    image = np.random.default_rng(0).integers(0, 256, (3, 3, 3)).astype(np.uint8)
    tall = np.random.default_rng(0).integers(0, 256, (3, 5, 3)).astype(np.uint8)
    np.testing.assert_array_equal(image_levels(tall, (3, 5), 0), tall)
    assert image_levels(image, (3, 3), 0).shape == (3, 3, 3)


@pytest.mark.parametrize("shape", [(6, 5), (5, 6, 2), (2, 5, 6), (1, 5, 6, 3), (5,), ()])
def test_images_of_other_sizes_are_refused(shape):
    with pytest.raises(decal.InputError, match=r"images must have the height and width .*\(5, 6\)"):
        image_levels(np.zeros(shape), (5, 6), 2)


def test_images_are_numbers():
    with pytest.raises(decal.InputError, match="images must be numbers: got dtype"):
        image_levels(np.full((5, 6), "a"), (5, 6), 0)
