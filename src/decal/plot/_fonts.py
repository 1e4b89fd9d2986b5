"""Names of classes and models as text: literal, in any script, wrapped, and beside curves."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font

from decal._base.errors import DecalWarning
from decal._base.numerics import Array

PREFERRED = (
    "Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "PingFang SC",
    "Hiragino Sans GB", "Microsoft YaHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei",
    "Noto Sans", "Arial Unicode MS",
)  # fmt: skip
"""Fonts tried first for a character that the figure's own font lacks; then all installed fonts."""

SMALL = 8.33
"""Points of small text at the usual font size."""

ADVANCE, LINE = 0.58, 1.15
"""Width of an average character and height of a line, in font sizes."""


def unit() -> float:
    """The unit of line widths, marker sizes and figures: 1 at matplotlib's usual font size."""
    return float(mpl.rcParams["font.size"]) / 10


def drawable(names: Sequence[str], stand_ins: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names, or stand-ins for those that no installed font can draw, and the families of fonts."""
    names = ["".join(" " if unicodedata.category(c) == "Cc" else c for c in n) for n in names]
    families = [str(family) for family in mpl.rcParams["font.family"]]
    characters = {c for name in names for c in name if unicodedata.category(c) not in ("Cf", "Zs")}
    for family in families:
        characters -= _held(findfont(FontProperties(family=[family])), characters)
    if not characters:
        return names, families
    more, missing = _fallbacks(frozenset(characters), len(fontManager.ttflist))
    if missing and _learn_of_new_fonts(set(missing)):
        more, missing = _fallbacks(frozenset(characters), len(fontManager.ttflist))
    if missing:
        shown = " ".join(missing[:12]) + (" …" * (len(missing) > 12))
        DecalWarning.warn(
            f"no installed font can draw {shown}: names with them are shown as numbers. Install a "
            "font that has them, such as Noto Sans CJK for Chinese, Japanese and Korean "
            "(Debian: apt-get install fonts-noto-cjk)."
        )
    safe = [
        other if set(missing) & set(name) else name
        for name, other in zip(names, stand_ins, strict=True)
    ]
    return safe, [*families, *more]


def _learn_of_new_fonts(characters: set[str]) -> bool:
    """Tell matplotlib of fonts with these characters that were installed after it listed all."""
    listed = {font.fname for font in fontManager.ttflist}
    new = [path for path in sorted(findSystemFonts()) if path not in listed]
    found = [path for path in new if _held(path, characters)]
    for path in found:
        fontManager.addfont(path)
    return bool(found)


def literal(families: Sequence[str]) -> dict[str, Any]:
    """Text properties that show a name as it is, whatever dollars and underscores it has."""
    return {"fontfamily": list(families), "parse_math": False, "usetex": False}


def wrapped(name: str, width: int, lines: int = 3) -> str:
    """A name on at most `lines` lines of `width` characters; wide characters count twice."""
    if any(map(_is_wide, name)):
        width //= 2
    if lines == 1 and len(name) > width:  # keep the end: many names differ in it only
        end = textwrap.wrap(name[::-1], width // 3)[0][::-1]
        return f"{textwrap.wrap(name, width - len(end) - 3)[0]} … {end}"
    return "\n".join(textwrap.wrap(name, width, max_lines=lines, placeholder=" …")) or name


def text_width(name: str) -> int:
    """Characters in the longest line of a text, where wide ones count twice."""
    lines = name.split("\n")
    return max(len(line) + sum(_is_wide(c) for c in line) for line in lines)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


@lru_cache(maxsize=64)
def _fallbacks(characters: frozenset[str], _: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Installed families that hold the characters, and those that none of them holds."""
    rank = {name: i for i, name in enumerate(PREFERRED)}
    files = {
        font.name: font.fname
        for font in fontManager.ttflist
        # Matplotlib ships a font of this name that has a box for every character.
        if font.style == "normal" and not font.name.startswith("Last Resort")
    }
    order = sorted(files, key=lambda n: (rank.get(n, len(rank)), not n.startswith("Noto Sans"), n))
    left, families = set(characters), []
    for name in order:
        held = _held(files[name], left)
        if held:
            families.append(name)
            left -= held
        if not left:
            break
    return tuple(families), tuple(sorted(left))


def _held(path: str, characters: set[str]) -> set[str]:
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):  # an installed file that is no font that matplotlib can read
        return set()
    return {c for c in characters if font.get_char_index(ord(c))}


def beside(ax: Axes, curves: Mapping[str, Array], colours: Sequence[str]) -> bool:
    """Write the name of every curve (2, A) beside it, in its colour; False, and none, without room.

    A name covers neither a curve nor another name, and stays within the axes, whose limits are set.
    """
    names, families = drawable(list(curves), [f"method {m + 1}" for m in range(len(curves))])
    to_points = 72 / ax.figure.dpi
    box = ax.get_window_extent()
    whole = np.array([[box.x0, box.y0], [box.x1, box.y1]]) * to_points
    lines = [_along(ax.transData.transform(curve.T) * to_points) for curve in curves.values()]
    taken = np.concatenate(lines)
    size = SMALL * unit()
    placed: list[Array] = []
    sides: list[str] = []
    for m, (name, line) in enumerate(zip(names, lines, strict=True)):
        extent = np.array([ADVANCE * text_width(name) * size, 1.25 * size])
        others = np.concatenate([*lines[:m], *lines[m + 1 :], np.empty((0, 2))])
        spot = _spot(_apart(line, others), extent, taken, placed, whole)
        if spot is None:
            return False
        placed.append(spot[0])
        sides.append(spot[1])
    for name, (low, high), ha, colour in zip(names, placed, sides, colours, strict=True):
        anchor = np.array([low[0] if ha == "left" else high[0], (low[1] + high[1]) / 2])
        x, y = ax.transData.inverted().transform(anchor / to_points)
        ax.text(
            x, y, name, color=colour, fontsize=size, ha=ha, va="center", zorder=5,
            **literal(families),
        )  # fmt: skip
    return True


def _along(points: Array) -> Array:
    """(400, 2) evenly spaced points on the line through the points, or the one point."""
    order = points[np.lexsort((-points[:, 1], points[:, 0]))]
    steps = np.append(0.0, np.cumsum(np.hypot(*np.diff(order, axis=0).T)))
    at = np.linspace(0, steps[-1], 400)
    return np.column_stack([np.interp(at, steps, order[:, i]) for i in range(2)])


def _apart(line: Array, others: Array) -> Array:
    """Of 41 places along a curve, those 8 points from others: clear whose name it is."""
    places = line[np.linspace(0, len(line) - 1, 41).astype(int)]
    away = [np.hypot(*(others - place).T).min(initial=np.inf) for place in places]
    return np.asarray(places[np.array(away) >= 8 * unit()])


def _spot(
    places: Array, extent: Array, taken: Array, placed: list[Array], whole: Array
) -> tuple[Array, str] | None:
    """The free rectangle (2, 2) beside one of the places that is furthest from all curves."""
    best: tuple[float, Array, str] | None = None
    for place in places:
        for right, up in ((1, 1), (-1, -1), (1, -1), (-1, 1), (1, 0), (-1, 0)):
            away = 5 * unit() * np.array([right, up])  # points
            low = place + away - extent * np.array([right < 0, (1 - up) / 2])
            box = np.array([low, low + extent])
            if not _free(box, taken, placed, whole):
                continue
            others = np.abs(taken[:, None] - box).min(axis=1)  # cheap: to the nearer edges
            clear = float(np.hypot(*others.T).min())
            if best is None or clear > best[0]:
                best = clear, box, "left" if right > 0 else "right"
    return None if best is None else (best[1], best[2])


def _free(box: Array, taken: Array, placed: list[Array], whole: Array) -> bool:
    if (box[0] < whole[0]).any() or (box[1] > whole[1]).any():
        return False
    if ((taken >= box[0]) & (taken <= box[1])).all(axis=1).any():
        return False
    return not any((box[0] < other[1]).all() and (other[0] < box[1]).all() for other in placed)
