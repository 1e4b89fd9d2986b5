"""Names of classes and models as text: literal, in any script, and wrapped if long."""

from __future__ import annotations

import sys
import textwrap
import unicodedata
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import matplotlib as mpl
from matplotlib.font_manager import FontProperties, findfont, findSystemFonts, fontManager
from matplotlib.ft2font import FT2Font

PREFERRED = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "SimHei",
    "Noto Sans",
    "Arial Unicode MS",
)
"""Fonts tried first for a character that the figure's own font lacks; then all installed fonts."""

NO_LETTERS = "Last Resort"
"""Matplotlib ships a font of this name that has a box for every character."""

CHARACTERS_NAMED = 12


def drawable(names: Sequence[str], stand_ins: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names as they can be drawn, and the font families to draw them with.

    If no installed font has a character of a name, the name is replaced by its stand-in, and one
    warning says which characters are missing and what to install.
    """
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
        shown = " ".join(missing[:CHARACTERS_NAMED]) + (" …" * (len(missing) > CHARACTERS_NAMED))
        warnings.warn(
            f"no installed font can draw {shown}: names with them are shown as numbers. Install a "
            "font that has them, such as Noto Sans CJK for Chinese, Japanese and Korean "
            "(Debian: apt-get install fonts-noto-cjk).",
            stacklevel=_caller(),
        )
    safe = [
        other if set(missing) & set(name) else name
        for name, other in zip(names, stand_ins, strict=True)
    ]
    return safe, [*families, *more]


def _learn_of_new_fonts(characters: set[str]) -> bool:
    """Tell matplotlib of installed fonts that hold characters and that its cache does not list.

    Matplotlib lists the fonts of a machine once and keeps the list in a file: a font installed
    later is unknown to it, also after a restart.
    """
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
    """A name on at most `lines` lines of `width` characters; wide characters count twice.

    On one line a long name keeps its beginning and its end: many names differ in the latter only.
    """
    if any(map(_is_wide, name)):
        width //= 2
    if lines == 1 and len(name) > width:
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
        if font.style == "normal" and not font.name.startswith(NO_LETTERS)
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


def _caller() -> int:
    """The stacklevel at which a warning names the line that called decal.plot."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("decal.plot"):
        frame, depth = frame.f_back, depth + 1
    return depth
