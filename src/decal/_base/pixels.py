"""Pictures of inputs as 8-bit levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from decal._base.errors import InputError
from decal._base.row_checks import to_numpy


def levels(pixels: NDArray[Any], row: int) -> NDArray[np.uint8]:
    """Pixels as 8-bit levels: booleans and floats run from 0 to 1, integers to 255."""
    largest = 255 if pixels.dtype.kind in "ui" else 1
    values = pixels.astype(np.float64)
    wrong = np.argwhere(~((values >= 0) & (values <= largest)))
    if wrong.size:
        fact = f"{values[tuple(wrong[0])]:g} in row {row}, dtype {pixels.dtype}"
        raise InputError("images", "be uint8, or floats from 0 to 1", fact, "Rescale them first.")
    return np.rint(values * (255 / largest)).astype(np.uint8)


def image_levels(image: Any, shape: tuple[int, ...], row: int) -> NDArray[np.uint8]:
    """(H, W) or (H, W, 3 or 4) levels of one image of pixels; its colours may come first, too."""
    array = to_numpy(image, "images")
    if array.dtype.kind not in "uifb":
        raise InputError("images", "be numbers", f"dtype {array.dtype}")
    if array.ndim == 3 and array.shape[1:] == shape and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.shape == (*shape, 1):
        array = array[..., 0]
    if array.shape not in (shape, (*shape, 3), (*shape, 4)):
        rule = f"have the height and width of their maps, {shape}, and 1, 3 or 4 colours"
        raise InputError("images", rule, f"shape {array.shape} in row {row}")
    return levels(array, row)
