"""A report as text: an aligned table that fits the terminal."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from typing import Any

from decal._base.errors import counted
from decal.credal import BETWEEN

LINES = 10
WIDEST, NARROWEST = 100, 30
"""Columns of a terminal that a table takes, even if it has more, or fewer."""

LONGEST_NAME, ROOM = 24, 16
"""Characters of a name that are printed; of possible classes, if there is so little room."""

STEPS = 12
"""Characters of an interval's bar."""


def titled(rows: int, marked: int | None) -> str:
    """So many inputs, of which so many are to be checked."""
    said = counted(rows, "input")
    return said if marked is None else f"{said}, {marked:,} to check"


def printed(report: Any, title: str, total: int) -> str:
    """The title, the promise and the first lines of a report of `total` inputs."""
    width = min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)
    shown = report[:LINES]
    lines = textwrap.wrap(title, width) + textwrap.wrap(report.promise, width)
    if len(shown):
        lines += shown.table(width)
    if total > len(shown):
        lines.append(f"  … {total - len(shown):,} more")
    return "\n".join(lines)


def checks(report: Any) -> dict[str, list[str]]:
    """The column that says whom to check, if that was asked."""
    if report.check is None:
        return {}
    return {"check": ["yes" if marked else "" for marked in report.check]}


def table(report: Any, width: int) -> list[str]:
    """Lines of a report: with bars if these fit, and as running text if not even columns do."""
    columns = {name: [cut(str(v)) for v in values] for name, values in report.columns.items()}
    columns |= checks(report)
    if report.path is not None:
        return _with_paths(report, columns, width)
    columns |= {
        name: [f"{value:.3f}" for value in getattr(report, name)] for name in ("lower", "upper")
    }
    possible = [shortened(names, report.ordered) for names in report.possible]
    needed = max(_width("possible"), *(_width(" | ".join(names)) for names in possible))
    room = width - 2 - taken({name: v for name, v in columns.items() if name != "possible"})
    if room < min(needed, ROOM):
        return _running(report, width)
    columns["possible"] = [listed(names, room) for names in possible]
    if room - needed >= STEPS + 2:
        columns["0" + "·" * (STEPS - 2) + "1"] = [
            bar(low, high) for low, high in zip(report.lower, report.upper, strict=True)
        ]
    return aligned(columns)


def taken(columns: dict[str, list[str]]) -> int:
    """Characters of a line that columns take, with what is between them."""
    return sum(2 + max(map(_width, [cut(name), *values])) for name, values in columns.items())


def _with_paths(report: Any, columns: dict[str, list[str]], width: int) -> list[str]:
    """Lines with a path, which says what is possible; it loses its top if there is little room."""
    told = ("possible", "lower", "upper", "node", "path")
    shown = {name: v for name, v in columns.items() if name not in told}
    ends, room = [path.split(BETWEEN) for path in report.path], width - taken(shown) - 4
    if room < max(_width(BETWEEN.join(["…", nodes[-1]])) for nodes in ends):
        return _running(report, width)
    return aligned(shown | {"path": [_ending(nodes, room) for nodes in ends]})


def _ending(nodes: list[str], room: int) -> str:
    """The end of a path in so much room."""
    for start in range(len(nodes)):
        text = BETWEEN.join([*["…"] * (start > 0), *nodes[start:]])
        if _width(text) <= room:
            break
    return text


def aligned(columns: dict[str, list[str]]) -> list[str]:
    """Lines of columns that stand below each other, numbers to the right."""
    padded = []
    for name, values in columns.items():
        texts = [cut(name), *values]
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
        names = shortened(line["possible"], report.ordered)
        line |= {"possible": " | ".join(names) or "none"}
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


def shortened(names: list[Any], ordered: bool) -> list[str]:
    """Names of possible classes as texts; of several in an order, one text: "2 to 4"."""
    if ordered and len(names) > 1:
        return [f"{names[0]} to {names[-1]}"]
    return [str(name) for name in names]


def listed(names: list[str], room: int, between: str = " | ") -> str:
    """Names in so much room; how many more there are if they do not fit."""
    more = ""
    for count in range(len(names), 0, -1):
        more = f" +{len(names) - count}" if count < len(names) else ""
        text = between.join(names[:count]) + more
        if _width(text) <= room:
            return text
    return cut(names[0], room - len(more)) + more if names else "none"


def _width(text: str) -> int:
    """Columns of a terminal: two for characters such as those of Chinese, none for accents."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, longest: int = LONGEST_NAME) -> str:
    """A text of so many columns of a terminal at most."""
    if _width(text) <= longest:
        return text
    while text and _width(text) > longest - 1:
        text = text[:-1]
    return text + "…"
