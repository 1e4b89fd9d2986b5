"""A report as text: an aligned table that fits the terminal."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from typing import Any

LINES = 10
WIDEST, NARROWEST = 100, 30
"""Columns of a terminal that a table takes, even if it has more, or fewer."""

LONGEST_NAME, ROOM = 24, 16
"""Characters of a name that are printed; of possible classes, if there is so little room."""

STEPS = 12
"""Characters of an interval's bar."""


def printed(report: Any, title: str, total: int) -> str:
    """The title, the promise and the first lines of a report of `total` inputs."""
    width = min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)
    shown = report[:LINES]
    lines = textwrap.wrap(title, width) + textwrap.wrap(report.promise, width)
    if len(shown):
        lines += _table(shown, width)
    if total > len(shown):
        lines.append(f"  … {total - len(shown):,} more")
    return "\n".join(lines)


def _table(report: Any, width: int) -> list[str]:
    """Its lines: with bars if these fit, and as running text if not even columns do."""
    columns = {
        name: [_cut(str(value), LONGEST_NAME) for value in values]
        for name, values in report.columns.items()
    }
    columns["lower"] = [f"{value:.3f}" for value in report.lower]
    columns["upper"] = [f"{value:.3f}" for value in report.upper]
    if report.check is not None:
        columns["check"] = ["yes" if marked else "" for marked in report.check]
    possible = [[str(name) for name in names] for names in report.possible]
    needed = max(_width("possible"), *(_width(" | ".join(names)) for names in possible))
    taken = sum(
        2 + max(map(_width, [_cut(name, LONGEST_NAME), *values]))
        for name, values in columns.items()
        if name != "possible"
    )
    room = width - taken - 2
    if room < min(needed, ROOM):
        return _running(report, width)
    columns["possible"] = [_listed(names, room) for names in possible]
    if room - needed >= STEPS + 2:
        columns["0" + "·" * (STEPS - 2) + "1"] = [
            bar(low, high) for low, high in zip(report.lower, report.upper, strict=True)
        ]
    return _aligned(columns)


def _aligned(columns: dict[str, list[str]]) -> list[str]:
    """Lines of columns that stand below each other, numbers to the right."""
    padded = []
    for name, values in columns.items():
        texts = [_cut(name, LONGEST_NAME), *values]
        size = max(map(_width, texts))
        spaces = [" " * (size - _width(text)) for text in texts]
        right = name in ("lower", "upper")
        pairs = zip(texts, spaces, strict=True)
        padded.append([space + text if right else text + space for text, space in pairs])
    return [f"  {'  '.join(line)}".rstrip() for line in zip(*padded, strict=True)]


def _running(report: Any, width: int) -> list[str]:
    """A paragraph per input."""
    lines = []
    for line in report:
        line |= {"possible": " | ".join(map(str, line["possible"])) or "none"}
        line |= {name: f"{line[name]:.3f}" for name in ("lower", "upper")}
        if "check" in line:
            line["check"] = "yes" if line["check"] else "no"
        text = ", ".join(f"{name} {value}" for name, value in line.items())
        lines += textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
    return lines


def bar(lower: float, upper: float) -> str:
    """An interval of [0, 1] as text; even the shortest is seen."""
    start = min(int(lower * STEPS), STEPS - 1)
    end = max(round(upper * STEPS), start + 1)
    return "·" * start + "█" * (end - start) + "·" * (STEPS - end)


def _listed(names: list[str], room: int) -> str:
    """Names in so much room; how many more there are if they do not fit."""
    more = ""
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count}" if count < len(names) else ""
        text = " | ".join(names[:count]) + more
        if _width(text) <= room:
            return text
    return _cut(names[0], room - len(more)) + more if names else "none"


def _width(text: str) -> int:
    """Columns of a terminal: two for characters such as those of Chinese, none for accents."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _cut(text: str, longest: int) -> str:
    if _width(text) <= longest:
        return text
    while text and _width(text) > longest - 1:
        text = text[:-1]
    return text + "…"
