"""The drawings of one picture, how large they are on a page, and how small their text is.

A picture is drawn for light and for dark pages, and if its text would be too small on a telephone,
once more for narrow pages: NAME_light.svg (or NAME.svg), NAME_dark.svg, NAME_narrow_light.svg (or
NAME_narrow.svg), NAME_narrow_dark.svg. Pages name the first, and the reader sees the right one:
themed_pictures.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

PIXELS, POINTS = 96, 72
"""In an inch of a page."""

NARROW_INCHES = 4.1
"""Width of drawings for telephones, which show `small` text of Matplotlib as 10 pixels."""

SMALLEST = "Smallest text"
"""What a .png says of itself: the points of its smallest text."""


def partner(light: Path, *, dark: bool = False, narrow: bool = False) -> Path:
    """Where the same picture for other pages would be."""
    stem = light.stem.removesuffix("_light")
    light_end = light.stem.removeprefix(stem)
    return light.with_stem(stem + ("_narrow" if narrow else "") + ("_dark" if dark else light_end))


def size(path: Path) -> tuple[float, float]:
    """Width and height on a page with enough room, in its pixels."""
    if path.suffix == ".png":
        with Image.open(path) as picture:
            scale = PIXELS / picture.info["dpi"][0]
            return picture.width * scale, picture.height * scale
    head = path.read_text(encoding="utf-8").split("<svg", 1)[1].split(">", 1)[0]
    width, height = (
        float(number) * (PIXELS / POINTS if unit else 1)
        for number, unit in re.findall(r' (?:width|height)="([\d.]+)(pt)?"', head)
    )
    return width, height


def smallest_text(path: Path) -> float:
    """The font size of a picture's smallest text, in pixels of a page with enough room."""
    if path.suffix == ".png":
        with Image.open(path) as picture:
            return float(picture.info[SMALLEST]) * PIXELS / POINTS
    drawn = path.read_text(encoding="utf-8")
    # Matplotlib writes text as outlines of letters, which are 100 points high.
    points = [100 * float(scale) for scale in re.findall(r"scale\((0\.\d+) -0\.\d+\)", drawn)]
    written = [float(pixels) for pixels in re.findall(r'font-size="([\d.]+)"', drawn)]
    return min([number * PIXELS / POINTS for number in points] + written)
