"""Draws the pictures of the gallery by the code below them: python docs/gallery.py [NAME ...]"""

import hashlib
import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from pictures import NARROW_INCHES, SMALLEST
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from decal import plot
from decal.plot import style

DOCS = Path(__file__).parent
DPI = 130
CODE = "Code"
"""What a picture says of itself: a digest of the code that drew it."""

COLUMNS = {"spiders": 1, "reliabilities": 2}
"""Figures of many panels, and how many of these stand side by side on a telephone."""

LIGHT = {"figure.facecolor": "white", "axes.facecolor": "white"}
BLACK, WHITE = "#131416", "#e3e4e6"  # the theme's
DARK = {"figure.facecolor": BLACK, "axes.facecolor": BLACK, "text.color": WHITE}

SHOWN = re.compile(
    r"(?:^```\{picture\} _static/gallery/(\w+)_light\.png\n.*?^```\n\n)?^```python\n(.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def steps() -> Iterator[tuple[str, str, str]]:
    """Of every snippet: the picture above it or "", its code, and a digest of all code so far."""
    digest = hashlib.sha256()
    for name, code in SHOWN.findall((DOCS / "gallery.md").read_text(encoding="utf-8")):
        digest.update(code.encode())
        yield name, code, digest.hexdigest()[:16]


def main(wanted: list[str]) -> None:
    for mode, colours in (("light", LIGHT), ("dark", DARK)):
        names: dict[str, object] = {}
        for name, code, digest in steps():
            with plt.rc_context(colours):
                exec(code, names)
                if name and (not wanted or name in wanted):
                    save(plt.gcf(), f"{name}_{mode}", digest)
                    plt.close("all")
                    with narrow(COLUMNS.get(name)):
                        exec(code, dict(names))
                    save(plt.gcf(), f"{name}_narrow_{mode}", digest)
            plt.close("all")


@contextmanager
def narrow(columns: int | None) -> Iterator[None]:
    """New figures are as wide as a telephone, grids have so many columns, and maps three."""
    wide, grid, maps = style.axes_or_new, plot.grid, plot.maps

    def made(ax: Axes | None, width: float, height: float, **kind: object) -> Axes:
        return wide(ax, min(width, NARROW_INCHES), height, **kind)

    style.axes_or_new, plot.grid = made, partial(grid, ncols=columns)
    plot.maps = partial(maps, panels=["prediction", "possible", "errors"])
    try:
        yield
    finally:
        style.axes_or_new, plot.grid, plot.maps = wide, grid, maps


def save(figure: Figure, name: str, digest: str) -> None:
    """A picture of 256 colours, a third of the size, which says how small its text is."""
    buffer, said = io.BytesIO(), PngInfo()
    figure.savefig(buffer, dpi=DPI)
    said.add_text(SMALLEST, f"{min(text.get_fontsize() for text in written(figure)):.2f}")
    said.add_text(CODE, digest)
    picture = Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    path = DOCS / "_static" / "gallery" / f"{name}.png"
    picture.save(path, optimize=True, dpi=(DPI, DPI), pnginfo=said)


def written(figure: Figure) -> list[Text]:
    """All text that is seen."""
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


if __name__ == "__main__":
    main(sys.argv[1:])
