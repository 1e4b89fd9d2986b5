"""Image files as arrays, by Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from decal_lab.checks import needs
from decal_lab.data._data_sets import Images
from decal_lab.data._downloads import DamagedDataError


def pillow() -> ModuleType:
    """Pillow's Image module."""
    with needs("PIL", message="Image files need Pillow: pip install 'decal[explore]'"):
        from PIL import Image
    return Image


def decode(
    content: bytes,
    path: Path,
    *,
    size: int | None = None,
    fit: str = "crop",
    grey: bool = False,
) -> Images:
    """(H, W, C) bytes of an image file: three channels, or one if grey.

    Parameters
    ----------
    content : bytes
        The file.
    path : path
        Its name, for messages.
    size : int, optional
        Size of the square wanted; None leaves the image as it is.
    fit : str
        "crop" scales the shorter side to the size and cuts out the middle; "stretch" scales both
        sides to it. Both interpolate bilinearly, and average where the image shrinks.
    """
    Image = pillow()
    try:
        with Image.open(io.BytesIO(content)) as image:
            picture = image.convert("L" if grey else "RGB")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DamagedDataError(f"{path} must be an image: got {error}.") from error
    if size is not None:
        picture = _square(Image, picture, size, fit)
    array = np.asarray(picture, dtype=np.uint8)
    return array[:, :, None] if grey else array


def _square(Image: ModuleType, picture: Any, size: int, fit: str) -> Any:
    if fit == "stretch":
        return picture.resize((size, size), Image.Resampling.BILINEAR)
    width, height = picture.size
    scale = size / min(width, height)
    width, height = max(size, round(width * scale)), max(size, round(height * scale))
    if (width, height) != picture.size:
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = (width - size) // 2, (height - size) // 2
    return picture.crop((left, top, left + size, top + size))
