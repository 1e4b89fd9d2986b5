"""Recolours pictures for dark pages: python docs/dark.py

The scripts named beside them draw these pictures on white, and so do notebooks. Each colour has one
counterpart here, so that what stands out, recedes or is written on something else does so on a dark
page as well.
"""

import re
from collections.abc import Iterator
from pathlib import Path

STATIC = Path(__file__).parent / "_static"
DRAWN_ON_WHITE = (
    "scale*.svg",  # benchmarks/scale.py
    "speed_scaling*.svg",  # docs/speed_figure.py
)
TEXT = "#e3e4e6"
COUNTERPARTS = {
    "#ffffff": "#131416",  # the background of the theme's dark pages
    "#000000": "#a3a5aa",  # lines of axes: text has no colour of its own
    "#f7f7f7": "#1a1c1f",  # regions, from the faintest
    "#f0f0f0": "#202327",
    "#dedede": "#2a2e33",
    "#dcdcdc": "#2a2e33",
    "#d6d6d6": "#393a3c",  # grids
    "#d0d0d0": "#43474d",  # what is dropped
    "#b7b7b7": "#5b5d61",
    "#b0b0b0": "#8a8d92",  # grids and guides
    "#a8a8a8": "#8a8d92",
    "#a4a4a4": "#8a8d92",
    "#9a9a9a": "#8a8d92",
    "#999999": "#8a8d92",
    "#808080": "#9da0a5",
    "#7f7f7f": "#9da0a5",
    "#737373": "#9da0a5",
    "#616161": "#a5a6a6",  # decal's text
    "#212121": "#e0e0e1",
    "#9ecae1": "#27506f",  # blues, from the lightest to the darkest
    "#3182bd": "#5fa8dc",
    "#2166ac": "#5fa8dc",
    "#08306b": "#cfe3f5",
    "#e6550d": "#ff9052",
    "#0072b2": "#56b4e9",  # Okabe and Ito's
    "#d55e00": "#ff9052",
    "#009e73": "#1fbf92",
    "#cc79a7": "#dd93bb",
    "#e69f00": "#e69f00",
    "#1f77b4": "#56b4e9",  # Matplotlib's
    "#ff7f0e": "#e69f00",
    "#2ca02c": "#1fbf92",
}
TINTED = ("#0072b2", "#e69f00")  # intervals, of one model and of several
COLOUR = re.compile(r"#[0-9a-f]{6}\b")


def counterpart(colour: str) -> str:
    """The colour for dark pages. A tint on white becomes as strong a tint on dark."""
    if colour in COUNTERPARTS:
        return COUNTERPARTS[colour]
    for full in TINTED:
        whites = [255 - channel for channel in channels(full)]
        shares = [(255 - x) / white for x, white in zip(channels(colour), whites, strict=True)]
        if max(shares) - min(shares) <= 2 / min(whites):
            ends = channels(COUNTERPARTS["#ffffff"]), channels(COUNTERPARTS[full])
            mixed = (round(x + sum(shares) / 3 * (y - x)) for x, y in zip(*ends, strict=True))
            return "#" + "".join(f"{x:02x}" for x in mixed)
    raise KeyError(colour)


def channels(colour: str) -> list[int]:
    """Red, green and blue."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def dark(picture: str) -> str:
    """The same picture for dark pages; raises KeyError for a colour without counterpart."""
    recoloured = COLOUR.sub(lambda found: counterpart(found[0]), picture)
    # Matplotlib writes no colour for black text: it inherits that of the whole.
    return recoloured.replace("<svg ", f'<svg fill="{TEXT}" ', 1)


def pictures() -> Iterator[tuple[Path, Path]]:
    """Every picture drawn on white, and its dark partner."""
    for pattern in DRAWN_ON_WHITE:
        for light in sorted(STATIC.glob(pattern)):
            if not light.stem.endswith("_dark"):
                yield light, light.with_stem(f"{light.stem}_dark")


def main() -> None:
    for light, partner in pictures():
        partner.write_text(dark(light.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
